"""Votes of sources in Python."""

from pathlib import Path

import spacy
from spacy.tokens import Doc, DocBin, Span

from spacy_bcrf.analysis import aggregate
from spacy_bcrf.analysis.sources import Source, read_groups


def make_docs():
    vocab = spacy.blank("en").vocab
    docs = [Doc(vocab, words=["a", "b", "c", "d"]) for _ in range(8)]
    for doc in docs:
        doc.spans["one"] = [Span(doc, 1, 2, "A")]
        doc.spans["two"] = [Span(doc, 1, 2, "A")]
    docs[5].spans["two"] = [Span(docs[5], 1, 3, "A")]
    return docs


SOURCES = [Source(name, read_groups(name)) for name in ("one", "two")]


def test_a_conflict_names_its_document(tmp_path):
    for size in (3, 100):
        found = aggregate(make_docs(), SOURCES, ["A"], tmp_path, shard_size=size)
        assert [conflict["document"] for conflict in found.conflicts] == [5]


def test_kept_votes_have_no_span_groups(tmp_path):
    docs, votes = make_docs(), tmp_path / "votes"
    Path(tmp_path / "out").mkdir()
    aggregate(docs, SOURCES, ["A"], tmp_path / "out", folder=votes)
    (stored, *_) = DocBin().from_disk(votes / "000000.spacy").get_docs(docs[0].vocab)
    assert stored.text == docs[0].text and not stored.spans and docs[0].spans
