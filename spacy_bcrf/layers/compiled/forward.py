"""The forward and backward passes of compiled layers."""

import threading
from collections.abc import Callable
from itertools import accumulate
from operator import is_
from typing import Any

import numpy as np
from spacy.attrs import ORTH  # type: ignore[import-not-found]
from thinc.api import Model, NumpyOps
from thinc.layers.chain import forward as chain
from thinc.layers.with_array import forward as with_array

from bcrf.kernels import encoder as kernels
from spacy_bcrf.annotation.arrays import DocBatch

from .matching import EmbeddingParts, MaxoutBlock, Unsupported, match_embedding, match_encoder


def check_finite(node: Model, name: str, where: str) -> None:
    """Raise ValueError for a parameter that is not finite. where: its place in the model."""
    if not node.ops.xp.isfinite(node.get_param(name)).all():
        raise ValueError(
            f"the parameter {name} of a {node.name} layer ({where}) is not finite. The training "
            "diverged, or the file of the model is damaged"
        )


class Packing:
    """The Maxout layers of a compiled layer, and the packed copy of their parameters."""

    def __init__(self, layers: list[MaxoutBlock], window: int, residual: bool):
        self.layers, self.window, self.residual = layers, window, residual
        self._packed: tuple[int, kernels.Stack] | None = None
        """The copy, after the fingerprint of the parameters."""
        self._checked: int | None = None
        """The fingerprint of finite parameters."""

    @property
    def ready(self) -> bool:
        return all(layer.ready for layer in self.layers)

    def stack(self, check: bool = True) -> kernels.Stack:
        """Return the packed parameters. `check` raises ValueError if one is not finite."""
        params: Any = [
            [node.get_param(name) for node, name in layer.params] for layer in self.layers
        ]
        mark = kernels.fingerprint([array for layer in params for array in layer])
        packed = self._packed
        if packed is None or packed[0] != mark:
            try:
                stack = kernels.Stack(params, window=self.window, residual=self.residual)
            except ValueError as error:
                raise Unsupported(str(error)) from error
            # One assignment, because several threads may predict.
            self._packed = packed = mark, stack
        if check and self._checked != mark:
            self.check()
            self._checked = mark
        return packed[1]

    def check(self) -> None:
        for i, layer in enumerate(self.layers):
            for node, name in layer.params:
                check_finite(node, name, f"layer {i + 1} of {len(self.layers)}")

    def add_gradients(self, gradients: list[tuple[Any, ...]]) -> None:
        for layer, gradient in zip(self.layers, gradients, strict=True):
            for (node, name), value in zip(layer.params, gradient, strict=True):
                node.inc_grad(name, value)


class Encoder(Packing):
    """A Maxout window encoder."""

    @classmethod
    def of(cls, node: Model) -> "Encoder | None":
        found = match_encoder(node) if node._func in (encode, with_array) else None
        return found and cls(*found, residual=True)


class EmbeddingCache:
    """The embeddings of distinct rows of attributes, under one set of parameters."""

    def __init__(self, stack: kernels.Stack, tables: list[Any], attributes: int, width: int):
        self.stack, self._tables = stack, tables
        self._sample = kernels.fingerprint(tables, sample=True)
        self._mark = kernels.fingerprint(tables)
        self.index = kernels.DistinctRows(attributes)
        self.vectors = np.zeros((256, width), "float32")
        self.size = 0

    def has(self, tables: list[Any], learns: bool) -> bool:
        """Return whether the embeddings are of these tables; a sample tells if nothing learns."""
        if not learns and all(map(is_, tables, self._tables)):
            return kernels.fingerprint(tables, sample=True) == self._sample
        if kernels.fingerprint(tables) != self._mark:
            return False
        self._tables = tables
        return True

    def add(self, vectors: Any) -> None:
        size = self.size + len(vectors)
        if size > len(self.vectors):
            grown = np.zeros((max(size, 2 * len(self.vectors)), vectors.shape[1]), "float32")
            grown[: self.size] = self.vectors[: self.size]
            self.vectors = grown
        self.vectors[self.size : size] = vectors
        self.size = size


class Embedding(Packing):
    """Hashed embeddings mixed by a Maxout."""

    def __init__(self, parts: EmbeddingParts):
        self.columns, self.tables, self.vectors, mix = parts
        super().__init__([mix], 0, residual=False)
        self.lock = threading.Lock()
        self.cache: EmbeddingCache | None = None

    @classmethod
    def of(cls, node: Model) -> "Embedding | None":
        found = match_embedding(node) if node._func in (embed, chain) else None
        return found and cls(found)

    def features(self, docs: list[Any]) -> Any:
        """Return the attributes of all tokens, uint64 (N, attributes)."""
        columns = self.columns
        if self.vectors:
            columns = [*columns, getattr(docs[0].vocab.vectors, "attr", ORTH)]
        if isinstance(docs, DocBatch) and set(columns) <= set(docs.columns):
            return docs.values.take([docs.columns.index(column) for column in columns], axis=1)
        arrays = [
            doc.to_array(columns)
            if hasattr(doc, "to_array")
            else doc.doc.to_array(columns)[doc.start : doc.end]
            for doc in docs
        ]
        return np.concatenate(arrays).reshape(-1, len(columns)).astype("uint64", copy=False)

    def tables_of(
        self, rows: Any, docs: list[Any], is_train: bool
    ) -> tuple[Any, list[tuple[int, Callable]]]:
        """Return the embeddings of distinct rows, side by side, with widths and backpropagation."""
        parts, backprops = [], []
        for i, table in enumerate(self.tables):
            part, backprop = table(rows[:, i], is_train)
            parts.append(part)
            backprops.append((part.shape[1], backprop))
        if self.vectors:
            keys = _Keys(docs[0].vocab, rows[:, -1])
            part, get_dx = self.vectors([keys], is_train)
            parts.append(part.dataXd)
            lengths = part.lengths
            backprops.append((part.dataXd.shape[1], lambda d: get_dx(type(part)(d, lengths))))
        return np.concatenate(parts, axis=1), backprops

    def check(self) -> None:
        super().check()
        self._check_tables()

    def _check_tables(self) -> None:
        for i, table in enumerate(self.tables):
            check_finite(table, "E", f"table {i + 1} of {len(self.tables)}")

    def predict(self, docs: list[Any], cache_size: int) -> Any:
        """Return the embeddings of all tokens, (N, width)."""
        rows = self.features(docs)
        stack = self.stack()
        # A signal handler may call the pipeline while this thread fills the cache, and a fork may
        # copy the lock of another thread. Nobody waits for the lock.
        if self.vectors or not cache_size or not self.lock.acquire(blocking=False):
            distinct = kernels.DistinctRows(rows.shape[1])
            numbers = distinct.number(rows)
            return self._mix(stack, distinct.rows(0), docs).take(numbers, axis=0)
        try:
            return self._look_up(stack, rows, docs, cache_size)
        finally:
            self.lock.release()

    def _look_up(self, stack: kernels.Stack, rows: Any, docs: list[Any], cache_size: int) -> Any:
        """Return the embeddings of rows of attributes, from the cache where it has them."""
        arrays = [table.get_param("E") for table in self.tables]
        cache = self.cache
        # The tables get their gradients together.
        learns = self.tables[0].has_grad("E")
        if cache is None or cache.stack is not stack or not cache.has(arrays, learns):
            self._check_tables()
            width = self.layers[0].maxout.get_dim("nO")
            cache = self.cache = EmbeddingCache(stack, arrays, rows.shape[1], width)
        numbers = cache.index.number(rows)
        if len(cache.index) > cache.size:
            cache.add(self._mix(stack, cache.index.rows(cache.size), docs))
        if cache.size > cache_size:
            self.cache = None
        return cache.vectors.take(numbers, axis=0)

    def _mix(self, stack: kernels.Stack, rows: Any, docs: list[Any]) -> Any:
        tables, _ = self.tables_of(rows, docs, False)
        return stack.predict(tables, np.array([len(rows)], "int32"))


class _Keys:
    """Keys of static vectors, in the form in which spaCy's StaticVectors reads documents."""

    def __init__(self, vocab: Any, keys: Any):
        self.vocab, self.keys = vocab, keys

    def __len__(self) -> int:
        return len(self.keys)

    def to_array(self, attribute: int) -> Any:
        return self.keys


class State:
    """What a compiled layer keeps between calls. Copies, bytes and pickles leave it out."""

    def __init__(self, cache_size: int):
        self.cache_size = cache_size
        self.parts: Any = None

    def __reduce__(self) -> Any:
        return State, (self.cache_size,)


def _parts(model: Model, kind: Any) -> Any:
    """Return the parts of a compiled layer. None if Thinc's functions must run."""
    if not isinstance(model.ops, NumpyOps):
        return None
    state = model.attrs["compiled"]
    parts = state.parts
    if parts is None:
        parts = state.parts = kind.of(model)
    return parts if parts.ready else None


class _Views(list[Any]):
    """Views of the rows of documents, and the array of all rows, because joining takes long."""

    def __init__(self, rows: Any, lengths: list[int]):
        ends = list(accumulate(lengths))
        super().__init__([rows[end - n : end] for n, end in zip(lengths, ends, strict=True)])
        self._rows, self._views = rows, tuple(self)

    def join(self) -> Any:
        """Return all rows. Code between the layers may have put other arrays into the list."""
        if len(self) == len(self._views) and all(map(is_, self, self._views)):
            return self._rows
        return np.concatenate(self)


def embed(model: Model, docs: list[Any], is_train: bool) -> tuple[list[Any], Callable]:
    """Embed documents: list of arrays (length, width)."""
    parts = _parts(model, Embedding)
    lengths = [len(doc) for doc in docs] if parts else []
    if parts is None or not sum(lengths):
        return chain(model, docs, is_train)
    if not is_train:
        out = parts.predict(docs, model.attrs["compiled"].cache_size)
        return _Views(out, lengths), _no_backprop
    rows = parts.features(docs)
    distinct = kernels.DistinctRows(rows.shape[1])
    numbers = distinct.number(rows)
    tables, backprops = parts.tables_of(distinct.rows(0), docs, True)
    stack = parts.stack(check=False)
    mixed, trace = stack.train(tables, np.array([len(tables)], "int32"), [0.0], [0])
    out = mixed[numbers]
    # Tokens of one word share its embedding, and have dropout of their own.
    ops: Any = model.ops
    mask = None
    if rate := parts.layers[0].rate:
        mask = ops.get_dropout_mask(out.shape, rate)
        out *= mask

    def backprop(d_out: list[Any]) -> list[Any]:
        dy = np.concatenate(d_out)
        if mask is not None:
            dy = dy * mask
        d_mixed = np.zeros_like(mixed)
        ops.scatter_add(d_mixed, numbers, dy)
        d_tables, gradients = stack.backward(trace, d_mixed)
        parts.add_gradients(gradients)
        first = 0
        for width, get_dx in backprops:
            get_dx(np.ascontiguousarray(d_tables[:, first : first + width]))
            first += width
        return []

    return _Views(out, lengths), backprop


def encode(model: Model, xs: Any, is_train: bool) -> tuple[Any, Callable]:
    """Encode rows of documents in their context: list of arrays (length, width)."""
    parts = _parts(model, Encoder) if isinstance(xs, (list, tuple)) else None
    lengths = [len(x) for x in xs] if parts else []
    if parts is None or not sum(lengths):
        return with_array(model, xs, is_train)
    joined = xs.join() if isinstance(xs, _Views) else np.concatenate(xs)
    x = np.ascontiguousarray(joined, dtype="float32")
    each = np.array(lengths, "int32")
    stack = parts.stack(check=not is_train)
    if not is_train:
        return _Views(stack.predict(x, each), lengths), _no_backprop
    rates = [layer.rate for layer in parts.layers]
    # Thinc's masks come from NumPy's global generator, so the kernels' seeds do too.
    seeds = np.random.randint(0, 2**32, len(rates), dtype="uint32")
    out, trace = stack.train(x, each, rates, seeds)

    def backprop(d_out: Any) -> Any:
        dy = np.ascontiguousarray(np.concatenate(d_out), dtype="float32")
        dx, gradients = stack.backward(trace, dy)
        parts.add_gradients(gradients)
        return _Views(dx, lengths)

    return _Views(out, lengths), backprop


def _no_backprop(_: Any) -> Any:
    raise ValueError("a prediction has no gradient; call begin_update in place of predict")
