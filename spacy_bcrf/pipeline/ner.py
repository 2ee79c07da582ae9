"""`bcrf_ner`: named entities, as tags of a scheme whose rules no labeling can break."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import (  # type: ignore[import-not-found]
    ENT_IOB,
    ENT_TYPE,
    IS_SPACE,
    SENT_START,
)
from spacy.pipeline.ner import ner_score  # type: ignore[import-not-found]
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Model

from ..chain import Potentials
from ..layers.head import Constraints
from ..schemes import get_scheme
from .annotation import Values, doc_lengths, read_docs, starts_document
from .entities import BEGIN, INSIDE, OUTSIDE, EntityTags
from .sequence_labeler import SequenceLabeler


class EntityRecognizer(SequenceLabeler):
    """Entities of a scheme; they respect sentence starts, whitespace and what a Doc already has.

    A preset entity must be of a type the component knows: else ValueError naming it.
    """

    attribute_ids = (ENT_IOB, ENT_TYPE)

    def __init__(
        self,
        vocab: Vocab,
        model: Model[list[Doc], Potentials],
        name: str = "bcrf_ner",
        *,
        scheme: str = "BILUO",
        scorer: Callable | None = ner_score,
        **settings: str,
    ) -> None:
        """scheme: BILUO, BIO or BIES. settings: what else is saved."""
        self.scheme = get_scheme(scheme)
        self.tags_per_label = len(self.scheme.prefixes)
        self.restrictions = (
            f"the scheme {scheme}, preset entities, sentence starts or whitespace at an edge"
        )
        super().__init__(vocab, model, name, scorer=scorer, scheme=scheme, **settings)

    @property
    def tags(self) -> list[str]:
        return self.scheme.tags(self.labels)

    def _refresh(self) -> None:
        self._entities = EntityTags(self.scheme, self._label_values())
        super()._refresh()

    def _tag_values(self) -> list[tuple[int, ...]]:
        opening = (self.scheme.first, self.scheme.single)
        codes = [BEGIN if prefix in opening else INSIDE for prefix in self.scheme.prefixes]
        return [(OUTSIDE, 0), *((code, value) for value in self._label_values() for code in codes)]

    def _constraints(self) -> Constraints:
        tags = self._entities
        return Constraints(tags.transitions, tags.may_start, tags.may_end)

    def _read_preset(self, docs: Sequence[Doc]) -> Values:
        """(N, 2) ENT_IOB and ENT_TYPE of the entities that are there already."""
        return read_docs(docs, self.attribute_ids)

    def _lattice(self, docs: Sequence[Doc]) -> NDArray[np.bool_] | None:
        iob, types = self._read_preset(docs).T
        sent_start, is_space = read_docs(docs, (SENT_START, IS_SPACE)).T
        unknown = types[self._entities.is_unknown(iob, types)]
        if unknown.size:
            label = docs[0].vocab.strings[unknown[0].item()]
            raise ValueError(
                f"[{self.name}] a document already has an entity of type {label!r}, which the "
                f"component does not know. It knows {', '.join(self.labels)}; "
                f"add_label({label!r}) makes it known"
            )
        first = starts_document(doc_lengths(docs))
        return self._entities.lattice(iob, types, sent_start == 1, is_space == 1, first)

    def _decode(self, docs: list[Doc]) -> NDArray[np.int32]:
        ids = super()._decode(docs)
        if not self._entities.is_end_open:
            return ids
        iob, is_space = self._read_preset(docs)[:, 0], read_docs(docs, (IS_SPACE,))[:, 0]
        is_preset = (iob == BEGIN) | (iob == INSIDE)
        first = starts_document(doc_lengths(docs))
        return self._entities.trim(ids, (is_space == 1) & ~is_preset, first)

    def _encode(self, values: Values, lengths: NDArray[np.int32]) -> tuple[NDArray, NDArray]:
        iob, types = values.T
        gold = self._entities.gold(iob, types, starts_document(lengths))
        return gold, self._entities.is_unknown(iob, types)

    def _align(self, example: Example) -> Values:
        values = np.zeros((len(example), 2), dtype="uint64")
        for i, tag in enumerate(example.get_aligned_ner()):
            if tag == "O":
                values[i] = OUTSIDE, 0
            elif tag not in (None, "", "-"):
                prefix, _, label = tag.partition("-")
                code = BEGIN if prefix in ("B", "U") else INSIDE
                values[i] = code, example.reference.vocab.strings[label]
        return values

    def _merge(self, old: Values, new: Values) -> Values:
        blocked = (old[:, :1] == BEGIN) & (old[:, 1:] == 0)
        return np.where(blocked, old, new)
