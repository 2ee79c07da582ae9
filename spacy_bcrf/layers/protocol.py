"""What a component asks of its Thinc model.

A labeling model maps documents to potentials. Its architecture attaches `Hooks`; the output layer
holds the objective, the decoder, the constraints and the names of the tags. `LabelingModel` is the
typed view that components use, so no component knows which architecture it holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc
from thinc.api import Model

from spacy_bcrf.chain import Potentials
from spacy_bcrf.kernels import Array, array_module
from spacy_bcrf.sparse.model import SparseChain

from .decoding import get_decoder

_HOOKS = "labeling_hooks"


class Objective(Protocol):
    """What a head learns by: an `Inference`, or an objective on a list of labelings."""

    def loss(self, potentials: Potentials, gold: Array) -> tuple[Array, Potentials]:
        """Return losses (B,) and their gradient, see `Inference.loss`."""


@dataclass(frozen=True)
class Constraints:
    """Hard constraints on tags: allowed transitions `[from, to]` (T, T), first and last tags (T,).

    Each field has the name of the head's parameter that it restricts.
    """

    transitions: NDArray[np.bool_]
    start: NDArray[np.bool_]
    end: NDArray[np.bool_]

    def apply(self, potentials: Potentials) -> Potentials:
        """Return potentials with -inf on everything that the constraints forbid."""
        xp = array_module(potentials.unary)
        unary = potentials.unary.copy()
        forbidden = unary.dtype.type("-inf")
        unary[xp.ix_(potentials.starts, xp.asarray(~self.start))] = forbidden
        unary[xp.ix_(potentials.ends, xp.asarray(~self.end))] = forbidden
        allowed = xp.asarray(self.transitions)
        transitions = xp.where(allowed, potentials.transitions, forbidden)
        return Potentials(unary, transitions, potentials.lengths)


@dataclass(frozen=True)
class Hooks:
    """How an architecture answers what Thinc has no method for. The model comes first.

    is_ready: whether the output layer has weights, initialized or loaded.
    resize: (n_tags, tags_per_label) give the output layer this many tags, see
        `annotation.label_resize`.
    sample_size: how many documents `initialize` needs; None for the whole training data.
    learn: (docs, gold, lattice) make one online step a document and return the sum of the losses;
        gold is int32 (N,) or bool (N, T), lattice bool (N, T) or None. None where the gradient of
        the potentials and the config's optimizer train the model.
    """

    is_ready: Callable[[Model], bool]
    resize: Callable[[Model, int, int], Any]
    sample_size: int | None = 10
    learn: Callable[[Model, list[Doc], Array, Array | None], float] | None = None


def attach(model: Model, output_layer: Model, hooks: Hooks) -> Model:
    """Make a model from documents to potentials a labeling model."""
    model.set_ref("output_layer", output_layer)
    model.attrs[_HOOKS] = hooks
    # spaCy takes a model with this attribute for resizable.
    model.attrs["resize_output"] = hooks.resize
    return model


def output_attrs(objective: Objective, decoder: str, **attrs: Any) -> dict[str, Any]:
    """Return the attributes of an output layer.

    objective: returns the loss of potentials, and its gradient. decoder: see `decoding.DECODERS`.
    constraints: `Constraints` or None, set by the component. tags: names of the tags, set with the
    size of the layer. Thinc saves `tags` and the attributes that are numbers.
    """
    return {
        "objective": objective,
        "decoder": get_decoder(decoder, objective),
        "constraints": None,
        "tags": None,
        **attrs,
    }


def sparse_chain(model: Model) -> SparseChain | None:
    """Return the linear chain over boolean features, if a labeling model is one."""
    return model.get_ref("output_layer").attrs.get("chain")


class LabelingModel:
    """A Thinc model from documents to potentials, as a component uses it."""

    def __init__(self, name: str, model: Model) -> None:
        """name: the component, for the ValueError if the model is of another kind."""
        if _HOOKS not in model.attrs:
            raise ValueError(
                f"[{name}] the model {model.name!r} gives no potentials: use the architecture "
                "spacy-bcrf.SequenceLabeler.v1 or spacy-bcrf.LinearChain.v1"
            )
        self.name = name
        self.model = model
        self.hooks: Hooks = model.attrs[_HOOKS]
        self.objective: Objective = self.output_layer.attrs["objective"]

    @property
    def output_layer(self) -> Model:
        return self.model.get_ref("output_layer")

    @property
    def tags(self) -> list[str] | None:
        """Names of the tags that the weights belong to."""
        return self.output_layer.attrs["tags"]

    @property
    def constraints(self) -> Constraints | None:
        return self.output_layer.attrs["constraints"]

    @constraints.setter
    def constraints(self, constraints: Constraints | None) -> None:
        self.output_layer.attrs["constraints"] = constraints

    @property
    def is_ready(self) -> bool:
        """Whether the output layer has weights."""
        return self.hooks.is_ready(self.model)

    def asarray(self, array: NDArray) -> Array:
        """Return an array on the device of the model."""
        ops: Any = self.model.ops
        return ops.asarray(array)

    def decode(self, potentials: Potentials) -> NDArray[np.int32]:
        """Return one tag for each token (N,), by the decoder of the output layer."""
        attrs = self.model.get_ref("output_layer").attrs
        return self.model.ops.to_numpy(attrs["decoder"](potentials))

    def set_decoder(self, name: str) -> None:
        """Use another of `decoding.DECODERS`. ValueError lists them."""
        self.output_layer.attrs["decoder"] = get_decoder(name, self.objective)

    def resize(self, tags: list[str], tags_per_label: int) -> None:
        """Give the output layer these tags; the new ones are last.

        ValueError if its weights have more tags, or if the config sets another nO.
        """
        layer = self.output_layer
        if layer.has_dim("nO") and not self.is_ready and layer.get_dim("nO") != len(tags):
            raise ValueError(
                f"[{self.name}] the head is configured with nO = {layer.get_dim('nO')}, but "
                f"{len(tags)} tags are needed: {', '.join(tags)}. Leave nO out"
            )
        self.hooks.resize(self.model, len(tags), tags_per_label)
        self.output_layer.attrs["tags"] = tags

    def zero_potentials(self, lengths: NDArray[np.int32], allowed: NDArray[np.bool_]) -> Potentials:
        """Return zero potentials under the hard constraints, -inf outside of `allowed` (N, T)."""
        n_tags, constraints = allowed.shape[1], self.constraints
        unary = np.where(allowed, np.float32(0), np.float32("-inf"))
        transitions = np.zeros((n_tags, n_tags), dtype="float32")
        potentials = Potentials(*map(self.asarray, (unary, transitions, lengths)))
        return potentials if constraints is None else constraints.apply(potentials)
