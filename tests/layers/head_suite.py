"""What every head must do. A test class of a head derives from HeadSuite and sets `make`."""

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from thinc.api import Adam, Model, NumpyOps

from spacy_bcrf.annotation.schemes import BILUO
from spacy_bcrf.chain import CRF, Inference, Potentials, viterbi
from spacy_bcrf.layers.head import Constraints, resize_head
from spacy_bcrf.layers.sequence_labeler import SequenceLabeler, resize_output

DECODERS = ("viterbi", "argmax", "mbr", "bcrf(5)", "mf(5)")
LABELS = ["A", "B"]
LENGTHS = (3, 0, 1, 6, 2)
WIDTH = 4


def constraints_of(labels):
    return Constraints(BILUO.transitions(labels), BILUO.starts(labels), BILUO.ends(labels))


class HeadSuite:
    make: Callable[..., Model]
    """The registered builder."""

    @pytest.fixture
    def rng(self):
        return np.random.default_rng(0)

    def vectors(self, rng, dtype="float32"):
        return [rng.normal(size=(length, WIDTH)).astype(dtype) for length in LENGTHS]

    def randomized(self, rng, n_tags, scale=1.0, dtype="float32", **options):
        """A head with random parameters."""
        model = type(self).make(nO=n_tags, nI=WIDTH, **options)
        model.initialize()
        for node in model.walk():
            node.ops = NumpyOps(use_blis=dtype == "float32")
            for name in node.param_names:
                value = rng.normal(size=node.get_param(name).shape, scale=scale)
                node.set_param(name, value.astype(dtype))
        return model

    def test_infers_width(self, rng):
        model = type(self).make(nO=3)
        model.initialize(X=self.vectors(rng))
        assert model.get_dim("nI") == WIDTH
        assert model.predict(self.vectors(rng)).unary.shape == (sum(LENGTHS), 3)

    def test_all_documents_empty(self, rng):
        model = self.randomized(rng, 3)
        X = [np.zeros((0, WIDTH), dtype="float32")] * 2
        potentials, backprop = model.begin_update(X)
        assert potentials.unary.shape == (0, 3)
        assert [dx.shape for dx in backprop(potentials)] == [(0, WIDTH)] * 2
        assert model.attrs["decoder"](potentials).shape == (0,)

    def test_batch_equals_one_by_one(self, rng):
        model = self.randomized(rng, 3)
        X = self.vectors(rng)
        whole = model.predict(X).unary
        single = np.concatenate([model.predict([x]).unary for x in X])
        np.testing.assert_allclose(whole, single, rtol=1e-5)

    @pytest.mark.parametrize("constrained", [False, True])
    @pytest.mark.parametrize("partial", [False, True])
    def test_gradient_is_numeric_gradient(self, rng, constrained, partial):
        tags = BILUO.tags(LABELS)
        model = self.randomized(rng, len(tags), scale=0.5, dtype="float64")
        if constrained:
            model.attrs["constraints"] = constraints_of(LABELS)
        X = self.vectors(rng, "float64")
        gold = np.array([0, 1, 3, 8, 1, 2, 3, 0, 0, 4, 5, 7], dtype="int32")
        if partial:
            gold[self.unknown] = -1
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
            numeric = numeric_gradient(loss, values)
            np.testing.assert_allclose(gradient, numeric, atol=self.tolerance, rtol=self.tolerance)

    unknown: ClassVar = [1, 3, 8]
    """Tokens of partial gold that the objective can learn from."""
    tolerance = 1e-6

    def test_forbidden_is_minus_infinity_and_has_no_gradient(self, rng):
        tags = BILUO.tags(LABELS)
        model = self.randomized(rng, len(tags))
        constraints = model.attrs["constraints"] = constraints_of(LABELS)
        potentials, backprop = model.begin_update(self.vectors(rng))
        assert np.isneginf(potentials.transitions[..., ~constraints.transitions]).all()
        assert np.isneginf(potentials.unary[np.ix_(potentials.starts, ~constraints.start)]).all()
        assert np.isneginf(potentials.unary[np.ix_(potentials.ends, ~constraints.end)]).all()
        # Even if an objective should not give zeros there.
        ones = Potentials(
            np.ones_like(potentials.unary), np.ones_like(potentials.transitions), potentials.lengths
        )
        backprop(ones)
        for name, allowed in vars(constraints).items():
            gradient = model.get_grad(name)
            assert not gradient[~allowed].any()
            assert gradient[allowed].any()

    @pytest.mark.parametrize("decoder", DECODERS)
    @given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([0.01, 1.0, 50.0]))
    def test_no_decoder_breaks_constraints(self, decoder, seed, scale):
        rng = np.random.default_rng(seed)
        tags = BILUO.tags(LABELS)
        model = self.randomized(rng, len(tags), scale=scale, decoder=decoder)
        model.attrs["constraints"] = constraints_of(LABELS)
        ids = model.attrs["decoder"](model.predict(self.vectors(rng)))
        assert ids.dtype == np.int32
        BILUO.decode_ids(ids, LENGTHS)  # ValueError for an invalid sequence

    @pytest.mark.parametrize("decoder", DECODERS)
    def test_decoders_obey_a_lattice(self, rng, decoder):
        model = self.randomized(rng, 3, decoder=decoder)
        potentials = model.predict(self.vectors(rng))
        wanted = rng.integers(0, 3, size=len(potentials.unary))
        only = wanted[:, None] == np.arange(3)
        np.testing.assert_array_equal(model.attrs["decoder"](potentials.restrict(only)), wanted)

    def test_learns(self, rng):
        X = self.vectors(rng)
        gold = np.concatenate(X)[:, :3].argmax(axis=1).astype("int32")
        model = type(self).make(nO=3)
        model.initialize(X=X)
        sgd = Adam(0.1)
        for _ in range(100):
            potentials, backprop = model.begin_update(X)
            _, gradient = model.attrs["objective"].loss(potentials, gold)
            backprop(gradient)
            model.finish_update(sgd)
        np.testing.assert_array_equal(model.attrs["decoder"](model.predict(X)), gold)

    def test_bytes_round_trip(self, rng):
        model = self.randomized(rng, 3)
        model.attrs["tags"] = ["X", "Y", "Z"]
        # What is not learned comes from the config, not from the file.
        loaded = type(self).make(decoder="mbr")
        loaded.from_bytes(model.to_bytes())
        assert loaded.attrs["tags"] == ["X", "Y", "Z"]
        if isinstance(loaded.attrs["objective"], Inference):
            assert loaded.attrs["decoder"].inference is loaded.attrs["objective"]
        else:
            assert loaded.attrs["decoder"].inference == CRF()
        X = self.vectors(rng)
        found, expected = loaded.predict(X), model.predict(X)
        np.testing.assert_array_equal(found.unary, expected.unary)
        np.testing.assert_array_equal(found.transitions, expected.transitions)

    def test_copy_is_independent(self, rng):
        model = self.randomized(rng, 3)
        X = self.vectors(rng)
        before = model.predict(X)
        copy = model.copy()
        copy.set_param("b", copy.get_param("b") + 1)
        np.testing.assert_array_equal(model.predict(X).unary, before.unary)

    def test_resize_keeps_what_was_learned(self, rng):
        head = self.randomized(rng, 3)
        identity = list_identity()
        model = SequenceLabeler(identity, head)
        X = self.vectors(rng)
        before = model.predict(X)
        decoded = head.attrs["decoder"](before)
        resize_output(model, 5)
        assert model.get_ref("output_layer") is model.layers[1]
        assert model.get_ref("output_layer").get_dim("nO") == model.get_dim("nO") == 5
        after = model.predict(X)
        np.testing.assert_allclose(after.unary[:, :3], before.unary, rtol=1e-5)
        np.testing.assert_array_equal(after.transitions[..., :3, :3], before.transitions)
        np.testing.assert_array_equal(head.attrs["decoder"](after), decoded)

    @given(seed=st.integers(0, 2**32 - 1), labels=st.sampled_from(["C", "CD"]))
    def test_new_labels_do_not_take_over(self, seed, labels):
        rng = np.random.default_rng(seed)
        head = self.randomized(rng, 9)
        model = SequenceLabeler(list_identity(), head)
        X = self.vectors(rng)
        head.attrs["constraints"] = constraints_of(LABELS)
        _, before = viterbi(model.predict(X))
        n_tags = 9 + 4 * len(labels)
        resize_output(model, n_tags, tags_per_label=4)
        model.get_ref("output_layer").attrs["constraints"] = constraints_of([*LABELS, *labels])
        _, after = viterbi(model.predict(X))
        np.testing.assert_allclose(after, before, rtol=1e-5)

    def test_new_tags_start_as_the_mean_of_their_kind(self, rng):
        old = self.randomized(rng, 5)  # O, B-A, I-A, B-B, I-B
        new = resize_head(old, 7, tags_per_label=2)
        for name in old.param_names:
            before = old.get_param(name)
            after = new.get_param(name)[:, :5] if name == "transitions" else new.get_param(name)
            for tag, same_kind in ((5, [1, 3]), (6, [2, 4])):
                mean = before[same_kind].mean(axis=0)
                np.testing.assert_allclose(after[tag], mean, rtol=1e-5)
        before, after = (head.get_param("transitions") for head in (old, new))
        np.testing.assert_allclose(after[5, 6], (before[1, 2] + before[3, 4]) / 2, rtol=1e-5)

    def test_resized_head_goes_on_training(self, rng):
        head = self.randomized(rng, 3)
        model = SequenceLabeler(list_identity(), head)
        X = self.vectors(rng)
        sgd = Adam(0.1)
        for n_tags in (3, 4, 4):
            resize_output(model, n_tags)
            potentials, backprop = model.begin_update(X)
            gold = np.full(len(potentials.unary), n_tags - 1, dtype="int32")
            _, gradient = head.attrs["objective"].loss(potentials, gold)
            backprop(gradient)
            model.finish_update(sgd)

    def test_resize_before_initialize(self, rng):
        model = SequenceLabeler(list_identity(), type(self).make())
        for n_tags in (2, 4):
            resize_output(model, n_tags)
        model.initialize(X=self.vectors(rng))
        assert model.predict(self.vectors(rng)).unary.shape == (sum(LENGTHS), 4)

    def test_resize_refuses_to_forget(self, rng):
        model = SequenceLabeler(list_identity(), self.randomized(rng, 3))
        with pytest.raises(ValueError, match="3 tags cannot be cut down to 2"):
            resize_output(model, 2)

    def test_unknown_decoder_is_refused(self):
        for name in ("greedy", "bcrf", "mf(0)"):
            with pytest.raises(ValueError, match=r"unknown decoder .*viterbi, argmax, mbr, bcrf"):
                type(self).make(decoder=name)


def list_identity() -> Model:
    return Model("identity", lambda model, X, is_train: (X, lambda dX: dX))


def numeric_gradient(function, values, step=1e-5):
    gradient = np.zeros_like(values)
    for at in np.ndindex(values.shape):
        value = values[at]
        values[at] = value + step
        above = function()
        values[at] = value - step
        gradient[at] = (above - function()) / (2 * step)
        values[at] = value
    return gradient
