"""Gold annotation of examples, as tags of a component."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc
from spacy.training import Example

from spacy_bcrf.annotation.arrays import UNKNOWN, Bools, allowed_tags, find_bounds
from spacy_bcrf.chain import Constraints
from spacy_bcrf.chain.unlikelihood import Rejection
from spacy_bcrf.kernels import Array
from spacy_bcrf.layers.linear_chain import find_obstacle
from spacy_bcrf.layers.protocol import LabelingModel

from .codecs import Codec


class Gold(NamedTuple):
    """Gold annotation of a batch.

    tags: int32 (N,) with UNKNOWN, or allowed tags, bool (N, T).
    problems: by example, why training treats it as unannotated. rejections: wrong labelings.
    lattice: the open tags (N, T) of the predicted documents, None if all are open. n_chains: C, see
    `Codec`; all arrays have C N rows.
    """

    tags: Array
    problems: dict[int, str]
    rejections: list[Rejection]
    lattice: Bools | None = None
    n_chains: int = 1

    def leave_out_rejections(self, docs: Sequence[Doc]) -> list[int]:
        """Make the tags of documents with rejections unknown. RETURNS their indices."""
        bounds = find_bounds(docs)
        rejected = sorted({rejection.sequence // self.n_chains for rejection in self.rejections})
        for i in rejected:
            start, end = (self.n_chains * bound for bound in bounds[i])
            self.tags[start:end] = True if self.tags.dtype == bool else UNKNOWN
        return rejected


class GoldReader:
    """Read the gold annotation of examples. Treat infeasible gold as unannotated."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        # By reference: whether gold and lattice have a labeling in common, by a hash of both.
        # Training passes the same references in every epoch.
        self._checked: WeakKeyDictionary[Doc, dict[int, bool]] = WeakKeyDictionary()

    def __reduce__(self) -> tuple:
        return GoldReader, (self._codec,)

    def read(self, examples: Sequence[Example], model: LabelingModel) -> Gold:
        """Return the gold of examples.

        ValueError for a partially annotated reference that the head cannot learn from.
        """
        codec = self._codec
        lattice = codec.lattice([example.predicted for example in examples])
        ops: Any = model.model.ops
        lengths = np.array([len(example.predicted) for example in examples], dtype="int32")
        stops = lengths.cumsum()
        values, problems = codec.read_gold(examples)
        tags, has_unknown_label = codec.encode(values, lengths)
        partial, unreadable = codec.read_partial(examples)
        problems = unreadable | problems
        if partial:
            tags = allowed_tags(tags, codec.n_tags)
        by_doc = np.split(tags, codec.n_chains * stops[:-1])
        rejected = codec.constrain(
            examples, partial, np.split(values, stops[:-1]), by_doc, problems
        )
        if rejected and (why := find_obstacle(model.model)):
            why = f"it has an incorrect span of several tokens, and {why}"
            rejecting = {sequence // codec.n_chains for sequence, _ in rejected}
            problems.update((i, why) for i in rejecting if i not in problems)
        if has_unknown_label.any():
            for i in np.unique(stops.searchsorted(np.flatnonzero(has_unknown_label), "right")):
                unknown = codec.find_labels(examples[i].reference).difference(codec.labels)
                problems[int(i)] = f"unknown labels {', '.join(sorted(unknown))}"
        if getattr(model.objective, "needs_whole_gold", False):
            head = model.output_layer.name
            self._find_partial(head, examples, partial, by_doc, problems)
        if lattice is not None or codec.constraints is not None or tags.dtype == bool:
            self._find_infeasible(examples, tags, stops, lattice, model, problems)
        for i in problems:
            by_doc[i][:] = True if tags.dtype == bool else UNKNOWN
        kept = [
            Rejection(sequence, ops.asarray(wrong))
            for sequence, wrong in rejected
            if sequence // codec.n_chains not in problems
        ]
        return Gold(ops.asarray(tags), problems, kept, lattice, codec.n_chains)

    def _find_partial(
        self,
        head: str,
        examples: Sequence[Example],
        partial: dict[int, Any],
        by_doc: Sequence[NDArray],
        problems: dict[int, str],
    ) -> None:
        """Add problems of partial gold, for a head that needs a complete labeling.

        A complete reference has partial gold if its tokens are misaligned. ValueError for a
        partially annotated reference: the head is the wrong choice for it.
        """
        for i, (example, tags) in enumerate(zip(examples, by_doc, strict=True)):
            known = tags.sum(axis=1) == 1 if tags.dtype == bool else tags != UNKNOWN
            if i in problems or known.all() or not known.any():
                continue
            reference = example.reference
            if i in partial or self._codec.unannotated(reference).any():
                raise ValueError(
                    f"{reference.text!r} is partially annotated: the head {head!r} "
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
        tags: NDArray,
        stops: NDArray[np.integer],
        lattice: Bools | None,
        model: LabelingModel,
        problems: dict[int, str],
    ) -> None:
        """Add problems of gold that the constraints or the lattice forbid.

        Each pair of gold and lattice is decoded once in the lifetime of the reference.
        """
        n_tags, n_chains = self._codec.n_tags, self._codec.n_chains
        allowed = tags if tags.dtype == bool else allowed_tags(tags, n_tags)
        if lattice is not None:
            allowed = allowed & lattice
        data, bounds = allowed.tobytes(), [0, *(stops * n_chains * n_tags).tolist()]
        hashes = [hash(data[start:end]) for start, end in pairwise(bounds)]
        known = [self._checked.setdefault(example.reference, {}) for example in examples]
        if new := [i for i in range(len(examples)) if hashes[i] not in known[i]]:
            by_doc = np.split(allowed, n_chains * stops[:-1])
            chains = [part for i in new for part in np.split(by_doc[i], n_chains)]
            found = np.reshape(feasible(chains, self._codec.constraints), (-1, n_chains))
            for i, all_chains in zip(new, found, strict=True):
                known[i][hashes[i]] = bool(all_chains.all())
        for i in range(len(examples)):
            if not known[i][hashes[i]]:
                problems.setdefault(i, f"{self._codec.restrictions} forbid it")

    def forget(self) -> None:
        """Forget all feasibility checks, after a change of the constraints."""
        self._checked.clear()


def feasible(docs: Sequence[Bools], constraints: Constraints | None) -> list[bool]:
    """Return whether each document has a labeling under its allowed tags (n, T) and constraints.

    O(n T) for complete gold, O(n T^2) for partial gold.
    """
    if constraints is None:
        return [bool(tags.any(axis=1).all()) for tags in docs]
    found = [True] * len(docs)
    partial = []
    for i, tags in enumerate(docs):
        if not (tags.sum(axis=1) == 1).all():
            partial.append(i)
        elif len(tags):
            ids = tags.argmax(axis=1)
            follows = constraints.transitions[ids[:-1], ids[1:]]
            found[i] = bool(
                constraints.start[ids[0]] and follows.all() and constraints.end[ids[-1]]
            )
    if not partial:
        return found
    # The longest first: the documents that have a token at a position are the first ones.
    partial.sort(key=lambda i: -len(docs[i]))
    lengths = np.array([len(docs[i]) for i in partial])
    transitions = constraints.transitions.astype("float32")
    reached = np.array([docs[i][0] & constraints.start for i in partial])
    for position in range(1, lengths[0]):
        n_docs = int((lengths > position).sum())
        tags = np.array([docs[i][position] for i in partial[:n_docs]])
        reached[:n_docs] = (reached[:n_docs] @ transitions > 0) & tags
    for i, tags in zip(partial, reached, strict=True):
        found[i] = bool((tags & constraints.end).any())
    return found


@dataclass
class Problems:
    """Gold annotation of D documents that cannot be learned. first: index, text and problem."""

    n_docs: int = 0
    n: int = 0
    first: tuple[int, str, str] | None = None

    @classmethod
    def of(cls, examples: Sequence[Example], gold: Gold) -> Problems:
        """Return the problems of a batch."""
        found = cls()
        found.add(examples, gold.problems)
        return found

    def add(self, examples: Sequence[Example], problems: dict[int, str]) -> None:
        """Add the next examples, and their problems by index."""
        if problems and self.first is None:
            i = min(problems)
            self.first = self.n_docs + i, examples[i].reference.text, problems[i]
        self.n_docs += len(examples)
        self.n += len(problems)

    def warn(self, name: str, where: str) -> bool:
        """Warn about the number of documents, and name the first one. RETURNS whether there are."""
        if self.first is None:
            return False
        i, text, problem = self.first
        start = text if len(text) <= 60 else f"{text[:60]}..."
        warnings.warn(
            f"[{name}] {self.n} of {self.n_docs} documents in {where} have gold annotation that "
            f"cannot be learned. Training treats them as unannotated. The first is document {i}, "
            f"{start!r}: {problem.rstrip('.')}. Further problems are not reported.",
            stacklevel=3,
        )
        return True
