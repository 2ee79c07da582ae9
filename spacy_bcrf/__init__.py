"""Structured sequence labeling for spaCy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spacy_bcrf.pipeline.accelerate import accelerate as accelerate

__version__ = "0.2.0.dev0"


def __getattr__(name: str) -> Any:
    # spaCy imports the package for each entry point, so the package imports nothing of its own.
    if name == "accelerate":
        from spacy_bcrf.pipeline.accelerate import accelerate

        return accelerate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
