"""Potentials of several chains over the same tokens."""

import numpy as np

from bcrf.chain.side_by_side import join_chains, split_chains

T = 5
LENGTHS = np.array([4, 1, 6, 3], dtype="int32")
N = int(LENGTHS.sum())


def test_scores_are_split_and_joined_again():
    rng = np.random.default_rng(0)
    unary = rng.normal(size=(N, 3 * T))
    edges = rng.normal(size=(N, T, T))
    found = split_chains(unary, edges, LENGTHS, 3, np)
    assert (join_chains(found.unary, LENGTHS, 3, np) == unary).all()
    # The second sequence has one token, in three chains.
    assert found.lengths.tolist() == LENGTHS.repeat(3).tolist()
    assert (found.unary[12:15] == unary[4].reshape(3, T)).all()
    assert (found.transitions[12:15] == edges[4]).all()
