"""Spans with scores as token scores: JSON lines, and other spaCy pipelines."""

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import spacy
from numpy.typing import NDArray
from spacy.pipeline import EntityRecognizer
from spacy.tokens import Doc

from bcrf.io.hashes import hash_files
from bcrf.io.json_objects import Problem, read_objects
from bcrf.io.text import CorpusError
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

    Bounds are characters; white space at the ends of a span is trimmed. A span takes the tokens
    that it touches: a warning names the first one that cuts a token, and `n_cut` counts them. A
    text that the file does not have is silent. certainty: the probability of a span without a
    score.
    """

    def __init__(self, path: str, *, certainty: float = CERTAINTY) -> None:
        if not 0 < certainty <= 1:
            raise ValueError(f"certainty must be a probability, got {certainty}")
        self.path = Path(path)
        self.certainty = certainty
        self.n_cut = 0

    @lazy
    def _spans(self) -> dict[str, list[Scored]]:
        """The spans of each text, in characters. CorpusError names the file and a wrong line."""
        if not self.path.is_file():
            raise ValueError(f"{self.path}: no such file; expected JSON lines of texts and spans")
        found: dict[str, list[Scored]] = {}
        places: dict[str, str] = {}
        for place, fields in read_objects(self.path):
            try:
                if isinstance(fields, Problem):
                    raise fields
                text = _read_string(fields, "text")
                if not isinstance(fields.get("spans"), list):
                    raise ValueError(f'"spans" must be a list, got {fields.get("spans")!r:.60}')
                spans = sorted(self._read(text, span) for span in fields["spans"])
            except ValueError as error:
                raise CorpusError(
                    f'{place}: {error}; expected {{"text": .., "spans": [{{"start": 0, "end": 3, '
                    '"label": "PERSON", "score": 0.9}]}'
                ) from None
            if found.setdefault(text, spans) != spans:
                raise CorpusError(f"{place}: has the text of {places[text]} with other spans")
            places.setdefault(text, place)
        return found

    def _read(self, text: str, span: Any) -> Scored:
        if not isinstance(span, dict):
            raise ValueError(f"a span must be an object, got {span!r:.60}")
        start, end = span.get("start"), span.get("end")
        label, score = _read_string(span, "label"), span.get("score")
        score = self.certainty if score is None else score
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


class PipelineScores:
    """`spacy-bcrf.PipelineScores.v1`: a component of another spaCy pipeline, on our tokens.

    path: folder or package of the pipeline.
    component: by default the last one that sets entities. Our components give exact marginals.
        `ner` gives the probability of each action at each token, and `beam_ner` the scores of its
        beam. Entities of others have the probability `certainty`.
    exclude: components that are not needed, such as ["parser", "lemmatizer"].
    """

    def __init__(
        self,
        path: str,
        *,
        component: str | None = None,
        certainty: float = CERTAINTY,
        exclude: Sequence[str] = (),
    ) -> None:
        self.path = path
        self.component = component
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
        if self._is_greedy:
            return [self._pipe.moves.get_class_name(k) for k in self._actions]
        return span_labels(self._pipe.labels)

    @property
    def _has_marginals(self) -> bool:
        return hasattr(self._pipe, "token_marginals") and self._pipe.codec.n_chains == 1

    @property
    def _is_greedy(self) -> bool:
        return isinstance(self._pipe, EntityRecognizer) and self._pipe.cfg["beam_width"] == 1

    @property
    def _actions(self) -> list[int]:
        """The actions with a label or O. U- is only for blocked tokens."""
        moves = self._pipe.moves
        return [k for k in range(moves.n_moves) if moves.get_class_name(k) != "U-"]

    @lazy
    def identity(self) -> str:
        options = [self._name, self.certainty, self.exclude]
        return f"{hash_files(self._nlp.path)} {options}"

    def load(self) -> None:
        self._pipe  # noqa: B018

    def __call__(self, docs: Sequence[Doc]) -> list[NDArray[np.float32]]:
        copies = [_copy(self._nlp, doc) for doc in docs]
        for name, pipe in self._nlp.pipeline:
            if name == self._name:
                break
            copies = _run(pipe, copies)
        if self._has_marginals:
            found = self._pipe.token_marginals(copies)
            return [np.log(p.clip(LEAST**2)).astype("float32") for p in found]
        if self._is_greedy:
            return [values[:, self._actions] for values in score_actions(self._pipe, copies)]
        if isinstance(self._pipe, EntityRecognizer):
            beams = self._pipe.predict(copies)
            spans = [[(*s, p) for s, p in of.items()] for of in self._pipe.scored_ents(beams)]
        else:
            done = (
                self._pipe.pipe(copies) if hasattr(self._pipe, "pipe") else map(self._pipe, copies)
            )
            spans = [[(e.start, e.end, e.label_, self.certainty) for e in d.ents] for d in done]
        pairs = zip(copies, spans, strict=True)
        return [score_tokens(len(doc), of_doc, self.labels) for doc, of_doc in pairs]


def score_actions(ner: Any, docs: Sequence[Doc]) -> list[NDArray[np.float32]]:
    """Return the log-probabilities (n, A) of the actions of spaCy's `ner` at each token.

    It takes the best valid action at each token, and so do its later states. Invalid actions have a
    probability too, as in its training.
    """
    found = [np.zeros((len(doc), ner.moves.n_moves), dtype="float32") for doc in docs]
    model, states = ner.model.predict(docs), ner.moves.init_batch(docs)
    open_states = [(of_doc, s) for of_doc, s in zip(found, states, strict=True) if len(of_doc)]
    while open_states:
        states = [state for _, state in open_states]
        scores = model.ops.to_numpy(model.predict(states))
        logs = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
        for (of_doc, state), row in zip(open_states, logs, strict=True):
            of_doc[state.B(0)] = row
        ner.transition_states(states, scores)
        open_states = [pair for pair in open_states if not pair[1].is_final()]
    return found


def _run(pipe: Any, docs: list[Doc]) -> list[Doc]:
    return list(pipe.pipe(docs) if hasattr(pipe, "pipe") else map(pipe, docs))


def _copy(nlp: Any, doc: Doc) -> Doc:
    """Return the words of a document in the vocabulary of another pipeline."""
    spaces = [bool(token.whitespace_) for token in doc]
    words = [token.text for token in doc]
    starts: Any = (
        [token.is_sent_start for token in doc] if doc.has_annotation("SENT_START") else None
    )
    return Doc(nlp.vocab, words=words, spaces=spaces, sent_starts=starts)
