"""Predictions that partial gold annotation can judge: one answer for all that count them."""

from types import SimpleNamespace

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, Span
from spacy.training import Example
from tiny_training import network, train

from spacy_bcrf.annotation.partial import PartialAnnotation
from spacy_bcrf.judging.evaluation import CharSpan, evaluate
from spacy_bcrf.judging.report import report
from spacy_bcrf.loading import make_examples
from spacy_bcrf.pipeline.calibration import Calibration
from spacy_bcrf.promises.calibrate import calibrate
from spacy_bcrf.promises.control import control, measure_promises
from spacy_bcrf.promises.evidence import Evidence
from spacy_bcrf.training.combine import Combination

WORDS = ["Ann", "saw", "Rome"]
LABELS = ["PER", "LOC"]
PREDICTED = [(0, 1, "PER"), (2, 3, "LOC")]


def groups(**spans):
    return {"spans": {f"{key}_spans": of_key for key, of_key in spans.items()}}


CASES = {
    # The prediction of LOC is wrong, or cannot be judged.
    "all labels": ({}, [True, False]),
    "a label": ({"annotated_labels": ["PER"]}, [True]),
    "both labels": ({"annotated_labels": LABELS}, [True, False]),
    "no label": ({"annotated_labels": []}, [True]),
    "ambiguous": (groups(ambiguous=[(2, 3, "LOC"), (2, 3, "PER")]), [True]),
    "any": (groups(ambiguous=[(2, 3, "")]), [True]),
    "another alternative": (groups(ambiguous=[(2, 3, "PER")]), [True, False]),
    "other boundaries": (groups(ambiguous=[(1, 3, "LOC")]), [True, False]),
    "allowed": ({"allowed": {2: ["O", "LOC"]}}, [True]),
    "another allowed": ({"allowed": {2: ["O", "PER"]}}, [True, False]),
    "allowed elsewhere": ({"allowed": {1: ["O", "LOC"]}}, [True, False]),
    "missing": ({"missing": [2]}, [True]),
    "another allowed, else missing": (
        {"allowed": {2: ["O", "PER"]}, "missing": [1, 2]},
        [True, False],
    ),
    "allowed, else missing": ({"allowed": {2: ["O", "LOC"]}, "missing": [1, 2]}, [True]),
    "another alternative, else missing": (
        groups(ambiguous=[(2, 3, "PER")]) | {"missing": [1, 2]},
        [True, False],
    ),
    "an alternative, else missing": (
        groups(ambiguous=[(2, 3, "LOC")]) | {"missing": [1, 2]},
        [True],
    ),
    "other boundaries, else missing": (
        groups(ambiguous=[(1, 3, "LOC")]) | {"missing": [1, 2]},
        [True, False],
    ),
    "rejected": (groups(incorrect=[(2, 3, "LOC")]) | {"missing": [1, 2]}, [True, False]),
    "another rejected": (groups(incorrect=[(2, 3, "PER")]) | {"missing": [1, 2]}, [True]),
}


@pytest.fixture(scope="module")
def pipelines():
    found = {}
    for factory in ("bcrf_ner", "bcrf_spans"):
        nlp = spacy.blank("xx")
        nlp.add_pipe(factory, config={"model": network("CRF")})
        doc = Doc(nlp.vocab, words=WORDS, ents=["B-PER", "O", "B-LOC"])
        doc.spans["sc"] = [Span(doc, *span) for span in PREDICTED]
        train(nlp, [Example(Doc(nlp.vocab, words=WORDS), doc)])
        found[factory] = nlp
    return found


def make_gold(nlp, partial):
    """Return a document with Ann as PER, and partial annotation."""
    missing = partial.get("missing", ())
    tags = ["B-PER", *("" if i in missing else "O" for i in (1, 2))]
    doc = Doc(nlp.vocab, words=WORDS, ents=tags)
    doc.spans["sc"] = [Span(doc, 0, 1, "PER")]
    doc._.annotated_labels = partial.get("annotated_labels")
    for token, labels in partial.get("allowed", {}).items():
        doc[token]._.allowed_labels = labels
    for key, spans in partial.get("spans", {}).items():
        doc.spans[key] = [Span(doc, *span) for span in spans]
    return doc


@pytest.mark.parametrize(
    "factory, case",
    # A span group has no missing tokens.
    [("bcrf_ner", case) for case in CASES]
    + [("bcrf_spans", case) for case, (partial, _) in CASES.items() if "missing" not in partial],
)
def test_calibration_promises_and_scores_judge_the_same_predictions(pipelines, factory, case):
    partial, expected = CASES[case]
    nlp = pipelines[factory]
    pipe, n_open = nlp.get_pipe(factory), 2 - len(expected)
    gold = make_gold(nlp, partial)
    examples = make_examples(nlp, factory, [gold])
    calibration = Calibration(pipe, examples)
    assert (calibration.correct.tolist(), calibration.n_left_out) == (expected, n_open)
    evidence = Evidence(pipe, examples, "precision")
    assert (evidence.units.correct.tolist(), evidence.n_left_out) == (expected, n_open)
    found = report(nlp, [gold], factory)
    (row, *_) = found.values["scores"]["exact"]
    assert row["predicted"] == len(expected) and row["precision"]["value"] == np.mean(expected)
    notes = [note for note in found.values["notes"] if "left out" in note]
    assert len(notes) == n_open and all(f"1 prediction of {factory}" in x for x in notes)


def test_only_flat_spans_exclude_what_overlaps_an_ambiguous_span(pipelines):
    partial = PartialAnnotation(frozenset(["PER"]), ambiguous={(1, 3): frozenset(["PER"])})
    found = [
        nlp.get_pipe(x).codec.partial.excludes(partial, 2, 3, "LOC", True)
        for x, nlp in pipelines.items()
    ]
    assert found == [True, False]


def test_a_right_prediction_of_a_label_that_is_not_annotated_is_judged(pipelines):
    nlp = pipelines["bcrf_ner"]
    codec = nlp.get_pipe("bcrf_ner").codec
    gold = Doc(nlp.vocab, words=WORDS, ents=["O", "O", "B-LOC"])
    gold._.annotated_labels = ["PER"]
    spans = [CharSpan(8, 12, "LOC")]
    found = evaluate(codec, [gold], [spans], [spans], LABELS)
    assert ([pair.kind for pair in found.pairs[0]], found.n_left_out) == (["correct"], 0)


def test_a_gold_tag_that_only_says_what_is_wrong_judges_no_tag():
    nlp = spacy.blank("xx")
    nlp.add_pipe("bcrf_tagger", config={"model": network("CRF")})
    right = Doc(nlp.vocab, words=WORDS, tags=["N", "V", "N"])
    train(nlp, [Example(Doc(nlp.vocab, words=WORDS), right)])
    gold = Doc(nlp.vocab, words=WORDS, tags=["N", "V", "!V"])
    examples = make_examples(nlp, "bcrf_tagger", [gold])
    calibration = Calibration(nlp.get_pipe("bcrf_tagger"), examples)
    assert (calibration.correct.tolist(), calibration.n_left_out) == ([True, True], 1)
    values = report(nlp, [gold], "bcrf_tagger").values
    assert values["labels"] == ["N", "V"]
    assert [row["predicted"] for row in values["scores"]["exact"]] == [2, 1, 1]


@pytest.fixture(scope="module")
def noisy():
    """A pipeline, and 300 documents of which the pipeline finds a part."""
    nlp = spacy.blank("xx")
    nlp.add_pipe("bcrf_ner", config={"model": network("CRF")})
    rng = np.random.default_rng(0)
    names = {"PER": "Ann Kim Bob Eve", "LOC": "Rome Oslo Bonn Graz"}
    words = np.array([f"{name} {label}" for label, x in names.items() for name in x.split()])

    def make(n, noise):
        docs = []
        for _ in range(n):
            drawn = [word.split() for word in rng.choice(words, 6).tolist()]
            other = {"PER": "LOC", "LOC": "PER"}
            tags = [
                rng.choice([t, other[t], ""], p=[1 - noise, *[noise / 2] * 2]) for _, t in drawn
            ]
            ents = [f"B-{tag}" if tag else "O" for tag in tags]
            docs.append(Doc(nlp.vocab, words=[word for word, _ in drawn], ents=ents))
        return docs

    train(nlp, [Example(Doc(nlp.vocab, words=[t.text for t in d]), d) for d in make(40, 0.1)], 10)
    return SimpleNamespace(nlp=nlp, full=make(300, 0.3))


def annotate_half(docs):
    """Return copies of which every other one annotates PER only."""
    found = []
    for i, doc in enumerate(docs):
        copy = doc.copy()
        if i % 2:
            copy.ents = [ent for ent in doc.ents if ent.label_ == "PER"]
            copy._.annotated_labels = ["PER"]
        found.append(copy)
    return found


def test_a_promise_that_full_gold_keeps_is_kept_with_partial_labels(noisy):
    """Labels without annotation counted as wrong, so that no threshold reached it."""
    nlp, pipe = noisy.nlp, noisy.nlp.get_pipe("bcrf_ner")
    for gold in noisy.full, annotate_half(noisy.full):
        found = control(nlp, gold, precision=0.6)
        is_partial = gold is not noisy.full
        assert is_partial == any("left out" in note for note in found.notes)
        (row,) = measure_promises(pipe, make_examples(nlp, "bcrf_ner", noisy.full))
        assert found.kept[0].measured > 0.6 and row["reached"] > 0.6
        pipe.control = None


def test_partial_labels_do_not_change_the_temperature(noisy):
    """Labels without annotation counted as wrong, which raised it."""
    full = calibrate(noisy.nlp, noisy.full)
    found = calibrate(noisy.nlp, annotate_half(noisy.full))
    assert full.n_left_out == 0 < found.n_left_out
    assert found.temperature == pytest.approx(full.temperature, rel=0.15)


def test_a_token_of_several_chains_counts_once_in_a_combination(pipelines):
    """It counted in each chain, so the log-likelihood per token was too small."""
    pipe = pipelines["bcrf_spans"].get_pipe("bcrf_spans")
    gold = make_gold(pipelines["bcrf_spans"], {})
    examples = make_examples(pipelines["bcrf_spans"], "bcrf_spans", [gold, gold])
    assert pipe.codec.n_chains == 2 and Combination([pipe], examples).n_tokens == 6
