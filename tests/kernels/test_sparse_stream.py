"""Labelings of tokens in pieces, against those of the whole sequence."""

import itertools

import numpy as np
import pytest

from bcrf import kernels
from bcrf.chain import CRF, Potentials, SpanTags, span_posteriors, viterbi
from bcrf.kernels.sparse import Stream

BIO = np.array([[True, True, False], [True, True, True], [True, True, True]])
STARTS, GOES_ON = np.array([True, True, False]), np.array([False, True, True])


def make(rng: np.random.Generator, n: int, dtype: str, scale: float) -> tuple[Potentials, Stream]:
    """Return a BIO sequence of two chains of one label, and its stream."""
    edges = np.where(BIO, rng.normal(size=(3, 3)) * scale, -np.inf).astype(dtype)
    unary = (rng.normal(size=(2, n, 3)) * scale).round(1).astype("float32")
    closed = np.zeros((3, 4, 2, 3), bool)
    closed[0, :, :, 2] = True  # no first token continues a span
    stream = Stream(np.stack([edges] * 4), closed, STARTS, GOES_ON, 0, 1.0)
    whole = unary.astype(dtype)
    whole[:, 0, 2] = -np.inf
    lengths = np.array([n, n], "int32")
    return Potentials(whole.reshape(2 * n, 3), edges, lengths), (stream, unary)


@pytest.mark.parametrize(("dtype", "scale"), [("float32", 1), ("float64", 3), ("float32", 300)])
@pytest.mark.parametrize("seed", range(4))
def test_equals_the_whole(seed: int, dtype: str, scale: float) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 30))
    potentials, (stream, unary) = make(rng, n, dtype, scale)
    rows = np.ascontiguousarray(unary.swapaxes(0, 1).reshape(n, 6))
    values = np.zeros((n, 2), "uint64")
    tags, _ = kernels.max_product(potentials.unary, potentials.transitions, potentials.lengths)
    marginals = CRF().marginals(potentials.astype("float64")).unary.reshape(2, n, 3)
    spans, at = [], 0
    for size in itertools.cycle((1, 3, 2)):
        stop = min(n, at + size)
        spans += stream.extend(rows, values, at, stop, stop == n, 10**6)
        final = stream.final
        assert stream.tags(stream.first, final) == tags[stream.first : final].tolist()
        for i in range(stream.first, stop):
            for chain, tag in itertools.product(range(2), range(3)):
                low, high = stream.bound(chain, i, [tag])
                assert low - 1e-6 <= marginals[chain, i, tag] <= high + 1e-6
        at = stop
        if at == n:
            break
        stream.drop(stream.undecided)
    found = {(c, i, k) for c, i, k, _ in spans}
    for chain, of_chain in enumerate(tags.reshape(2, n)):
        starts = np.flatnonzero(of_chain == 1)
        ends = [next((k for k in range(i + 1, n) if of_chain[k] != 2), n) for i in starts]
        assert {(c, i, k) for c, i, k in found if c == chain} == {
            (chain, int(i), k) for i, k in zip(starts, ends, strict=True)
        }


def test_spans_and_candidates() -> None:
    """Bounds hold the posterior of the whole sequence, and no likely span is missed."""
    rng, bio = np.random.default_rng(5), np.array([[1], [2], [2], [1]], "int32")
    potentials, (stream, unary) = make(rng, 12, "float64", 1.5)
    rows = np.ascontiguousarray(unary.swapaxes(0, 1).reshape(12, 6))
    stream.extend(rows, np.zeros((12, 2), "uint64"), 0, 7, False, 10**6)
    first = stream.first
    spans = [(i, k) for i in range(first, 7) for k in range(i + 1, 8)]
    starts, ends = np.array(spans).T
    tags, label = SpanTags(*bio), np.zeros(len(spans), "int64")
    open_ends = ends.clip(max=7)
    p = span_posteriors(potentials, tags, starts, open_ends, label)
    found = stream.candidates(first, np.full((2, 1), 0.1), bio)
    for (start, end), of_whole in zip(spans, p.tolist(), strict=True):
        if end <= 7:
            low, high = stream.bound(0, start, [1] + [2] * (end - start - 1), 2)
            assert low - 1e-9 <= of_whole <= high + 1e-9
            assert ((0, start, end, 0) in found) == (high >= 0.1)


def test_max_lag() -> None:
    rng = np.random.default_rng(2)
    _, (stream, unary) = make(rng, 40, "float32", 0.05)
    rows = np.ascontiguousarray(unary.swapaxes(0, 1).reshape(40, 6))
    for i in range(40):
        stream.extend(rows, np.zeros((40, 2), "uint64"), i, i + 1, i == 39, 1)
        assert stream.final >= i
    assert stream.forced


def test_errors() -> None:
    _, (stream, unary) = make(np.random.default_rng(0), 3, "float32", 1)
    rows = np.ascontiguousarray(unary.swapaxes(0, 1).reshape(3, 6))
    values = np.zeros((3, 2), "uint64")
    stream.extend(rows, values, 0, 2, False, 10**6)
    rows[2, 1] = np.nan
    with pytest.raises(ValueError, match="NaN or infinite"):
        stream.extend(rows, values, 2, 3, True, 10**6)
    rows[2] = -np.inf
    with pytest.raises(ValueError, match="no labeling is allowed"):
        stream.extend(rows, values, 2, 3, True, 10**6)
    with pytest.raises(IndexError):
        stream.bound(0, 1, [1, 2, 2])
    with pytest.raises(IndexError):
        stream.tags(0, 3)
    assert stream.length == 2


def test_viterbi_of_other_kinds() -> None:
    """Constraints of a token's kind hold: no span starts or ends at tokens of kind 2."""
    edges = np.stack([np.where(BIO, 0.0, -np.inf)] * 4)
    closed = np.zeros((3, 4, 1, 3), bool)
    closed[:, 2, :, 1:] = True
    stream = Stream(edges, closed, STARTS, GOES_ON, 0, 1.0)
    rows = np.tile(np.float32([0, 1, 0.5]), (3, 1))
    values = np.array([[0, 0], [0, 1], [0, 0]], "uint64")
    stream.extend(rows, values, 0, 3, True, 10**6)
    assert stream.tags(0, 3) == [1, 0, 1]
    whole = Potentials(np.where([[False] * 3, [False, True, True], [False] * 3], -np.inf, rows),
                       edges[0], np.array([3], "int32"))  # fmt: skip
    assert viterbi(whole)[0].tolist() == [1, 0, 1]
