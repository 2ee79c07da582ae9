"""Entities as token attributes of spaCy, and as tag ids of a scheme.

Arrays are flat, of N tokens and T tags. `iob` and `types` (N,) are ENT_IOB and ENT_TYPE; `first`
(N,) is a mask of the first token of each document.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from bcrf.chain import Potentials
from bcrf.kernels import array_module
from bcrf.schemes import Scheme

from .arrays import UNKNOWN, Bools, Values, allowed_tags
from .partial import Bounds, PartialAnnotation

# Token.ent_iob
MISSING, INSIDE, OUTSIDE, BEGIN = range(4)

Ids = NDArray[np.int32]


class LabelIndex:
    """Map from the values of a token attribute to label indices."""

    def __init__(self, values: Sequence[int]) -> None:
        unsorted = np.array(values, dtype="uint64")
        self._order = unsorted.argsort()
        self._values = unsorted[self._order]

    def find(self, values: Values) -> NDArray[np.int64]:
        """Return the label indices (N,) of values, -1 for a value without a label."""
        if not len(self._values):
            return np.full(len(values), -1)
        at = self._values.searchsorted(values).clip(max=len(self._values) - 1)
        return np.where(self._values[at] == values, self._order[at], -1)


class EntityTags:
    """Tags of a scheme for entities. labels: names. types: the value of ENT_TYPE of each label."""

    def __init__(self, scheme: Scheme, labels: Sequence[str], types: Sequence[int]) -> None:
        prefixes = scheme.prefixes
        self.scheme, self.labels = scheme, list(labels)
        self.span_tags = scheme.span_tags(labels)
        self.constraints = scheme.constraints(labels)
        self.transitions, self.may_start = self.constraints.transitions, self.constraints.start
        may_end = self.constraints.end
        self._continues = ~self.may_start
        may_continue = (self.transitions & self._continues).any(axis=1)
        # A BIO tag leaves open whether its entity ends. The next tag decides.
        self.is_end_open = bool((may_end & may_continue).any())
        self.is_edge = self.may_start | (may_end & ~may_continue)
        self.is_edge[0] = False
        # Prefix by (does the token continue its entity, does the entity continue after it).
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

    def keep_foreign(self, old: Values, predicted: Values) -> Values:
        """Return new ENT_IOB and ENT_TYPE (n, 2), with old blocked tokens and unknown labels."""
        iob, types = old.T
        foreign = _in_entity(iob, types) & (self._index.find(types) < 0)
        foreign |= (iob == BEGIN) & (types == 0)
        first = np.arange(len(old)) == 0
        kept = np.column_stack([_begin_entities(iob, types, first), types])
        return np.where(foreign[:, None], kept, predicted)

    @staticmethod
    def continues(iob: Values, first: Bools) -> Bools:
        """Return a mask (N,) of the tokens that continue an entity."""
        return (iob == INSIDE) & ~first

    def encode(self, iob: Values, types: Values, first: Bools) -> tuple[Ids, Bools]:
        """Return ids (N,), UNKNOWN without annotation or a known label, and unknown labels (N,)."""
        labels = self._index.find(types)
        in_entity = _in_entity(iob, types)
        unknown_label = in_entity & (labels < 0)
        goes_on = np.roll(self.continues(iob, first), -1)
        prefix = self._prefix[(iob == INSIDE).astype(int), goes_on.astype(int)]
        ids = np.where(in_entity, 1 + labels * self._n_prefixes + prefix, 0)
        ids[(iob == MISSING) | unknown_label] = UNKNOWN
        return ids.astype("int32"), unknown_label

    def gold(self, iob: Values, types: Values, first: Bools) -> tuple[Ids | Bools, Bools]:
        """Return `encode`, or allowed tags (N, T) if BIO entities end before missing annotation."""
        ids, unknown_label = self.encode(iob, types, first)
        after_entity = (ids == UNKNOWN) & _after(ids > 0, first)
        if not (self.is_end_open and after_entity.any()):
            return ids, unknown_label
        allowed = allowed_tags(ids, len(self))
        allowed[after_entity] &= ~self._continues
        return allowed, unknown_label

    def lattice(
        self, iob: Values, types: Values, starts_sentence: Bools, is_space: Bools, first: Bools
    ) -> Bools | None:
        """Return the open tags (N, T), None if all are; presets and blocked tokens stay.

        A new entity does not cross a sentence start and neither starts nor ends on whitespace.
        """
        preset = (iob == BEGIN) | (iob == INSIDE)
        new_sentence = starts_sentence & ~first
        if not (preset.any() or new_sentence.any() or is_space.any()):
            return None
        allowed = np.ones((len(iob), len(self)), dtype=bool)
        allowed[new_sentence] &= ~self._continues
        allowed[is_space] &= ~self.is_edge
        iob = _begin_entities(iob, types, first)
        ids, unknown_label = self.encode(iob, types, first)
        ids[unknown_label] = 0
        allowed[preset] = False
        allowed[preset, ids[preset]] = True
        allowed[_after(preset, first) & ~preset] &= ~self._continues
        return allowed

    def constrain(
        self, allowed: Bools, iob: Values, partial: PartialAnnotation
    ) -> list[tuple[int, int, int]]:
        """Apply the partial annotation of one document to its allowed tags (n, T), in place.

        RETURNS wrong spans (start, end, label) that tags cannot exclude. ValueError: unknown label.
        """
        is_open = iob == OUTSIDE
        if partial.annotated_labels is not None:
            others = np.ones(len(self), dtype=bool)
            others[self._tags_of(partial.annotated_labels)] = False
            allowed[is_open] = others
            if self.is_end_open:
                # An annotated entity ends at its last annotated token.
                was_in_entity = (iob[:-1] == BEGIN) | (iob[:-1] == INSIDE)
                allowed[1:][is_open[1:] & was_in_entity] &= ~self._continues
        for token in partial.unknown:
            allowed[token] |= is_open[token]
        for token, names in partial.allowed.items():
            tags = np.zeros(len(self), dtype=bool)
            tags[self._tags_of(names - {"O"})] = True
            tags[0] = "O" in names
            allowed[token] = tags if is_open[token] else tags & allowed[token]
            is_open[token] = False
        for (start, end), names in partial.ambiguous.items():
            span = self._of_span(end - start, self._find(names))
            for token, tags in enumerate(span, start):
                allowed[token] = tags if is_open[token] else tags & allowed[token]
            allowed[end : end + 1] &= ~self._continues
        wrong = []
        for (start, end), names in partial.incorrect.items():
            labels = self._find(names)
            if end - start == 1 and not self.is_end_open:
                allowed[start, self.span_tags.single[labels]] = False
            else:
                wrong += [(start, end, label) for label in labels]
        return wrong

    def pin(self, allowed: Bools, start: int, end: int, label: int) -> Bools:
        """Return the allowed tags (n, T) of all labelings with this span."""
        pinned = allowed.copy()
        pinned[start:end] &= self._of_span(end - start, [label])
        pinned[end : end + 1] &= ~self._continues
        return pinned

    def spans(self, iob: Values, types: Values) -> dict[Bounds, str]:
        """Return the annotated entities (n,) of one document, without unknown labels."""
        starts = np.flatnonzero((iob == BEGIN) & (types > 0))
        stops = np.flatnonzero(np.append(iob[1:] != INSIDE, True)) + 1
        ends = stops[np.searchsorted(stops, starts, side="right")]
        found = self._index.find(types[starts])
        return {
            (start, end): self.labels[label]
            for start, end, label in zip(*(x.tolist() for x in (starts, ends, found)), strict=True)
            if label >= 0
        }

    def forbid_ends(self, potentials: Potentials, tokens: Bools) -> Potentials:
        """Return potentials that forbid an entity to end at these tokens (N,). O(N T^2) memory.

        With `is_end_open`, a pair of tags says where an entity ends, which no lattice restricts.
        """
        if not self.is_end_open:
            return potentials
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

    def _of_span(self, length: int, labels: Sequence[int]) -> Bools:
        """Return the tags (length, T) of a span with one of these labels."""
        tags = np.zeros((length, len(self)), dtype=bool)
        first, inside, last, single = self.span_tags
        tags[1:-1, inside[labels]] = True
        tags[-1, last[labels]] = True
        tags[0] = False
        tags[0, (single if length == 1 else first)[labels]] = True
        return tags

    def _find(self, names: Iterable[str]) -> list[int]:
        """Return the indices of labels by name, or of all labels if a name is empty."""
        if "" in names:
            return list(range(len(self.labels)))
        if unknown := sorted(set(names) - set(self.labels)):
            raise ValueError(f"unknown labels {', '.join(unknown)}")
        return [self.labels.index(name) for name in sorted(names)]

    def _tags_of(self, names: Iterable[str]) -> NDArray[np.int64]:
        first = 1 + np.array(self._find(names), dtype="int64") * self._n_prefixes
        return (first[:, None] + np.arange(self._n_prefixes)).ravel()


def trim_whitespace(values: Values, is_space: Bools, first: Bools) -> Values:
    """Return ENT_IOB and ENT_TYPE (N, 2) of entities without whitespace at an edge, else O."""
    iob, types = values.T
    inside = _in_entity(iob, types)
    if not (inside & is_space).any():
        return values
    starts = inside & ((iob == BEGIN) | ~_after(inside, first))
    entity, tokens, n = starts.cumsum() - 1, np.arange(len(iob)), int(starts.sum())
    words = np.flatnonzero(inside & ~is_space)
    begin, last = np.full(n, len(iob)), np.full(n, -1)
    np.minimum.at(begin, entity[words], words)
    np.maximum.at(last, entity[words], words)
    edge = inside.copy()
    edge[inside] = (tokens < begin[entity])[inside] | (tokens > last[entity])[inside]
    trimmed = values.copy()
    trimmed[edge] = OUTSIDE, 0
    moved = begin[(begin > np.flatnonzero(starts)) & (last >= 0)]
    trimmed[moved, 0] = BEGIN
    return trimmed


def _in_entity(iob: Values, types: Values) -> Bools:
    return ((iob == BEGIN) | (iob == INSIDE)) & (types > 0)


def _begin_entities(iob: Values, types: Values, first: Bools) -> Values:
    """Return `iob` with BEGIN at each start: annotation by token may have I after O or a label."""
    continues = _after(_in_entity(iob, types), first) & (types == np.roll(types, 1))
    return np.where((iob == INSIDE) & ~continues, BEGIN, iob)


def _after(tokens: Bools, first: Bools) -> Bools:
    """Return a mask (N,) of the tokens after one of `tokens` (N,) in the same document."""
    return np.roll(tokens, 1) & ~first
