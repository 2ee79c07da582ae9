"""Properties of every head: forward pass, gradient, training, serialization and options."""

import numpy as np
import pytest
from head_cases import (
    BUILDERS,
    LABELS,
    LENGTHS,
    WIDTH,
    biluo_constraints,
    each_head,
    each_pair,
    random_vectors,
)
from spacy import registry
from srsly import msgpack_loads
from thinc.api import Adam

from bcrf import chain
from bcrf.chain import Inference, Potentials
from bcrf.schemes import BILUO
from spacy_bcrf.layers.head import resize_head
from spacy_bcrf.layers.heads import BCRF, CRF

BILUO_TAGS = BILUO.tags(LABELS)
REGISTERED = ("BCRF", "CRF", "MeanField", "Unstructured", "SAPO", "Perceptron", "MIRA")
# The difference of marginals is the gradient of the reported loss only at convergence.
CONVERGED = {"BCRF": {"n_iter": 3000, "relaxation": 1.0, "tolerance": 1e-12}}
# Mean field learns from complete documents only.
UNKNOWN_TOKENS = {"MeanField": [0, 1, 2]}


@each_head("shared", "pairwise")
def test_initialize_infers_the_width(head, rng):
    model = head.build(nO=3)
    model.initialize(X=random_vectors(rng))
    assert model.get_dim("nI") == WIDTH
    assert model.predict(random_vectors(rng)).unary.shape == (sum(LENGTHS), 3)


@each_head("pairwise", "shared")
def test_a_batch_of_empty_documents(head, rng):
    model = head.randomize(rng, 3)
    X = [np.zeros((0, WIDTH), dtype="float32")] * 2
    potentials, backprop = model.begin_update(X)
    assert potentials.unary.shape == (0, 3)
    assert [dx.shape for dx in backprop(potentials)] == [(0, WIDTH)] * 2
    assert model.attrs["decoder"].decode(potentials).shape == (0,)


@each_head("shared", "pairwise")
def test_potentials_do_not_depend_on_the_batch(head, rng):
    model = head.randomize(rng, 3)
    X = random_vectors(rng)
    batched = model.predict(X).unary
    single = np.concatenate([model.predict([x]).unary for x in X])
    np.testing.assert_allclose(batched, single, rtol=1e-5)


@each_pair(constrained=[False, True], partial=[False, True])
def test_gradient_equals_the_numeric_gradient(head, constrained, partial, rng):
    n_tags = len(BILUO_TAGS)
    options = CONVERGED.get(head.name, {})
    model = head.randomize(rng, n_tags, scale=0.5, dtype="float64", **options)
    if constrained:
        model.attrs["constraints"] = biluo_constraints(LABELS)
    X = random_vectors(rng, "float64")
    gold = np.array([0, 1, 3, 8, 1, 2, 3, 0, 0, 4, 5, 7], dtype="int32")
    if partial:
        gold[UNKNOWN_TOKENS.get(head.name, [1, 3, 8])] = -1
    objective = model.attrs["objective"]

    def loss():
        return float(objective.loss(model.predict(X), gold)[0].sum())

    potentials, backprop = model.begin_update(X)
    dX = backprop(objective.loss(potentials, gold)[1])
    learned = [(node, name) for node in model.walk() for name in node.param_names]
    for values, gradient in [
        *((node.get_param(name), node.get_grad(name)) for node, name in learned),
        *zip(X, dX, strict=True),
    ]:
        assert gradient.shape == values.shape
        for direction in rng.normal(size=(3, *values.shape)):
            slope = numeric_slope(loss, values, direction)
            assert (gradient * direction).sum() == pytest.approx(slope, abs=1e-6, rel=1e-6)


def numeric_slope(function, values, direction, step=1e-5):
    """Return the slope of a function of `values` in a direction, by central differences."""
    before = values.copy()
    values += step * direction
    above = function()
    values -= 2 * step * direction
    slope = (above - function()) / (2 * step)
    values[...] = before
    return slope


@each_head("pairwise", "shared")
def test_forbidden_potentials_are_minus_infinity_without_gradient(head, rng):
    model = head.randomize(rng, len(BILUO_TAGS))
    constraints = model.attrs["constraints"] = biluo_constraints(LABELS)
    potentials, backprop = model.begin_update(random_vectors(rng))
    assert np.isneginf(potentials.transitions[..., ~constraints.transitions]).all()
    assert np.isneginf(potentials.unary[np.ix_(potentials.starts, ~constraints.start)]).all()
    assert np.isneginf(potentials.unary[np.ix_(potentials.ends, ~constraints.end)]).all()
    # The head masks the gradient even if an objective does not.
    ones = Potentials(
        np.ones_like(potentials.unary), np.ones_like(potentials.transitions), potentials.lengths
    )
    backprop(ones)
    for name, allowed in vars(constraints).items():
        gradient = model.get_grad(name)
        assert not gradient[~allowed].any()
        assert gradient[allowed].any()


@each_head("shared", "pairwise")
def test_training_fits_the_gold_tags(head, rng):
    X = random_vectors(rng)
    gold = np.concatenate(X)[:, :3].argmax(axis=1).astype("int32")
    model = head.build(nO=3)
    model.initialize(X=X)
    sgd = Adam(0.1)
    for _ in range(100):
        potentials, backprop = model.begin_update(X)
        _, gradient = model.attrs["objective"].loss(potentials, gold)
        backprop(gradient)
        model.finish_update(sgd)
    np.testing.assert_array_equal(model.attrs["decoder"].decode(model.predict(X)), gold)


@each_head("pairwise", "shared")
def test_bytes_round_trip(head, rng):
    model = head.randomize(rng, 3)
    model.attrs["tags"] = ["X", "Y", "Z"]
    # The config sets the decoder, and the file sets tags and parameters.
    loaded = head.build(decoder="mbr")
    loaded.from_bytes(model.to_bytes())
    assert loaded.attrs["tags"] == ["X", "Y", "Z"]
    if isinstance(loaded.attrs["objective"], Inference):
        assert loaded.attrs["decoder"].decode.args[0] is loaded.attrs["objective"]
    else:
        assert loaded.attrs["decoder"].decode.args[0] == chain.CRF()
    X = random_vectors(rng)
    found, expected = loaded.predict(X), model.predict(X)
    np.testing.assert_array_equal(found.unary, expected.unary)
    np.testing.assert_array_equal(found.transitions, expected.transitions)


@each_head("shared", "pairwise")
def test_a_copy_is_independent(head, rng):
    model = head.randomize(rng, 3)
    X = random_vectors(rng)
    before = model.predict(X)
    copy = model.copy()
    copy.set_param("b", copy.get_param("b") + 1)
    np.testing.assert_array_equal(model.predict(X).unary, before.unary)


@pytest.mark.parametrize(
    "head, option, value, message",
    [
        ("BCRF", "n_iter", 0, "n_iter must be at least 1"),
        ("BCRF", "relaxation", 2.0, r'relaxation must be in \[1, 2\) or "auto"'),
        ("BCRF", "tolerance", -0.1, "tolerance must be at least 0, got -0.1"),
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
        *((head, "transitions", "each", "transitions") for head in REGISTERED),
        *(
            (head, "transition_width", 0, "transition_width must be at least 1")
            for head in REGISTERED
        ),
        *((head, "hidden_width", -1, "hidden_width must be 0 .* got -1") for head in REGISTERED),
    ],
)
def test_a_config_with_an_option_out_of_range_is_refused(head, option, value, message):
    search = {"search": "beam"} if option == "beam_width" else {}
    config = {"head": {"@layers": f"spacy-bcrf.{head}.v1", option: value, **search}}
    with pytest.raises(ValueError, match=message):
        registry.resolve(config)


def test_a_hidden_layer_scores_tags(rng):
    model = CRF(3, WIDTH, hidden_width=5)
    model.initialize()
    assert not model.predict(random_vectors(rng)).unary.any()  # no tag is preferred at first
    (hidden,) = model.layers
    W, b = rng.normal(size=(3, 5)).astype("float32"), rng.normal(size=3).astype("float32")
    model.set_param("W", W)
    model.set_param("b", b)
    (x,) = X = [rng.normal(size=(4, WIDTH)).astype("float32")]
    layer = hidden.get_param("W") @ x.T + hidden.get_param("b")[:, None]
    expected = (W @ np.maximum(layer, 0)).T + b
    np.testing.assert_allclose(model.predict(X).unary, expected, rtol=1e-4, atol=1e-5)


def test_a_hidden_layer_learns_what_linear_scores_cannot(rng):
    corners = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype="float32")
    # The exclusive or of two inputs, in sequences of one token.
    X, gold = [corner[None] for corner in corners], np.array([0, 1, 1, 0], dtype="int32")
    correct = {}
    for hidden_width in (0, 16):
        model = CRF(nO=2, hidden_width=hidden_width)
        model.initialize(X=X)
        sgd = Adam(0.1)
        for _ in range(60):
            potentials, backprop = model.begin_update(X)
            backprop(model.attrs["objective"].loss(potentials, gold)[1])
            model.finish_update(sgd)
        correct[hidden_width] = (model.attrs["decoder"].decode(model.predict(X)) == gold).all()
    assert correct == {0: False, 16: True}


def test_without_a_hidden_layer_the_bytes_have_the_nodes_of_earlier_versions():
    model = CRF(3, WIDTH)
    model.initialize()
    (node,) = msgpack_loads(model.to_bytes())["nodes"]
    assert node["name"] == "crf" and node["refs"] == {}


def test_a_config_with_a_misspelled_option_is_refused():
    config = {"head": {"@layers": "spacy-bcrf.BCRF.v1", "iterations": 3}}
    with pytest.raises(ValueError, match="iterations"):
        registry.resolve(config)


@pytest.mark.parametrize(
    "name, options",
    [
        ("CRF", {}),
        (
            "BCRF",
            {"n_iter": 3, "relaxation": "auto", "tolerance": 0.1, "inverse_temperature": 5.0},
        ),
        ("MeanField", {"n_iter": 3}),
        ("Unstructured", {}),
        ("SAPO", {"n": 3, "search": "beam", "beam_width": 7}),
        ("Perceptron", {}),
        ("MIRA", {"n": 3, "aggressiveness": 0.5, "search": "beam", "beam_width": 7}),
    ],
)
def test_options_reach_the_objective(name, options):
    assert BUILDERS[name](**options).attrs["objective"] == getattr(chain, name)(**options)


def test_default_scale_gives_bcrf_the_marginals_of_a_crf_without_transitions(rng):
    X = [rng.normal(size=(9, WIDTH)).astype("float32")]
    W = rng.normal(size=(4, WIDTH)).astype("float32")
    inner = []
    for head in (BCRF(4, WIDTH, n_iter=100), CRF(4, WIDTH)):
        head.initialize()
        head.set_param("W", W)
        inner.append(head.attrs["objective"].marginals(head.predict(X)).unary[1:-1])
    np.testing.assert_allclose(*inner, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("how", ["saved", "resized"])
def test_scale_stays_with_the_parameters(how, rng):
    X = [rng.normal(size=(5, WIDTH)).astype("float32")]
    trained = BCRF(nO=3, nI=WIDTH, scale=3.0)
    trained.initialize()
    trained.set_param("W", rng.normal(size=(3, WIDTH)).astype("float32"))
    if how == "saved":
        other = BCRF(nO=3, nI=WIDTH).from_bytes(trained.to_bytes())
    else:
        other = resize_head(trained, 4)
    np.testing.assert_array_equal(other.predict(X).unary[:, :3], trained.predict(X).unary)
