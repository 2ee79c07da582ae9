"""One tag a token: `Token.tag` or `Token.pos`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import IDS  # type: ignore[import-not-found]
from spacy.parts_of_speech import IDS as UPOS  # type: ignore[import-not-found]
from spacy.strings import StringStore
from spacy.tokens import Doc
from spacy.training import Example

from spacy_bcrf.annotation import partial
from spacy_bcrf.annotation.arrays import (
    UNKNOWN,
    Bools,
    LabelIndex,
    Values,
    read_doc,
    read_docs,
    read_gold,
)
from spacy_bcrf.annotation.extensions import ALLOWED_TAGS, UserData
from spacy_bcrf.chain import CRF, Potentials
from spacy_bcrf.layers.protocol import Constraints

from .codec import Ops, Tags, Unit

ATTRIBUTES = ("tag", "pos")


def check_attribute(name: str, attribute: str) -> None:
    """Raise ValueError for an attribute that is not one of ATTRIBUTES."""
    if attribute not in ATTRIBUTES:
        raise ValueError(f"[{name}] attribute must be tag or pos, got {attribute!r}")


def check_upos(attribute: str, label: str) -> None:
    """Raise ValueError for a label that the attribute cannot hold."""
    if attribute == "pos" and label not in UPOS:
        raise ValueError(
            f"{label!r} is not a universal part of speech, and attribute = 'pos' needs one of "
            f"{', '.join(sorted(filter(None, UPOS)))}"
        )


def token_confidences(
    posterior: Potentials, tokens: NDArray[np.int64], tags: Tags, ops: Ops
) -> NDArray[np.floating]:
    """Return the marginal probabilities (M,) of tags at flat tokens."""
    marginals = ops.to_numpy(CRF().marginals(posterior).unary)
    return marginals[tokens, tags].clip(max=1)


class TagCodec:
    """Tags of which any may follow any. See `Codec`."""

    tags_per_label = 1
    constraints: Constraints | None = None
    restrictions = "allowed_tags"
    confidence_units: ClassVar[dict[str, Unit]] = {"confidence": "token", "tag_confidence": "token"}

    def __init__(self, name: str, attribute: str, overwrite: bool) -> None:
        """attribute: "tag" or "pos". overwrite: whether `write` replaces tags of a document."""
        check_attribute(name, attribute)
        self.settings = {"attribute": attribute}
        self.overwrite = overwrite
        self._attribute = attribute
        self._ids = (IDS[attribute.upper()],)

    def check_label(self, label: str) -> None:
        check_upos(self._attribute, label)

    def set_labels(self, labels: Sequence[str], strings: StringStore) -> None:
        self.labels = tuple(labels)
        values = [strings.add(label) for label in labels]
        self.tags = list(labels)
        self._values = np.array(values, dtype="uint64").reshape(-1, 1)
        self._index = LabelIndex(values)

    def find_labels(self, doc: Doc) -> set[str]:
        values = np.unique(doc.to_array(self._ids[0]))
        return {doc.vocab.strings[value] for value in values.tolist() if value}

    def find_misspelled(self, docs: Sequence[Doc]) -> str:
        return ""

    def read_gold(self, examples: Sequence[Example]) -> tuple[Values, dict[int, str]]:
        return read_gold(examples, 1, self._align, self._read)

    def _read(self, doc: Doc) -> Values:
        return read_doc(doc, self._ids)

    def _align(self, example: Example) -> Values:
        aligned = example.get_aligned(self._attribute.upper())
        return np.array([[value or 0] for value in aligned], dtype="uint64").reshape(-1, 1)

    def encode(self, values: Values, lengths: Tags) -> tuple[NDArray, Bools]:
        ids = self._index.find(values[:, 0]).astype("int32")
        return ids, (ids < 0) & (values[:, 0] != 0)

    def has_partial_annotation(self, doc: Doc) -> bool:
        return partial.has_allowed_tags(doc)

    def is_whole(self, doc: Doc) -> bool:
        return bool(read_doc(doc, self._ids).all())

    def constrain(self, example: Example, values: Values, allowed: Bools) -> list[Bools]:
        for token, names in partial.read_allowed(example, ALLOWED_TAGS).items():
            if unknown := sorted(names - set(self.tags)):
                raise ValueError(f"unknown labels {', '.join(unknown)}")
            tags = np.isin(self.tags, list(names))
            if not (tags & allowed[token]).any():
                tag = self.tags[int(allowed[token].argmax())]
                word = example.predicted[token].text
                raise ValueError(
                    f"{word!r} (token {token}) is {tag}, and may only be {', '.join(sorted(names))}"
                )
            allowed[token] &= tags
        return []

    def lattice(self, docs: Sequence[Doc], ignore_annotation: bool = False) -> Bools | None:
        return None

    def restrict(
        self, potentials: Potentials, docs: Sequence[Doc], ops: Ops, ignore_annotation: bool = False
    ) -> Potentials:
        return potentials

    def kept(self, docs: Sequence[Doc], tags: Tags) -> Tags:
        if self.overwrite:
            return tags
        old = read_docs(docs, self._ids)[:, 0]
        return np.where(old > 0, self._index.find(old), tags).astype("int32")

    def write(
        self, docs: Sequence[Doc], tags: Sequence[Tags], data: Sequence[UserData]
    ) -> list[Doc]:
        for doc, ids, user_data in zip(docs, tags, data, strict=True):
            values: Any = self._values[ids]
            if not self.overwrite and doc.has_annotation(self._ids[0]):
                old = read_doc(doc, self._ids)
                values = np.where(old > 0, old, values)
            doc.from_array(list(self._ids), values)
            doc.user_data.update(user_data)
        return list(docs)

    def interpret(self, doc: Doc, tags: Tags) -> list[str]:
        return [self.tags[tag] for tag in tags.tolist()]

    def compare_with_gold(self, tags: Tags, values: Values, lengths: Tags) -> tuple[Any, Bools]:
        gold, has_unknown_label = self.encode(values, lengths)
        # A token with an unknown label is annotated, and every prediction there is wrong.
        known = np.flatnonzero((gold != UNKNOWN) | has_unknown_label)
        return (known, tags[known]), gold[known] == tags[known]

    def confidences(
        self, posterior: Potentials, predictions: Any, ops: Ops
    ) -> NDArray[np.floating]:
        tokens, tags = predictions
        return token_confidences(posterior, tokens, tags, ops)
