"""spaCy's CNN with compiled forward and backward passes, on the parameters of Thinc's layers.

`compile_layers` replaces the functions of hashed embeddings that a Maxout mixes (MultiHashEmbed)
and of Maxout window encoders. Parameters, dimensions and attributes stay, so bytes of a model load
into spaCy's own layers, and the other way round. On a GPU, Thinc's functions run.
"""

import json
import warnings
from dataclasses import dataclass, field

from thinc.api import Model, NumpyOps

from .forward import Embedding, Encoder, State, embed, encode
from .matching import Unsupported

CACHE_SIZE = 20_000


@dataclass
class CompiledLayers:
    """Which layers of a model run compiled, and why others of the same kind do not."""

    compiled: list[str] = field(default_factory=list)
    kept: list[tuple[str, str]] = field(default_factory=list)


def compile_layers(model: Model, cache_size: int | None = None) -> CompiledLayers:
    """Let the embeddings and encoders of spaCy's CNN in a model run compiled, in place.

    cache_size: number of distinct words whose embeddings a layer without static vectors keeps
    between predictions. None keeps the number of layers that are compiled already, else CACHE_SIZE.
    A layer notices changed parameters, except single rows of embedding tables that code writes in
    place: then call `compile_layers` again. Raises ValueError for a negative `cache_size`, and for
    a parameter that is not finite; earlier layers run compiled then.
    """
    if cache_size is not None and cache_size < 0:
        raise ValueError(f"cache_size must be at least 0, got {cache_size}")
    layers = CompiledLayers()
    for node in list(model.walk()):
        for function, match in ((embed, Embedding.of), (encode, Encoder.of)):
            try:
                found = match(node)
                if not found:
                    continue
                if found.ready and isinstance(node.ops, NumpyOps):
                    found.stack()
            except Unsupported as error:
                layers.kept.append((node.name, str(error)))
                continue
            if node._func is not function:
                node._func = function
                node.attrs["compiled"] = State(CACHE_SIZE)
            state = node.attrs["compiled"]
            state.parts = None
            if cache_size is not None:
                state.cache_size = cache_size
            layers.compiled.append(node.name)
    return layers


def warn_of_precision(precision: str | None) -> None:
    """Warn of a setting of configs that 0.2.0.dev wrote, unless its value changed nothing."""
    if precision not in (None, "float32"):
        warnings.warn(
            f"precision = {json.dumps(precision)} has no effect: encoders multiply in float32",
            stacklevel=3,
        )


def embedded_columns(model: Model) -> list[int]:
    """Return the attributes of tokens that compiled layers embed, none on a GPU."""
    found = (
        Embedding.of(node)
        for node in model.walk()
        if node._func is embed and isinstance(node.ops, NumpyOps)
    )
    return [column for embedding in found if embedding for column in embedding.columns]
