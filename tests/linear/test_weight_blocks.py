"""Files of chains side by side: weights near 0 are left out."""

import zlib

import numpy as np
import pytest

from bcrf.io import msgpack
from bcrf.linear import OnlineLearner, OnlineSettings, Rows, SavedChain, pack, unpack
from bcrf.linear.model_bytes import fill_features
from bcrf.linear.weight_blocks import LEAST

N_STATES, N_CHAINS, N_FEATURES = 5, 29, 3000
N_TAGS = N_STATES * N_CHAINS


def make_saved(full=False):
    """Return a chain whose features have weights near 0 in all chains but one."""
    rng = np.random.default_rng(0)
    features = rng.normal(scale=1e-4, size=(N_FEATURES, N_CHAINS, N_STATES)).astype("float32")
    features[np.arange(N_FEATURES), rng.integers(N_CHAINS, size=N_FEATURES)] = rng.normal(
        size=(N_FEATURES, N_STATES)
    )
    features[7] = 0
    general = rng.normal(size=(N_STATES + 3, N_TAGS)).astype("float32")
    keys = np.arange(N_FEATURES, dtype="uint64")
    features = features.reshape(N_FEATURES, N_TAGS)
    return SavedChain(["orth[0]"], {}, {}, 1, general, keys, features, full=full)


def dense(saved):
    # More columns than tags, as in the kernels' weights.
    weights = np.zeros((len(saved.keys), N_TAGS + 7), dtype="float32")
    fill_features(saved, weights)
    assert not weights[:, N_TAGS:].any()
    return weights[:, :N_TAGS]


@pytest.mark.parametrize("factor", [1, 2.0**-9])
def test_only_weights_near_zero_are_lost(factor):
    """Near 0 are weights far below the largest one, if that is small."""
    saved = make_saved()
    saved.features[:] *= np.float32(factor)
    data = pack(saved)
    loaded = unpack(data)
    least = LEAST * min(1, np.abs(saved.features).max())
    expected = np.where(np.abs(saved.features) < least, 0, saved.features)
    used = expected.any(axis=1)
    assert not used[7] and used.sum() > N_FEATURES - 10
    np.testing.assert_array_equal(loaded.keys, saved.keys[used])
    np.testing.assert_allclose(dense(loaded), expected[used], rtol=2**-11, atol=1e-7)
    np.testing.assert_array_equal(loaded.general, saved.general)
    assert pack(loaded) == data
    # All weights as float16 take ten times the space.
    assert len(data) < 0.1 * 2 * saved.features.size


def test_full_files_lose_no_weight():
    saved = make_saved(full=True)
    loaded = unpack(pack(saved))
    used = saved.features.any(axis=1)
    np.testing.assert_array_equal(loaded.keys, saved.keys[used])
    np.testing.assert_array_equal(dense(loaded), saved.features[used])


def test_large_weights_are_scaled():
    saved = make_saved()
    saved.features[3] = 1e6
    assert dense(unpack(pack(saved)))[3] == pytest.approx(1e6, rel=1e-3)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_not_saved(value):
    saved = make_saved()
    saved.features[2, 3] = value
    with pytest.raises(ValueError, match="training diverged"):
        pack(saved)


def rewrite(data, version, **changes):
    """Return the bytes of a chain with other contents."""
    content = msgpack.loads(msgpack.loads(data)["content"]) | changes
    content = msgpack.dumps({name: x for name, x in content.items() if x is not None})
    msg = {"version": version, "checksum": zlib.crc32(content), "content": content}
    return msgpack.dumps(msg)


def test_files_with_all_weights_load():
    saved = make_saved()
    features = saved.features.astype("float16")
    packed = zlib.compress(np.ascontiguousarray(features.T).tobytes())
    changes = {"keys": saved.keys.tobytes(), "counts": None, "chains": None}
    old = rewrite(pack(saved), 2, features=packed, **changes)
    np.testing.assert_array_equal(dense(unpack(old)), features)


PHRASES = {"places": ["New York", "a\nb"], "names": [""], "empty": []}
TABLES = {"cluster.brown": {"a": "01", "b": "11", "\n": "01", "": "11"}, "frequency": {}}


def test_tables_and_phrases_of_earlier_files_load():
    old = rewrite(pack(make_saved()), 3, gazetteers=PHRASES, tables=TABLES)
    saved = unpack(old)
    assert saved.gazetteers == PHRASES and saved.tables == TABLES


def test_a_table_has_one_string_for_all_words_of_a_value():
    data = pack(make_saved()._replace(gazetteers=PHRASES, tables=TABLES))
    saved = unpack(data)
    assert saved.gazetteers == PHRASES and saved.tables == TABLES
    assert pack(saved) == data
    content = msgpack.loads(msgpack.loads(data)["content"])
    assert content["tables"]["cluster.brown"] == {"01": "\va\v\n", "11": "\nb\n"}
    assert content["gazetteers"] == {"places": "\vNew York\va\nb", "names": "\n", "empty": ""}


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"counts": zlib.compress(bytes(8))}, "have another size"),
        ({"chains": zlib.compress(b"")}, "cannot hold|have another size"),
        ({"features": b"x"}, "cannot hold|cannot be decompressed"),
        ({"chains": 3}, "chains has the type int"),
        ({"keys": bytes(8 * 10**6), "counts": zlib.compress(bytes(2 * 10**6))}, None),
    ],
)
def test_damaged_blocks_are_refused(changes, message):
    with pytest.raises(ValueError, match=message or "damaged"):
        unpack(rewrite(pack(make_saved()), 3, **changes))


def test_blocks_of_other_chains_are_refused():
    data = pack(make_saved())
    n_blocks = len(unpack(data).features.chains)
    chains = np.full(n_blocks, N_CHAINS, dtype="<u2").view("uint8").reshape(-1, 2).T
    with pytest.raises(ValueError, match=f"more than {N_CHAINS} chains"):
        unpack(rewrite(data, 3, chains=zlib.compress(chains.tobytes())))


def test_a_learner_goes_on_from_weights_that_it_has_not_used():
    rows, lengths = Rows(np.array([0, 1], "int32"), np.array([0, 1, 2])), np.array([2], "int32")
    found = []
    for uses_first in (False, True):
        learner = OnlineLearner(2, 2, OnlineSettings("crf", rate=0.5))
        if uses_first:
            learner.resize(2)
        assert learner.n_features == 2
        weights = np.zeros((7, learner.stride), dtype="float32")
        weights[:, :2] = np.random.default_rng(1).normal(size=(7, 2))
        if uses_first:
            learner.weights = weights
        else:
            learner.set_later(lambda weights=weights: weights)
        np.testing.assert_array_equal(learner.weights, weights)
        learner.step(rows, lengths, np.array([0, 1], "int32"))
        found.append(learner.weights)
        assert not np.array_equal(learner.weights, weights)
    np.testing.assert_array_equal(*found)
    with pytest.raises(ValueError, match="weights must have"):
        OnlineLearner(2, 2, OnlineSettings()).weights = np.ones((7, 3)).astype("f")
