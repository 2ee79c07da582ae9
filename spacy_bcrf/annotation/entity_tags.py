"""Entities as spaCy holds them in tokens, and as tag ids of a scheme.

Arrays are flat over a batch: `iob` (N,) and `types` (N,) are the tokens' ENT_IOB and ENT_TYPE,
`first` (N,) tells which tokens start a document, and there are T tags.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from spacy_bcrf.chain import Potentials
from spacy_bcrf.kernels import array_module

from .arrays import UNKNOWN, LabelIndex, Values
from .partial import Bounds, PartialAnnotation
from .schemes import Scheme

# Token.ent_iob
MISSING, INSIDE, OUTSIDE, BEGIN = range(4)

Bools = NDArray[np.bool_]
Ids = NDArray[np.int32]


class EntityTags:
    """The tags of a scheme for entities whose types are the given values of ENT_TYPE."""

    def __init__(self, scheme: Scheme, types: Sequence[int]) -> None:
        labels = [str(value) for value in types]
        prefixes = scheme.prefixes
        self.span_tags = scheme.span_tags(labels)
        self.transitions = scheme.transitions(labels)
        self.may_start = scheme.starts(labels)
        self.may_end = scheme.ends(labels)
        self._continues = ~self.may_start
        may_continue = (self.transitions & self._continues).any(axis=1)
        # In BIO a tag does not tell whether it is the last of its entity; the next one does.
        self.is_end_open = bool((self.may_end & may_continue).any())
        self._is_edge = self.may_start | (self.may_end & ~may_continue)
        self._is_edge[0] = False
        # By whether a token continues its entity, and whether its entity goes on.
        self._prefix = np.array(
            [
                [prefixes.index(scheme.single), prefixes.index(scheme.first)],
                [prefixes.index(scheme.last), prefixes.index(scheme.inside)],
            ]
        )
        self._n_prefixes = len(prefixes)
        self._index = LabelIndex(types)

    def __len__(self) -> int:
        return len(self.may_start)

    @staticmethod
    def goes_on(iob: Values, first: Bools) -> Bools:
        """(N,) which tokens continue an entity."""
        return (iob == INSIDE) & ~first

    def is_unknown(self, iob: Values, types: Values) -> Bools:
        """(N,) which tokens are in an entity of none of the types."""
        return _in_entity(iob, types) & (self._index.find(types) < 0)

    def encode(self, iob: Values, types: Values, first: Bools) -> Ids:
        """(N,) ids, -1 where the annotation is missing or the type unknown. Invalid annotation
        becomes invalid labelings."""
        goes_on = _before(self.goes_on(iob, first))
        prefix = self._prefix[(iob == INSIDE).astype(int), goes_on.astype(int)]
        labels = self._index.find(types)
        ids = np.where(_in_entity(iob, types), 1 + labels * self._n_prefixes + prefix, 0)
        ids[(iob == MISSING) | self.is_unknown(iob, types)] = UNKNOWN
        return ids.astype("int32")

    def gold(self, iob: Values, types: Values, first: Bools) -> Ids | Bools:
        """`encode`, or bool (N, T) if that cannot say it all: that an annotated entity ends where
        missing annotation follows."""
        ids = self.encode(iob, types, first)
        after_entity = (ids == UNKNOWN) & _after(ids > 0, first)
        if not (self.is_end_open and after_entity.any()):
            return ids
        allowed = (ids[:, None] == np.arange(len(self))) | (ids[:, None] == UNKNOWN)
        allowed[after_entity] &= ~self._continues
        return allowed

    def lattice(
        self, iob: Values, types: Values, starts_sentence: Bools, is_space: Bools, first: Bools
    ) -> Bools | None:
        """(N, T) the tags that are open to each token, None if all are to all.

        An entity or blocked token that is there stays, all else may change, as in spaCy's `ner`;
        and no new entity crosses a sentence start, or starts or ends on whitespace.
        """
        preset = (iob == BEGIN) | (iob == INSIDE)
        new_sentence = starts_sentence & ~first
        if not (preset.any() or new_sentence.any() or is_space.any()):
            return None
        allowed = np.ones((len(iob), len(self)), dtype=bool)
        allowed[new_sentence] &= ~self._continues
        allowed[is_space] &= ~self._is_edge
        # Set token by token, I may follow O or another type: that is a B then.
        continues = _after(_in_entity(iob, types), first) & (types == np.roll(types, 1))
        iob = np.where((iob == INSIDE) & ~continues, BEGIN, iob)
        allowed[preset] = False
        allowed[preset, self.encode(iob, types, first)[preset]] = True
        allowed[_after(preset, first) & ~preset] &= ~self._continues
        return allowed

    def mark(
        self, allowed: Bools, iob: Values, markings: PartialAnnotation, labels: Sequence[str]
    ) -> list[tuple[int, int, int]]:
        """Restrict or open the lattice (n, T) of one document by what else it says, in place.

        RETURNS the spans, with their labels, that are known to be wrong and that no lattice of
        tags can leave out. ValueError naming a label that there is not.
        """
        is_open = iob == OUTSIDE
        if markings.annotated_labels is not None:
            others = np.ones(len(self), dtype=bool)
            others[self._tags_of(markings.annotated_labels, labels)] = False
            allowed[is_open] = others
            if self.is_end_open:
                # What was annotated ends where it ends.
                was_in_entity = (iob[:-1] == BEGIN) | (iob[:-1] == INSIDE)
                allowed[1:][is_open[1:] & was_in_entity] &= ~self._continues
        for token in markings.unknown:
            allowed[token] |= is_open[token]
        for token, names in markings.allowed.items():
            tags = np.zeros(len(self), dtype=bool)
            tags[self._tags_of(names - {"O"}, labels)] = True
            tags[0] = "O" in names
            allowed[token] = tags if is_open[token] else tags & allowed[token]
            is_open[token] = False
        for (start, end), names in markings.ambiguous.items():
            span = self._of_span(end - start, self._find(names, labels))
            for token, tags in enumerate(span, start):
                allowed[token] = tags if is_open[token] else tags & allowed[token]
            allowed[end : end + 1] &= ~self._continues
        rejected = []
        for (start, end), names in markings.incorrect.items():
            types = self._find(names, labels)
            if end - start == 1 and not self.is_end_open:
                allowed[start, self.span_tags.single[types]] = False
            else:
                rejected += [(start, end, label) for label in types]
        return rejected

    def pin(self, allowed: Bools, start: int, end: int, labels: Sequence[int]) -> Bools:
        """(n, T): of these tags those of labelings that have a span of one of these labels."""
        pinned = allowed.copy()
        pinned[start:end] &= self._of_span(end - start, labels)
        pinned[end : end + 1] &= ~self._continues
        return pinned

    def _of_span(self, length: int, labels: Sequence[int]) -> Bools:
        """(length, T)"""
        tags = np.zeros((length, len(self)), dtype=bool)
        first, inside, last, single = self.span_tags
        tags[1:-1, inside[labels]] = True
        tags[-1, last[labels]] = True
        tags[0] = False
        tags[0, (single if length == 1 else first)[labels]] = True
        return tags

    def spans(self, iob: Values, types: Values, labels: Sequence[str]) -> dict[Bounds, str]:
        """The annotated entities (n,) of one document, of the types there are."""
        starts = np.flatnonzero((iob == BEGIN) & (types > 0))
        stops = np.flatnonzero(np.append(iob[1:] != INSIDE, True)) + 1
        ends = stops[np.searchsorted(stops, starts, side="right")]
        found = self._index.find(types[starts])
        return {
            (start, end): labels[label]
            for start, end, label in zip(*(x.tolist() for x in (starts, ends, found)), strict=True)
            if label >= 0
        }

    def _find(self, names: Iterable[str], labels: Sequence[str]) -> list[int]:
        """Indices of labels by name; of all if one of the names is empty."""
        if "" in names:
            return list(range(len(labels)))
        if unknown := sorted(set(names) - set(labels)):
            raise ValueError(f"unknown labels {', '.join(unknown)}")
        return [labels.index(name) for name in sorted(names)]

    def _tags_of(self, names: Iterable[str], labels: Sequence[str]) -> NDArray[np.int64]:
        first = 1 + np.array(self._find(names, labels), dtype="int64") * self._n_prefixes
        return (first[:, None] + np.arange(self._n_prefixes)).ravel()

    def forbid_ends(self, potentials: Potentials, tokens: Bools) -> Potentials:
        """Those under which no entity ends at these tokens (N,).

        For where `is_end_open`: whether one does is told by pairs of tags, which no lattice
        restricts. Takes O(N T^2) memory.
        """
        xp = array_module(potentials.unary)
        n_tokens, n_tags = potentials.unary.shape
        at, ends = xp.asarray(tokens), potentials.ends
        forbidden = potentials.unary.dtype.type("-inf")
        unary = potentials.unary.copy()
        unary[ends[at[ends]], 1:] = forbidden
        transitions = xp.broadcast_to(potentials.transitions, (n_tokens, n_tags, n_tags)).copy()
        is_end = (xp.arange(n_tags) > 0)[:, None] & ~xp.asarray(self._continues)
        transitions[at] = xp.where(is_end, forbidden, transitions[at])
        return Potentials(unary, transitions, potentials.lengths)


def _in_entity(iob: Values, types: Values) -> Bools:
    return ((iob == BEGIN) | (iob == INSIDE)) & (types > 0)


def _before(tokens: Bools) -> Bools:
    """(N,) which tokens come just before one of these, of which none starts a document."""
    return np.roll(tokens, -1)


def _after(tokens: Bools, first: Bools) -> Bools:
    """(N,) which tokens come just after one of these in the same document."""
    return np.roll(tokens, 1) & ~first
