"""N-best lists and Dijkstra's algorithm against enumeration."""

import numpy as np
import problems
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import enumeration

from bcrf.chain import Potentials, dijkstra, nbest, viterbi
from bcrf.chain.search import nbest_arrays

pytestmark = pytest.mark.usefixtures("processor")


def allowed_labelings(u, w):
    """Allowed labelings and their scores, best first."""
    paths, scores = enumeration.labelings(u, w)
    order = np.argsort(-scores, kind="stable")
    order = order[scores[order] > -np.inf]
    return paths[order], scores[order]


@given(problems.potentials(max_tags=3, max_length=5), st.sampled_from([1, 2, 3, 5, 17, 1000]))
def test_nbest_is_enumerated(batch, n):
    found = nbest(batch, n)
    for (tags, scores), (_, u, w) in zip(found, enumeration.sequences(batch), strict=True):
        paths, expected = allowed_labelings(u, w)
        assert tags.dtype == np.int32 and tags.shape == (min(n, len(paths)), len(u))
        np.testing.assert_allclose(scores, expected[:n], atol=1e-9)
        assert len({tuple(path) for path in tags.tolist()}) == len(tags)
        at = np.arange(len(u))
        again = u[at, tags].sum(axis=1) + w[at[:-1], tags[:, :-1], tags[:, 1:]].sum(axis=1)
        np.testing.assert_allclose(again, scores, atol=1e-9)


@given(problems.potentials(), st.integers(1, 4))
def test_nbest_arrays_hold_the_same_lists(batch, n):
    tags, scores = nbest_arrays(batch, n)
    assert tags.shape == (n, len(batch.unary)) and scores.shape == (len(batch.lengths), n)
    found = zip(nbest(batch, n), enumeration.sequences(batch), strict=True)
    for b, ((paths, path_scores), (rows, _, _)) in enumerate(found):
        m = len(paths)
        np.testing.assert_array_equal(tags[:m, rows], paths)
        np.testing.assert_array_equal(scores[b], [*path_scores, *[-np.inf] * (n - m)])


@given(problems.potentials(max_tags=3, max_length=5), st.integers(1, 5))
def test_a_wide_beam_is_exact(batch, n):
    exact, beam = nbest(batch, n), nbest(batch, n, search="beam", beam_width=3**5)
    for (_, scores), (_, expected) in zip(beam, exact, strict=True):
        np.testing.assert_allclose(scores, expected, atol=1e-9)


@given(problems.potentials(), st.integers(1, 3), st.integers(0, 4))
def test_a_narrow_beam_finds_allowed_labelings_in_order(batch, n, more):
    beam = nbest(batch, n, search="beam", beam_width=n + more)
    for (tags, scores), (_, expected) in zip(beam, nbest(batch, n), strict=True):
        assert len(tags) >= 1 and (scores > -np.inf).all()
        assert (scores <= expected[: len(scores)] + 1e-9).all() and (np.diff(scores) <= 0).all()
        assert len({tuple(path) for path in tags.tolist()}) == len(tags)


@pytest.mark.parametrize("shared", [True, False])
def test_each_tie_is_found_once(shared):
    batch = Potentials(
        np.zeros((4, 3)), np.zeros((3, 3) if shared else (4, 3, 3)), np.array([4], "int32")
    )
    ((tags, scores),) = nbest(batch, 100)
    assert len({tuple(path) for path in tags.tolist()}) == 81 and not scores.any()
    assert tags[0].tolist() == viterbi(batch)[0].tolist()


@given(problems.potentials())
def test_dijkstra_equals_viterbi(batch):
    tags, scores = dijkstra(batch)
    expected_tags, expected = viterbi(batch)
    np.testing.assert_allclose(scores, expected, atol=1e-9)
    np.testing.assert_array_equal(tags, expected_tags)


@pytest.mark.parametrize("size", [1e4, 1e-4])
def test_scores_of_any_size(size):
    rng = np.random.default_rng(0)
    unary = (rng.normal(size=(50, 5)) * size).astype("float32")
    transitions = (rng.normal(size=(5, 5)) * size).astype("float32")
    batch = Potentials(unary, transitions, np.array([50], "int32"))
    np.testing.assert_array_equal(dijkstra(batch)[0], viterbi(batch)[0])
    ((tags, scores),) = nbest(batch, 10)
    ((expected_tags, expected),) = nbest(batch.astype("float64"), 10)
    np.testing.assert_array_equal(tags, expected_tags)
    np.testing.assert_allclose(scores, expected, rtol=1e-6)
    assert (np.diff(scores) <= 0).all()


def test_empty_batches_and_sequences():
    for lengths in ([], [0], [0, 0]):
        batch = Potentials(np.zeros((0, 3)), np.zeros((3, 3)), np.array(lengths, "int32"))
        for search in ("astar", "beam"):
            found = nbest(batch, 2, search=search)
            assert [tags.shape for tags, _ in found] == [(1, 0)] * len(lengths)
            assert [scores.tolist() for _, scores in found] == [[0.0]] * len(lengths)
        assert dijkstra(batch)[1].tolist() == [0.0] * len(lengths)


def test_infeasible_sequences_are_named():
    unary = np.zeros((6, 2))
    unary[4] = -np.inf
    batch = Potentials(unary, np.zeros((2, 2)), np.array([2, 0, 1, 3], "int32"))
    searches = (dijkstra, lambda p: nbest(p, 2), lambda p: nbest(p, 2, search="beam"))
    for search in searches:
        with pytest.raises(ValueError, match="sequence 3 has no allowed labeling"):
            search(batch)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"n": 0}, "n must be at least 1, got 0"),
        ({"n": 5, "search": "beam", "beam_width": 4}, "beam_width must be at least n = 5, got 4"),
        ({"n": 1, "search": "dfs"}, "search must be one of astar, beam, got 'dfs'"),
    ],
)
def test_invalid_options_are_named(options, message):
    batch = Potentials(np.zeros((2, 2)), np.zeros((2, 2)), np.array([2], "int32"))
    with pytest.raises(ValueError, match=message):
        nbest(batch, **options)
