"""`spacy-bcrf.SelfAttentiveEncoder.v1` and `spacy-bcrf.SelfAttention.v1`: self-attention."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from spacy.attrs import intify_attr  # type: ignore[import-not-found]
from spacy.ml.featureextractor import FeatureExtractor
from spacy.tokens import Doc
from thinc.api import (
    Dropout,
    HashEmbed,
    Model,
    PyTorchWrapper,
    add,
    chain,
    list2ragged,
    ragged2list,
    torch2xp,
    with_array,
    xp2torch,
)
from thinc.types import ArgsKwargs, Floats2d, Ragged

from bcrf.chain.potentials import check_least
from bcrf.io.extras import require


def SelfAttentiveEncoder(
    width: int = 768,
    depth: int = 2,
    *,
    heads: int = 8,
    feed_forward: int = 2048,
    positions: Literal["learned", "sinusoidal"] = "learned",
    window: int = 512,
    attrs: Sequence[str] = ("NORM", "PREFIX", "SUFFIX", "SHAPE"),
    rows: Sequence[int] = (5000, 1000, 2500, 2500),
) -> Model[list[Doc], list[Floats2d]]:
    """Encoder with self-attention over token embeddings, trained from scratch (Corro et al. 2025).

    width: width of the token vectors and embeddings.
    depth: number of layers. With 0 the token vectors are the embeddings, without positions.
    heads, feed_forward: attention heads and feed-forward width of a layer. heads must divide width.
    positions: position embeddings, added to the token embeddings.
    window: number of tokens that attend to one another, with positions of their own, see
        `torch_attention.split_into_windows`. Memory is linear in the length of a document.
    attrs, rows: token attributes, and the table size of each attribute's hashed embedding. The
        token embedding is the sum over attributes. Use ["ORTH"] if tokens are characters.

    The default sizes are the paper's. The training config sets the dropout rate. ImportError
    without PyTorch unless depth is 0. ValueError for an option out of range.
    """
    attention = _attention_layers(width, depth, heads, feed_forward, positions, window)
    embed = _make_embed(width, attrs, rows)
    model: Model[list[Doc], list[Floats2d]] = chain(embed, *attention, ragged2list())
    model.set_dim("nO", width)
    return model


def SelfAttention(
    width: int = 768,
    depth: int = 2,
    *,
    heads: int = 8,
    feed_forward: int = 2048,
    positions: Literal["learned", "sinusoidal"] = "learned",
    window: int = 512,
) -> Model[list[Floats2d], list[Floats2d]]:
    """Encoder with self-attention over the token vectors of any embedding (Corro et al. 2025).

    Use it as the `encode` of `spacy.Tok2Vec.v2`. Options: see `SelfAttentiveEncoder`.
    """
    attention = _attention_layers(width, depth, heads, feed_forward, positions, window)
    model: Model[list[Floats2d], list[Floats2d]] = chain(list2ragged(), *attention, ragged2list())
    model.set_dim("nO", width)
    return model


def _attention_layers(
    width: int, depth: int, heads: int, feed_forward: int, positions: Any, window: int
) -> list[Model[Ragged, Ragged]]:
    """Return the network, [] for depth 0. ValueError if an option is out of range."""
    if positions not in ("learned", "sinusoidal"):
        raise ValueError(f"positions must be learned or sinusoidal, got {positions!r}")
    check_least(1, width=width, heads=heads, feed_forward=feed_forward, window=window)
    check_least(0, depth=depth)
    if depth and width % heads:
        raise ValueError(f"heads must divide width = {width}, got {heads}")
    if depth == 0:
        return []
    require("torch", "torch")
    from .torch_attention import AttentionNetwork as Network

    network = Network(width, depth, heads, feed_forward, positions, window)
    model = PyTorchWrapper(network, _convert_inputs, _convert_outputs)
    model.set_dim("nI", width)
    model.set_dim("nO", width)
    # spaCy sets this attribute to the dropout rate of the training config.
    model.attrs["dropout_rate"] = 0.0
    return [model]


def _make_embed(width: int, attrs: Sequence[str], rows: Sequence[int]) -> Model[list[Doc], Ragged]:
    if not attrs or len(attrs) != len(rows):
        raise ValueError(
            f"rows must have a number for each of attrs, got {list(rows)} for {list(attrs)}"
        )
    if unknown := [name for name in attrs if intify_attr(name) is None]:
        raise ValueError(f"attrs must be token attributes such as NORM, got {unknown[0]!r}")
    check_least(1, rows=min(rows))
    # Fixed seeds keep the meaning of a row after loading.
    tables: list[Model] = [
        HashEmbed(width, n_rows, column=column, seed=column + 8)
        for column, n_rows in enumerate(rows)
    ]
    embed: Model[list[Doc], Ragged] = chain(
        FeatureExtractor(list(attrs)),
        list2ragged(),
        with_array(chain(add(*tables) if len(tables) > 1 else tables[0], Dropout())),
    )
    return embed


def _convert_inputs(model: Model, X: Ragged, is_train: bool) -> tuple[ArgsKwargs, Callable]:
    shim: Any = model.shims[0]
    shim._model.set_dropout(model.attrs["dropout_rate"])
    tensor = xp2torch(X.dataXd, requires_grad=is_train, device=shim.device)

    def backprop(d_inputs: ArgsKwargs) -> Ragged:
        return Ragged(torch2xp(d_inputs.args[0]), X.lengths)

    return ArgsKwargs((tensor, X.lengths.tolist()), {}), backprop


def _convert_outputs(model: Model, X_Y: tuple[Ragged, Any], is_train: bool) -> Any:
    X, tensor = X_Y

    def backprop(dY: Ragged) -> ArgsKwargs:
        d_tensor = xp2torch(dY.dataXd, device=tensor.device)
        return ArgsKwargs(((tensor,),), {"grad_tensors": d_tensor})

    return Ragged(torch2xp(tensor), X.lengths), backprop
