"""The embedding of words and of their convolved characters, alone and in an encoder."""

import numpy as np
import on_gpu
import pytest
import spacy
from spacy import registry
from spacy.lang.en import English
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import fix_random_seed
from spacy.vocab import Vocab
from thinc.api import Model, NumpyOps, chain, set_dropout_rate

from spacy_bcrf.layers.char_conv import CharConvEmbed

VOCAB = English().vocab
SMALL = {"width": 9, "rows": 50, "filters": 5, "char_width": 4, "char_rows": 30, "max_chars": 6}
WORD = slice(0, 4)  # the columns of the word's embedding
CHARACTERS = slice(4, 9)
TEXTS = ["a", "mat", "Ünïcode", "e\u0301", "鸡蛋", "👩‍👧‍👦", " ", "\n\n", "x" * 1000]


def make(seed=0, **options):
    """Return an initialized embedding."""
    fix_random_seed(seed)
    model = CharConvEmbed(**{**SMALL, **options})
    model.initialize()
    return model


def make_doc(*words, vocab=VOCAB):
    """Return a document of these words."""
    return Doc(vocab, words=words)


def embed(model, *words):
    """Return the vectors of words in one document."""
    return model.predict([make_doc(*words)])[0]


@pytest.mark.parametrize("lengths", [(), (0,), (0, 0), (1,), (3, 0, 9, 1)])
def test_every_token_has_a_vector(lengths):
    model = make()
    docs = [make_doc(*TEXTS[:length]) for length in lengths]
    vectors, backprop = model.begin_update(docs)
    assert [v.shape for v in vectors] == [(length, 9) for length in lengths]
    assert all(v.dtype == np.float32 and np.isfinite(v).all() for v in vectors)
    backprop(vectors)


def test_the_default_width_is_the_papers():
    model = CharConvEmbed()
    model.initialize()
    assert model.get_dim("nO") == 768
    assert embed(model, "a").shape == (1, 768)


def test_vectors_do_not_depend_on_the_batch():
    model = make()
    docs = [make_doc("a", "cat", "a"), make_doc(), make_doc("cat", "b")]
    first, _, second = model.predict(docs)
    np.testing.assert_array_equal(first[0], first[2])
    np.testing.assert_allclose(first[1], second[0], atol=1e-6)
    np.testing.assert_allclose(second, model.predict(docs[2:])[0], atol=1e-6)


def test_documents_of_a_batch_may_have_different_vocabularies():
    model = make()
    docs = [make_doc("a", "cat"), make_doc("dog", "cat", vocab=Vocab())]
    vectors = model.predict(docs)
    np.testing.assert_allclose(vectors[1], embed(model, "dog", "cat"), atol=1e-6)


@pytest.mark.parametrize("text", TEXTS[:-1])
def test_the_character_part_is_the_maximum_over_a_convolution(text):
    model = make(window=2, max_chars=100)
    _, table, filters = (node for node in model.walk() if node.name in ("hashembed", "relu"))
    codes = [2, *map(ord, text), 3]
    vectors = table.predict(np.array(codes, dtype="uint64"))
    padded = np.vstack([np.zeros((2, 4)), vectors, np.zeros((2, 4))])
    outputs = [
        filters.get_param("W") @ padded[i : i + 5].ravel() + filters.get_param("b")
        for i in range(len(codes))
    ]
    expected = np.maximum(np.max(outputs, axis=0), 0)
    np.testing.assert_allclose(embed(model, text)[0, CHARACTERS], expected, atol=1e-6)


def test_both_parts_tell_words_apart():
    vectors = embed(make(filters=4, width=8), "cat", "act", "鸡")
    for part in (slice(0, 4), slice(4, 8)):
        assert len(np.unique(vectors[:, part], axis=0)) == 3


def test_a_long_word_keeps_its_first_and_last_characters():
    first, second, third = embed(make(), "abc" + "x" * 500 + "def", "abcYYdef", "abbYYdef")
    np.testing.assert_allclose(first[CHARACTERS], second[CHARACTERS], atol=1e-6)
    assert np.abs(first[WORD] - second[WORD]).max() > 1e-3
    assert np.abs(second[CHARACTERS] - third[CHARACTERS]).max() > 1e-3


def test_each_distinct_word_of_a_batch_is_convolved_once():
    model = make()
    rows = []

    def record(_, X, is_train):
        rows.append(len(X.data))
        return X, lambda dX: dX

    convolution = model.layers[1]
    model.replace_node(convolution, chain(Model("record", record), convolution))
    model.predict([make_doc("the", "cat", "the"), make_doc("the", "cat")] * 50)
    assert rows == [2 * (len("the") + 2)]


def test_gradients_equal_numeric_gradients():
    model = make()
    for node in model.walk():
        node.ops = NumpyOps(use_blis=False)  # BLIS has no products in float64
        for name in node.param_names:
            node.set_param(name, node.get_param(name).astype("float64"))
    docs = [make_doc("a", "cat", "a"), make_doc(), make_doc("cat", "longer-word")]
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(len(doc), 9)) for doc in docs]

    def loss():
        return sum(float((v * w).sum()) for v, w in zip(model.predict(docs), weights, strict=True))

    _, backprop = model.begin_update(docs)
    backprop(weights)
    checked = 0
    for node in model.walk():
        for name in node.param_names:
            values, gradient = node.get_param(name), node.get_grad(name)
            # Check the entries with a gradient and one without, if there is one.
            for at in [*np.argwhere(gradient)[:40], *np.argwhere(gradient == 0)[:1]]:
                at, value = tuple(at), values[tuple(at)]
                values[at] = value + 1e-6
                above = loss()
                values[at] = value - 1e-6
                numeric = (above - loss()) / 2e-6
                values[at] = value
                assert gradient[at] == pytest.approx(numeric, rel=1e-5, abs=1e-7)
                checked += gradient[at] != 0
    assert checked > 100


@pytest.mark.gpu
def test_vectors_and_gradients_on_a_gpu_equal_those_on_the_host():
    if reason := on_gpu.why_not():
        pytest.skip(reason)
    docs = [make_doc("a", "cat", "a"), make_doc(), make_doc(*TEXTS)]
    host, device = make(), make()
    device.to_gpu(0)
    expected, host_backprop = host.begin_update(docs)
    found, device_backprop = device.begin_update(docs)
    for mine, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine.get(), other, atol=1e-5)
    host_backprop(expected)
    device_backprop(found)
    for mine, other in zip(device.walk(), host.walk(), strict=True):
        for name in other.param_names:
            np.testing.assert_allclose(
                mine.get_grad(name).get(), other.get_grad(name), atol=1e-4, err_msg=other.name
            )


def test_dropout_follows_spacy_and_only_in_training():
    model = make()
    docs = [make_doc("a", "cat")]
    (calm,) = model.predict(docs)
    set_dropout_rate(model, 0.5)
    noisy = [model.begin_update(docs)[0][0] for _ in range(2)]
    assert np.abs(noisy[0] - noisy[1]).max() > 1e-3
    np.testing.assert_array_equal(model.predict(docs)[0], calm)


def test_bytes_disk_and_copy_round_trip(tmp_path):
    model = make()
    model.to_disk(tmp_path / "model")
    expected = embed(model, *TEXTS)
    for loaded in (
        make(seed=1).from_bytes(model.to_bytes()),
        make(seed=1).from_disk(tmp_path / "model"),
        model.copy(),
    ):
        np.testing.assert_array_equal(embed(loaded, *TEXTS), expected)


@pytest.mark.parametrize(
    "option, value, message",
    [
        ("width", 128, "width must be larger than filters = 128, got 128"),
        ("rows", 0, "rows must be at least 1, got 0"),
        ("filters", 0, "filters must be at least 1, got 0"),
        ("char_width", 0, "char_width must be at least 1, got 0"),
        ("char_rows", -1, "char_rows must be at least 1, got -1"),
        ("window", 0, "window must be at least 1, got 0"),
        ("max_chars", 0, "max_chars must be at least 1, got 0"),
        ("chars", 5, "chars"),
    ],
)
def test_a_config_with_an_option_out_of_range_is_refused(option, value, message):
    architecture = {"@architectures": "spacy-bcrf.CharConvEmbed.v1", option: value}
    with pytest.raises(ValueError, match=message):
        registry.resolve({"embed": architecture})


@pytest.mark.parametrize("depth", [0, 1])
def test_a_tagger_learns_suffixes_in_spacys_tok2vec(depth, tmp_path):
    if depth:
        pytest.importorskip("torch", reason="self-attention needs PyTorch")
    fix_random_seed(0)
    nlp = English()
    sizes = {"width": 32, "filters": 24, "char_width": 8}
    attention = {"width": 32, "depth": depth, "heads": 2, "feed_forward": 32}
    tok2vec = {
        "@architectures": "spacy.Tok2Vec.v2",
        "embed": {"@architectures": "spacy-bcrf.CharConvEmbed.v1", **sizes},
        "encode": {"@architectures": "spacy-bcrf.SelfAttention.v1", **attention},
    }
    head = {"@layers": "spacy-bcrf.CRF.v1", "hidden_width": 8}
    model = {"@architectures": "spacy-bcrf.SequenceLabeler.v1", "tok2vec": tok2vec, "head": head}
    nlp.add_pipe("bcrf_tagger", config={"model": model})
    stems = ["walk", "talk", "sing", "jump", "look", "cook", "play", "read"]
    examples = [
        Example.from_dict(nlp.make_doc(f"{stem}ing {stem}ed"), {"tags": ["G", "P"]})
        for stem in stems
    ]
    examples += [
        Example.from_dict(nlp.make_doc(f"{stem}ed {stem}ing"), {"tags": ["P", "G"]})
        for stem in stems
    ]
    optimizer = nlp.initialize(lambda: examples)
    optimizer.learn_rate = 0.02
    for _ in range(12):
        nlp.update(examples, sgd=optimizer)
    nlp.to_disk(tmp_path)
    for loaded in (nlp, spacy.load(tmp_path)):
        # Words that no training document has.
        assert [t.tag_ for t in loaded("blorked climbing")] == ["P", "G"]
        assert [t.tag_ for t in loaded("climbing blorked")] == ["G", "P"]
