"""Scores of the experiment on new labels."""

import pytest
import spacy
from spacy.tokens import Doc

from experiments.extend import evaluate, keep

WORDS = ["a", "b", "c", "d"]


def test_scores_of_old_labels_and_of_the_new_one():
    nlp = spacy.blank("xx")
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "OLD", "pattern": "a"}, {"label": "NEW", "pattern": "c"}])
    docs = [
        Doc(nlp.vocab, words=WORDS, ents=["B-OLD", "O", "B-NEW", "O"]),
        Doc(nlp.vocab, words=WORDS, ents=["B-OLD", "B-NEW", "O", "B-OLD"]),
    ]
    scores = evaluate(nlp, docs, "NEW", 1.5)
    # Two of two found and of three; one of two found and of two.
    assert scores == pytest.approx((100 * 4 / 5, 100 * 2 / 4, 1.5))


def test_kept_labels():
    nlp = spacy.blank("xx")
    doc = Doc(nlp.vocab, words=WORDS, ents=["B-OLD", "O", "B-NEW", "O"])
    (kept,) = keep([doc], ["NEW"])
    assert [ent.label_ for ent in kept.ents] == ["NEW"] and len(doc.ents) == 2
    assert kept[0].ent_iob == 2
