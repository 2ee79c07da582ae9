"""The codec of part-of-speech tags, `Token.tag` or `Token.pos`."""

from collections.abc import Iterable, Sequence
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

from .codec import Codec
from .codec_types import Floats, Ops, PredictedSpans, ScoredSpans, SpanArrays, Tags, Unit
from .partial_gold import PartialTags

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
    where_lost = "`spacy bcrf convert --tag-column` reads tags from a file of columns. "

    overwrite = False  # whether `write` replaces preset tags

    def __init__(self, attribute: str) -> None:
        """attribute: "tag" or "pos"."""
        check_attribute(attribute)
        super().__init__({"attribute": attribute})
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
        self.partial = PartialTags(labels, self._wrong, self._ids[0], self._align)

    def find_labels(self, doc: Doc) -> set[str]:
        """Return the tags of a gold document, and the tags that it calls wrong."""
        values = np.unique(doc.to_array(self._ids[0]))
        names = [doc.vocab.strings[value] for value in values.tolist() if value]
        return {name.removeprefix(WRONG) or name for name in names}

    def find_spans(self, doc: Doc) -> list[Span]:
        tags = enumerate(self._read(doc).tolist())
        return [Span(doc, i, i + 1, label=tag) for i, tag in tags if tag]

    def _read(self, doc: Doc) -> arrays.Values:
        """Return the tags (n,) of a document, 0 where it only says which tag is wrong."""
        values = arrays.read_doc_attributes(doc, self._ids)[:, 0]
        return np.where(np.isin(values, self._wrong), 0, values)

    def length(self, span: Span) -> int | None:
        """Return None: a tag has no length."""
        return None

    def align_gold(self, examples: Sequence[Example]) -> tuple[arrays.Values, dict[int, str]]:
        """Return the gold attribute values (N, 1), and problems by example."""
        return arrays.align_values(
            examples, 1, self._align, lambda doc: arrays.read_doc_attributes(doc, self._ids)
        )

    def _align(self, example: Example) -> arrays.Values:
        aligned = example.get_aligned(self._attribute.upper())
        return np.array([[value or 0] for value in aligned], dtype="uint64").reshape(-1, 1)

    def encode(self, values: arrays.Values, lengths: Tags) -> tuple[NDArray, arrays.Bools]:
        ids = self._index.find(values[:, 0]).astype("int32")
        return ids, (ids < 0) & (values[:, 0] != 0) & ~np.isin(values[:, 0], self._wrong)

    def unannotated(self, doc: Doc) -> arrays.Bools:
        return self._read(doc) == 0

    def check_promise(self, promise: str) -> None:
        if promise == "recall":
            raise ValueError(
                f"it predicts {self.what}, but a promise of recall is one of spans. Choose a "
                "component of spans (--pipe), or promise precision"
            )

    def predictions(self, tags: Tags, lengths: Tags) -> PredictedSpans:
        tokens = np.arange(len(tags))
        return tokens, tokens + 1, tags

    def candidates(self, posterior: Potentials, threshold: float, ops: Ops) -> SpanArrays:
        marginals = ops.to_numpy(CRF().marginals(posterior).unary).clip(max=1)
        tokens, tags = np.nonzero(marginals >= threshold)
        return tokens, tokens + 1, tags, marginals[tokens, tags]

    def is_preset(self, doc: Doc) -> bool:
        return not self.overwrite and len(doc) > 0 and bool(doc.to_array(self._ids[0]).all())

    def is_hidden_by(self, assigned: Iterable[str]) -> bool:
        return not self.overwrite and self.what in assigned

    def kept(self, docs: Sequence[Doc], tags: Tags) -> Tags:
        """Return preset tags, unless `overwrite` is set, and predicted tags elsewhere."""
        if self.overwrite:
            return tags
        old = arrays.read_attributes(docs, self._ids)[:, 0]
        return np.where(old > 0, self._index.find(old), tags).astype("int32")

    def write(
        self, docs: Sequence[Doc], tags: Sequence[Tags], spans: Sequence[ScoredSpans | None]
    ) -> list[Doc]:
        # NumPy is slow for arrays of a few tokens.
        all_ids = np.concatenate(tags)
        values = np.where(all_ids[:, None] == arrays.UNKNOWN, 0, self._values[all_ids])
        columns, end = list(self._ids), 0
        for doc, ids in zip(docs, tags, strict=True):
            start, end = end, end + len(ids)
            of_doc: Any = values[start:end]
            if not self.overwrite and doc.has_annotation(columns[0]):
                old = arrays.read_doc_attributes(doc, self._ids)
                of_doc = np.where(old > 0, old, of_doc)
            doc.from_array(columns, of_doc)
        return list(docs)

    def interpret(self, doc: Doc, tags: Tags) -> list[str]:
        return [self.tags[tag] for tag in tags.tolist()]

    def compare_with_gold(
        self, tags: Tags, values: arrays.Values, lengths: Tags
    ) -> tuple[PredictedSpans, arrays.Bools, arrays.Bools]:
        gold, has_unknown_label = self.encode(values, lengths)
        # A token with an unknown label is annotated. Every prediction on it is wrong.
        return (
            self.predictions(tags, lengths),
            gold == tags,
            (gold != arrays.UNKNOWN) | has_unknown_label,
        )

    def confidences(self, posterior: Potentials, predictions: PredictedSpans, ops: Ops) -> Floats:
        tokens, _, tags = predictions
        return token_confidences(posterior, tokens, tags, ops)
