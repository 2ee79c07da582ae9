"""`accelerate`: compiled kernels for the CNN of any spaCy pipeline."""

from collections.abc import Callable
from dataclasses import dataclass, field

from spacy.language import Language
from thinc.api import Model

from spacy_bcrf.layers.compiled import CACHE_SIZE, compile_layers


@dataclass(frozen=True)
class Accelerated:
    """What `accelerate` did.

    swapped: (component, layer) of each layer that runs compiled.
    kept: (component, layer, reason) of each layer of spaCy's CNN that the kernels do not cover.
    """

    swapped: list[tuple[str, str]] = field(default_factory=list)
    kept: list[tuple[str, str, str]] = field(default_factory=list)


def accelerate(nlp: Language, cache_size: int = CACHE_SIZE) -> Accelerated:
    """Let the CNN of a pipeline's components run in compiled kernels, on the CPU.

    It swaps the functions of hashed embeddings and Maxout window encoders in all components, such
    as spaCy's `tok2vec`, `ner`, `tagger` and `parser`. Parameters stay in place, so `nlp.to_disk`
    writes a pipeline that spaCy alone loads. Outputs differ by rounding. Other models, such as
    transformers, stay as they are.

    cache_size: the number of distinct words whose embeddings a layer keeps between predictions.

    Raises ValueError, which names the component, if a parameter is not finite.
    """
    done = Accelerated()
    for name, pipe in nlp.pipeline:
        model = getattr(pipe, "model", None)
        if isinstance(model, Model):
            try:
                layers = compile_layers(model, cache_size)
            except ValueError as error:
                raise ValueError(f"[{name}] {error}") from error
            done.swapped.extend((name, layer) for layer in layers.compiled)
            done.kept.extend((name, layer, reason) for layer, reason in layers.kept.items())
    return done


def make_callback(cache_size: int = CACHE_SIZE) -> Callable[[Language], Language]:
    """Return a callback for `nlp.after_pipeline_creation` that accelerates the pipeline."""

    def callback(nlp: Language) -> Language:
        accelerate(nlp, cache_size)
        return nlp

    return callback
