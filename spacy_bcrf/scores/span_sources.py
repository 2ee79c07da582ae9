"""Spans with scores as token scores: JSON lines, and other spaCy pipelines."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import spacy
from numpy.typing import NDArray
from spacy.tokens import Doc

from bcrf.io.hashes import hash_files
from bcrf.io.text import read_lines
from bcrf.lazy import lazy

from .foreign_labels import OUTSIDE

Scored = tuple[int, int, str, float]
"""First token, one past the last, label, and probability."""

LEAST = 1e-4
"""Least probability of a label. No source is certain."""
CERTAINTY = 0.95
"""Probability of a span without a score."""


def score_tokens(n: int, spans: Iterable[Scored], labels: Sequence[str]) -> NDArray[np.float32]:
    """Return log-probabilities (n, L) of the labels O, B-X and I-X of spans.

    The probabilities of spans that share a token add up, at most to 1. O has the rest.
    """
    at = {label: i for i, label in enumerate(labels)}
    p = np.zeros((n, len(labels)))
    for start, end, label, score in spans:
        p[start, at[f"B-{label}"]] += score
        p[start + 1 : end, at[f"I-{label}"]] += score
    p[:, at[OUTSIDE]] = 1 - p.sum(axis=1)
    p = p.clip(LEAST)
    return np.log(p / p.sum(axis=1, keepdims=True)).astype("float32")


def span_labels(names: Iterable[str]) -> list[str]:
    return [OUTSIDE, *(f"{prefix}-{name}" for name in sorted(set(names)) for prefix in "BI")]


class SpanScores:
    """`spacy-bcrf.SpanScores.v1`: spans of GLiNER, Presidio or a language model, in JSON lines.

        {"text": "Ann left", "spans": [{"start": 0, "end": 3, "label": "PERSON", "score": 0.9}]}

    Bounds are characters. A span takes the tokens that it touches. A text that the file does not
    have is silent. certainty: the probability of a span without a score.
    """

    def __init__(self, path: str, *, certainty: float = CERTAINTY) -> None:
        if not 0 < certainty <= 1:
            raise ValueError(f"certainty must be a probability, got {certainty}")
        self.path = Path(path)
        self.certainty = certainty

    @lazy
    def _spans(self) -> dict[str, list[Scored]]:
        """The spans of each text, in characters. ValueError names the file and a wrong line."""
        if not self.path.is_file():
            raise ValueError(f"{self.path}: no such file; expected JSON lines of texts and spans")
        found: dict[str, list[Scored]] = {}
        for line in read_lines(self.path):
            if not line.text.strip():
                continue
            try:
                record = json.loads(line.text)
                found[record["text"]] = [self._read(record["text"], s) for s in record["spans"]]
            except (ValueError, TypeError, KeyError) as error:
                raise line.error(
                    'expected {"text": .., "spans": [{"start": 0, "end": 3, "label": "PERSON", '
                    f'"score": 0.9}}]}}; {type(error).__name__}: {error}'
                ) from error
        return found

    def _read(self, text: str, span: dict[str, Any]) -> Scored:
        start, end, label = span["start"], span["end"], span["label"]
        score = span.get("score")
        score = self.certainty if score is None else float(score)
        if not isinstance(label, str) or not label:
            raise ValueError(f"label must be a text, got {label!r}")
        if not (isinstance(start, int) and isinstance(end, int)):
            raise ValueError(f"start and end must be whole numbers, got {start!r} and {end!r}")
        if not 0 <= start < end <= len(text):
            raise ValueError(f"the span {start} to {end} is not within the text")
        if not 0 <= score <= 1:
            raise ValueError(f"score must be from 0 to 1, got {score}")
        return start, end, label, score

    @lazy
    def labels(self) -> list[str]:
        return span_labels(s[2] for spans in self._spans.values() for s in spans)

    @lazy
    def identity(self) -> str:
        return f"{hash_files(self.path)} {self.certainty}"

    def load(self) -> None:
        self._spans  # noqa: B018

    def __call__(self, docs: Sequence[Doc]) -> list[NDArray[np.float32]]:
        return [self._score(doc) for doc in docs]

    def _score(self, doc: Doc) -> NDArray[np.float32]:
        if doc.text not in self._spans:
            return np.full((len(doc), len(self.labels)), np.nan, dtype="float32")
        found = (
            (doc.char_span(start, end, alignment_mode="expand"), label, score)
            for start, end, label, score in self._spans[doc.text]
        )
        spans = [(span.start, span.end, label, score) for span, label, score in found if span]
        return score_tokens(len(doc), spans, self.labels)


class PipelineScores:
    """`spacy-bcrf.PipelineScores.v1`: a component of another spaCy pipeline, on our tokens.

    path: folder or package of the pipeline.
    component: by default the last one that sets entities. Our components give exact marginals.
        `beam_ner` gives the scores of its beam. Entities of others have the probability
        `certainty`: `ner` was trained without a beam, and with one it decodes worse.
    beam_width: of `ner` and `beam_ner`; None takes that of its config. 1 is no beam.
    exclude: components that are not needed, such as ["parser", "lemmatizer"].
    """

    def __init__(
        self,
        path: str,
        *,
        component: str | None = None,
        beam_width: int | None = None,
        certainty: float = CERTAINTY,
        exclude: Sequence[str] = (),
    ) -> None:
        self.path = path
        self.component = component
        self.beam_width = beam_width
        self.certainty = certainty
        self.exclude = list(exclude)

    @lazy
    def _nlp(self) -> Any:
        return spacy.load(self.path, exclude=self.exclude)

    @lazy
    def _name(self) -> str:
        found = [n for n in self._nlp.pipe_names if self.component in (None, n)]
        if self.component is None:
            meta = {n: self._nlp.get_pipe_meta(n).assigns for n in found}
            found = [n for n in found if "doc.ents" in meta[n]]
        if not found:
            what = "that sets entities" if self.component is None else repr(self.component)
            raise ValueError(
                f"{self.path}: has no component {what}; it has {', '.join(self._nlp.pipe_names)}"
            )
        return found[-1]

    @lazy
    def _pipe(self) -> Any:
        return self._nlp.get_pipe(self._name)

    @lazy
    def labels(self) -> list[str]:
        if self._has_marginals:
            return list(self._pipe.tags)
        return span_labels(self._pipe.labels)

    @property
    def _has_marginals(self) -> bool:
        return hasattr(self._pipe, "token_marginals") and self._pipe.codec.n_chains == 1

    @lazy
    def identity(self) -> str:
        options = [self._name, self.beam_width, self.certainty, self.exclude]
        return f"{hash_files(self._nlp.path)} {options}"

    def load(self) -> None:
        self._pipe  # noqa: B018

    def __call__(self, docs: Sequence[Doc]) -> list[NDArray[np.float32]]:
        copies = [_copy(self._nlp, doc) for doc in docs]
        before: list[Callable] = []
        for name, pipe in self._nlp.pipeline:
            if name == self._name:
                break
            before.append(pipe)
        for pipe in before:
            copies = list(pipe.pipe(copies)) if hasattr(pipe, "pipe") else [*map(pipe, copies)]
        if self._has_marginals:
            found = self._pipe.token_marginals(copies)
            return [np.log(p.clip(LEAST**2)).astype("float32") for p in found]
        return [
            score_tokens(len(doc), spans, self.labels)
            for doc, spans in zip(copies, self._find_spans(copies), strict=True)
        ]

    def _find_spans(self, docs: list[Doc]) -> list[list[Scored]]:
        width = self.beam_width or getattr(self._pipe, "cfg", {}).get("beam_width", 1)
        if width > 1 and hasattr(self._pipe, "scored_ents"):
            beams = self._pipe.beam_parse(docs, beam_width=width, beam_density=1e-4)
            return [
                [(start, end, label, p) for (start, end, label), p in scored.items()]
                for scored in self._pipe.scored_ents(beams)
            ]
        done = list(self._pipe.pipe(docs)) if hasattr(self._pipe, "pipe") else map(self._pipe, docs)
        return [[(e.start, e.end, e.label_, self.certainty) for e in doc.ents] for doc in done]


def _copy(nlp: Any, doc: Doc) -> Doc:
    """Return the words of a document in the vocabulary of another pipeline."""
    spaces = [bool(token.whitespace_) for token in doc]
    words = [token.text for token in doc]
    starts: Any = (
        [token.is_sent_start for token in doc] if doc.has_annotation("SENT_START") else None
    )
    return Doc(nlp.vocab, words=words, spaces=spaces, sent_starts=starts)
