"""Transition scores for each pair of neighbouring tokens, in every head."""

import tracemalloc

import numpy as np
from head_cases import LENGTHS, WIDTH, each_head, random_vectors

from bcrf.chain import viterbi


@each_head("pairwise")
def test_before_training_all_edges_have_the_shared_scores(head, rng):
    model = head.build(nO=3)
    model.initialize(X=random_vectors(rng))
    model.set_param("transitions", rng.normal(size=(3, 3)).astype("float32"))
    potentials = model.predict(random_vectors(rng))
    shared = model.attrs["scale"] * model.get_param("transitions")
    expected = np.broadcast_to(shared, (sum(LENGTHS), 3, 3))
    np.testing.assert_array_equal(potentials.transitions, expected)


@each_head("pairwise")
def test_scores_of_an_edge_depend_on_its_two_tokens(head, rng):
    model = head.randomize(rng, 3)
    X = random_vectors(rng)
    W, b, V = (model.layers[0].get_param(name) for name in ("W", "b", "V"))
    potentials = model.predict(X)
    flat = np.concatenate(X)
    for i in potentials.inner_edges:
        hidden = np.tanh(W[0] @ flat[i] + W[1] @ flat[i + 1] + b)
        expected = model.attrs["scale"] * (model.get_param("transitions") + V @ hidden)
        np.testing.assert_allclose(potentials.transitions[i], expected, rtol=1e-4, atol=1e-5)


@each_head("pairwise")
def test_the_row_of_a_last_token_has_no_gradient(head, rng):
    model = head.randomize(rng, 3)
    potentials = model.predict(random_vectors(rng))
    gold = rng.integers(0, 3, len(potentials.unary)).astype("int32")
    _, gradient = model.attrs["objective"].loss(potentials, gold)
    assert not gradient.transitions[gradient.ends].any()


@each_head("pairwise")
def test_prediction_does_not_copy_the_scores(head, rng):
    model = head.randomize(rng, 20)
    X = [rng.normal(size=(1000, WIDTH)).astype("float32")]
    tracemalloc.start()
    potentials = model.predict(X)
    viterbi(potentials)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Viterbi's tables have shape (N, T).
    assert peak < 1.5 * potentials.transitions.nbytes
