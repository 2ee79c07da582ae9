"""Kernels with blocks of allowed transitions, against the reference kernels."""

from functools import cache
from itertools import cycle

import numpy as np
import pytest
from oracles import reference, reference_posterior
from pairwise import pairwise
from paths import PATHS, Forced
from test_kernels import (
    assert_same,
    assert_same_mean_field,
    assert_same_projections,
    doubles,
    lowest_allowed_tags,
)

from bcrf import kernels
from bcrf.kernels import BregmanOptions, native

LENGTHS = {"equal": np.full(33, 6), "ragged": np.arange(40) % 13, "few": np.array([9, 1, 0, 4])}
OPTIONS = [
    BregmanOptions(5, 1.25, None, "upper"),
    BregmanOptions(6, None, 1e-2, "upper", unary="outgoing"),
    BregmanOptions(4, 1.25, None, "upper", unary="chain"),
    BregmanOptions(4, 1.0, None, "lower"),
]


def scheme(name, n_labels):
    """Return the allowed transitions (T, T) of a tagging scheme."""
    starts, inner, ends = {"BIO": ("B", "I", "BI"), "BILUO": ("BU", "IL", "LU")}[name]
    places = "".join(dict.fromkeys(starts + inner))
    tags = [("O", None), *((p, label) for label in range(n_labels) for p in places)]
    # In BIO each tag may end an entity. In BILUO an entity that has begun must go on.
    return np.array(
        [
            [
                (q in inner and a == b and p in "BI")
                or ((q == "O" or q in starts) and (p == "O" or p in ends))
                for q, b in tags
            ]
            for p, a in tags
        ]
    )


def few_columns(n_tags):
    """Two kinds of followers, and tags that nothing may precede or follow."""
    allowed = np.zeros((n_tags, n_tags), dtype=bool)
    allowed[::2, : n_tags // 3] = True
    allowed[: n_tags // 2, n_tags // 3 : -2] = True
    return allowed


def many_rows(n_tags):
    """Four kinds of predecessors, but up to 16 kinds of followers."""
    kinds = np.random.default_rng(0).random((n_tags, 4)) < 0.5
    return kinds[:, np.arange(n_tags) % 4]


ALLOWED = {
    "BILUO 4": scheme("BILUO", 4),
    "BILUO 6": scheme("BILUO", 6),
    "BILUO 17": scheme("BILUO", 17),
    "BILUO 32": scheme("BILUO", 32),
    "BIO 20": scheme("BIO", 20),
    "few columns": few_columns(30),
    "many rows": many_rows(25),
    "many columns": many_rows(25).T,
    "none": np.zeros((26, 26), dtype=bool),
}
CASES = pairwise(
    list(ALLOWED),
    list(LENGTHS),
    ["float32", "float64"],
    [2.0, 60.0, 3000.0],
    [1.0, 400.0],
    [False, True],
    OPTIONS,
)


@pytest.mark.parametrize(
    "path, name, lengths, dtype, scale, spread, forbid, options",
    [(path, *case) for path, case in zip(cycle(PATHS), CASES, strict=False)],
)
def test_blocks_are_the_reference(path, name, lengths, dtype, scale, spread, forbid, options):
    """spread: the deviation of transition scores. Blocks of wide numbers need a small one."""
    native = Forced(path)
    rng = np.random.default_rng(len(name))
    lengths = LENGTHS[lengths].astype("int32")
    allowed = ALLOWED[name]
    unary = rng.normal(0, scale, (lengths.sum(), len(allowed)))
    if forbid:
        unary[rng.random(unary.shape) < 0.1] = -np.inf
    transitions = np.where(allowed, rng.normal(0, spread, allowed.shape), -np.inf)
    arrays = unary.astype(dtype), transitions.astype(dtype), lengths
    double = doubles(*arrays)
    size = max(scale, spread)
    with np.errstate(all="ignore"):
        for edges in "sum", "each":
            found = native.sum_product(np, *arrays, edges, True)
            assert_same(found, reference.sum_product(np, *double, edges, True), dtype, size)
        tags, scores = native.max_product(np, *arrays)
        expected_tags, expected = reference.max_product(np, *double)
        np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-5)
        if dtype == "float64" and np.isfinite(expected).all():
            np.testing.assert_array_equal(tags, expected_tags)
        entropy = reference_posterior.entropy(np, *double)
        tolerance = 1e-5 if dtype == "float32" else 1e-10
        np.testing.assert_allclose(
            native.entropy(np, *arrays), entropy, rtol=tolerance, atol=tolerance * max(1, size / 10)
        )
        found = native.bregman(np, *arrays, options, "sum")
        oracle = reference.bregman(np, *double, options, "sum")
        assert_same_projections(found, oracle, options, dtype, size)


@pytest.mark.parametrize("path, dtype", pairwise(["lanes", "rows"], ["float32", "float64"]))
def test_mean_field_is_the_reference(path, dtype):
    """Its transitions are scores: a weight of a block would not be a factor of an edge's sum."""
    rng = np.random.default_rng(0)
    allowed = ALLOWED["BILUO 6"]
    lengths = LENGTHS["equal"].astype("int32")
    unary = rng.normal(size=(lengths.sum(), len(allowed))).astype(dtype)
    transitions = np.where(allowed, rng.normal(size=allowed.shape), -np.inf).astype(dtype)
    arrays = unary, transitions, lengths
    assert_same_mean_field(Forced(path), arrays, lowest_allowed_tags(unary), 3)


@cache
def long_sequences(name):
    """Return arrays of sequences of several windows, and what the reference computes of them.

    The sequences beyond the lanes of AVX-512 are enough tokens for a chunk of their own.
    """
    allowed = ALLOWED[name]
    rng = np.random.default_rng(0)
    lengths = np.array([2100, 30, 60, 2049, 5, 50, 2060, 40, 70, *[50] * 32], "int32")
    unary = rng.normal(0, 2, (lengths.sum(), len(allowed))).astype("float32")
    transitions = np.where(allowed, rng.normal(size=allowed.shape), -np.inf).astype("float32")
    arrays = unary, transitions, lengths
    double = doubles(*arrays)
    summed = reference.sum_product(np, *double, "sum", True)
    return arrays, summed, reference.max_product(np, *double)[1]


@pytest.mark.parametrize("name", ["BILUO 17", "BILUO 32"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("path", ["lanes", "lanes wide"])
def test_long_sequences_and_threads(path, name, threads):
    native = Forced(path)
    arrays, summed, best = long_sequences(name)
    kernels.set_threads(threads)
    try:
        found = native.sum_product(np, *arrays, "sum", True)
        scores = native.max_product(np, *arrays)[1]
    finally:
        kernels.set_threads(None)
    assert_same(found, summed, "float32", 100)
    np.testing.assert_allclose(scores, best, rtol=1e-5)


@pytest.mark.parametrize("value, scale", [(np.nan, 3000.0), (np.inf, 1.0), (np.inf, 3000.0)])
def test_wrong_transitions_are_not_forbidden(value, scale):
    allowed = scheme("BILUO", 8)
    rng = np.random.default_rng(0)
    unary = rng.normal(0, scale, (160, len(allowed))).astype("float32")
    transitions = np.where(allowed, 0, -np.inf).astype("float32")
    transitions[0, 1] = value
    lengths = np.full(16, 10, "int32")
    with np.errstate(all="ignore"):
        assert not np.isfinite(
            native.sum_product(np, unary, transitions, lengths, "sum", True).value
        ).any()
        options = BregmanOptions(5, 1.25, None)
        assert not np.isfinite(
            native.bregman(np, unary, transitions, lengths, options, "sum").value
        ).any()


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("tags", [2, 5, 64, 70])
def test_tags_that_no_allowed_labeling_uses_are_found(tags, shared):
    """A beam of one prefix then finds a labeling if there is one, and projections know."""
    rng = np.random.default_rng(tags)
    for share in 0.5 / tags, 1.2 / tags, 3 / tags:
        lengths = rng.integers(1, 7, size=40).astype("int32")
        n = lengths.sum()
        unary = rng.normal(size=(n, tags))
        transitions = rng.normal(size=(tags, tags) if shared else (n, tags, tags))
        unary[rng.random(unary.shape) < 0.3] = -np.inf
        transitions[rng.random(transitions.shape) > share] = -np.inf
        batch = unary, transitions, lengths
        is_possible = [bool(np.isfinite(brute_force_best(s))) for s in sequences_of(*batch)]
        assert np.isfinite(kernels.beam_search(*batch, 1, 1)[1][:, 0]).tolist() == is_possible
        found = kernels.bregman(*batch, BregmanOptions(3, 1.0, None)).value
        assert np.isfinite(found).tolist() == is_possible


def sequences_of(unary, transitions, lengths):
    """Yield the tag scores (L, T) and the transitions (L - 1, T, T) of each sequence."""
    start = 0
    for length in lengths.tolist():
        edges = transitions if transitions.ndim == 2 else transitions[start : start + length - 1]
        shape = (length - 1, *transitions.shape[-2:])
        yield unary[start : start + length], np.broadcast_to(edges, shape)
        start += length


def brute_force_best(sequence):
    """Return the score of the best labeling, from all prefixes by their last tag."""
    scores, edges = sequence
    best = scores[0]
    for own, edge in zip(scores[1:], edges, strict=True):
        best = (best[:, None] + edge).max(axis=0) + own
    return best.max()
