"""Search for the labelings of highest score: Viterbi, Dijkstra, n-best, minimum risk."""

from typing import Literal

from bcrf import kernels
from bcrf.kernels import Array

from .gold import GoldLattice
from .potentials import Potentials, check_least, raise_infeasible

Search = Literal["astar", "beam"]
SEARCHES = ("astar", "beam")


def viterbi(potentials: Potentials, gold: Array | None = None) -> tuple[Array, Array]:
    """Return the best labeling, int32 (N,), and its score (B,). O(N T^2).

    gold: if given, only the labelings that it allows are candidates.

    Raises ValueError naming the first sequence without an allowed labeling.

    >>> import numpy as np
    >>> from bcrf.chain import Potentials, viterbi
    >>> w = Potentials(np.eye(2), np.zeros((2, 2)), np.array([2], dtype="int32"))
    >>> tags, scores = viterbi(w)
    >>> tags.tolist(), scores.tolist()
    ([0, 1], [2.0])
    """
    tags, scores = _best(potentials, gold)
    raise_infeasible(scores, "allowed")
    return tags, scores


def feasible(potentials: Potentials, gold: Array | None = None) -> Array:
    """Return which sequences have a labeling that the potentials and `gold` allow, bool (B,).

    >>> import numpy as np
    >>> from bcrf.chain import Potentials, feasible
    >>> w = Potentials(np.eye(2), np.zeros((2, 2)), np.array([2], dtype="int32"))
    >>> feasible(w).tolist()
    [True]
    """
    return _best(potentials, gold)[1] > -float("inf")


def dijkstra(potentials: Potentials) -> tuple[Array, Array]:
    """Return the best labeling and its score, like `viterbi`. Ties may be broken differently.

    Best-first search over pairs of token and tag. It subtracts each edge's highest score first, so
    that no extension of a path raises its score, and the order of labelings stays. The worst case
    is O(N T log(N T) + N T^2), but pairs far from the best labeling are never expanded. Raises
    ValueError naming the first sequence without an allowed labeling.

    >>> import numpy as np
    >>> from bcrf.chain import Potentials, dijkstra
    >>> w = Potentials(np.eye(2), np.zeros((2, 2)), np.array([2], dtype="int32"))
    >>> tags, scores = dijkstra(w)
    >>> tags.tolist(), scores.tolist()
    ([0, 1], [2.0])
    """
    tags, scores, _ = kernels.dijkstra(*potentials.arrays)
    raise_infeasible(scores, "allowed")
    return tags, scores


def nbest(
    potentials: Potentials, n: int, search: Search = "astar", beam_width: int = 50
) -> list[tuple[Array, Array]]:
    """Return the n best labelings as one pair of arrays for each sequence.

    A pair is tags, int32 (m, L), and scores (m,), best first. All labelings differ; m < n if the
    sequence has fewer. `nbest_arrays` returns the same as arrays of the whole batch.

    search: "astar" is exact, with Viterbi's scores as its heuristic: O(N T^2 + n N T). "beam" keeps
        the `beam_width` best prefixes at each token: O(N beam_width T).

    Raises ValueError for a wrong option, and names the first sequence without an allowed labeling.

    >>> import numpy as np
    >>> from bcrf.chain import Potentials, nbest
    >>> w = Potentials(np.eye(2), np.zeros((2, 2)), np.array([2], dtype="int32"))
    >>> [(tags, scores)] = nbest(w, 2)
    >>> scores.tolist()
    [2.0, 1.0]
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
    """Return the n best labelings as two arrays of the batch: tags, int32 (n, N); scores (B, n).

    Missing labelings have the score -inf. Options: see `nbest`.
    """
    check_search(n, search, beam_width)
    if search == "astar":
        tags, scores = kernels.nbest(*potentials.arrays, n)
    else:
        tags, scores = kernels.beam_search(*potentials.arrays, n, beam_width)
    raise_infeasible(scores[:, 0], "allowed")
    return tags, scores


def check_search(n: int, search: str, beam_width: int) -> None:
    """Raise ValueError naming the wrong option of `nbest` and its valid values."""
    check_least(1, n=n, beam_width=beam_width)
    if search not in SEARCHES:
        raise ValueError(f"search must be one of {', '.join(SEARCHES)}, got {search!r}")
    if search == "beam" and beam_width < n:
        raise ValueError(f"beam_width must be at least n = {n}, got {beam_width}")


def minimum_risk(potentials: Potentials, marginals: Array) -> Array:
    """Return the allowed labeling with the most correct tags in expectation, int32 (N,).

    marginals: (N, T) tag marginals.

    The result has the tag of highest marginal at each token if the potentials allow that labeling.
    Raises ValueError naming the first sequence that forbidden transitions leave no labeling.

    >>> import numpy as np
    >>> from bcrf.chain import CRF, Potentials, minimum_risk
    >>> w = Potentials(np.eye(2), np.zeros((2, 2)), np.array([2], dtype="int32"))
    >>> minimum_risk(w, CRF().marginals(w).unary).tolist()
    [0, 1]
    """
    xp = potentials.xp
    forbidden = marginals.dtype.type("-inf")
    unary = xp.where(potentials.unary > forbidden, marginals, forbidden)
    if (potentials.transitions > forbidden).all():
        return unary.argmax(axis=1).astype("int32")
    transitions = xp.where(potentials.transitions > forbidden, 0, forbidden)
    return viterbi(potentials.with_scores(unary, transitions))[0]


def _best(potentials: Potentials, gold: Array | None) -> tuple[Array, Array]:
    if gold is not None:
        return GoldLattice(potentials, gold).best()
    return kernels.max_product(*potentials.arrays)
