"""`accelerate`: compiled kernels for the CNN of any spaCy pipeline."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import spacy
import thinc
from spacy.language import Language
from thinc.api import Model

from spacy_bcrf.layers.compiled import compile_layers, warn_of_precision
from spacy_bcrf.layers.compiled.matching import recognizes_thinc


@dataclass(frozen=True)
class Accelerated:
    """The swapped (component, layer), and the kept (component, layer, reason)."""

    swapped: list[tuple[str, str]] = field(default_factory=list)
    kept: list[tuple[str, str, str]] = field(default_factory=list)


def accelerate(nlp: Language, cache_size: int | None = None) -> Accelerated:
    """Let the CNN of a pipeline's components run in compiled kernels, on the CPU.

    It swaps functions of hashed embeddings and Maxout window encoders in all components, disabled
    ones too, such as spaCy's `tok2vec`, `ner`, `tagger` and `parser`. Parameters stay, so
    `nlp.to_disk` writes a pipeline that spaCy alone loads. Outputs differ by rounding. cache_size
    and writes into embedding tables: see `compile_layers`. ValueError names a component with a
    parameter that is not finite. Warns if it does not recognize the layers of the installed Thinc.

    >>> import spacy, spacy_bcrf
    >>> nlp = spacy.blank("en")
    >>> component = nlp.add_pipe("tok2vec")
    >>> len(spacy_bcrf.accelerate(nlp).swapped)
    2
    """
    if not recognizes_thinc():
        warnings.warn(
            f"accelerate does not recognize the CNN of spaCy {spacy.__version__} and Thinc "
            f"{thinc.__version__}: nothing runs compiled. It knows Thinc 8.3",
            stacklevel=2,
        )
    done = Accelerated()
    for name, pipe in nlp.components:
        model = getattr(pipe, "model", None)
        if isinstance(model, Model):
            try:
                layers = compile_layers(model, cache_size)
            except ValueError as error:
                raise ValueError(f"[{name}] {error}") from error
            done.swapped.extend((name, layer) for layer in layers.compiled)
            done.kept.extend((name, layer, reason) for layer, reason in layers.kept)
    return done


def make_callback(
    cache_size: int | None = None, precision: str | None = None
) -> Callable[[Language], Language]:
    """Return an accelerating `nlp.after_pipeline_creation`. precision: without effect."""
    warn_of_precision(precision)

    def callback(nlp: Language) -> Language:
        accelerate(nlp, cache_size)
        return nlp

    return callback
