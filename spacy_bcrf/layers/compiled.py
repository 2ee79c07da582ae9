"""spaCy's CNN with compiled forward and backward passes, on the parameters of Thinc's layers.

`compile_layers` replaces the functions of two kinds of layers in a model: hashed embeddings that a
Maxout mixes (spaCy's MultiHashEmbed), and Maxout window encoders (MaxoutWindowEncoder). Parameters,
dimensions and attributes stay where they are. So bytes of a model load into spaCy's own layers, and
the other way round. On a GPU, Thinc's functions run.
"""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate
from operator import is_
from typing import Any, NamedTuple

import numpy as np
from spacy.attrs import ORTH, intify_attr  # type: ignore[import-not-found]
from spacy.ml.featureextractor import forward as extract
from spacy.ml.staticvectors import forward as static_vectors
from thinc.api import Model, NumpyOps
from thinc.layers.array_getitem import forward as array_getitem
from thinc.layers.chain import forward as chain
from thinc.layers.concatenate import forward as concatenate
from thinc.layers.dropout import forward as dropout
from thinc.layers.expand_window import forward as expand_window
from thinc.layers.hashembed import forward as hashembed
from thinc.layers.layernorm import forward as layernorm
from thinc.layers.list2ragged import forward as list2ragged
from thinc.layers.maxout import forward as maxout
from thinc.layers.ragged2list import forward as ragged2list
from thinc.layers.residual import forward as residual
from thinc.layers.with_array import forward as with_array

from spacy_bcrf.annotation.arrays import DocBatch
from spacy_bcrf.kernels import encoder as kernels

CACHE_SIZE = 20_000


@dataclass
class Layers:
    """Which layers of a model run compiled, and why others of the same kind do not."""

    compiled: list[str] = field(default_factory=list)
    kept: list[tuple[str, str]] = field(default_factory=list)


def compile_layers(model: Model, cache_size: int | None = None) -> Layers:
    """Let the embeddings and encoders of spaCy's CNN in a model run compiled, in place.

    cache_size: the number of distinct words whose embeddings an embedding layer keeps between
        predictions; 0 keeps none. With static vectors it keeps none either. None keeps the number
        of layers that are compiled already. For others it means CACHE_SIZE.

    A layer notices changed parameters, except for code that writes single rows of embedding tables
    into their arrays. After that, call `compile_layers` again.

    Raises ValueError if a parameter is not finite, or for a negative `cache_size`. Layers before
    the one with such a parameter run compiled then.
    """
    if cache_size is not None and cache_size < 0:
        raise ValueError(f"cache_size must be at least 0, got {cache_size}")
    layers = Layers()
    for node in list(model.walk()):
        for function, match in ((_embed, _Embedding.of), (_encode, _Encoder.of)):
            try:
                found = match(node)
                if not found:
                    continue
                if found.ready and isinstance(node.ops, NumpyOps):
                    found.stack()
            except _Unsupported as error:
                layers.kept.append((node.name, str(error)))
                continue
            if node._func is not function:
                node._func = function
                node.attrs["compiled"] = _State(CACHE_SIZE)
            state = node.attrs["compiled"]
            state.parts = None
            if cache_size is not None:
                state.cache_size = cache_size
            layers.compiled.append(node.name)
    return layers


def warn_of_precision(precision: str | None) -> None:
    """Warn of a setting of configs that 0.2.0.dev wrote, unless its value changed nothing."""
    if precision not in (None, "float32"):
        warnings.warn(
            f"precision = {json.dumps(precision)} has no effect: encoders multiply in float32",
            stacklevel=3,
        )


def cache_info(model: Model) -> CacheInfo:
    """Return the counts of the caches of a model's embedding layers, in sum."""
    states = [node.attrs["compiled"] for node in model.walk() if node._func is _embed]
    infos = [state.parts.cache_info() for state in states if state.parts]
    return CacheInfo(*(sum(counts) for counts in zip(CacheInfo(0, 0, 0), *infos, strict=True)))


def embedded_columns(model: Model) -> list[int]:
    """Return the attributes of tokens that a model's compiled layers embed."""
    extractors = (
        node.attrs["columns"]
        for layer in model.walk()
        if layer._func is _embed
        for node in layer.walk()
        if _is(node, extract)
    )
    return [intify_attr(column) for columns in extractors for column in columns]


class _Unsupported(ValueError):
    """A layer of the right kind that the kernels do not cover."""


def _check_finite(node: Model, name: str, where: str) -> None:
    if not node.ops.xp.isfinite(node.get_param(name)).all():
        raise ValueError(
            f"the parameter {name} of a {node.name} layer ({where}) is not finite. The training "
            "diverged, or the file of the model is damaged"
        )


def _is(node: Model, forward: Callable) -> bool:
    return node._func is forward


@dataclass
class _Maxout:
    """A Maxout with layer normalization and dropout: chain(chain(maxout, layernorm), dropout)."""

    maxout: Model
    norm: Model
    dropout: Model

    @classmethod
    def of(cls, node: Model) -> _Maxout | None:
        if not (_is(node, chain) and len(node.layers) == 2 and _is(node.layers[1], dropout)):
            return None
        inner = node.layers[0]
        if not (_is(inner, chain) and len(inner.layers) == 2):
            return None
        if not (_is(inner.layers[0], maxout) and _is(inner.layers[1], layernorm)):
            return None
        found = cls(inner.layers[0], inner.layers[1], node.layers[1])
        if (pieces := found.maxout.get_dim("nP")) not in (2, 3):
            raise _Unsupported(f"the kernels have 2 or 3 pieces, not {pieces}")
        return found

    @property
    def ready(self) -> bool:
        return self.maxout.has_param("W") is True and self.norm.has_param("G") is True

    def inc_grad(self, gradients: tuple[Any, ...]) -> None:
        for (node, name), gradient in zip(self.names(), gradients, strict=True):
            node.inc_grad(name, gradient)

    def names(self) -> list[tuple[Model, str]]:
        """Return the layers and names of the parameters, in the order of the kernels."""
        return [(self.maxout, "W"), (self.maxout, "b"), (self.norm, "G"), (self.norm, "b")]

    @property
    def rate(self) -> float:
        return self.dropout.attrs["dropout_rate"] if self.dropout.attrs["is_enabled"] else 0.0


@dataclass
class _Packed:
    """A packed copy of parameters, the fingerprint of these, and whether they are finite."""

    mark: int
    stack: kernels.Stack
    checked: bool = False


class _Compiled:
    """The parts of a compiled layer, and the packed copy of its parameters."""

    layers: list[_Maxout]
    window: int
    residual: bool
    _packed: _Packed | None = None

    @property
    def ready(self) -> bool:
        """Whether the layers have parameters."""
        return all(layer.ready for layer in self.layers)

    def stack(self, check: bool = True) -> kernels.Stack:
        """Return the packed parameters. `check` raises ValueError if one is not finite."""
        params: Any = [
            [node.get_param(name) for node, name in layer.names()] for layer in self.layers
        ]
        mark = kernels.fingerprint([array for layer in params for array in layer])
        packed = self._packed
        if packed is None or packed.mark != mark:
            try:
                stack = kernels.Stack(params, window=self.window, residual=self.residual)
            except ValueError as error:
                raise _Unsupported(str(error)) from error
            # One assignment, because several threads may predict.
            self._packed = packed = _Packed(mark, stack)
        if check and not packed.checked:
            self.check()
            packed.checked = True
        return packed.stack

    def check(self) -> None:
        """Raise ValueError if a parameter is not finite."""
        for i, layer in enumerate(self.layers):
            for node, name in layer.names():
                _check_finite(node, name, f"layer {i + 1} of {len(self.layers)}")

    def add_gradients(self, gradients: list[tuple[Any, ...]]) -> None:
        for layer, gradient in zip(self.layers, gradients, strict=True):
            layer.inc_grad(gradient)


class _Encoder(_Compiled):
    """A Maxout window encoder: with_array(chain(residual(chain(expand_window, Maxout)), ...))."""

    def __init__(self, layers: list[_Maxout], window: int):
        self.layers, self.window, self.residual = layers, window, True

    @classmethod
    def of(cls, node: Model) -> _Encoder | None:
        if node._func not in (_encode, with_array):
            return None
        inner = node.layers[0]
        blocks = inner.layers if _is(inner, chain) else [inner]
        layers, windows = [], set()
        for block in blocks:
            if not (_is(block, residual) and _is(block.layers[0], chain)):
                return None
            parts = block.layers[0].layers
            if len(parts) != 2 or not _is(parts[0], expand_window):
                return None
            if (found := _Maxout.of(parts[1])) is None:
                return None
            layers.append(found)
            windows.add(parts[0].attrs["window_size"])
        if len(windows) != 1:
            raise _Unsupported("its layers have windows of different sizes")
        window = windows.pop()
        if node.attrs["pad"] < window * len(layers):
            raise _Unsupported("its documents are padded by less than the receptive field")
        return cls(layers, window)


class _Embedding(_Compiled):
    """Hashed embeddings mixed by a Maxout: extractor, list2ragged, tables, Maxout, ragged2list."""

    def __init__(
        self, columns: list[int], tables: list[Model], vectors: Model | None, mix: _Maxout
    ):
        self.columns, self.tables, self.vectors = columns, tables, vectors
        self.layers, self.window, self.residual = [mix], 0, False
        self.lock = threading.Lock()
        self.cache: _Cache | None = None
        self.hits = self.misses = 0

    @classmethod
    def of(cls, node: Model) -> _Embedding | None:
        if node._func not in (_embed, chain) or len(node.layers) < 3:
            return None
        *first, mix, last = node.layers
        if not (_is(mix, with_array) and _is(last, ragged2list)):
            return None
        vectors = None
        if len(first) == 1 and _is(first[0], concatenate) and len(first[0].layers) == 2:
            extractor, vectors = first[0].layers
            if not (_is(extractor, chain) and _is(vectors, static_vectors)):
                return None
            first = extractor.layers
        if len(first) != 3 or not (_is(first[0], extract) and _is(first[1], list2ragged)):
            return None
        if not (_is(first[2], with_array) and (found := _Maxout.of(mix.layers[0]))):
            return None
        columns = [intify_attr(column) for column in first[0].attrs["columns"]]
        both = first[2].layers[0]
        tables = []
        for i, table in enumerate(both.layers if _is(both, concatenate) else [both]):
            if not (_is(table, chain) and len(table.layers) == 2):
                return None
            if not (_is(table.layers[0], array_getitem) and _is(table.layers[1], hashembed)):
                return None
            if table.attrs.get("column") != i:
                raise _Unsupported("its tables do not embed one attribute each, in order")
            tables.append(table.layers[1])
        if len(tables) != len(columns):
            raise _Unsupported("its tables do not embed one attribute each, in order")
        return cls(columns, tables, vectors, found)

    def features(self, docs: list[Any]) -> Any:
        """Return the attributes of all tokens, uint64 (N, attributes)."""
        columns = self.columns
        if self.vectors:
            columns = [*columns, _vectors_attribute(docs)]
        if isinstance(docs, DocBatch) and set(columns) <= set(docs.columns):
            return docs.values.take([docs.columns.index(column) for column in columns], axis=1)
        arrays = [
            doc.to_array(columns)
            if hasattr(doc, "to_array")
            else doc.doc.to_array(columns)[doc.start : doc.end]
            for doc in docs
        ]
        rows = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
        return np.ascontiguousarray(rows.reshape(-1, len(columns)), dtype="uint64")

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
            _check_finite(table, "E", f"table {i + 1} of {len(self.tables)}")

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
            cache = self.cache = _Cache(stack, arrays, rows.shape[1], width)
        numbers = cache.index.number(rows)
        new = len(cache.index) - cache.size
        if new:
            cache.add(self._mix(stack, cache.index.rows(cache.size), docs))
        self.hits += len(rows) - new
        self.misses += new
        if cache.size > cache_size:
            self.cache = None
        return cache.vectors.take(numbers, axis=0)

    def cache_info(self) -> CacheInfo:
        return CacheInfo(self.hits, self.misses, len(self.cache.index) if self.cache else 0)

    def _mix(self, stack: kernels.Stack, rows: Any, docs: list[Any]) -> Any:
        tables, _ = self.tables_of(rows, docs, False)
        return stack.predict(tables, np.array([len(rows)], "int32"))


class _Cache:
    """The embeddings of distinct rows of attributes, under one set of parameters."""

    def __init__(self, stack: kernels.Stack, tables: list[Any], attributes: int, width: int):
        self.stack, self._tables = stack, tables
        self._sample = kernels.fingerprint(tables, sample=True)
        self._mark = kernels.fingerprint(tables)
        self.index = kernels.DistinctRows(attributes)
        self.vectors = np.zeros((256, width), "float32")
        self.size = 0

    def has(self, tables: list[Any], learns: bool) -> bool:
        """Return whether the embeddings are of these tables.

        Thinc changes parameters in two ways: it sets new arrays, or an optimizer writes into arrays
        that have a gradient. Of other arrays only a sample is read, which notices code that changes
        whole tables in place. Reading all takes longer than the prediction of a short text.
        """
        if not learns and all(map(is_, tables, self._tables)):
            return kernels.fingerprint(tables, sample=True) == self._sample
        if kernels.fingerprint(tables) != self._mark:
            return False
        self._tables = tables
        return True

    def add(self, vectors: Any) -> None:
        """Append embeddings."""
        size = self.size + len(vectors)
        if size > len(self.vectors):
            grown = np.zeros((max(size, 2 * len(self.vectors)), vectors.shape[1]), "float32")
            grown[: self.size] = self.vectors[: self.size]
            self.vectors = grown
        self.vectors[self.size : size] = vectors
        self.size = size


class _Keys:
    """Keys of static vectors, in the form in which spaCy's StaticVectors reads documents."""

    def __init__(self, vocab: Any, keys: Any):
        self.vocab, self.keys = vocab, keys

    def __len__(self) -> int:
        return len(self.keys)

    def to_array(self, attribute: int) -> Any:
        return self.keys


def _vectors_attribute(docs: list[Any]) -> int:
    return getattr(docs[0].vocab.vectors, "attr", ORTH)


class CacheInfo(NamedTuple):
    """How many tokens had an embedding in the cache, how many had none, and its size in words."""

    hits: int
    misses: int
    size: int


class _State:
    """What a compiled layer keeps between calls. Copies, bytes and pickles of a model leave it out.

    Thinc's models cannot be keys of weak references, and bytes leave out attributes that msgpack
    does not know.
    """

    def __init__(self, cache_size: int):
        self.cache_size = cache_size
        self.parts: Any = None

    def __deepcopy__(self, memo: Any) -> _State:
        return _State(self.cache_size)

    def __reduce__(self) -> Any:
        return _State, (self.cache_size,)


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
    """Views of the rows of documents, and the array that has all rows.

    The encoder takes the array, because joining the views costs as much as a tenth of its time.
    """

    def __init__(self, rows: Any, lengths: list[int]):
        ends = list(accumulate(lengths))
        super().__init__([rows[end - n : end] for n, end in zip(lengths, ends, strict=True)])
        self._rows, self._views = rows, tuple(self)

    def join(self) -> Any:
        """Return all rows. Code between the layers may have put other arrays into the list."""
        if len(self) == len(self._views) and all(map(is_, self, self._views)):
            return self._rows
        return np.concatenate(self)


def _embed(model: Model, docs: list[Any], is_train: bool) -> tuple[list[Any], Callable]:
    """Embed documents: list of arrays (length, width)."""
    parts = _parts(model, _Embedding)
    lengths = [len(doc) for doc in docs]
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


def _encode(model: Model, xs: Any, is_train: bool) -> tuple[Any, Callable]:
    """Encode rows of documents in their context: list of arrays (length, width)."""
    parts = _parts(model, _Encoder) if isinstance(xs, (list, tuple)) else None
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
