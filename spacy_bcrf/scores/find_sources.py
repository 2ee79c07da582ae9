"""The source that a path is, and the sources of a config."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from spacy.util import is_package

from .foreign_labels import find_unclear
from .token_classifiers import PICKLES, WEIGHTS, read_config, read_labels


def guess_source(
    path: str, name: str = "source", labels: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the setting of a source for a folder, a file or a package.

    labels: our label by foreign label. ValueError for a path that is no token classifier, pipeline
    or file of spans, and for a classifier with labels of which nobody says whether they are O.
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
        has_weights = any(any(found.glob(kind)) for kind in (WEIGHTS, PICKLES))
        function = "HuggingFaceScores" if has_weights else "OnnxScores"
        _check_outside(path, read_labels(found), labels or {})
    source = {"name": name, "@misc": f"spacy-bcrf.{function}.v1", "path": path}
    return source | ({"labels": dict(labels)} if labels else {})


def name_path(source: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the path of a source for the section [paths] of a config, and a source that reads it.

    One override of this section then moves the source. A source without a path stays.
    """
    path = source.get("path")
    if not isinstance(path, str):
        return {}, dict(source)
    name = source["name"]
    return {name: path}, {**source, "path": f"${{paths.{name}}}"}


def _check_outside(path: str, labels: Sequence[str], names: Mapping[str, str]) -> None:
    """Raise ValueError if it is a guess which labels of a classifier mean no entity."""
    unclear, has_outside = find_unclear(labels, names)
    if unclear and has_outside:
        raise ValueError(
            f"{path}: {', '.join(unclear)} may mean no entity. Name each one with `labels`, such "
            f"as `labels={unclear[0]}=O`, or {unclear[0]}={unclear[0]} for an entity"
        )
    if unclear:
        raise ValueError(
            f"{path}: has no label O, which means no entity; its labels are {', '.join(unclear)}. "
            f"Name the one that means no entity with `labels`, such as `labels={unclear[0]}=O`"
        )


def find_sources(config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the sources in the settings `scores` of a config, at any depth."""
    for key, value in config.items():
        if key == "scores" and isinstance(value, list):
            yield from value
        elif isinstance(value, Mapping):
            yield from find_sources(value)
