"""Labelings of tokens in pieces, against those of the whole sequence."""

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bcrf import kernels
from bcrf.chain import CRF, Potentials, SpanTags, span_posteriors, viterbi
from bcrf.kernels.sparse import Dictionary, Extractor, Stream, StreamRules, StreamTokens, WordScores

BIO = np.array([[True, True, False], [True, True, True], [True, True, True]])
STARTS, GOES_ON = np.array([True, True, False]), np.array([False, True, True])
WORD = [(1, [(0, 0)])]  # one template, of the only attribute
NEVER_LATE = 10**6


def arrays(values: NDArray) -> tuple[Any, ...]:
    n = len(values)
    bags = np.zeros(1, "int64"), np.zeros(0, "uint64")
    return values, np.zeros(n, "int32"), *bags, 0, np.array([n], "int32")


class Scored:
    """A stream of different words that have given scores (n, C T). kinds: (n, 2)."""

    def __init__(
        self, rows: NDArray, edges: NDArray, closed: NDArray, kinds: NDArray | None = None
    ) -> None:
        n, n_tags = rows.shape
        self.values = np.arange(1, n + 1, dtype="uint64")[:, None]
        self.kinds = np.zeros((n, 2), "uint64") if kinds is None else kinds
        dictionary, general = Dictionary(), edges.shape[-1] + 3
        dictionary.find(Extractor(WORD).extract(arrays(self.values))[0], True)
        weights = np.zeros((general + n, 8), "float32")
        weights[general:, :n_tags] = rows
        self.scores = WordScores(WORD, 1)
        rules = StreamRules(edges, closed, STARTS, GOES_ON, 0, 1.0)
        self.stream = Stream(dictionary, weights, 1, 1, rules)

    def read(self, start: int, stop: int) -> Any:
        """Return words of one character and a blank."""
        values, n = self.values[start:stop], stop - start
        marks = np.hstack([np.ones((n, 2), "uint64"), self.kinds[start:stop]])
        return StreamTokens(["w "] * n, values[:, 0].copy(), arrays(values), marks)

    def extend(
        self, start: int, stop: int, max_lag: int = NEVER_LATE
    ) -> list[tuple[int, int, int, int]] | None:
        """Take some words. The last one has scores when the next one comes."""
        is_end = stop == len(self.values)
        return self.stream.extend([self.read(start, stop)], is_end, max_lag, self.scores)


def make(rng: np.random.Generator, n: int, dtype: str, scale: float) -> tuple[Potentials, Scored]:
    """Return a BIO sequence of two chains of one label, and its stream."""
    edges = np.where(BIO, rng.normal(size=(3, 3)) * scale, -np.inf).astype(dtype)
    unary = (rng.normal(size=(2, n, 3)) * scale).round(1).astype("float32")
    closed = np.zeros((3, 4, 2, 3), bool)
    closed[0, :, :, 2] = True  # no first token continues a span
    rows = unary.swapaxes(0, 1).reshape(n, 6)
    whole = unary.astype(dtype)
    whole[:, 0, 2] = -np.inf
    potentials = Potentials(whole.reshape(2 * n, 3), edges, np.array([n, n], "int32"))
    return potentials, Scored(rows, np.stack([edges] * 4), closed)


@pytest.mark.parametrize(("dtype", "scale"), [("float32", 1), ("float64", 3), ("float32", 300)])
@pytest.mark.parametrize("seed", range(4))
def test_equals_the_whole(seed: int, dtype: str, scale: float) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 30))
    potentials, scored = make(rng, n, dtype, scale)
    stream = scored.stream
    tags, _ = kernels.max_product(potentials.unary, potentials.transitions, potentials.lengths)
    marginals = CRF().marginals(potentials.astype("float64")).unary.reshape(2, n, 3)
    spans, at = [], 0
    for size in itertools.cycle((1, 3, 2)):
        stop = min(n, at + size)
        spans += scored.extend(at, stop) or []
        assert stream.length == (n if stop == n else stop - 1)
        final = stream.final
        assert stream.tags(stream.first, final) == tags[stream.first : final].tolist()
        for i in range(stream.first, stream.length):
            assert stream.characters(i, stream.length) == (2 * i, 2 * stream.length - 1)
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
    potentials, scored = make(rng, 12, "float64", 1.5)
    stream = scored.stream
    scored.extend(0, 8)
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


def test_far_tokens_are_not_read() -> None:
    """Bounds that agree stay, so a span of a long piece takes no time for all later tokens."""
    _, scored = make(np.random.default_rng(6), 2000, "float64", 1.5)
    bounds = []
    for start, stop in ((0, 1000), (1000, 1999)):
        scored.extend(start, stop)
        bounds.append([scored.stream.bound(0, i, [1], 2) for i in range(800)])
    assert bounds[0] == bounds[1] and all(low == high for low, high in bounds[0])


def test_max_lag() -> None:
    _, scored = make(np.random.default_rng(2), 40, "float32", 0.05)
    for i in range(40):
        scored.extend(i, i + 1, max_lag=1)
        assert scored.stream.final >= i - 1
    assert scored.stream.forced


@pytest.mark.parametrize(
    ("value", "match"), [(np.nan, "NaN or infinite"), (-np.inf, "no labeling is allowed")]
)
def test_errors(value: float, match: str) -> None:
    """An error takes nothing."""
    edges, closed = np.stack([np.where(BIO, 0.0, -np.inf)] * 4), np.zeros((3, 4, 1, 3), bool)
    rows = np.zeros((4, 3), "float32")
    rows[3] = value
    scored = Scored(rows, edges, closed)
    stream = scored.stream
    scored.extend(0, 2)
    for _ in range(2):
        with pytest.raises(ValueError, match=match):
            scored.extend(2, 4)
        assert stream.length == 1
    with pytest.raises(IndexError):
        stream.bound(0, 0, [1, 2, 2])
    with pytest.raises(IndexError):
        stream.tags(0, 2)
    with pytest.raises(IndexError):
        stream.characters(0, 2)
    marks = np.ones((1, 4), "uint64")
    other = StreamTokens(["w"], np.ones(1, "uint64"), arrays(np.ones((1, 2), "uint64")), marks)
    with pytest.raises(ValueError, match="a piece has 2 values, 0 bags"):
        stream.extend([other], False, NEVER_LATE, scored.scores)
    scored.values = scored.values[:3]
    scored.extend(2, 3)
    assert stream.length == stream.final == 3


def test_viterbi_of_other_kinds() -> None:
    """Constraints of a token's kind hold: no span starts or ends at tokens of kind 2."""
    edges = np.stack([np.where(BIO, 0.0, -np.inf)] * 4)
    closed = np.zeros((3, 4, 1, 3), bool)
    closed[:, 2, :, 1:] = True
    rows = np.tile(np.float32([0, 1, 0.5]), (3, 1))
    scored = Scored(rows, edges, closed, np.array([[0, 0], [0, 1], [0, 0]], "uint64"))
    scored.extend(0, 3)
    assert scored.stream.tags(0, 3) == [1, 0, 1]
    whole = Potentials(np.where([[False] * 3, [False, True, True], [False] * 3], -np.inf, rows),
                       edges[0], np.array([3], "int32"))  # fmt: skip
    assert viterbi(whole)[0].tolist() == [1, 0, 1]
