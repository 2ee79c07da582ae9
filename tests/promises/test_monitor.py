"""The watch on drift."""

import json

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example

from spacy_bcrf.judging.folds import train_sparse_chain
from spacy_bcrf.pipeline.settings import Control
from spacy_bcrf.promises.monitor import BINS, MEASURES, Watch, monitor
from spacy_bcrf.promises.risk import fewest_documents

NAMES = ("Ann", "Bob", "Eve", "Ida")


def make_docs(vocab, n, seed, share=0.5):
    """Sentences of one to five words. A person takes the place of a word with this probability."""
    rng = np.random.default_rng(seed)
    docs = []
    for _ in range(n):
        is_name = rng.random(rng.integers(1, 6)) < share
        words = [NAMES[rng.integers(4)] if x else "abcdefgh"[rng.integers(8)] for x in is_name]
        docs.append(Doc(vocab, words=words, ents=["B-PER" if x else "O" for x in is_name]))
    return docs


@pytest.fixture(scope="module")
def nlp():
    return train_sparse_chain(make_docs(spacy.blank("xx").vocab, 60, 0), ["PER"])


def texts(nlp, *args):
    return [nlp.make_doc(doc.text) for doc in make_docs(nlp.vocab, *args)]


def draw(rng, n, shift=0.0):
    values = rng.beta(2, 5, (n, len(MEASURES))) + shift
    values[:, :2] *= 20
    values[rng.random(n) < 0.3, 2:5] = np.nan
    return values


def test_equal_documents_raise_few_alarms_and_others_many():
    """Valid at any time: the evidence ever reaches 20 in at most 5% of the runs."""
    alarms = {}
    for shift in (0.0, 0.15):
        found = []
        for seed in range(100):
            rng = np.random.default_rng(seed)
            watch = Watch.start("x", draw(rng, 100))
            watch.update(draw(rng, 120, shift))
            found.append(max(one.evidence for one in watch.compare()) >= 20)
        alarms[shift] = np.mean(found)
    assert alarms[0.0] <= 0.05 and alarms[0.15] > 0.9


def test_p_values_of_equal_documents_are_rarely_small():
    smallest = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        watch = Watch.start("x", draw(rng, 80))
        watch.update(draw(rng, 60))
        smallest.append(min(one.p for one in watch.compare()))
    assert np.mean(np.array(smallest) <= 0.05) <= 0.06


def test_a_watch_goes_on_from_its_counts(nlp):
    reference, new = texts(nlp, 60, 1), texts(nlp, 40, 2)
    first = monitor(nlp, new[:15], reference)
    state = json.dumps(first.watch.to_json())
    assert not any(name in state for name in NAMES)
    again = monitor(nlp, new[15:], Watch.from_json(json.loads(state)))
    assert again.watch.n_docs == [60, 40] and again.n_docs == 25 and not again.alarm
    # The evidence does not depend on where the calls begin.
    rng = np.random.default_rng(0)
    old, values = draw(rng, 60), draw(rng, 1100)
    one, other = Watch.start("", old), Watch.start("", old)
    one.update(values)
    for part in np.split(values, [7, 1050]):
        other.update(part)
    for found, expected in zip(one.compare(), other.compare(), strict=True):
        assert found[0] == expected[0] and found[1:] == pytest.approx(expected[1:])


def test_the_order_of_texts_in_a_file_is_no_evidence(nlp):
    """Neighbours are alike: first all short texts, then all long ones."""
    new = sorted(texts(nlp, 150, 2), key=len)
    assert not monitor(nlp, new, texts(nlp, 100, 1)).alarm


def test_drift_breaks_a_promise_and_names_the_documents_needed(nlp):
    ner = nlp.get_pipe("ner")
    ner.control = Control("recall", ("PER",), (0.01,), 1.0, (0.9,), (0,))
    try:
        found = monitor(nlp, texts(nlp, 150, 3, 0.98), texts(nlp, 100, 1))
        assert found.alarm and found.evidence >= 20
        assert "The promise no longer rests on like documents: recall 0.9 of PER" in found.message
        assert found.needed >= 29 and f"Label about {found.needed:,} new documents" in repr(found)
        values = json.loads(json.dumps(found.to_json(), allow_nan=False))
        assert values["measures"]["spans a document"]["new"] > 2
        assert "<table>" in found._repr_html_()
        found.needed = None  # no number of documents helps that anyone can label
        assert "Train on documents like the new ones, then run `control`" in found.message
        ner.control = Control("recall", ("PER",), (0.01,), 1.0, (0.9,), (0,), unit="document")
        (name,) = monitor(nlp, [], texts(nlp, 100, 1)).promises
        assert name == "recall 0.9 a document of PER"
        ner.control = Control("recall", ("PER",), (0.02,))
        with pytest.raises(ValueError, match=r"\[ner\] the component changed since the watch"):
            monitor(nlp, [], found.watch)
    finally:
        ner.control = None
    calm = monitor(nlp, texts(nlp, 50, 5), texts(nlp, 100, 1))
    assert not calm.alarm and calm.message.startswith("no drift found in 50 new documents")


def test_values_are_those_of_the_component(nlp):
    (doc,) = texts(nlp, 1, 9)
    text = "Ann a zz"
    found = monitor(nlp, [nlp.make_doc(text)], texts(nlp, 60, 1))
    means = {one.measure: one.new for one in found.comparisons}
    ner = nlp.get_pipe("ner")
    ner.annotate = ["confidence"]
    doc = nlp(text)
    ner.annotate = ()
    assert means["spans a document"] == len(doc.ents) > 0 and means["tokens a document"] == 3
    p = [ent._.confidence for ent in doc.ents]
    assert means["mean probability"] == means["expected precision"] == pytest.approx(np.mean(p))
    (candidates,) = ner.entity_candidates([nlp.make_doc(text)], 1e-4)
    expected = sum(p) / sum(candidate.probability for candidate in candidates)
    assert means["expected recall"] == pytest.approx(expected, rel=1e-5)
    assert 0 < means["unknown features"] < 1
    assert set(means) == set(BINS)


def test_texts_without_words_and_few_documents(nlp):
    reference = texts(nlp, 60, 1)
    found = monitor(nlp, [nlp.make_doc("")] * 3, reference)
    assert (found.n_docs, found.n_empty, found.alarm) == (3, 3, False)
    assert found.comparisons == [] and "no drift found in 0 new documents" in repr(found)
    with pytest.raises(ValueError, match="the reference has 1 documents with words; expected at"):
        monitor(nlp, reference, [*reference[:1], nlp.make_doc("")])
    with pytest.raises(ValueError, match="confidence must be between 0 and 1"):
        monitor(nlp, reference, reference, confidence=1)


@pytest.mark.parametrize("values", [None, [], {}, {"peak": 1}, {"n_docs": "x"}])
def test_damaged_watches_are_refused(values):
    with pytest.raises(ValueError, match="is no file of `monitor`"):
        Watch.from_json(values)
    good = Watch.start("x", draw(np.random.default_rng(0), 60)).to_json()
    with pytest.raises(ValueError, match="is no file of `monitor`"):
        Watch.from_json({**good, "bets": [[1]]})


def test_a_tagger_is_watched_by_its_promise_of_precision():
    nlp = spacy.blank("xx")
    tagger = nlp.add_pipe("bcrf_tagger")
    rng = np.random.default_rng(0)
    docs = []
    for _ in range(120):
        words = [str(word) for word in rng.choice(["a", "b", "c"], 4)]
        docs.append(Doc(nlp.vocab, words=words, tags=[word.upper() for word in words]))
    nlp.initialize(lambda: [Example(nlp.make_doc(doc.text), doc) for doc in docs])
    for doc in docs[:60]:
        nlp.update([Example(nlp.make_doc(doc.text), doc)])
    tags = ("A", "B", "C")
    tagger.control = Control("precision", tags, (0.5,) * 3, 1.0, (0.9,) * 3, (0,) * 3)
    new, reference = ([nlp.make_doc(doc.text) for doc in part] for part in (docs[60:], docs[:60]))
    calm = monitor(nlp, new, reference)
    assert not calm.alarm and calm.promises == ["precision 0.9 of A, B, C"]
    assert calm.needed >= fewest_documents(0.1, 0.05)
    other = monitor(nlp, [nlp.make_doc("x y z w v u")] * 60, reference)
    assert other.alarm and "precision 0.9 of A, B, C" in other.message
