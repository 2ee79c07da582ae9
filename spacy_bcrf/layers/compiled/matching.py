"""Recognition of spaCy's CNN in a model, by the functions of Thinc's layers.

A match returns the parts of a layer, None for another kind, or raises `Unsupported`.
"""

from dataclasses import dataclass
from functools import cache

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


def shape(node: Model) -> tuple:
    """Return the functions of a layer and of all layers within."""
    return (node._func, *map(shape, node.layers))


MAXOUT = (chain, (chain, (maxout,), (layernorm,)), (dropout,))
WINDOW = (residual, (chain, (expand_window,), MAXOUT))
TABLE = (chain, (array_getitem,), (hashembed,))


@dataclass
class MaxoutBlock:
    """A Maxout with layer normalization and dropout, of the shape MAXOUT."""

    maxout: Model
    norm: Model
    dropout: Model

    @classmethod
    def of(cls, node: Model) -> "MaxoutBlock":
        inner, dropout = node.layers
        maxout, norm = inner.layers
        found = cls(maxout, norm, dropout)
        if (pieces := found.maxout.get_dim("nP")) not in (2, 3):
            raise Unsupported(f"the kernels have 2 or 3 pieces, not {pieces}")
        return found

    @property
    def ready(self) -> bool:
        return self.maxout.has_param("W") is True and self.norm.has_param("G") is True

    @property
    def params(self) -> list[tuple[Model, str]]:
        return [(self.maxout, "W"), (self.maxout, "b"), (self.norm, "G"), (self.norm, "b")]

    @property
    def rate(self) -> float:
        return self.dropout.attrs["dropout_rate"] if self.dropout.attrs["is_enabled"] else 0.0


def match_encoder(node: Model) -> tuple[list[MaxoutBlock], int] | None:
    """Return the layers of a Maxout window encoder, and its window. node: a `with_array`."""
    inner = node.layers[0]
    blocks = inner.layers if inner._func is chain else [inner]
    if any(shape(block) != WINDOW for block in blocks):
        return None
    windows, layers = zip(*(block.layers[0].layers for block in blocks), strict=True)
    found = [MaxoutBlock.of(layer) for layer in layers]
    sizes = {window.attrs["window_size"] for window in windows}
    if len(sizes) != 1:
        raise Unsupported("its layers have windows of different sizes")
    size = sizes.pop()
    if node.attrs["pad"] < size * len(found):
        raise Unsupported("its documents are padded by less than the receptive field")
    return found, size


EmbeddingParts = tuple[list[int], list[Model], Model | None, MaxoutBlock]
"""Columns of tokens, their tables, static vectors or None, and the Maxout that mixes all."""


def match_embedding(node: Model) -> EmbeddingParts | None:
    """Return the parts of hashed embeddings. node: a `chain`."""
    if len(node.layers) < 3:
        return None
    *first, mix, last = node.layers
    if shape(mix) != (with_array, MAXOUT) or shape(last) != (ragged2list,):
        return None
    vectors = None
    if first[0]._func is concatenate and len(first[0].layers) == 2:
        extractor, vectors = first[0].layers
        if extractor._func is not chain or shape(vectors) != (static_vectors,):
            return None
        first = [*extractor.layers, *first[1:]]
    if [layer._func for layer in first] != [extract, list2ragged, with_array]:
        return None
    both = first[2].layers[0]
    tables = both.layers if both._func is concatenate else [both]
    if any(shape(table) != TABLE for table in tables):
        return None
    columns = [intify_attr(column) for column in first[0].attrs["columns"]]
    if [table.attrs.get("column") for table in tables] != list(range(len(columns))):
        raise Unsupported("its tables do not embed one attribute each, in order")
    layers = [table.layers[1] for table in tables]
    return columns, layers, vectors, MaxoutBlock.of(mix.layers[0])


@cache
def recognizes_thinc() -> bool:
    """Return whether the CNN that the installed spaCy and Thinc build is recognized."""
    embed = MultiHashEmbed(4, ["ORTH", "SHAPE"], [2, 2], include_static_vectors=False)
    encode = MaxoutWindowEncoder(4, 1, 3, 2)
    return match_embedding(embed) is not None and match_encoder(encode) is not None
