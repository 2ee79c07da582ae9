"""spaCy's CNN architectures with compiled kernels: the same options, parameters and outputs."""

from spacy.ml.models import tok2vec
from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats2d

from .compiled import CACHE_SIZE, compile_layers, warn_of_precision


def MultiHashEmbed(
    width: int,
    attrs: list[str | int],
    rows: list[int],
    include_static_vectors: bool = False,
    cache_size: int = CACHE_SIZE,
) -> Model[list[Doc], list[Floats2d]]:
    """spaCy's `MultiHashEmbed.v2` with compiled kernels, by default without static vectors.

    cache_size: number of words, distinct by attributes, whose embeddings stay between predictions.
    """
    model = tok2vec.MultiHashEmbed(width, attrs, rows, include_static_vectors)
    compile_layers(model, cache_size)
    return model


def MaxoutWindowEncoder(
    width: int,
    window_size: int = 1,
    maxout_pieces: int = 3,
    depth: int = 4,
    precision: str = "float32",
) -> Model[list[Floats2d], list[Floats2d]]:
    """spaCy's `MaxoutWindowEncoder.v2`, compiled for 2 or 3 pieces. precision: without effect."""
    warn_of_precision(precision)
    model = tok2vec.MaxoutWindowEncoder(width, window_size, maxout_pieces, depth)
    compile_layers(model)
    return model


def HashEmbedCNN(
    *,
    width: int,
    depth: int,
    embed_size: int,
    window_size: int,
    maxout_pieces: int,
    subword_features: bool,
    pretrained_vectors: bool | None,
    cache_size: int = CACHE_SIZE,
    precision: str = "float32",
) -> Model[list[Doc], list[Floats2d]]:
    """spaCy's `HashEmbedCNN.v2`, compiled. cache_size, precision: see the other functions."""
    warn_of_precision(precision)
    model = tok2vec.build_hash_embed_cnn_tok2vec(
        width=width,
        depth=depth,
        embed_size=embed_size,
        window_size=window_size,
        maxout_pieces=maxout_pieces,
        subword_features=subword_features,
        pretrained_vectors=pretrained_vectors,
    )
    compile_layers(model, cache_size)
    return model
