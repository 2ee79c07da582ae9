"""Dictionaries of feature keys, and rows of weights."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bcrf.kernels.sparse import Dictionary
from bcrf.linear.rows import known_rows


def test_dictionary_counts_and_numbers_by_frequency():
    dictionary = Dictionary()
    dictionary.count(np.array([7, 9, 7, 8, 7, 9], dtype="uint64"))
    dictionary.keep(2)
    assert dictionary.keys.tolist() == [7, 9]
    assert dictionary.find(np.array([9, 8, 7], dtype="uint64")).tolist() == [1, -1, 0]
    assert dictionary.find(np.array([8, 5, 8], dtype="uint64"), True).tolist() == [2, 3, 2]
    again = Dictionary()
    again.keys = dictionary.keys
    assert again.find(np.array([5, 8], dtype="uint64")).tolist() == [3, 2]
    zero = np.array([0, 7, 0], dtype="uint64")
    assert again.find(zero).tolist() == [-1, 0, -1]
    assert again.find(zero, True).tolist() == [4, 0, 4]


@given(st.lists(st.integers(1, 60), max_size=300), st.integers(1, 3))
def test_dictionary_against_a_dict(keys, min_freq):
    dictionary = Dictionary()
    array = np.array(keys, dtype="uint64") * np.uint64(2**58)  # in few home slots of the table
    array += np.array(keys, dtype="uint64")
    dictionary.count(array)
    dictionary.keep(min_freq)
    rows = dictionary.find(array)
    for key, row in zip(keys, rows.tolist(), strict=True):
        assert (row >= 0) == (keys.count(key) >= min_freq)
    assert len(set(rows[rows >= 0].tolist())) == len(dictionary)


def test_unknown_features_are_left_out():
    rows, starts = known_rows(np.array([3, -1, -1, 4], "int32"), np.array([0, 2, 3, 4]))
    assert rows.tolist() == [3, 4]
    assert starts.tolist() == [0, 1, 1, 2]
