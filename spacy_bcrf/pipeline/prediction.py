"""Prediction of a batch: potentials, the best labelings, and what is known about them."""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc, Token
from spacy.training import Example
from spacy.util import minibatch
from spacy.vocab import Vocab
from thinc.api import Model

from bcrf.chain import Inference, Potentials
from bcrf.chain.potentials import NotFiniteError
from spacy_bcrf.annotation.arrays import Attributes, DocBatch, doc_lengths
from spacy_bcrf.annotation.extensions import UserData
from spacy_bcrf.layers.decoding import F
from spacy_bcrf.layers.protocol import LabelingModel
from spacy_bcrf.pipeline.codecs.codec_types import ScoredSpans

from .apply_thresholds import CandidateSpan, drop_uncertain, find_candidates
from .codecs import Codec
from .confidence import OFFSETS, Predicted, annotate_predictions, find_scored_spans
from .gold import Gold
from .settings import Settings
from .span_decoder import choose_spans, encode_spans, find_thresholds

BATCH_SIZE = 128
"""Number of documents that the parts of the package read or predict together."""


class Prediction(NamedTuple):
    """The prediction of one document. tags: int32 (n,). user_data: new entries.

    candidates: spans of a recall promise. spans: with probabilities, if they may overlap.
    """

    tags: NDArray[np.int32]
    user_data: UserData
    candidates: list[CandidateSpan] | None = None
    spans: ScoredSpans | None = None


def batches(labeling: LabelingModel, stream: Iterable[Doc], size: int) -> Iterator[list[Doc]]:
    """Return batches, of a sparse chain at most BATCH_SIZE. ValueError for a size below 1."""
    # spaCy's batches of such a size lose all documents.
    if not isinstance(size, int | np.integer) or size < 1:
        raise ValueError(f"[{labeling.name}] batch_size must be a positive integer, got {size!r}")
    is_sparse = labeling.hooks.learn is not None
    return minibatch(stream, size=min(size, BATCH_SIZE) if is_sparse else size)


class Component(Protocol):
    """What functions on a component ask of it, see `SequenceLabeler`. N tokens."""

    name: str
    model: Model
    vocab: Vocab
    settings: Settings

    @property
    def codec(self) -> Codec:
        """Defines the tags."""

    @property
    def labeling(self) -> LabelingModel:
        """The typed view of the model."""

    def read_gold(self, examples: Sequence[Example]) -> Gold:
        """Return what the examples teach."""

    def change_setting(self, name: str, value: Any) -> None:
        """Change a setting, which is saved with the component."""

    def find_potentials(self, docs: Sequence[Doc], ignore_annotation: bool = False) -> Potentials:
        """Return the potentials of the tags, with -inf outside of each document's lattice.

        TypeError for other objects than documents, ValueError for scores that are not finite.
        """
        return find_potentials(self.codec, self.labeling, docs, ignore_annotation)[1]

    @property
    def inference(self) -> Inference:
        """The inference of all probabilities: the head's objective, or a CRF if that has none."""
        return self.labeling.inference

    def posterior(self, potentials: Potentials, temperature: float | None = None) -> Potentials:
        """Return the chain of all probabilities. temperature: by default the component's."""
        t = self.settings.temperature if temperature is None else temperature
        return self.inference.to_crf(potentials.scale(1 / t))

    def decode(self, potentials: Potentials) -> NDArray[np.int32]:
        """Return the tags (N,) of the best labelings, by the decoder of the head."""
        if self.labeling.decoder != F:
            return self.labeling.decode(potentials)
        thresholds = find_thresholds(self.name, self.codec.labels, self.settings.threshold)
        spans, _ = choose_spans(self.codec, self.posterior(potentials), thresholds, self.model.ops)
        return encode_spans(self.codec, spans, self.model.ops.to_numpy(potentials.lengths))


def find_potentials(
    codec: Codec,
    labeling: LabelingModel,
    docs: Sequence[Doc],
    ignore_annotation: bool = False,
    more: Attributes = (),
) -> tuple[list[Doc], Potentials]:
    """Return the documents and their potentials, see `Component.find_potentials`.

    The documents are a `DocBatch` if the codec reads attributes: these, then `more`, then others.
    """
    if not isinstance(docs, DocBatch):
        _check_docs(labeling.name, docs)
        if not any(len(doc) for doc in docs):
            n_tags, ops = max(1, codec.n_tags), labeling.model.ops
            lengths = labeling.asarray(doc_lengths(docs).repeat(codec.n_chains))
            empty = Potentials(ops.alloc2f(0, n_tags), ops.alloc2f(n_tags, n_tags), lengths)
            return list(docs), empty
        docs = list(docs)
        if codec.attributes:
            docs = DocBatch(docs, (*codec.attributes, *more, *labeling.columns))
    try:
        potentials = labeling.model.predict(docs)
    except NotFiniteError as error:
        raise ValueError(
            f"[{labeling.name}] the scores of {name_doc(docs, error)} are NaN or infinite. The "
            "weights of the pipeline or its vectors have such values: repair the vectors, or "
            "train again"
        ) from error
    if isinstance(docs, DocBatch):
        allowed, ends_nothing = codec.open_tags(docs, ignore_annotation)
        if allowed is not None:
            potentials = potentials.restrict(labeling.asarray(allowed))
        if ends_nothing is not None and ends_nothing.any():
            # A BIO span that ends on whitespace: its tags alone do not show its end.
            assert codec.spans is not None
            potentials = codec.spans.entities.forbid_ends(potentials, ends_nothing)
    return docs, potentials


def predict(
    codec: Codec, labeling: LabelingModel, docs: list[Doc], settings: Settings
) -> list[Prediction]:
    """Return tags and user data of each document. ValueError: see `check_temperature`."""
    if not docs:
        return []
    control = settings.control
    check_temperature(labeling.name, settings)
    more = OFFSETS if settings.annotate else ()
    docs, potentials = find_potentials(codec, labeling, docs, more=more)
    ops = labeling.model.ops
    user_data: list[UserData] = [{} for _ in docs]
    candidates: Sequence[list[CandidateSpan] | None] = [None] * len(docs)
    rows = ops.to_numpy(potentials.lengths)
    lengths = rows[:: codec.n_chains]
    spans: Sequence[ScoredSpans | None] = [None] * len(docs)
    is_for_f = labeling.decoder == F
    tags = np.zeros(0, dtype="int32") if is_for_f else labeling.decode(potentials)
    if is_for_f or settings.annotate or settings.threshold or control or codec.layered:
        posterior = labeling.inference.to_crf(potentials.scale(1 / settings.temperature))
        predicted = Predicted(docs, lengths, posterior, tags, codec, ops, settings.calibration)
        if is_for_f:
            thresholds = find_thresholds(labeling.name, codec.labels, settings.threshold)
            scored = choose_spans(codec, posterior, thresholds, ops)
            tags = encode_spans(codec, scored[0], rows)
            predicted = predicted._replace(tags=tags, scored=scored)
        if control or (settings.threshold and not is_for_f):
            tags = drop_uncertain(labeling.name, predicted, control, settings.threshold)
            predicted = predicted._replace(tags=tags, scored=None)
        if control and control.promise == "recall":
            candidates = find_candidates(predicted, control)
        user_data = annotate_predictions(settings.annotate, predicted)
        if codec.layered:
            spans = find_scored_spans(predicted)
    # np.split costs four times as much for many short documents.
    bounds = pairwise([0, *(codec.n_chains * lengths.cumsum()).tolist()])
    by_doc = [tags[start:stop] for start, stop in bounds]
    parts = zip(by_doc, user_data, candidates, spans, strict=True)
    return [Prediction(*of_doc) for of_doc in parts]


def name_doc(docs: Sequence[Doc], error: NotFiniteError) -> str:
    """Name the document of an error by its index and the start of its text."""
    if error.sequence is None:
        return "all documents"
    return f"document {error.sequence}, {docs[error.sequence].text[:40]!r},"


def check_temperature(name: str, settings: Settings) -> None:
    """Raise ValueError if the temperature has changed since `control` was fitted."""
    control, temperature = settings.control, settings.temperature
    # Files of JSON and of spaCy's configs may differ in the last digit of a number.
    if control and not math.isclose(control.temperature, temperature):
        raise ValueError(
            f"[{name}] control has thresholds for the temperature {control.temperature:g}, but "
            f"the temperature is {temperature:g}. Run `python -m spacy bcrf control` "
            "again, or set control to None"
        )


def _check_docs(name: str, docs: Sequence[Doc]) -> None:
    for doc in docs:
        if not isinstance(doc, Doc):
            if isinstance(doc, Token):
                raise TypeError(f"[{name}] expected documents, got a Doc: pass [doc]")
            raise TypeError(
                f"[{name}] expected documents, got {type(doc).__name__} {doc!r:.40}. nlp(text) "
                "makes one; a segmenter takes nlp.make_doc(text)"
            )
