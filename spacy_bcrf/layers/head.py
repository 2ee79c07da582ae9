"""What all heads share: token vectors in, potentials out, under constraints on the tags."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from thinc.api import Model
from thinc.types import Floats2d

from spacy_bcrf.annotation.label_resize import extend_rows, extend_square, matching_tags
from spacy_bcrf.chain import Potentials
from spacy_bcrf.kernels import Array

from .pairwise import Pairwise
from .protocol import Objective, output_attrs

Transitions = Literal["shared", "pairwise"]
"""Whether all pairs of neighbouring tokens have the same transition scores, or each has its own by
a small network, see `Pairwise`: O(N T^2) memory, with gradients and marginals several times over.
"""

InT = list[Floats2d]
OutT = Potentials


def make_head(
    name: str,
    objective: Objective,
    decoder: str,
    nO: int | None,
    nI: int | None,
    transitions: Transitions,
    transition_width: int,
    scale: float = 1.0,
) -> Model[InT, OutT]:
    """Tag scores linear in the token's vector; transition, start and end scores for all tokens.

    Parameters: W (nO, nI), b (nO,), transitions (nO, nO) `[from, to]`, start (nO,), end (nO,).
    Attributes, of which `tags` and `scale` are saved, since they say what the parameters mean;
    the others are as the config and the component say.
    objective: gives loss and gradient of the potentials that come out.
    decoder: turns them into tag ids.
    transitions: whether a `Pairwise` layer adds to the transition scores for all tokens.
    transition_width: of its hidden layer.
    scale: the potentials are the scores times this.
    constraints: `Constraints` or None. What they forbid is -inf in the potentials, so it has no
        probability, no gradient and no place in any decoder's output.
    tags: the names of the nO tags, or None.
    """
    # A config says inf and "2" by strings.
    scale = float(scale)
    if not 0 < scale < float("inf"):
        raise ValueError(f"scale must be positive and finite, got {scale}")
    if transitions not in ("shared", "pairwise"):
        raise ValueError(f"transitions must be shared or pairwise, got {transitions!r}")
    if transition_width < 1:
        raise ValueError(f"transition_width must be at least 1, got {transition_width}")
    layers = [Pairwise(transition_width)] if transitions == "pairwise" else []
    attrs = output_attrs(objective, decoder, scale=scale)
    return _make_model(name, {"nO": nO, "nI": nI}, attrs, layers)


def forward(model: Model[InT, OutT], X: InT, is_train: bool) -> tuple[OutT, Callable]:
    ops: Any = model.ops
    scale = model.attrs["scale"]
    lengths = np.array([len(x) for x in X], dtype="int32")
    starts, ends = (ops.asarray(tokens) for tokens in _boundaries(lengths))
    allowed = _allowed(model)
    X_flat = ops.flatten(X)
    W = model.get_param("W")
    unary = ops.affine(X_flat, W, model.get_param("b"))
    unary[starts] += _restricted(model, "start", allowed)
    unary[ends] += _restricted(model, "end", allowed)
    transitions = _restricted(model, "transitions", allowed)
    if model.layers:
        shared = transitions
        transitions, backprop_pairwise = model.layers[0](X_flat, is_train)
        transitions += shared
    unary *= scale
    # In place, unless it is the parameter itself.
    transitions = ops.xp.multiply(transitions, scale, out=transitions if model.layers else None)

    def backprop(d_potentials: OutT) -> InT:
        if scale != 1:
            d_potentials = d_potentials.scale(scale)
        d_unary, d_transitions = d_potentials.unary, d_potentials.transitions
        dX = ops.gemm(d_unary, W)
        if model.layers:
            dX += backprop_pairwise(d_transitions)
            d_transitions = d_transitions.sum(axis=0)
        gradients = {
            "start": d_unary[starts].sum(axis=0),
            "end": d_unary[ends].sum(axis=0),
            "transitions": d_transitions,
        }
        for name, gradient in gradients.items():
            model.inc_grad(name, gradient * allowed[name] if name in allowed else gradient)
        model.inc_grad("b", d_unary.sum(axis=0))
        model.inc_grad("W", ops.gemm(d_unary, X_flat, trans1=True))
        return ops.unflatten(dX, lengths)

    return Potentials.unchecked(unary, transitions, ops.asarray(lengths)), backprop


def init(model: Model[InT, OutT], X: InT | None = None, Y: Any = None) -> None:
    if X is not None and model.has_dim("nI") is None:
        model.set_dim("nI", X[0].shape[1])
    nO, nI = model.get_dim("nO"), model.get_dim("nI")
    shapes = {"W": (nO, nI), "b": (nO,), "transitions": (nO, nO), "start": (nO,), "end": (nO,)}
    # Zeros, as in spaCy's other token classifiers: no tag is preferred before any was seen.
    for name, shape in shapes.items():
        model.set_param(name, model.ops.alloc(shape, dtype="float32"))
    for layer in model.layers:
        layer.set_dim("nO", nO, force=True)
        layer.set_dim("nI", nI)
        layer.initialize()


def resize_head(model: Model[InT, OutT], nO: int, tags_per_label: int = 1) -> Model[InT, OutT]:
    """A head with nO tags, the new ones last; what it has learned of the others stays.

    New tags start out as the mean, over the old labels, of the tags that play the same part. So a
    labeling with a new label scores the mean of those with an old one in its place, and is not the
    best before it is trained.

    It is a new layer if there are parameters to resize, since an optimizer keeps what it knows of
    them by layer. ValueError for fewer tags than there are.
    """
    old = model.maybe_get_dim("nO")
    matching = matching_tags(model.name, nO if old is None else old, nO, tags_per_label)
    if not len(matching) or not model.has_param("W"):
        model.set_dim("nO", nO, force=True)
        return model
    nI, xp = model.get_dim("nI"), model.ops.xp
    matching = xp.asarray(matching)
    layers = [Pairwise(layer.get_dim("nH"), nO, nI) for layer in model.layers]
    new = _make_model(model.name, {"nO": nO, "nI": nI}, dict(model.attrs), layers)
    for name in model.param_names:
        extend = extend_square if name == "transitions" else extend_rows
        new.set_param(name, extend(xp, model.get_param(name), matching))
    for old_layer, layer in zip(model.layers, layers, strict=True):
        for name in old_layer.param_names:
            value = old_layer.get_param(name)
            layer.set_param(name, extend_square(xp, value, matching) if name == "V" else value)
    for node in new.walk():
        node.ops = model.ops
    return new


def _make_model(
    name: str, dims: dict[str, int | None], attrs: dict[str, Any], layers: list[Model]
) -> Model[InT, OutT]:
    params = dict.fromkeys(("W", "b", "transitions", "start", "end"))
    return Model(name, forward, init=init, dims=dims, params=params, attrs=attrs, layers=layers)


def _boundaries(lengths: NDArray[np.int32]) -> tuple[NDArray, NDArray]:
    """First and last flat tokens of the sequences that are not empty."""
    lengths = lengths[lengths > 0]
    ends = lengths.cumsum() - 1
    return ends + 1 - lengths, ends


def _allowed(model: Model) -> dict[str, Array]:
    """The constraints by parameter, on the model's device; none if there are none."""
    constraints = model.attrs["constraints"]
    if constraints is None:
        return {}
    ops: Any = model.ops
    return {name: ops.asarray(mask) for name, mask in vars(constraints).items()}


def _restricted(model: Model, name: str, allowed: dict[str, Array]) -> Array:
    """A parameter with -inf wherever it is not allowed."""
    value: Array = model.get_param(name)
    if name not in allowed:
        return value
    return model.ops.xp.where(allowed[name], value, value.dtype.type("-inf"))
