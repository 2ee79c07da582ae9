"""Random small problems, for hypothesis."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from spacy_bcrf.chain import Potentials, feasible


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
    """A batch in which every sequence has an allowed labeling; empty sequences among them."""
    tags = draw(st.integers(1, max_tags))
    lengths = draw(st.lists(st.integers(0, max_length), min_size=0, max_size=max_sequences))
    shared = draw(st.booleans())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = sum(lengths)
    unary = rng.normal(0, scale, (n, tags))
    transitions = rng.normal(0, scale, (tags, tags) if shared else (n, tags, tags))
    if forbid and draw(st.booleans()):
        # One labeling is kept, so that no sequence becomes infeasible.
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
    batch = Potentials(unary.astype(dtype), transitions.astype(dtype), np.array(lengths, "int32"))
    assert feasible(batch).all()
    return batch


@st.composite
def gold_sets(draw: Any, batch: Potentials) -> np.ndarray:
    """bool (N, T) sets of allowed tags that leave each sequence a labeling."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    allowed = rng.random(batch.unary.shape) < draw(st.sampled_from([0.0, 0.3, 0.7, 1.0]))
    allowed[np.arange(len(allowed)), labeling(batch, rng)] = True
    return allowed


def labeling(batch: Potentials, rng: np.random.Generator) -> np.ndarray:
    """int32 (N,): an allowed labeling, not the best one."""
    from spacy_bcrf.chain import viterbi

    noise = rng.normal(0, 10, batch.unary.shape)
    return viterbi(Potentials(batch.unary + noise, batch.transitions, batch.lengths))[0]
