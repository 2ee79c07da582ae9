"""Structured sequence labeling for spaCy.

>>> import spacy
>>> nlp = spacy.blank("en")
>>> ner = nlp.add_pipe("bcrf_ner", config={"annotate": ["confidence"]})
>>> ner.labels
()
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bcrf import __version__ as __version__

if TYPE_CHECKING:
    from spacy_bcrf.annotation.display import displacy as displacy
    from spacy_bcrf.annotation.display import to_frame as to_frame
    from spacy_bcrf.annotation.extensions import set_extensions as set_extensions
    from spacy_bcrf.pipeline.accelerate import accelerate as accelerate
    from spacy_bcrf.pipeline.segmenter import Segmenter as Segmenter
    from spacy_bcrf.pipeline.span_recognizers import Chunker as Chunker
    from spacy_bcrf.pipeline.span_recognizers import EntityRecognizer as EntityRecognizer
    from spacy_bcrf.pipeline.span_recognizers import (
        OverlappingSpanRecognizer as OverlappingSpanRecognizer,
    )
    from spacy_bcrf.pipeline.tagger import Tagger as Tagger

# spaCy imports the package for each entry point, so the package imports its modules at first use.
_MODULES = {
    "displacy": "annotation.display",
    "to_frame": "annotation.display",
    "set_extensions": "annotation.extensions",
    "accelerate": "pipeline.accelerate",
    "Chunker": "pipeline.span_recognizers",
    "EntityRecognizer": "pipeline.span_recognizers",
    "OverlappingSpanRecognizer": "pipeline.span_recognizers",
    "Segmenter": "pipeline.segmenter",
    "Tagger": "pipeline.tagger",
}

__all__ = sorted([*_MODULES, "__version__"])


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"spacy_bcrf.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
