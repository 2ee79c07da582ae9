"""Adding tags to a head, alone and in a model with an encoder."""

import numpy as np
import pytest
from head_cases import LABELS, LENGTHS, biluo_constraints, each_head, random_vectors
from hypothesis import given
from hypothesis import strategies as st
from thinc.api import Adam, Model

from bcrf.chain import viterbi
from spacy_bcrf.layers.head import resize_head
from spacy_bcrf.layers.network import LabelingNetwork, resize_output


def with_encoder(head: Model) -> Model:
    """Return a model of the head on an encoder that returns its input."""
    identity: Model = Model("identity", lambda model, X, is_train: (X, lambda dX: dX))
    return LabelingNetwork(identity, head)


@each_head("shared", "pairwise")
def test_old_tags_keep_their_potentials(head, rng):
    old = head.randomize(rng, 3)
    model = with_encoder(old)
    X = random_vectors(rng)
    before = model.predict(X)
    decoded = old.attrs["decoder"].decode(before)
    resize_output(model, 5)
    assert model.get_ref("output_layer") is model.layers[1]
    assert model.get_ref("output_layer").get_dim("nO") == model.get_dim("nO") == 5
    after = model.predict(X)
    np.testing.assert_allclose(after.unary[:, :3], before.unary, rtol=1e-5)
    np.testing.assert_array_equal(after.transitions[..., :3, :3], before.transitions)
    np.testing.assert_array_equal(old.attrs["decoder"].decode(after), decoded)


@each_head("pairwise", "shared")
@given(seed=st.integers(0, 2**32 - 1), labels=st.sampled_from(["C", "CD"]))
def test_new_labels_do_not_raise_the_best_score(head, seed, labels):
    rng = np.random.default_rng(seed)
    old = head.randomize(rng, 9)
    model = with_encoder(old)
    X = random_vectors(rng)
    old.attrs["constraints"] = biluo_constraints(LABELS)
    _, before = viterbi(model.predict(X))
    resize_output(model, 9 + 4 * len(labels), tags_per_label=4)
    model.get_ref("output_layer").attrs["constraints"] = biluo_constraints([*LABELS, *labels])
    _, after = viterbi(model.predict(X))
    np.testing.assert_allclose(after, before, rtol=1e-5)


@each_head("shared", "pairwise")
def test_a_new_tag_starts_as_the_mean_of_the_tags_with_its_role(head, rng):
    old = head.randomize(rng, 5)  # O, B-A, I-A, B-B, I-B
    new = resize_head(old, 7, tags_per_label=2)
    for name in old.param_names:
        before = old.get_param(name)
        after = new.get_param(name)[:, :5] if name == "transitions" else new.get_param(name)
        for tag, same_role in ((5, [1, 3]), (6, [2, 4])):
            mean = before[same_role].mean(axis=0)
            np.testing.assert_allclose(after[tag], mean, rtol=1e-5)
    before, after = (model.get_param("transitions") for model in (old, new))
    np.testing.assert_allclose(after[5, 6], (before[1, 2] + before[3, 4]) / 2, rtol=1e-5)


@each_head("pairwise", "shared")
def test_a_resized_head_trains(head, rng):
    old = head.randomize(rng, 3)
    model = with_encoder(old)
    X = random_vectors(rng)
    sgd = Adam(0.1)
    for n_tags in (3, 4, 4):
        resize_output(model, n_tags)
        potentials, backprop = model.begin_update(X)
        gold = np.full(len(potentials.unary), n_tags - 1, dtype="int32")
        _, gradient = old.attrs["objective"].loss(potentials, gold)
        backprop(gradient)
        model.finish_update(sgd)


@each_head("shared", "pairwise")
def test_resize_before_initialize(head, rng):
    model = with_encoder(head.build())
    for n_tags in (2, 4):
        resize_output(model, n_tags)
    model.initialize(X=random_vectors(rng))
    assert model.predict(random_vectors(rng)).unary.shape == (sum(LENGTHS), 4)


@each_head("pairwise", "shared")
def test_fewer_tags_are_refused(head, rng):
    model = with_encoder(head.randomize(rng, 3))
    with pytest.raises(ValueError, match="cannot reduce 3 tags to 2"):
        resize_output(model, 2)
