"""Votes of sources in Python."""

from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span

from bcrf.chain import CRF, Potentials
from bcrf.chain.annotators import PRECISION
from spacy_bcrf.analysis import aggregate, distill_aggregated
from spacy_bcrf.analysis.aggregate import SCHEME
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


def test_a_span_that_nobody_judges_has_the_prior_precision(tmp_path):
    docs = make_docs()
    for doc in docs:
        doc.spans["alone"] = [Span(doc, 3, 4, "A")]
    sources = [*SOURCES, Source("alone", read_groups("alone"))]
    found = aggregate(docs, sources, ["A"], tmp_path)
    (alone,) = found.figures["alone"]
    assert alone.precision.value == pytest.approx(PRECISION)
    # However many votes: they do not tell the errors that sources share. Gold does.
    many = aggregate(docs * 100, sources, ["A"], tmp_path).figures["one"][0].precision
    gold = [doc.copy() for doc in docs * 30]
    for doc in gold:
        doc.set_ents(doc.spans["one"])
    known = aggregate(docs * 100, sources, ["A"], tmp_path, gold=gold).figures["one"][0].precision
    assert many.high - many.low > 0.25 > 0.1 > known.high - known.low


def test_gold_without_the_labels_is_an_error(tmp_path):
    (gold,) = make_docs()[:1]
    gold.set_ents([Span(gold, 1, 2, "X")])
    message = "gold: expected entities with the labels A, got X in 1 documents"
    with pytest.raises(ValueError, match=message):
        aggregate(make_docs(), SOURCES, ["A"], tmp_path, gold=[gold])


def test_a_label_that_no_source_proposes(tmp_path):
    found = aggregate(make_docs(), SOURCES, ["A", "B"], tmp_path)
    assert found.notes == ["B: no source proposes it"]


def test_a_conflict_has_the_votes_and_the_result(tmp_path):
    (conflict,) = aggregate(make_docs(), SOURCES, ["A"], tmp_path).conflicts
    assert conflict["text"] == "a b c d"
    votes = [(vote["source"], vote["text"]) for vote in conflict["votes"]]
    assert votes[:2] == [("one", "b"), ("two", "b c")]
    assert votes[2:] in ([("result", "b")], [("result", "b c")])


def test_gold_documents_correct_the_figures(tmp_path):
    """Two sources that agree on wrong spans look right until gold tells."""
    docs, gold = make_docs(), make_docs() * 5
    for doc in gold:
        doc.set_ents([Span(doc, 3, 4, "A")])
    estimated, corrected = (
        aggregate(docs, SOURCES, ["A"], tmp_path, gold=known).figures["one"][0].precision
        for known in ([], gold)
    )
    assert estimated.value > 0.8 and estimated.true is None
    assert corrected.value < 0.35 and corrected.true == 0


def test_the_written_chains_are_those_of_the_figures(tmp_path):
    """Once, the files had sharper probabilities."""
    found = aggregate(make_docs(), SOURCES, ["A"], tmp_path)
    with np.load(tmp_path / "000000.npz") as arrays:
        chain = Potentials(arrays["unary"], arrays["transitions"], np.full(8, 4, "int32"))
    tags = SCHEME.span_tags(["A"])
    begins = CRF().marginals(chain).unary[:, [*tags.first, *tags.single]]
    assert begins.sum() == pytest.approx(found.figures["one"][0].recall.n, rel=1e-4)


@pytest.mark.parametrize("denies", [False, True])
def test_a_student_finds_entities_where_sources_only_abstain(tmp_path, denies):
    nlp = spacy.blank("en")
    drugs = [f"{letter}o{other}pril" for letter in "bcdfgklmnp" for other in "bdglmnrt"]
    docs = [Doc(nlp.vocab, words=["she", "takes", drug, "every", "day"]) for drug in drugs]
    for i, doc in enumerate(docs):
        doc.spans["list"] = [Span(doc, 2, 3, "DRUG")] if i % 4 else []
    sources = [Source("list", read_groups("list"), denies=denies)]
    aggregate(docs, sources, ["DRUG"], tmp_path)
    student = distill_aggregated(tmp_path, nlp, ["DRUG"]).nlp
    missed = [Doc(student.vocab, words=[token.text for token in doc]) for doc in docs[::4]]
    n_found = sum(len(doc.ents) for doc in student.pipe(missed))
    assert n_found <= 2 if denies else n_found >= 18
