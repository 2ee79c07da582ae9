"""Confidence and entropy of predictions, in custom attributes, which `Doc.user_data` keeps.

All probabilities are exact under the head's own inference (`Inference.to_crf`) at the component's
temperature. If two components set one attribute, the later wins.
"""

from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import IDX, LENGTH  # type: ignore[import-not-found]
from spacy.tokens import Doc

from bcrf import kernels
from bcrf.chain import CRF, Potentials, entropy
from spacy_bcrf.annotation.arrays import UNKNOWN, DocBatch, split_spans
from spacy_bcrf.annotation.extensions import UserData, make_key
from spacy_bcrf.pipeline.codecs.codec_types import Floats, Ops, PredictedSpans, ScoredSpans
from spacy_bcrf.pipeline.codecs.tags import token_confidences

from .codecs import Codec
from .platt_scaling import PlattScaling

OFFSETS = (IDX, LENGTH)


class Predicted(NamedTuple):
    """A batch of predictions to annotate. lengths: (B,). posterior: of all probabilities.

    docs: see `find_potentials`, with OFFSETS. tags: int32 (C N,), before presets are kept.
    calibration: map of the reported confidences. scored: the spans of the tags and their
    probabilities, if the decoder has found them.
    """

    docs: list[Doc]
    lengths: NDArray[np.int32]
    posterior: Potentials
    tags: NDArray[np.int32]
    codec: Codec
    ops: Ops
    calibration: PlattScaling | None = None
    scored: tuple[PredictedSpans, Floats] | None = None


def annotate_predictions(names: Iterable[str], predicted: Predicted) -> list[UserData]:
    """Return the new user data of each document, for the given names of `settings.ANNOTATIONS`."""
    user_data: list[UserData] = [{} for _ in predicted.docs]
    for name in names:
        if name == "entropy":
            _annotate_entropy(predicted, user_data)
        elif name == "probability":
            _annotate_probability(predicted, user_data)
        else:
            codec = predicted.codec
            unit = codec.unit if name == "confidence" else codec.tag_unit
            (_annotate_tokens if unit == "token" else _annotate_spans)(predicted, user_data)
    return user_data


def _annotate_tokens(predicted: Predicted, user_data: list[UserData]) -> None:
    docs, lengths, posterior, tags, codec, ops, calibration, _ = predicted
    tags = codec.kept(docs, tags)
    known = tags != UNKNOWN
    p = token_confidences(posterior, np.arange(len(tags)), tags, ops)
    # The calibration is of the codec's own unit.
    if calibration is not None and codec.unit == codec.tag_unit:
        p = calibration.apply(p, find_keys(codec, calibration.by, codec.predictions(tags, lengths)))
    values = iter(np.where(known, p, None).tolist())  # type: ignore[call-overload]
    for doc, data in zip(docs, user_data, strict=True):
        for offset in doc.to_array(IDX).tolist():
            data["._.", "tag_confidence", offset, None] = next(values)  # a call takes long


def _find_confidences(predicted: Predicted) -> tuple[PredictedSpans, NDArray[np.floating]]:
    """Return the predictions and their calibrated probabilities (M,)."""
    _, lengths, posterior, tags, codec, ops, calibration, scored = predicted
    if scored is None:
        predictions = codec.predictions(tags, lengths)
        scored = predictions, codec.confidences(posterior, predictions, ops)
    predictions, p = scored
    if calibration is not None and len(p):
        p = calibration.apply(p, find_keys(codec, calibration.by, predictions))
    return predictions, p


def find_scored_spans(predicted: Predicted) -> list[ScoredSpans]:
    """Return the predictions of each document and their calibrated probabilities."""
    predictions, p = _find_confidences(predicted)
    by_doc = split_spans(predicted.docs, *predictions)
    stops = accumulate(map(len, by_doc))
    p = p.astype("float32")
    return [(spans, p[stop - len(spans) : stop]) for spans, stop in zip(by_doc, stops, strict=True)]


def _annotate_spans(predicted: Predicted, user_data: list[UserData]) -> None:
    docs, lengths, codec = predicted.docs, predicted.lengths, predicted.codec
    (starts, ends, _), p = _find_confidences(predicted)
    if not len(starts):
        return
    assert isinstance(docs, DocBatch)
    offsets = docs.values[:, len(codec.attributes) :]
    at = offsets[:, : len(OFFSETS)].astype("int64")
    docs_of_spans = lengths.cumsum().searchsorted(starts, side="right")
    columns = docs_of_spans, at[starts, 0], at[ends - 1].sum(axis=1), p
    # `Codec.confidence_key` without two calls for each span.
    is_span = codec.unit == "span"
    name = "confidence" if is_span else "tag_confidence"
    for i, first, last, value in zip(*(column.tolist() for column in columns), strict=True):
        user_data[i]["._.", name, first, last if is_span else None] = value


def find_keys(codec: Codec, by: str, predictions: PredictedSpans) -> list[str]:
    """Return the groups of predictions for `PlattScaling`: their labels, or their lengths."""
    starts, ends, labels = predictions
    if by == "length":
        return [str(n) for n in (ends - starts).tolist()]
    return [codec.labels[label] for label in labels.tolist()]


def by_document(values: NDArray, codec: Codec) -> NDArray:
    """Return the sum (B,) over the chains of each document. values: (C B,), such as entropies."""
    return values.reshape(-1, codec.n_chains).sum(axis=1)


def _annotate_entropy(predicted: Predicted, user_data: list[UserData]) -> None:
    entropies = by_document(predicted.ops.to_numpy(entropy(predicted.posterior)), predicted.codec)
    for doc, data, value in zip(predicted.docs, user_data, entropies.tolist(), strict=True):
        data[make_key("sequence_entropy")] = value
        data[make_key("entropy_per_token")] = value / max(1, len(doc))


def _annotate_probability(predicted: Predicted, user_data: list[UserData]) -> None:
    """Set the sequence probability, None for a document with an unknown preset tag."""
    docs, lengths, posterior, tags, codec, ops, *_ = predicted
    tags = codec.kept(docs, tags)
    labeling = ops.asarray(tags.clip(min=0))
    logs = kernels.path_scores(*posterior.arrays, labeling) - CRF().log_partition(posterior)
    values = np.exp(by_document(ops.to_numpy(logs), codec)).clip(max=1).tolist()
    by_doc = np.split(tags, codec.n_chains * lengths.cumsum()[:-1])
    for data, value, of_doc in zip(user_data, values, by_doc, strict=True):
        is_unknown = (of_doc == UNKNOWN).any()
        data[make_key("sequence_probability")] = None if is_unknown else value
