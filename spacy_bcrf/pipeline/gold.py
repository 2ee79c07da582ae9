"""Gold annotation of examples, as tags of a component."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc
from spacy.training import Example

from spacy_bcrf.annotation.arrays import UNKNOWN, Bools, allowed_tags
from spacy_bcrf.chain import Rejection, feasible
from spacy_bcrf.kernels import Array
from spacy_bcrf.layers.protocol import LabelingModel

from .codecs import Codec


class Gold(NamedTuple):
    """Gold annotation of a batch.

    tags: int32 (N,) with UNKNOWN, or allowed tags, bool (N, T).
    problems: by example, why training treats it as unannotated. rejections: wrong labelings.
    """

    tags: Array
    problems: dict[int, str]
    rejections: list[Rejection]


class GoldReader:
    """Read the gold annotation of examples. Treat infeasible gold as unannotated."""

    def __init__(self, name: str, codec: Codec, model: LabelingModel) -> None:
        self._name = name
        self._codec = codec
        self._model = model
        self._needs_whole_gold = getattr(model.objective, "needs_whole_gold", False)
        # By reference: a hash of its gold and lattice, and whether they have a labeling in common.
        # Training passes the same references in every epoch.
        self._checked: WeakKeyDictionary[Doc, tuple[int, bool]] = WeakKeyDictionary()

    def __reduce__(self) -> tuple:
        return GoldReader, (self._name, self._codec, self._model)

    def read(self, examples: Sequence[Example], lattice: Bools | None) -> Gold:
        """Return the gold of examples.

        lattice: the open tags (N, T) of the predicted documents, None if all are open.
        """
        codec = self._codec
        ops: Any = self._model.model.ops
        lengths = np.array([len(example.predicted) for example in examples], dtype="int32")
        stops = lengths.cumsum()
        values, problems = codec.read_gold(examples)
        tags, has_unknown_label = codec.encode(values, lengths)
        partial, unreadable = codec.read_partial(examples)
        problems = unreadable | problems
        if partial:
            tags = allowed_tags(tags, len(codec.tags))
        by_doc = np.split(tags, stops[:-1])
        rejected = codec.constrain(
            examples, partial, np.split(values, stops[:-1]), by_doc, problems
        )
        if self._model.hooks.learn is not None:
            why = "a sparse linear chain cannot learn an incorrect span of several tokens"
            problems.update((i, why) for i, _ in rejected if i not in problems)
        if has_unknown_label.any():
            for i in np.unique(stops.searchsorted(np.flatnonzero(has_unknown_label), "right")):
                unknown = codec.find_labels(examples[i].reference).difference(codec.labels)
                problems[int(i)] = f"unknown labels {', '.join(sorted(unknown))}"
        self._find_partial(examples, partial, by_doc, problems)
        self._find_infeasible(examples, by_doc, lattice, problems)
        for i in problems:
            by_doc[i][:] = True if tags.dtype == bool else UNKNOWN
        kept = [Rejection(i, ops.asarray(x)) for i, x in rejected if i not in problems]
        return Gold(ops.asarray(tags), problems, kept)

    def _find_partial(
        self,
        examples: Sequence[Example],
        partial: dict[int, Any],
        by_doc: Sequence[NDArray],
        problems: dict[int, str],
    ) -> None:
        """Add problems of partial gold, if the objective needs a complete labeling.

        A complete reference has partial gold if its tokens are misaligned. ValueError for a
        partially annotated reference: the head is the wrong choice for it.
        """
        if not self._needs_whole_gold:
            return
        head = self._model.output_layer.name
        for i, (example, tags) in enumerate(zip(examples, by_doc, strict=True)):
            known = tags.sum(axis=1) == 1 if tags.dtype == bool else tags != UNKNOWN
            if i in problems or known.all() or not known.any():
                continue
            reference = example.reference
            if i in partial or not self._codec.is_whole(reference):
                raise ValueError(
                    f"[{self._name}] {reference.text!r} is partially annotated: the head {head!r} "
                    "cannot learn from partial annotation, because its distribution cannot be "
                    "restricted to a set of labelings. Use a CRF or BCRF, or annotate all tokens "
                    "of a document or none"
                )
            problems[i] = (
                f"its tokens differ from the pipeline's, and {head} needs gold for all tokens"
            )

    def _find_infeasible(
        self,
        examples: Sequence[Example],
        by_doc: Sequence[NDArray],
        lattice: Bools | None,
        problems: dict[int, str],
    ) -> None:
        """Add problems of gold that the constraints or the lattice forbid.

        Each pair of gold and lattice is decoded once in the lifetime of the reference.
        """
        if lattice is None and self._codec.constraints is None and by_doc[0].dtype != bool:
            return
        n_tags = len(self._codec.tags)
        stops = np.cumsum([len(tags) for tags in by_doc])
        open_tags = None if lattice is None else np.split(lattice, stops[:-1])
        passes: dict[int, bool] = {}
        hashes = []
        for i, (example, tags) in enumerate(zip(examples, by_doc, strict=True)):
            hashes.append(hash((tags.tobytes(), open_tags and open_tags[i].tobytes())))
            checked, is_feasible = self._checked.get(example.reference, (None, False))
            if checked == hashes[i]:
                passes[i] = is_feasible
        if new := [i for i in range(len(examples)) if i not in passes]:
            lengths = np.array([len(by_doc[i]) for i in new], dtype="int32")
            allowed = np.concatenate([by_doc[i] for i in new])
            if allowed.dtype != bool:
                allowed = allowed_tags(allowed, n_tags)
            if open_tags is not None:
                allowed = allowed & np.concatenate([open_tags[i] for i in new])
            found = feasible(self._model.zero_potentials(lengths, allowed)).tolist()
            passes.update(zip(new, found, strict=True))
            for i in new:
                self._checked[examples[i].reference] = hashes[i], passes[i]
        for i, is_feasible in passes.items():
            if not is_feasible:
                problems.setdefault(i, f"{self._codec.restrictions} forbid it")

    def forget(self) -> None:
        """Forget all feasibility checks, after a change of the constraints."""
        self._checked.clear()


def warn_of_problems(
    name: str, where: str, examples: Sequence[Example], problems: dict[int, str]
) -> None:
    """Warn about the number of infeasible examples, and name the first one and its problem."""
    first = min(problems)
    text = examples[first].reference.text
    start = text if len(text) <= 60 else f"{text[:60]}..."
    warnings.warn(
        f"[{name}] {len(problems)} of {len(examples)} documents in {where} have gold annotation "
        f"that cannot be learned; they are trained on as unannotated. The first is document "
        f"{first}, {start!r}: {problems[first]}. Further problems are not reported.",
        stacklevel=2,
    )
