"""Gold annotation, complete or partial, as a lattice of allowed labelings."""

from bcrf import kernels
from bcrf.kernels import Array
from bcrf.lazy import lazy

from .potentials import Potentials

UNKNOWN = -1


class GoldLattice:
    """The labelings that gold annotation allows in the sequences of some potentials.

    gold: int32 (N,) tags with -1 for unknown, or bool (N, T) allowed tags. tags: int32 (N,), the
    only labeling, else None. Raises ValueError for another shape or dtype, and for a tag outside
    [-1, T) naming the sequence.
    """

    def __init__(self, potentials: Potentials, gold: Array) -> None:
        check_gold(potentials, gold)
        t = potentials.unary.shape[1]
        if gold.dtype != bool:
            low, high = (int(gold.min()), int(gold.max())) if len(gold) else (0, -1)
            if low < UNKNOWN or high >= t:
                token = int(((gold < UNKNOWN) | (gold >= t)).argmax())
                raise ValueError(
                    f"gold has tag {int(gold[token])} in sequence {potentials.sequence_of(token)}; "
                    f"tags go from 0 to {t - 1}, {UNKNOWN} is unknown"
                )
            gold = potentials.xp.ascontiguousarray(gold, dtype="int32")
        self._potentials = potentials
        self._gold = gold
        self.tags: Array | None = gold if gold.dtype != bool and low >= 0 else None

    @lazy
    def allowed(self) -> Array:
        """bool (N, T), the allowed tags of each token."""
        xp, gold = self._potentials.xp, self._gold
        if gold.dtype == bool:
            return gold
        allowed = xp.repeat((gold == UNKNOWN)[:, None], self._potentials.unary.shape[1], axis=1)
        known = xp.flatnonzero(gold != UNKNOWN)
        allowed[known, gold[known]] = True
        return allowed

    @lazy
    def unknown(self) -> Array:
        """bool (B,), sequences without any annotation. Empty sequences are among them."""
        xp, gold, lengths = self._potentials.xp, self._gold, self._potentials.lengths
        known = ~gold.all(axis=1) if gold.dtype == bool else gold != UNKNOWN
        n_known = xp.concatenate([xp.zeros(1, dtype="int64"), known.cumsum()])
        stops = lengths.cumsum()
        return n_known[stops] == n_known[stops - lengths]

    def best(self) -> tuple[Array, Array]:
        """The allowed labeling of highest score, int32 (N,), and its score (B,), -inf if forbidden.

        O(N T^2), or O(N) for complete gold.
        """
        if self.tags is not None:
            return self.tags, kernels.path_scores(*self._potentials.arrays, self.tags)
        return kernels.max_product(*self._potentials.restrict(self.allowed).arrays)


def check_gold(potentials: Potentials, gold: Array) -> None:
    """Raise ValueError for gold of another shape, dtype or array module, without a wait."""
    if not isinstance(gold, potentials.xp.ndarray):
        raise ValueError(f"potentials are {potentials.xp.__name__} arrays, gold is not")
    n, t = potentials.unary.shape
    if gold.dtype == bool:
        if gold.shape != (n, t):
            raise ValueError(f"gold of allowed tags must be {(n, t)}, got shape {gold.shape}")
    elif gold.shape != (n,) or gold.dtype.kind not in "iu":
        raise ValueError(
            f"gold must be int32 {(n,)} or bool {(n, t)}, got {gold.dtype} {gold.shape}"
        )
