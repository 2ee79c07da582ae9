"""What a component can say of its own predictions, as custom attributes of documents.

All probabilities are exact under the CRF of the component's scores, p(y) ~ exp(score(y) /
temperature). Custom attributes live in Doc.user_data, so they survive to_bytes, n_process and
DocBin(store_user_data=True). If two components say the same of a document, the later one stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import IDX, LENGTH  # type: ignore[import-not-found]
from spacy.tokens import Doc

from spacy_bcrf.annotation.extensions import UserData, doc_key, span_key, token_key
from spacy_bcrf.chain import CRF, Potentials, entropy
from spacy_bcrf.chain.gold import path_scores
from spacy_bcrf.chain.search import nbest_arrays
from spacy_bcrf.kernels import Array, array_module

ANNOTATIONS = {
    "confidence": "span._.confidence of every entity, the probability of these boundaries and this "
    "label; for a component that predicts tags, the same as tag_confidence",
    "tag_confidence": "token._.tag_confidence, the probability of the token's tag",
    "entropy": "doc._.sequence_entropy, of the labelings, in nats; doc._.entropy_per_token",
    "probability": "doc._.sequence_probability, of the predicted labeling",
}
TEMPERATURES = 1e-6, 1e6
"""Between which it must be: scores divided by it keep the range and the precision of a float."""


def check_annotate(name: str, annotate: Iterable[str]) -> None:
    """ValueError naming what may be in it."""
    if isinstance(annotate, str) or not set(annotate) <= set(ANNOTATIONS):
        raise ValueError(
            f"[{name}] annotate must be a list of {', '.join(ANNOTATIONS)}, got {annotate!r}"
        )


def check_temperature(name: str, temperature: float) -> None:
    """ValueError naming what it may be."""
    low, high = TEMPERATURES
    if not low <= temperature <= high:
        raise ValueError(
            f"[{name}] temperature must be between {low:g} and {high:g}, got {temperature:g}"
        )


def labeling_probabilities(posterior: Potentials, tags: Array) -> Array:
    """(B,) of one labeling a sequence, int32 (N,)."""
    xp = array_module(tags)
    return xp.exp(path_scores(posterior, tags) - CRF().log_partition(posterior)).clip(max=1)


def _entropy_per_token(posterior: Potentials) -> Array:
    return entropy(posterior) / posterior.lengths.clip(min=1)


def _least_confidence(posterior: Potentials) -> Array:
    return 1 - _best_probabilities(posterior, 1)[:, 0]


def _margin(posterior: Potentials) -> Array:
    best = _best_probabilities(posterior, 2)
    return 1 - (best[:, 0] - best[:, 1])


def _best_probabilities(posterior: Potentials, n: int) -> Array:
    """(B, n), 0 for labelings that there are not."""
    _, scores = nbest_arrays(posterior, n)
    xp = array_module(scores)
    return xp.exp(scores - CRF().log_partition(posterior)[:, None]).clip(max=1)


UNCERTAINTIES = {
    "entropy": _entropy_per_token,
    "confidence": _least_confidence,
    "margin": _margin,
}
"""From potentials to (B,), larger for what is less sure (Settles 2012, chapter 2)."""


def say_of_docs(name: str, values: NDArray, user_data: list[UserData]) -> None:
    """values: (B,)"""
    for value, data in zip(values.tolist(), user_data, strict=True):
        data[doc_key(name)] = value


def say_entropy(entropies: NDArray, docs: Sequence[Doc], user_data: list[UserData]) -> None:
    """entropies: (B,)"""
    say_of_docs("sequence_entropy", entropies, user_data)
    lengths = np.array([max(1, len(doc)) for doc in docs])
    say_of_docs("entropy_per_token", entropies / lengths, user_data)


def say_of_tokens(
    docs: Sequence[Doc], name: str, values: NDArray, user_data: list[UserData]
) -> None:
    """values: (N,)"""
    said = iter(values.tolist())
    for doc, data in zip(docs, user_data, strict=True):
        offsets = doc.to_array(IDX).tolist()
        data.update((token_key(name, offset), next(said)) for offset in offsets)


def say_of_spans(
    docs: Sequence[Doc],
    name: str,
    starts: NDArray,
    ends: NDArray,
    values: NDArray,
    user_data: list[UserData],
) -> None:
    """starts, ends: (M,) first flat tokens and one past the last ones, in order; values: (M,)"""
    bounds = np.cumsum([0, *(len(doc) for doc in docs)])
    splits = pairwise(starts.searchsorted(bounds).tolist())
    for doc, offset, (a, b), data in zip(docs, bounds.tolist(), splits, user_data, strict=False):
        if a < b:
            at = doc.to_array([IDX, LENGTH]).astype("int64")
            first = at[starts[a:b] - offset, 0].tolist()
            last = at[ends[a:b] - 1 - offset].sum(axis=1).tolist()
            said = zip(first, last, values[a:b].tolist(), strict=True)
            data.update((span_key(name, start, end), value) for start, end, value in said)
