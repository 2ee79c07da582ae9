"""Best labelings."""

from __future__ import annotations

from typing import Literal

from spacy_bcrf import kernels
from spacy_bcrf.kernels import Array, array_module

from .gold import allowed_tags, check_gold, raise_infeasible
from .potentials import Potentials
from .semirings import MAX, Semiring


def viterbi(potentials: Potentials, gold: Array | None = None) -> tuple[Array, Array]:
    """The best labeling, int32 (N,), and its score (B,); among those `gold` allows, if given.

    Raises ValueError naming the first sequence without an allowed labeling. O(N T^2).
    """
    tags, scores = _best(potentials, gold)
    raise_infeasible(scores, "allowed")
    return tags, scores


def dijkstra(potentials: Potentials, semiring: Semiring = MAX) -> tuple[Array, Array]:
    """The best labeling and its score, as `viterbi` (of equal scores it may find another one).

    Best-first search over pairs of token and tag, with a priority queue that is updated in place.
    Each edge's largest score is subtracted first: extending a labeling then cannot raise it, and
    the order of labelings is the same. At worst O(N T log(N T) + N T^2), more than Viterbi's
    O(N T^2); pairs that no labeling near the best one uses are never expanded (benchmarks/search.py
    measures when that pays).

    Raises ValueError naming the first sequence without an allowed labeling, and for a semiring in
    which taking the best first is wrong.
    """
    if semiring.not_best_first:
        reason = semiring.not_best_first
        raise ValueError(f"best-first search is wrong for the {semiring.name} semiring: {reason}")
    tags, scores, _ = kernels.dijkstra(potentials.unary, potentials.transitions, potentials.lengths)
    raise_infeasible(scores, "allowed")
    return tags, scores


Search = Literal["astar", "beam"]
SEARCHES = ("astar", "beam")


def nbest(
    potentials: Potentials, n: int, search: Search = "astar", beam_width: int = 50
) -> list[tuple[Array, Array]]:
    """The n best labelings of each sequence, all different, best first: tags int32 (m, L) and their
    scores (m,), with m < n where there are no more labelings.

    search: "astar" is exact, with Viterbi's table as the heuristic, O(N T^2 + n N T). "beam" keeps
        the `beam_width` best prefixes at each token, O(N beam_width T).

    Raises ValueError naming the first sequence without an allowed labeling, or the option.
    """
    tags, scores = nbest_arrays(potentials, n, search, beam_width)
    found = (scores > -float("inf")).sum(axis=1).tolist()
    stops = potentials.lengths.cumsum().tolist()
    return [
        (tags[:m, stop - length : stop], scores[b, :m])
        for b, (m, stop, length) in enumerate(
            zip(found, stops, potentials.lengths.tolist(), strict=True)
        )
    ]


def nbest_arrays(
    potentials: Potentials, n: int, search: Search = "astar", beam_width: int = 50
) -> tuple[Array, Array]:
    """`nbest` of a whole batch: tags, int32 (n, N), and scores (B, n), -inf for missing ones."""
    check_search(n, search, beam_width)
    arrays = potentials.unary, potentials.transitions, potentials.lengths
    if search == "astar":
        tags, scores = kernels.nbest(*arrays, n)
    else:
        tags, scores = kernels.beam_search(*arrays, n, beam_width)
    raise_infeasible(scores[:, 0], "allowed")
    return tags, scores


def check_search(n: int, search: str, beam_width: int) -> None:
    """ValueError naming the option that is wrong, and what it may be."""
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    if search not in SEARCHES:
        raise ValueError(f"search must be one of {', '.join(SEARCHES)}, got {search!r}")
    if search == "beam" and beam_width < n:
        raise ValueError(f"beam_width must be at least n = {n}, got {beam_width}")


def feasible(potentials: Potentials, gold: Array | None = None) -> Array:
    """bool (B,): which sequences have a labeling that neither -inf nor `gold` forbids."""
    return _best(potentials, gold)[1] > -float("inf")


def minimum_risk(potentials: Potentials, marginals: Array) -> Array:
    """int32 (N,): the labeling with the largest expected number of right tags, by tag marginals
    (N, T), among those the potentials allow.

    It is the tag of largest marginal at each token wherever that labeling is allowed.
    """
    xp = array_module(marginals)
    forbidden = marginals.dtype.type("-inf")
    unary = xp.where(potentials.unary > forbidden, marginals, forbidden)
    if (potentials.transitions > forbidden).all():
        return unary.argmax(axis=1).astype("int32")
    transitions = xp.where(potentials.transitions > forbidden, 0, forbidden)
    return viterbi(Potentials.unchecked(unary, transitions, potentials.lengths))[0]


def _best(potentials: Potentials, gold: Array | None) -> tuple[Array, Array]:
    if gold is not None:
        potentials = potentials.restrict(allowed_tags(potentials, check_gold(potentials, gold)))
    return kernels.max_product(potentials.unary, potentials.transitions, potentials.lengths)
