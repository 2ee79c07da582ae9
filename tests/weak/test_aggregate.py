"""Votes of sources in Python."""

import re
from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span

from bcrf.chain import CRF, Potentials
from bcrf.chain.votes import PRIORS
from spacy_bcrf.corpora.formats.votes import DocVotes, Vote
from spacy_bcrf.training.distill import distill_aggregated
from spacy_bcrf.weak.aggregate import aggregate
from spacy_bcrf.weak.sources import Source, read_groups
from spacy_bcrf.weak.vote_shards import SCHEME


def make_docs():
    vocab = spacy.blank("en").vocab
    docs = [Doc(vocab, words=["a", "b", "c", "d"]) for _ in range(8)]
    for doc in docs:
        doc.spans["one"] = [Span(doc, 1, 2, "A")]
        doc.spans["two"] = [Span(doc, 1, 2, "A")]
    docs[5].spans["two"] = [Span(docs[5], 1, 3, "A")]
    return docs


SOURCES = [Source(name, read_groups(name)) for name in ("one", "two")]
ALONE = "only one source proposes it: nothing tells its recall, and little its precision"


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
    assert alone.precision.value == pytest.approx(PRIORS.precision)
    # However many votes: they do not tell the errors that sources share. Gold does.
    many = aggregate(docs * 100, sources, ["A"], tmp_path).figures["one"][0].precision
    gold = [doc.copy() for doc in docs * 30]
    for doc in gold:
        doc.set_ents(doc.spans["one"])
    known = aggregate(docs * 100, sources, ["A"], tmp_path, gold=gold).figures["one"][0].precision
    assert many.high - many.low > 0.25 > 0.1 > known.high - known.low


def test_the_interval_of_recall_has_room_for_entities_that_no_source_finds(tmp_path):
    (one,) = aggregate(make_docs() * 100, SOURCES, ["A"], tmp_path).figures["one"]
    assert one.recall.value == pytest.approx(one.precision.value, abs=0.03)
    assert one.recall.low < 0.5 < one.precision.low


def test_only_gold_tells_the_recall_of_a_label_that_one_source_proposes(tmp_path):
    """Once, it was 1.000."""
    docs = make_docs()
    sources = [SOURCES[0], Source("other", propose((3, 4, "B", 1.0)))]
    found = aggregate(docs, sources, ["A", "B"], tmp_path)
    assert found.notes == [f"A: {ALONE}", f"B: {ALONE}"]
    assert [row[-1] for row in found.rows()] == ["recall", "-", "-"]
    gold = [doc.copy() for doc in docs]
    for doc in gold:
        doc.set_ents([Span(doc, 0, 1, "A"), *doc.spans["one"]])
    known = aggregate(docs, sources, ["A", "B"], tmp_path, gold=gold)
    assert known.notes == [f"B: {ALONE}"]
    assert known.figures["one"][0].recall.value < 0.9
    assert known.figures["other"][1].recall.value is None


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


def test_errors_of_gold_come_before_votes_that_may_take_long(tmp_path):
    (gold,) = make_docs()[:1]
    gold.spans["one"] = [Span(gold, 1, 2, "B")]
    gold.set_ents([Span(gold, 1, 2, "A")])
    with pytest.raises(ValueError, match="nobody mapped its label 'B'"):
        aggregate(make_docs(), SOURCES, ["A"], tmp_path, gold=[gold], folder=tmp_path / "votes")
    assert not list((tmp_path / "votes").glob("*.npz"))


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


def propose(*found):
    return lambda docs: [DocVotes([Vote(*one) for one in found]) for _ in docs]


def test_spans_with_equal_bounds_are_one_vote_for_alternatives(tmp_path):
    """Once, the alphabetically first one was the vote."""
    docs = make_docs()
    coarse = Source("coarse", propose((1, 2, "A", 0.5), (1, 2, "B", 0.5), (3, 4, "A", 1.0)))
    for doc in docs[::2]:
        doc.spans["fine"] = [Span(doc, 1, 2, "B")]
    sources = [coarse, Source("fine", read_groups("fine"))]
    votes, left_out = coarse.vote(docs[:1], ["A", "B"])
    assert votes.means[votes.symbols].tolist() == [[True, True], [True, False]]
    assert votes.weights.tolist() == [1, 1] and left_out == (0, 0)
    found = [
        aggregate(docs, sources, ["A", "B"], tmp_path, shard_size=size) for size in (1, 3, 100)
    ]
    assert found[0].n_entities["B"] >= 4 and found[0].notes == [f"A: {ALONE}"]
    # A symbol has the same number in all shards.
    one, other = (found[i].figures["coarse"][1].precision.value for i in (0, 2))
    assert one == pytest.approx(other)
    assert "A or B" in {vote["label"] for each in found[0].conflicts for vote in each["votes"]}


def test_alternatives_that_no_other_source_resolves(tmp_path):
    """Once, a note said of one of them that no source proposes it."""
    sources = [Source("x", propose((1, 2, "A", 0.5), (1, 2, "B", 0.5))), SOURCES[0]]
    docs = make_docs()
    for doc in docs:
        doc.spans["one"] = []
    notes = aggregate(docs, sources, ["A", "B"], tmp_path).notes
    assert notes == [
        "one: no span, it abstains",
        "only one source votes: nothing tells how precise it is",
    ]


def make_denied(n_alone, n_both, n_free=50):
    """Return documents where a source proposes a span alone, with another one, and neither."""
    docs = []
    for group, n in (("alone", n_alone), ("both", n_both), ("free", n_free)):
        for i in range(n):
            word = f"{group}{i}q"
            docs.append(Doc(spacy.blank("en").vocab, words=["she", "has", word, "today"]))
            docs[-1].spans["a"] = [Span(docs[-1], 2, 3, "A")] if group != "free" else []
            docs[-1].spans["b"] = [Span(docs[-1], 2, 3, "A")] if group == "both" else []
    return docs


@pytest.mark.parametrize("n_alone", [30, 100])
def test_a_source_that_denies_lowers_the_precision_of_the_one_it_contradicts(tmp_path, n_alone):
    """Once, it raised it, to 0.98 from 0.925."""
    docs = make_denied(n_alone, 50)
    silent, denied = (
        aggregate(docs, [source, other], ["A"], tmp_path).figures["a"][0].precision.value
        for source in [Source("a", read_groups("a"))]
        for other in (Source("b", read_groups("b"), denies=denies) for denies in (False, True))
    )
    assert denied < silent - 0.015


def test_denial_removes_spans(tmp_path):
    docs = make_denied(40, 100)
    for i, doc in enumerate(docs):
        doc.spans["c"] = doc.spans["b"] if i % 10 else []
    for denies, n in ((False, 140), (True, 100)):
        sources = [Source(name, read_groups(name), denies=denies and name != "a") for name in "abc"]
        assert aggregate(docs, sources, ["A"], tmp_path).n_entities == {"A": n}


def test_notes_of_a_source_that_denies(tmp_path):
    sources = [SOURCES[0], Source("z", propose(), denies=True)]
    notes = aggregate(make_docs(), sources, ["A"], tmp_path).notes
    assert notes == ["z: no span, it denies", f"A: {ALONE}"]


@pytest.mark.parametrize(
    "names, message",
    [
        (("one", "one"), "source 'one': expected a name that no other has"),
        (
            ("one", "repeats"),
            "source 'repeats': expected a name that no other has; it is the built",
        ),
    ],
)
def test_two_sources_of_one_name(tmp_path, names, message):
    """Once, the figures of the first one vanished."""
    sources = [Source(name, read_groups("one")) for name in names]
    with pytest.raises(ValueError, match=re.escape(message)):
        aggregate(make_docs(), sources, ["A"], tmp_path)


def test_shards_make_no_difference(tmp_path, monkeypatch):
    """Once, a phrase counted as missed only after a shard had found it (audit 5, J2)."""
    vocab, entities = spacy.blank("en").vocab, set()
    docs = []
    for i in range(60):
        word = "alpha" if i < 30 or i == 59 else "omega"
        docs.append(Doc(vocab, words=[word, "was", "here", f"n{i}"]))
        docs[-1].spans["s0"] = [Span(docs[-1], 0, 1, label="A")] if i == 59 else []
        docs[-1].spans["s1"] = [Span(docs[-1], 3, 4, label="A")] if i % 3 == 0 else []
    sources = [Source(name, read_groups(name)) for name in ("s0", "s1")]
    for max_fit in (1_000, 150):
        monkeypatch.setattr("spacy_bcrf.weak.merging.MAX_FIT", max_fit)
        found = []
        for size in (60, 30, 7):
            folder = tmp_path / f"{max_fit}-{size}"
            folder.mkdir()
            entities.add(aggregate(docs, sources, ["A"], folder, shard_size=size).n_entities["A"])
            files = [DocBin().from_disk(path) for path in sorted(folder.glob("*.spacy"))]
            read = [doc for file in files for doc in file.get_docs(vocab)]
            found.append([[str(ent) for ent in doc.ents] for doc in read])
        assert found[0] == found[1] == found[2]
    assert 21 in entities


def test_a_coarse_vote_agrees_with_the_label_that_it_allows(tmp_path):
    """Once, the table of agreement had 0 for every coarse source (newcomer 5, finding 4)."""
    coarse = Source("coarse", propose((1, 2, "A", 0.5), (1, 2, "B", 0.5)))
    found = aggregate(make_docs(), [coarse, SOURCES[0]], ["A", "B"], tmp_path)
    assert found.agreement[:2, :2].tolist() == [[1, 1], [1, 1]]


def test_a_coarse_vote_that_others_do_not_confirm_has_a_note(tmp_path):
    docs = make_docs() * 10
    coarse = Source("proper", propose(*((0, 1, k, 0.5) for k in "AB"), (1, 2, "A", 1.0)))
    found = aggregate(docs, [coarse, *SOURCES], ["A", "B"], tmp_path)
    assert any(note.startswith("proper: others confirm 17% of its votes") for note in found.notes)
    assert found.n_entities == {"A": 80, "B": 0}


def test_coarse_votes_that_nothing_confirms_leave_no_entities(tmp_path):
    docs = make_docs() * 10
    coarse = [Source(str(i), propose(*((i, i + 1, k, 0.5) for k in "AB"))) for i in (0, 2)]
    found = aggregate(docs, coarse, ["A", "B"], tmp_path)
    assert found.n_entities == {"A": 0, "B": 0} and len(found.notes) == 2


def test_the_page_has_the_votes_without_a_model(tmp_path):
    gold = make_docs()
    for doc in gold:
        doc.set_ents(doc.spans["one"])
    found = aggregate(make_docs(), SOURCES, ["A"], tmp_path, gold=gold)
    assert [one.name for one in found.baselines][1:] == [
        "most votes, by span",
        "most votes, by token",
        "best source, one",
    ]
    assert [(one.n, one.f) for one in found.baselines][1:] == [(8, 1.0), (8, 0.875), (8, 1.0)]


def test_a_source_that_others_do_not_confirm_has_a_note(tmp_path):
    """Once, a rule of precision 40% passed in silence (newcomer 5, finding 4)."""
    docs = []
    for i in range(100):
        docs.append(Doc(spacy.blank("en").vocab, words=["she", f"n{i}x", "saw", f"n{i}y"]))
        docs[-1].spans["proper"] = [Span(docs[-1], 1, 2, "A")] if i % 4 else []
        for name, skip in (("a", 5), ("b", 7)):
            docs[-1].spans[name] = [Span(docs[-1], 3, 4, "A")] if i % skip else []
        docs[-1].spans["a"] = [Span(docs[-1], 1, 2, "A")] * (i < 20) + list(docs[-1].spans["a"])
    sources = [Source(name, read_groups(name)) for name in ("proper", "a", "b")]
    (note,) = aggregate(docs, sources, ["A"], tmp_path).notes
    assert note.startswith("proper: 75 spans, 20% confirmed where others looked (other sources: 8")
