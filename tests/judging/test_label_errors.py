"""Suspects of label errors and cross-fitting."""

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example

from spacy_bcrf.annotation.tokenizers import copy_words
from spacy_bcrf.judging.folds import assign_folds, train_sparse_chain
from spacy_bcrf.judging.label_errors import estimate_noise, find_suspects

WORDS = ["Ann", "Lee", "saw", "Rome", "today"]
TAGS = ["B-PERSON", "I-PERSON", "O", "B-LOC", "O"]


@pytest.fixture(scope="module")
def trained():
    vocab = spacy.blank("xx").vocab
    docs = [Doc(vocab, words=WORDS, ents=TAGS) for _ in range(9)]
    return train_sparse_chain(docs, ["LOC", "PERSON"])


def suspects(nlp, tags, words=WORDS):
    doc = Doc(nlp.vocab, words=words, ents=tags)
    other = Doc(nlp.vocab, words=[], spaces=[])
    examples = [Example(copy_words(doc, nlp.vocab), doc) for doc in (other, doc)]
    empty, found = find_suspects(nlp.get_pipe("ner"), examples)
    assert empty == []
    return found


@pytest.mark.parametrize(
    "token, tag, kind, gold, suggestion",
    [
        (3, "B-PERSON", "type", (3, 4, "PERSON"), (3, 4, "LOC")),
        (1, "O", "boundary", (0, 1, "PERSON"), (0, 2, "PERSON")),
        (3, "O", "missing", None, (3, 4, "LOC")),
        (2, "B-LOC", "spurious", (2, 3, "LOC"), None),
    ],
)
def test_the_four_kinds(trained, token, tag, kind, gold, suggestion):
    right = suspects(trained, TAGS)
    assert all(suspect.score < 0 for suspect in right)
    assert [suspect.gold for suspect in right] == [(0, 2, "PERSON"), (3, 4, "LOC")]
    tags = list(TAGS)
    tags[token] = tag
    worst = max(suspects(trained, tags), key=lambda suspect: suspect.score)
    assert worst[:2] == (gold, suggestion)
    assert worst.kind == kind
    assert worst.p_gold < 0.1 < 0.8 < worst.p_suggestion
    # One of two labels is wrong with certainty; a moved boundary is one of four.
    n_gold = 1 if kind == "missing" else 2 if kind != "spurious" else 3
    noise = estimate_noise(n_gold, len(WORDS), 2)
    channel = {
        "type": noise.label,
        "boundary": -np.log(4),
        "missing": 0,
        "spurious": noise.spurious - np.log(2),
    }[kind]
    odds = np.log(worst.p_suggestion / worst.p_gold)
    assert worst.score == pytest.approx(odds + channel)


def test_a_missing_span_needs_annotation(trained):
    doc = Doc(trained.vocab, words=WORDS, ents=["O"] * 5)
    doc.set_ents([], missing=[doc[3:4]], default="outside")
    (found,) = find_suspects(
        trained.get_pipe("ner"), [Example(copy_words(doc, trained.vocab), doc)]
    )
    assert {suspect.suggestion for suspect in found if suspect.score > 0} == {(0, 2, "PERSON")}


def test_folds_are_of_equal_size():
    folds = assign_folds(11, 3)
    assert sorted(np.bincount(folds).tolist()) == [3, 4, 4]
    assert (folds == assign_folds(11, 3)).all()
    assert (folds != np.arange(11) % 3).any()
    for n_folds in (1, 12):
        with pytest.raises(ValueError, match=f"number of documents, 11; got {n_folds}"):
            assign_folds(11, n_folds)
