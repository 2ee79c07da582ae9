"""The file format of sparse linear chains."""

from __future__ import annotations

import math
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import count, repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bcrf.io import msgpack

from .weight_blocks import Blocks, deflate, find_blocks, inflate

VERSION = 4
"""Lists of strings are joined, see `_join_texts`. Version 1 has no checksum."""

# Compressed bytes cannot hold more than this many times their number.
MAX_DEFLATE_RATIO = 1032

# The form of each part: the types of a value, [form] for a list, {"": form} for a map from strings.
FORMS: dict[str, Any] = {
    "templates": [{str}],
    "gazetteers": {"": {str}},
    "n_tags": {int},
    "n_sequences": {int, float},
    "scale": {int, float},
    "general": {bytes},
    "keys": {bytes},
    "features": {bytes},
}
EARLIER_FORMS: dict[str, Any] = {"gazetteers": {"": [{str}]}}
"""Versions 1 to 3. Their tables are strings by word."""
BLOCK_FORMS: dict[str, Any] = {"counts": {bytes}, "chains": {bytes}}
"""Chains side by side, see `weight_blocks`."""
LATER_FORMS: dict[str, Any] = {
    "tables": {"": {"": {str}}},
    "template_set": {str, type(None)},
    "first": {bytes},
    "first_tags": [{str}],
    "full": {bool},
}
"""Parts that files of earlier versions, or of chains without them, do not have."""


class SavedChain(NamedTuple):
    """The parts of a chain with T tags and F features.

    templates: their texts. gazetteers: phrases by name. tables: strings by word, by name.
    template_set: the name of their set, None for other templates and in files without names.
    first: the first chain of `two_pass`, with the same phrases and tables. first_tags: the names of
        its tags.
    n_sequences: number of training sequences.
    general: (S + 3, T) float32, weights of the transitions, the bias, the start and the end. C
        chains side by side have S = T / C tags each.
    keys: (F,) uint64, feature keys. features: (F, T) float32, their weights, or `Blocks` of them.
    full: whether all weights of features are stored, as float32. Without it they are float16, and
        chains side by side lose weights near 0, see `weight_blocks.LEAST`.

    >>> import numpy as np
    >>> from bcrf.linear import SavedChain
    >>> general, weights = np.zeros((5, 2), "float32"), np.ones((1, 2), "float32")
    >>> saved = SavedChain(["orth[0]"], {}, {}, 1, general, np.array([7], "uint64"), weights)
    >>> saved.full
    False
    """

    templates: list[str]
    gazetteers: dict[str, list[str]]
    tables: dict[str, dict[str, str]]
    n_sequences: float
    general: NDArray[np.float32]
    keys: NDArray[np.uint64]
    features: NDArray[np.float32] | Blocks
    template_set: str | None = None
    first: SavedChain | None = None
    first_tags: Sequence[str] = ()
    full: bool = False


def fill_features(saved: SavedChain, weights: NDArray[np.float32]) -> None:
    """Write the weights of the features into zeros (F, at least T)."""
    if isinstance(saved.features, Blocks):
        saved.features.fill(weights)
    else:
        weights[:, : saved.general.shape[1]] = saved.features


def pack(saved: SavedChain) -> bytes:
    """Serialize a chain: feature weights as float16 or, if `full`, float32, and a checksum.

    Chains side by side lose weights near 0 unless `full`, see `weight_blocks.LEAST`. Raises
    ValueError if there are weights that are not finite.

    >>> import numpy as np
    >>> from bcrf.linear import SavedChain, pack, unpack
    >>> general, weights = np.zeros((5, 2), "float32"), np.ones((1, 2), "float32")
    >>> saved = SavedChain(["orth[0]"], {}, {}, 1, general, np.array([7], "uint64"), weights)
    >>> unpack(pack(saved)).features.tolist()
    [[1.0, 1.0]]
    """
    n_states, features = len(saved.general) - 3, saved.features
    if not isinstance(features, Blocks) and saved.general.shape[1] > n_states:
        features = find_blocks(features, n_states, saved.full)
    values = features.values if isinstance(features, Blocks) else features
    if not (np.isfinite(saved.general).all() and np.isfinite(values).all()):
        raise ValueError(
            "cannot save the linear chain: there are weights that are NaN or infinite, because "
            "training diverged. Lower rate, the learning rate of the chain, and train it again"
        )
    # Larger weights would overflow float16.
    dtype = "float32" if saved.full else "float16"
    largest = float(np.abs(values).max(initial=0))
    scale = max(1.0, largest / float(np.finfo(dtype).max))
    packed = (values / np.float32(scale)).astype(dtype)
    if isinstance(features, Blocks):
        used = features.counts > 0
        by_feature = {
            "features": deflate(packed.T),
            "counts": deflate(features.counts[used]),
            "chains": deflate(features.chains),
        }
    else:
        # Small weights become 0.
        used = np.asarray(packed.any(axis=1))
        # Zeros of one tag come in runs along the features, which compress well.
        by_feature = {"features": zlib.compress(np.ascontiguousarray(packed[used].T).tobytes(), 1)}
    parts = {
        "templates": saved.templates,
        "template_set": saved.template_set,
        "gazetteers": {name: _join_texts(texts) for name, texts in saved.gazetteers.items()},
        "tables": {name: group_words(table) for name, table in saved.tables.items()},
        "n_tags": saved.general.shape[1],
        "n_sequences": saved.n_sequences,
        "scale": scale,
        "general": np.ascontiguousarray(saved.general).tobytes(),
        "keys": saved.keys[used].tobytes(),
        **by_feature,
    }
    # Without these keys, the bytes come from versions that had no first chain and no float32.
    if saved.first is not None:
        parts["first"] = pack(saved.first._replace(gazetteers={}, tables={}))
        parts["first_tags"] = list(saved.first_tags)
    if saved.full:
        parts["full"] = True
    content = msgpack.dumps(parts)
    data = {"version": VERSION, "checksum": zlib.crc32(content), "content": content}
    return msgpack.dumps(data)


def _join_texts(texts: Sequence[str]) -> str:
    """Join strings, each after a character that none of them has: a million loads at once."""
    together = "".join(texts)
    separator = next(char for char in map(chr, count(ord("\n"))) if char not in together)
    return "".join(separator + text for text in texts)


def _split_texts(text: str) -> list[str]:
    return text.split(text[0])[1:] if text else []


def group_words(table: Mapping[str, str]) -> dict[str, str]:
    """Return the joined words of each value of a table."""
    words = defaultdict(list)
    for word, value in table.items():
        words[value].append(word)
    return {value: _join_texts(of_value) for value, of_value in words.items()}


def unpack(data: bytes) -> SavedChain:
    """Load the bytes that `pack` returned, or bytes of version 0.1.0, which have no checksum.

    Checks types, sizes, the checksum and that weights are finite. Raises ValueError naming what is
    wrong. Allocates at most 3 * 1,032 times the size of the bytes for the feature weights: their
    stored array has at most 1,032 times that size, and their float32 array at most twice as much.

    >>> from bcrf.linear import unpack
    >>> try:
    ...     unpack(b"text")
    ... except ValueError as error:
    ...     print(str(error)[:56])
    the bytes of the linear chain are damaged: not MessagePa
    """
    msg = _read(data, {"version": {int}})
    version = msg["version"]
    forms = FORMS if version == VERSION else FORMS | EARLIER_FORMS
    if version in (2, 3, VERSION):
        _check_forms(msg, {"checksum": {int}, "content": {bytes}})
        if zlib.crc32(msg["content"]) != msg["checksum"]:
            raise _damaged("the checksum differs")
        msg = _read(msg["content"], forms)
    elif version == 1:
        _check_forms(msg, forms)
    else:
        raise ValueError(
            f"the linear chain was saved in format {version}; this version of bcrf reads "
            f"formats 1 to {VERSION}"
        )
    _check_forms(msg, {name: form for name, form in LATER_FORMS.items() if name in msg})
    if is_of_blocks := "counts" in msg:
        _check_forms(msg, BLOCK_FORMS)
    n_tags, scale, n_sequences = msg["n_tags"], msg["scale"], msg["n_sequences"]
    n_general = len(msg["general"]) // (4 * max(n_tags, 1))
    n_states = max(n_general - 3, 1)
    if n_tags < 1 or n_tags % n_states or len(msg["general"]) != 4 * (n_states + 3) * n_tags:
        raise _damaged(f"{len(msg['general'])} bytes of weights do not fit n_tags = {n_tags}")
    if len(msg["keys"]) % 8:
        raise _damaged(f"the keys have {len(msg['keys'])} bytes, not a multiple of 8")
    if not (math.isfinite(scale) and scale > 0 and math.isfinite(n_sequences) and n_sequences >= 0):
        raise _damaged(f"scale = {scale} and n_sequences = {n_sequences} must be positive numbers")
    keys = np.frombuffer(msg["keys"], dtype="uint64")
    general = np.frombuffer(msg["general"], dtype="float32").reshape(n_general, n_tags)
    full = msg.get("full", False)
    dtype = np.dtype("float32" if full else "float16")
    features: NDArray[np.float32] | Blocks
    if is_of_blocks:
        features = _unpack_blocks(msg, len(keys), n_tags, n_states, dtype)
        values = features.values
    else:
        features = values = _unpack_features(msg["features"], len(keys), n_tags, dtype)
    if scale != 1:
        with np.errstate(over="ignore", invalid="ignore"):
            values *= np.float32(scale)
    if not (np.isfinite(general).all() and np.isfinite(values).all()):
        raise _damaged("there are weights that are not finite")
    gazetteers, tables = msg["gazetteers"], msg.get("tables", {})
    if version == VERSION:
        gazetteers = {name: _split_texts(text) for name, text in gazetteers.items()}
        tables = {name: _find_values(groups) for name, groups in tables.items()}
    texts = msg["templates"], gazetteers, tables
    saved = SavedChain(
        *texts, n_sequences, general, keys, features, msg.get("template_set"), full=full
    )
    return _unpack_first(saved, msg) if "first" in msg else saved


def _find_values(groups: Mapping[str, str]) -> dict[str, str]:
    """Return the table whose words `group_words` joined."""
    table: dict[str, str] = {}
    for value, text in groups.items():
        table.update(zip(_split_texts(text), repeat(value)))  # without a second table of words
    return table


def _unpack_features(
    data: bytes, n_features: int, n_tags: int, dtype: np.dtype
) -> NDArray[np.float32]:
    packed = np.frombuffer(_decompress(data, dtype.itemsize * n_tags * n_features), dtype=dtype)
    by_tag = packed.reshape(n_tags, n_features)
    features = np.empty((n_features, n_tags), dtype="float32")
    # Transpose in blocks that fit the cache.
    for start in range(0, n_features, 2048):
        features[start : start + 2048] = by_tag[:, start : start + 2048].T
    return features


def _unpack_blocks(
    msg: dict[str, Any], n_features: int, n_tags: int, n_states: int, dtype: np.dtype
) -> Blocks:
    size = sum(len(msg[name]) for name in ("keys", "features", "counts", "chains"))
    if 4 * n_features * n_tags > 3 * MAX_DEFLATE_RATIO * size:
        raise _damaged(f"{size} bytes cannot hold {n_features} features of {n_tags} tags")
    counts = inflate(_decompress(msg["counts"], 2 * n_features), np.dtype("uint16"))
    n_blocks, n_chains = int(counts.sum(dtype="int64")), n_tags // n_states
    chains = inflate(_decompress(msg["chains"], 2 * n_blocks), np.dtype("uint16"))
    if (chains >= n_chains).any():
        raise _damaged(f"there are weights of more than {n_chains} chains")
    data = _decompress(msg["features"], dtype.itemsize * n_states * n_blocks)
    values = inflate(data, dtype).reshape(n_states, n_blocks).astype("float32").T
    return Blocks(counts, chains, values)


def _unpack_first(saved: SavedChain, msg: dict[str, Any]) -> SavedChain:
    first, tags = unpack(msg["first"]), msg.get("first_tags", [])
    if first.first is not None or first.general.shape[1] != len(tags):
        raise _damaged("the first chain has another first chain, or other tags")
    first = first._replace(gazetteers=saved.gazetteers, tables=saved.tables)
    return saved._replace(first=first, first_tags=tags)


def _damaged(problem: str) -> ValueError:
    return ValueError(f"the bytes of the linear chain are damaged: {problem}")


def _read(data: bytes, forms: dict[str, Any]) -> dict[str, Any]:
    try:
        msg = msgpack.loads(data)
    except ValueError as error:
        raise _damaged(f"not MessagePack ({error})") from error
    if not isinstance(msg, dict):
        raise _damaged(f"expected a map, got {type(msg).__name__}")
    _check_forms(msg, forms)
    return msg


def _check_forms(msg: dict[str, Any], forms: dict[str, Any]) -> None:
    for name, form in forms.items():
        if name not in msg:
            raise _damaged(f"{name} is missing")
        if not _have_form([msg[name]], form):
            raise _damaged(f"{name} has the type {type(msg[name]).__name__}, or other values")


def _have_form(values: Iterable[Any], form: Any) -> bool:
    """Return whether all values have a form, see `FORMS`."""
    types = {*map(type, values)}
    if isinstance(form, set):
        return types <= form
    if isinstance(form, list):
        return types <= {list} and all(_have_form(value, form[0]) for value in values)
    return types <= {dict} and all(
        _have_form(value, {str}) and _have_form(value.values(), form[""]) for value in values
    )


def _decompress(data: bytes, size: int) -> bytes:
    """Decompress exactly `size` bytes. Do not allocate more than the data can hold."""
    if size > MAX_DEFLATE_RATIO * len(data):
        raise _damaged(f"{len(data)} bytes cannot hold {size} bytes of weights")
    stream = zlib.decompressobj()
    try:
        # One byte more, because a limit of 0 means none.
        found = stream.decompress(data, size + 1)
    except zlib.error as error:
        raise _damaged(f"the weights cannot be decompressed ({error})") from error
    if len(found) != size or not stream.eof or stream.unused_data:
        raise _damaged(f"the weights have another size than {size} bytes")
    return found
