"""The cache of what follows from a word's form."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spacy.strings import hash_string

from spacy_bcrf.sparse.word_attributes import WordCache

FUNCTIONS = [lambda word: iter(word), lambda word: iter([word.lower(), word[::-1]])]
WORDS = st.lists(st.text("abC", max_size=4), max_size=12)


def as_orths(words):
    return np.array([hash_string(word) if word else 0 for word in words], dtype="uint64")


def look_up(cache, words):
    """The hashes of values that the cache has for each word and function."""
    orths = as_orths(words)
    texts = dict(zip(orths.tolist(), words, strict=True))
    types, (starts, values) = cache.find(orths, texts.__getitem__)
    m = len(FUNCTIONS)
    return [
        [values[starts[k] : starts[k + 1]].tolist() for k in range(t * m, (t + 1) * m)]
        for t in types
    ]


def expected(words):
    return [[[hash_string(value) for value in f(word)] for f in FUNCTIONS] for word in words]


@given(st.lists(WORDS, max_size=8), st.integers(0, 20))
def test_words_have_their_values_whatever_was_forgotten(batches, most):
    cache = WordCache(FUNCTIONS, most)
    for words in batches:
        assert look_up(cache, words) == expected(words)


def test_it_forgets():
    cache = WordCache(FUNCTIONS, most=100)
    for start in range(0, 10_000, 50):
        _, bags = cache.find(*_numbered(range(start, start + 50)))
        assert len(bags.starts) <= 2 * 150 + 1


def _numbered(numbers):
    words = {hash_string(f"w{i}"): f"w{i}" for i in numbers}
    return np.array(list(words), dtype="uint64"), words.__getitem__


def test_new_words_do_not_change_what_was_given_out():
    cache = WordCache(FUNCTIONS)
    orths, text = _numbered(range(40))
    _, bags = cache.find(orths, text)
    before = bags.starts.copy(), bags.values.copy()
    for start in range(40, 4000, 40):
        cache.find(*_numbered(range(start, start + 40)))
    np.testing.assert_array_equal(bags.starts, before[0])
    np.testing.assert_array_equal(bags.values, before[1])


@pytest.mark.parametrize("at", range(6))
def test_an_interruption_loses_nothing(at):
    calls = 0

    def interrupted(word):
        nonlocal calls
        calls += 1
        if calls == at:
            raise KeyboardInterrupt
        return iter(word)

    cache = WordCache([interrupted, FUNCTIONS[1]])
    batches = ["a", "bc"], ["Ca", "a", "ab"], ["b", "bc"]
    for words in batches:
        try:
            look_up(cache, words)
        except KeyboardInterrupt:
            assert calls == at
    for words in batches:
        assert look_up(cache, words) == expected(words)


def test_an_interruption_before_words_are_known_leaves_none_half_known():
    cache = WordCache(FUNCTIONS)
    assert look_up(cache, ["a"]) == expected(["a"])
    index = cache._types.index

    class Interrupted:
        def find(self, orths, add=False):
            if add:
                raise KeyboardInterrupt
            return index.find(orths)

        def __len__(self):
            return len(index)

    cache._types.index = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        look_up(cache, ["bC", "abC"])
    cache._types.index = index
    for words in (["a"], ["abC", "b", "a"], ["bC"]):
        assert look_up(cache, words) == expected(words)


def test_several_threads_at_once():
    cache = WordCache(FUNCTIONS, most=500)
    rng = np.random.default_rng(0)
    wrong = []

    def work(seed):
        for _ in range(50):
            words = [f"w{i}" for i in np.random.default_rng(seed).integers(0, 3000, 50)]
            seed += 2
            if look_up(cache, words) != expected(words):
                wrong.append(words)

    threads = [threading.Thread(target=work, args=(int(rng.integers(1000)),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
