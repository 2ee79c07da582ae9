"""Fuzz targets of the compiled kernels and of sparse model files."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import spacy
import srsly
from spacy.tokens import Doc

from bcrf import kernels
from bcrf.kernels import BregmanOptions
from bcrf.linear.learner import OnlineSettings
from spacy_bcrf.sparse.model import SparseChain

TEMPLATES = ["lower[0]", "suffix(3)[0]"]
HEADER = struct.Struct("<8B")


@cache
def _doc() -> Doc:
    return spacy.blank("en").make_doc("a known word")


def fuzz_model(data: bytes) -> None:
    """Load the bytes of a sparse chain. A chain that loads must predict and save."""
    chain = SparseChain(TEMPLATES, OnlineSettings())
    try:
        chain.from_bytes(data)
    except ValueError:
        assert not chain.is_ready
        return
    if chain.is_ready:
        chain.potentials([_doc()])
        again = SparseChain(TEMPLATES, OnlineSettings()).from_bytes(chain.to_bytes())
        assert again.learner.n_tags == chain.learner.n_tags


def fuzz_kernel(data: bytes, call: Callable[..., Any]) -> None:
    """Call a kernel with arrays and options from the bytes."""
    if len(data) < HEADER.size:
        return
    n_sequences, n_tags, per_edge, dtype, n, *_ = HEADER.unpack_from(data)
    values = Values(data[HEADER.size :])
    lengths = values.take(n_sequences % 6, "int8").astype("int32")
    n_tokens = min(64, int(np.abs(lengths).sum()))
    n_tags = 1 + n_tags % 40
    kind = ("float32", "float64", "float16", "int32")[dtype % 4 if dtype % 16 < 4 else dtype % 2]
    shape = (n_tokens, n_tags, n_tags) if per_edge % 2 else (n_tags, n_tags)
    unary = values.scores((n_tokens, n_tags), kind)
    transitions = values.scores(shape, kind)
    if per_edge % 16 == 3:
        transitions = np.asfortranarray(transitions)
    try:
        call(values, n % 9, unary, transitions, lengths)
    except (ValueError, TypeError):
        return


class Values:
    """Reads arrays from bytes, which repeat."""

    def __init__(self, data: bytes) -> None:
        self._data = data or b"\0"
        self._at = 0

    def take(self, n: int, dtype: str) -> np.ndarray:
        size = n * np.dtype(dtype).itemsize
        start = self._at % len(self._data)
        self._at += size
        repeated = self._data[start:] + self._data * (size // len(self._data) + 1)
        return np.frombuffer(repeated[:size], dtype=dtype)

    def scores(self, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        """Scores of any magnitude, with -inf, +inf and NaN."""
        found = self.take(int(np.prod(shape)), "int8").astype("float64")
        found[found == -128] = -np.inf
        found[found == 127] = np.inf
        found[found == 126] = np.nan
        found[found > 100] **= 12
        with np.errstate(all="ignore"):
            return found.reshape(shape).astype(dtype)

    def tags(self, n: int) -> np.ndarray:
        return self.take(n, "int8").astype("int32")


def _bregman(values: Values, n: int, *batch: Any) -> None:
    options = values.take(4, "uint8")
    relaxation = None if options[0] % 4 == 0 else 1 + options[0] / 256
    tolerance = None if options[1] % 2 else options[1] / 256
    bound = "upper" if options[2] % 2 else "lower"
    edges = ("none", "sum", "each")[options[3] % 3]
    kernels.bregman(*batch, BregmanOptions(n, relaxation, tolerance, bound), edges=edges)


def _add_features(values: Values, n: int, unary: Any, transitions: Any, lengths: Any) -> None:
    tags = values.tags(n * len(unary)).reshape(n, len(unary))
    weights = values.scores((len(lengths), n), unary.dtype.name)
    kernels.add_features(tags, weights, lengths, unary.copy(), transitions.copy("K"))


def _gram(values: Values, n: int, unary: Any, transitions: Any, lengths: Any) -> None:
    tags = values.tags(n * len(unary)).reshape(n, len(unary))
    gram = kernels.gram_matrices(tags, lengths, unary.shape[1], transitions.ndim == 2)
    kernels.hildreth(values.scores((len(lengths), n), "float64"), gram, 1.0)


def _calls() -> Iterator[tuple[str, Callable[..., Any]]]:
    yield (
        "sum_product",
        lambda v, n, *b: kernels.sum_product(*b, edges=("none", "sum", "each")[n % 3]),
    )
    yield "max_product", lambda v, n, *b: kernels.max_product(*b)
    yield "entropy", lambda v, n, *b: kernels.entropy(*b)
    yield "pair_marginals", lambda v, n, *b: kernels.pair_marginals(*b, v.tags(n), v.tags(n))
    yield "sample", lambda v, n, *b: kernels.sample(*b, v.scores((n, len(b[0])), "float64"))
    yield "nbest", lambda v, n, *b: kernels.nbest(*b, n)
    yield "beam_search", lambda v, n, *b: kernels.beam_search(*b, n, n + 1)
    yield "dijkstra", lambda v, n, *b: kernels.dijkstra(*b)
    yield "path_scores", lambda v, n, *b: kernels.path_scores(*b, v.tags(len(b[0])))
    yield "add_features", _add_features
    yield "gram_matrices", _gram
    yield "bregman", _bregman
    yield "mean_field", lambda v, n, *b: kernels.mean_field(*b, n)
    yield "mean_field_loss", lambda v, n, *b: kernels.mean_field_loss(*b, v.tags(len(b[0])), n)


def make_chain() -> SparseChain:
    """A small chain with weights that are not 0."""
    chain = SparseChain(TEMPLATES, OnlineSettings("perceptron"))
    nlp = spacy.blank("en")
    docs = [nlp.make_doc("a known word"), nlp.make_doc("another one")]
    chain.initialize(docs, 3)
    chain.step(docs, np.array([0, 1, 2, 1, 0], dtype="int32"))
    return chain


def model_seeds() -> list[bytes]:
    """The bytes of a chain, and the same in the format of version 0.1.0."""
    saved = make_chain().to_bytes()
    # That format has no checksum, so mutations reach the other checks.
    content = srsly.msgpack_loads(srsly.msgpack_loads(saved)["content"])
    return [saved, srsly.msgpack_dumps({"version": 1, **content})]


_KERNEL_SEEDS = [
    HEADER.pack(2, 4, 0, 0, 3, 0, 0, 0) + bytes([3, 2, *range(40)]),
    HEADER.pack(3, 8, 1, 1, 5, 0, 0, 0) + bytes([1, 0, 4, *range(90, 200)]),
]
TARGETS: dict[str, Callable[[bytes], None]] = {
    "model": fuzz_model,
    **{name: partial(fuzz_kernel, call=call) for name, call in _calls()},
}
SEEDS: dict[str, list[bytes]] = dict.fromkeys(TARGETS, _KERNEL_SEEDS) | {"model": model_seeds()}
