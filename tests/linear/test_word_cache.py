"""Tests of the cache of word attributes."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcrf.kernels.sparse import Dictionary
from bcrf.linear.features import hash_text
from bcrf.linear.word_cache import WordCache

FUNCTIONS = [lambda word: iter(word), lambda word: iter([word.lower(), word[::-1]])]
WORDS = st.lists(st.text("abC", max_size=4), max_size=12)


def as_orths(words):
    return np.array([hash_text(word) if word else 0 for word in words], dtype="uint64")


def look_up(cache, words):
    """Return the cached hashes of values of each word and function."""
    orths = as_orths(words)
    texts = dict(zip(orths.tolist(), words, strict=True))
    types, (starts, values) = cache.find(orths, texts.__getitem__)
    m = len(FUNCTIONS)
    return [
        [values[starts[k] : starts[k + 1]].tolist() for k in range(t * m, (t + 1) * m)]
        for t in types
    ]


def expected(words):
    return [[[hash_text(value) for value in f(word)] for f in FUNCTIONS] for word in words]


@given(st.lists(WORDS, max_size=8), st.integers(0, 20))
def test_words_have_their_values_after_the_cache_was_emptied(batches, most):
    cache = WordCache(FUNCTIONS, hash_text, most)
    for words in batches:
        assert look_up(cache, words) == expected(words)


def test_the_cache_stays_bounded():
    cache = WordCache(FUNCTIONS, hash_text, most=100)
    for start in range(0, 10_000, 50):
        _, bags = cache.find(*numbered(range(start, start + 50)))
        assert len(bags.starts) <= 2 * 150 + 1


def numbered(numbers):
    words = {hash_text(f"w{i}"): f"w{i}" for i in numbers}
    return np.array(list(words), dtype="uint64"), words.__getitem__


def test_new_words_do_not_change_returned_arrays():
    cache = WordCache(FUNCTIONS, hash_text)
    orths, text = numbered(range(40))
    _, bags = cache.find(orths, text)
    before = bags.starts.copy(), bags.values.copy()
    for start in range(40, 4000, 40):
        cache.find(*numbered(range(start, start + 40)))
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

    cache = WordCache([interrupted, FUNCTIONS[1]], hash_text)
    batches = ["a", "bc"], ["Ca", "a", "ab"], ["b", "bc"]
    for words in batches:
        try:
            look_up(cache, words)
        except KeyboardInterrupt:
            assert calls == at
    for words in batches:
        assert look_up(cache, words) == expected(words)


class InterruptedDictionary(Dictionary):
    """A dictionary that is interrupted before it adds keys, while `interrupts` is set."""

    interrupts = False

    def find(self, keys, add=False):
        if add and self.interrupts:
            raise KeyboardInterrupt
        return super().find(keys, add)


def test_an_interruption_between_values_and_index_leaves_no_half_known_words(monkeypatch):
    monkeypatch.setattr("bcrf.kernels.sparse.Dictionary", InterruptedDictionary)
    cache = WordCache(FUNCTIONS, hash_text)
    assert look_up(cache, ["a"]) == expected(["a"])
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(InterruptedDictionary, "interrupts", True)
        look_up(cache, ["bC", "abC"])
    for words in (["a"], ["abC", "b", "a"], ["bC"]):
        assert look_up(cache, words) == expected(words)


def test_several_threads_at_once():
    cache = WordCache(FUNCTIONS, hash_text, most=500)
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


def test_a_call_beside_a_thread_that_holds_the_cache_does_not_wait():
    """As in a fork, in which the other thread does not exist."""
    cache = WordCache(FUNCTIONS, hash_text)
    assert look_up(cache, ["a"]) == expected(["a"])
    with cache._lock:
        assert look_up(cache, ["abC", "a"]) == expected(["abC", "a"])
