"""`spacy-bcrf.Sum.v1`: a weighted sum of the potentials of several models."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats1d

from bcrf import chain
from bcrf.chain import Constraints, Potentials

from .linear_chain import sparse_chain, sparse_chains
from .protocol import Hooks, Objective, attach, get_hooks, output_attrs


@dataclass(frozen=True)
class _Fixed:
    """Weights of the config. Thinc does not save attributes of this type."""

    weights: list[float]


def Sum(
    parts: dict[str, Any],
    weights: dict[str, float],
    *,
    decoder: str = "viterbi",
) -> Model[list[Doc], Potentials]:
    """Build a model whose potentials are a weighted sum of the potentials of its parts.

    The sum is the potentials of a CRF. The gradient of its loss trains all parts.

    parts: models with the same tags, by name. The type is Any because spaCy checks the type of a
        dict before it resolves the values. A linear chain with l1 or order 2 cannot learn here.
    weights: the weight of each part. `spacy bcrf combine` fits them.
    decoder: see `decoding.DECODERS`.
    """
    if not parts:
        raise ValueError("a sum of potentials needs at least one part, got none")
    if parts.keys() != weights.keys():
        raise ValueError(
            f"each part of a sum needs one weight: the parts are {', '.join(parts)}, but the "
            f"weights are of {', '.join(weights) or 'none'}"
        )
    for name, weight in weights.items():
        if not math.isfinite(weight):
            raise ValueError(f"the weight of the part {name} must be finite, got {weight}")
    values = [weights[name] for name in parts]
    return make_sum("sum", list(parts.values()), values, chain.CRF(), decoder)


def make_sum(
    name: str,
    parts: Sequence[Model[list[Doc], Potentials]],
    weights: list[float],
    objective: Objective,
    decoder: str,
    learned: bool = False,
) -> Model[list[Doc], Potentials]:
    """Build a sum of potentials. learned: whether the optimizer learns the weights (K,)."""
    for part in parts:
        get_hooks(part)
    model: Model[list[Doc], Potentials] = Model(
        name,
        forward,
        init=init,
        layers=parts,
        dims={"nO": None},
        params={"weights": None} if learned else {},
        attrs=output_attrs(objective, decoder, part_weights=_Fixed(weights)),
    )
    hooks = Hooks(_is_ready, resize_output, _columns, start_counting)
    return attach(model, model, hooks)


def sum_potentials(parts: Sequence[Potentials], weights: Sequence[float]) -> Potentials:
    pairs = list(zip(weights, parts, strict=True))
    unary: Any = sum(weight * part.unary for weight, part in pairs)
    transitions: Any = sum(weight * part.transitions for weight, part in pairs)
    return parts[0].with_scores(unary, transitions)


def weight_gradients(gradient: Potentials, parts: Sequence[Potentials]) -> list[float]:
    """Return the gradient of each weight. gradient: that of the sum, which has K parts."""
    return [
        float((gradient.unary * part.unary).sum() + (d_part.transitions * part.transitions).sum())
        for part, d_part in ((part, _like(gradient, part)) for part in parts)
    ]


def _like(gradient: Potentials, part: Potentials) -> Potentials:
    """Return the gradient of a part with weight 1: transitions of its shape."""
    if gradient.transitions.ndim == part.transitions.ndim:
        return gradient
    return gradient.with_scores(gradient.unary, gradient.transitions.sum(axis=0))


def _is_ready(model: Model[list[Doc], Potentials]) -> bool:
    return all(get_hooks(part).is_ready(part) for part in model.layers)


def _columns(model: Model[list[Doc], Potentials]) -> list[int]:
    return [column for part in model.layers for column in get_hooks(part).columns(part)]


def part_weights(model: Model) -> list[float]:
    if model.has_param("weights"):
        weights: Any = model.ops.to_numpy(model.get_param("weights"))
        return weights.tolist()
    return model.attrs["part_weights"].weights


def sparse_weight(model: Model) -> float:
    """Return the weight of `linear_chain.sparse_chain` in the potentials of a labeling model."""
    if "part_weights" not in model.attrs:
        return 1.0
    parts = zip(part_weights(model), model.layers, strict=True)
    found = ((weight, part) for weight, part in parts if sparse_chain(part) is not None)
    return next((weight * sparse_weight(part) for weight, part in found), 1.0)


def forward(
    model: Model[list[Doc], Potentials], docs: list[Doc], is_train: bool
) -> tuple[Potentials, Callable]:
    """Return the potentials of a batch and the function that backpropagates to all parts."""
    ops: Any = model.ops
    weights = part_weights(model)
    constraints = model.attrs["constraints"]
    found, backprops = zip(
        *(call_part(part, docs, is_train, constraints) for part in model.layers), strict=True
    )
    # A sparse chain computes on the CPU.
    arrays = ([*map(ops.asarray, p.arrays), ops.xp] for p in found)
    parts = [Potentials.deferred(*of_part) for of_part in arrays]

    def backprop(gradient: Potentials) -> list[Doc]:
        for weight, part, get_dx in zip(weights, parts, backprops, strict=True):
            get_dx(_like(gradient, part).scale(weight))
        if "weights" in model.param_names:
            model.inc_grad("weights", ops.asarray1f(weight_gradients(gradient, parts)))
        return []

    total = sum_potentials(parts, weights)
    return total.constrain(constraints), backprop


def call_part(
    part: Model[list[Doc], Potentials],
    docs: list[Doc],
    is_train: bool,
    constraints: Constraints | None,
) -> tuple[Potentials, Callable]:
    """Return the potentials of a part, 0 where constraints of the sum forbid, and its backprop."""
    depends = any(sparse.settings.order == 2 for sparse in sparse_chains(part))
    part.get_ref("output_layer").attrs["constraints"] = constraints if depends else None
    potentials, backprop = part(docs, is_train)
    if depends and constraints is not None:
        xp = potentials.xp
        arrays = (potentials.unary, potentials.transitions)
        potentials = potentials.with_scores(*(xp.where(a == -xp.inf, 0, a) for a in arrays))
    return potentials, backprop


def init(model: Model[list[Doc], Potentials], X: list[Doc] | None = None, Y: Any = None) -> None:
    if "weights" in model.param_names:
        weights: Floats1d = model.ops.asarray1f(model.attrs["part_weights"].weights)
        model.set_param("weights", weights)
    for part in model.layers:
        # Weights may start from what a tag is. Only the sum saves the names.
        layer = part.get_ref("output_layer")
        layer.attrs["tags"] = model.attrs["tags"]
        part.initialize(X=X)
        layer.attrs["tags"] = None


def start_counting(
    model: Model[list[Doc], Potentials], nlp: Language | None
) -> Callable[[list[Doc]], None]:
    starts = [(part, get_hooks(part).start_counting) for part in model.layers]
    counters = [start(part, nlp) for part, start in starts if start is not None]

    def count(docs: list[Doc]) -> None:
        for of_part in counters:
            of_part(docs)

    return count


def resize_output(
    model: Model[list[Doc], Potentials], nO: int, tags_per_label: int = 1, n_chains: int = 1
) -> Model[list[Doc], Potentials]:
    for part in model.layers:
        get_hooks(part).resize(part, nO, tags_per_label, n_chains)
    model.set_dim("nO", nO, force=True)
    return model
