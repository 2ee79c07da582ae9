"""The labels of a component, the tags that they make, and a head of that size."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from spacy.errors import Errors
from spacy.pipeline import TrainablePipe
from thinc.api import Model

from spacy_bcrf.annotation.arrays import Values
from spacy_bcrf.layers.head import Constraints


class Labels(TrainablePipe, ABC):
    """The part of a component that holds them, and what is saved with them.

    There are T tags, and a component learns and writes A token attributes. `cfg` has the labels and
    the settings that decide on the tags besides.
    """

    attribute_ids: tuple[int, ...]
    """The A attributes; the last one holds the label."""
    tags_per_label: int = 1
    cfg: dict[str, Any]
    _values: Values

    @property
    @abstractmethod
    def tags(self) -> list[str]:
        """The T tags by id. A new label only appends to them."""

    @abstractmethod
    def _tag_values(self) -> list[tuple[int, ...]]:
        """(T, A) what is written to a token of each tag."""

    def _constraints(self) -> Constraints | None:
        """Which tags may follow one another, and start and end a document."""
        return None

    def _check_label(self, label: str) -> None:
        """ValueError, saying what would be right, for what cannot be a label."""
        if not label:
            raise ValueError(f"[{self.name}] a label cannot be empty: that means missing")

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.cfg["labels"])

    @property
    def label_data(self) -> tuple[str, ...]:
        return self.labels

    @property
    def head(self) -> Model:
        return self.model.get_ref("output_layer")

    def add_label(self, label: str) -> int:
        """Add a label, whose tags come last. RETURNS 0 if it is there already, else 1."""
        if not isinstance(label, str):
            raise ValueError(Errors.E187)
        if label in self.labels:
            return 0
        self._check_label(label)
        self._allow_extra_label()
        self.cfg["labels"].append(label)
        self._refresh()
        if self._has_weights():
            self._size_head()
        return 1

    def _label_values(self) -> list[int]:
        """What the label attribute of a token is for each label."""
        return [self.vocab.strings.add(label) for label in self.labels]

    def _refresh(self) -> None:
        """Bring what depends on the labels up to date, but for the size of the head."""
        values = np.array(self._tag_values(), dtype="uint64")
        self._values = values.reshape(len(values), len(self.attribute_ids))
        self.head.attrs["constraints"] = self._constraints()

    def _has_weights(self) -> bool:
        sparse = self.head.attrs.get("chain")
        return sparse.is_ready if sparse is not None else self.head.has_param("W") is True

    def _size_head(self) -> None:
        n_tags, head = len(self.tags), self.head
        if head.has_dim("nO") and not self._has_weights() and head.get_dim("nO") != n_tags:
            raise ValueError(
                f"[{self.name}] the head is configured with nO = {head.get_dim('nO')}, but "
                f"{n_tags} tags are needed for {self.cfg}: leave nO out"
            )
        self.model.attrs["resize_output"](self.model, n_tags, self.tags_per_label)
        self.head.attrs["tags"] = self.tags

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> Labels:
        self._load(super().from_bytes, bytes_data, exclude)
        return self

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> Labels:
        self._load(super().from_disk, path, exclude)
        return self

    def _load(self, load: Callable, source: bytes | str | Path, exclude: Iterable[str]) -> None:
        """ValueError if what is loaded has other settings, or was trained on other tags."""
        settings = {key: value for key, value in self.cfg.items() if key != "labels"}
        load(source, exclude=exclude)
        for key, value in settings.items():
            if self.cfg[key] != value:
                raise ValueError(
                    f"[{self.name}] the config says {key} = {value!r}, but what is loaded was "
                    f"saved with {key} = {self.cfg[key]!r}"
                )
        self._refresh()
        trained_on = self.head.attrs["tags"]
        if self._has_weights() and trained_on != self.tags:
            raise ValueError(
                f"[{self.name}] the model was trained on the tags {trained_on}, but the "
                f"component's, from {self.cfg}, are {self.tags}"
            )
