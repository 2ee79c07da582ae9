"""`spacy-bcrf.CharConvEmbed.v1`: embeddings of words and of their convolved characters."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc
from thinc.api import (
    Dropout,
    HashEmbed,
    Model,
    Ragged,
    Relu,
    chain,
    expand_window,
    reduce_max,
    with_array,
)
from thinc.types import Floats2d

from bcrf.chain.potentials import check_least

InT = list[Doc]
OutT = list[Floats2d]

# Control characters that mark the boundaries of a word: filters tell prefixes and suffixes from
# characters inside of a word.
_START, _END = "\x02", "\x03"


def CharConvEmbed(
    width: int = 768,
    *,
    rows: int = 10_000,
    filters: int = 128,
    char_width: int = 64,
    char_rows: int = 1000,
    window: int = 1,
    max_chars: int = 64,
) -> Model[InT, OutT]:
    """Embed each token by its word and by a convolution over its characters.

    A token's vector is the word's embedding, followed by the maxima over the word's characters of
    `filters` convolution filters (ReLU), as in Corro et al. (2025, Appendix I). Only the `width` of
    the vectors is the paper's. Use it as the `embed` of `spacy.Tok2Vec.v2`.

    rows, char_rows: table sizes of the hashed embeddings of words (ORTH) and characters.
    char_width: width of the character embeddings. window: neighbouring characters on each side that
    a filter sees. max_chars: a longer word keeps its first and last characters, max_chars in all.
    The training config sets the dropout rate. ValueError for an option out of range. O(C filters
    char_width window) time for the C characters of the distinct words.
    """
    check_least(1, rows=rows, filters=filters, char_width=char_width, char_rows=char_rows)
    check_least(1, window=window, max_chars=max_chars)
    if width <= filters:
        raise ValueError(f"width must be larger than filters = {filters}, got {width}")
    # Fixed seeds keep the meaning of a row after loading.
    words: Model = HashEmbed(width - filters, rows, seed=8)
    characters: Model = chain(
        with_array(HashEmbed(char_width, char_rows, seed=9)),
        expand_window(window),
        with_array(Relu(filters, (2 * window + 1) * char_width)),
        reduce_max(),
    )
    return Model(
        "char_conv_embed",
        forward,
        init=init,
        dims={"nO": width},
        layers=[words, characters, Dropout()],
        attrs={"max_chars": max_chars},
    )


def forward(model: Model[InT, OutT], docs: InT, is_train: bool) -> tuple[OutT, Callable]:
    """Return the vectors of all tokens and the function that backpropagates their gradient."""
    ops: Any = model.ops
    words, characters, dropout = model.layers
    lengths = [len(doc) for doc in docs]
    if not any(lengths):
        # HashEmbed cannot backpropagate an empty batch.
        return [ops.alloc2f(0, model.get_dim("nO")) for _ in docs], lambda dY: []
    orths, texts, word_of_token = _distinct_words(docs, lengths)
    word_of_token = ops.asarray(word_of_token)
    from_words, backprop_words = words(ops.asarray(orths), is_train)
    ids = _character_ids(ops, texts, model.attrs["max_chars"])
    from_characters, backprop_characters = characters(ids, is_train)
    vectors = ops.xp.hstack([from_words, from_characters])
    Y, backprop_dropout = dropout(vectors[word_of_token], is_train)

    def backprop(dY: OutT) -> InT:
        d_vectors = ops.xp.zeros_like(vectors)
        ops.scatter_add(d_vectors, word_of_token, backprop_dropout(ops.flatten(dY)))
        width = from_words.shape[1]
        backprop_words(ops.as_contig(d_vectors[:, :width]))
        backprop_characters(ops.as_contig(d_vectors[:, width:]))
        return []

    return ops.unflatten(Y, lengths), backprop


def init(model: Model[InT, OutT], X: InT | None = None, Y: Any = None) -> None:
    for layer in model.layers:
        layer.initialize()


def _distinct_words(
    docs: InT, lengths: Sequence[int]
) -> tuple[NDArray[np.uint64], list[str], NDArray[np.int32]]:
    """Return the ids (ORTH) and texts of the distinct words, and the word of each token."""
    tokens = np.concatenate([doc.to_array("ORTH") for doc in docs])
    orths, first, word_of_token = np.unique(tokens, return_index=True, return_inverse=True)
    # Documents of a batch may have different vocabularies.
    doc_of_word = np.searchsorted(np.cumsum(lengths), first, side="right").tolist()
    pairs = zip(doc_of_word, orths.tolist(), strict=True)
    texts = [docs[i].vocab.strings[orth] for i, orth in pairs]
    return orths, texts, word_of_token.astype("int32")


def _character_ids(ops: Any, texts: list[str], max_chars: int) -> Ragged:
    """Return the code points of each word between the marks of its start and end."""
    tail = max_chars // 2
    cuts = [(max_chars - tail, len(text) - tail) for text in texts]
    cut = [
        x if len(x) <= max_chars else x[:a] + x[b:] for x, (a, b) in zip(texts, cuts, strict=True)
    ]
    marked = [f"{_START}{text}{_END}" for text in cut]
    codes = np.frombuffer("".join(marked).encode("utf-32-le"), dtype="<u4")
    lengths = ops.asarray1i([len(text) for text in marked])
    return Ragged(ops.asarray(codes.astype("uint64")), lengths)
