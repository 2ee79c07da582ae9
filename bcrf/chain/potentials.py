"""Potentials: tag and transition scores of a ragged batch of sequences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Real
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bcrf.kernels import Array, array_module, take_errors
from bcrf.lazy import lazy


class NotFiniteError(ValueError):
    """Scores that are NaN or +inf.

    sequence: the index of the first sequence with such scores; None for shared transitions.
    """

    def __init__(self, message: str, sequence: int | None = None) -> None:
        super().__init__(message)
        self.sequence = sequence


@dataclass(frozen=True)
class Constraints:
    """Hard constraints on tags: allowed transitions `[from, to]` (T, T), first and last tags (T,).

    Each field has the name of the head's parameter that it restricts. See `Potentials.constrain`.

    >>> import numpy as np
    >>> from bcrf.chain import CRF, Constraints, Potentials
    >>> may_start = np.array([True, False])
    >>> constraints = Constraints(np.ones((2, 2), bool), may_start, np.ones(2, bool))
    >>> potentials = Potentials(np.array([[0.0, 1.0], [0.0, 1.0]]), np.zeros((2, 2)), np.int32([2]))
    >>> CRF().decode(potentials.constrain(constraints)).tolist()
    [0, 1]
    """

    transitions: NDArray[np.bool_]
    start: NDArray[np.bool_]
    end: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Potentials:
    """Scores of a batch of B sequences with N tokens in all and T tags. NumPy or CuPy arrays.

    unary: (N, T) float32 or float64, the tag scores. Start and end scores are part of them.
    transitions: (T, T), indexed [from, to] and shared by all edges; or (N, T, T), where row i
        scores the edge from flat token i to i + 1. The row of a sequence's last token is ignored.
    lengths: (B,) int32, summing to N. A length may be zero.

    arrays: the three, the first arguments of the kernels.

    A score of -inf forbids a tag or a transition. Scores of float16 become float32. Raises
    ValueError for another dtype and shapes that do not fit, and NotFiniteError for NaN and +inf.
    The error names the dtype, the shape, or the index of the first bad sequence.

    >>> import numpy as np
    >>> from bcrf.chain import Potentials
    >>> w = Potentials(np.eye(2), np.zeros((2, 2)), np.array([2], dtype="int32"))
    >>> w
    Potentials(1 sequence, 2 tokens, 2 tags)
    """

    unary: Array
    transitions: Array
    lengths: Array
    arrays: tuple[Array, Array, Array] = field(init=False)

    def __post_init__(self) -> None:
        xp = self.xp
        for name in ("transitions", "lengths"):
            if not isinstance(getattr(self, name), xp.ndarray):
                raise ValueError(f"unary is a {xp.__name__} array, {name} is not")
        for name in ("unary", "transitions"):
            if getattr(self, name).dtype.char not in "efd":
                raise ValueError(
                    f"{name} must be float32 or float64, got {getattr(self, name).dtype}"
                )
        # Numbers of another type would be cut off.
        if self.lengths.dtype != "int32":
            raise ValueError(f"lengths must be int32, got {self.lengths.dtype}")
        dtype = "float64" if self.unary.dtype == "float64" else "float32"
        for name, to in (("unary", dtype), ("transitions", dtype), ("lengths", "int32")):
            object.__setattr__(self, name, xp.ascontiguousarray(getattr(self, name), dtype=to))
        object.__setattr__(self, "arrays", (self.unary, self.transitions, self.lengths))
        self._check()

    def __repr__(self) -> str:
        counts = (
            counted(len(self.lengths), "sequence"),
            counted(len(self.unary), "token"),
            counted(self.unary.shape[1], "tag"),
        )
        per_edge = ", per-edge transitions" if self.transitions.ndim == 3 else ""
        return f"Potentials({', '.join(counts)}{per_edge})"

    def _repr_html_(self) -> str:
        """Show the tag scores of the first tokens and tags in a notebook."""
        rows, tags = (min(n, 20) for n in self.unary.shape)
        head = "".join(f"<th>{tag}</th>" for tag in range(tags))
        body = "".join(
            f"<tr><th>{self.sequence_of(i)}</th><th>{i}</th>"
            + "".join(f"<td>{float(self.unary[i, tag]):.2f}</td>" for tag in range(tags))
            + "</tr>"
            for i in range(rows)
        )
        cut = " Rows and columns from 20 on are left out." if max(self.unary.shape) > 20 else ""
        return (
            f"<p>{self!r}. Tag scores by token:{cut}</p>"
            f"<table><tr><th>sequence</th><th>token</th>{head}</tr>{body}</table>"
        )

    @classmethod
    def unchecked(
        cls, unary: Array, transitions: Array, lengths: Array, xp: ModuleType | None = None
    ) -> Potentials:
        """Return potentials without checks. xp: the array module, if the caller knows it."""
        self = object.__new__(cls)
        xp, arrays = xp or array_module(unary, "unary"), (unary, transitions, lengths)
        fields = self.__dict__
        fields.update(unary=unary, transitions=transitions, lengths=lengths, xp=xp, arrays=arrays)
        return self

    @classmethod
    def deferred(
        cls, unary: Array, transitions: Array, lengths: Array, xp: ModuleType | None = None
    ) -> Potentials:
        """Return potentials that are checked now if they are NumPy arrays.

        On a GPU each check would synchronize; their inference reports NaN, see `raise_deferred`.
        """
        self = cls.unchecked(unary, transitions, lengths, xp)
        if self.xp.__name__ == "numpy":
            self.__post_init__()
        return self

    def with_scores(self, unary: Array, transitions: Array) -> Potentials:
        """Return potentials of the same sequences with other scores. See `deferred`."""
        return Potentials.deferred(unary, transitions, self.lengths, self.xp)

    def gradient(self, unary: Array, transitions: Array) -> Potentials:
        """Return a gradient, or scores with more of -inf, unchecked: C-contiguous, of one dtype."""
        return Potentials.unchecked(unary, transitions, self.lengths, self.xp)

    @lazy
    def xp(self) -> ModuleType:
        """The array module: NumPy or CuPy."""
        return array_module(self.unary, "unary")

    @lazy
    def segment_ids(self) -> Array:
        """(N,) index of each token's sequence."""
        tokens = self.xp.arange(len(self.unary))
        return self.xp.searchsorted(self.lengths.cumsum(), tokens, side="right")

    @lazy
    def starts(self) -> Array:
        """Flat index of the first token of each non-empty sequence."""
        return boundaries(self.lengths)[0]

    @lazy
    def ends(self) -> Array:
        """Flat index of the last token of each non-empty sequence."""
        return boundaries(self.lengths)[1]

    @lazy
    def inner_edges(self) -> Array:
        """Flat index of every token that has a successor in its sequence."""
        has_next = self.xp.ones(len(self.unary), dtype=bool)
        has_next[self.ends] = False
        return self.xp.flatnonzero(has_next)

    def restrict(self, allowed: Array) -> Potentials:
        """Return these potentials with -inf for every tag that `allowed`, bool (N, T), excludes."""
        if allowed.shape != self.unary.shape:
            raise ValueError(f"allowed has shape {allowed.shape}, unary {self.unary.shape}")
        # Arithmetic on the mask takes a seventh of the time of `where`.
        upper = allowed.astype(self.unary.dtype, order="C")
        upper -= 0.5
        upper *= float("inf")
        return self.gradient(self.xp.minimum(self.unary, upper, out=upper), self.transitions)

    def constrain(self, constraints: Constraints | None) -> Potentials:
        """Return these potentials with -inf on all forbidden tags and transitions."""
        if constraints is None:
            return self
        xp, unary = self.xp, self.unary.copy()
        forbidden = unary.dtype.type("-inf")
        starts, ends = boundaries(self.lengths)
        for tokens, allowed in (starts, constraints.start), (ends, constraints.end):
            unary[tokens] = xp.where(xp.asarray(allowed), unary[tokens], forbidden)
        allowed = xp.asarray(constraints.transitions)
        return self.gradient(unary, xp.where(allowed, self.transitions, forbidden))

    def scale(self, factor: float) -> Potentials:
        """Return these potentials times a positive factor, the inverse temperature."""
        if factor == 1:
            return self
        return self.with_scores(self.unary * factor, self.transitions * factor)

    def astype(self, dtype: str) -> Potentials:
        """Return these potentials in float32 or float64."""
        return self.with_scores(self.unary.astype(dtype), self.transitions.astype(dtype))

    def tokens_of(self, sequences: Sequence[int] | NDArray[np.integer]) -> Array:
        """Return the flat tokens of some sequences, by index, in this order. They may repeat."""
        # A list: CuPy has no `repeat` by array.
        lengths, chosen = np.array(self.lengths.tolist(), "int64"), np.array(sequences, "int64")
        starts = lengths.cumsum() - lengths
        return self.xp.asarray(join_ranges(starts[chosen], lengths[chosen]))

    def take(self, sequences: Sequence[int] | NDArray[np.integer]) -> Potentials:
        """Return the potentials of some sequences, see `tokens_of`."""
        tokens = self.tokens_of(sequences)
        transitions = self.transitions if self.transitions.ndim == 2 else self.transitions[tokens]
        lengths = self.lengths[self.xp.asarray(sequences, dtype="int64")]
        # `take` costs half as much as an index array.
        unary = self.unary.take(tokens, axis=0)
        return Potentials.unchecked(unary, transitions, lengths, self.xp)

    @staticmethod
    def join(parts: Sequence[Potentials]) -> Potentials:
        """Return potentials of all sequences of some batches in order. ValueError without a batch.

        Transitions stay shared if all batches share the same ones.
        """
        if not parts:
            raise ValueError("expected at least one batch of potentials, got none")
        xp = parts[0].xp
        # A batch without tokens has no edges, whatever its transitions.
        found = [p for p in parts if len(p.unary)] or list(parts[:1])
        transitions = found[0].transitions
        if any(p.transitions.ndim == 3 or (p.transitions != transitions).any() for p in found):
            transitions = xp.concatenate(
                [xp.broadcast_to(p.transitions, (*p.unary.shape, p.unary.shape[1])) for p in found]
            )
        unary = xp.concatenate([p.unary for p in parts])
        lengths = xp.concatenate([p.lengths for p in parts])
        return Potentials.unchecked(unary, transitions, lengths, xp)

    def sequence_of(self, token: int) -> int:
        """Index of the sequence that holds a flat token."""
        return int((self.lengths.cumsum() <= token).sum())

    def _check(self) -> None:
        xp, unary, transitions, lengths = self.xp, self.unary, self.transitions, self.lengths
        if unary.ndim != 2:
            raise ValueError(f"unary must be (N, T), got shape {unary.shape}")
        n, t = unary.shape
        if t == 0:
            raise ValueError("unary must have at least one tag, got shape (N, 0)")
        if transitions.shape not in ((t, t), (n, t, t)):
            raise ValueError(
                f"transitions must be {(t, t)} or {(n, t, t)} for unary of shape {unary.shape}, "
                f"got {transitions.shape}"
            )
        if lengths.ndim != 1:
            raise ValueError(f"lengths must be (B,), got shape {lengths.shape}")
        if len(lengths) and int(lengths.min()) < 0:
            raise ValueError(f"lengths[{int(lengths.argmin())}] is negative")
        if int(lengths.sum()) != n:
            raise ValueError(f"lengths sum to {int(lengths.sum())}, but unary has {n} rows")
        # One maximum detects both NaN and +inf. The search for their sequence comes only then.
        if unary.size and not unary.max() < xp.inf:
            sequence = self.sequence_of(int((~(unary < xp.inf).all(axis=1)).argmax()))
            raise NotFiniteError(f"unary has NaN or +inf in sequence {sequence}", sequence)
        if transitions.size and not transitions.max() < xp.inf:
            if transitions.ndim == 2:
                raise NotFiniteError("transitions have NaN or +inf")
            # The rows of last tokens are ignored, so any score is valid there.
            bad = ~(transitions[self.inner_edges] < xp.inf).all(axis=(1, 2))
            if bad.any():
                sequence = self.sequence_of(int(self.inner_edges[int(bad.argmax())]))
                what = f"transitions have NaN or +inf in sequence {sequence}"
                raise NotFiniteError(what, sequence)


def boundaries(lengths: Array) -> tuple[Array, Array]:
    """Return the first and the last flat index of each non-empty sequence. lengths: (B,)."""
    lengths = lengths[lengths > 0]
    ends = lengths.cumsum() - 1
    return ends + 1 - lengths, ends


def join_ranges(starts: NDArray[np.integer], sizes: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return start, start + 1, .. for each start, as many numbers as its size."""
    return np.repeat(starts - sizes.cumsum() + sizes, sizes) + np.arange(sizes.sum())


def raise_infeasible(values: Array, kind: str) -> None:
    """Raise ValueError naming the first sequence whose value (B,) is infinite or NaN.

    kind: which labelings the sequence lacks if its value is -inf, "allowed" or "gold".
    """
    if type(values) is not np.ndarray:
        raise_deferred(values)
    infinity = float("inf")
    # One comparison, because each waits for a GPU.
    if values.size and not abs(values).max() < infinity:
        sequence = int((~(abs(values) < infinity)).argmax())
        raise bad_sequence(sequence, kind if values[sequence] < 0 else "not finite")


def finite(losses: Array) -> Array:
    """Return losses (B,). NotFiniteError if one is NaN or +inf: sums can be beyond the type.

    Losses on a GPU are not checked, to wait for none.
    """
    if type(losses) is np.ndarray and losses.size and not losses.max() < float("inf"):
        raise bad_sequence(int((~(losses < float("inf"))).argmax()), "not finite")
    return losses


def raise_deferred(array: Array) -> None:
    """Raise the first error of earlier losses on a GPU, which did not wait to raise it.

    array: any array; for NumPy there is nothing to raise. This waits for the GPU.
    """
    for sequence, problem in take_errors(array):
        raise bad_sequence(sequence, problem)


def bad_sequence(sequence: int, problem: str) -> ValueError:
    """Return the error of a problem, see `kernels.take_errors`."""
    if problem == "not finite":
        what = f"sequence {sequence} has NaN or +inf among its scores, or sums beyond their type"
        return NotFiniteError(what, sequence)
    if problem == "wrong tag":
        return ValueError(f"gold has a tag outside of the potentials' tags in sequence {sequence}")
    if problem == "no token":
        return ValueError(f"mask of the first timestep must all be on: sequence {sequence} is off")
    if problem == "hole":
        return ValueError(f"mask has a hole in sequence {sequence}; padding comes after the tokens")
    if problem == "partial":
        return ValueError(
            f"sequence {sequence} has partial gold, and mean field cannot be restricted to a set "
            "of labelings; annotate all of its tokens or none, or use a CRF or BCRF"
        )
    kind = {"infeasible": "gold", "forbidden": "allowed"}.get(problem, problem)
    return ValueError(f"sequence {sequence} has no {kind} labeling: -inf forbids all of them")


def check_numbers(**options: object) -> None:
    """Raise ValueError naming the first option that is not a number: a config may hold strings."""
    for name, value in options.items():
        if not isinstance(value, Real) or isinstance(value, bool):
            raise ValueError(f"{name} must be a number, got {value!r}")


def check_least(least: float, **options: Any) -> None:
    """Raise ValueError naming the first option that is no finite number of at least `least`."""
    check_numbers(**options)
    for name, value in options.items():
        if not least <= value < float("inf"):
            expected = f"at least {least}" if value < least else "finite"
            raise ValueError(f"{name} must be {expected}, got {value}")


def check_positive(**options: Any) -> None:
    """Raise ValueError naming the first option that is no positive finite number."""
    check_numbers(**options)
    for name, value in options.items():
        if not 0 < value < float("inf"):
            raise ValueError(f"{name} must be positive and finite, got {value}")


def counted(n: int, noun: str) -> str:
    """Return "1 tag", "3 tags" or "3 entities"."""
    many = f"{noun[:-1]}ies" if noun.endswith("ity") else f"{noun}s"
    return f"{n:,} {noun if n == 1 else many}"


def shorten(names: Sequence[str], width: int = 80) -> str:
    """Return names that fit a line, with " .." for the others."""
    text = ", ".join(names)
    return text if len(text) <= width else text[:width].rpartition(", ")[0] + " .."
