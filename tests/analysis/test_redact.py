"""De-identified texts, and what is left of the gold spans."""

import json
import math

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_bcrf.analysis.cross_fitting import fit_sparse_chain, train_sparse_chain
from spacy_bcrf.analysis.loading import copy_words
from spacy_bcrf.analysis.redact import Region, Replacer, measure_leaks, redact
from spacy_bcrf.pipeline.factories import NER_MODEL
from spacy_bcrf.pipeline.settings import Control

NAMES = ("Ann Lee", "Bob Ray", "Eve May", "Ida Fox")
PLACES = ("Rome", "Oslo", "Kiel", "Bonn")


def make_docs(vocab):
    docs = []
    for name in NAMES:
        for place in PLACES:
            words = [*name.split(), "saw", place, "and", "will", "see", "it", "."]
            ents = ["B-PER", "I-PER", "O", "B-LOC", *["O"] * 5]
            docs.append(Doc(vocab, words=words, ents=ents))
    return docs


@pytest.fixture(scope="module")
def nlp():
    vocab = spacy.blank("en").vocab
    docs = make_docs(vocab)
    # Words outside of entities, so that "will" and "of" are none.
    for text in (
        "it will see .",
        "and so it is .",
        "they saw it .",
        "so it is it 's , it 's and it 's .",
    ):
        docs.append(Doc(vocab, words=text.split(), ents=["O"] * len(text.split())))
    return train_sparse_chain(docs, ["LOC", "PER"], lang="en")


def run(nlp, text, **options):
    (found,) = redact(nlp, [nlp.make_doc(text)], **{"threshold": 0.3, **options})
    return found


def test_labels_replace_spans_and_the_new_spans_are_found(nlp):
    found = run(nlp, "Ann Lee saw Rome and will see it .")
    assert found.text == "[PER] saw [LOC] and will see it ."
    assert [found.text[s.start : s.end] for s in found.spans] == ["[PER]", "[LOC]"]
    assert [(r.start, r.end) for r in found.regions] == [(0, 7), (12, 16)]
    line = json.dumps(found.to_json())
    assert "Ann" not in line and "Rome" not in line


def test_further_occurrences_are_replaced(nlp):
    text = "Ann Lee saw Rome and will see it . so it is ROME 's , Lee 's and lee 's ."
    pipe = nlp.get_pipe("ner")
    only = pipe.entity_candidates([nlp.make_doc(text)], 0.3)[0]
    found = run(nlp, text)
    assert len(found.regions) > len({(c.span.start, c.span.end) for c in only})
    kept = found.text.split()
    # The case of whole strings does not matter; a word of a name is none in lower case.
    assert "ROME" not in kept and "Lee" not in kept
    assert "lee" in kept and "will" in kept and kept.count("'s") == 3
    assert any(region.repeated for region in found.regions)


def test_the_surrogates_of_equal_words_are_equal_and_keep_their_form():
    replacer = Replacer("surrogate", b"key")
    full, part, upper = (replacer.replace(x, "PER") for x in ("Ann Lee", "Lee", "LEE"))
    assert full.split()[1] == part and upper == part.upper() != "LEE"
    number = replacer.replace("+49 (30) 1234-x7", "PHONE")
    assert len(number) == 16 and number[0] == "+" and number[4] == "(" and number[7] == ")"
    assert all(a.isdigit() == b.isdigit() for a, b in zip(number, "+49 (30) 1234-x7", strict=True))
    assert all(a != b for a, b in zip(number, "+49 (30) 1234-x7", strict=True) if b.isalnum())
    for text in ("Straße", "Żółć", "東京都", "Москва", "résumé"):
        other = replacer.replace(text, "X")
        assert len(other) == len(text) and other != text
        assert all(a != b for a, b in zip(other, text, strict=True))
    assert Replacer("surrogate", b"other").replace("Ann Lee", "PER") != full
    assert Replacer("mask", b"").replace("Ann-7 Übel, No. 12", "X") == "Xxx-# Xxxx, Xx. ##"


def test_entities_of_earlier_components_are_replaced(nlp):
    ruler = nlp.add_pipe("entity_ruler", before="ner")
    ruler.add_patterns([{"label": "MAIL", "pattern": [{"LIKE_EMAIL": True}]}])
    try:
        found = run(nlp, "they saw x@y.org .")
        assert found.text == "they saw [MAIL] ."
    finally:
        nlp.remove_pipe("entity_ruler")


def test_the_promise_gives_the_threshold(nlp):
    ner = nlp.get_pipe("ner")
    text = "Ann Lee saw Rome and will see it ."
    with pytest.raises(ValueError, match=r"\[ner\] has no promise of recall: run `control`"):
        run(nlp, text, threshold=None)
    ner.control = Control("recall", ("LOC",), (0.3,))
    try:
        assert run(nlp, text, threshold=None).text == "Ann Lee saw [LOC] and will see it ."
        assert run(nlp, text).text.startswith("[PER]")
        assert ner.control.labels == ("LOC",)
    finally:
        ner.control = None
    with pytest.raises(ValueError, match="style must be one of label, surrogate, mask, got 'x'"):
        run(nlp, text, style="x")


@pytest.mark.parametrize("text", ["", "  \n ", "?!"])
def test_texts_without_words_stay(nlp, text):
    assert run(nlp, text) == (text, [], [])


def test_leaks_are_counted_by_label_character_and_document(nlp):
    docs = make_docs(nlp.vocab)[:4]
    whole = [Region(0, 7, "PER", 1), Region(12, 16, "LOC", 1)]
    half = [Region(0, 3, "PER", 1), Region(12, 16, "LOC", 1), Region(21, 25, "X", 1)]
    report = measure_leaks(docs, [whole, whole, half, []])
    every, loc, per = report.leaks
    assert [leak.label for leak in report.leaks] == [None, "LOC", "PER"]
    assert every.spans[:2] == (3, 8) and every.documents[:2] == (2, 4)
    assert per.characters[:2] == (3 + 6, 24) and loc.spans[:2] == (1, 4)
    assert every.documents[2:] == pytest.approx((0.0676, 0.9324), abs=1e-4)
    assert every.spans[2] < 3 / 8 < every.spans[3]
    n_other = sum(c.isalnum() for c in docs[0].text) * 4 - 4 * 10
    assert report.replaced == pytest.approx(4 / n_other)
    clean = measure_leaks(docs, [whole] * 4)
    assert clean.leaks[0].spans[:3] == (0, 8, 0) and clean.leaks[0].spans[3] > 0.5
    assert json.loads(json.dumps(report.to_json()))["leaks"][0]["label"] is None
    assert "2 of 4 documents with gold spans leak, at most 93.2%" in repr(report)
    assert report.rows()[1][0] == "all" and "<table>" in report._repr_html_()
    assert len(report.plot().axes) == 1


def test_spans_that_may_overlap(nlp):
    """Each label has a chain of its own: a repeated word counts in any of them."""
    own = spacy.blank("en")
    pipe = own.add_pipe("bcrf_spans", config={"model": NER_MODEL})
    docs = make_docs(own.vocab)
    for doc in docs:
        doc.spans["sc"] = [*doc.ents, Span(doc, 0, 4, label="EVENT")]
    fit_sparse_chain(own, [Example(copy_words(doc, own), doc) for doc in docs], 10)
    pipe.control = Control("recall", ("PER",), (0.3,))
    text = "Ann Lee saw Rome and will see it . Ann Lee saw Rome and will see it ."
    labels = [region.label for region in run(own, text, threshold=None).regions]
    assert labels == ["PER", "PER"]
    (one,) = redact(own, [copy_words(docs[0], own)], threshold=0.3)
    leaks = measure_leaks([docs[0]] * 2, [one.regions, []], spans_key="sc").leaks
    assert [leak.label for leak in leaks] == [None, "EVENT", "LOC", "PER"]
    assert [leak.spans[:2] for leak in leaks] == [(3, 6), (1, 2), (1, 2), (1, 2)]
    inside = 1 - np.prod(pipe.token_marginals([docs[0]])[0][:, [0, 5, 10]], axis=1)
    assert len(pipe.tags) == 15 and (inside[:4] > 0.5).all()


def test_leaks_without_an_entity_and_of_one_document(nlp):
    doc = Doc(nlp.vocab, words=["it", "."], ents=["O", "O"])
    (every,) = measure_leaks([doc], [[]]).leaks
    assert every.spans[:2] == (0, 0) and math.isnan(every.documents[3])
    with pytest.raises(ValueError, match="expected gold documents, got none"):
        measure_leaks([], [])
    assert measure_leaks([doc], [[]]).rows()[1] == ("all", *["none annotated"] * 3)


def test_the_pipeline_is_as_before_between_two_documents(nlp):
    nlp.add_pipe("sentencizer", last=True)
    try:
        found = redact(nlp, [nlp.make_doc("Ann Lee saw Rome .")] * 2, threshold=0.3)
        next(found)
        assert nlp.disabled == [] and nlp.get_pipe("ner").control is None
    finally:
        nlp.remove_pipe("sentencizer")
