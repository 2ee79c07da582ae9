"""Decoders of every head."""

import numpy as np
import pytest
from head_cases import LABELS, LENGTHS, biluo_constraints, each_head, each_pair, random_vectors
from hypothesis import given
from hypothesis import strategies as st

from bcrf.chain import Potentials
from bcrf.schemes import BILUO
from spacy_bcrf.layers.heads import CRF

DECODERS = ("viterbi", "argmax", "mbr", "bcrf(5)", "mf(5)")


@each_pair(decoder=DECODERS)
@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([0.01, 1.0, 50.0]))
def test_a_decoder_obeys_the_constraints(head, decoder, seed, scale):
    rng = np.random.default_rng(seed)
    model = head.randomize(rng, len(BILUO.tags(LABELS)), scale=scale, decoder=decoder)
    model.attrs["constraints"] = biluo_constraints(LABELS)
    ids = model.attrs["decoder"].decode(model.predict(random_vectors(rng)))
    assert ids.dtype == np.int32
    BILUO.decode_ids(ids, LENGTHS)  # raises ValueError for an invalid sequence


@each_pair(decoder=DECODERS)
def test_a_decoder_obeys_a_lattice(head, decoder, rng):
    model = head.randomize(rng, 3, decoder=decoder)
    potentials = model.predict(random_vectors(rng))
    wanted = rng.integers(0, 3, size=len(potentials.unary))
    only = wanted[:, None] == np.arange(3)
    np.testing.assert_array_equal(model.attrs["decoder"].decode(potentials.restrict(only)), wanted)


@each_head("pairwise", "shared")
def test_an_unknown_decoder_is_refused(head):
    for name in ("greedy", "bcrf", "mf(0)"):
        with pytest.raises(ValueError, match=r"unknown decoder .*viterbi, argmax, mbr, bcrf"):
            head.build(decoder=name)


def test_minimum_bayes_risk_maximizes_the_marginal_of_each_token():
    # The best labeling is 1 1, but 0 is the likelier first tag: 0 0 and 0 1 share its probability.
    unary = np.log(np.array([[0.55, 0.45], [0.5, 0.5]], dtype="float32"))
    transitions = np.log(np.array([[0.5, 0.5], [0.05, 0.95]], dtype="float32"))
    potentials = Potentials(unary, transitions, np.array([2], dtype="int32"))
    assert CRF(decoder="viterbi").attrs["decoder"].decode(potentials).tolist() == [1, 1]
    assert CRF(decoder="mbr").attrs["decoder"].decode(potentials).tolist() == [0, 1]
