"""Tag scores from the sums that a word type adds, against sums of the rows of all features."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.attrs import SPACY
from spacy.tokens import Doc, Token

from bcrf.kernels.sparse import Dictionary, WordScores
from bcrf.linear.learner import OnlineSettings
from spacy_bcrf.annotation.arrays import DocBatch, doc_lengths
from spacy_bcrf.sparse.features import Features
from spacy_bcrf.sparse.gazetteers import Gazetteers
from spacy_bcrf.sparse.model import SparseChain
from tests.attack.forking import fork_beside
from tests.light_spacy import MultiLanguage

VOCAB = MultiLanguage().vocab
N_TAGS, STRIDE = 5, 8
OF_WORDS = ["w[-2..2]", "lower[0]", "tag[-1..0]", "suffix(1..3)[-1..1]", "character[-1]"]
OF_WORDS += ["w[-9..-7]", "w[7..9]"]
GRAMS = ["w[-1..0]|w[0..1]", "suffix(1)[0]|tag[1]", "w[-1]|w[0]|w[1]", "tag[0]|w[0]"]
GRAMS += ["lower[-8..7]|w[-7..8]", "w[1]|suffix(1..2)[-1]"]
OTHERS = ["w[-2]|w[1]", "w[-9]|w[-8]", "w[-1]|w[0]|w[1]|w[2]"]
LISTED = ["_.shouts[-1..1]", "gazetteer.names[0]"]
SENTENCES = st.lists(
    st.lists(st.sampled_from(["a", "Ab", "ab", "c-3", "Zz"]), max_size=12), max_size=4
)


@pytest.fixture(scope="module", autouse=True)
def extension():
    Token.set_extension("shouts", getter=lambda token: token.text.isupper() and "yes")
    yield
    Token.remove_extension("shouts")


def make_docs(sentences):
    return [
        Doc(VOCAB, words=words, tags=[f"T{len(word) + i % 2}" for i, word in enumerate(words)])
        for words in sentences
    ]


def make_features(templates):
    return Features(templates, Gazetteers({"names": ["a ab", "c-3"]}))


def make_weights(n_features, seed=0):
    weights = np.zeros((n_features + N_TAGS + 3, STRIDE), "float32")
    weights[:, :N_TAGS] = np.random.default_rng(seed).normal(size=(len(weights), N_TAGS))
    return weights


def learn_features(features, docs):
    """Return a dictionary of some of the features: the others are unknown."""
    dictionary = Dictionary()
    keys = np.unique(features.keys(docs)[0])
    dictionary.keys = keys[np.arange(len(keys)) % 4 > 0]
    return dictionary


def expected(features, docs, dictionary, weights):
    """Add the rows of each token's features, in float64."""
    keys, starts = features.keys(docs)
    rows = dictionary.find(keys)
    scores = []
    for doc in docs:
        for i in range(len(doc)):
            at = len(scores)
            found = [r + N_TAGS + 3 for r in rows[starts[at] : starts[at + 1]] if r >= 0]
            found += [N_TAGS] + [N_TAGS + 1] * (i == 0) + [N_TAGS + 2] * (i == len(doc) - 1)
            scores.append(weights[found].astype("float64").sum(axis=0)[:N_TAGS])
    return np.array(scores).reshape(-1, N_TAGS)


@pytest.mark.parametrize(
    "templates",
    [OF_WORDS, GRAMS, OTHERS, OF_WORDS + GRAMS + OTHERS, OF_WORDS + LISTED, LISTED],
)
@given(seen=SENTENCES, sentences=SENTENCES)
@settings(max_examples=30)
def test_scores_are_the_sums_of_the_rows(templates, seen, sentences):
    features = make_features(templates)
    docs = make_docs(sentences)
    dictionary = learn_features(features, docs + make_docs(seen))
    weights = make_weights(len(dictionary))
    for batch in (make_docs(seen), docs, docs):  # new types, then kept ones
        got = features.score(batch, dictionary, weights, N_TAGS)
        want = expected(features, batch, dictionary, weights)
        np.testing.assert_allclose(got, want, atol=1e-5)


def long_docs():
    rng = np.random.default_rng(1)
    words = [f"w{i}" for i in np.minimum(rng.zipf(1.3, 3000), 2000)]
    return make_docs([words, words[:1024], words[:1025], [], words[:1]])


@pytest.mark.parametrize("n_bytes", [0, 300_000, 64_000_000])
def test_bounded_memory_and_long_sequences_give_the_same_scores(n_bytes, monkeypatch):
    features, docs = make_features(OF_WORDS + GRAMS + OTHERS), long_docs()
    dictionary = learn_features(features, docs)
    weights = make_weights(len(dictionary))
    arrays = features.compiled
    compiled = WordScores(arrays.compiled, arrays.n_columns + arrays.n_of_word, n_bytes)
    monkeypatch.setattr(arrays, "_compile_scores", lambda: compiled)
    got = features.score(docs, dictionary, weights, N_TAGS)
    np.testing.assert_allclose(got, expected(features, docs, dictionary, weights), atol=1e-5)
    again = features.score(docs[:1], dictionary, weights, N_TAGS)
    np.testing.assert_array_equal(again, got[: len(docs[0])])


def test_the_sums_follow_the_weights():
    features, docs = make_features(OF_WORDS), make_docs([["a", "ab", "Zz"]])
    dictionary = learn_features(features, docs)
    for seed in range(2):
        weights = make_weights(len(dictionary), seed)
        got = features.score(docs, dictionary, weights, N_TAGS)
        np.testing.assert_allclose(got, expected(features, docs, dictionary, weights), atol=1e-5)


def test_features_without_weights_are_an_error_that_leaves_nothing_behind():
    features, docs = make_features(OF_WORDS + GRAMS + OTHERS), make_docs([["a", "ab", "Zz"]])
    dictionary = learn_features(features, docs)
    weights = make_weights(len(dictionary))
    compiled = features.compiled._compile_scores()
    for table in (weights[: N_TAGS + 3], weights[:-1]):
        features.compiled._word_scores = table, [compiled]
        with pytest.raises(IndexError, match="features without weights"):
            features.score(docs, dictionary, table, N_TAGS)
    features.compiled._word_scores = weights, [compiled]
    got = features.score(docs, dictionary, weights, N_TAGS)
    np.testing.assert_allclose(got, expected(features, docs, dictionary, weights), atol=1e-5)


def test_threads_get_the_same_scores():
    features, docs = make_features(OF_WORDS + GRAMS + OTHERS), long_docs()
    dictionary = learn_features(features, docs)
    weights = make_weights(len(dictionary))
    want = features.score(docs, dictionary, weights, N_TAGS)
    features.compiled._word_scores = None
    batches = [docs[i % 2 :] for i in range(8)]
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda batch: features.score(batch, dictionary, weights, N_TAGS), batches)
        for batch, got in zip(batches, found, strict=True):
            np.testing.assert_array_equal(got, want[len(want) - len(got) :])
            assert len(got) == sum(map(len, batch))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_forks_beside_threads_that_score_end():
    """The scores of words had a lock. Half of such forks waited for it for ever."""
    features, docs = make_features(OF_WORDS + GRAMS), long_docs()
    dictionary = learn_features(features, docs)
    weights = make_weights(len(dictionary))
    fork_beside(lambda: features.score(docs, dictionary, weights, N_TAGS).tobytes(), n=40)


def test_a_batch_with_more_columns_gives_the_scores_of_its_documents():
    features, docs = make_features(OF_WORDS + GRAMS + OTHERS), make_docs([["a", "ab"], [], ["Zz"]])
    dictionary = learn_features(features, docs)
    weights = make_weights(len(dictionary))
    want = features.score(docs, dictionary, weights, N_TAGS)
    batch = DocBatch(docs, [SPACY, *reversed(features.attributes)])
    np.testing.assert_array_equal(features.score(batch, dictionary, weights, N_TAGS), want)


def test_arrays_of_other_widths_forget_the_sums():
    scores = WordScores([(1, [(0, 0)]), (2, [(0, 1)])], 1)
    dictionary, word = Dictionary(), np.ones(1, "uint64")
    for stride, columns in (8, 1), (2400, 1), (8, 20_000), (8, 1):
        weights = np.ones((N_TAGS + 3, stride), "float32")
        values = np.ones((1, columns), "uint64")
        one, no_bags = np.ones(1, "int32"), (np.zeros(1, "int64"), np.zeros(0, "uint64"))
        arrays = word, (values, np.zeros(1, "int32"), *no_bags, 0, one)
        assert scores.score(dictionary, weights, N_TAGS, 1, *arrays).tolist() == [[3.0] * N_TAGS]
    with pytest.raises(TypeError, match="dictionary"):
        scores.score(None, weights, N_TAGS, 1, *arrays)


@pytest.mark.parametrize("min_freq", [1, 2])
def test_a_chain_scores_with_its_newest_weights(min_freq):
    chain = SparseChain(OF_WORDS + GRAMS + OTHERS, OnlineSettings("crf"), min_freq)
    old, new = make_docs([["a", "ab", "Zz"]] * 2), make_docs([["ab", "c-3"], ["Ab"]])
    chain.initialize(old, 3)

    def check():
        rows = chain.rows(new)
        want = chain.learner.potentials(rows, doc_lengths(new))
        np.testing.assert_allclose(chain.potentials(new).unary, want.unary, rtol=1e-6, atol=1e-5)
        return want.unary

    before = check()
    for docs in old, new:
        chain.step(docs, np.arange(sum(map(len, docs)), dtype="int32") % 3)
        after = check()
        assert not np.allclose(after, before)
        before = after
    weights = chain.learner.weights
    with pytest.raises(ValueError, match="read-only"):
        weights[:] = 0
    changed = weights.copy()
    for _ in range(2):  # the same array again, with other values
        changed[:, :3] += 1
        chain.learner.weights = changed
        after = check()
        assert not np.allclose(after, before)
        before = after
