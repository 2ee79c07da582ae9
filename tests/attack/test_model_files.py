"""Broken files of sparse chains are refused, with bounded time and memory."""

import random
import time
import tracemalloc
import zlib

import numpy as np
import pytest
import spacy
import srsly
from spacy.training import Example

from bcrf.kernels.sparse import Dictionary, Extractor, Learner, WordScores, score, shuffled
from bcrf.linear.learner import OnlineSettings
from bcrf.linear.model_bytes import unpack
from spacy_bcrf.sparse.model import SparseChain
from tests.fuzz.targets_kernels import TEMPLATES, make_chain, model_seeds


@pytest.fixture(scope="module")
def chain():
    return make_chain()


def load(data):
    return SparseChain(TEMPLATES, OnlineSettings()).from_bytes(data)


SEEDS = model_seeds()


def old_format(**changes):
    """The bytes of version 0.1.0, which have no checksum."""
    return srsly.msgpack_dumps(srsly.msgpack_loads(SEEDS[1]) | changes)


def weights_of(chain):
    return chain.learner.weights


def test_the_format_of_version_0_1_0_loads():
    expected = load(SEEDS[0])
    np.testing.assert_array_equal(weights_of(load(old_format())), weights_of(expected))
    assert weights_of(expected).any()


def test_each_flipped_bit_is_noticed():
    saved = SEEDS[0]
    rng = random.Random(0)
    for _ in range(400):
        at = rng.randrange(len(saved))
        changed = saved[:at] + bytes([saved[at] ^ 1 << rng.randrange(8)]) + saved[at + 1 :]
        with pytest.raises(ValueError, match="linear chain"):
            load(changed)
    for size in range(1, len(saved), 7):
        with pytest.raises(ValueError, match="the bytes of the linear chain are damaged"):
            load(saved[:size])


def floats(*values):
    return np.array(values, dtype="float32").tobytes()


NOT_FINITE = np.full(18, np.nan, dtype="float32").tobytes()
WRONG = [
    *({"n_tags": n} for n in (-8, -3, -1, 0, 1, 2, 4, 2**31, 2**62, "3", 3.0, None, True)),
    *({"general": data} for data in (b"", b"1", floats(*range(17)), NOT_FINITE, "text")),
    *({"keys": data} for data in (b"", b"1234567", bytes(8), [1])),
    *({"features": data} for data in (b"", b"not compressed", zlib.compress(b""), None)),
    {"features": zlib.compress(np.full(15, np.inf, dtype="float16").tobytes())},
    *({"scale": x} for x in (0, -1.0, float("nan"), float("inf"), 1e39, "1")),
    *({"n_sequences": x} for x in (-1, float("nan"), float("inf"), None)),
    *({"templates": x} for x in ([], ["pos[0]"], [1], "lower[0]")),
    {"template_set": ["ner"]},
    *({"tables": x} for x in ([], {"a": "b"}, {"a": {"b": 1}}, {"a": {1: "b"}}, {1: {}})),
    *({"gazetteers": x} for x in ([], {"a": "b"}, {"a": [1]}, {1: []})),
    *({"version": x} for x in (0, 2, 3, "1", None)),
]


@pytest.mark.parametrize("changes", WRONG, ids=lambda x: str(x)[:40])
def test_wrong_contents_are_refused(changes, chain):
    before = weights_of(chain)
    with pytest.raises(ValueError, match="linear chain"):
        chain.from_bytes(old_format(**changes))
    assert weights_of(chain) is before


def test_other_bytes_are_refused():
    deep = b"\x91" * 5000 + b"\x90"
    for data in b"\x00", b"\xc1", b"\xdf\xff\xff\xff\xff", b"\x80", b"\x81\xa1a\xc0", deep, b"text":
        with pytest.raises(ValueError, match="the bytes of the linear chain are damaged"):
            load(data)


def test_the_size_of_a_file_bounds_its_memory():
    """Compressed weights of a size that does not fit the keys are not decompressed."""
    data = old_format(features=zlib.compress(bytes(20_000_000)))
    tracemalloc.start()
    with pytest.raises(ValueError, match="the weights have another size than 36 bytes"):
        load(data)
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


def test_the_float16_weights_are_freed_before_the_checks():
    n_features, n_tags = 10_000, 100
    zeros = zlib.compress(bytes(2 * n_features * n_tags))
    general = np.zeros((n_tags + 3, n_tags), dtype="float32").tobytes()
    keys = np.arange(n_features, dtype="uint64").tobytes()
    data = old_format(n_tags=n_tags, general=general, keys=keys, features=zeros)
    tracemalloc.start()
    features = unpack(data).features
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # float16 and float32 together take 1.5 times the size of float32.
    assert features.shape == (n_features, n_tags) and peak < 1.65 * features.nbytes


@pytest.mark.parametrize("row", [0, -1])
@pytest.mark.parametrize("weight", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_not_saved(row, weight):
    diverged = load(SEEDS[0])
    weights = diverged.learner.weights.copy()
    weights[row, 0] = weight
    diverged.learner.weights = weights
    with pytest.raises(ValueError, match=r"training diverged. Lower rate, the learning rate"):
        diverged.to_bytes()


def test_colliding_keys_take_linear_time():
    """In the table without a secret seed, these keys have the same place."""
    dictionary = Dictionary()
    keys = np.arange(200_000, dtype="uint64") << np.uint64(32)
    start = time.process_time()
    dictionary.keys = keys
    assert (dictionary.find(keys) == np.arange(len(keys))).all()
    dictionary.count(keys)
    assert time.process_time() - start < 2


def test_the_error_names_the_folder_or_the_file(tmp_path):
    nlp = spacy.blank("en")
    model = {"@architectures": "spacy-bcrf.LinearChain.v1", "templates": ["lower[0]"]}
    nlp.add_pipe("bcrf_tagger", config={"model": model})
    doc = nlp.make_doc("a b")
    nlp.initialize(lambda: [Example.from_dict(doc, {"tags": ["A", "B"]})])
    nlp.to_disk(tmp_path)
    path = tmp_path / "bcrf_tagger" / "model"
    data = path.read_bytes()
    at = data.index(b"features")
    path.write_bytes(data[: at + 12] + b"!" + data[at + 13 :])
    with pytest.raises(ValueError, match="the checksum differs") as error:
        spacy.load(tmp_path)
    assert str(error.value).startswith(f"{path.parent}: ")
    path.write_bytes(data[:-9])
    with pytest.raises(ValueError) as error:
        spacy.load(tmp_path)
    assert str(error.value).startswith(f"{path}: ")
    path.write_bytes(data)
    cfg = path.with_name("cfg")
    cfg.write_bytes(cfg.read_bytes()[:9])
    with pytest.raises(ValueError) as error:
        spacy.load(tmp_path)
    assert str(error.value).startswith(f"{cfg}: ")


@pytest.mark.parametrize("name", ["hashembed", "layernorm", "maxout", "pairwise", "relu", "bcrf"])
def test_weights_of_a_wrong_shape_name_file_component_and_layer(tmp_path, name):
    nlp = spacy.blank("en")
    sizes = {"width": 16, "depth": 1, "embed_size": 50, "window_size": 1, "maxout_pieces": 2}
    sizes |= {"subword_features": False, "pretrained_vectors": None}
    head = {"@layers": "spacy-bcrf.BCRF.v1", "transitions": "pairwise", "hidden_width": 5}
    model = {
        "@architectures": "spacy-bcrf.SequenceLabeler.v1",
        "tok2vec": {"@architectures": "spacy.HashEmbedCNN.v2", **sizes},
        "head": head,
    }
    pipe = nlp.add_pipe("bcrf_tagger", config={"model": model})
    doc = nlp.make_doc("a b")
    nlp.initialize(lambda: [Example.from_dict(doc, {"tags": ["A", "B"]})])
    nlp.to_disk(tmp_path)
    spacy.load(tmp_path)("a b")
    layer = next(node for node in pipe.model.walk() if node.name == name)
    for param in layer.param_names:
        weights = layer.get_param(param)
        layer.set_param(param, weights[..., :-1])
        nlp.to_disk(tmp_path)
        layer.set_param(param, weights)
        with pytest.raises(ValueError, match="train the component again") as error:
            spacy.load(tmp_path)
        message = f"[bcrf_tagger] the model is damaged: its layer {name} has {param} of shape"
        assert str(error.value).startswith(f"{tmp_path / 'bcrf_tagger'}: {message}")


def learner(n_tags=3, **options):
    defaults = {"n": 1, "n_iter": 1, "beam": 0, "averaged": True, "adagrad": False, "rate": 0.1}
    defaults |= {"relaxation": 1.25, "decay": 0.0, "l2": 0.0, "l1": 0.0}
    return Learner("crf", n_tags, **{**defaults, **options}, n_sequences=1.0)


def learn(rows=(0, 1), starts=(0, 1, 2), gold=(0, 1), offsets=(0, 2), order=(0,), masks=()):
    made = learner()
    made.resize(2)
    arrays = np.array(rows, "int32"), np.array(starts, "int64")
    gold = None if gold is None else np.array(gold, "int32")
    allowed, open_ = (*masks, None, None)[:2]
    offsets, order = np.array(offsets, "int64"), np.array(order, "int32")
    return made.learn(*arrays, gold, allowed, open_, offsets, order)


def extract(values=2, words=(0, 0), bag_starts=(0, 2), bag_values=2, bags=1, lengths=(2,)):
    arrays = token_arrays(values, words, bag_starts, bag_values, bags, lengths)
    return Extractor([(1, [(0, 0), (1, 0)])]).extract(arrays)


def token_arrays(values, words, bag_starts, bag_values, bags, lengths):
    return (
        np.ones((values, 1), "uint64"),
        np.array(words, "int32"),
        np.array(bag_starts, "int64"),
        np.ones(bag_values, "uint64"),
        bags,
        np.array(lengths, "int32"),
    )


def word_scores(hashes=1, columns=8, rows=6, n_tags=2, **arrays):
    """`scored` and `extract` at once."""
    arrays = {
        "values": 1,
        "words": (0,),
        "lengths": (1,),
        "bag_starts": (0, 2),
        "bag_values": 2,
        "bags": 1,
    } | arrays
    scores = WordScores([(1, [(0, 0)]), (1, [(1, 0)])], 2)
    return scores.score(
        Dictionary(),
        np.ones((rows, columns), "float32"),
        n_tags,
        1,
        np.ones(hashes, "uint64"),
        token_arrays(**arrays),
    )


def scored(columns=8, rows=6, n_tags=2, starts=(0, 1), lengths=(1,)):
    weights = np.ones((rows, columns), "float32")
    arrays = np.zeros(1, "int32"), np.array(starts, "int64"), np.array(lengths, "int32")
    return score(weights, n_tags, *arrays)


CALLS = {
    learner: [{"n_tags": n} for n in (0, -1, -8, 2**30)] + [{"n": 0}, {"n_iter": 0}, {"beam": -1}],
    learn: [
        *({"rows": rows} for rows in ((0, 2), (-1, 0), (0,), ())),
        *({"starts": x} for x in ((0, 2, 1), (-1, 1, 2), (0, 1, 2**40), ())),
        *({"gold": x} for x in ((0, 3), (-2, 0), (0,), None)),
        *({"offsets": x} for x in ((0, 3), (-1, 2), (2, 0), ())),
        *({"order": x} for x in ((1,), (-1,))),
        {"gold": None, "masks": [np.ones((1, 3), "uint8")]},
        {"masks": [None, np.ones((2, 4), "uint8")]},
    ],
    extract: [
        *({"words": x} for x in ((0, 1), (-1, 0), (0,))),
        *({"bag_starts": x} for x in ((0, 3), (1, 0), (-1, 2), (0,), ())),
        *({"lengths": x} for x in ((3,), (-1, 3), (1,))),
        {"bags": 0},
        {"bags": -1},
        {"bag_values": 1},
    ],
    word_scores: [
        *({"hashes": n} for n in (0, 2)),
        *({"columns": n} for n in (7, 9, 0)),
        *({"rows": n} for n in (0, 4)),
        *({"n_tags": n} for n in (0, -1, 9)),
        *({"words": x} for x in ((1,), (-1,), (0, 0), ())),
        *({"bag_starts": x} for x in ((0, 3), (1, 0), (-1, 2), (0,), ())),
        *({"lengths": x} for x in ((2,), (-1, 2), ())),
        {"bags": 0},
        {"bags": -1},
        {"bag_values": 1},
    ],
    scored: [
        *({"columns": n} for n in (7, 9, 0)),
        *({"n_tags": n} for n in (0, -1, 9)),
        *({"starts": x} for x in ((1, 0), (0, 2), (-1, 1), ())),
        *({"lengths": x} for x in ((2,), (-1, 2), ())),
        {"rows": 5},
    ],
    shuffled: [{"n": -1, "seed": 0}],
    Extractor: [{"templates": [(1, [(-1, 0)])]}, {"templates": [(1, [(0, 2**30)])]}],
}


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_wrong_calls_of_the_compiled_learner_are_refused(call):
    if call not in (shuffled, Extractor):
        call()
    for arguments in CALLS[call]:
        with pytest.raises((ValueError, IndexError)):
            call(**arguments)


def test_weights_of_another_shape_are_refused():
    for shape in (5, 8), (6, 7), (6, 16), (0, 8):
        with pytest.raises(ValueError, match="weights must have"):
            learner().write(np.zeros(shape, "float32"))
    ones = np.ones((3, 3), "uint8")
    for masks in (ones[:2], ones[0], ones[0]), (ones, ones[0, :2].copy(), ones[0]):
        with pytest.raises(ValueError, match="must be"):
            learner().constrain(*masks)
