"""Sums of potentials: `spacy-bcrf.Sum.v1` and `spacy-bcrf.Hybrid.v1`."""

import numpy as np
import pytest
from spacy.lang.xx import MultiLanguage
from spacy.ml.models.tok2vec import build_hash_embed_cnn_tok2vec
from spacy.util import fix_random_seed

from bcrf.chain import Constraints
from spacy_bcrf.layers.heads import CRF
from spacy_bcrf.layers.hybrid import Hybrid
from spacy_bcrf.layers.linear_chain import LinearChain, sparse_chain
from spacy_bcrf.layers.network import LabelingNetwork
from spacy_bcrf.layers.potential_sum import Sum, weight_gradients
from spacy_bcrf.layers.protocol import get_hooks

T = 3


@pytest.fixture(scope="module")
def docs():
    nlp = MultiLanguage()
    return [nlp.make_doc(text) for text in ("a b a c", "", "b", "c c a")]


def encoder():
    return build_hash_embed_cnn_tok2vec(
        width=4,
        depth=1,
        embed_size=20,
        window_size=1,
        maxout_pieces=2,
        subword_features=False,
        pretrained_vectors=None,
    )


def neural(**options):
    return LabelingNetwork(encoder(), CRF(**options))


def linear(**options):
    return LinearChain(["w[-1..0]"], objective="crf", averaged=False, **options)


def ready(model, docs, seed=0):
    """Initialize a model with T tags and random weights."""
    fix_random_seed(seed)
    rng = np.random.default_rng(seed)
    get_hooks(model).resize(model, T, 1)
    model.initialize(X=docs)
    for node in model.walk():
        for name in node.param_names:
            if node.name == "crf":
                node.set_param(name, rng.normal(size=node.get_param(name).shape).astype("f"))
        if "chain" in node.attrs:
            learner = node.attrs["chain"].learner
            weights = np.zeros_like(learner.weights)
            weights[:, :T] = rng.normal(size=(len(weights), T))
            learner.weights = weights
    return model


def gold(docs):
    return np.arange(sum(map(len, docs)), dtype="int32") % T


@pytest.mark.parametrize("transitions", ["shared", "pairwise"])
def test_potentials_are_the_weighted_sum_of_the_parts(docs, transitions):
    parts = {"neural": neural(transitions=transitions), "sparse": linear()}
    model = ready(Sum(parts, {"sparse": -0.5, "neural": 2.0}), docs)
    total = model.predict(docs)
    one, other = (part.predict(docs) for part in parts.values())
    np.testing.assert_allclose(total.unary, 2 * one.unary - 0.5 * other.unary, rtol=1e-5)
    expected = 2 * one.transitions - 0.5 * other.transitions
    np.testing.assert_allclose(total.transitions, expected, rtol=1e-5)
    assert np.abs(other.unary).min() > 0 and total.transitions.shape == one.transitions.shape


def test_a_second_order_part_has_the_constraints_of_the_sum(docs):
    """Its potentials depend on them. The potentials of other parts do not."""
    allowed = np.ones((T, T), dtype=bool)
    allowed[0, 2] = allowed[2, 2] = False
    constraints = Constraints(allowed, np.array([True, False, True]), np.array([True, True, False]))
    part = linear(order=2)
    inner = Sum({"a": part}, {"a": 1.0})
    model = ready(Sum({"inner": inner, "b": linear()}, {"inner": 1.0, "b": 0.0}), docs)
    part.attrs["constraints"] = constraints
    alone = part.predict(docs)
    model.attrs["constraints"] = constraints
    for _ in range(2):
        found = model.predict(docs)
        np.testing.assert_array_equal(found.unary, alone.unary)
        np.testing.assert_array_equal(found.transitions[0], alone.transitions[0])
    assert np.isinf(found.unary).any() and np.isinf(found.transitions).any()
    model.attrs["constraints"] = None
    assert np.isfinite(model.predict(docs).unary).all()


@pytest.mark.parametrize("transitions", ["shared", "pairwise"])
def test_the_gradient_of_a_weight_is_a_finite_difference(docs, transitions):
    parts = {"neural": neural(transitions=transitions), "sparse": linear()}
    weights = {"neural": 0.7, "sparse": 1.3}
    model = ready(Sum(parts, weights), docs)
    objective = model.attrs["objective"]

    def loss(step, k):
        moved = dict(weights)
        moved[list(weights)[k]] += step
        model.attrs["part_weights"].weights[:] = moved.values()
        return objective.loss(model.predict(docs).astype("float64"), gold(docs))

    _, gradient = loss(0, 0)
    found = weight_gradients(gradient, [part.predict(docs) for part in parts.values()])
    for k in range(2):
        difference = (loss(1e-3, k)[0].sum() - loss(-1e-3, k)[0].sum()) / 2e-3
        assert found[k] == pytest.approx(difference, rel=1e-3)


def test_the_gradients_of_both_parts_are_finite_differences(docs):
    """The weights of a feature of one token make AdaGrad's first step."""
    head = CRF()
    options = {"sparse_weight": "learned", "feature_dropout": 0, "rate": 1e-3}
    model = Hybrid(encoder(), head, ["w[-1]|w[0]"], **options)
    ready(model, docs)
    objective, sparse = model.attrs["objective"], sparse_chain(model)

    def loss():
        return float(objective.loss(model.predict(docs).astype("float64"), gold(docs))[0].sum())

    def difference(values, at, write):
        found = []
        for step in (1e-2, -1e-2):
            moved = values.copy()
            moved[at] += step
            write(moved)
            found.append(loss())
        write(values)
        return (found[0] - found[1]) / 2e-2

    head = model.layers[0].get_ref("output_layer")
    before = sparse.learner.weights.copy()
    in_head = difference(head.get_param("b").copy(), 1, lambda v: head.set_param("b", v))
    weights = model.get_param("weights").copy()
    in_weight = difference(weights, 1, lambda v: model.set_param("weights", v))
    rows = sparse.rows([docs[0]])
    row = T + 3 + int(rows.rows[rows.starts[3]])  # "a c" occurs once

    def write(weights):
        sparse.learner.weights = weights

    in_features = [difference(before, (row, t), write) for t in range(T)]
    potentials, backprop = model.begin_update(docs)
    backprop(objective.loss(potentials, gold(docs))[1])
    assert head.get_grad("b")[1] == pytest.approx(in_head, rel=1e-2)
    assert model.get_grad("weights")[1] == pytest.approx(in_weight, rel=1e-2)
    moved = (sparse.learner.weights - before)[row, :T]
    g = np.array(in_features)
    np.testing.assert_allclose(moved, -1e-3 * g / np.sqrt(1 + g**2), rtol=0.02, atol=1e-7)


def test_feature_dropout_keeps_the_expected_potentials(docs):
    model = ready(Hybrid(encoder(), CRF(), ["w[-1..1]"], feature_dropout=0.5), docs)
    expected = model.predict(docs).unary
    np.random.seed(0)
    # Dropout draws for each token, so one batch has many samples of the same documents.
    drawn = np.concatenate(
        [model.begin_update(docs * 100)[0].unary.reshape(100, *expected.shape) for _ in range(20)]
    )
    assert drawn.std(axis=0).min() > 0.05
    np.testing.assert_allclose(drawn.mean(axis=0), expected, atol=0.2)


def test_invalid_parts_and_options_are_refused(docs):
    with pytest.raises(ValueError, match="at least one part"):
        Sum({}, {})
    with pytest.raises(ValueError, match="parts are a, but the weights are of b"):
        Sum({"a": linear()}, {"b": 1.0})
    with pytest.raises(ValueError, match=r"has no potentials: use one of .*Hybrid\.v1"):
        Sum({"a": encoder()}, {"a": 1.0})
    with pytest.raises(ValueError, match=r"feature_dropout must be .* got 1\.0"):
        Hybrid(encoder(), CRF(), ["w[0]"], feature_dropout=1.0)
    with pytest.raises(ValueError, match="weight of the part a must be finite, got nan"):
        Sum({"a": linear()}, {"a": float("nan")})
    with pytest.raises(ValueError, match="sparse_weight must be finite, got inf"):
        Hybrid(encoder(), CRF(), ["w[0]"], sparse_weight=float("inf"))
    with pytest.raises(ValueError, match="a prediction has no gradient"):
        model = ready(linear(), docs)
        potentials, backprop = model(docs, is_train=False)
        backprop(potentials)


def test_a_part_with_l1_cannot_learn_from_gradients(docs):
    part = LinearChain(["w[0]"], objective="crf", l1=0.1)
    model = ready(Sum({"a": part}, {"a": 1.0}), docs)
    model.predict(docs)
    with pytest.raises(ValueError, match="set l1 = 0"):
        model.begin_update(docs)


def test_the_gradient_of_a_part_has_its_weight(docs):
    part = neural()
    model = ready(Sum({"a": part}, {"a": 2.0}), docs)
    potentials, backprop = model.begin_update(docs)
    _, gradient = model.attrs["objective"].loss(potentials, gold(docs))
    backprop(gradient)
    found = part.get_ref("output_layer").get_grad("b")
    np.testing.assert_allclose(found, 2 * gradient.unary.sum(axis=0), rtol=1e-4, atol=1e-5)
