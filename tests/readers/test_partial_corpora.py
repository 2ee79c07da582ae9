"""Masking of annotation, and the reader of several corpora."""

from collections import Counter

import pytest
import spacy
from spacy.tokens import Doc
from spacy.util import registry

from lab.masking import drop_entities, forget_tokens, one_label_each
from spacy_bcrf.annotation.extensions import set_extensions
from spacy_bcrf.readers.doc_files import write_all
from spacy_bcrf.readers.partial_corpora import make_partial_reader

set_extensions()
NLP = spacy.blank("xx")


def make_docs(n=60):
    tags = ["B-PER", "I-PER", "O", "B-LOC", "O", "B-ORG"]
    return [
        Doc(NLP.vocab, words=[f"Ann{i}", "Lee", "saw", "Rome", "and", "Acme"], ents=tags)
        for i in range(n)
    ]


def test_one_label_each():
    docs, labels = make_docs(), ["LOC", "ORG", "PER"]
    masked = list(one_label_each(docs, labels, seed=1))
    assert Counter(label for label, _ in masked) == dict.fromkeys(labels, 20)
    for (label, doc), source in zip(masked, docs, strict=True):
        assert doc.text == source.text
        assert doc._.annotated_labels == [label]
        assert [ent.label_ for ent in doc.ents] == [label]
        assert doc.has_annotation("ENT_IOB", require_complete=True)
        assert len(source.ents) == 3
    again = [label for label, _ in one_label_each(docs, labels, seed=1)]
    assert again == [label for label, _ in masked]
    assert again != [label for label, _ in one_label_each(docs, labels, seed=2)]


@pytest.mark.parametrize("others, code", [("outside", "O"), ("missing", "")])
def test_dropped_entities(others, code):
    docs = list(drop_entities(make_docs(), 0.5, 0, others))
    left = sum(len(doc.ents) for doc in docs)
    assert 60 < left < 120
    for doc in docs:
        assert {token.ent_iob_ for token in doc if not token.ent_type} <= {code}


def test_forgotten_entities_are_missing_as_a_whole():
    docs = list(forget_tokens(make_docs(), 0.5, 0))
    missing = sum(token.ent_iob == 0 for doc in docs for token in doc)
    assert 130 < missing < 230
    for doc in docs:
        assert (doc[0].ent_iob == 0) == (doc[1].ent_iob == 0)
        assert {ent.text for ent in doc.ents} <= {doc[:2].text, "Rome", "Acme"}


@pytest.fixture
def folder(tmp_path):
    for name, n in (("a", 10), ("b", 30)):
        write_all(make_docs(n), tmp_path / f"{name}.spacy")
    return tmp_path


def reader(folder, **parts):
    config = {"@readers": "spacy-bcrf.PartialCorpora.v1", "seed": 3}
    config["corpora"] = {
        name: {"path": str(folder / f"{name}.spacy"), **settings}
        for name, settings in parts.items()
    }
    return registry.resolve({"reader": config})["reader"]


def test_a_pass_reads_every_corpus_completely(folder):
    read = reader(folder, a={"annotated_labels": ["PER"]}, b={})
    first = list(read(NLP))
    labels = Counter(str(example.reference._.annotated_labels) for example in first)
    assert labels["None"] >= 30 and labels["['PER']"] >= 10
    texts = {eg.reference.text for eg in first if eg.reference._.annotated_labels is None}
    assert len(texts) == 30
    assert not first[0].predicted.ents and first[0].predicted.text == first[0].reference.text
    second = [example.reference._.annotated_labels for example in read(NLP)]
    assert second != [example.reference._.annotated_labels for example in first]
    again = reader(folder, a={"annotated_labels": ["PER"]}, b={})
    assert [eg.reference.text for eg in again(NLP)] == [eg.reference.text for eg in first]


def test_weights(folder):
    read = reader(folder, a={"weight": 9.0, "annotated_labels": ["PER"]}, b={"weight": 1.0})
    drawn = Counter(bool(eg.reference._.annotated_labels) for eg in read(NLP))
    assert 5 < drawn[True] / drawn[False] < 15


def test_a_buffer_shuffles_documents_across_files(tmp_path):
    for i in range(3):
        docs = [Doc(NLP.vocab, words=[f"{i}-{j}"], ents=["O"]) for j in range(20)]
        write_all(docs, tmp_path / f"corpus/{i}.spacy")

    def read(**settings):
        reader = make_partial_reader({"a": {"path": str(tmp_path / "corpus")}}, **settings)
        return [[eg.reference[0].text for eg in reader(NLP)] for _ in range(2)]

    in_order = [f"{i}-{j}" for i in range(3) for j in range(20)]
    assert read() == [in_order, in_order]
    first, second = read(seed=1, buffer_size=15)
    assert sorted(first) == sorted(second) == sorted(in_order)
    assert first != second and first != in_order
    assert len({text[0] for text in first[:20]}) > 1  # the files mix
    assert read(seed=1, buffer_size=15) == [first, second] != read(seed=2, buffer_size=15)
    with pytest.raises(ValueError, match="buffer_size must be at least 0, got -1"):
        make_partial_reader({"a": {"path": str(tmp_path / "corpus")}}, buffer_size=-1)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"weight": 0.0}, r"corpora\.a: weight: Input should be greater than 0, got 0"),
        (
            {"annotated_labels": "PER"},
            r"corpora\.a: annotated_labels: Input should be a valid list, got 'PER'",
        ),
        ({"annotated_labels": [1]}, r"annotated_labels 0: Input should be a valid string, got 1"),
        ({"weight": "2"}, r"corpora\.a: weight: Input should be a valid number, got '2'"),
        ({"path": 1.5}, r"corpora\.a: path: Input is not a valid path .*, got 1\.5"),
        ({"path": ""}, r"corpora\.a: path: Input is not a valid path"),
        (
            {"labels": ["PER"]},
            r"corpora\.a: labels: Extra inputs are not permitted, .*; expected a block with a path",
        ),
        ({"path": "nowhere.spacy"}, r"corpora\.a: nowhere.spacy: found no such file"),
    ],
)
def test_wrong_settings_are_named(folder, settings, message):
    with pytest.raises(ValueError, match=message):
        reader(folder, a=settings)


def test_no_corpora_are_refused():
    with pytest.raises(ValueError, match="needs at least one corpus"):
        registry.resolve({"r": {"@readers": "spacy-bcrf.PartialCorpora.v1", "corpora": {}}})
