"""Matching of gold and predicted spans, and their counts."""

from collections import Counter

import numpy as np
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.scorer import PRFScore, Scorer, get_ner_prf
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_bcrf.annotation.extensions import set_extensions
from spacy_bcrf.judging.evaluation import (
    MEASURES,
    OUTCOMES,
    CharSpan,
    Evaluation,
    evaluate,
    find_overlaps,
    match_spans,
    read_annotations,
    score,
)

LABELS = ["LOC", "ORG", "PER"]
set_extensions()


def spans(*found):
    return [CharSpan(*span) for span in found]


def test_nested_crossing_and_same_label_spans_are_counted_apart():
    gold = spans((0, 9, "ORG"), (5, 9, "LOC"), (7, 12, "LOC"), (20, 22, "PER"), (20, 22, "ORG"))
    predicted = spans((0, 9, "ORG"), (5, 9, "LOC"), (20, 22, "PER"), (30, 31, "PER"))
    pairs = match_spans(gold, predicted)
    (counts,) = Evaluation([pairs], LABELS).count_overlaps()
    # Rows: alone, nested, crossing, same label. Columns: gold, predicted, found, right.
    assert counts.tolist() == [[0, 2, 0, 1], [4, 2, 3, 2], [3, 0, 2, 0], [2, 0, 1, 0]]


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4), st.sampled_from(LABELS)), max_size=6)
)
def test_overlaps_equal_a_comparison_of_all_pairs(found):
    some = spans(*((start, start + n, label) for start, n, label in found))
    for i, kinds in enumerate(find_overlaps(some)):
        one, tokens = some[i], set(range(*some[i][:2]))
        expected = set()
        for other in some[:i] + some[i + 1 :]:
            shared = tokens & set(range(*other[:2]))
            if shared:
                is_nested = len(shared) in (len(tokens), other.end - other.start)
                expected.add("nested" if is_nested else "crossing")
                if other.label == one.label:
                    expected.add("same label")
        assert kinds == (expected or {"alone"})


def test_each_kind_of_error():
    gold = spans(
        (0, 3, "PER"),  # correct
        (10, 13, "PER"),  # wrong type
        (20, 28, "LOC"),  # wrong boundary, same label
        (30, 38, "LOC"),  # wrong boundary, other label
        (40, 43, "ORG"),  # missing
    )
    predicted = spans(
        (0, 3, "PER"), (10, 13, "LOC"), (20, 24, "LOC"), (34, 40, "ORG"), (50, 53, "ORG")
    )
    pairs = match_spans(gold, predicted)
    kinds = ["correct", "type", "boundary", "boundary", "missing", "spurious"]
    assert [pair.kind for pair in pairs] == kinds
    evaluation = Evaluation([pairs], LABELS)
    found = {label: +Counter(counts) for label, counts in evaluation.outcomes().items()}
    assert found == {
        "LOC": {"boundary": 2},
        "ORG": {"missing": 1, "spurious": 1},
        "PER": {"correct": 1, "type": 1},
    }
    # Rows: all, LOC, ORG, PER. Columns: gold, predicted, found, right.
    tables = {
        "exact": [[5, 5, 1, 1], [2, 2, 0, 0], [1, 2, 0, 0], [2, 1, 1, 1]],
        "boundaries": [[5, 5, 2, 2], [2, 2, 0, 1], [1, 2, 0, 0], [2, 1, 2, 1]],
        "overlap": [[5, 5, 2, 2], [2, 2, 1, 1], [1, 2, 0, 0], [2, 1, 1, 1]],
    }
    for measure, table in tables.items():
        (counts,) = evaluation.count(measure)
        assert counts.tolist() == table
    precision, recall, f = score(evaluation.count("exact")[0, 3])
    assert (precision, recall) == (1, 0.5)
    assert f == pytest.approx(2 / 3)


def test_the_best_partner_wins():
    gold = spans((0, 4, "PER"), (5, 9, "PER"))
    (first, second) = match_spans(gold, spans((0, 8, "PER"), (5, 9, "PER")))
    assert [first.kind, second.kind] == ["boundary", "correct"]
    (missing, correct) = match_spans(spans((0, 4, "LOC"), (0, 4, "PER")), spans((0, 4, "PER")))
    assert [missing.kind, correct.kind] == ["missing", "correct"]
    # One of two overlapping spans has the label, and it wins over the larger overlap.
    found = match_spans(spans((0, 9, "PER")), spans((0, 2, "PER"), (3, 9, "LOC")))
    assert [(pair.kind, pair.predicted and pair.predicted.label) for pair in found] == [
        ("boundary", "PER"),
        ("spurious", "LOC"),
    ]
    # Without the label, the larger overlap wins.
    found = match_spans(spans((0, 9, "ORG")), spans((0, 2, "PER"), (3, 9, "LOC")))
    assert {(pair.kind, pair.predicted.label) for pair in found} == {
        ("boundary", "LOC"),
        ("spurious", "PER"),
    }


def test_scores_without_spans():
    nothing, no_gold, no_prediction = score(
        np.array([[0, 0, 0, 0], [0, 2, 0, 0], [2, 0, 0, 0]], dtype="float64")
    )
    assert np.isnan(nothing).all()
    assert np.isnan(no_gold).tolist() == [False, True, False] and no_gold[2] == 0
    assert np.isnan(no_prediction).tolist() == [True, False, False] and no_prediction[2] == 0


SPANS = st.lists(
    st.tuples(st.integers(0, 12), st.integers(1, 5), st.sampled_from(LABELS)).map(
        lambda x: CharSpan(x[0], x[0] + x[1], x[2])
    ),
    max_size=6,
)


@given(st.lists(st.tuples(SPANS, SPANS), min_size=1, max_size=4))
@settings(deadline=None, max_examples=40)
def test_counts_add_up(docs):
    pairs = [match_spans(*doc) for doc in docs]
    for (gold, predicted), of_doc in zip(docs, pairs, strict=True):
        assert sorted(pair.gold for pair in of_doc if pair.gold) == sorted(gold)
        assert sorted(pair.predicted for pair in of_doc if pair.predicted) == sorted(predicted)
        lost = [pair for pair in of_doc if pair.kind == "missing"]
        extra = [pair.predicted for pair in of_doc if pair.kind == "spurious"]
        for pair in lost:
            # No two spans without partners overlap.
            assert all(x.end <= pair.gold.start or pair.gold.end <= x.start for x in extra)
    evaluation = Evaluation(pairs, LABELS)
    n = {kind: sum(c[kind] for c in evaluation.outcomes().values()) for kind in OUTCOMES}
    n_gold, n_predicted = (sum(map(len, part)) for part in zip(*docs, strict=True))
    paired = n["correct"] + n["type"] + n["boundary"]
    assert n_gold == paired + n["missing"]
    assert n_predicted == paired + n["spurious"]
    hits = {"exact": n["correct"], "boundaries": n["correct"] + n["type"]}
    for measure in MEASURES:
        counts = evaluation.count(measure).sum(axis=0)
        assert (counts[0] == counts[1:].sum(axis=0)).all()
        found = hits.get(measure, counts[0, 2])
        assert counts[0].tolist() == [n_gold, n_predicted, found, found]
        assert (counts[:, 2] <= counts[:, 0]).all() and (counts[:, 3] <= counts[:, 1]).all()


def random_docs(vocab, rng, n_docs=30, missing=False):
    """Make documents with random entities. missing: some tokens have no annotation."""
    docs = []
    for _ in range(n_docs):
        length = int(rng.integers(1, 12))
        tags, at = [], 0
        while at < length:
            size = min(int(rng.integers(1, 3)), length - at)
            label = rng.choice(LABELS)
            kind = rng.choice(["O", "entity", "missing" if missing else "O"])
            if kind == "entity":
                tags += [f"B-{label}", *[f"I-{label}"] * (size - 1)]
            else:
                tags += ["O" if kind == "O" else ""] * size
            at += size
        docs.append(Doc(vocab, words=[f"w{i}" for i in range(length)], ents=tags))
    return docs


@pytest.mark.parametrize("missing", [False, True])
def test_entities_agree_with_spacy(missing):
    rng = np.random.default_rng(0)
    nlp = spacy.blank("xx")
    codec = nlp.add_pipe("bcrf_ner").codec
    gold = random_docs(nlp.vocab, rng, missing=missing)
    predicted = []
    for doc in gold:
        copy = Doc(nlp.vocab, words=[token.text for token in doc])
        ents = [ent for ent in doc.ents if rng.random() < 0.6]
        copy.set_ents([Span(copy, ent.start, ent.end, label=rng.choice(LABELS)) for ent in ents])
        free = [token.i for token in copy if not token.ent_type]
        copy.set_ents(
            [Span(copy, i, i + 1, label="ORG") for i in free if rng.random() < 0.2],
            default="unmodified",
        )
        predicted.append(copy)
    examples = [Example(*pair) for pair in zip(predicted, gold, strict=True)]
    expected = get_ner_prf(examples)
    read = [[read_annotations(codec, doc) for doc in docs] for docs in (gold, predicted)]
    evaluation = evaluate(codec, gold, *read, LABELS)
    assert bool(evaluation.n_left_out) == missing
    scores = score(evaluation.count("exact").sum(axis=0))
    assert scores[0] == pytest.approx([expected[f"ents_{x}"] for x in "prf"])
    for label, values in zip(LABELS, scores[1:], strict=True):
        by_label = expected["ents_per_type"][label]
        assert values == pytest.approx([by_label[x] for x in "prf"])


def test_tags_agree_with_spacy():
    rng = np.random.default_rng(0)
    nlp = spacy.blank("xx")
    codec = nlp.add_pipe("bcrf_tagger").codec
    gold, predicted = (
        [Doc(nlp.vocab, words=["a"] * 9, tags=rng.choice(tags, 9).tolist()) for _ in range(20)]
        for tags in (["N", "V", "P", ""], ["N", "V", "P"])
    )
    examples = [Example(*pair) for pair in zip(predicted, gold, strict=True)]
    read = [[read_annotations(codec, doc) for doc in docs] for docs in (gold, predicted)]
    evaluation = evaluate(codec, gold, *read, ["N", "V", "P"])
    scores = score(evaluation.count("exact").sum(axis=0))
    expected = Scorer.score_token_attr(examples, "tag")["tag_acc"]
    assert scores[0] == pytest.approx([expected] * 3)
    for tag, values in zip(["N", "V", "P"], scores[1:], strict=True):
        by_tag = PRFScore()
        for example in examples:
            places = [
                {
                    i
                    for i, token in enumerate(doc)
                    if token.tag_ == tag and example.reference[i].tag_
                }
                for doc in (example.predicted, example.reference)
            ]
            by_tag.score_set(*places)
        assert values == pytest.approx([by_tag.precision, by_tag.recall, by_tag.fscore])
    n_open = sum(not token.tag_ for doc in gold for token in doc)
    assert evaluation.n_left_out == n_open > 0


def test_a_label_without_partial_annotation_is_left_out():
    nlp = spacy.blank("xx")
    codec = nlp.add_pipe("bcrf_ner").codec
    reference = Doc(nlp.vocab, words=["Ann", "in", "Rome"], ents=["B-PER", "O", "O"])
    reference._.annotated_labels = ["PER"]
    found = spans((0, 3, "PER"), (4, 6, "PER"), (7, 11, "LOC"))
    evaluation = evaluate(codec, [reference], [spans((0, 3, "PER"))], [found], LABELS)
    assert [pair.kind for pair in evaluation.pairs[0]] == ["correct", "spurious"]
    assert evaluation.n_left_out == 1
