"""Hypothesis strategies for small random problems."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from oracles import enumeration

from bcrf.chain import Potentials


@st.composite
def potentials(
    draw: Any,
    *,
    max_tags: int = 4,
    max_length: int = 6,
    max_sequences: int = 4,
    dtype: str = "float64",
    forbid: bool = True,
    scale: float = 3.0,
) -> Potentials:
    """A batch whose sequences, some of them empty, each have an allowed labeling."""
    tags = draw(st.integers(1, max_tags))
    lengths = draw(st.lists(st.integers(0, max_length), min_size=0, max_size=max_sequences))
    shared = draw(st.booleans())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = sum(lengths)
    unary = rng.normal(0, scale, (n, tags))
    transitions = rng.normal(0, scale, (tags, tags) if shared else (n, tags, tags))
    if forbid and draw(st.booleans()):
        # Keep one labeling, so that every sequence stays feasible.
        kept = rng.integers(0, tags, n)
        mask = rng.random(unary.shape) < 0.3
        mask[np.arange(n), kept] = False
        unary[mask] = -np.inf
        mask = rng.random(transitions.shape) < 0.3
        if shared:
            mask[kept[:-1], kept[1:]] = False
        else:
            mask[np.arange(n)[:-1], kept[:-1], kept[1:]] = False
        transitions[mask] = -np.inf
    return Potentials(unary.astype(dtype), transitions.astype(dtype), np.array(lengths, "int32"))


@st.composite
def gold_sets(draw: Any, batch: Potentials) -> np.ndarray:
    """Sets of allowed tags, bool (N, T), that leave each sequence a labeling."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    allowed = rng.random(batch.unary.shape) < draw(st.sampled_from([0.0, 0.3, 0.7, 1.0]))
    allowed[np.arange(len(allowed)), labeling(batch, rng)] = True
    return allowed


def labeling(batch: Potentials, rng: np.random.Generator) -> np.ndarray:
    """A random allowed labeling, int32 (N,)."""
    tags = np.zeros(len(batch.unary), "int32")
    for rows, u, w in enumeration.sequences(batch):
        # From the last token back: the tags that have an allowed continuation.
        open_tags = u > -np.inf
        for i in range(len(u) - 2, -1, -1):
            open_tags[i] &= ((w[i] > -np.inf) & open_tags[i + 1]).any(axis=1)
        for i in range(len(u)):
            choices = open_tags[i] & (w[i - 1, tags[rows][i - 1]] > -np.inf if i else True)
            tags[rows.start + i] = rng.choice(np.flatnonzero(choices))
    return tags
