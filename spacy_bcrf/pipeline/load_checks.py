"""Checks of a saved component: damaged files, tags and the shapes of weights."""

from pathlib import Path
from typing import Any

import srsly
from thinc.api import Model

from spacy_bcrf.layers.head import param_shapes
from spacy_bcrf.layers.protocol import LabelingModel


def find_damaged(folder: str | Path) -> Path:
    """Return the first file of a pipeline that spaCy and thinc cannot read, else the folder."""
    readers = dict.fromkeys(("meta.json", "strings.json", "cfg"), srsly.read_json)
    readers |= dict.fromkeys(("model", "key2row", "lookups.bin"), srsly.read_msgpack)
    for file in sorted(filter(Path.is_file, Path(folder).rglob("*"))):
        try:
            readers.get(file.name, Path)(file)
        except Exception:  # msgpack raises different types
            return file
    return Path(folder)


def _check_weights(name: str, model: Model) -> None:
    """Raise ValueError if a layer of a loaded model lacks weights, or if their shapes differ."""
    for node in model.walk():
        missing = [param for param in node.param_names if not node.has_param(param)]
        damage = [f"has no {', '.join(missing)}"] * bool(missing)
        for param, shape in {} if missing else _weight_shapes(node).items():
            if (found := node.get_param(param).shape) != shape:
                damage.append(f"has {param} of shape {found}, expected {shape}")
        if damage:
            raise ValueError(
                f"[{name}] the model is damaged: its layer {node.name} {', and '.join(damage)}; "
                "restore it, or train the component again"
            )


_LINEAR = {"W": "nO nI", "b": "nO"}
WEIGHT_AXES = {
    **dict.fromkeys(("linear", "relu", "mish", "gelu", "swish", "softmax"), _LINEAR),
    "maxout": {"W": "nO nP nI", "b": "nO nP"},
    "layernorm": {"G": "nI", "b": "nI"},
    "hashembed": {"E": "nV nO"},
    "static_vectors": {"W": "nO nM"},
    "pairwise": {"W": "2 nH nI", "V": "nO nO nH", "b": "nH"},
}
"""Layers by name: the dimensions of their weights, or 2."""


def _weight_shapes(node: Model) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the weights of a head, or of a layer in WEIGHT_AXES."""
    if "transitions" in node.param_names:
        return param_shapes(node)
    given = WEIGHT_AXES.get(node.name, {}).items()
    axes = {param: names.split() for param, names in given if param in node.param_names}
    return {p: tuple(2 if x == "2" else node.get_dim(x) for x in axes[p]) for p in axes}


def check_loaded(
    labeling: LabelingModel, loaded: dict[str, Any], configured: dict[str, str], tags: list[str]
) -> None:
    """Raise ValueError if a saved component's options or tags do not fit, or if weights do not."""
    name, trained_on = labeling.name, labeling.tags
    for key, value in configured.items():
        if loaded[key] != value:
            raise ValueError(
                f"[{name}] the config sets {key} = {value!r}, but the saved component has "
                f"{key} = {loaded[key]!r}"
            )
    if trained_on is not None and trained_on != tags:
        raise ValueError(
            f"[{name}] the model was trained on the tags {trained_on}, but the component's, from "
            f"{loaded}, are {tags}"
        )
    if labeling.is_ready:
        _check_weights(name, labeling.model)
