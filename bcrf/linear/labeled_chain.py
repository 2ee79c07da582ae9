"""A chain over attributes with its labels, and its file."""

import json
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .crfsuite_attributes import Attributes
from .crfsuite_model import MAGIC, read_crfsuite_model


class LabeledChain(NamedTuple):
    """A chain of T labels and A attributes.

    weights: (T + 3 + A, stride), the rows as of `OnlineLearner.weights`; float64 if they come from
        CRFsuite.
    """

    labels: list[str]
    attributes: Attributes
    weights: NDArray

    @classmethod
    def empty(cls) -> "LabeledChain":
        return cls([], Attributes(), np.zeros((3, 0), "float32"))

    def extend(self, sizes: tuple[int, int]) -> NDArray[np.float32]:
        """Return new weights for more labels and attributes, T and A of `sizes`, with zeros."""
        n_old, n, stride = len(self.labels), sizes[0], -(-sizes[0] // 8) * 8
        found = np.zeros((n + 3 + sizes[1], stride), dtype="float32")
        transitions, others = np.split(self.weights[:, :n_old], [n_old])
        found[:n_old, :n_old] = transitions
        found[n : n + len(others), :n_old] = others
        return found

    def to_bytes(self) -> bytes:
        names = {"labels": self.labels, "attributes": self.attributes.names}
        file = BytesIO()
        np.savez(file, names=json.dumps(names), weights=self.weights)
        return file.getvalue()


def read_chain(path: Path) -> LabeledChain:
    """Read a file of ours or of CRFsuite. Raises ValueError for another one."""
    with path.open("rb") as file:
        start = file.read(len(MAGIC))
    if start == MAGIC:
        found = read_crfsuite_model(path)
        general = np.zeros((3, len(found.labels)))
        weights = np.concatenate([found.transitions, general, found.weights])
        return LabeledChain(found.labels, Attributes(found.attributes), weights)
    try:
        with np.load(path, allow_pickle=False) as data:
            names, weights = json.loads(str(data["names"])), data["weights"]
        labels, attributes = names["labels"], Attributes(names["attributes"])
        n_rows, n_columns = weights.shape
        is_wrong = n_rows != len(labels) + 3 + len(attributes.names) or weights.dtype != "float32"
        if is_wrong or n_columns < len(labels) or n_columns % 8:
            raise ValueError
    except Exception:  # zipfile and NumPy raise any for damaged files, with advice about pickles
        raise ValueError(
            f"{path}: no model of ours or of CRFsuite, or damaged; expected a file of `fit`"
        ) from None
    return LabeledChain(labels, attributes, weights)
