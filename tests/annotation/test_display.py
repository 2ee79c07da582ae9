"""Pictures and frames of predicted spans with their probabilities."""

import sys

import pytest
import spacy
from spacy.tokens import Doc, Span

import spacy_bcrf

TEXT = "Ada <lived> in London"


@pytest.fixture
def doc():
    """A document with entities, one of them with a probability, and overlapping candidates."""
    spacy_bcrf.set_extensions()
    doc = spacy.blank("xx")(TEXT)
    london = len(doc) - 1
    doc.ents = [Span(doc, 0, 1, "PERSON"), Span(doc, london, london + 1, "LOC")]
    doc.ents[0]._.confidence = 0.975
    doc.spans["candidates"] = [Span(doc, 0, 1, "PERSON"), Span(doc, 0, 2, "ORG")]
    doc.spans["candidates"].attrs["scores"] = [0.75, 0.125]
    return doc


def test_entities_are_drawn_with_their_probabilities(doc):
    html = spacy_bcrf.displacy(doc, jupyter=False, options={"colors": {"PERSON": "#123456"}})
    assert "PERSON 0.97" in html and "#123456" in html
    assert "LOC<" in html
    assert "&lt;lived&gt;" in html and "<lived>" not in html


@pytest.mark.parametrize("group", [None, "candidates"])
def test_labels_are_escaped_and_pages_run_no_scripts(doc, group):
    bad = "<img src=x onerror=alert(1)>"
    if group is None:
        doc.ents = [Span(doc, 0, 1, bad)]
    else:
        doc.spans[group] = [Span(doc, 0, 1, bad)]
    options = {"colors": {bad: "#123456"}}
    html = spacy_bcrf.displacy(doc, group, jupyter=False, page=True, options=options)
    assert "&lt;img src=x onerror=alert(1)&gt;" in html and "<img" not in html
    assert "#123456" in html and "default-src 'none'" in html and "overflow-wrap" in html


def test_groups_may_overlap(doc):
    html = spacy_bcrf.displacy(doc, "candidates", jupyter=False, page=True)
    assert "PERSON 0.75" in html and "ORG 0.12" in html
    with pytest.raises(ValueError, match="no group 'chunks'; the document has candidates"):
        spacy_bcrf.displacy(doc, "chunks")


def test_a_frame_has_a_row_for_each_span(doc):
    pytest.importorskip("pandas", reason="needs the extra pandas")
    frame = spacy_bcrf.to_frame([doc, doc])
    assert list(frame["text"]) == ["Ada", "London"] * 2
    assert list(frame["doc"]) == [0, 0, 1, 1]
    assert list(frame["probability"].round(3).dropna()) == [0.975] * 2
    for row in frame.itertuples():
        assert TEXT[row.start_char : row.end_char] == doc[row.start : row.end].text == row.text
    assert list(spacy_bcrf.to_frame(doc, "candidates")["probability"]) == [0.75, 0.125]
    empty = spacy_bcrf.to_frame([])
    assert len(empty) == 0 and list(empty.columns) == list(frame.columns)
    with pytest.raises(TypeError, match="expected documents, got str"):
        spacy_bcrf.to_frame([TEXT])


def test_without_pandas_the_error_says_what_to_install(doc, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pandas is not .*pip install 'pandas>=2'"):
        spacy_bcrf.to_frame([doc])


def test_json_keeps_probabilities(doc):
    fields = doc.to_json(underscore=["confidence"])
    copy = Doc(doc.vocab).from_json(fields)
    assert [ent._.confidence for ent in copy.ents] == [0.975, None]
