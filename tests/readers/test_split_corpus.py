"""Documents that a reader splits keep their partial annotation."""

import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Corpus, Example

from spacy_bcrf.annotation.extensions import set_extensions
from spacy_bcrf.annotation.misaligned import MisalignedSpan, add_misaligned
from spacy_bcrf.readers.doc_files import read_docs, write_all
from spacy_bcrf.readers.split_corpus import find_losses, make_split_reader

WORDS = ["Ada", "ran", ".", "Bob", "Lee", "ran", "."]
STARTS = [True, False, False, True, False, False, False]


@pytest.fixture
def nlp():
    return spacy.blank("en")


@pytest.fixture
def path(nlp, tmp_path):
    set_extensions()
    doc = Doc(nlp.vocab, words=WORDS, sent_starts=STARTS, ents=["B-PER", *"OOOOOO"])
    doc._.annotated_labels = ["PER"]
    doc[4]._.allowed_labels = ["O", "ORG"]
    doc.spans["incorrect_spans"] = [Span(doc, 3, 4, "LOC")]
    doc.spans["ambiguous_spans"] = [Span(doc, 2, 4, "LOC"), Span(doc, 3, 5, "ORG")]
    doc.spans["sc"] = [Span(doc, 0, 1, "PER")]
    DocBin(docs=[doc], store_user_data=True).to_disk(tmp_path / "corpus.spacy")
    return tmp_path / "corpus.spacy"


@pytest.mark.parametrize("options", [{"gold_preproc": True}, {"max_length": 5}])
def test_sentences_keep_partial_annotation(nlp, path, options):
    first, second = (eg.reference for eg in make_split_reader(path, **options)(nlp))
    assert [token.text for token in second] == WORDS[3:]
    assert [*first._.annotated_labels] == [*second._.annotated_labels] == ["PER"]
    assert [list(t._.allowed_labels or ()) for t in second] == [[], ["O", "ORG"], [], []]
    assert not any(t._.allowed_labels for t in first)
    groups = {
        name: [(s.start, s.end, s.label_) for s in group] for name, group in second.spans.items()
    }
    assert groups == {
        "incorrect_spans": [(0, 1, "LOC")],
        "ambiguous_spans": [(0, 2, "ORG")],
        "sc": [],
    }
    assert [(s.start, s.end) for s in first.spans["sc"]] == [(0, 1)]
    # The ambiguous span 2:4 crosses a sentence start: nothing is known of its tokens.
    assert [t.ent_iob for t in first] == [3, 2, 0] and [t.ent_iob for t in second] == [0, 2, 2, 2]


def test_whole_documents_are_those_of_spacy(nlp, path):
    (ours,), (theirs,) = list(make_split_reader(path)(nlp)), list(Corpus(path)(nlp))
    assert ours.reference.to_bytes() == theirs.reference.to_bytes()


def test_sentences_that_stay_too_long_are_counted(nlp, path):
    with pytest.warns(UserWarning, match="left out 1 documents or sentences of 4 tokens or more"):
        (example,) = make_split_reader(path, max_length=4)(nlp)
    assert len(example.reference) == 3


def test_without_a_path():
    with pytest.raises(ValueError, match="path is missing"):
        make_split_reader(None)


def test_a_reader_that_loses_annotation_is_named(nlp, path):
    block = {"@readers": "spacy.Corpus.v1", "path": str(path), "gold_preproc": True}
    (note,) = find_losses({"corpora": {"train": block}}, nlp.vocab)
    assert note.startswith(f"[corpora.train] spacy.Corpus.v1 splits documents of {path}")
    assert "annotated_labels" in note and "doc.spans['ambiguous_spans']" in note
    for harmless in (
        {"gold_preproc": False},
        {"gold_preproc": False, "max_length": 100},
        {"@readers": "spacy-bcrf.Corpus.v1"},
        {"path": None},
    ):
        assert not list(find_losses({"corpora": {"train": block | harmless}}, nlp.vocab))
    (doc, *_) = read_docs(path, nlp.vocab)
    add_misaligned(doc, MisalignedSpan(0, 1, "PER"))
    cut = path.with_name("cut.spacy")
    write_all([doc, doc], cut)
    (note,) = find_losses({"corpora": {"train": block | {"path": str(cut)}}}, nlp.vocab)
    assert "lose 2 gold spans that cut tokens, allowed_labels, annotated_labels" in note
    nlp.config["corpora"]["train"] = block
    ner = nlp.add_pipe("bcrf_ner")
    doc = Doc(nlp.vocab, words=["Ada"], ents=["B-PER"])
    with pytest.warns(UserWarning, match=r"lose .*Set @readers = spacy-bcrf\.Corpus\.v1"):
        nlp.initialize(lambda: [Example(Doc(nlp.vocab, words=["Ada"]), doc)])
    assert ner.labels == ("PER",)
