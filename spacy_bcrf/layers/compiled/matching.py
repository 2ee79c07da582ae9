"""Recognition of spaCy's CNN in a model, by the functions of Thinc's layers.

A match returns the parts of a layer, None for a layer of another kind, or raises `Unsupported`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from spacy.attrs import intify_attr  # type: ignore[import-not-found]
from spacy.ml.featureextractor import forward as extract
from spacy.ml.models import MaxoutWindowEncoder, MultiHashEmbed
from spacy.ml.staticvectors import forward as static_vectors
from thinc.api import Model
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


class Unsupported(ValueError):
    """A layer of the right kind that the kernels do not cover."""


def is_layer(node: Model, forward: Callable) -> bool:
    """Return whether a layer runs one of Thinc's functions."""
    return node._func is forward


def is_chain(node: Model, length: int) -> bool:
    """Return whether a layer is a chain of so many layers."""
    return is_layer(node, chain) and len(node.layers) == length


@dataclass
class MaxoutBlock:
    """A Maxout with layer normalization and dropout: chain(chain(maxout, layernorm), dropout)."""

    maxout: Model
    norm: Model
    dropout: Model

    @property
    def ready(self) -> bool:
        """Whether the layers have parameters."""
        return self.maxout.has_param("W") is True and self.norm.has_param("G") is True

    def inc_grad(self, gradients: tuple[Any, ...]) -> None:
        """Add gradients of the parameters, in the order of `names`."""
        for (node, name), gradient in zip(self.names(), gradients, strict=True):
            node.inc_grad(name, gradient)

    def names(self) -> list[tuple[Model, str]]:
        """Return the layers and names of the parameters, in the order of the kernels."""
        return [(self.maxout, "W"), (self.maxout, "b"), (self.norm, "G"), (self.norm, "b")]

    @property
    def rate(self) -> float:
        """The dropout rate, 0 if dropout is off."""
        return self.dropout.attrs["dropout_rate"] if self.dropout.attrs["is_enabled"] else 0.0


def _match_maxout(node: Model) -> MaxoutBlock | None:
    if not (is_chain(node, 2) and is_layer(node.layers[1], dropout)):
        return None
    inner = node.layers[0]
    if not (is_chain(inner, 2) and is_layer(inner.layers[0], maxout)):
        return None
    if not is_layer(inner.layers[1], layernorm):
        return None
    found = MaxoutBlock(inner.layers[0], inner.layers[1], node.layers[1])
    if (pieces := found.maxout.get_dim("nP")) not in (2, 3):
        raise Unsupported(f"the kernels have 2 or 3 pieces, not {pieces}")
    return found


class EncoderParts(NamedTuple):
    """A Maxout window encoder: with_array(chain(residual(chain(expand_window, Maxout)), ...))."""

    layers: list[MaxoutBlock]
    window: int


def match_encoder(node: Model) -> EncoderParts | None:
    """Return the parts of a Maxout window encoder. node: a `with_array`."""
    inner = node.layers[0]
    blocks = inner.layers if is_layer(inner, chain) else [inner]
    layers, windows = [], set()
    for block in blocks:
        if not (is_layer(block, residual) and is_layer(block.layers[0], chain)):
            return None
        parts = block.layers[0].layers
        if len(parts) != 2 or not is_layer(parts[0], expand_window):
            return None
        if (found := _match_maxout(parts[1])) is None:
            return None
        layers.append(found)
        windows.add(parts[0].attrs["window_size"])
    if len(windows) != 1:
        raise Unsupported("its layers have windows of different sizes")
    window = windows.pop()
    if node.attrs["pad"] < window * len(layers):
        raise Unsupported("its documents are padded by less than the receptive field")
    return EncoderParts(layers, window)


class EmbeddingParts(NamedTuple):
    """Hashed embeddings mixed by a Maxout: extractor, list2ragged, tables, Maxout, ragged2list.

    columns: the attributes of tokens. vectors: a layer of static vectors, None without.
    """

    columns: list[int]
    tables: list[Model]
    vectors: Model | None
    mix: MaxoutBlock


def match_embedding(node: Model) -> EmbeddingParts | None:
    """Return the parts of hashed embeddings. node: a `chain`."""
    if len(node.layers) < 3:
        return None
    *first, mix, last = node.layers
    if not (is_layer(mix, with_array) and is_layer(last, ragged2list)):
        return None
    vectors = None
    if len(first) == 1 and is_layer(first[0], concatenate) and len(first[0].layers) == 2:
        extractor, vectors = first[0].layers
        if not (is_layer(extractor, chain) and is_layer(vectors, static_vectors)):
            return None
        first = extractor.layers
    if len(first) != 3 or not (is_layer(first[0], extract) and is_layer(first[1], list2ragged)):
        return None
    if not (is_layer(first[2], with_array) and (found := _match_maxout(mix.layers[0]))):
        return None
    columns = [intify_attr(column) for column in first[0].attrs["columns"]]
    both = first[2].layers[0]
    tables = []
    for i, table in enumerate(both.layers if is_layer(both, concatenate) else [both]):
        if not is_chain(table, 2):
            return None
        if not (is_layer(table.layers[0], array_getitem) and is_layer(table.layers[1], hashembed)):
            return None
        if table.attrs.get("column") != i:
            raise Unsupported("its tables do not embed one attribute each, in order")
        tables.append(table.layers[1])
    if len(tables) != len(columns):
        raise Unsupported("its tables do not embed one attribute each, in order")
    return EmbeddingParts(columns, tables, vectors, found)


@cache
def recognizes_thinc() -> bool:
    """Return whether the CNN that the installed spaCy and Thinc build is recognized."""
    embed = MultiHashEmbed(4, ["ORTH", "SHAPE"], [2, 2], include_static_vectors=False)
    encode = MaxoutWindowEncoder(4, 1, 3, 2)
    return match_embedding(embed) is not None and match_encoder(encode) is not None
