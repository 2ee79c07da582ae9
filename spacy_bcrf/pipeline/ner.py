"""`bcrf_ner`: named entities, as tags of a scheme whose rules no labeling can break."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import (  # type: ignore[import-not-found]
    ENT_IOB,
    ENT_TYPE,
    IS_SPACE,
    SENT_START,
)
from spacy.pipeline.ner import ner_score  # type: ignore[import-not-found]
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import minibatch
from spacy.vocab import Vocab
from thinc.api import Model

from spacy_bcrf.annotation.arrays import UNKNOWN, Values, doc_lengths, read_docs, starts_document
from spacy_bcrf.annotation.entity_tags import BEGIN, INSIDE, OUTSIDE, EntityTags
from spacy_bcrf.annotation.partial import (
    AMBIGUOUS,
    INCORRECT,
    find_contradictions,
    find_labels,
    has_partial_annotation,
    read_annotated_labels,
    read_partial_annotation,
)
from spacy_bcrf.annotation.schemes import get_scheme
from spacy_bcrf.chain import (
    CRF,
    ExpectedEntityRatio,
    Inference,
    Potentials,
    SpanTags,
    span_candidates,
    span_posteriors,
    unlikelihood_loss,
)
from spacy_bcrf.layers.head import Constraints

from . import confidence
from .queries import BATCH_SIZE, Predicted
from .sequence_labeler import Gold, SequenceLabeler


class Candidate(NamedTuple):
    """What could be an entity, and the probability of these boundaries and this label."""

    span: Span
    probability: float


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
        incorrect_spans_key: str | None = INCORRECT,
        ambiguous_spans_key: str | None = AMBIGUOUS,
        entity_ratio: ExpectedEntityRatio | None = None,
        annotate: Sequence[str] = (),
        temperature: float = 1.0,
        **settings: str,
    ) -> None:
        """scheme: BILUO, BIO or BIES.
        incorrect_spans_key, ambiguous_spans_key: names of the span groups of gold documents that
        hold what is no entity, and entities of an unsure type, see `supervision`.
        entity_ratio: the share of tokens in entities to expect of every batch.
        annotate, temperature: see `SequenceLabeler`. settings: what else is saved.
        """
        self.scheme = get_scheme(scheme)
        self.incorrect_spans_key = incorrect_spans_key
        self.ambiguous_spans_key = ambiguous_spans_key
        self.entity_ratio = entity_ratio
        self.tags_per_label = len(self.scheme.prefixes)
        self.restrictions = (
            f"the scheme {scheme}, preset entities, sentence starts or whitespace at an edge"
        )
        super().__init__(
            vocab,
            model,
            name,
            scorer=scorer,
            annotate=annotate,
            temperature=temperature,
            scheme=scheme,
            **settings,
        )

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

    def _lattice(
        self, docs: Sequence[Doc], ignore_annotation: bool = False
    ) -> NDArray[np.bool_] | None:
        iob, types = self._read_preset(docs).T
        sent_start, is_space = read_docs(docs, (SENT_START, IS_SPACE)).T
        if ignore_annotation:
            iob, types = np.zeros_like(iob), np.zeros_like(types)
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

    def find_potentials(self, docs: list[Doc], ignore_annotation: bool = False) -> Potentials:
        potentials = super().find_potentials(docs, ignore_annotation)
        if not self._entities.is_end_open or not len(potentials.unary):
            return potentials
        # The lattice cannot say it of BIO's tags.
        is_loose = read_docs(docs, (IS_SPACE,))[:, 0] == 1
        if not ignore_annotation:
            iob = self._read_preset(docs)[:, 0]
            is_loose &= (iob != BEGIN) & (iob != INSIDE)
        if not is_loose.any():
            return potentials
        return self._entities.forbid_ends(potentials, is_loose)

    def entity_candidates(
        self, docs: Iterable[Doc], threshold: float = 0.05, *, ignore_annotation: bool = True
    ) -> list[list[Candidate]]:
        """Every entity of at least that probability, in the order of the text; they may overlap."""
        found = []
        for batch in minibatch(docs, BATCH_SIZE):
            posterior = self.with_temperature(self.find_potentials(batch, ignore_annotation))
            spans = span_candidates(posterior, self._span_tags(), threshold)
            starts, ends, labels, probabilities = map(self.model.ops.to_numpy, spans)
            bounds = np.cumsum([0, *(len(doc) for doc in batch)])
            splits = pairwise(starts.searchsorted(bounds).tolist())
            for doc, offset, (a, b) in zip(batch, bounds.tolist(), splits, strict=False):
                these = zip(
                    (starts[a:b] - offset).tolist(),
                    (ends[a:b] - offset).tolist(),
                    labels[a:b].tolist(),
                    probabilities[a:b].tolist(),
                    strict=True,
                )
                found.append([Candidate(self._span(doc, *span), p) for *span, p in these])
        return found

    def _interpret(self, doc: Doc, tags: NDArray[np.int32]) -> list[Span]:
        spans = self.scheme.decode_ids(tags)
        lists = (part.tolist() for part in spans)
        return [self._span(doc, *span) for span in zip(*lists, strict=True)]

    def _span(self, doc: Doc, start: int, end: int, label: int) -> Span:
        return Span(doc, start, end, label=self.labels[label])

    def _span_tags(self) -> SpanTags:
        ops = self.model.ops
        return SpanTags(*map(ops.asarray, self.scheme.span_tags(self.labels)))

    def _say(self, what: str, predicted: Predicted) -> None:
        if what != "confidence":
            return super()._say(what, predicted)
        docs, posterior, tags, user_data = predicted
        spans = self.scheme.decode_ids(tags, doc_lengths(docs))
        p = self.confidences(posterior, spans)
        confidence.say_of_spans(docs, what, spans[0], spans[1], p, user_data)

    def confidences(self, posterior: Potentials, predictions: Any) -> NDArray[np.floating]:
        """(M,) probabilities of spans: their starts, ends and labels."""
        ops: Any = self.model.ops
        spans = map(ops.asarray, predictions)
        return ops.to_numpy(span_posteriors(posterior, self._span_tags(), *spans))

    def _compare(
        self, tags: NDArray[np.int32], values: Values, lengths: NDArray[np.int32]
    ) -> tuple[Any, NDArray[np.bool_]]:
        iob, types = values.T
        starts, ends, labels = self.scheme.decode_ids(tags, lengths)
        gold = self._entities.encode(iob, types, starts_document(lengths))
        # A label that is none of ours is known, and never predicted.
        is_missing = (gold == UNKNOWN) & ~self._entities.is_unknown(iob, types)
        is_unknown, is_wrong = (np.append(0, x.cumsum()) for x in (is_missing, gold != tags))
        known = is_unknown[starts] == is_unknown[ends]
        # In BIO the gold entity can go on where the predicted one ends.
        goes_on = np.append(self._entities.goes_on(iob, starts_document(lengths)), False)[ends]
        correct = (is_wrong[starts] == is_wrong[ends]) & ~goes_on
        return tuple(part[known] for part in (starts, ends, labels)), correct[known]

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

    def _is_marked(self, doc: Doc) -> bool:
        return has_partial_annotation(doc, (self.incorrect_spans_key, self.ambiguous_spans_key))

    def _mark(
        self, example: Example, values: Values, allowed: NDArray[np.bool_]
    ) -> list[NDArray[np.bool_]]:
        markings = read_partial_annotation(
            example, self.ambiguous_spans_key, self.incorrect_spans_key
        )
        iob, types = values.T
        if markings.allowed or markings.ambiguous or markings.incorrect:
            entities = self._entities.spans(iob, types, self.labels)
            if problems := find_contradictions(example.predicted, markings, entities):
                raise ValueError("; ".join(problem.what for problem in problems))
        wrong = self._entities.mark(allowed, iob, markings, self.labels)
        return [self._entities.pin(allowed, start, end, [label]) for start, end, label in wrong]

    def _lose(self, potentials: Potentials, gold: Gold) -> tuple[float, Potentials]:
        loss, gradient = super()._lose(potentials, gold)
        if gold.rejections:
            objective = self.head.attrs["objective"]
            inference = objective if isinstance(objective, Inference) else CRF()
            losses, more = unlikelihood_loss(
                inference, potentials.restrict(gold.tags), gold.rejections
            )
            loss += float(losses.sum())
            gradient = _add(gradient, more)
        if self.entity_ratio is not None:
            is_entity = self.model.ops.xp.arange(len(self.tags)) > 0
            penalty, more = self.entity_ratio.loss(potentials, is_entity)
            n_docs = len(potentials.lengths)
            loss += n_docs * penalty
            gradient = _add(gradient, more, n_docs)
        return loss, gradient

    def _find_labels(self, doc: Doc) -> set[str]:
        return self._find_used_labels(doc) | (read_annotated_labels(doc) or set())

    def _find_used_labels(self, doc: Doc) -> set[str]:
        span_keys = (self.ambiguous_spans_key, self.incorrect_spans_key)
        return super()._find_labels(doc) | find_labels(doc, span_keys)

    def _check_references(self, docs: list[Doc]) -> None:
        marked = filter(self._is_marked, docs)
        annotated = set().union(*(read_annotated_labels(doc) or () for doc in marked))
        if annotated and (unused := annotated.difference(*map(self._find_used_labels, docs))):
            warnings.warn(
                f"[{self.name}] annotated_labels has {', '.join(sorted(unused))}, of which the "
                "training data has no entity and no other span: is it spelled right?",
                stacklevel=3,
            )

    def _merge(self, old: Values, new: Values) -> Values:
        blocked = (old[:, :1] == BEGIN) & (old[:, 1:] == 0)
        return np.where(blocked, old, new)


def _add(gradient: Potentials, more: Potentials, times: float = 1) -> Potentials:
    """In the precision of the first."""
    return Potentials(
        gradient.unary + (times * more.unary).astype(gradient.unary.dtype),
        gradient.transitions + (times * more.transitions).astype(gradient.unary.dtype),
        gradient.lengths,
    )
