"""Platt scaling of confidences by label and by length."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit
from spacy.lang.xx import MultiLanguage
from spacy.tokens import Doc
from spacy.training import Example
from tiny_training import network, train

from spacy_bcrf.pipeline.calibration import Calibration, measure_reliability
from spacy_bcrf.pipeline.platt_scaling import MIN_GROUP, PlattScaling


def simulate(n=4000):
    """Return confidences that are too high for A and too low for B, and their correctness."""
    rng = np.random.default_rng(0)
    confidence, uniform = rng.random((2, n))
    keys = ["A" if i % 2 else "B" for i in range(n)]
    shift = np.where(np.array(keys) == "A", -1.5, 1.5)
    return confidence, uniform < expit(0.6 * logit(confidence) + shift), keys


def test_each_group_has_its_own_map():
    confidence, correct, keys = simulate()
    scaling = PlattScaling.fit("label", confidence, correct, keys)
    assert scaling.groups == ("A", "B")
    assert scaling.slopes[:2] == pytest.approx((0.6, 0.6), abs=0.1)
    assert scaling.intercepts[:2] == pytest.approx((-1.5, 1.5), abs=0.15)
    scaled = scaling.apply(confidence, keys)
    pooled = PlattScaling.fit("label", confidence, correct, ["all"] * len(keys))
    for group in "AB":
        of_group = np.array(keys) == group
        assert measure_reliability(scaled[of_group], correct[of_group]).error < 0.05
        shared = pooled.apply(confidence, ["all"] * len(keys))[of_group]
        assert measure_reliability(shared, correct[of_group]).error > 0.1


def test_the_fit_is_the_minimum_of_the_regularized_loss():
    confidence, correct, _ = simulate(200)
    scaling = PlattScaling.fit("length", confidence, correct, ["1"] * 200)

    def objective(v):
        p = expit(v[0] * logit(confidence) + v[1])
        loss = -np.log(np.where(correct, p, 1 - p)).sum()
        return loss + ((v[0] - 1) ** 2 + v[1] ** 2) / 2

    expected = minimize(objective, [1, 0]).x
    assert (scaling.slopes[0], scaling.intercepts[0]) == pytest.approx(expected, abs=1e-3)


def test_maps_are_monotone_even_if_the_data_are_not():
    confidence = np.linspace(0.01, 0.99, 200)
    scaling = PlattScaling.fit("label", confidence, confidence < 0.5, ["A"] * 200)
    assert (np.diff(scaling.apply(confidence, ["A"] * 200)) > 0).all()


def test_small_groups_and_unknown_ones_share_a_map():
    confidence, correct, keys = simulate()
    keys[: MIN_GROUP - 1] = ["C"] * (MIN_GROUP - 1)
    scaling = PlattScaling.fit("label", confidence, correct, keys)
    assert scaling.groups == ("A", "B")
    p = np.array([0.7, 0.7])
    c, unknown = scaling.apply(p, ["C", "never seen"])
    assert c == unknown
    # The rest is too small for a map of its own, so the last map is fitted on all predictions.
    pooled = PlattScaling.fit("label", confidence, correct, ["all"] * len(keys))
    assert c == pytest.approx(pooled.apply(p, ["all", "all"])[0])


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"by": "size"}, "by must be one of label, length, got 'size'"),
        ({"slopes": [1.0]}, "expected 2 slopes and intercepts for 1 groups and all others, got 1"),
        ({"slopes": [1.0, 0.0]}, "slopes must be finite and positive"),
        ({"slopes": [-1.0, 1.0]}, "slopes must be finite and positive"),
        ({"more": 1}, "calibration must have by, groups, slopes and intercepts, got"),
    ],
)
def test_invalid_options_of_a_config_name_the_component(changes, message):
    options = {"by": "label", "groups": ["A"], "slopes": [1.0, 1.0], "intercepts": [0.0, 0.0]}
    with pytest.raises(ValueError, match=rf"\[ner\] {message}"):
        MultiLanguage().add_pipe("bcrf_ner", "ner", config={"calibration": options | changes})


def trained(factory, **annotation):
    nlp = MultiLanguage()
    pipe = nlp.add_pipe(factory, config={"model": network(), "annotate": ["confidence"]})
    doc = Doc(nlp.vocab, words=["Ann", "saw", "New", "Oslo"], **annotation)
    train(nlp, [Example(Doc(nlp.vocab, words=[t.text for t in doc]), doc)], steps=5)
    return nlp, pipe, doc


MAPS = {"slopes": [1.0, 0.5, 1.0], "intercepts": [0.0, -1.0, 2.0]}


@pytest.mark.parametrize("by, groups", [("label", ["PER", "LOC"]), ("length", ["1", "2"])])
def test_confidences_of_entities_are_mapped_and_predictions_stay(by, groups):
    nlp, pipe, gold = trained("bcrf_ner", ents=["B-PER", "O", "B-LOC", "I-LOC"])
    before = nlp(gold.text)
    raw = [ent._.confidence for ent in before.ents]
    assert len(raw) == 2
    pipe.change_setting("calibration", {"by": by, "groups": groups, **MAPS})
    doc = nlp(gold.text)
    assert [str(ent) for ent in doc.ents] == [str(ent) for ent in before.ents]
    per, loc = (ent._.confidence for ent in doc.ents)
    assert per == pytest.approx(raw[0], abs=1e-5)
    assert loc == pytest.approx(expit(0.5 * logit(raw[1]) - 1), abs=1e-4)
    (candidates,) = pipe.entity_candidates([before], 0.3)
    assert [c.probability for c in candidates] == pytest.approx(raw, abs=1e-5)


def test_confidences_of_tags_are_mapped():
    nlp, pipe, gold = trained("bcrf_tagger", tags=["N", "V", "N", "N"])
    raw = [token._.tag_confidence for token in nlp(gold.text)]
    pipe.change_setting("calibration", {"by": "label", "groups": ["X", "V"], **MAPS})
    mapped = [token._.tag_confidence for token in nlp(gold.text)]
    assert mapped[1] == pytest.approx(expit(0.5 * logit(raw[1]) - 1), abs=1e-4)
    assert mapped[0] == pytest.approx(expit(logit(raw[0]) + 2), abs=1e-4)
    with pytest.raises(ValueError, match="calibration by length needs spans, but the component"):
        pipe.calibration = PlattScaling("length", (), (1.0,), (0.0,))
    assert pipe.calibration.by == "label"
    with pytest.raises(ValueError, match="calibration by length"):
        Calibration(pipe, [Example(nlp.make_doc(gold.text), gold)]).fit_scaling(1.0, "length")


def test_the_option_is_saved():
    nlp, pipe, _ = trained("bcrf_ner", ents=["B-PER", "O", "B-LOC", "I-LOC"])
    pipe.change_setting("calibration", {"by": "label", "groups": ["PER", "LOC"], **MAPS})
    other = MultiLanguage()
    other.add_pipe("bcrf_ner", config={"model": network(), "annotate": ["confidence"]})
    other.from_bytes(nlp.to_bytes())
    assert other.get_pipe("bcrf_ner").calibration == pipe.calibration
