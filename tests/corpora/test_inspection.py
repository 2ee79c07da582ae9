"""Counts of `Inspection` on corpora that are small enough to count by hand."""

import pytest
import spacy
from spacy.tokens import Doc, Span

from spacy_bcrf.annotation.extensions import set_extensions
from spacy_bcrf.corpora.inspection import Inspection

set_extensions()
VOCAB = spacy.blank("xx").vocab


def make_doc(ents, **more):
    return Doc(VOCAB, words=["Ann", "Lee", "saw", "Rome"], ents=ents, **more)


def inspect(*docs):
    found = Inspection()
    for doc in docs:
        found.add(doc)
    return found


def test_tags():
    doc = make_doc([""] * 4, tags=["N", "N", "V", ""], pos=["PROPN", "PROPN", "VERB", "PROPN"])
    doc[3]._.allowed_tags = ["N", "V"]
    found = inspect(doc, make_doc([""] * 4))
    tag, pos = found.tags["tag"], found.tags["pos"]
    assert (tag.values.total(), len(tag.values), tag.missing, tag.allowed) == (3, 2, 5, 1)
    assert (pos.values.total(), len(pos.values), pos.missing, pos.allowed) == (4, 2, 4, 0)
    assert not found.has_entities and inspect(make_doc("OOOO")).has_entities


def test_labels_of_entities_and_of_partial_annotation():
    named, some, choice = (make_doc(["B-PER", "", "", ""]) for _ in range(3))
    named.spans["incorrect_spans"] = [Span(named, 0, 2, label="LOC"), Span(named, 0, 1, label="")]
    some._.annotated_labels = ["PER", "ORG"]
    choice[2]._.allowed_labels = ["O", "DATE"]
    assert inspect(named, some, choice).labels == {"PER", "LOC", "ORG", "DATE"}
    assert inspect(make_doc(["I-PER", "O", "O", "O"])).labels == {"PER"}


@pytest.mark.parametrize("key", ["ambiguous_spans", "incorrect_spans"])
def test_partial_annotation_is_annotation_of_entities(key):
    doc = make_doc([""] * 4)
    doc.spans[key] = [Span(doc, 0, 2, label="")]
    found = inspect(doc)
    assert found.has_entities and not found.labels and not found.groups
