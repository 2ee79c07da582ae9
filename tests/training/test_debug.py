"""Counts of `GoldReport` by label on corpora that are small enough to count by hand."""

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc, Span

from spacy_bcrf.annotation.extensions import set_extensions
from spacy_bcrf.training.debug import report_corpora
from spacy_bcrf.training.gold_report import MAX_NAMED

set_extensions()
VOCAB = spacy.blank("xx").vocab


def make_doc(ents, annotated=None, ambiguous=(), incorrect=(), allowed=(), **more):
    doc = Doc(VOCAB, words=["Ann", "Lee", "saw", "Rome"], ents=ents, **more)
    doc._.annotated_labels = annotated
    for key, spans in (("ambiguous_spans", ambiguous), ("incorrect_spans", incorrect)):
        if spans:
            doc.spans[key] = [Span(doc, a, b, label=label) for a, b, label in spans]
    for token, labels in allowed:
        doc[token]._.allowed_labels = labels
    return doc


def count(*docs, labels=()):
    nlp = spacy.blank("xx")
    nlp.add_pipe("bcrf_ner", "ner")
    return report_corpora(nlp, {"docs": docs}, labels)["ner"]["docs"]


def row(found, label):
    columns = found.by_label
    return [found.labels[label], *(columns[name][label] for name in columns)]


FULL = ("B-PER", "I-PER", "O", "B-LOC")


def test_tokens_by_label():
    found = count(
        make_doc(FULL),
        make_doc(["B-PER", "I-PER", "O", "O"], annotated=["PER"]),
        make_doc(["", "", "", "B-LOC"]),
        labels=["ORG"],
    )
    assert (found.docs, found.tokens, found.missing, found.infeasible) == (3, 12, 3, 0)
    # entities, docs; ambiguous, rejected, infeasible; inside, outside, other, missing
    assert row(found, "LOC") == [2, 2, 0, 0, 0, 2, 1, 4, 5]
    assert row(found, "ORG") == [0, 0, 0, 0, 0, 0, 1, 6, 5]
    assert row(found, "PER") == [2, 2, 0, 0, 0, 4, 3, 2, 3]


def test_spans_and_allowed_labels():
    found = count(
        make_doc("OOOO", ambiguous=[(0, 2, "PER"), (0, 2, "ORG"), (3, 4, "")]),
        make_doc(["", "", "", ""], incorrect=[(0, 2, "LOC"), (3, 4, "")]),
        make_doc(["", "", "", ""], allowed=[(0, ["O", "PER"]), (2, ["O"])]),
    )
    assert row(found, "PER") == [0, 0, 1, 0, 0, 0, 2, 0, 10]
    # LOC is not among the labels of the first span.
    assert row(found, "LOC") == [0, 0, 0, 1, 0, 0, 3, 2, 7]
    assert row(found, "") == [0, 0, 1, 1, 0, 0, 0, 0, 0]


def test_contradictions_are_named_and_counted_by_label():
    wrong = make_doc(FULL, incorrect=[(0, 2, "PER")], ambiguous=[(3, 4, "ORG")])
    found = count(make_doc(FULL), *[wrong] * (MAX_NAMED + 2))
    assert found.infeasible == MAX_NAMED + 2 and len(found.named["infeasible"]) == MAX_NAMED
    assert found.named["infeasible"][0] == (
        "document 1, 'Ann Lee saw Rome ': 'Rome' (tokens 3:4) is LOC, but may only be ORG; "
        "'Ann Lee' (tokens 0:2) is both PER and not PER"
    )
    infeasible = found.by_label["infeasible"]
    assert infeasible == dict.fromkeys(("LOC", "ORG", "PER"), MAX_NAMED + 2)


def test_entities_without_a_first_token_are_infeasible():
    found = count(make_doc(["I-PER", "O", "O", "O"]), make_doc(FULL))
    assert (found.infeasible, found.missing, found.tokens) == (1, 4, 8)
    assert found.named["infeasible"][0].startswith("document 0, 'Ann Lee saw Rome ': the scheme")


ents = st.lists(st.sampled_from(["", "O", "B-PER", "I-PER", "B-LOC"]), min_size=4, max_size=4)
span_tuples = st.lists(
    st.tuples(st.integers(0, 1), st.integers(2, 4), st.sampled_from(["PER", "ORG", ""])), max_size=2
)
docs = st.builds(
    make_doc,
    ents,
    st.one_of(st.none(), st.lists(st.sampled_from(["PER", "LOC"]), max_size=2)),
    span_tuples,
    span_tuples,
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([["O"], ["PER"], ["O", "ORG"]]))),
)


@given(st.lists(docs, max_size=5))
def test_tokens_add_up(corpus):
    found = count(*corpus, labels=["PER", "NEW"])
    assert found.tokens == 4 * len(corpus)
    names = ("inside", "outside", "other", "missing")
    for label in ("PER", "NEW") if corpus else ():
        counts = [found.by_label[name][label] for name in names]
        assert sum(counts) == found.tokens
        assert min(counts) >= 0 and counts[-1] >= found.missing


@pytest.mark.parametrize("labels", [(), ("PER",)])
def test_an_empty_corpus(labels):
    found = count(labels=labels)
    assert (found.docs, found.by_label) == (0, {})
