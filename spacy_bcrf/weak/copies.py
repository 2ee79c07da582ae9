"""Groups of sources that are nearly equal: a group has one vote, and never confirms itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bcrf.chain.votes import Votes

Mask = NDArray[np.bool_]

NEAR = 0.9
"""Share of a source's spans that overlap another one's, from which both may be copies. Such sources
are no witnesses of each other's errors."""
COPY = 0.95
"""Share of the spans without a further source that copies have in common. Independent sources share
less: some such spans are errors, others the second source misses."""
EQUAL = 0.99
"""Share of all spans, either way, from which sources are copies even if no such spans tell."""
MIN_SPANS = 20
"""Fewest such spans that tell."""


@dataclass(frozen=True)
class Groups:
    """Groups of nearly equal sources.

    of_source: the group of each source (S,). members: the sources of each group, the one that
    others confirm most first. means: what the symbols of each group mean. symbols: by source, the
    symbol of the group for each symbol of the source. agreement: (S, S), of two sources in one
    group the share of the smaller one's spans that overlap the other one's, else 0.
    """

    of_source: NDArray[np.int64]
    members: list[list[int]]
    means: list[Mask]
    symbols: list[NDArray[np.int64]]
    agreement: NDArray[np.float64]

    def merge(self, votes: Sequence[Votes]) -> list[Votes]:
        """Return the votes of each group: of its first member, then what others add beside them."""
        return [
            votes[group[0]] if len(group) == 1 else self._merge_group(group, means, votes)
            for group, means in zip(self.members, self.means, strict=True)
        ]

    def _merge_group(self, group: Sequence[int], means: Mask, votes: Sequence[Votes]) -> Votes:
        # Silence denies only where a source that denies looked; spans elsewhere still count.
        deniers = [i for i in group if votes[i].denies]
        looked = np.any([votes[i].looked for i in deniers or group], axis=0)
        free = np.ones(len(looked), dtype=bool)
        rows, weights = [], []
        for i in group:
            one = votes[i]
            is_new = ~any_inside(~free, one)
            starts, ends = one.starts[is_new], one.ends[is_new]
            rows.append(np.stack((starts, ends, self.symbols[i][one.symbols[is_new]]), axis=1))
            weights.append(one.weights[is_new])
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
                free[start:end] = False
        spans, own = np.concatenate(rows), np.concatenate(weights)
        order = np.argsort(spans[:, 0], kind="stable")
        return Votes.of(spans[order], looked, means, bool(deniers), own[order])


class Compared(NamedTuple):
    """Masks of the spans of a source (M,): which another one looked at, overlaps, and has too.

    It has a span too if the bounds are equal, and a label is among the alternatives of both.
    """

    looked: Mask
    overlaps: Mask
    equals: Mask


def find_groups(votes: Sequence[Votes]) -> Groups:
    """Return the groups of sources that are nearly equal, by raw agreement.

    Good sources agree because both are right. Copies agree as well on spans that no further source
    proposes: all those of one of them (copies that abstain), or nearly the same places with other
    boundaries or labels. Without further sources, only equal ones are copies. O(N S^2).
    """
    n = len(votes)
    pairs = {
        (i, j): compare_spans(votes[i], votes[j]) for i in range(n) for j in range(n) if i != j
    }
    share = np.zeros((n, n))
    for at, pair in pairs.items():
        share[at] = pair.overlaps.sum() / max(pair.looked.sum(), 1)
    # All spans of a source may have a coarse vote too: that makes them no copies.
    coarse = np.array([one.has_coarse for one in votes])
    near = ((share >= NEAR) | (share.T >= NEAR)) & (coarse[:, None] == coarse)
    group = np.arange(n)
    for i in range(n):
        for j in range(i):
            further = np.flatnonzero(~near[i] & ~near[j])
            further = further[(further != i) & (further != j)]
            if near[i, j] and _are_copies(i, j, further.tolist(), votes, pairs):
                group[group == group[i]] = group[j]
    of_source = np.unique(group, return_inverse=True)[1].ravel()
    members = [np.flatnonzero(of_source == k).tolist() for k in range(of_source.max() + 1)]
    for each in members:
        outside = np.flatnonzero(~np.isin(np.arange(n), each))
        if len(each) > 1:
            each.sort(key=partial(_rank, outside=outside.tolist(), pairs=pairs))
    same = of_source[:, None] == of_source
    agreement = np.where(same & ~np.eye(n, dtype=bool), np.maximum(share, share.T), 0)
    return Groups(of_source, members, *_unite(votes, members), agreement)


def compare_spans(one: Votes, other: Votes) -> Compared:
    """Compare the spans of two sources."""
    looked = any_inside(other.looked, one)
    covered = np.zeros(len(other.looked) + 1, dtype="int32")
    np.add.at(covered, other.starts, 1)
    np.subtract.at(covered, other.ends, 1)
    ends = np.zeros(len(covered), dtype="int64")
    labels = np.zeros((len(covered), one.means.shape[1]), dtype=bool)
    ends[other.starts], labels[other.starts] = other.ends, other.means[other.symbols]
    common = (labels[one.starts] & one.means[one.symbols]).any(axis=1)
    overlaps = any_inside(covered.cumsum()[:-1] > 0, one)
    return Compared(looked, overlaps, (ends[one.starts] == one.ends) & common)


def any_inside(mask: Mask, votes: Votes) -> Mask:
    """Return which spans (M,) have a token of a mask (N,)."""
    sums = np.append(0, mask.cumsum())
    inside: Mask = sums[votes.ends] > sums[votes.starts]
    return inside


def _are_copies(
    i: int,
    j: int,
    further: Sequence[int],
    votes: Sequence[Votes],
    pairs: dict[tuple[int, int], Compared],
) -> bool:
    both = []
    for a, b in ((i, j), (j, i)):
        one = pairs[a, b]
        others = [pairs[a, k] for k in further]
        asked = one.looked & np.any([one.looked & False, *(each.looked for each in others)], axis=0)
        alone = asked & ~np.any([~asked, *(each.overlaps for each in others)], axis=0)
        apart = asked & ~np.any([~asked, *(each.equals for each in others)], axis=0)
        # Two sources alone: only equal ones are copies.
        whole = one.overlaps if len(votes) > 2 else one.equals
        has_no_own = _share(one.equals, apart) >= COPY
        if len(votes) > 2:
            has_no_own |= _share(one.equals, one.looked) >= EQUAL
        both.append(
            (
                _share(whole, one.looked) >= EQUAL or _share(one.overlaps, alone) >= COPY,
                has_no_own and not votes[a].denies,
            )
        )
    # The silence of a source that denies tells it from one with more spans.
    return all(nearly for nearly, _ in both) or any(has_no_own for _, has_no_own in both)


def _share(part: Mask, of: Mask) -> float:
    n = int(of.sum())
    return float((part & of).sum() / n) if n >= MIN_SPANS else 0.0


def _rank(
    i: int, outside: Sequence[int], pairs: dict[tuple[int, int], Compared]
) -> tuple[float, int, int]:
    """Return what sorts the members of a group: the best confirmed first, then the largest."""
    found = [pairs[i, k] for k in outside]
    n = sum(int(each.overlaps.sum()) for each in found)
    confirmed = sum(int(each.equals.sum()) for each in found) / max(n, 1)
    size = len(next(each.looked for (a, _), each in pairs.items() if a == i))
    return -round(confirmed, 2), -size, i


def _unite(
    votes: Sequence[Votes], members: Sequence[Sequence[int]]
) -> tuple[list[Mask], list[NDArray[np.int64]]]:
    """Return what the symbols of each group mean, and the group's symbols of each source's."""
    means, symbols = [], {}
    for group in members:
        rows: list[list[bool]] = []
        for i in group:
            own = votes[i].means.tolist()
            rows += [row for row in own if row not in rows]
            symbols[i] = np.array([rows.index(row) for row in own], dtype="int64")
        means.append(np.array(rows, dtype=bool))
    return means, [symbols[i] for i in range(len(votes))]
