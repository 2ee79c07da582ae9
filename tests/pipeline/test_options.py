"""Options of the wrong type or size are refused with their names."""

import pickle
from typing import Any

import numpy as np
import pytest
import spacy

from bcrf.chain import BCRF, MIRA, SAPO, MeanField
from bcrf.linear.learner import OnlineLearner, OnlineSettings
from bcrf.linear.rows import Rows
from spacy_bcrf.layers.heads import CRF


@pytest.mark.parametrize(
    "make, option",
    [
        (BCRF, "n_iter"),
        (BCRF, "inverse_temperature"),
        (BCRF, "tolerance"),
        (MeanField, "n_iter"),
        (SAPO, "n"),
        (SAPO, "beam_width"),
        (MIRA, "n"),
        (MIRA, "aggressiveness"),
        (CRF, "hidden_width"),
        (CRF, "transition_width"),
        (OnlineSettings, "n"),
        (OnlineSettings, "l1"),
    ],
)
def test_a_string_is_no_number(make: Any, option: str) -> None:
    with pytest.raises(ValueError, match=f"{option} must be a number, got '5'"):
        make(**{option: "5"})


@pytest.mark.parametrize(
    "option, value, message",
    [
        ("overwrite", "no", "[bcrf_tagger] overwrite must be true or false, got 'no'"),
        ("label_smoothing", "0.1", "[bcrf_tagger] label_smoothing must be a number in [0, 1)"),
    ],
)
def test_an_option_of_the_tagger_names_the_component(
    option: str, value: object, message: str
) -> None:
    with pytest.raises(ValueError) as error:
        spacy.blank("en").add_pipe("bcrf_tagger", config={option: value})
    assert message in str(error.value)


@pytest.mark.parametrize(
    "factory, option",
    [
        ("bcrf_ner", "incorrect_spans_key"),
        ("bcrf_ner", "ambiguous_spans_key"),
        ("bcrf_chunker", "spans_key"),
    ],
)
def test_a_number_is_no_span_group(factory: str, option: str) -> None:
    with pytest.raises(ValueError, match=f"{option} must be the name of a span group, got 5"):
        spacy.blank("en").add_pipe(factory, config={option: 5})


@pytest.mark.parametrize("annotate", [None, 5, "confidence", ["x"]])
def test_annotate_is_a_list_of_names(annotate: Any) -> None:
    ner: Any = spacy.blank("en").add_pipe("bcrf_ner")
    with pytest.raises(ValueError, match=r"\[bcrf_ner\] annotate must be a list of confidence, "):
        ner.annotate = annotate


def test_queries_of_wrong_values_name_what_is_expected() -> None:
    nlp = spacy.blank("en")
    ner: Any = nlp.add_pipe("bcrf_ner")
    ner.add_label("PER")
    nlp.initialize()
    with pytest.raises(ValueError, match="threshold must be a number, got 'a'"):
        ner.entity_candidates([nlp.make_doc("a")], threshold="a")
    for query in ner.token_marginals, ner.entity_candidates, ner.uncertainty:
        with pytest.raises(TypeError, match=r"\[bcrf_ner\] expected documents, got None"):
            query(None)


def test_l1_that_no_gradient_outweighs_is_refused() -> None:
    learner = OnlineLearner(2, 1, OnlineSettings("crf", l1=1000), 1000)
    rows = Rows(np.zeros(1, "int32"), np.arange(2))
    with pytest.raises(ValueError, match="l1 must be less than n_sequences = 1000, got 1000"):
        learner.step(rows, np.ones(1, "int32"), np.zeros(1, "int32"))


def test_missing_tags_are_not_said_to_be_dropped_spans() -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("bcrf_tagger")
    example = spacy.training.Example.from_dict(nlp.make_doc("a b"), {})
    with pytest.raises(ValueError, match="`spacy bcrf convert --tag-column`") as error:
        nlp.initialize(lambda: [example])
    assert "spans" not in str(error.value)


def test_an_error_of_a_setting_survives_another_process():
    with pytest.raises(ValueError, match="scheme must be one of") as found:
        spacy.blank("en").add_pipe("bcrf_ner", config={"scheme": "FOO"})
    assert str(pickle.loads(pickle.dumps(found.value))) == str(found.value)
