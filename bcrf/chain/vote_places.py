"""Places of texts where sources vote: groups of spans that overlap."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .span_posteriors import SpanTags
from .votes import Floats, Ints, Votes

SILENT, UNSEEN = -1, -2
"""The symbol of a source at a place: it looked and has no span; it did not look."""


class Places(NamedTuple):
    """R rows, a place and bounds each, of P places, and the votes of S sources at each place.

    starts, ends: tokens of rows (R,). place: of rows (R,). row: of each vote (P, S). symbol: (P, S)
    of a source, SILENT or UNSEEN. weight: (P, S) its own probability. voted: (R, L), the labels
    that somebody proposes. n_equal: (P,) number of equal places. known: (R, L), (P, L) and (P,),
    what may be true: a label at the bounds, at other bounds, none.
    """

    starts: Ints
    ends: Ints
    place: Ints
    row: Ints
    symbol: Ints
    weight: Floats
    voted: NDArray[np.bool_]
    n_equal: Floats
    known: tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]


def find_places(votes: Sequence[Votes]) -> Places:
    """Return the places of votes. A source has one span at a place."""
    n_sources, n_labels = len(votes), votes[0].means.shape[1]
    starts, ends, symbols, weights = (np.concatenate([v[i] for v in votes]) for i in range(4))
    source = np.repeat(np.arange(n_sources), [len(v.starts) for v in votes])
    keys, row = np.unique(starts << 32 | ends, return_inverse=True)
    first, last = keys >> 32, keys & ((1 << 32) - 1)
    reached = np.maximum.accumulate(last)
    place = np.append(True, first[1:] >= reached[:-1]).cumsum()[: len(first)] - 1
    place = _split(place, first, last, row, source)
    n = int(place.max(initial=-1)) + 1
    low, high = _find_bounds(place, first, last, n)
    symbol = np.full((n, n_sources), SILENT)
    for s, of_source in enumerate(votes):
        looked = np.append(0, of_source.looked.cumsum())
        # A span of another place that overlaps tells nothing here.
        n_before = np.searchsorted(of_source.ends, low, side="right")
        meets = np.searchsorted(of_source.starts, high, side="left") > n_before
        symbol[(looked[high] == looked[low]) | meets, s] = UNSEEN
    at, weight = np.full((n, n_sources), -1), np.ones((n, n_sources))
    here = place[row], source
    at[here], symbol[here], weight[here] = row, symbols, weights
    voted = np.zeros((len(first), n_labels), dtype=bool)
    np.logical_or.at(voted, row, np.concatenate([v.means[v.symbols] for v in votes]))
    known = np.ones_like(voted), np.ones((n, n_labels), dtype=bool), np.ones(n, dtype=bool)
    return Places(first, last, place, at, symbol, weight, voted, np.ones(n), known)


def _split(place: Ints, first: Ints, last: Ints, row: Ints, source: Ints) -> Ints:
    """Return the places of rows (R,), split where a source has several spans at one of them.

    The bounds with most votes begin. Others join if they overlap and have other sources.
    """
    order = np.lexsort((source, place[row]))
    of_vote, by = place[row][order], source[order]
    several = np.unique(of_vote[1:][(of_vote[1:] == of_vote[:-1]) & (by[1:] == by[:-1])])
    place, n = place.copy(), int(place.max(initial=-1)) + 1
    for a, b in np.searchsorted(of_vote, [several, several + 1]).T.tolist():
        voters: dict[int, set[int]] = {}
        for i in order[a:b].tolist():
            voters.setdefault(int(row[i]), set()).add(int(source[i]))
        leaders: list[tuple[int, set[int], int]] = []
        for r in sorted(voters, key=lambda r: (-len(voters[r]), last[r] - first[r], r)):
            number = -1
            for leader, taken, number in leaders:  # noqa: B007
                meets = first[r] < last[leader] and first[leader] < last[r]
                if meets and taken.isdisjoint(voters[r]):
                    taken |= voters[r]
                    break
            else:
                number = n if leaders else int(place[r])
                n += bool(leaders)
                leaders.append((r, set(voters[r]), number))
            place[r] = number
    return place


def count_repeats(places: Places, words: NDArray[np.uint64]) -> tuple[Ints, Floats]:
    """Return how many phrases a source votes for that recur (S,), and at which share of their
    further places it does.

    words: hashes of the tokens (N,). A list of phrases votes at all of them.
    """
    n, factor = len(places.n_equal), np.uint64(0x9E3779B97F4A7C15)
    low, high = _find_bounds(places.place, places.starts, places.ends, n)
    powers = np.full(int((high - low).max(initial=0)) + 1, factor)
    powers[0] = 1
    powers = powers.cumprod()
    key = np.zeros(n, dtype="uint64")
    for i in range(len(powers) - 1):
        at = np.flatnonzero(low + i < high)
        key[at] += words[low[at] + i] * powers[high[at] - low[at] - i]
    phrase = np.unique(key, return_inverse=True)[1].ravel()
    counts, shares = [], []
    for symbols in places.symbol.T:
        n_looked, n_voted = (
            np.bincount(phrase[mask], minlength=n) for mask in (symbols > UNSEEN, symbols >= 0)
        )
        recurs = (n_looked > 1) & (n_voted > 0)
        further = (n_voted[recurs] - 1) / (n_looked[recurs] - 1)
        counts.append(int(recurs.sum()))
        shares.append(float(further.sum()) / max(counts[-1], 1))
    return np.array(counts), np.array(shares)


def _find_bounds(place: Ints, starts: Ints, ends: Ints, n: int) -> tuple[Ints, Ints]:
    """Return the first token of places (P,), and one past their last."""
    low, high = np.full(n, np.iinfo("int64").max), np.zeros(n, dtype="int64")
    np.minimum.at(low, place, starts)
    np.maximum.at(high, place, ends)
    return low, high


def add_known(
    places: Places, known: NDArray[np.int32], tags: SpanTags, importance: float
) -> Places:
    """Return places with what known tags (N,), -1 where unknown, allow."""
    is_first, is_last = (np.isin(known, [*one, *tags.single]) for one in (tags.first, tags.last))
    starts, ends = np.flatnonzero(is_first), np.flatnonzero(is_last) + 1
    label = np.full(known.max() + 1, -1)
    for of_kind in tags:
        label[of_kind[of_kind <= known.max()]] = np.flatnonzero(of_kind <= known.max())
    labels = label[known[starts]]
    seen, unseen, none = (mask.copy() for mask in places.known)
    is_known = np.zeros(len(none), dtype=bool)
    at = known[places.starts] >= 0
    is_known[places.place[at]] = True
    seen[is_known[places.place]], unseen[is_known], none[is_known] = False, False, True
    exact = dict(
        zip(zip(starts.tolist(), ends.tolist(), strict=True), labels.tolist(), strict=True)
    )
    for r in np.flatnonzero(at).tolist():
        bounds, p = (int(places.starts[r]), int(places.ends[r])), places.place[r]
        if bounds in exact:
            seen[r, exact[bounds]] = True
            unseen[p], none[p] = False, False
        i = int(np.searchsorted(ends, bounds[0], side="right"))
        if i < len(starts) and starts[i] < bounds[1] and none[p]:
            unseen[p, labels[i]], none[p] = True, False
    count = np.where(is_known, importance, 1.0) * places.n_equal
    return places._replace(known=(seen, unseen, none), n_equal=count)


def compress(places: Places) -> Places:
    """Return one of equal places each, with their number, whatever the order of documents."""
    n = len(places.n_equal)
    first_row = np.full(n, np.iinfo("int64").max)
    np.minimum.at(first_row, places.place, np.arange(len(places.place)))
    order = np.lexsort((np.arange(len(places.place)), places.place))
    rank = np.empty(len(order), dtype="int64")
    begin = np.searchsorted(places.place[order], np.arange(n))
    rank[order] = np.arange(len(order)) - begin[places.place[order]]
    of_vote = np.where(places.row >= 0, rank[places.row], -1)
    n_rows = np.bincount(places.place, minlength=n)
    flags = np.zeros((n, 1), dtype="int64")
    # A known place is equal to no other.
    alone = ~(places.known[2] & places.known[1].all(axis=1))
    flags[alone, 0] = np.arange(1, alone.sum() + 1)
    pattern = np.column_stack(
        (of_vote, places.symbol, (1000 * places.weight).astype("int64"), flags, n_rows)
    )
    _, kept, of_place = np.unique(pattern, axis=0, return_index=True, return_inverse=True)
    new = np.full(n, -1)
    new[kept] = np.arange(len(kept))
    rows = np.flatnonzero(new[places.place] >= 0)
    rows = rows[np.lexsort((rows, new[places.place[rows]]))]
    moved = np.full(len(places.place) + 1, -1)
    moved[rows] = np.arange(len(rows))
    known = places.known[0][rows], places.known[1][kept], places.known[2][kept]
    return Places(
        places.starts[rows],
        places.ends[rows],
        new[places.place[rows]],
        moved[places.row[kept]],
        places.symbol[kept],
        places.weight[kept],
        places.voted[rows],
        np.bincount(of_place.ravel(), places.n_equal, len(kept)).astype("float64"),
        known,
    )
