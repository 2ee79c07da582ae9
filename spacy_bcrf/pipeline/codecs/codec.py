"""The interface between a component and the annotation that it predicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from spacy.strings import StringStore
from spacy.tokens import Doc
from spacy.training import Example

from spacy_bcrf.annotation.arrays import Bools, Values
from spacy_bcrf.annotation.extensions import UserData
from spacy_bcrf.chain import Potentials
from spacy_bcrf.layers.protocol import Constraints

Tags = NDArray[np.int32]

Ops = Any
"""Thinc's Ops. Its type hints do not admit boolean arrays."""

Unit = Literal["token", "span", "word"]
"""What has a confidence: the tag of a token, a span, or a word made of tokens."""


class Codec(Protocol):
    """One kind of annotation as T tags: reads gold, gives the lattice, writes predictions.

    A batch of B documents has N tokens in all; Values are (N, A) for A attributes.
    """

    settings: dict[str, str]
    """What decides on the tags besides the labels; saved with them."""

    labels: tuple[str, ...]

    tags: list[str]
    """The tags by id. A new label appends its tags."""

    tags_per_label: int

    @property
    def constraints(self) -> Constraints | None:
        """Which tags may follow one another, and start and end a document."""

    restrictions: str
    """Everything that can forbid a labeling, for warnings."""

    confidence_units: ClassVar[dict[str, Unit]]
    """The unit of the annotations "confidence" and "tag_confidence"."""

    def check_label(self, label: str) -> None:
        """Raise ValueError for a label that the annotation cannot hold."""

    def set_labels(self, labels: Sequence[str], strings: StringStore) -> None:
        """Bring tags and constraints up to date."""

    def find_labels(self, doc: Doc) -> set[str]:
        """Return the labels of a gold document."""

    def find_misspelled(self, docs: Sequence[Doc]) -> str:
        """Describe labels that the partial annotation of gold documents names in vain, or ""."""

    def read_gold(self, examples: Sequence[Example]) -> tuple[Values, dict[int, str]]:
        """Return the references' annotation of the predicted tokens, and problems by example."""

    def encode(self, values: Values, lengths: Tags) -> tuple[NDArray, Bools]:
        """Return gold, and a mask of unknown labels (N,).

        Gold is int32 (N,), UNKNOWN without annotation, or the allowed tags, bool (N, T).
        """

    def has_partial_annotation(self, doc: Doc) -> bool:
        """Return whether `constrain` would change the gold of a document."""

    def is_whole(self, doc: Doc) -> bool:
        """Return whether all tokens of a gold document are annotated."""

    def constrain(self, example: Example, values: Values, allowed: Bools) -> list[Bools]:
        """Apply partial annotation to the allowed tags (n, T) of one document, in place.

        RETURNS wrong labelings that allowed tags cannot exclude, each as its tags (n, T).
        ValueError names annotation that contradicts itself, or unknown labels.
        """

    def lattice(self, docs: Sequence[Doc], ignore_annotation: bool = False) -> Bools | None:
        """Return the tags (N, T) open to each token, None where all are.

        ignore_annotation: as if the documents had no annotation of this kind.
        """

    def restrict(
        self, potentials: Potentials, docs: Sequence[Doc], ops: Ops, ignore_annotation: bool = False
    ) -> Potentials:
        """Return the potentials of prediction, with -inf on everything that is not open."""

    def kept(self, docs: Sequence[Doc], tags: Tags) -> Tags:
        """Return the tags (N,) that documents have after `write`, UNKNOWN for unknown labels."""

    def write(
        self, docs: Sequence[Doc], tags: Sequence[Tags], data: Sequence[UserData]
    ) -> list[Doc]:
        """Write the tags and the user data of each document.

        RETURNS the documents; new documents where the annotation needs other tokens.
        """

    def interpret(self, doc: Doc, tags: Tags) -> list[Any]:
        """Return the annotation that the tags of one document stand for."""

    def compare_with_gold(self, tags: Tags, values: Values, lengths: Tags) -> tuple[Any, Bools]:
        """Return M predictions, for `confidences`, and which are right (M,).

        Predictions that the gold annotation does not decide are left out.
        """

    def confidences(
        self, posterior: Potentials, predictions: Any, ops: Ops
    ) -> NDArray[np.floating]:
        """Return the probabilities of predictions (M,)."""
