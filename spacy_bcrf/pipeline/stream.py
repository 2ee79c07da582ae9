"""Streams: the annotation of a text that arrives in pieces, equal to the whole text's."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc, Span

from spacy_bcrf.annotation.identifiers import Identifiers
from spacy_bcrf.layers.decoding import F

from .apply_thresholds import precision_thresholds
from .codecs.span_tagging import OUTSIDE_TAG
from .confidence import find_keys
from .prediction import Component, check_temperature
from .settings import Control
from .span_decoder import find_thresholds
from .stream_chain import Bounds, find_streaming_chain, make_stream_chain
from .stream_pieces import Pieces
from .stream_spans import SpansForF

TOLERANCE = 1e-4
"""The most by which the probability of a released span may differ from that of the whole text."""


class StreamSpan(NamedTuple):
    """A span of a stream. start, end: tokens. start_char, end_char: characters of the whole text.

    probability: None unless the stream has probabilities.
    """

    start: int
    end: int
    start_char: int
    end_char: int
    label: str
    probability: float | None = None


class Final(NamedTuple):
    """What is final.

    words: the next tokens, each with its blank. tags: their tags, "" for a dropped one; none of
    chains side by side. spans: the predictions that became final, some of earlier words, ordered by
    their last token. candidates: likewise, of a recall promise. inside: upper bounds of the
    probabilities that the words are in a span, with a recall promise. identifiers: entities of an
    earlier `bcrf_identifiers`, some before their words are final.
    """

    words: list[str]
    tags: list[str]
    spans: list[StreamSpan]
    candidates: list[StreamSpan]
    inside: list[float]
    identifiers: list[StreamSpan]

    @property
    def text(self) -> str:
        return "".join(self.words)


class Stream:
    """A text in pieces, annotated by one component as if it were whole.

    Tags and spans equal `pipe(tokenizer(text))`, whatever the pieces, unless `forced`
    counts tags or spans that `max_lag` has decided.
    """

    def __init__(
        self,
        pipe: Component,
        tokenizer: Callable[[str], Doc] | None = None,
        *,
        max_lag: int | None = None,
        probabilities: bool = False,
        control: Control | None = None,
        identifiers: Identifiers | None = None,
    ) -> None:
        """pipe: a component whose model is a sparse linear chain. tokenizer: of text; None if only
        documents are fed. Later changes of a lexeme's attributes are not seen.

        max_lag: the most tokens that wait for their annotation. Later ones get the tags of the best
        labeling so far. A span whose probability is still uncertain is dropped under a threshold of
        precision, and is a candidate under a promise of recall. None for no limit.
        probabilities: whether spans and candidates have probabilities, within TOLERANCE unless
        `max_lag` forces them. Thresholds, "confidence" in `annotate`, and `bcrf_spans` need them
        anyway.
        control: a promise in place of the component's, by default its own.
        identifiers: patterns of the `bcrf_identifiers` before the component, to find in text.

        ValueError for a component that cannot stream, with the reason.
        """
        chain = find_streaming_chain(pipe)
        if max_lag is not None and max_lag < 1:
            raise ValueError(f"max_lag must be at least 1 token, got {max_lag}")
        codec, settings = pipe.codec, pipe.settings
        if control is not None:
            settings = settings.change(pipe.name, {"control": control})
        self._pipe, self._codec, self._settings = pipe, codec, settings
        self._max_lag = sys.maxsize if max_lag is None else max_lag
        self._pieces = Pieces(pipe, chain.features, tokenizer, identifiers)
        control, is_for_f = settings.control, pipe.labeling.decoder == F
        check_temperature(pipe.name, settings)
        # The decoder for F chooses spans above its thresholds.
        threshold = 0.0 if is_for_f else settings.threshold
        self._minimum = precision_thresholds(pipe.name, codec.labels, control, threshold)
        self._has_minimum = bool(self._minimum.any())
        self._likely: NDArray | None = None
        if control is not None and control.promise == "recall":
            self._likely = control.by_label(codec.labels, np.inf)
        is_scored = probabilities or "confidence" in settings.annotate or codec.layered
        self._is_scored = bool(is_scored and codec.spans)
        self._needs_bounds = self._is_scored or self._has_minimum
        needs_posterior = self._needs_bounds or self._likely is not None or is_for_f
        self._features, self._weights = chain.features.compiled, chain.learner.weights
        temperature = settings.temperature if needs_posterior else 0
        self._chain, self._tags = make_stream_chain(pipe, chain, temperature)
        self._for_f: SpansForF | None = None
        if is_for_f:
            thresholds = find_thresholds(pipe.name, codec.labels, settings.threshold)
            self._for_f = SpansForF(codec, thresholds, self._chain, self._tags, self._max_lag)
        self._words: list[str] = []  # with their blanks, not released
        self._released = 0
        self._waiting: list[Bounds] = []  # spans without a final probability
        self._chosen: list[Bounds] = []  # spans of the decoder for F, to name their tags
        self._dropped: list[Bounds] = []
        self._empty = codec.tags[OUTSIDE_TAG] if codec.spans else ""
        # Spans and candidates that were found.
        self._known: set[Bounds] = set()
        self._promised: set[Bounds] = set()
        self._open: set[tuple[int, int]] = set()  # start and label of released candidates
        self._late = 0
        self._closed = False

    @property
    def forced(self) -> int:
        """The number of tags and spans that `max_lag` has decided."""
        of_tags = self._chain.forced if self._for_f is None else self._for_f.forced
        return int(of_tags) + self._late

    def feed(self, piece: str | Doc | Span) -> Final:
        """Take the next text or tokens, and return what is final.

        A Span must follow the last one of its document: the stream may begin and end within it.

        TypeError for anything else, and for text after tokens. ValueError after `close`, for a lone
        surrogate, preset entities, a gap between two parts of a document, and scores of NaN. The
        stream then stays as it was.
        """
        if self._closed:
            raise ValueError(f"[{self._pipe.name}] the stream is closed")
        if piece is None:
            raise TypeError("a stream takes a text, a Doc or a Span, got None; `close` ends it")
        return self._advance(piece)

    def close(self) -> Final:
        """Return the rest. ValueError if the stream is closed already."""
        if self._closed:
            raise ValueError(f"[{self._pipe.name}] the stream is closed already")
        return self._advance(None)

    def _advance(self, piece: str | Doc | Span | None) -> Final:
        """Take a piece, None for the end. An error leaves nothing of it."""
        state = self._pieces.state
        try:
            tokens = self._pieces.read(piece)
            found = self._extend(tokens, piece is None)
        except BaseException:
            self._pieces.state = state
            raise
        self._closed = piece is None
        self._words += [word for each in tokens for word in each.words]
        taken, self._pieces.identifiers = self._pieces.identifiers, []
        identifiers = [StreamSpan(*one, 1.0) for one in taken]
        if found is None:
            return Final([], [], [], [], [], identifiers)
        return self._release(found)._replace(identifiers=identifiers)

    def _extend(self, tokens: list[Any], ended: bool) -> list[tuple[int, int, int, int]] | None:
        max_lag = self._max_lag if self._for_f is None else sys.maxsize
        extend = partial(self._chain.extend, tokens, ended, max_lag)
        try:
            return self._features.use_scores(self._weights, extend)
        except ValueError as error:
            raise ValueError(f"[{self._pipe.name}] {error}") from None

    def _release(self, complete: list[tuple[int, int, int, int]]) -> Final:
        chain = self._chain
        end = self._find_spans(complete) if self._for_f is None else self._choose_spans()
        spans = self._decide_spans() if self._waiting else []
        first_waiting = min([start for start, *_ in self._waiting], default=sys.maxsize)
        if self._has_minimum:
            end = min(end, first_waiting)
        candidates: list[StreamSpan] = []
        inside: list[float] = []
        if self._likely is not None and chain.length:
            candidates, end = self._decide_candidates(self._likely, end)
            inside = [self._bound_inside(token) for token in range(self._released, end)]
        start, self._released = self._released, end
        words, self._words = self._words[: end - start], self._words[end - start :]
        tags = [] if self._codec.n_chains > 1 else self._name_tags(start, end)
        # Earlier tokens are in no span that is still to come.
        chain.drop(min([end, first_waiting, *(start for start, _ in self._open)]))
        self._dropped = [span for span in self._dropped if span[1] > end]
        for found in (self._known, self._promised):
            if found:
                found -= {span for span in found if span[0] < chain.first}
        return Final(words, tags, spans, candidates, inside, [])

    def _find_spans(self, complete: list[tuple[int, int, int, int]]) -> int:
        """Add spans of the best labeling. RETURNS the end of the tokens without others."""
        chain = self._chain
        for i, start, stop, tag in complete:
            span = start, stop, self._tags.labels[i][tag]
            if span not in self._known:
                self._waiting.append(span)
                if self._codec.n_chains > 1:  # several layers can have the same span
                    self._known.add(span)
        return int(min(chain.final, chain.undecided) if self._has_minimum else chain.final)

    def _choose_spans(self) -> int:
        """Do the same for the decoder for F."""
        assert self._for_f is not None
        if self._chain.length:
            new = self._for_f.choose(closed=self._closed)
            self._waiting += new
            self._chosen += new
        return self._for_f.decided

    def _decide_spans(self) -> list[StreamSpan]:
        """Return the waiting spans that are final, and drop those below their threshold."""
        is_span = self._codec.spans is not None
        waiting, self._waiting = self._waiting, []
        if not self._needs_bounds:
            return [self._make_span(span) for span in waiting] if is_span else []
        released = []
        for span in waiting:
            least, most = self._tags.bound(self._chain, span)
            minimum = min(self._minimum[span[2]], 1 - 1e-5)
            is_open = self._is_open(least, most, minimum)
            if is_open and not self._is_late(span[1]):
                self._waiting.append(span)
                continue
            self._late += is_open
            if least < minimum:
                self._dropped.append(span)
            elif is_span:
                released.append(self._make_span(span, (least + most) / 2))
        return released

    def _is_open(self, least: float, most: float, minimum: float) -> bool:
        """Return whether a probability may still cross a threshold, or is not exact enough."""
        is_vague = self._is_scored and most >= minimum and most - least > 2 * TOLERANCE
        return is_vague or least < minimum <= most

    def _is_late(self, end: int) -> bool:
        return self._closed or self._chain.length - end >= self._max_lag

    def _make_span(self, span: Bounds, p: float | None = None) -> StreamSpan:
        start, end, label = span
        codec, calibration = self._codec, self._settings.calibration
        if not self._is_scored:
            p = None  # uncertain by more than TOLERANCE
        elif calibration is not None:
            one = (np.array([start]), np.array([end]), np.array([label]))
            p = float(calibration.apply(np.array([p]), find_keys(codec, calibration.by, one))[0])
        first, stop = self._chain.characters(start, end)
        return StreamSpan(start, end, first, stop, codec.labels[label], p)

    def _name_tags(self, start: int, end: int) -> list[str]:
        if self._for_f is None:
            names = self._codec.tags
            tags = [names[tag] for tag in self._chain.tags(start, end)]
        else:
            tags = [self._empty] * (end - start)
            for span in self._chosen:
                for token, tag in enumerate(self._tags.name(self._codec, span), span[0]):
                    if start <= token < end:
                        tags[token - start] = tag
            self._chosen = [span for span in self._chosen if span[1] > end]
        for first, stop, _ in self._dropped:
            for token in range(max(first, start), min(stop, end)):
                tags[token - start] = self._empty
        return tags

    # Posterior bounds

    def _bound_inside(self, token: int) -> float:
        """Return the largest probability of a token to be in a span."""
        absent = (self._chain.bound(c, token, [0])[0] for c in range(self._codec.n_chains))
        return 1 - math.prod(absent)

    def _decide_candidates(self, likely: NDArray, end: int) -> tuple[list[StreamSpan], int]:
        """Return new candidates, and the end of the tokens without undecided ones.

        A candidate that `max_lag` has released before its end stays open: it takes each further
        token with which it may still be likely.
        """
        chain, tags = self._chain, self._tags
        first = min([self._released, *(start for start, _ in self._open)])
        held, candidates, still_open = [], [], set()
        for start, stop, label in tags.find_candidates(chain, first, tags.find_least(likely)):
            is_released = start < self._released
            if is_released and (start, label) not in self._open:
                continue
            span, is_complete = (start, min(stop, chain.length), label), stop <= chain.length
            is_late = is_released or self._is_late(stop if is_complete else start)
            if not is_complete and is_late:
                still_open.add((start, label))
            if span in self._promised:
                continue
            low, high = self._tags.bound(self._chain, span) if is_complete else (0.0, 1.0)
            if self._is_open(low, high, likely[label]):
                if not is_late:
                    held.append(start)
                    continue
                self._late += 1
            if high >= likely[label]:
                self._promised.add(span)
                p = (low + high) / 2 if is_complete else float(likely[label])
                candidates.append(self._make_span(span, p))
        self._open = still_open
        return candidates, min([end, *held])
