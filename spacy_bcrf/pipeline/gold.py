"""Gold annotation of examples, for a component's codec and model."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple
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
    """What examples teach.

    tags: int32 (N,) with UNKNOWN, or allowed tags, bool (N, T).
    problems: by example, why nothing is learned from it. rejections: wrong labelings.
    """

    tags: Array
    problems: dict[int, str]
    rejections: list[Rejection]


class GoldReader:
    """Reads the gold of examples, and leaves out examples that cannot be learned."""

    def __init__(self, name: str, codec: Codec, model: LabelingModel) -> None:
        self._name = name
        self._codec = codec
        self._model = model
        self._needs_whole_gold = getattr(model.objective, "needs_whole_gold", False)
        # By reference: a hash of its gold and lattice, and whether gold and lattice have a labeling
        # in common. Training sees the same references in every pass.
        self._checked: WeakKeyDictionary[Doc, tuple[int, bool]] = WeakKeyDictionary()

    def __reduce__(self) -> tuple:
        return GoldReader, (self._name, self._codec, self._model)

    def read(self, examples: Sequence[Example], lattice: Bools | None) -> Gold:
        """Return the gold of examples. lattice: the tags (N, T) that the predicted documents leave
        open, None for all."""
        codec, asarray = self._codec, self._model.asarray
        lengths = np.array([len(example.predicted) for example in examples], dtype="int32")
        stops = lengths.cumsum()
        rows = [slice(stop - length, stop) for stop, length in zip(stops, lengths, strict=True)]
        values, problems = codec.read_gold(examples)
        tags, has_unknown_label = codec.encode(values, lengths)
        marked = [i for i, eg in enumerate(examples) if codec.has_partial_annotation(eg.reference)]
        rejected: list[tuple[int, Bools]] = []
        if marked:
            tags = allowed_tags(tags, len(codec.tags))
        for i in marked:
            try:
                wrong = codec.constrain(examples[i], values[rows[i]], tags[rows[i]])
                rejected += [(i, labelings) for labelings in wrong]
            except ValueError as error:
                problems.setdefault(i, str(error))
        if self._model.hooks.learn is not None:
            why = "a sparse linear chain cannot learn that a span of several tokens is no entity"
            problems.update((i, why) for i, _ in rejected if i not in problems)
        if has_unknown_label.any():
            for i in np.unique(stops.searchsorted(np.flatnonzero(has_unknown_label), "right")):
                unknown = codec.find_labels(examples[i].reference).difference(codec.labels)
                problems[int(i)] = f"unknown labels {', '.join(sorted(unknown))}"
        self._find_partial(examples, tags, rows, problems)
        self._find_infeasible(examples, tags, lattice, rows, problems)
        for i in problems:
            tags[rows[i]] = True if tags.dtype == bool else UNKNOWN
        kept = [Rejection(i, asarray(x)) for i, x in rejected if i not in problems]
        return Gold(asarray(tags), problems, kept)

    def _find_partial(
        self,
        examples: Sequence[Example],
        tags: NDArray,
        rows: list[slice],
        problems: dict[int, str],
    ) -> None:
        """Add examples with gold for some tokens only, where the objective needs whole gold.

        Such gold comes from misaligned tokens. ValueError for a reference that is annotated only in
        part: the choice of the head is wrong then.
        """
        if not self._needs_whole_gold:
            return
        head = self._model.output_layer.name
        known = tags.sum(axis=1) == 1 if tags.dtype == bool else tags != UNKNOWN
        for i, example in enumerate(examples):
            if i in problems or known[rows[i]].all() or not known[rows[i]].any():
                continue
            reference = example.reference
            if self._codec.has_partial_annotation(reference) or not self._codec.is_whole(reference):
                raise ValueError(
                    f"[{self._name}] {reference.text!r} is annotated only in part: the head "
                    f"{head!r} cannot learn from that, since its distribution cannot be restricted "
                    "to a set of labelings. Use a CRF or BCRF, or annotate all tokens of a "
                    "document or none"
                )
            problems[i] = f"its tokens are not the pipeline's, and {head} needs gold for all tokens"

    def _find_infeasible(
        self,
        examples: Sequence[Example],
        tags: NDArray,
        lattice: Bools | None,
        rows: list[slice],
        problems: dict[int, str],
    ) -> None:
        """Add examples whose gold labelings the constraints or the lattice forbid.

        Each pair of gold and lattice is decoded once, as long as the reference lives.
        """
        if lattice is None and self._codec.constraints is None and tags.dtype != bool:
            return
        passes: dict[int, bool] = {}
        hashes = []
        for i, (example, at) in enumerate(zip(examples, rows, strict=True)):
            open_tags = b"" if lattice is None else lattice[at].tobytes()
            hashes.append(hash((tags[at].tobytes(), open_tags)))
            checked, is_feasible = self._checked.get(example.reference, (None, False))
            if checked == hashes[i]:
                passes[i] = is_feasible
        if new := [i for i in range(len(examples)) if i not in passes]:
            lengths = np.array([rows[i].stop - rows[i].start for i in new], dtype="int32")
            tokens = np.concatenate([np.arange(rows[i].start, rows[i].stop) for i in new])
            allowed = allowed_tags(tags[tokens], len(self._codec.tags))
            if lattice is not None:
                allowed = allowed & lattice[tokens]
            found = feasible(self._model.zero_potentials(lengths, allowed)).tolist()
            passes.update(zip(new, found, strict=True))
            for i in new:
                self._checked[examples[i].reference] = hashes[i], passes[i]
        for i, is_feasible in passes.items():
            if not is_feasible:
                problems.setdefault(i, f"{self._codec.restrictions} forbid it")

    def forget(self) -> None:
        """Check all gold again, after a change of the constraints."""
        self._checked.clear()


def warn_of_problems(
    name: str, where: str, examples: Sequence[Example], problems: dict[int, str]
) -> None:
    """Warn how many examples cannot be learned, and name the first one and its problem."""
    first = min(problems)
    text = examples[first].reference.text
    start = text if len(text) <= 60 else f"{text[:60]}..."
    warnings.warn(
        f"[{name}] {len(problems)} of {len(examples)} documents in {where} have gold annotation "
        f"that cannot be learned; they are trained on as unannotated. The first is document "
        f"{first}, {start!r}: {problems[first]}. Further problems are not reported.",
        stacklevel=2,
    )
