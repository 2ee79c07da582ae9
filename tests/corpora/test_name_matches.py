"""Texts that are annotated by lists of names."""

import spacy

from spacy_bcrf.annotation.partial import AMBIGUOUS
from spacy_bcrf.corpora.name_matches import match_names


def match(text, **names):
    nlp = spacy.blank("xx")
    (doc,) = match_names([nlp.make_doc(text)], names, nlp)
    return doc


def test_all_other_tokens_are_missing():
    doc = match("Ann Lee left New York", PER=["Ann Lee"], LOC=["York", "New York"])
    assert [(ent.text, ent.label_) for ent in doc.ents] == [("Ann Lee", "PER"), ("New York", "LOC")]
    assert [token.ent_iob_ for token in doc] == ["B", "I", "", "B", "I"]
    assert AMBIGUOUS not in doc.spans


def test_names_in_lower_case_match_any_case():
    doc = match("Cancer , CANCER and cancer ; AIDS aids us", D=["cancer", "AIDS"])
    assert [ent.text for ent in doc.ents] == ["Cancer", "CANCER", "cancer", "AIDS"]


def test_a_name_of_several_labels_is_ambiguous():
    doc = match("Washington is Ann", PER=["Ann", "Washington"], LOC=["Washington"])
    assert [ent.text for ent in doc.ents] == ["Ann"] and doc[0].ent_iob == 0
    assert sorted(span.label_ for span in doc.spans[AMBIGUOUS]) == ["LOC", "PER"]
