"""Callbacks of configs: errors and warnings for what a pipeline needs and an environment lacks."""

import warnings
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from spacy.language import Language


def make_version_check() -> Callable[[Language], Language]:
    """`spacy-bcrf.CheckVersions.v1` for `nlp.after_creation`: return `check_versions`."""
    return check_versions


def make_transformer_loader() -> Callable[[Language], Language]:
    """`spacy-bcrf.LoadLocalTransformers.v1` for `initialize.before_init`: return the loader."""
    return load_local_transformers


def check_versions(nlp: Language) -> Language:
    """Warn of requirements in a pipeline's meta data that the environment lacks, and return it."""
    for text in nlp.meta.get("requirements", ()):
        required = Requirement(text)
        try:
            found = version(required.name)
        except PackageNotFoundError:
            found = ""
        if not (found and required.specifier.contains(found, prereleases=True)):
            name = f"{nlp.meta['lang']}_{nlp.meta['name']} {nlp.meta['version']}"
            warnings.warn(
                f"{name} needs {text}, but {found or 'none'} is installed; install that version, "
                f"or a version of {name.split()[0]} for it",
                stacklevel=2,
            )
    return nlp


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
