"""Simulated annotation."""

from argparse import Namespace

import spacy
from spacy.tokens import Doc

from experiments.active_learning import ORDERS, annotate, compare, take
from lab.labeling_tasks import TASKS

ARGS = Namespace(tokens=48, rounds=2, passes=2)


def make_docs():
    vocab = spacy.blank("en").vocab
    names = ["Ann", "Bob", "Eve", "Lee", "Kim", "Joe"]
    return [
        Doc(vocab, words=[name, "saw", other, str(i)], ents=["B-PER", "O", "B-PER", "O"])
        for i, (name, other) in enumerate((a, b) for a in names for b in names)
    ]


def test_a_run_counts_the_annotated_tokens():
    docs = make_docs()
    for order in ("random", "per token, diverse"):
        curve = annotate(TASKS["wnut17"], docs, docs[:6], ORDERS[order], 0, ARGS)
        assert [n for n, _ in curve] == [24, 48]
        assert curve[-1][1] > 50


def test_take_stops_at_the_number_of_tokens():
    docs = make_docs()
    assert len(take(docs, 8)) == 2 and len(take(docs, 9)) == 3 and take(docs, 0) == []
    assert len(take(docs[:2], 99)) == 2


def test_the_bar_is_random_at_all_tokens():
    curves = {"random": [[(1, 10.0), (2, 20.0)]], "new": [[(1, 21.0), (2, 30.0)]]}
    table = compare({"wnut17": curves}).splitlines()
    assert table[2].split(" | ")[1:] == ["random", "10.0", "20.0", "20.0", "no |"]
    assert table[3].split(" | ")[1:] == ["new", "21.0", "30.0", "20.0", "yes |"]
