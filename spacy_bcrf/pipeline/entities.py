"""Entities as spaCy holds them in tokens, and as tag ids of a scheme.

Arrays are flat over a batch: `iob` (N,) and `types` (N,) are the tokens' ENT_IOB and ENT_TYPE,
`first` (N,) tells which tokens start a document, and there are T tags.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..schemes import Scheme
from .annotation import UNKNOWN, LabelIndex, Values

# Token.ent_iob
MISSING, INSIDE, OUTSIDE, BEGIN = range(4)

Bools = NDArray[np.bool_]
Ids = NDArray[np.int32]


class EntityTags:
    """The tags of a scheme for entities whose types are the given values of ENT_TYPE."""

    def __init__(self, scheme: Scheme, types: Sequence[int]) -> None:
        labels = [str(value) for value in types]
        prefixes = scheme.prefixes
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

    def trim(self, ids: Ids, is_loose: Bools, first: Bools) -> Ids:
        """(N,) ids of a valid labeling, without the tokens that are loose at the ends of entities.

        For where `is_end_open`, since no lattice can forbid an end then.
        """
        ids = ids.copy()
        while True:
            goes_on = _before(self._continues[ids] & ~first)
            loose = is_loose & (ids > 0) & ~goes_on
            if not loose.any():
                return ids
            ids[loose] = 0


def _in_entity(iob: Values, types: Values) -> Bools:
    return ((iob == BEGIN) | (iob == INSIDE)) & (types > 0)


def _before(tokens: Bools) -> Bools:
    """(N,) which tokens come just before one of these, of which none starts a document."""
    return np.roll(tokens, -1)


def _after(tokens: Bools, first: Bools) -> Bools:
    """(N,) which tokens come just after one of these in the same document."""
    return np.roll(tokens, 1) & ~first
