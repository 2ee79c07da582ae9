"""The self-attentive encoder: windows, gradients, dropout, serialization and training."""

import sys

import numpy as np
import pytest
from head_cases import covering
from hypothesis import given
from hypothesis import strategies as st
from spacy import registry
from spacy.lang.en import English
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import fix_random_seed
from thinc.api import Adam, set_dropout_rate

from spacy_bcrf.layers.self_attentive import SelfAttention, SelfAttentiveEncoder

torch = pytest.importorskip("torch", reason="the encoder needs PyTorch, spacy-bcrf[torch]")
torch.set_num_threads(1)

from spacy_bcrf.layers import torch_attention  # noqa: E402

VOCAB = English().vocab
SMALL = {"width": 8, "heads": 2, "feed_forward": 16, "rows": (50, 20, 20, 20)}
POSITIONS = ("learned", "sinusoidal")


def make_docs(*lengths):
    """Return documents with these lengths."""
    words = [chr(ord("a") + i % 26) * (1 + i % 3) for i in range(max(lengths, default=0))]
    return [Doc(VOCAB, words=words[:length]) for length in lengths]


def make(lengths=(5, 3), **options):
    """Return an initialized encoder."""
    fix_random_seed(0)
    model = SelfAttentiveEncoder(**{**SMALL, **options})
    model.initialize(X=make_docs(*lengths))
    return model


def network_of(model):
    """Return the PyTorch module, which Thinc stores in a shim."""
    (shim,) = (shim for node in model.walk() for shim in node.shims)
    return shim._model


BATCHES = [(), (0,), (0, 0), (1,), (3, 0, 7, 1), (40, 2)]


@pytest.mark.parametrize("lengths, depth, positions", covering(BATCHES, [0, 1, 2], POSITIONS))
def test_every_token_has_a_vector(lengths, depth, positions):
    model = make(depth=depth, positions=positions, window=16)
    assert model.get_dim("nO") == 8
    vectors, backprop = model.begin_update(make_docs(*lengths))
    assert [v.shape for v in vectors] == [(length, 8) for length in lengths]
    assert all(v.dtype == np.float32 and np.isfinite(v).all() for v in vectors)
    if any(lengths):  # Thinc's HashEmbed cannot backpropagate an empty batch.
        backprop(vectors)
        model.finish_update(Adam(0.01))


@pytest.mark.parametrize("depth", [0, 2])
def test_vectors_do_not_depend_on_the_batch(depth, monkeypatch):
    docs = make_docs(3, 0, 7, 1, 60, 7, 25)
    model = make(depth=depth, window=16)
    together = model.predict(docs)
    # The small limit forces several padded batches.
    monkeypatch.setattr(torch_attention, "MAX_BATCH_TOKENS", 20)
    for batch in (docs, *([doc] for doc in docs)):
        for doc, vectors in zip(batch, model.predict(batch), strict=True):
            np.testing.assert_allclose(vectors, together[docs.index(doc)], atol=1e-5)


def test_without_layers_vectors_ignore_context():
    docs = [Doc(VOCAB, words=words) for words in (["a", "b", "a"], ["b", "c"])]
    first, second = make(depth=0).predict(docs)
    np.testing.assert_array_equal(first[0], first[2])
    np.testing.assert_array_equal(first[1], second[0])


@pytest.mark.parametrize("positions", POSITIONS)
def test_vectors_depend_on_order_and_context(positions):
    docs = [Doc(VOCAB, words=words) for words in (["a", "b", "a"], ["b", "c"])]
    first, second = make(depth=1, positions=positions).predict(docs)
    assert np.abs(first[0] - first[2]).max() > 1e-3
    assert np.abs(first[1] - second[0]).max() > 1e-3


@given(st.lists(st.integers(0, 60), max_size=5), st.integers(1, 20))
def test_each_token_keeps_one_vector_with_context(lengths, size):
    windows = torch_attention.split_into_windows(lengths, size)
    kept = [token for window in windows for token in range(window.first_kept, window.last_kept)]
    assert kept == list(range(sum(lengths)))
    stops = np.cumsum(lengths).tolist()
    for start, end, keep_start, keep_end in windows:
        assert start <= keep_start < keep_end <= end
        assert end - start <= size
        sequence = int(np.searchsorted(stops, start, side="right"))
        begin, stop = ([0, *stops][sequence], stops[sequence])
        assert begin <= start < end <= stop
        # A quarter of a window is context, except at the ends of the sequence.
        assert keep_start == begin or keep_start - start >= size // 4
        assert keep_end == stop or end - keep_end >= size // 4


@pytest.mark.parametrize("positions", POSITIONS)
def test_a_token_affects_only_its_windows(positions):
    model = make(depth=2, window=16, positions=positions)
    (long,) = make_docs(200)
    words = [token.text for token in long]
    changed = Doc(VOCAB, words=[*words[:100], "zzz", *words[101:]])
    before, after = (model.predict([doc])[0] for doc in (long, changed))
    differs = np.flatnonzero(np.abs(before - after).max(axis=1) > 1e-6)
    assert 100 in differs
    assert differs.min() > 100 - 16 and differs.max() < 100 + 16


def test_gradients_equal_numeric_gradients():
    model = make(depth=2, window=4)
    network = network_of(model).double()
    for node in model.walk():
        for name in node.param_names:
            node.set_param(name, node.get_param(name).astype("float64"))
    docs = make_docs(6, 2)
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(len(doc), 8)) for doc in docs]

    def loss():
        return sum(float((v * w).sum()) for v, w in zip(model.predict(docs), weights, strict=True))

    _, backprop = model.begin_update(docs)
    backprop(weights)
    checks = [(p.detach().numpy(), p.grad.numpy()) for p in network.parameters()]
    for node in model.walk():
        if node.name == "hashembed":
            checks.append((node.get_param("E"), node.get_grad("E")))
    assert len(checks) > 20
    for values, gradient in checks:
        # Check the largest gradient and the first one.
        for at in (np.unravel_index(np.abs(gradient).argmax(), gradient.shape), (0,) * values.ndim):
            value = values[at]
            values[at] = value + 1e-5
            above = loss()
            values[at] = value - 1e-5
            numeric = (above - loss()) / 2e-5
            values[at] = value
            assert gradient[at] == pytest.approx(numeric, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("depth", [0, 1])
def test_dropout_follows_spacy_and_only_in_training(depth):
    model = make(depth=depth)
    docs = make_docs(5, 3)
    calm = np.concatenate(model.predict(docs))
    np.testing.assert_allclose(np.concatenate(model.begin_update(docs)[0]), calm, atol=1e-5)
    set_dropout_rate(model, 0.5)
    noisy = [np.concatenate(model.begin_update(docs)[0]) for _ in range(2)]
    assert np.abs(noisy[0] - noisy[1]).max() > 1e-3
    np.testing.assert_array_equal(np.concatenate(model.predict(docs)), calm)
    if depth:
        rates = [m.p for m in network_of(model).modules() if isinstance(m, torch.nn.Dropout)]
        assert rates and set(rates) == {0.5}


@pytest.mark.parametrize("positions", POSITIONS)
def test_bytes_disk_and_copy_round_trip(positions, tmp_path):
    docs = make_docs(5, 3)
    model = make(depth=1, positions=positions)
    expected = np.concatenate(model.predict(docs))
    model.to_disk(tmp_path / "model")
    fix_random_seed(1)
    options = {**SMALL, "depth": 1, "positions": positions}
    for loaded in (
        SelfAttentiveEncoder(**options).from_bytes(model.to_bytes()),
        SelfAttentiveEncoder(**options).from_disk(tmp_path / "model"),
        model.copy(),
    ):
        np.testing.assert_array_equal(np.concatenate(loaded.predict(docs)), expected)


def test_memory_is_linear_in_the_length(monkeypatch):
    """Window length and size of a padded batch are bounded."""
    monkeypatch.setattr(torch_attention, "MAX_BATCH_TOKENS", 100)
    model = make(depth=1, window=32)
    shapes = []
    network_of(model).layers[0].register_forward_pre_hook(
        lambda _, args: shapes.append(args[0].shape)
    )
    model.predict(make_docs(2000, 5, 31))
    assert max(length for _, length, _ in shapes) == 32
    assert max(batch * length for batch, length, _ in shapes) <= 100
    assert sum(batch * length for batch, length, _ in shapes) < 2.1 * 2036


def test_without_torch_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    SelfAttentiveEncoder(width=8, depth=0)
    with pytest.raises(ImportError, match=r"torch is not installed.*extra torch of"):
        SelfAttentiveEncoder(width=8, depth=1)


@pytest.mark.parametrize(
    "option, value, message",
    [
        ("positions", "rotary", r"positions(.|\n)*learned(.|\n)*sinusoidal"),
        ("depth", -1, "depth must be at least 0, got -1"),
        ("width", 0, "width must be at least 1, got 0"),
        ("heads", 5, "heads must divide width = 768, got 5"),
        ("heads", 0, "heads must be at least 1, got 0"),
        ("feed_forward", 0, "feed_forward must be at least 1"),
        ("window", 0, "window must be at least 1"),
        ("attrs", ["NORM", "PREFIX", "SUFFIX", "SHPE"], "attrs must be .*'SHPE'"),
        ("attrs", [], "rows must have a number for each of attrs"),
        ("rows", [100], r"rows must have a number for each of attrs, got \[100\] for"),
        ("rows", [100, 100, 100, 0], "rows must be at least 1, got 0"),
        ("layers", 2, "layers"),
        ("depth", "two", "depth"),
    ],
)
def test_a_config_with_an_option_out_of_range_is_refused(option, value, message):
    architecture = {"@architectures": "spacy-bcrf.SelfAttentiveEncoder.v1", option: value}
    with pytest.raises(ValueError, match=message):
        registry.resolve({"tok2vec": architecture})


TOK2VEC = {
    "@architectures": "spacy-bcrf.SelfAttentiveEncoder.v1",
    "width": 32,
    "heads": 4,
    "feed_forward": 64,
    "attrs": ["ORTH"],
    "rows": [100],
}


@pytest.mark.parametrize("listens", [False, True])
def test_a_tagger_learns_from_context(listens, tmp_path):
    import spacy

    fix_random_seed(0)
    nlp = English()
    head = {"@layers": "spacy-bcrf.Unstructured.v1"}
    listener = {"@architectures": "spacy.Tok2VecListener.v1", "width": 32, "upstream": "*"}
    if listens:
        nlp.add_pipe("tok2vec", config={"model": TOK2VEC})
    model = {"@architectures": "spacy-bcrf.SequenceLabeler.v1", "head": head}
    model["tok2vec"] = listener if listens else TOK2VEC
    nlp.add_pipe("bcrf_tagger", config={"model": model})
    # The tag of a word is the previous word.
    words = ["a b c d e", "e d c b a", "b d a c e", "c a e b d"]
    gold = [["start", *(w.upper() for w in text.split()[:-1])] for text in words]
    examples = [
        Example.from_dict(nlp.make_doc(text), {"tags": tags})
        for text, tags in zip(words, gold, strict=True)
    ]
    optimizer = nlp.initialize(lambda: examples)
    optimizer.learn_rate = 0.005
    for _ in range(80):
        nlp.update(examples, sgd=optimizer, drop=0.1)
    found = [[token.tag_ for token in doc] for doc in nlp.pipe(words)]
    assert found == gold
    nlp.to_disk(tmp_path)
    docs = spacy.load(tmp_path).pipe(words)
    assert [[token.tag_ for token in doc] for doc in docs] == gold
    # This document is longer than a window and than any training document.
    assert all(token.tag_ for token in nlp("a b " * 300))


@pytest.mark.parametrize("lengths, depth", covering(BATCHES, [0, 1]))
def test_attention_over_other_embeddings_is_the_second_half_of_the_encoder(lengths, depth):
    options = {key: value for key, value in SMALL.items() if key != "rows"}
    docs = make_docs(*lengths)
    expected = make(depth=depth, window=16).predict(docs)
    embeddings = make(depth=0).predict(docs)
    fix_random_seed(0)
    model = SelfAttention(**options, depth=depth, window=16)
    model.initialize()
    assert model.get_dim("nO") == 8
    vectors, backprop = model.begin_update(embeddings)
    assert len(vectors) == len(docs)
    for found, vector in zip(vectors, expected, strict=True):
        np.testing.assert_allclose(found, vector, atol=1e-5)
    if any(lengths):
        assert [d.shape for d in backprop(vectors)] == [v.shape for v in vectors]


@pytest.mark.parametrize("option, value", [("depth", -1), ("heads", 5), ("window", 0)])
def test_attention_checks_its_options(option, value):
    with pytest.raises(ValueError, match=option):
        SelfAttention(**{option: value})
