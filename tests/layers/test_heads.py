import tracemalloc
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
from head_suite import LENGTHS, WIDTH, HeadSuite
from spacy import registry

from spacy_bcrf.chain import Potentials, viterbi
from spacy_bcrf.layers.bregman import BCRF
from spacy_bcrf.layers.crf import CRF
from spacy_bcrf.layers.head import resize_head
from spacy_bcrf.layers.mean_field import MeanField
from spacy_bcrf.layers.mira import MIRA
from spacy_bcrf.layers.perceptron import Perceptron
from spacy_bcrf.layers.sapo import SAPO
from spacy_bcrf.layers.unstructured import Unstructured

HEADS = ("BCRF", "CRF", "MeanField", "Unstructured", "SAPO", "Perceptron", "MIRA")


class TestCRF(HeadSuite):
    make = staticmethod(CRF)


class TestBCRF(HeadSuite):
    make = staticmethod(BCRF)

    def randomized(self, rng, n_tags, dtype="float32", **options):
        # Only at convergence is the difference of marginals the gradient of the reported loss.
        if dtype == "float64":
            options |= {"n_iter": 3000, "relaxation": 1.0}
        return super().randomized(rng, n_tags, dtype=dtype, **options)


class TestMeanField(HeadSuite):
    make = staticmethod(MeanField)
    # Whole documents: it cannot learn from parts.
    unknown: ClassVar = [0, 1, 2]


class TestUnstructured(HeadSuite):
    make = staticmethod(Unstructured)


class TestSAPO(HeadSuite):
    make = staticmethod(SAPO)


class TestPerceptron(HeadSuite):
    make = staticmethod(Perceptron)


class TestMIRA(HeadSuite):
    make = staticmethod(MIRA)


class TestNBestMIRA(HeadSuite):
    make = staticmethod(partial(MIRA, n=5))


class PairwiseSuite:
    """What is more to a head whose transitions depend on the tokens."""

    def test_starts_with_the_same_transitions_everywhere(self, rng):
        model = type(self).make(nO=3)
        model.initialize(X=self.vectors(rng))
        model.set_param("transitions", rng.normal(size=(3, 3)).astype("float32"))
        potentials = model.predict(self.vectors(rng))
        shared = model.attrs["scale"] * model.get_param("transitions")
        expected = np.broadcast_to(shared, (sum(LENGTHS), 3, 3))
        np.testing.assert_array_equal(potentials.transitions, expected)

    def test_an_edge_is_scored_by_its_two_tokens(self, rng):
        model = self.randomized(rng, 3)
        X = self.vectors(rng)
        W, b, V = (model.layers[0].get_param(name) for name in ("W", "b", "V"))
        potentials = model.predict(X)
        flat = np.concatenate(X)
        for i in potentials.inner_edges:
            hidden = np.tanh(W[0] @ flat[i] + W[1] @ flat[i + 1] + b)
            expected = model.attrs["scale"] * (model.get_param("transitions") + V @ hidden)
            np.testing.assert_allclose(potentials.transitions[i], expected, rtol=1e-4, atol=1e-5)

    def test_last_tokens_have_no_edge_to_learn_from(self, rng):
        model = self.randomized(rng, 3)
        potentials = model.predict(self.vectors(rng))
        gold = rng.integers(0, 3, len(potentials.unary)).astype("int32")
        _, gradient = model.attrs["objective"].loss(potentials, gold)
        assert not gradient.transitions[gradient.ends].any()

    def test_no_copy_of_the_scores_is_made(self, rng):
        model = self.randomized(rng, 20)
        X = [rng.normal(size=(1000, WIDTH)).astype("float32")]
        tracemalloc.start()
        potentials = model.predict(X)
        viterbi(potentials)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # Viterbi's tables are (N, T).
        assert peak < 1.5 * potentials.transitions.nbytes


for suite in [value for name, value in list(globals().items()) if name.startswith("Test")]:
    make = partial(suite.make, transitions="pairwise", transition_width=3)
    name = f"{suite.__name__}Pairwise"
    globals()[name] = type(name, (PairwiseSuite, suite), {"make": staticmethod(make)})


@pytest.mark.parametrize(
    "head, option, value, message",
    [
        ("BCRF", "n_iter", 0, "n_iter must be at least 1"),
        ("BCRF", "relaxation", 2.0, r'relaxation must be in \[1, 2\) or "auto"'),
        ("BCRF", "tolerance", -0.1, "tolerance must be None or at least 0"),
        ("BCRF", "inverse_temperature", 0.0, "inverse_temperature must be positive"),
        ("BCRF", "scale", 0.0, "scale must be positive and finite, got 0"),
        ("BCRF", "scale", "inf", "scale must be positive and finite, got inf"),
        ("BCRF", "scale", "nan", "scale must be positive and finite, got nan"),
        ("BCRF", "decoder", "beam", "unknown decoder 'beam'; expected one of viterbi, argmax, mbr"),
        ("MeanField", "n_iter", 0, "n_iter must be at least 1"),
        ("SAPO", "n", 0, "n must be at least 1, got 0"),
        ("SAPO", "beam_width", 4, "beam_width must be at least n = 5, got 4"),
        ("SAPO", "search", "dfs", "search"),
        ("MIRA", "n", -1, "n must be at least 1, got -1"),
        ("MIRA", "aggressiveness", 0.0, "aggressiveness must be positive and finite, got 0"),
        *((head, "transitions", "each", "transitions") for head in HEADS),
        *((head, "transition_width", 0, "transition_width must be at least 1") for head in HEADS),
    ],
)
def test_bad_options_are_refused_when_the_config_is_read(head, option, value, message):
    search = {"search": "beam"} if option == "beam_width" else {}
    config = {"head": {"@layers": f"spacy-bcrf.{head}.v1", option: value, **search}}
    with pytest.raises(ValueError, match=message):
        registry.resolve(config)


def test_misspelled_option_is_refused():
    config = {"head": {"@layers": "spacy-bcrf.BCRF.v1", "iterations": 3}}
    with pytest.raises(ValueError, match="iterations"):
        registry.resolve(config)


def test_options_reach_the_objective():
    model = BCRF(n_iter=3, relaxation="auto", tolerance=0.1, inverse_temperature=5.0)
    objective = model.attrs["objective"]
    assert (objective.n_iter, objective.relaxation) == (3, "auto")
    assert (objective.tolerance, objective.inverse_temperature) == (0.1, 5.0)


def test_a_bregman_crf_without_transitions_is_as_sharp_as_a_crf():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(9, WIDTH)).astype("float32")]
    W = rng.normal(size=(4, WIDTH)).astype("float32")
    inner = []
    for head in (BCRF(4, WIDTH, n_iter=100), CRF(4, WIDTH)):
        head.initialize()
        head.set_param("W", W)
        inner.append(head.attrs["objective"].marginals(head.predict(X)).unary[1:-1])
    np.testing.assert_allclose(*inner, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("how", ["saved", "resized"])
def test_what_scale_was_trained_with_stays_with_the_parameters(how):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(5, WIDTH)).astype("float32")]
    trained = BCRF(nO=3, nI=WIDTH, scale=3.0)
    trained.initialize()
    trained.set_param("W", rng.normal(size=(3, WIDTH)).astype("float32"))
    if how == "saved":
        other = BCRF(nO=3, nI=WIDTH).from_bytes(trained.to_bytes())
    else:
        other = resize_head(trained, 4)
    np.testing.assert_array_equal(other.predict(X).unary[:, :3], trained.predict(X).unary)


def test_minimum_bayes_risk_takes_the_likeliest_tag_of_each_token():
    # The best labeling is 1 1, but 0 is likelier first: 0 0 and 0 1 share its probability.
    unary = np.log(np.array([[0.55, 0.45], [0.5, 0.5]], dtype="float32"))
    transitions = np.log(np.array([[0.5, 0.5], [0.05, 0.95]], dtype="float32"))
    potentials = Potentials(unary, transitions, np.array([2], dtype="int32"))
    assert CRF(decoder="viterbi").attrs["decoder"](potentials).tolist() == [1, 1]
    assert CRF(decoder="mbr").attrs["decoder"](potentials).tolist() == [0, 1]
