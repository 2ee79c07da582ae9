"""Which labelings are allowed: gold annotation, whole, partial or missing."""

from __future__ import annotations

from spacy_bcrf import kernels
from spacy_bcrf.kernels import Array, array_module

from .potentials import Potentials

UNKNOWN = -1


def check_gold(potentials: Potentials, gold: Array) -> Array:
    """`gold` as int32 (N,) with -1 for unknown, or as bool (N, T) of allowed tags.

    Raises ValueError for another shape or dtype, and for a tag outside [-1, T), naming the
    sequence.
    """
    xp = array_module(potentials.unary)
    if array_module(gold) is not xp:
        raise ValueError(f"potentials are {xp.__name__} arrays, gold is not")
    n, t = potentials.unary.shape
    if gold.dtype == bool:
        if gold.shape != (n, t):
            raise ValueError(f"gold of allowed tags must be {(n, t)}, got shape {gold.shape}")
        return gold
    if gold.shape != (n,) or gold.dtype.kind not in "iu":
        raise ValueError(
            f"gold must be int32 {(n,)} or bool {(n, t)}, got {gold.dtype} {gold.shape}"
        )
    wrong = (gold < UNKNOWN) | (gold >= t)
    if wrong.any():
        token = int(wrong.argmax())
        raise ValueError(
            f"gold has tag {int(gold[token])} in sequence {potentials.sequence_of(token)}; "
            f"tags go from 0 to {t - 1}, {UNKNOWN} is unknown"
        )
    return gold.astype("int32", copy=False)


def is_complete(gold: Array) -> bool:
    """Whether gold is one labeling a sequence, with nothing unknown."""
    return gold.dtype != bool and not (gold.size and int(gold.min()) == UNKNOWN)


def allowed_tags(potentials: Potentials, gold: Array) -> Array:
    """bool (N, T): gold as a set of allowed tags a token."""
    if gold.dtype == bool:
        return gold
    xp = array_module(gold)
    allowed = xp.repeat((gold == UNKNOWN)[:, None], potentials.unary.shape[1], axis=1)
    known = xp.flatnonzero(gold != UNKNOWN)
    allowed[known, gold[known]] = True
    return allowed


def unknown_sequences(potentials: Potentials, gold: Array) -> Array:
    """bool (B,): sequences of which gold says nothing, the empty ones among them."""
    xp = array_module(gold)
    # Looking through all the tags takes half as long as a pass of inference where they are few.
    known = ~gold.all(axis=1) if gold.dtype == bool else gold != UNKNOWN
    said = xp.concatenate([xp.zeros(1, dtype="int64"), known.cumsum()])
    stops = potentials.lengths.cumsum()
    return said[stops] == said[stops - potentials.lengths]


def path_scores(potentials: Potentials, tags: Array) -> Array:
    """(B,) score of one labeling a sequence, int32 (N,); -inf where it uses what is forbidden."""
    return kernels.path_scores(potentials.unary, potentials.transitions, potentials.lengths, tags)


def raise_infeasible(values: Array, what: str) -> None:
    """ValueError naming the first sequence whose value is -inf."""
    if values.size and not values.min() > -float("inf"):
        sequence = int((~(values > -float("inf"))).argmax())
        if values[sequence] != values[sequence]:
            raise ValueError(f"sequence {sequence} has NaN or +inf among its scores")
        raise ValueError(f"sequence {sequence} has no {what} labeling: all are forbidden by -inf")
