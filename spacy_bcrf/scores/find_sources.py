"""The source that a path is, and the sources of a config."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from spacy.util import is_package

from .token_classifiers import WEIGHTS, read_config


def guess_source(path: str, name: str = "source") -> dict[str, Any]:
    """Return the setting of a source for a folder, a file or a package.

    ValueError for a path that is no token classifier, pipeline or file of spans.
    """
    found = Path(path)
    if found.suffix in (".jsonl", ".ndjson") and found.is_file():
        function = "SpanScores"
    elif (found / "config.cfg").is_file() or (not found.exists() and is_package(path)):
        function = "PipelineScores"
    elif not (found / "config.json").is_file() or "id2label" not in read_config(found):
        raise ValueError(
            f"{path}: expected the folder of a token classifier, whose config.json has id2label; a "
            "spaCy pipeline (of a package: its name, or the inner folder with config.cfg); or a "
            "file of spans, .jsonl"
        )
    else:
        has_weights = any(any(found.glob(kind)) for kind in WEIGHTS)
        function = "HuggingFaceScores" if has_weights else "OnnxScores"
    return {"name": name, "@misc": f"spacy-bcrf.{function}.v1", "path": path}


def find_sources(config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the sources in the settings `scores` of a config, at any depth."""
    for key, value in config.items():
        if key == "scores" and isinstance(value, list):
            yield from value
        elif isinstance(value, Mapping):
            yield from find_sources(value)
