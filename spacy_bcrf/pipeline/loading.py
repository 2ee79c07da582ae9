"""Loading of trained pipelines."""

from pathlib import Path

import spacy
from spacy.language import Language


def load_pipeline(model: str | Path) -> Language:
    """Load a pipeline from a folder or a package. ValueError names it if that fails."""
    try:
        return spacy.load(model)
    except OSError as error:
        raise ValueError(f"{model}: the pipeline cannot be loaded: {error}") from None
