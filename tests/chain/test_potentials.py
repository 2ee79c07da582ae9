"""Checks, properties and reprs of potentials."""

from functools import partial

import numpy as np
import problems
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcrf.chain import CRF, Potentials, viterbi
from bcrf.chain.potentials import boundaries, check_least, check_positive


def make(unary=None, transitions=None, lengths=(2, 0, 3)):
    unary = np.zeros((5, 3)) if unary is None else unary
    transitions = np.zeros((3, 3)) if transitions is None else transitions
    return Potentials(unary, transitions, np.array(lengths, "int32"))


def at(shape, index, value):
    array = np.zeros(shape)
    array[index] = value
    return array


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"unary": np.zeros(5)}, r"unary must be \(N, T\), got shape \(5,\)"),
        ({"unary": np.zeros((5, 0))}, "at least one tag"),
        ({"transitions": np.zeros((3, 4))}, r"transitions must be \(3, 3\) or \(5, 3, 3\)"),
        ({"transitions": np.zeros((4, 3, 3))}, r"got \(4, 3, 3\)"),
        ({"lengths": (2, 2)}, "lengths sum to 4, but unary has 5 rows"),
        ({"lengths": (-1, 6)}, r"lengths\[0\] is negative"),
        ({"lengths": ((2, 3),)}, r"lengths must be \(B,\)"),
        ({"unary": at((5, 3), (3, 1), np.nan)}, r"unary has NaN or \+inf in sequence 2"),
        ({"unary": at((5, 3), (0, 1), np.inf)}, r"unary has NaN or \+inf in sequence 0"),
        ({"transitions": at((3, 3), (0, 1), np.inf)}, r"transitions have NaN or \+inf"),
        ({"transitions": at((5, 3, 3), (2, 0, 1), np.nan)}, "in sequence 2"),
        ({"transitions": [[0.0] * 3] * 3}, "unary is a numpy array, transitions is not"),
    ],
)
def test_invalid_arrays_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        make(**arguments)


def test_transitions_of_last_tokens_are_ignored():
    transitions = np.zeros((5, 3, 3))
    transitions[[1, 4]] = np.nan
    batch = make(transitions=transitions)
    np.testing.assert_allclose(CRF().log_partition(batch), np.log([9, 1, 27]))
    _, gradient = CRF().loss(batch, np.zeros(5, "int32"))
    assert not gradient.transitions[[1, 4]].any()


def test_any_memory_layout_is_valid():
    rng = np.random.default_rng(0)
    unary, transitions = rng.normal(size=(5, 3)), rng.normal(size=(3, 3))
    plain = CRF().log_partition(make(unary, transitions))
    odd = make(
        np.asfortranarray(unary), transitions.T.copy().T, lengths=np.array([2, 0, 3], "int64")
    )
    np.testing.assert_array_equal(CRF().log_partition(odd), plain)
    strided = np.zeros((10, 6))
    strided[::2, ::2] = unary
    np.testing.assert_array_equal(CRF().log_partition(make(strided[::2, ::2], transitions)), plain)


def test_a_mask_in_any_memory_layout_restricts():
    potentials = Potentials(np.zeros((4, 3)), np.eye(3), np.int32([4]))
    mask = np.asfortranarray([[True, False, True]] * 3 + [[False, True, False]])
    restricted = potentials.restrict(mask)
    assert viterbi(restricted)[0].tolist() == [0, 0, 0, 1]
    assert CRF().marginals(restricted)[0][:, 1].tolist() == [0, 0, 0, 1]


def test_starts_ends_and_inner_edges():
    batch = make()
    assert batch.starts.tolist() == [0, 2]
    assert batch.ends.tolist() == [1, 4]
    assert batch.inner_edges.tolist() == [0, 2, 3]
    assert batch.segment_ids.tolist() == [0, 0, 2, 2, 2]
    assert [batch.sequence_of(i) for i in range(5)] == [0, 0, 2, 2, 2]


@pytest.mark.parametrize(
    "lengths, starts, ends",
    [([], [], []), ([0], [], []), ([1], [0], [0]), ([0, 2, 0, 3, 0], [0, 2], [1, 4])],
)
def test_boundaries(lengths, starts, ends):
    found = boundaries(np.array(lengths, "int32"))
    assert [tokens.tolist() for tokens in found] == [starts, ends]


@pytest.mark.parametrize(
    "shape, lengths, expected",
    [
        ((3, 3), [5, 2], "Potentials(2 sequences, 7 tokens, 3 tags)"),
        ((1, 1), [1], "Potentials(1 sequence, 1 token, 1 tag)"),
        ((7, 3, 3), [7], "Potentials(1 sequence, 7 tokens, 3 tags, per-edge transitions)"),
        ((2, 2), [], "Potentials(0 sequences, 0 tokens, 2 tags)"),
    ],
)
def test_repr_gives_the_sizes(shape, lengths, expected):
    unary = np.zeros((sum(lengths), shape[-1]))
    assert repr(Potentials(unary, np.zeros(shape), np.array(lengths, "int32"))) == expected


def test_repr_of_marginals_gives_the_sizes():
    assert repr(CRF().marginals(make())) == "Marginals(5 tokens, 3 tags)"
    assert repr(CRF().marginals(make(), edges=True)) == "Marginals(5 tokens, 3 tags, with edges)"


def test_scale_is_an_inverse_temperature():
    rng = np.random.default_rng(0)
    batch = make(rng.normal(size=(5, 3)), rng.normal(size=(3, 3)))
    scaled = batch.scale(2.5)
    np.testing.assert_allclose(scaled.unary, 2.5 * batch.unary)
    np.testing.assert_allclose(scaled.transitions, 2.5 * batch.transitions)


def test_astype_converts_the_scores():
    batch = make().astype("float32")
    assert batch.unary.dtype == batch.transitions.dtype == "float32"
    assert batch.lengths.dtype == "int32"


@given(problems.potentials(), st.data())
def test_taken_and_joined_sequences_keep_their_marginals(batch, data):
    chosen = data.draw(st.permutations(range(len(batch.lengths))))
    expected = CRF().marginals(batch).unary
    rows = np.split(expected, batch.lengths.cumsum()[:-1])
    taken = batch.take(chosen)
    found = CRF().marginals(taken).unary
    np.testing.assert_allclose(found, np.concatenate([expected[:0], *(rows[i] for i in chosen)]))
    if chosen:
        joined = Potentials.join([batch.take([i]) for i in range(len(chosen))])
        assert joined.lengths.tolist() == batch.lengths.tolist()
        np.testing.assert_allclose(CRF().marginals(joined).unary, expected)


def test_joined_transitions_stay_shared_where_they_are():
    w, other = np.zeros((2, 2)), np.ones((2, 2))
    one = Potentials(np.zeros((2, 2)), w, np.array([2], "int32"))
    empty = Potentials(np.zeros((0, 2)), other, np.array([0], "int32"))
    assert Potentials.join([empty, one, one]).transitions is w
    mixed = Potentials.join([one, Potentials(one.unary, other, one.lengths)])
    np.testing.assert_array_equal(mixed.transitions, np.stack([w, w, other, other]))
    with pytest.raises(ValueError, match="at least one batch of potentials"):
        Potentials.join([])


def test_numbers_out_of_range_are_named():
    check_least(0, rate=0, width=np.int64(3))
    check_positive(rate=1e-300)
    for check, value, problem in (
        (partial(check_least, 1), 0, "n must be at least 1, got 0"),
        (partial(check_least, 1), float("inf"), "n must be finite, got inf"),
        (partial(check_least, 1), float("nan"), "n must be finite, got nan"),
        (partial(check_least, 1), "3", "n must be a number, got '3'"),
        (check_positive, 0, "n must be positive and finite, got 0"),
        (check_positive, float("nan"), "n must be positive and finite, got nan"),
        (check_positive, True, "n must be a number, got True"),
    ):
        with pytest.raises(ValueError, match=f"^{problem}$"):
            check(first=2, n=value)
