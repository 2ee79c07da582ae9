"""Spans with scores, of JSON lines, as token scores."""

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc

from bcrf.io.hashes import hash_files
from bcrf.io.json_objects import Problem, read_objects
from bcrf.io.text import CorpusError
from bcrf.lazy import lazy

from .foreign_labels import OUTSIDE

ScoredSpan = tuple[int, int, str, float]
"""First token, one past the last, label, and probability."""

PROBABILITY_FLOOR = 1e-4
"""Least probability of a label. No source is certain."""
CERTAINTY = 0.95
"""Probability of a span without a score."""


def score_tokens(n: int, spans: Iterable[ScoredSpan], labels: Sequence[str]) -> NDArray[np.float32]:
    """Return log-probabilities (n, L) of the labels O, B-X and I-X of spans.

    The probabilities of spans that share a token add up, at most to 1. O has the rest. Of equal
    spans, such as spans of overlapping windows, the most probable one counts.
    """
    at = {label: i for i, label in enumerate(labels)}
    p = np.zeros((n, len(labels)))
    best = {(start, end, label): score for start, end, label, score in sorted(spans)}
    for (start, end, label), score in best.items():
        p[start, at[f"B-{label}"]] += score
        p[start + 1 : end, at[f"I-{label}"]] += score
    p[:, at[OUTSIDE]] = 1 - p.sum(axis=1)
    p = p.clip(PROBABILITY_FLOOR)
    return np.log(p / p.sum(axis=1, keepdims=True)).astype("float32")


def span_labels(names: Iterable[str]) -> list[str]:
    return [OUTSIDE, *(f"{prefix}-{name}" for name in sorted(set(names)) for prefix in "BI")]


class SpanScores:
    """`spacy-bcrf.SpanScores.v1`: spans of GLiNER, Presidio or a language model, in JSON lines.

        {"text": "Ann left", "spans": [{"start": 0, "end": 3, "label": "PERSON", "score": 0.9}]}

    Bounds are characters; white space at the ends of a span is trimmed. A span takes the tokens
    that it touches: a warning names the first one that cuts a token, and `n_cut` counts them. A
    span without a score has the probability `CERTAINTY`. A text that the file does not have is
    silent.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.n_cut = 0

    @lazy
    def _spans(self) -> dict[str, list[ScoredSpan]]:
        """The spans of each text, in characters. CorpusError names the file and a wrong line."""
        if not self.path.is_file():
            raise ValueError(f"{self.path}: no such file; expected JSON lines of texts and spans")
        found: dict[str, list[ScoredSpan]] = {}
        places: dict[str, str] = {}
        for place, fields in read_objects(self.path):
            try:
                if isinstance(fields, Problem):
                    raise fields
                text = _read_string(fields, "text")
                if not isinstance(fields.get("spans"), list):
                    raise ValueError(f'"spans" must be a list, got {fields.get("spans")!r:.60}')
                spans = sorted(_read_span(text, span) for span in fields["spans"])
            except ValueError as error:
                raise CorpusError(
                    f'{place}: {error}; expected {{"text": .., "spans": [{{"start": 0, "end": 3, '
                    '"label": "PERSON", "score": 0.9}]}'
                ) from None
            if found.setdefault(text, spans) != spans:
                raise CorpusError(f"{place}: has the text of {places[text]} with other spans")
            places.setdefault(text, place)
        return found

    @lazy
    def labels(self) -> list[str]:
        names = {span[2] for spans in self._spans.values() for span in spans}
        if not names:
            n = len(self._spans)
            raise CorpusError(f"{self.path}: none of its {n:,} texts has a span; expected one")
        return span_labels(names)

    @lazy
    def identity(self) -> str:
        return hash_files(self.path)

    def load(self) -> object:
        return self._spans

    def __call__(self, docs: Sequence[Doc]) -> list[NDArray[np.float32]]:
        return [self._score(doc) for doc in docs]

    def _score(self, doc: Doc) -> NDArray[np.float32]:
        if doc.text not in self._spans:
            return np.full((len(doc), len(self.labels)), np.nan, dtype="float32")
        spans = []
        for start, end, label, score in self._spans[doc.text]:
            span = doc.char_span(start, end, alignment_mode="expand")
            assert span is not None  # the span is within the text
            spans.append((span.start, span.end, label, score))
            if (span.start_char, span.end_char) != (start, end):
                self.n_cut += 1
                if self.n_cut == 1:
                    warnings.warn(
                        f"{self.path}: the span {start} to {end} {doc.text[start:end]!r} {label} "
                        f"cuts tokens of {span.text!r}, and takes all of them. Further spans are "
                        "counted, see `n_cut`",
                        stacklevel=2,
                    )
        return score_tokens(len(doc), spans, self.labels)


def _read_string(fields: dict[str, Any], key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or not value:
        raise ValueError(f'"{key}" must be a text, got {value!r}')
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f'"{key}" has half of a surrogate pair: {value!r:.60}') from None
    return value


def _read_span(text: str, span: Any) -> ScoredSpan:
    if not isinstance(span, dict):
        raise ValueError(f"a span must be an object, got {span!r:.60}")
    start, end = span.get("start"), span.get("end")
    label, score = _read_string(span, "label"), span.get("score")
    score = CERTAINTY if score is None else score
    if type(start) is not int or type(end) is not int:  # true is an int too
        raise ValueError(f"start and end must be whole numbers, got {start!r} and {end!r}")
    if not 0 <= start < end <= len(text):
        raise ValueError(f"the span {start} to {end} is not within the text")
    if type(score) not in (int, float) or not 0 <= score <= 1:
        raise ValueError(f"score must be a number from 0 to 1, got {score!r}")
    covered = text[start:end]
    if not covered.strip():
        raise ValueError(f"the span {start} to {end} is white space")
    start += len(covered) - len(covered.lstrip())
    return start, start + len(covered.strip()), label, score
