"""The codec of part-of-speech tags, `Token.tag` or `Token.pos`."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import IDS  # type: ignore[import-not-found]
from spacy.parts_of_speech import IDS as UPOS  # type: ignore[import-not-found]
from spacy.strings import StringStore
from spacy.tokens import Doc, Span
from spacy.training import Example

from bcrf.chain import CRF, Constraints, Potentials
from spacy_bcrf.annotation import arrays
from spacy_bcrf.annotation.entity_tags import LabelIndex
from spacy_bcrf.annotation.partial import read_allowed_tags

from .codec import Codec, Ops, Predictions, SpanArrays, Tags, Unit

ATTRIBUTES = ("tag", "pos")


def check_attribute(attribute: str) -> None:
    if attribute not in ATTRIBUTES:
        raise ValueError(f"attribute must be tag or pos, got {attribute!r}")


def check_upos(attribute: str, label: str) -> None:
    if attribute == "pos" and label not in UPOS:
        raise ValueError(
            f"{label!r} is not a universal part of speech, and attribute = 'pos' needs one of "
            f"{', '.join(sorted(filter(None, UPOS)))}"
        )


def token_confidences(
    posterior: Potentials, tokens: NDArray[np.integer], tags: NDArray[np.integer], ops: Ops
) -> NDArray[np.floating]:
    """Return the marginals (M,) of tags at flat tokens."""
    marginals = ops.to_numpy(CRF().marginals(posterior).unary)
    return marginals[tokens, tags].clip(max=1)


WRONG = "!"
"""Starts a gold tag that only says which tag is wrong."""


class TagCodec(Codec):
    """One tag per token, without constraints on transitions. See `Codec`."""

    tags_per_label = 1
    attributes: ClassVar[arrays.Attributes] = ()
    constraints: Constraints | None = None
    restrictions = "allowed_tags"
    unit: ClassVar[Unit] = "token"
    tag_unit: ClassVar[Unit] = "token"
    groupings: ClassVar[tuple[str, ...]] = ("label",)
    can_extend: ClassVar[bool] = True
    outside: ClassVar[int | None] = None
    where_lost = "`spacy bcrf convert --tag-column` reads tags from a file of columns. "

    overwrite = False  # whether `write` replaces preset tags

    def __init__(self, attribute: str) -> None:
        """attribute: "tag" or "pos"."""
        check_attribute(attribute)
        self.settings = {"attribute": attribute}
        self.what = f"token.{attribute}"
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
        wrong = [strings.add(f"{WRONG}{label}") for label in labels]
        self._wrong = np.array(wrong, dtype="uint64")

    def find_labels(self, doc: Doc) -> set[str]:
        """Return the tags of a gold document, and those that it calls wrong."""
        values = np.unique(doc.to_array(self._ids[0]))
        names = [doc.vocab.strings[value] for value in values.tolist() if value]
        return {name.removeprefix(WRONG) or name for name in names}

    def find_spans(self, doc: Doc) -> list[Span]:
        tags = enumerate(self._read(doc).tolist())
        return [Span(doc, i, i + 1, label=tag) for i, tag in tags if tag]

    def _read(self, doc: Doc) -> arrays.Values:
        """Return the tags (n,) of a document, 0 where it only says which tag is wrong."""
        values = arrays.read_doc(doc, self._ids)[:, 0]
        return np.where(np.isin(values, self._wrong), 0, values)

    def length(self, span: Span) -> int | None:
        """Return None: a tag has no length."""
        return None

    def read_gold(self, examples: Sequence[Example]) -> tuple[arrays.Values, dict[int, str]]:
        """Return the gold attribute values (N, 1), and problems by example."""
        return arrays.read_gold(
            examples, 1, self._align, lambda doc: arrays.read_doc(doc, self._ids)
        )

    def _align(self, example: Example) -> arrays.Values:
        aligned = example.get_aligned(self._attribute.upper())
        return np.array([[value or 0] for value in aligned], dtype="uint64").reshape(-1, 1)

    def encode(self, values: arrays.Values, lengths: Tags) -> tuple[NDArray, arrays.Bools]:
        ids = self._index.find(values[:, 0]).astype("int32")
        return ids, (ids < 0) & (values[:, 0] != 0) & ~np.isin(values[:, 0], self._wrong)

    def read_partial(self, examples: Sequence[Example]) -> tuple[dict[int, Any], dict[int, str]]:
        """Return the allowed tags by token, and problems. "!N" allows all but N, as for spaCy."""
        found, problems = read_allowed_tags(examples)
        for i, example in enumerate(examples):
            if not np.isin(example.reference.to_array(self._ids[0]), self._wrong).any():
                continue
            values = self._align(example)[:, 0]
            for token in np.flatnonzero(np.isin(values, self._wrong)).tolist():
                wrong = self.labels[int((self._wrong == values[token]).argmax())]
                by_token = found.setdefault(i, {})
                by_token[token] = by_token.get(token, frozenset(self.labels)) - {wrong}
        return found, problems

    def unannotated(self, doc: Doc) -> arrays.Bools:
        return self._read(doc) == 0

    def constrain(
        self, example: Example, partial: Any, values: arrays.Values, allowed: arrays.Bools
    ) -> list[tuple[int, arrays.Bools]]:
        for token, names in partial.items():
            tags = np.isin(self.tags, list(names))
            if unknown := sorted(names - set(self.tags)):
                raise ValueError(f"unknown labels {', '.join(unknown)}")
            if not (tags & allowed[token]).any():
                tag = self.tags[int(allowed[token].argmax())]
                word, expected = example.predicted[token].text, ", ".join(sorted(names))
                raise ValueError(f"{word!r} (token {token}) is {tag}, but may only be {expected}")
            allowed[token] &= tags
        return []

    def check_promise(self, promise: str) -> None:
        if promise == "recall":
            raise ValueError(
                f"a recall promise writes candidate spans, but the component predicts {self.what}. "
                "Promise precision"
            )

    def predictions(self, tags: Tags, lengths: Tags) -> Predictions:
        tokens = np.arange(len(tags))
        return tokens, tokens + 1, tags

    def candidates(self, posterior: Potentials, threshold: float, ops: Ops) -> SpanArrays:
        marginals = ops.to_numpy(CRF().marginals(posterior).unary).clip(max=1)
        tokens, tags = np.nonzero(marginals >= threshold)
        return tokens, tokens + 1, tags, marginals[tokens, tags]

    def kept(self, docs: Sequence[Doc], tags: Tags) -> Tags:
        """Return preset tags, unless `overwrite` is set, and predicted tags elsewhere."""
        if self.overwrite:
            return tags
        old = arrays.read_docs(docs, self._ids)[:, 0]
        return np.where(old > 0, self._index.find(old), tags).astype("int32")

    def write(self, docs: Sequence[Doc], tags: Sequence[Tags]) -> list[Doc]:
        # NumPy is slow for arrays of a few tokens.
        all_ids = np.concatenate(tags)
        values = np.where(all_ids[:, None] == arrays.UNKNOWN, 0, self._values[all_ids])
        columns, end = list(self._ids), 0
        for doc, ids in zip(docs, tags, strict=True):
            start, end = end, end + len(ids)
            of_doc: Any = values[start:end]
            if not self.overwrite and doc.has_annotation(columns[0]):
                old = arrays.read_doc(doc, self._ids)
                of_doc = np.where(old > 0, old, of_doc)
            doc.from_array(columns, of_doc)
        return list(docs)

    def interpret(self, doc: Doc, tags: Tags) -> list[str]:
        return [self.tags[tag] for tag in tags.tolist()]

    def compare_with_gold(
        self, tags: Tags, values: arrays.Values, lengths: Tags
    ) -> tuple[Predictions, arrays.Bools, arrays.Bools]:
        gold, has_unknown_label = self.encode(values, lengths)
        # A token with an unknown label is annotated. Every prediction on it is wrong.
        return (
            self.predictions(tags, lengths),
            gold == tags,
            (gold != arrays.UNKNOWN) | has_unknown_label,
        )

    def confidences(
        self, posterior: Potentials, predictions: Predictions, ops: Ops
    ) -> NDArray[np.floating]:
        tokens, _, tags = predictions
        return token_confidences(posterior, tokens, tags, ops)
