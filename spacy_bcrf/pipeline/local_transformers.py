"""`spacy-bcrf.LoadLocalTransformers.v1`: clear errors for unusable transformer directories."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from spacy.language import Language


def make_callback() -> Callable[[Language], Language]:
    """Return a callback for `initialize.before_init`, whose errors name local directories."""
    return load_local_transformers


def load_local_transformers(nlp: Language) -> Language:
    """Load the transformers of a pipeline. ValueError names the component and a bad directory."""
    for name, pipe in nlp.pipeline:
        model: Any = getattr(pipe, "model", None)
        for node in model.walk() if hasattr(model, "walk") else ():
            if node.attrs.get("has_transformer") is False:
                _load(name, node)
    return nlp


def _load(name: str, node: Any) -> None:
    path = node.attrs["name"]
    if not Path(path).is_dir():
        raise ValueError(
            f"[{name}] directory {path!r} does not exist. The transformer must be a local "
            "directory with a model and a tokenizer saved by save_pretrained"
        )
    try:
        node.initialize()
    # A model of another kind can raise any exception.
    except Exception as error:
        raise ValueError(
            f"[{name}] the model in {path!r} cannot be used. It must be an encoder such as BERT, "
            f"with its tokenizer. {type(error).__name__}: {error}"
        ) from error
