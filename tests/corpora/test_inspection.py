"""Counts of `Inspection` on corpora that are small enough to count by hand."""

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc, Span

from spacy_bcrf.annotation.extensions import set_extensions
from spacy_bcrf.corpora.inspection import MAX_NAMED, Inspection

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


def inspect(*docs):
    found = Inspection()
    for i, doc in enumerate(docs):
        found.add(doc, f"document {i}")
    return found


def rows(found, labels=()):
    return {
        row.label: dict(zip(row._fields[1:], row[1:], strict=True)) for row in found.rows(labels)
    }


FULL = ("B-PER", "I-PER", "O", "B-LOC")


def test_tokens_by_label():
    found = inspect(
        make_doc(FULL),
        make_doc(["B-PER", "I-PER", "O", "O"], annotated=["PER"]),
        make_doc(["", "", "", "B-LOC"]),
    )
    assert (found.docs, found.tokens, found.missing, found.contradictory) == (3, 12, 3, 0)
    assert [row[1:] for row in found.rows(["ORG"])] == [
        # docs, entities; ambiguous, rejected, contradictory; inside, outside, other, missing
        (2, 2, 0, 0, 0, 2, 1, 4, 5),
        (0, 0, 0, 0, 0, 0, 1, 6, 5),
        (2, 2, 0, 0, 0, 4, 3, 2, 3),
    ]
    assert list(rows(found, ["ORG"])) == ["LOC", "ORG", "PER"]


def test_spans_and_allowed_labels():
    found = inspect(
        make_doc("OOOO", ambiguous=[(0, 2, "PER"), (0, 2, "ORG"), (3, 4, "")]),
        make_doc(["", "", "", ""], incorrect=[(0, 2, "LOC"), (3, 4, "")]),
        make_doc(["", "", "", ""], allowed=[(0, ["O", "PER"]), (2, ["O"])]),
    )
    per, loc, anything = (rows(found)[label] for label in ("PER", "LOC", ""))
    assert (per["ambiguous"], per["rejected"], loc["ambiguous"], loc["rejected"]) == (1, 0, 0, 1)
    assert (anything["ambiguous"], anything["rejected"]) == (1, 1)
    assert [per[key] for key in ("inside", "outside", "other", "missing")] == [0, 2, 0, 10]
    assert [loc[key] for key in ("inside", "outside", "other", "missing")] == [0, 2, 3, 7]
    assert found.missing == 6


def test_contradictions_are_named_and_counted_by_label():
    wrong = make_doc(FULL, incorrect=[(0, 2, "PER")], ambiguous=[(3, 4, "ORG")])
    found = inspect(make_doc(FULL), *[wrong] * (MAX_NAMED + 2))
    assert found.contradictory == MAX_NAMED + 2 and len(found.named) == MAX_NAMED
    assert found.named[0] == (
        "document 1, 'Ann Lee saw Rome ': 'Rome' (tokens 3:4) is LOC, but may only be ORG; "
        "'Ann Lee' (tokens 0:2) is both PER and not PER"
    )
    assert [row["contradictory"] for row in rows(found).values()] == [MAX_NAMED + 2] * 3


def test_entities_without_a_first_token_are_a_contradiction():
    found = inspect(make_doc(["I-PER", "O", "O", "O"]), make_doc(FULL))
    assert (found.contradictory, found.missing, found.tokens) == (1, 4, 8)
    assert found.named[0].startswith("document 0, 'Ann Lee saw Rome ': [E093]")


def test_tags():
    doc = make_doc([""] * 4, tags=["N", "N", "V", ""], pos=["PROPN", "PROPN", "VERB", "PROPN"])
    doc[3]._.allowed_tags = ["N", "V"]
    found = inspect(doc, make_doc([""] * 4))
    tag, pos = found.tags["tag"], found.tags["pos"]
    assert (tag.values.total(), len(tag.values), tag.missing, tag.allowed) == (3, 2, 5, 1)
    assert (pos.values.total(), len(pos.values), pos.missing, pos.allowed) == (4, 2, 4, 0)
    assert not found.has_entities and inspect(make_doc("OOOO")).has_entities


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
    found = inspect(*corpus)
    assert found.tokens == 4 * len(corpus)
    for row in found.rows(["PER", "NEW"]):
        assert row.inside + row.outside + row.other + row.missing == found.tokens
        assert min(row[1:]) >= 0 and row.missing >= found.missing


@pytest.mark.parametrize("labels", [(), ("PER",)])
def test_an_empty_corpus(labels):
    assert [row[1:] for row in inspect().rows(labels)] == [(0,) * 9] * len(labels)
