"""The layer behind every head: token vectors to potentials under hard constraints."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from thinc.api import Model, Relu
from thinc.types import Floats2d

from bcrf.chain import Potentials, label_resize
from bcrf.chain.potentials import boundaries, check_least, check_numbers, check_positive
from bcrf.chain.side_by_side import join_chains, split_chains
from bcrf.kernels import Array

from .pairwise import Pairwise
from .protocol import Objective, output_attrs

Transitions = Literal["shared", "pairwise"]
"""All edges share the transition scores, or `Pairwise` adds scores of each edge to them.

"pairwise" takes O(N T^2) memory, and several times that with gradients and marginals.
"""

# Names of the layers that a head may have, in this order.
_PAIRWISE, _HIDDEN = "pairwise", "relu"

InT = list[Floats2d]
OutT = Potentials


def make_head(
    name: str,
    objective: Objective,
    nO: int | None = None,
    nI: int | None = None,
    *,
    decoder: str = "viterbi",
    transitions: Transitions = "shared",
    transition_width: int = 64,
    hidden_width: int = 0,
    scale: float = 1.0,
) -> Model[InT, OutT]:
    """Head that maps token vectors (N, nI) to potentials of nO tags. All heads share its options.

    A tag's score is linear in the token's vector, or in a hidden layer over it. Start, end and
    transition scores are added. Parameters: W (nO, nI), or (nO, hidden_width); b, start, end (nO,);
    transitions (nO, nO) `[from, to]`. C chains side by side, see `chain.side_by_side`, share
    transitions (nO / C, nO / C).

    name: name of the layer. objective: objective of training. nO, nI: number of tags and width of
        the token vectors; None infers them. decoder: see `decoding.DECODERS`.
    transitions: "shared" or "pairwise"; "pairwise" adds the scores of a `Pairwise` layer.
    transition_width: width of the hidden layer of `Pairwise`.
    hidden_width: width of a hidden layer (ReLU) that scores tags, as the multilayer perceptron of
        Corro et al. (2025) does; 0 for linear tag scores.
    scale: factor from scores to potentials.

    The model has the attributes of `output_attrs` and `scale`. What its `constraints` forbid has
    potential -inf, and no decoder emits it. ValueError for an option out of range.
    """
    # A config can hold numbers as strings, such as "inf".
    scale = float(scale)
    check_positive(scale=scale)
    if transitions not in ("shared", "pairwise"):
        raise ValueError(f"transitions must be shared or pairwise, got {transitions!r}")
    check_least(1, transition_width=transition_width)
    check_numbers(hidden_width=hidden_width)
    if hidden_width < 0:
        raise ValueError(f"hidden_width must be 0 (no hidden layer) or more, got {hidden_width}")
    layers: list[Model] = [Pairwise(transition_width)] if transitions == "pairwise" else []
    if hidden_width:
        layers.append(Relu(hidden_width))
    attrs = output_attrs(objective, decoder, scale=scale)
    return _make_model(name, {"nO": nO, "nI": nI}, attrs, layers)


def forward(model: Model[InT, OutT], X: InT, is_train: bool) -> tuple[OutT, Callable]:
    """Return the potentials of a batch and the function that backpropagates their gradient."""
    ops: Any = model.ops
    scale = model.attrs["scale"]
    lengths = np.array([len(x) for x in X], dtype="int32")
    masks = _masks(model)
    scores: list[Array] = [model.get_param(name) for name in ("start", "end", "transitions")]
    if masks:
        forbidden = scores[0].dtype.type("-inf")
        kept = (masks[name] for name in ("start", "end", "transitions"))
        scores = [ops.xp.where(mask, x, forbidden) for mask, x in zip(kept, scores, strict=True)]
    start, end, transitions = scores
    layers = _layers_by_name(model)
    X_flat = ops.flatten(X)
    inputs, backprop_hidden = X_flat, None
    if _HIDDEN in layers:
        inputs, backprop_hidden = layers[_HIDDEN](X_flat, is_train)
    W = model.get_param("W")
    unary = ops.affine(inputs, W, model.get_param("b"))
    starts, ends = (ops.asarray(tokens) for tokens in boundaries(lengths))
    n_chains = len(W) // len(transitions)
    unary[starts] += start
    unary[ends] += end
    backprop_pairwise = None
    if _PAIRWISE in layers:
        shared = transitions
        transitions, backprop_pairwise = layers[_PAIRWISE](X_flat, is_train)
        transitions += shared
    unary *= scale
    # Scale in place, unless the array is the parameter itself.
    out = transitions if backprop_pairwise else None
    transitions = ops.xp.multiply(transitions, scale, out=out)

    def backprop(d_potentials: OutT) -> InT:
        if scale != 1:
            d_potentials = d_potentials.scale(scale)
        d_unary = join_chains(d_potentials.unary, lengths, n_chains, ops.xp)
        d_transitions = d_potentials.transitions
        dX = ops.gemm(d_unary, W)
        if backprop_hidden:
            dX = backprop_hidden(dX)
        if backprop_pairwise:
            shape = (n_chains, *d_transitions.shape[1:])
            by_edge = join_chains(d_transitions, lengths, n_chains, ops.xp).reshape(-1, *shape)
            dX += backprop_pairwise(by_edge.sum(axis=1))
            d_transitions = d_transitions.sum(axis=0)
        gradients = {
            "start": d_unary[starts].sum(axis=0),
            "end": d_unary[ends].sum(axis=0),
            "transitions": d_transitions,
        }
        for name, gradient in gradients.items():
            model.inc_grad(name, gradient * masks[name] if name in masks else gradient)
        model.inc_grad("b", d_unary.sum(axis=0))
        model.inc_grad("W", ops.gemm(d_unary, inputs, trans1=True))
        return ops.unflatten(dX, lengths)

    return split_chains(unary, transitions, lengths, n_chains, ops.xp), backprop


def init(model: Model[InT, OutT], X: InT | None = None, Y: Any = None) -> None:
    """Set all parameters to zero, as spaCy's token classifiers do, so that no tag is preferred."""
    if X is not None and model.has_dim("nI") is None:
        model.set_dim("nI", X[0].shape[1])
    nO, nI = model.get_dim("nO"), model.get_dim("nI")
    layers = _layers_by_name(model)
    for name, shape in param_shapes(model).items():
        model.set_param(name, model.ops.alloc(shape, dtype="float32"))
    if _PAIRWISE in layers:
        layers[_PAIRWISE].set_dim("nO", nO // model.attrs.get("n_chains", 1), force=True)
    for layer in model.layers:
        layer.set_dim("nI", nI)
        layer.initialize()


def param_shapes(model: Model[InT, OutT]) -> dict[str, tuple[int, ...]]:
    nO, width, layers = model.get_dim("nO"), model.get_dim("nI"), _layers_by_name(model)
    if _HIDDEN in layers:
        width = layers[_HIDDEN].get_dim("nO")
    n_states = nO // model.attrs.get("n_chains", 1)  # none for one chain
    shapes = {"W": (nO, width), "b": (nO,), "transitions": (n_states, n_states)}
    return {**shapes, "start": (nO,), "end": (nO,)}


def resize_head(
    model: Model[InT, OutT], nO: int, tags_per_label: int = 1, n_chains: int = 1
) -> Model[InT, OutT]:
    """Return a head with nO tags that keeps the parameters of the old tags. New tags come last.

    n_chains: of chains side by side, whose tags are new. Initial parameters: `chain.label_resize`.
    A head with parameters becomes a new layer, because an optimizer keeps its state by layer.
    ValueError if nO is smaller than the number of tags.
    """
    old = model.maybe_get_dim("nO")
    matching = label_resize.matching_tags(
        model.name, nO if old is None else old, nO, tags_per_label
    )
    if n_chains > 1:
        model.attrs["n_chains"] = n_chains
    if not len(matching) or not model.has_param("W"):
        model.set_dim("nO", nO, force=True)
        return model
    nI, xp = model.get_dim("nI"), model.ops.xp
    matching = xp.asarray(matching)
    layers = _layers_by_name(model)
    if _PAIRWISE in layers and n_chains == 1:
        old_pairwise = layers[_PAIRWISE]
        pairwise = layers[_PAIRWISE] = Pairwise(old_pairwise.get_dim("nH"), nO, nI)
        for name in old_pairwise.param_names:
            value = old_pairwise.get_param(name)
            pairwise.set_param(
                name, label_resize.extend_square(xp, value, matching) if name == "V" else value
            )
    # The hidden layer has no parameters by tag. It stays, with its state in the optimizer.
    new = _make_model(model.name, {"nO": nO, "nI": nI}, dict(model.attrs), list(layers.values()))
    for name in model.param_names:
        value = model.get_param(name)
        if n_chains == 1:
            extend = (
                label_resize.extend_square if name == "transitions" else label_resize.extend_rows
            )
            value = extend(xp, value, matching)
        elif name != "transitions":
            value = label_resize.extend_chains(xp, value, len(matching))
            if name == "b":
                shared = model.get_param("transitions")
                # The hidden layer of `Pairwise` has values from -1 to 1.
                by_edge: list[Array] = [p.get_param("V") for p in model.layers if p.has_param("V")]
                by_edge = [abs(V).sum(axis=2) for V in by_edge]
                value[old :: len(shared)] = label_resize.outside_bias(shared, *by_edge)
        new.set_param(name, value)
    for node in new.walk():
        node.ops = model.ops
    return new


def _make_model(
    name: str, dims: dict[str, int | None], attrs: dict[str, Any], layers: list[Model]
) -> Model[InT, OutT]:
    params = dict.fromkeys(("W", "b", "transitions", "start", "end"))
    return Model(name, forward, init=init, dims=dims, params=params, attrs=attrs, layers=layers)


def _layers_by_name(model: Model) -> dict[str, Model]:
    """Return the layers `_PAIRWISE` and `_HIDDEN`, as far as the head has them, in order."""
    return {layer.name: layer for layer in model.layers}


def _masks(model: Model) -> dict[str, Array]:
    """Return the constraints by parameter name, on the model's device, {} without constraints."""
    constraints = model.attrs["constraints"]
    if constraints is None:
        return {}
    ops: Any = model.ops
    masks = {name: ops.asarray(mask) for name, mask in vars(constraints).items()}
    # Start and end have scores for each chain.
    n_chains = len(model.get_param("start")) // len(constraints.start)
    return {n: m if n == "transitions" else ops.xp.tile(m, n_chains) for n, m in masks.items()}
