"""Scores of tags and of pairs of neighbouring tags, for a ragged batch of sequences."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from spacy_bcrf.kernels import Array, array_module


@dataclass(frozen=True, eq=False)
class Potentials:
    """Scores of a batch of B sequences, N tokens in all, T tags. NumPy or CuPy.

    unary: (N, T) float32 or float64, the tag scores; start and end scores are added by the caller.
    transitions: (T, T) shared by all edges, [from, to]; or (N, T, T), where row i scores the edge
        from flat token i to i + 1 and the row of each sequence's last token is ignored.
    lengths: (B,) int32, summing to N; zeros are allowed.

    -inf forbids a tag or a transition. Raises ValueError, naming the shape or the index of the
    first bad sequence, for shapes that do not fit, NaN and +inf.
    """

    unary: Array
    transitions: Array
    lengths: Array

    def __post_init__(self) -> None:
        xp = array_module(self.unary)
        for name in ("transitions", "lengths"):
            if array_module(getattr(self, name)) is not xp:
                raise ValueError(f"unary is a {xp.__name__} array, {name} is not")
        # int64 and float16 are taken, and brought to the contract's types once, here.
        dtype = "float64" if self.unary.dtype == "float64" else "float32"
        for name, to in (("unary", dtype), ("transitions", dtype), ("lengths", "int32")):
            object.__setattr__(self, name, xp.ascontiguousarray(getattr(self, name), dtype=to))
        self._check_shapes()
        self._check_finite(xp)

    @classmethod
    def unchecked(cls, unary: Array, transitions: Array, lengths: Array) -> Potentials:
        """Potentials whose arrays are known to fit together. On a GPU nothing is checked, since
        that would wait for it; NaN is found when a value is."""
        if array_module(unary).__name__ == "numpy":
            return cls(unary, transitions, lengths)
        self = object.__new__(cls)
        for name, array in (("unary", unary), ("transitions", transitions), ("lengths", lengths)):
            object.__setattr__(self, name, array)
        return self

    @cached_property
    def segment_ids(self) -> Array:
        """(N,) the index of each token's sequence."""
        xp = array_module(self.unary)
        tokens = xp.arange(len(self.unary))
        return xp.searchsorted(self.lengths.cumsum(), tokens, side="right")

    @cached_property
    def starts(self) -> Array:
        """Flat index of the first token of each sequence that is not empty."""
        return self.ends + 1 - self.lengths[self.lengths > 0]

    @cached_property
    def ends(self) -> Array:
        """Flat index of the last token of each sequence that is not empty."""
        return (self.lengths.cumsum() - 1)[self.lengths > 0]

    @cached_property
    def inner_edges(self) -> Array:
        """Flat index of every token that has a next one in its sequence."""
        xp = array_module(self.unary)
        has_next = xp.ones(len(self.unary), dtype=bool)
        has_next[self.ends] = False
        return xp.flatnonzero(has_next)

    def restrict(self, allowed: Array) -> Potentials:
        """These potentials with -inf on the tags that `allowed`, bool (N, T), leaves out."""
        if allowed.shape != self.unary.shape:
            raise ValueError(f"allowed has shape {allowed.shape}, unary {self.unary.shape}")
        xp = array_module(self.unary)
        # Arithmetic rather than `where`, which takes seven times as long.
        most = allowed.astype(self.unary.dtype)
        most -= 0.5
        most *= float("inf")
        unary = xp.minimum(self.unary, most, out=most)
        return Potentials.unchecked(unary, self.transitions, self.lengths)

    def scale(self, factor: float) -> Potentials:
        """All scores times a positive factor, an inverse temperature."""
        return Potentials.unchecked(self.unary * factor, self.transitions * factor, self.lengths)

    def sequence_of(self, token: int) -> int:
        """Index of the sequence that holds a flat token."""
        return int((self.lengths.cumsum() <= token).sum())

    def _check_shapes(self) -> None:
        unary, transitions, lengths = self.unary, self.transitions, self.lengths
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

    def _check_finite(self, xp: Array) -> None:
        # One pass of max finds NaN and +inf alike; only then is it worth asking where they are.
        if self.unary.size and not self.unary.max() < xp.inf:
            bad = ~(self.unary < xp.inf).all(axis=1)
            sequence = self.sequence_of(int(bad.argmax()))
            raise ValueError(f"unary has NaN or +inf in sequence {sequence}")
        if self.transitions.ndim == 2:
            if not self.transitions.max() < xp.inf:
                raise ValueError("transitions have NaN or +inf")
        elif self.transitions.size and not self.transitions.max() < xp.inf:
            # Rows of last tokens are ignored, so they may hold anything.
            edges = self.inner_edges
            bad = ~(self.transitions[edges] < xp.inf).all(axis=(1, 2))
            if bad.any():
                sequence = self.sequence_of(int(edges[int(bad.argmax())]))
                raise ValueError(f"transitions have NaN or +inf in sequence {sequence}")
