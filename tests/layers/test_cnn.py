"""The compiled CNN against spaCy's layers, which have the same parameters."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy import registry
from spacy.attrs import IS_SPACE
from spacy.lang.en import English
from spacy.tokens import Doc
from spacy.util import fix_random_seed
from thinc.api import Adam, Ops, set_dropout_rate

from bcrf import kernels
from spacy_bcrf.annotation.arrays import DocBatch
from spacy_bcrf.layers.cnn import MaxoutWindowEncoder, MultiHashEmbed
from spacy_bcrf.layers.compiled import compile_layers, embedded_columns
from spacy_bcrf.layers.compiled.forward import Embedding

VOCAB = English().vocab
WORDS = [chr(97 + i % 26) * (1 + i % 5) + str(i % 7) for i in range(200)]
SMALL = {
    "width": 12,
    "depth": 2,
    "embed_size": 40,
    "window_size": 1,
    "maxout_pieces": 3,
    "subword_features": True,
    "pretrained_vectors": None,
}


def make_docs(*lengths, vocab=None):
    vocab = vocab or VOCAB
    rng = np.random.default_rng(len(lengths))
    return [Doc(vocab, words=rng.choice(WORDS, length).tolist()) for length in lengths]


def with_random_params(model, seed=0):
    """Give all parameters random values, so that biases and gains count."""
    rng = np.random.default_rng(seed)
    for node in model.walk():
        for name in node.param_names:
            if node.has_param(name):
                param = node.get_param(name)
                node.set_param(name, param + 0.2 * rng.normal(size=param.shape).astype("float32"))
    return model


def make_pair(docs, **options):
    """Return spaCy's model and ours, with one set of parameters."""
    options = {**SMALL, **options}
    theirs = registry.architectures.get("spacy.HashEmbedCNN.v2")(**options)
    theirs.initialize(X=docs)
    with_random_params(theirs)
    ours = registry.architectures.get("spacy-bcrf.HashEmbedCNN.v1")(**options)
    ours.initialize(X=docs)
    assert len(compile_layers(ours).compiled) == 2
    return theirs, ours.from_bytes(theirs.to_bytes())


def gradients(model, docs, dys):
    """Return the outputs of a training step, and the gradients by node and parameter."""
    ys, backprop = model.begin_update(docs)
    backprop([dy.copy() for dy in dys])
    found = {}
    for i, node in enumerate(model.walk()):
        for name in node.param_names:
            if node.has_grad(name):
                found[i, name] = node.get_grad(name).copy()
                node.set_grad(name, node.get_grad(name) * 0)
    return ys, found


def relative(a, b):
    return np.abs(a - b).max() / (np.abs(b).max() + 1e-6) if a.size else 0.0


SHAPES = st.fixed_dictionaries(
    {
        # Layer normalization of few numbers amplifies rounding.
        "width": st.integers(5, 40),
        "depth": st.integers(1, 4),
        "window_size": st.integers(1, 3),
        "maxout_pieces": st.integers(2, 3),
        "subword_features": st.booleans(),
    }
)


@given(SHAPES, st.lists(st.integers(0, 9), min_size=1, max_size=5))
@settings(max_examples=15)
def test_equals_spacys_layers(shape, lengths):
    docs = make_docs(*lengths, 4)
    theirs, ours = make_pair(docs, **shape)
    expected = np.concatenate(theirs.predict(docs))
    for _ in range(2):  # the second time, embeddings come from the cache
        predicted = ours.predict(docs)
        assert [len(rows) for rows in predicted] == [len(doc) for doc in docs]
        assert relative(np.concatenate(predicted), expected) < 1e-5
    # Thinc cannot backpropagate through documents without tokens at the end of a batch.
    rng = np.random.default_rng(0)
    dys = [rng.normal(size=(len(doc), shape["width"])).astype("float32") for doc in docs]
    ys, mine = gradients(ours, docs, dys)
    assert relative(np.concatenate(ys), expected) < 1e-5
    _, others = gradients(theirs, docs, dys)
    assert mine.keys() == others.keys()
    for key in others:
        assert mine[key].shape == others[key].shape
        assert relative(mine[key], others[key]) < 1e-4, key


def test_gradients_at_full_width():
    """Of 96 outputs, normalization does not amplify rounding."""
    docs = make_docs(17, 1, 30, 8)
    theirs, ours = make_pair(docs, width=96, depth=4)
    rng = np.random.default_rng(0)
    dys = [rng.normal(size=(len(doc), 96)).astype("float32") for doc in docs]
    (_, mine), (_, others) = gradients(ours, docs, dys), gradients(theirs, docs, dys)
    assert all(relative(mine[key], others[key]) < 1e-5 for key in others)


def test_layers_between_embedding_and_encoder():
    """They may put other arrays into the list of the embeddings."""
    docs = make_docs(6, 2)
    _, ours = make_pair(docs)
    embed, encode = (ours.get_ref(name) for name in ("embed", "encode"))
    rows = embed.predict(docs)
    rows[1] = rows[1] * 2
    copies = [row.copy() for row in rows]
    for found, expected in zip(encode.predict(rows), encode.predict(copies), strict=True):
        assert np.array_equal(found, expected)
    assert len(encode.predict(rows[:1])) == 1


def test_a_batch_is_read_once():
    """The embedding takes the columns of a batch, in place of reading its documents."""
    docs = make_docs(3, 3)
    _, ours = make_pair(docs)
    columns = embedded_columns(ours)
    batch = DocBatch(docs, [IS_SPACE, *columns])
    batch.values = np.concatenate([batch.values[3:], batch.values[:3]])
    swapped = np.concatenate(ours.predict(docs[::-1]))
    assert np.array_equal(np.concatenate(ours.predict(batch)), swapped)
    # It reads them if a column is missing.
    batch = DocBatch(docs, columns[1:])
    batch.values[:] = 0
    assert np.array_equal(np.concatenate(ours.predict(batch)), np.concatenate(ours.predict(docs)))


class OtherOps(Ops):
    """Operations that are not NumpyOps, as on a GPU, over NumPy arrays. calls: their names."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        if callable(found) and not name.startswith("_"):
            self.calls.append(name)
        return found


def test_on_a_gpu_the_layers_of_thinc_run_and_nobody_reads_columns_for_them(monkeypatch):
    docs = make_docs(3, 0, 4)
    theirs, ours = make_pair(docs)
    operations = {}
    for model in (theirs, ours):
        operations[model] = OtherOps()
        for node in model.walk():
            node.ops = operations[model]
    monkeypatch.setattr(kernels.encoder, "DistinctRows", None)
    monkeypatch.setattr(kernels.encoder, "Stack", None)
    assert embedded_columns(ours) == []
    found, expected = ours.predict(docs), theirs.predict(docs)
    for mine, other in zip(found, expected, strict=True):
        assert np.array_equal(mine, other)
    rows, _ = ours.begin_update(docs)
    theirs.begin_update(docs)
    assert len(rows) == 3
    # The same launches.
    assert operations[ours].calls == operations[theirs].calls != []


def test_static_vectors():
    vocab = English().vocab
    for i, word in enumerate(WORDS[::2]):
        vocab.set_vector(word, np.random.default_rng(i).normal(size=7).astype("float32"))
    docs = make_docs(5, 1, 8, vocab=vocab)
    theirs, ours = make_pair(docs, pretrained_vectors=True)
    assert relative(*map(np.concatenate, (ours.predict(docs), theirs.predict(docs)))) < 1e-5
    vocab.set_vector(docs[0][0].text, np.ones(7, "float32"))
    assert relative(*map(np.concatenate, (ours.predict(docs), theirs.predict(docs)))) < 1e-5
    dys = [np.ones((len(doc), SMALL["width"]), "float32") for doc in docs]
    (_, mine), (_, others) = gradients(ours, docs, dys), gradients(theirs, docs, dys)
    assert all(relative(mine[key], others[key]) < 1e-4 for key in others)


def test_spans_are_documents():
    docs = make_docs(9, 6)
    _, ours = make_pair(docs)
    spans = ours.predict([docs[0][2:7], docs[1][:3]])
    copies = ours.predict([docs[0][2:7].as_doc(), docs[1][:3].as_doc()])
    assert all(np.array_equal(a, b) for a, b in zip(spans, copies, strict=True))


def test_outputs_depend_on_neither_batch_nor_threads():
    docs = make_docs(3, 700, 0, 1, 40, 500)
    _, ours = make_pair(docs)
    alone = np.concatenate([ours.predict([doc])[0] for doc in docs if len(doc)])
    dys = [np.full((len(doc), SMALL["width"]), 0.1, "float32") for doc in docs]
    found = []
    try:
        for n in (1, 3):
            kernels.set_threads(n)
            assert np.array_equal(np.concatenate(ours.predict(docs)), alone)
            fix_random_seed(0)
            set_dropout_rate(ours, 0.3)
            found.append(gradients(ours, docs, dys))
    finally:
        kernels.set_threads(None)
    (ys, one), (zs, several) = found
    assert all(np.array_equal(y, z) for y, z in zip(ys, zs, strict=True))
    assert all(np.array_equal(one[key], several[key]) for key in one)


def test_a_long_document():
    docs = make_docs(100_000)
    theirs, ours = make_pair(make_docs(5))
    assert relative(ours.predict(docs)[0], theirs.predict(docs)[0]) < 1e-5


@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_gradient_equals_the_numeric_gradient(rate):
    """With dropout too: a seed repeats the masks."""
    fix_random_seed(0)
    model = MaxoutWindowEncoder(width=5, window_size=1, maxout_pieces=2, depth=2)
    rng = np.random.default_rng(1)
    xs = [rng.normal(size=(n, 5)).astype("float32") for n in (3, 1, 4)]
    model.initialize(X=xs)
    with_random_params(model)
    set_dropout_rate(model, rate)
    dys = [rng.normal(size=x.shape).astype("float32") for x in xs]

    def loss(rows):
        fix_random_seed(3)
        ys, backprop = model.begin_update(rows)
        return sum(float((y * dy).sum()) for y, dy in zip(ys, dys, strict=True)), backprop

    dxs = loss(xs)[1](dys)
    direction = [rng.normal(size=x.shape).astype("float32") for x in xs]
    step = 1e-3
    up, down = (
        loss([x + sign * step * d for x, d in zip(xs, direction, strict=True)])[0]
        for sign in (1, -1)
    )
    slope = sum(float((dx * d).sum()) for dx, d in zip(dxs, direction, strict=True))
    assert slope == pytest.approx((up - down) / (2 * step), rel=0.03, abs=0.03)


def test_dropout_keeps_the_mean():
    model = MaxoutWindowEncoder(width=64, window_size=1, maxout_pieces=3, depth=1)
    x = [np.random.default_rng(0).normal(size=(400, 64)).astype("float32")]
    model.initialize(X=x)
    with_random_params(model)
    kept = model.predict(x)[0] - x[0]
    set_dropout_rate(model, 0.25)
    fix_random_seed(0)
    dropped = model.begin_update(x)[0][0] - x[0]
    zero = dropped == 0
    assert zero.mean() == pytest.approx(0.25, abs=0.01)
    assert np.abs(np.corrcoef(zero.T)[np.triu_indices(64, 1)]).max() < 0.25
    np.testing.assert_allclose(dropped[~zero], kept[~zero] / 0.75, rtol=1e-3, atol=1e-4)
    assert not np.array_equal(model.begin_update(x)[0][0] - x[0] == 0, zero)


def test_training_follows_spacys_curve():
    docs = make_docs(7, 1, 12, 5)
    rng = np.random.default_rng(0)
    target = [rng.normal(size=(len(doc), SMALL["width"])).astype("float32") for doc in docs]
    curves = []
    for model in make_pair(docs):
        sgd, losses = Adam(0.001), []
        for _ in range(50):
            ys, backprop = model.begin_update(docs)
            backprop([(y - t) / 25 for y, t in zip(ys, target, strict=True)])
            model.finish_update(sgd)
            losses.append(
                sum(float(((y - t) ** 2).mean()) for y, t in zip(ys, target, strict=True))
            )
        curves.append(losses)
    np.testing.assert_allclose(curves[1], curves[0], rtol=1e-3)
    assert curves[0][-1] < curves[0][0] / 2


def test_bytes_and_copies():
    docs = make_docs(6, 2)
    theirs, ours = make_pair(docs)
    expected = ours.predict(docs)
    fresh = registry.architectures.get("spacy.HashEmbedCNN.v2")(**SMALL)
    assert relative(fresh.from_bytes(ours.to_bytes()).predict(docs)[0], expected[0]) < 1e-5
    assert ours.to_bytes() == theirs.to_bytes()
    for other in (ours.copy(), pickle.loads(pickle.dumps(ours))):
        assert np.array_equal(other.predict(docs)[0], expected[0])
        with_random_params(other, seed=1)
        assert not np.allclose(other.predict(docs)[0], expected[0])
    assert np.array_equal(ours.predict(docs)[0], expected[0])


@pytest.mark.parametrize("name", ["E", "W", "G", "b"])
def test_changes_in_place_are_noticed(name):
    docs = make_docs(6, 2)
    theirs, ours = make_pair(docs)
    ours.predict(docs)
    for model in (theirs, ours):
        node = next(node for node in model.walk() if node.has_param(name))
        node.get_param(name)[:] *= 1.5
    assert relative(ours.predict(docs)[0], theirs.predict(docs)[0]) < 1e-5


def test_single_changes_by_training_and_by_new_arrays_are_noticed():
    docs = make_docs(6, 2)
    _, ours = make_pair(docs)
    node = next(node for node in ours.walk() if node.has_param("W"))
    before = ours.predict(docs)[0]

    def bump(array):
        array = array.copy()
        array[:, :, 1] += 1
        return array

    original = node.get_param("W")
    node.set_param("W", bump(original))
    changed = ours.predict(docs)[0]
    assert not np.allclose(changed, before)
    node.set_param("W", original)
    assert np.array_equal(ours.predict(docs)[0], before)
    # An optimizer writes into arrays that have a gradient.
    ys, backprop = ours.begin_update(docs)
    backprop(ys)
    node.get_param("W")[:] = bump(original)
    assert np.array_equal(ours.predict(docs)[0], changed)


def test_single_weights_and_failures_are_noticed():
    docs = make_docs(6, 2)
    _, ours = make_pair(docs)
    before = ours.predict(docs)[0]
    node = next(node for node in ours.walk() if node.name == "maxout")
    weights = node.get_param("W")
    weights[1, 1, :] += 5
    changed = ours.predict(docs)[0]
    assert not np.allclose(changed, before)
    node.set_param("W", np.asfortranarray(weights * 2))
    for _ in range(2):
        with pytest.raises(ValueError, match="not C-contiguous"):
            ours.predict(docs)
    node.set_param("W", weights)
    assert np.array_equal(ours.predict(docs)[0], changed)


def test_threads_never_see_old_parameters():
    docs = make_docs(6, 2)
    _, ours = make_pair(docs)
    with ThreadPoolExecutor(4) as pool:
        for seed in range(20):
            old = ours.predict(docs)[0]
            with_random_params(ours, seed=seed)
            found = list(pool.map(lambda _: ours.predict(docs)[0], range(4)))
            assert all(np.array_equal(found[0], other) for other in found)
            assert not np.allclose(found[0], old)


def test_the_cache_is_bounded_and_can_be_off(monkeypatch):
    mixed, mix = [], Embedding._mix

    def count(parts, stack, rows, docs):
        mixed.append(len(rows))
        return mix(parts, stack, rows, docs)

    monkeypatch.setattr(Embedding, "_mix", count)
    docs = make_docs(*[20] * 10)
    outputs = []
    for size in (0, 15, 1000):
        model = MultiHashEmbed(8, ["NORM", "SHAPE"], [50, 20], False, cache_size=size)
        fix_random_seed(0)
        model.initialize(X=docs)
        mixed.clear()
        outputs.append([model.predict([doc])[0] for doc in docs + docs])
        (cache,) = [x.attrs["compiled"].parts.cache for x in model.walk() if "compiled" in x.attrs]
        distinct = len({(token.norm, token.shape) for doc in docs for token in doc})
        if size == 0:
            assert cache is None
        elif size == 15:
            assert cache is None or cache.size <= 15 + 20
            assert sum(mixed) > distinct
        else:
            assert sum(mixed) == cache.size == distinct
    for other in outputs[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(outputs[0], other, strict=True))


def test_layers_that_the_kernels_do_not_cover():
    docs = make_docs(5, 3)
    model = registry.architectures.get("spacy-bcrf.HashEmbedCNN.v1")(**SMALL | {"maxout_pieces": 4})
    model.initialize(X=docs)
    layers = compile_layers(model)
    assert len(layers.compiled) == 1
    assert [reason for _, reason in layers.kept] == ["the kernels have 2 or 3 pieces, not 4"]
    theirs = registry.architectures.get("spacy.HashEmbedCNN.v2")(**SMALL | {"maxout_pieces": 4})
    theirs.initialize(X=docs)
    theirs.from_bytes(model.to_bytes())
    assert relative(model.predict(docs)[0], theirs.predict(docs)[0]) < 1e-5


def test_fingerprints_see_signs():
    from bcrf.kernels.encoder import fingerprint

    x = np.random.default_rng(0).normal(size=(30, 33)).astype("float32")
    pair = x.copy()
    pair.reshape(-1)[[0, 64]] *= -1
    assert len({fingerprint([y]) for y in (x, -x, pair, 2 * x, x[::-1].copy())}) == 5
    many = np.tile(x, (10, 1))
    assert len({fingerprint([y], sample=True) for y in (many, -many, many + 1)}) == 3


def test_a_call_during_a_call_does_not_wait(monkeypatch):
    """A signal handler may call the pipeline while the cache is being filled."""
    docs = make_docs(6, 2)
    _, ours = make_pair(docs)
    expected = ours.predict(docs)
    parts = ours.layers[0].attrs["compiled"].parts
    parts.cache = None
    mix, nested = parts._mix, []

    def interrupted(*args):
        if not nested:
            nested.append(None)
            nested.append(ours.predict(docs))
        return mix(*args)

    monkeypatch.setattr(parts, "_mix", interrupted)
    outer = ours.predict(docs)
    for found in (outer, nested[1], ours.predict(docs)):
        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def test_the_size_of_the_cache_can_change():
    _, ours = make_pair(make_docs(3))
    state = ours.layers[0].attrs["compiled"]
    compile_layers(ours, 0)
    assert state.cache_size == 0
    compile_layers(ours)
    assert state.cache_size == 0
    with pytest.raises(ValueError, match="cache_size must be at least 0, got -1"):
        compile_layers(ours, -1)


def test_weights_that_are_not_numbers():
    docs = make_docs(5)
    _, ours = make_pair(docs)
    node = [node for node in ours.walk() if node.name == "maxout"][1]
    node.get_param("W")[0, 0, 0] = np.nan
    with pytest.raises(ValueError, match=r"W of a maxout layer \(layer 1 of .*\) is not finite"):
        ours.predict(docs)


def test_kernels_refuse_wrong_arrays():
    from bcrf.kernels.encoder import DistinctRows, Stack

    def params(width=4, pieces=3, inputs=12):
        shapes = (width, pieces, inputs), (width, pieces), (width,), (width,)
        return tuple(np.ones(shape, "float32") for shape in shapes)

    with pytest.raises(ValueError, match="2 or 3 pieces, got 4"):
        Stack([params(pieces=4)], window=1, residual=True)
    with pytest.raises(ValueError, match="window of 3 tokens cannot have 13 inputs"):
        Stack([params(inputs=13)], window=1, residual=True)
    with pytest.raises(ValueError, match="must have 12 inputs, got 15"):
        Stack([params(inputs=15)], window=1, residual=True)
    with pytest.raises(ValueError, match="parameters of layer 1"):
        Stack([params(), params()[:2] + params(width=5)[2:]], window=1, residual=True)
    stack = Stack([params()], window=1, residual=True)
    for x, lengths in [((5, 4), [4]), ((5, 3), [5]), ((5, 4), [6, -1]), ((5, 4), [2**31 - 1] * 2)]:
        with pytest.raises(ValueError, match=r"x must have 4 columns|lengths sum to|is negative"):
            stack.predict(np.ones(x, "float32"), np.array(lengths, "int32"))
    _, trace = stack.train(np.ones((5, 4), "float32"), np.array([5], "int32"), [0.0], [1])
    with pytest.raises(ValueError, match=r"dy must have shape \(5, 4\)"):
        stack.backward(trace, np.ones((6, 4), "float32"))
    with pytest.raises(ValueError, match="2 columns"):
        DistinctRows(2).number(np.zeros((3, 1), "uint64"))
