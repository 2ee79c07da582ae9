"""Thresholds on posteriors, and the promises that they keep."""

import json
import math
import re

import numpy as np
import pytest
import spacy
from sentences import repeat
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import Config
from tiny_training import network, train

from spacy_bcrf.loading import make_examples
from spacy_bcrf.pipeline.held_out import hash_texts
from spacy_bcrf.pipeline.settings import Control
from spacy_bcrf.promises.calibrate import calibrate
from spacy_bcrf.promises.control import (
    Controlled,
    Evidence,
    Kept,
    Loss,
    Promise,
    _reached,
    control,
    doubt_source,
    fit_threshold,
    list_promises,
    show_reached,
    split_promise,
)
from spacy_bcrf.promises.risk import (
    UnitCounts,
    Units,
    betting_p_values,
    binomial_interval,
    binomial_p_values,
    count_units,
    estimate_documents,
    excess_losses,
    fewest_documents,
    hoeffding_bentkus_p_values,
    last_certified,
)
from spacy_bcrf.promises.seen import note_fitted

WORDS = ["Ann", "saw", "Rome", "and", "Kim"]
ENTS = ["B-PER", "O", "B-LOC", "O", "B-PER"]
TAGS = ["N", "V", "N", "C", "N"]


@pytest.fixture(scope="module")
def nlp():
    nlp = spacy.blank("xx")
    for factory in ("bcrf_ner", "bcrf_tagger"):
        nlp.add_pipe(factory, config={"model": network("CRF")})
    gold = Doc(nlp.vocab, words=WORDS, ents=ENTS, tags=TAGS)
    train(nlp, [Example(Doc(nlp.vocab, words=WORDS), gold)], steps=8)
    return nlp


@pytest.fixture
def ner(nlp):
    pipe = nlp.get_pipe("bcrf_ner")
    yield pipe
    pipe.control, pipe.threshold, pipe.temperature, pipe.annotate = None, 0.0, 1.0, ()


def make_units(n_docs, error_rate, seed):
    """Two predictions a document; wrong below the posterior 0.5, else with this probability."""
    rng = np.random.default_rng(seed)
    p = rng.random(2 * n_docs)
    correct = (p >= 0.5) & (rng.random(len(p)) >= error_rate)
    return Units(np.repeat(np.arange(n_docs), 2), p, correct, n_docs)


def test_counts_and_excess_equal_hand_computed_ones():
    units = Units(np.array([0, 0, 2]), np.array([0.9, 0.4, 0.6]), np.array([True, False, False]), 3)
    thresholds = np.array([0.0, 0.5, 0.95])
    counts = count_units("precision", units, thresholds)
    assert counts.total.tolist() == [[2, 1, 0], [0, 0, 0], [1, 1, 0]]
    assert counts.wrong.tolist() == [[1, 0, 0], [0, 0, 0], [1, 1, 0]]
    missed = count_units("recall", units, thresholds)
    assert missed.wrong.tolist() == [[0, 1, 2], [0, 0, 0], [0, 0, 1]]
    np.testing.assert_allclose(
        excess_losses(counts, 0.1, 1), [[0.4, -0.1, 0], [0, 0, 0], [0.9, 0.9, 0]]
    )
    # With weights by size, the sum is proportional to wrong units minus risk times units.
    np.testing.assert_allclose(excess_losses(counts, 0.1, 2).sum(0) * 2, [2 - 0.3, 1 - 0.2, 0])


def test_p_values_of_true_hypotheses_are_rarely_small():
    """Documents of the bound's own risk: a p-value is below 0.1 in at most 10% of the samples."""
    rng = np.random.default_rng(0)
    losses = rng.random((300, 1000)) < 0.05
    p = hoeffding_bentkus_p_values(losses - 0.05, 0.05)
    assert 0.01 < (p <= 0.1).mean() <= 0.1


def test_p_values_of_a_small_risk_are_small():
    losses = np.random.default_rng(0).random((1000, 300)) < 0.02
    assert (hoeffding_bentkus_p_values(losses - 0.05, 0.05) <= 0.05).mean() > 0.95
    n = fewest_documents(0.05, 0.05)
    assert n == 59
    # Documents without units do not count.
    excess = np.append(np.full(n, -0.05), np.zeros(9))[:, None]
    assert hoeffding_bentkus_p_values(excess, 0.05)[0] == pytest.approx(0.95**59)
    assert hoeffding_bentkus_p_values(excess[1:], 0.05)[0] > 0.05
    assert hoeffding_bentkus_p_values(np.zeros((0, 2)), 0.05).tolist() == [1, 1]


def test_bentkus_bound_equals_the_binomial_one():
    losses = (np.arange(100) < 2)[:, None]
    tail = sum(math.comb(100, k) * 0.1**k * 0.9 ** (100 - k) for k in range(3))
    p = hoeffding_bentkus_p_values(losses - 0.1, 0.1)[0]
    assert p == pytest.approx(math.e * tail)


@pytest.mark.parametrize(
    "p_values, budgets, last",
    [
        ([0.01, 0.04, 0.06, 0.01], [0.05, 0, 0, 0], 1),
        ([0.06, 0.01, 0.01, 0.01], [0.05, 0, 0, 0], None),
        # A later start has a budget of its own, and rejections hand theirs on.
        ([0.06, 0.01, 0.03, 0.01], [0.03, 0, 0.02, 0], None),
        ([0.06, 0.01, 0.02, 0.02], [0.03, 0, 0.02, 0], 3),
        ([0.03, 0.03, 0.05, 0.05], [0.03, 0, 0.02, 0], 3),
    ],
)
def test_fallback_procedure(p_values, budgets, last):
    assert last_certified(np.array(p_values), budgets) == last


@pytest.mark.parametrize("kind", ["precision", "recall"])
def test_promise_is_kept_on_new_documents(kind):
    promise = Promise(("A",), 0.9, 0.1)
    n_kept = 0
    for seed in range(60):
        units = make_units(400, 0.02, seed)
        threshold = fit_threshold(units, kind, promise).threshold
        p = np.linspace(0, 1, 100_001)
        if kind == "recall":
            # Posteriors are uniform: recall at t is 1 - t.
            n_kept += threshold <= 0.1
            assert threshold > 0.03
        else:
            correct = np.where(p >= 0.5, 0.98, 0)
            n_kept += correct[p >= threshold].mean() >= 0.9
            assert threshold < 0.6
    assert n_kept >= 0.9 * 60


def test_too_few_documents_name_how_many_are_needed():
    promise = Promise(("A", "B"), 0.9, 0.05)
    with pytest.raises(ValueError, match=r"recall 0\.9 of A, B: 5 documents .* at least \d+ such"):
        fit_threshold(make_units(5, 0, 0), "recall", promise)
    with pytest.raises(ValueError, match="needs more than 100,000"):
        fit_threshold(make_units(300, 0.5, 0), "precision", promise)
    near = Units(np.arange(100), np.full(100, 0.99), np.arange(100) >= 5, 100)
    with pytest.raises(ValueError, match=r"100 documents .* needs about \d{3,}"):
        fit_threshold(near, "precision", promise)
    # No promise about a label without a gold span.
    none = near.select(np.zeros(0, dtype="int64"))
    with pytest.raises(ValueError, match="0 documents have gold spans of these labels, too few"):
        fit_threshold(none, "recall", promise)


@pytest.mark.parametrize("max_units, n_runs", [(1, 60), (4, 12)])
def test_estimated_documents_suffice_in_half_of_the_cases(max_units, n_runs):
    """The documents of a refusal, drawn anew, keep the promise about half of the time."""
    promise, loss, enough = Promise(("A",), 0.95, 0.05), Loss("span", max_units), []
    for seed in range(n_runs):
        try:
            fit_threshold(make_units(150, 0.025, seed), "precision", promise, loss)
        except ValueError as error:
            if found := re.search(r"needs about ([\d,]+)", str(error)):
                n = int(found[1].replace(",", ""))
                try:
                    fit_threshold(make_units(n, 0.025, 1000 + seed), "precision", promise, loss)
                    enough.append(True)
                except ValueError:
                    enough.append(False)
    assert len(enough) > 5 and 0.4 < np.mean(enough) <= 1 - (max_units == 1) / 10


def test_no_number_of_documents_is_named_without_hope():
    losses = (np.arange(100) < 3)[:, None] - 0.05
    level = np.array([0.05])
    assert estimate_documents(losses, 0.05, level) > 100
    for betting in (False, True):
        assert estimate_documents(-losses, 0.05, level, betting) is None
    # A threshold that one of 100 documents reaches without an error says nothing yet.
    one = np.where(np.arange(100) == 0, -0.05, 0)[:, None]
    assert estimate_documents(one, 0.05, level) is None


@pytest.mark.parametrize("weights", [[1.0], [0.25, 1.0], [1 / 16, 0.25]])
def test_bets_are_valid_and_strong(weights):
    """Type I error at most the level; and power where documents weigh differently."""
    rng = np.random.default_rng(0)
    w = rng.choice(weights, (400, 500))
    true, better = (w * ((rng.random(w.shape) < risk) - 0.2) for risk in (0.2, 0.1))
    assert (betting_p_values(true, 0.2, 0.05) <= 0.05).mean() <= 0.07
    power = [
        (p <= 0.05).mean()
        for p in (betting_p_values(better, 0.2, 0.05), hoeffding_bentkus_p_values(better, 0.2))
    ]
    assert power[0] > 0.9
    assert power[0] > power[1] + 0.5 or len(weights) == 1 or weights[1] == 1
    assert betting_p_values(np.zeros((0, 2)), 0.1, 0.05).tolist() == [1, 1]
    assert betting_p_values(-true[:, :1] * 0, 0.1, 0.05).tolist() == [1]


def test_documents_have_exact_p_values():
    """59 documents without an error promise 95% of documents with confidence 95%."""
    promise = Promise(("A",), 0.95, 0.05)
    for n, is_enough in ((59, True), (58, False)):
        units = Units(np.arange(n), np.full(n, 0.9), np.ones(n, dtype=bool), n)
        if is_enough:
            kept = fit_threshold(units, "recall", promise, Loss("document"))
            assert (kept.measured, kept.n_docs) == (1, 59) and 0.85 < kept.threshold <= 0.9
        else:
            with pytest.raises(ValueError, match="at least 59"):
                fit_threshold(units, "recall", promise, Loss("document"))
    losses = (np.arange(100) < 2)[:, None] - 0.1
    tail = sum(math.comb(100, k) * 0.1**k * 0.9 ** (100 - k) for k in range(3))
    assert binomial_p_values(losses, 0.1)[0] == pytest.approx(tail)


def test_a_missed_span_makes_a_document_wrong():
    units = Units(
        np.repeat(np.arange(200), 3), np.tile([0.9, 0.9, 0.15], 200), np.ones(600, bool), 200
    )
    promise = Promise(("A",), 0.5, 0.05)
    of_span, of_document = (
        fit_threshold(units, "recall", promise, loss).threshold
        for loss in (Loss(), Loss("document"))
    )
    assert of_document <= 0.15 < of_span


def test_exact_intervals():
    """Clopper and Pearson's bounds: no error in 59 documents, and 3 of 100, by SciPy's beta."""
    assert binomial_interval(0, 59, 0.1) == pytest.approx((0, 1 - 0.05 ** (1 / 59)))
    assert binomial_interval(3, 100) == pytest.approx((0.0062297, 0.0851760), abs=1e-6)
    assert binomial_interval(100, 100)[1] == 1


def test_a_table_of_promises_holds_at_once(nlp, ner):
    docs = [Doc(nlp.vocab, words=[*WORDS, str(i)], ents=[*ENTS, "O"]) for i in range(150)]
    table = list_promises(nlp, docs, "bcrf_ner")
    assert {offer.kind for offer in table.offers} == {"precision", "recall"}
    made = [offer for offer in table.offers if offer.threshold is not None]
    assert made and all(offer.reason for offer in table.offers if offer.threshold is None)
    assert table.confidence_each == pytest.approx(1 - 0.05 / len(table.offers))
    for kind in ("precision", "recall"):
        offer = [o for o in made if o.kind == kind][-1]
        found = control(
            nlp, docs, "bcrf_ner", **{kind: offer.value}, confidence=table.confidence_each
        )
        assert found.kept[0].threshold == offer.threshold
        ner.control = None
    assert "precision 0.5  " in repr(table) and "<table>" in table._repr_html_()
    assert json.loads(json.dumps(table.to_json()))["n_docs"] == 150
    assert len(table.plot().axes) == 2
    # A tagger promises precision only.
    tagged = repeat([Doc(nlp.vocab, words=WORDS, tags=TAGS)], 100)
    assert {o.kind for o in list_promises(nlp, tagged, "bcrf_tagger").offers} == {"precision"}


def test_documents_of_the_calibration_are_refused(nlp, ner):
    docs = [Doc(nlp.vocab, words=[*WORDS, str(i)], ents=[*ENTS, "O"]) for i in range(120)]
    ner.calibrated_on = hash_texts(docs[:40])
    try:
        with pytest.raises(ValueError, match="have 100% of the documents that the temperature was"):
            control(nlp, docs, "bcrf_ner", recall=0.5)
        ner.calibrated_on = (*hash_texts(docs[:4]), *(f"{i:016x}" for i in range(28)))
        found = control(nlp, docs, "bcrf_ner", recall=0.5)
        assert "about 12% of the documents that the temperature" in found.notes[0]
        assert note_fitted(ner.control, docs[:0]) == []
        (note,) = note_fitted(ner.control, docs)
        assert note.startswith("100% of the documents that `control` was fitted on are among these")
    finally:
        ner.calibrated_on, ner.control = (), None


def test_documents_of_another_source_are_doubted(nlp, ner):
    """The labels of this source are swapped: no prediction is right."""
    ents = [{"B-PER": "B-LOC", "B-LOC": "B-PER"}.get(ent, ent) for ent in ENTS]
    ner.calibrated_on = ("0" * 16,)
    try:
        for labels, is_doubted in ((ents, True), (ENTS, False)):
            docs = [Doc(nlp.vocab, words=WORDS, ents=labels)] * 10
            notes = doubt_source(ner, make_examples(nlp, "bcrf_ner", docs))
            assert bool(notes) is is_doubted
        assert "another source" not in "".join(notes)
    finally:
        ner.calibrated_on = ()


def test_copies_of_a_document_count_once(nlp, ner):
    gold = Doc(nlp.vocab, words=WORDS, ents=ENTS)
    note = "59 of 60 documents are copies: they have the text of an earlier one. Each text counts"
    with pytest.raises(ValueError, match="1 document has gold spans of these labels, too few"):
        control(nlp, [gold] * 60, "bcrf_ner", recall=0.95)
    table = list_promises(nlp, [gold] * 60, "bcrf_ner")
    assert table.n_docs == 1 and table.notes[0].startswith(note)
    # Other documents count as before, in their order.
    docs = [*repeat([gold], 40), *repeat([gold], 2)]
    found = control(nlp, docs, "bcrf_ner", recall=0.5)
    assert found.n_docs == 40 and found.notes[0].startswith("2 of 42 documents are copies")
    ner.control = None
    calibrated = calibrate(nlp, wrong_and_right(nlp) * 3, "bcrf_ner")
    assert calibrated.n == 6 and "4 of 6 documents are copies" in calibrated.notes[0]
    ner.calibrated_on = ()


def wrong_and_right(nlp):
    """Return two documents, one of which the recognizer gets wrong."""
    swapped = [{"B-PER": "B-LOC", "B-LOC": "B-PER"}.get(ent, ent) for ent in ENTS]
    docs = [Doc(nlp.vocab, words=WORDS, ents=ents) for ents in (ENTS, swapped)]
    return [docs[0], *repeat([docs[1]], 1)]


@pytest.mark.parametrize("loss", [Loss(), Loss(max_units=4), Loss("document")])
def test_the_interval_of_a_reached_promise_has_a_width_without_errors(loss):
    right, total = np.zeros((10, 1)), np.full((10, 1), 4.0)
    low, high = (_reached(UnitCounts(right, total), loss)[key] for key in ("low", "high"))
    assert 0.5 < low < 0.8 and high == 1
    row = _reached(UnitCounts(total, total), loss)
    assert row["low"] == pytest.approx(0, abs=1e-5) and 0.2 < row["high"] < 0.5


def test_intervals_of_reached_promises_cover_the_truth():
    rng, n_inside = np.random.default_rng(0), 0
    for _ in range(40):
        total = rng.integers(1, 5, (30, 1)).astype("float64")
        wrong = rng.binomial(total.astype(int), 0.02).astype("float64")
        row = _reached(UnitCounts(wrong, total), Loss())
        n_inside += row["low"] <= 0.98 <= row["high"]
    assert n_inside >= 38


def test_labels_with_their_own_promise_share_the_error():
    promises = split_promise(["A", "B", "C"], 0.9, {"B": 0.99}, 0.95)
    assert [promise[:2] for promise in promises] == [(("B",), 0.99), (("A", "C"), 0.9)]
    assert [promise.level for promise in promises] == pytest.approx([0.025, 0.025])
    groups = split_promise(["A", "B", "C"], None, {("A", "C"): 0.9}, 0.95)
    assert groups == [(("A", "C"), 0.9, pytest.approx(0.05))]


def test_contradicting_promises_are_refused(nlp):
    with pytest.raises(ValueError, match="B: has several promises, which contradict each other"):
        split_promise(["A", "B"], None, {("A", "B"): 0.9, "B": 0.8}, 0.95)
    with pytest.raises(ValueError, match="max_units 4 contradicts the unit document"):
        control(nlp, [], "bcrf_ner", recall=0.9, loss=Loss("document", 4))
    with pytest.raises(ValueError, match="unit must be span or document, got 'x'"):
        control(nlp, [], "bcrf_ner", recall=0.9, loss=Loss("x"))


@pytest.mark.parametrize("value", [1.5, 0.0, 1.0, float("nan")])
def test_promises_outside_of_0_and_1_are_refused(value):
    with pytest.raises(ValueError, match="must be between 0 and 1, both excluded"):
        split_promise(["A"], value, {}, 0.95)


def test_threshold_drops_uncertain_entities_but_no_preset_ones(nlp, ner):
    doc = nlp.make_doc(" ".join(WORDS))
    ner.annotate = ["confidence"]
    found = ner(doc.copy()).ents
    confidences = [ent._.confidence for ent in found]
    assert len(set(confidences)) == len(found) == 3
    ner.threshold = sorted(confidences)[1]
    kept = [p for p in confidences if p >= ner.threshold]
    assert [ent._.confidence for ent in ner(doc.copy()).ents] == kept
    assert len(kept) == 2
    ner.threshold = 1.0
    preset = doc.copy()
    preset.ents = [preset.char_span(4, 7, label="PER")]
    assert [(ent.text, ent.label_) for ent in ner(preset).ents] == [("saw", "PER")]


def test_precision_control_has_thresholds_by_label(nlp, ner):
    text = " ".join(WORDS)
    ner.threshold = 1.0
    ner.control = Control("precision", ("PER",), (0.0,))
    assert {ent.label_ for ent in nlp(text).ents} == {"PER"}
    ner.threshold = 0.0
    ner.control = Control("precision", ("PER",), (1.0,))
    assert {ent.label_ for ent in nlp(text).ents} == {"LOC"}


def test_recall_control_writes_candidates(nlp, ner):
    doc = nlp.make_doc(" ".join(WORDS))
    ner.control = Control("recall", ("PER", "LOC"), (1e-4, 0.2))
    expected = [
        (candidate.span.start, candidate.span.end, candidate.span.label_)
        for candidate in ner.entity_candidates([doc], 1e-4)[0]
        if candidate.span.label_ == "PER" or candidate.probability >= 0.2
    ]
    found = list(nlp.pipe([doc.copy(), nlp.make_doc("")]))
    group = found[0].spans["candidates"]
    assert [(span.start, span.end, span.label_) for span in group] == expected
    assert len(expected) > 3
    assert len(group.attrs["scores"]) == len(group) and min(group.attrs["scores"]) >= 1e-4
    assert len(found[0].ents) == 3 and not found[1].spans["candidates"]
    again = Doc(nlp.vocab).from_bytes(found[0].to_bytes()).spans["candidates"]
    assert again.attrs["scores"].tolist() == group.attrs["scores"].tolist()


def test_uncertain_tags_are_empty(nlp):
    tagger = nlp.get_pipe("bcrf_tagger")
    try:
        tagger.control = Control("precision", ("N",), (1.0,))
        assert [token.tag_ for token in nlp(" ".join(WORDS))] == ["", "V", "", "C", ""]
        with pytest.raises(ValueError, match=r"\[bcrf_tagger\] it predicts token"):
            tagger.control = Control("recall", ("N",), (0.5,))
    finally:
        tagger.control = None


def test_another_temperature_breaks_a_promise(nlp, ner):
    ner.control = Control("precision", ("PER",), (0.5,))
    ner.temperature = 2.0
    with pytest.raises(ValueError, match=r"thresholds for the temperature 1, but .* is 2"):
        nlp(" ".join(WORDS))
    ner.control = Control("precision", ("PER",), (0.5,), 1.9338600000000001)
    ner.temperature = 1.93386  # as a config has it
    nlp(" ".join(WORDS))


def test_settings_are_saved(nlp, ner, tmp_path):
    ner.threshold = 0.25
    ner.control = Control("precision", ("PER", "a=b: [c]"), (0.5, 0.75))
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path).get_pipe("bcrf_ner")
    assert (loaded.threshold, loaded.control) == (0.25, ner.control)
    nlp.get_pipe_config("bcrf_ner")["control"] = ner.settings_as_json()["control"]
    ner.control = None
    config = Config().from_str(nlp.config.to_str())
    nlp.get_pipe_config("bcrf_ner")["control"] = None
    configured = spacy.util.load_model_from_config(config).get_pipe("bcrf_ner").control
    assert configured == loaded.control


def test_labels_with_a_dollar_keep_their_settings(tmp_path):
    """spaCy doubles each $ of a config at every save."""
    nlp = spacy.blank("xx")
    ner = nlp.add_pipe("bcrf_ner", config={"threshold": {"US$": 0.25}})
    gold = Doc(nlp.vocab, words=["1", "US$"], ents=["O", "B-US$"])
    nlp.initialize(lambda: [Example(Doc(nlp.vocab, words=["1", "US$"]), gold)])
    control(nlp, repeat([gold], 60), "bcrf_ner", recall=0.5)
    maps = {"slopes": [1.0, 1.0], "intercepts": [0.0, 0.0]}
    ner.calibration = {"by": "label", "groups": ["US$"], **maps}
    for i in range(3):
        nlp.to_disk(tmp_path / str(i))
        nlp = spacy.load(tmp_path / str(i))
    loaded = nlp.get_pipe("bcrf_ner")
    assert loaded.control.labels == ("US$",) and loaded.threshold == {"US$": 0.25}
    assert loaded.calibration.groups == ("US$",)
    assert nlp.config["components"]["bcrf_ner"]["control"] is None
    nlp("1 US$")


@pytest.mark.parametrize(
    "options, message",
    [
        ({"promise": "f"}, "control must have promise, labels"),
        ({"promise": "f", "labels": [], "thresholds": []}, "promise must be precision or recall"),
        ({"promise": "recall", "labels": ["A"], "thresholds": []}, "one threshold a label"),
        ({"promise": "recall", "labels": ["A"], "thresholds": [0]}, "A must be a number above 0"),
        ({"promise": "precision", "labels": ["A"], "thresholds": ["x"]}, r"A must be .* got 'x'"),
    ],
)
def test_wrong_control_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        spacy.blank("xx").add_pipe("bcrf_ner", name="x", config={"control": options})


@pytest.mark.parametrize("threshold", [-0.1, 1.5, True, "a", {"PER": 2}, {"PER": "a"}])
def test_wrong_threshold_is_refused(ner, threshold):
    with pytest.raises(ValueError, match=r"\[bcrf_ner\] threshold must be a number from 0 to 1"):
        ner.threshold = threshold


def test_thresholds_by_label_drop_the_predictions_of_their_labels(nlp, ner, tmp_path):
    ner.threshold = 0.0
    text = " ".join(WORDS)
    found = {ent.label_ for ent in nlp(text).ents}
    label = min(found)
    ner.threshold = {label: 1}
    assert {ent.label_ for ent in nlp(text).ents} == found - {label}
    nlp.to_disk(tmp_path)
    assert spacy.load(tmp_path).get_pipe("bcrf_ner").threshold == {label: 1}
    ner.threshold = {"PRE": 0.5}
    with pytest.raises(ValueError, match=r"\[bcrf_ner\] threshold names the labels PRE;"):
        nlp(text)


def test_words_cannot_be_left_out():
    segmenter = spacy.blank("xx").add_pipe("bcrf_segmenter")
    with pytest.raises(ValueError, match="words cannot be left out"):
        segmenter.threshold = 0.5


def test_evidence_of_gold_spans_and_predictions(nlp, ner):
    gold = Doc(nlp.vocab, words=["Ann", "saw", "Rome"], ents=["B-PER", "O", "B-LOC"])
    words, spaces = ["Kim", "s", "aw"], [True, False, False]
    other = Doc(nlp.vocab, words=words, spaces=spaces, ents=["B-PER", "I-PER", "O"])
    examples = [
        Example(Doc(nlp.vocab, words=[]), Doc(nlp.vocab, words=[])),
        Example(Doc(nlp.vocab, words=["Ann", "saw", "Rome"]), gold),
        Example(Doc(nlp.vocab, words=["Kim", "saw"], spaces=[True, False]), other),
    ]
    recall = Evidence(ner, examples, "recall")
    assert recall.units.docs.tolist() == [1, 1, 2]
    assert [ner.labels[i] for i in recall.labels] == ["PER", "LOC", "PER"]
    candidates = ner.entity_candidates([gold], 1e-6)[0]
    p = {(c.span.start, c.span.end, c.span.label_): c.probability for c in candidates}
    expected = [p[0, 1, "PER"], p[2, 3, "LOC"], 0]
    np.testing.assert_allclose(recall.units.posteriors, expected, rtol=1e-4)
    precision = Evidence(ner, examples[:2], "precision")
    assert precision.units.docs.tolist() == [1] * len(precision.units.docs)
    assert precision.units.n_docs == 2


def test_a_covered_span_is_found_by_any_candidates(nlp, ner):
    """The oracle: whether the written candidates of a threshold cover the tokens of gold spans."""
    # "Annsaw" is one token for the pipeline, and gold starts inside. Labels and bounds differ.
    words, spaces = ["Ann", "saw", "Rome", "Kim"], [False, True, True, False]
    # The component does not have the label X.
    gold = Doc(nlp.vocab, words=words, spaces=spaces, ents=["O", "B-LOC", "I-LOC", "B-X"])
    tokens = ["Annsaw", "Rome", "Kim"]
    at = [(0, 2), (2, 3)]
    covered = Evidence(ner, [Example(Doc(nlp.vocab, words=tokens), gold)], "recall", True)
    exact = Evidence(ner, [Example(Doc(nlp.vocab, words=tokens), gold)], "recall")
    p = covered.units.posteriors
    assert exact.units.posteriors.tolist() == [0] and len(p) == 2 and min(p) > 0
    for threshold in np.geomspace(2e-4, 1, 40):
        ner.control = Control("recall", ner.labels, (threshold,) * len(ner.labels))
        doc = ner(Doc(nlp.vocab, words=tokens))
        inside = {i for span in doc.spans["candidates"] for i in range(span.start, span.end)}
        assert [inside.issuperset(range(*each)) for each in at] == (p >= threshold).tolist()


def test_a_covered_promise_has_a_higher_threshold(nlp, ner):
    gold = repeat([Doc(nlp.vocab, words=WORDS, ents=["B-LOC", *ENTS[1:]])], 60)
    options = {"recall": 0.9, "confidence": 0.9}
    exact = control(nlp, gold, "bcrf_ner", **options)
    covered = control(nlp, gold, "bcrf_ner", **options, loss=Loss(covered=True))
    assert covered.kept[0].threshold > exact.kept[0].threshold
    assert ner.control.covered and "recall 0.9 (covered)" in str(covered)
    losses = Loss(), Loss(covered=True)
    tables = [list_promises(nlp, gold, "bcrf_ner", loss=loss).offers for loss in losses]
    kinds = [[offer.threshold for offer in offers if offer.kind == "recall"] for offers in tables]
    assert kinds[0][3] < kinds[1][3]
    assert {offer.kind for offer in tables[1]} == {"recall"}


@pytest.mark.parametrize(
    "options, message",
    [
        ({"precision": 0.9}, "covered is for promises of recall, got one of precision"),
        ({"recall": 0.9, "of_labels": {"PER": 0.95}}, "covered promises all labels together"),
    ],
)
def test_covered_is_of_recall_and_of_all_labels(nlp, options, message):
    with pytest.raises(ValueError, match=message):
        control(nlp, [], "bcrf_ner", **options, loss=Loss(covered=True))


@pytest.mark.parametrize("promise, thresholds", [("precision", (0.5, 0.5)), ("recall", (0.5, 0.6))])
def test_covered_settings_have_one_threshold_of_recall(promise, thresholds):
    with pytest.raises(ValueError, match="a covered promise is one of recall, with one threshold"):
        Control(promise, ("PER", "LOC"), thresholds, covered=True)


def test_a_span_of_blanks_needs_no_cover(nlp, ner):
    """The pipeline has no token where gold has one of blanks."""
    gold = Doc(nlp.vocab, words=["Ann", " ", "saw"], spaces=[False] * 3, ents=["O", "B-PER", "O"])
    example = Example(Doc(nlp.vocab, words=["Ann", "saw"], spaces=[True, False]), gold)
    assert Evidence(ner, [example], "recall", True).units.posteriors.tolist() == [1]


def test_documents_that_weigh_little_are_named():
    """60 documents without an error keep the promise; each as a quarter of one, 196 are needed."""
    units = Units(np.arange(60), np.full(60, 0.99), np.ones(60, dtype=bool), 60)
    promise = Promise(("PER",), 0.9, 0.05)
    assert fit_threshold(units, "precision", promise, Loss("span", 1)).n_docs == 60
    few = "No document has more than 1: `max_units=1` needs fewer of them"
    with pytest.raises(ValueError, match=few):
        fit_threshold(units, "precision", promise, Loss("span", 4))


def test_lines_of_many_labels_can_be_read():
    """21 labels once made a table of 400 columns. They are listed once, below it."""
    labels = tuple(f"LONG_LABEL_{i}" for i in range(21))
    kept = [
        Kept(Promise(group, 0.9, 0.05), 0.5, 9, 0.95, 0.9) for group in (labels, ("PER", "ORG"))
    ]
    found = Controlled("ner", "recall", kept, 9, 9, Loss(), [])
    lines = list(found.lines())
    at = next(i for i, line in enumerate(lines) if line.startswith("21 labels:"))
    assert max(map(len, lines)) <= 100
    assert lines[1].startswith("21 labels ") and lines[2].startswith("PER, ORG")
    assert " ".join(lines[at:]) == f"21 labels: {', '.join(labels)}"
    row = {"labels": labels, "promise": "recall 0.9", "reached": None}
    assert show_reached(row) == "21 labels: recall 0.9 promised, not measured"
