"""The experiment on label errors: corruption and its measures."""

import spacy
from spacy.tokens import Doc

from experiments.audit import corrupt, evaluate

WORDS = ["Ann", "Lee", "saw", "Rome", "today", "or", "not", "."]
TAGS = ["B-PERSON", "I-PERSON", "O", "B-LOC", "O", "O", "O", "O"]


def entities(doc):
    return {(ent.start, ent.end, ent.label_) for ent in doc.ents}


def test_corruption_changes_what_it_reports():
    vocab = spacy.blank("xx").vocab
    docs = [Doc(vocab, words=WORDS, ents=TAGS) for _ in range(40)]
    corrupted, errors = corrupt(docs, 0.1, 0)
    assert sorted(errors.values()) == sorted(["type", "boundary", "missing", "spurious"] * 2)
    changed = [i for i in range(40) if entities(corrupted[i]) != entities(docs[i])]
    assert changed == sorted({i for i, _, _ in errors})
    for (i, start, end), kind in errors.items():
        old = [ent for ent in docs[i].ents if start <= ent.start and ent.end <= end]
        new = [ent for ent in corrupted[i].ents if start <= ent.start and ent.end <= end]
        assert (len(old), len(new)) == (kind != "spurious", kind != "missing")
        if kind == "type":
            assert (old[0].start, old[0].end) == (new[0].start, new[0].end)
            assert old[0].label_ != new[0].label_
        if kind == "boundary":
            assert abs(old[0].start - new[0].start) + abs(old[0].end - new[0].end) == 1


def test_each_region_counts_once():
    errors = {(0, 2, 4): "type", (1, 0, 1): "missing"}
    ranking = [(0, 3, 5), (0, 2, 3), (2, 0, 2), (2, 1, 2), (1, 0, 1)]
    average, precision, *shares = evaluate(ranking, errors)
    # Two hits in three counted regions: precision 1/1 and 2/3 at the hits.
    assert average == (1 + 2 / 3) / 2
    assert precision == 2 / 3
    assert shares == [1, 0, 1, 0]
    assert evaluate([(2, 0, 1)], errors)[:2] == [0, 0]
