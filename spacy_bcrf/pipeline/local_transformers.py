"""`spacy-bcrf.LoadLocalTransformers.v1`"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from spacy.language import Language


def make_callback() -> Callable[[Language], Language]:
    """For `initialize.before_init`: loads the models of spacy-transformers from local directories.

    They would be loaded a little later anyway; but a name that is no directory would be looked for
    on the Hugging Face Hub, and errors often leave out which model they are about.
    """
    return load_local_transformers


def load_local_transformers(nlp: Language) -> Language:
    """ValueError naming the component and the directory that is missing, or whose model cannot be
    used."""
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
            f"[{name}] there is no directory {path!r}: the transformer has to be a local one, as "
            "saved by save_pretrained of its model and of its tokenizer"
        )
    try:
        node.initialize()
    # What a model raises that does not fit is up to its authors.
    except Exception as error:
        raise ValueError(
            f"[{name}] the model in {path!r} cannot be used, it has to be an encoder such as BERT, "
            f"with its tokenizer. {type(error).__name__}: {error}"
        ) from error
