"""The interface between a component and its Thinc model, from documents to potentials.

An architecture attaches `Hooks`. The output layer stores the objective, the decoder, the
constraints and the names of the tags. Components use a model through `LabelingModel`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc
from thinc.api import Model

from bcrf.chain import CRF, Inference, Potentials
from bcrf.kernels import Array

from .decoding import Decoder, get_decoder

_HOOKS = "labeling_hooks"


class Objective(Protocol):
    """The training objective of a head: an `Inference`, or an objective on n-best lists."""

    def loss(self, potentials: Potentials, gold: Array) -> tuple[Array, Potentials]:
        """Return losses (B,) and their gradient, see `Inference.loss`."""


@dataclass(frozen=True)
class NamedDecoder:
    """A decoder, from potentials to tag ids, and its name in `decoding.DECODERS`."""

    name: str
    decode: Decoder


@dataclass(frozen=True)
class Hooks:
    """The operations of an architecture that Thinc has no method for, on its model.

    is_ready: () returns whether the output layer has weights. resize: (n_tags, tags_per_label,
    n_chains) sets the number of tags of all chains side by side, see `chain.label_resize`. columns:
    () returns the attributes of tokens that layers read from a `DocBatch`. start_counting:
    (nlp) returns a function that counts the features of a batch, all before `initialize`. learn:
    (docs, gold, lattice) makes one online step per document and returns the sum of the losses; gold
    is int32 (N,) or bool (N, T), lattice bool (N, T) or None. Networks have neither of both.
    """

    is_ready: Callable[[Model], bool]
    resize: Callable[[Model, int, int, int], Any]
    columns: Callable[[Model], list[int]]
    start_counting: Callable[[Model, Language | None], Callable[[list[Doc]], None]] | None = None
    learn: Callable[[Model, list[Doc], Array, Array | None], float] | None = None


def attach(model: Model, output_layer: Model, hooks: Hooks) -> Model:
    """Attach hooks and output layer to a model from documents to potentials, and return it."""
    model.set_ref("output_layer", output_layer)
    model.attrs[_HOOKS] = hooks
    # spaCy checks this attribute to see whether a model can be resized.
    model.attrs["resize_output"] = hooks.resize
    return model


def output_attrs(objective: Objective, decoder: str, **attrs: Any) -> dict[str, Any]:
    """Return the attributes of an output layer, with further ones. decoder: of DECODERS.

    The component sets `constraints` and `tags`. Thinc saves `tags` and numbers.
    """
    return {
        "objective": objective,
        "decoder": NamedDecoder(decoder, get_decoder(decoder, objective)),
        "constraints": None,
        "tags": None,
        **attrs,
    }


def get_hooks(model: Model) -> Hooks:
    """Return the hooks of a model. ValueError for a model without potentials."""
    if _HOOKS not in model.attrs:
        raise ValueError(
            f"the model {model.name!r} has no potentials: use one of the architectures "
            "spacy-bcrf.SequenceLabeler.v1, spacy-bcrf.LinearChain.v1, spacy-bcrf.Hybrid.v1 and "
            "spacy-bcrf.Sum.v1"
        )
    hooks: Hooks = model.attrs[_HOOKS]
    return hooks


class LabelingModel:
    """A component's view of a Thinc model from documents to potentials.

    inference: gives all probabilities: the objective, or a CRF if that has none. columns: see
    `Hooks`.
    """

    def __init__(self, name: str, model: Model) -> None:
        """name: the component's name, for errors. ValueError for a model without potentials."""
        try:
            self.hooks = get_hooks(model)
        except ValueError as error:
            raise ValueError(f"[{name}] {error}") from None
        self.name = name
        self.model = model
        self.objective: Objective = self.output_layer.attrs["objective"]
        self.inference = self.objective if isinstance(self.objective, Inference) else CRF()
        self.columns = self.hooks.columns(model)

    @property
    def output_layer(self) -> Model:
        return self.model.get_ref("output_layer")

    @property
    def tags(self) -> list[str] | None:
        return self.output_layer.attrs["tags"]

    @property
    def is_ready(self) -> bool:
        return self.hooks.is_ready(self.model)

    def asarray(self, array: NDArray) -> Array:
        ops: Any = self.model.ops
        return ops.asarray(array)

    @property
    def decoder(self) -> str:
        return self.output_layer.attrs["decoder"].name

    def decode(self, potentials: Potentials) -> NDArray[np.int32]:
        ops: Any = self.model.ops
        return ops.to_numpy(self.output_layer.attrs["decoder"].decode(potentials))

    def set_decoder(self, name: str) -> None:
        """Set the decoder by name, see `decoding.DECODERS`. ValueError lists the names."""
        decoder = get_decoder(name, self.objective)
        self.output_layer.attrs["decoder"] = NamedDecoder(name, decoder)

    def resize(self, tags: list[str], tags_per_label: int, n_chains: int) -> None:
        """Resize the output layer to the tags of all chains. ValueError for fewer or another nO."""
        layer = self.output_layer
        if layer.has_dim("nO") and not self.is_ready and layer.get_dim("nO") != len(tags):
            raise ValueError(
                f"[{self.name}] the head is configured with nO = {layer.get_dim('nO')}, but "
                f"{len(tags)} tags are needed: {', '.join(tags)}. Leave nO out"
            )
        self.hooks.resize(self.model, len(tags), tags_per_label, n_chains)
        self.output_layer.attrs["tags"] = tags
