"""Choice of different documents."""

from itertools import combinations, pairwise

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc
from spacy.util import fix_random_seed
from tiny_training import network

from spacy_bcrf.judging.diversity import NearDuplicates, document_vectors, facility_location

SPARSE = {"@architectures": "spacy-bcrf.LinearChain.v1", "templates": ["lower[0]", "suffix(1)[0]"]}


def coverage(vectors, weights, chosen):
    return weights @ (vectors @ vectors[list(chosen)].T).clip(min=0).max(axis=1)


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(12, 3)).astype("float32")
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True), rng.random(12)


def test_facility_location_equals_the_plain_greedy_algorithm(problem):
    vectors, weights = problem
    chosen = []
    for _ in range(6):
        left = [i for i in range(12) if i not in chosen]
        chosen.append(max(left, key=lambda i: coverage(vectors, weights, [*chosen, i])))
    assert facility_location(vectors, weights, 6) == chosen


def test_facility_location_is_near_the_best_choice(problem):
    vectors, weights = problem
    found = coverage(vectors, weights, facility_location(vectors, weights, 3))
    best = max(coverage(vectors, weights, subset) for subset in combinations(range(12), 3))
    assert (1 - 1 / np.e) * best < found <= best + 1e-6


def test_facility_location_of_all_documents(problem):
    assert sorted(facility_location(*problem, 99)) == list(range(12))


@pytest.mark.parametrize("model", [network(), SPARSE], ids=["network", "sparse"])
def test_vectors_of_documents(model):
    fix_random_seed(0)  # the network is not trained
    nlp = spacy.blank("xx")
    pipe = nlp.add_pipe("bcrf_ner", config={"model": model})
    pipe.add_label("A")
    texts = ["one two three", "three two one", "cats sleep", ""]
    if model is SPARSE:
        docs = [Doc(nlp.vocab, words=t.split(), ents=["B-A"] * len(t.split())) for t in texts]
        nlp.initialize(lambda: [spacy.training.Example(doc.copy(), doc) for doc in docs])
    else:
        nlp.initialize()
    vectors = document_vectors(pipe, [nlp.make_doc(text) for text in texts])
    assert vectors.shape[0] == 4 and vectors.dtype == "float32"
    similarity = vectors @ vectors.T
    assert similarity.diagonal()[:3] == pytest.approx(1, abs=1e-5)
    assert similarity[0, 1] > similarity[0, 2] + 0.2
    if model is SPARSE:
        assert similarity[0, 1] == pytest.approx(1, abs=1e-5) and not vectors[3].any()


def test_near_duplicates():
    duplicates = NearDuplicates(0.5)
    assert duplicates.keep("The match on 3 May was lost.")
    assert not duplicates.keep("the match, on 4 may, WAS lost")
    assert not duplicates.keep("The match on 5 May was won.")  # 6 of 10 bigrams
    assert duplicates.keep("The weather on 5 June was bad.")
    assert duplicates.keep("") and not duplicates.keep("")
    assert duplicates.find("The match on 6 May was lost!") == 0
    everything = NearDuplicates(1)
    assert everything.keep("same") and everything.keep("same")


@pytest.mark.parametrize("max_similarity", [0, 0.3, 0.5, 0.8])
def test_near_duplicates_of_random_texts(max_similarity):
    random = np.random.default_rng(0)
    found, kept = NearDuplicates(max_similarity), []
    for _ in range(300):
        words = ["", *("abc"[i] for i in random.integers(0, 3, random.integers(0, 9))), ""]
        pairs = set(pairwise(words))
        similar = [len(pairs & other) > max_similarity * len(pairs | other) for other in kept]
        expected = similar.index(True) if any(similar) else len(kept)
        if expected == len(kept):
            kept.append(pairs)
        assert found.find(" ".join(words)) == expected
