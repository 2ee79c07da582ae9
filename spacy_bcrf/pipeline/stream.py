"""Streams: the annotation of a text that arrives in pieces, equal to that of the whole text."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import (  # type: ignore[import-not-found]
    DEP,
    ENT_ID,
    ENT_IOB,
    ENT_KB_ID,
    ENT_TYPE,
    HEAD,
    IDS,
    IS_SPACE,
    LEMMA,
    LENGTH,
    MORPH,
    POS,
    SENT_START,
    TAG,
)
from spacy.tokens import Doc, Span

from bcrf.chain import CRF, SpanTags
from bcrf.linear import Tokens
from spacy_bcrf.annotation.arrays import DocBatch
from spacy_bcrf.annotation.entity_tags import BEGIN, INSIDE
from spacy_bcrf.annotation.text_stream import LONG_WORD, MOST_WORDS, stream_text
from spacy_bcrf.layers.linear_chain import is_chain_alone, sparse_chain, sparse_chains
from spacy_bcrf.sparse.model import SparseChain

from .apply_thresholds import precision_thresholds
from .codecs import Codec
from .confidence import find_keys
from .prediction import Component, check_temperature, find_potentials
from .settings import Control

TOLERANCE = 1e-4
"""The most by which the probability of a released span may differ from that of the whole text."""

_OF_COMPONENTS = {TAG, POS, LEMMA, DEP, HEAD, MORPH, ENT_TYPE, ENT_ID, ENT_KB_ID, SENT_START}

_Bounds = tuple[int, int, int]
"""Start, end and label of a span."""


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
    probabilities that the words are in a span, with a recall promise.
    """

    words: list[str]
    tags: list[str]
    spans: list[StreamSpan]
    candidates: list[StreamSpan]
    inside: list[float]

    @property
    def text(self) -> str:
        return "".join(self.words)


class _Tokens(NamedTuple):
    """words: each with its blank. sizes: without it. values: (n, A) attributes."""

    words: list[str]
    sizes: list[int]
    values: NDArray[np.uint64]


_KNOWN: WeakKeyDictionary[Any, tuple[Any, Any, dict[str, _Tokens]]] = WeakKeyDictionary()
"""Of features: the last tokenizer of a stream, its special cases, and the tokens of words."""


class Stream:
    """A text in pieces, annotated by one component as if it were whole.

    Tags and spans are those of `pipe(tokenizer(text))`, whatever the pieces, unless `forced`
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

        ValueError for a component that cannot stream, with the reason.
        """
        chain = find_streaming_chain(pipe)
        if max_lag is not None and max_lag < 1:
            raise ValueError(f"max_lag must be at least 1 token, got {max_lag}")
        codec, settings = pipe.codec, pipe.typed_settings
        if control is not None:
            settings = settings.change(pipe.name, {"control": control})
        self._pipe, self._codec, self._settings = pipe, codec, settings
        self._max_lag = sys.maxsize if max_lag is None else max_lag
        self._text = None if tokenizer is None else stream_text(tokenizer)
        if tokenizer is not None and (read := _OF_COMPONENTS.intersection(pipe.labeling.columns)):
            names = ", ".join(key.lower() for key, value in IDS.items() if value in read)
            raise ValueError(
                f"[{pipe.name}] cannot stream text: its features read {names}, which other "
                "components set. Feed documents that these have annotated"
            )
        control = settings.control
        check_temperature(pipe.name, settings)
        self._minimum = precision_thresholds(pipe.name, codec.labels, control, settings.threshold)
        self._has_minimum = bool(self._minimum.any())
        self._likely: NDArray | None = None
        if control is not None and control.promise == "recall":
            self._likely = control.by_label(codec.labels, np.inf)
        is_scored = probabilities or "confidence" in settings.annotate or codec.may_overlap
        self._is_scored = is_scored and codec.outside is not None
        self._needs_bounds = self._is_scored or self._has_minimum
        needs_posterior = self._needs_bounds or self._likely is not None
        learner, features = chain.learner, chain.features
        self._score = partial(
            features.compiled.score,
            dictionary=chain.dictionary,
            weights=learner.weights,
            n_tags=learner.n_tags,
            n_chains=learner.n_chains,
        )
        offsets = [part.offset for template in features.templates for part in template.parts]
        # The scores of a window's first and last token are those of the ends of a text.
        self._before, self._after = max(1, -min(offsets)), max(1, *offsets, 0)
        self._no_scores = np.zeros((self._before, learner.n_tags), "float32")
        self._chain = _make_chain(pipe, settings.temperature if needs_posterior else 0)
        self._tags = _SpanTags(codec)
        # Attributes of the tokens from `_first` on: those of features, length and kind.
        self._n_features = len(features.attributes)
        self._columns = [*features.attributes, LENGTH, SENT_START, IS_SPACE]
        self._table = np.zeros((0, len(self._columns)), dtype="uint64")
        self._tokenizer: Any = tokenizer
        self._known_tokens = self._find_known(chain.features)
        self._first = 0
        self._sentence = [k for k, column in enumerate(self._columns) if column == SENT_START]
        # Of tokens in the table, not released or maybe in a span: words with blanks, and lengths.
        self._words: list[str] = []
        self._sizes: list[int] = []
        self._words_first = self._words_char = self._released = 0
        self._waiting: list[_Bounds] = []  # spans without a final probability
        self._dropped: list[_Bounds] = []
        # Spans and candidates that were found.
        self._known: set[_Bounds] = set()
        self._promised: set[_Bounds] = set()
        self._late = 0
        self._last: tuple[Doc | None, int] | None = None  # the last piece: document and end
        self._closed = False

    @property
    def forced(self) -> int:
        """The number of tags and spans that `max_lag` has decided."""
        return self._chain.forced + self._late

    @property
    def pending(self) -> int:
        """The number of tokens that are not released yet, without those of the tokenizer."""
        return self._words_first + len(self._words) - self._released

    def feed(self, piece: str | Doc | Span) -> Final:
        """Take the next text or tokens, and return what is final.

        A Span must follow the last one of its document: the stream may begin and end within it.

        TypeError for anything else, and for text after tokens. ValueError after `close`, for a lone
        surrogate, preset entities, a gap between two parts of a document, and scores of NaN. The
        stream then stays as it was.
        """
        if self._closed:
            raise ValueError(f"[{self._pipe.name}] the stream is closed")
        return self._advance(piece)

    def close(self) -> Final:
        """Return the rest. ValueError if the stream is closed already."""
        if self._closed:
            raise ValueError(f"[{self._pipe.name}] the stream is closed already")
        return self._advance(None)

    def _advance(self, piece: str | Doc | Span | None) -> Final:
        """Take a piece, None for the end. An error leaves nothing of it."""
        table, last, n = self._table, self._last, len(self._words)
        state = self._text and self._text.state
        try:
            if piece is None:
                self._closed = True
                if self._text is not None:
                    self._add_text(self._text.close())
            else:
                self._take(piece)
            found = self._extend()
        except BaseException:
            self._table, self._last, self._closed = table, last, False
            del self._words[n:], self._sizes[n:]
            if self._text is not None:
                self._text.state = state  # type: ignore[assignment]
            raise
        return self._release(found)

    def _take(self, piece: str | Doc | Span) -> None:
        if isinstance(piece, Doc | Span):
            self._add_part(piece)
            return
        if not isinstance(piece, str):
            raise TypeError(f"a stream takes a text, a Doc or a Span, got {type(piece).__name__}")
        if self._text is None:
            raise TypeError("a stream of text needs a tokenizer: pipe.stream(nlp.tokenizer)")
        if self._last and self._last[0] is not None:
            raise TypeError("a stream takes text or documents, not both")
        self._last = None, 0
        self._add_text(self._text.feed(piece))

    def _add_part(self, piece: Doc | Span) -> None:
        if isinstance(piece, Span):
            doc, start, end = piece.doc, piece.start, piece.end
        else:
            doc, start, end = piece, 0, len(piece)
        last, expected = self._last or (doc, start)
        if last is None:
            raise TypeError("a stream takes text or documents, not both")
        if last is doc and isinstance(piece, Span) and start != expected:
            raise ValueError(
                f"[{self._pipe.name}] token {expected} of the document comes next, got a span from "
                f"token {start} on"
            )
        codec = self._codec
        if ENT_IOB in codec.attributes and any(t.ent_iob in (BEGIN, INSIDE) for t in piece):
            raise ValueError(
                f"[{self._pipe.name}] a stream has no preset entities: remove doc.ents before"
            )
        # spaCy sets a sentence start at the first token of each document.
        is_split = len(doc) > 1 and doc.has_annotation("SENT_START")
        self._add([self._read(piece, is_split or not self._n_tokens)])
        self._last = doc, end

    @property
    def _n_tokens(self) -> int:
        return self._first + len(self._table)

    def _find_known(self, features: Any) -> dict[str, _Tokens]:
        """Return the tokens of words that earlier streams read by the same rules."""
        cases = self._text and self._text.cases
        tokenizer, known_cases, known = _KNOWN.get(features, (None, None, {}))
        if tokenizer is not self._tokenizer or cases is not known_cases:
            known = {}
            _KNOWN[features] = self._tokenizer, cases, known
        return known

    def _add_text(self, pieces: list[str]) -> None:
        known = self._known_tokens
        self._add([known.get(piece) or self._tokenize(piece) for piece in pieces])

    def _tokenize(self, text: str) -> _Tokens:
        tokens = self._read(self._tokenizer(text), False)
        if len(text) <= LONG_WORD:
            if len(self._known_tokens) >= MOST_WORDS:
                self._known_tokens.clear()
            self._known_tokens[text] = tokens
        return tokens

    def _read(self, tokens: Any, keeps_start: bool) -> _Tokens:
        if not len(tokens):
            return _Tokens([], [], self._table[:0])
        values: Any = tokens.to_array(self._columns)
        if not keeps_start:
            for column in self._sentence:  # NumPy is slow for a list of them
                values[0, column] = 0
        words = [token.text_with_ws for token in tokens]
        return _Tokens(words, values[:, self._n_features].tolist(), values)

    def _add(self, pieces: list[_Tokens]) -> None:
        if not pieces:
            return
        is_first = not self._n_tokens
        self._table = np.concatenate([self._table, *(piece.values for piece in pieces)])
        if is_first and self._text is not None and len(self._table):
            self._table[0, self._sentence] = 1
        for piece in pieces:
            self._words += piece.words
            self._sizes += piece.sizes

    def _extend(self) -> list[tuple[int, int, int, int]] | None:
        """Return the spans that became complete, None without a token more."""
        chain, table = self._chain, self._table
        n_tokens, known, first = self._first + len(table), chain.length, self._first
        stop = n_tokens if self._closed else n_tokens - self._after
        if stop > known:
            values, lengths = table[:, 1 : self._n_features], np.array([len(table)], "int32")
            scores = self._score(Tokens(table[:, 0], values, lengths, self._find_word))
        elif self._closed:
            stop, scores = known, self._no_scores[: len(table)]
        else:
            return None
        try:
            found = chain.extend(
                scores, table, known - first, stop - first, self._closed, self._max_lag
            )
        except ValueError as error:
            raise ValueError(f"[{self._pipe.name}] {error}") from None
        keep = max(0, stop - self._before)
        self._table, self._first = table[keep - first :], keep
        return found

    def _find_word(self, orth: int) -> str:
        """Return a word of the table. The strings of the vocabulary may be gone: memory zones."""
        k = self._first + self._table[:, 0].tolist().index(orth) - self._words_first
        return self._words[k][: self._sizes[k]]

    def _release(self, complete: list[tuple[int, int, int, int]] | None) -> Final:
        if complete is None:
            return Final([], [], [], [], [])
        chain, end = self._chain, self._chain.final
        for i, start, stop, tag in complete:
            span = start, stop, self._tags.labels[i][tag]
            if span not in self._known:
                self._waiting.append(span)
                if self._codec.n_chains > 1:  # several layers can have the same span
                    self._known.add(span)
        spans = self._decide_spans() if self._waiting else []
        if self._has_minimum:
            end = min([end, chain.undecided, *(start for start, *_ in self._waiting)])
        candidates: list[StreamSpan] = []
        inside: list[float] = []
        if self._likely is not None and chain.length:
            candidates, end = self._decide_candidates(self._likely, end)
            inside = [self._bound_inside(token) for token in range(self._released, end)]
        first = self._words_first
        words = self._words[self._released - first : end - first]
        tags = [] if self._codec.n_chains > 1 else self._name_tags(self._released, end)
        self._released = end
        # Tokens before `first` are in no span that is still to come.
        keep = min([end, chain.undecided, *(start for start, *_ in self._waiting)])
        chain.drop(keep)
        if (n := min(keep, self._first) - first) > 0:
            self._words_char += sum(map(len, self._words[:n]))
            del self._words[:n], self._sizes[:n]
            self._words_first += n
            self._dropped = [span for span in self._dropped if span[1] > end]
            for found in filter(None, (self._known, self._promised)):
                found -= {span for span in found if span[0] < chain.first}
        return Final(words, tags, spans, candidates, inside)

    def _decide_spans(self) -> list[StreamSpan]:
        """Return the waiting spans that are final, and drop those below their threshold."""
        is_span = self._codec.outside is not None
        waiting, self._waiting = self._waiting, []
        if not self._needs_bounds:
            return [self._make_span(span) for span in waiting] if is_span else []
        released = []
        for span in waiting:
            least, most = self._bound(span)
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
        is_vague = self._is_scored and most >= minimum and most - least > TOLERANCE
        return is_vague or least < minimum <= most

    def _is_late(self, end: int) -> bool:
        return self._closed or self._chain.length - end >= self._max_lag

    def _make_span(self, span: _Bounds, p: float | None = None) -> StreamSpan:
        start, end, label = span
        codec, calibration = self._codec, self._settings.calibration
        if not self._is_scored:
            p = None  # uncertain by more than TOLERANCE
        elif calibration is not None:
            one = (np.array([start]), np.array([end]), np.array([label]))
            p = float(calibration.apply(np.array([p]), find_keys(codec, calibration.by, one))[0])
        k, last = start - self._words_first, end - 1 - self._words_first
        first = self._words_char + sum(map(len, self._words[:k]))
        stop = first + sum(map(len, self._words[k:last])) + self._sizes[last]
        return StreamSpan(start, end, first, stop, codec.labels[label], p)

    def _name_tags(self, start: int, end: int) -> list[str]:
        codec = self._codec
        tags = [codec.tags[tag] for tag in self._chain.tags(start, end)]
        empty = "" if codec.outside is None else codec.tags[codec.outside]
        for first, stop, _ in self._dropped:
            for token in range(max(first, start), min(stop, end)):
                tags[token - start] = empty
        return tags

    # Posterior bounds

    def _bound(self, span: _Bounds) -> tuple[float, float]:
        """Return the least and the largest probability of a span."""
        start, end, label = span
        absent = [1.0, 1.0]
        for chain, slot in self._tags.places[label]:
            bounds = self._chain.bound(chain, start, *self._tags.path(slot, end - start))
            absent = [q * (1 - p) for q, p in zip(absent, bounds, strict=True)]
        return 1 - absent[0], 1 - absent[1]

    def _bound_inside(self, token: int) -> float:
        """Return the largest probability of a token to be in a span."""
        absent = (self._chain.bound(c, token, [0])[0] for c in range(self._codec.n_chains))
        return 1 - math.prod(absent)

    def _decide_candidates(self, likely: NDArray, end: int) -> tuple[list[StreamSpan], int]:
        """Return new candidates, and the end of the tokens without undecided ones."""
        chain, tags = self._chain, self._tags
        least = likely[tags.slots] / self._codec.most_layers * 0.999
        found = chain.candidates(self._released, least, np.stack(self._codec.span_tags(np)))
        held, candidates = [], []
        for start, stop, label in sorted({(i, k, int(tags.slots[c, s])) for c, i, k, s in found}):
            span, is_complete = (start, min(stop, chain.length), label), stop <= chain.length
            if span in self._promised:
                continue
            low, high = self._bound(span) if is_complete else (0.0, 1.0)
            if self._is_open(low, high, likely[label]):
                if not self._is_late(stop if is_complete else start):
                    held.append(start)
                    continue
                self._late += 1
            if high >= likely[label]:
                self._promised.add(span)
                p = (low + high) / 2 if is_complete else float(likely[label])
                candidates.append(self._make_span(span, p))
        return candidates, min([end, *held])


class _SpanTags:
    """The tags of the spans of a codec.

    labels: of the first tags of spans, by chain. places: of each label, its chains and slots.
    slots: (C, K) labels.
    """

    def __init__(self, codec: Codec) -> None:
        n_labels = len(codec.labels)
        places = zip(*(part.tolist() for part in codec.place(np.arange(n_labels))), strict=True)
        self.places: list[list[tuple[int, int]]] = [[] for _ in range(n_labels)]
        for label, chain, slot in places:
            self.places[label].append((chain, slot))
        self._tags = None
        if codec.outside is None:
            self.labels = [{label: label for label in range(n_labels)}]
            return
        self._tags = tags = SpanTags(*(part.tolist() for part in codec.span_tags(np)))
        chains, slots = np.mgrid[: codec.n_chains, : len(tags.single)]
        self.slots = codec.label_of(chains, slots)
        self.labels = [
            dict(zip(tags.first, labels, strict=True)) | dict(zip(tags.single, labels, strict=True))
            for labels in self.slots.tolist()
        ]

    def path(self, slot: int, n: int) -> tuple[list[int], int]:
        """Return the tags of a span of n tokens, and one that continues it, -1 for none."""
        if self._tags is None:
            return [slot], -1
        first, inside, last, single = (tags[slot] for tags in self._tags)
        tags = [single] if n == 1 else [first, *[inside] * (n - 2), last]
        return tags, inside if inside == last else -1


def _make_chain(pipe: Component, temperature: float) -> Any:
    """Return the stream of a component's tags. temperature: of the posterior, 0 without one."""
    from bcrf.kernels.sparse import Stream

    codec = pipe.codec
    # Three tokens of each kind show what the constraints forbid at the ends and in the middle.
    columns = list(dict.fromkeys((*codec.attributes, *pipe.labeling.columns)))
    kinds, lengths = np.repeat(np.arange(4), 3), np.full(4, 3, "int32")
    values = np.zeros((len(kinds), len(columns)), dtype="uint64")
    for k, column in enumerate(columns):
        if column in (SENT_START, IS_SPACE):
            values[:, k] = (kinds & 1) if column == SENT_START else kinds >> 1
    batch = DocBatch.of_tokens(pipe.vocab.strings, columns, values, lengths)
    potentials = find_potentials(pipe.labeling, codec, batch, False)
    T = codec.n_tags
    closed = np.isneginf(potentials.unary).reshape(4, codec.n_chains, 3, T).transpose(2, 0, 1, 3)
    edges = np.broadcast_to(potentials.transitions, (len(potentials.unary), T, T))
    edges = edges.reshape(4, codec.n_chains, 3, T, T)[:, 0, 0]
    starts, goes_on, outside = np.ones(T, bool), np.zeros(T, bool), -1
    if codec.outside is not None:
        entities = codec.entities  # type: ignore[attr-defined]
        starts, outside = entities.may_start, codec.outside
        goes_on = (entities.transitions & ~starts).any(axis=1)
    return Stream(edges, closed, starts, goes_on, outside, temperature)


def find_streaming_chain(pipe: Component) -> SparseChain:
    """Return the chain of a component. ValueError with the reason if it cannot stream."""
    model, chain = pipe.model, sparse_chain(pipe.model)
    attributes = [node.attrs for node in model.walk()] + [vars(c) for c in sparse_chains(model)]
    scorers = {scorer.name for of_node in attributes for scorer in of_node.get("scorers", ())}
    if scorers:
        names = ", ".join(sorted(scorers))
        why = f"its scores {names} are other taggers', which need the whole text"
    elif chain is None or not is_chain_alone(model):
        why = (
            "a network may read the whole text. A stream needs spacy-bcrf.LinearChain.v1 alone, "
            "which reads a few words ahead"
        )
    elif chain.first is not None:
        why = "two_pass reads the whole document before it tags a word. Train without two_pass"
    elif chain.features.listed:
        names = ", ".join(map(str, chain.features.listed))
        why = f"its features {names} may read the whole document. Train without these templates"
    elif chain.settings.order == 2:
        why = "order = 2 chooses tags by the posterior of the whole text. Train with order = 1"
    elif pipe.labeling.decoder != "viterbi":
        why = f"its decoder is {pipe.labeling.decoder}. Set the decoder viterbi"
    elif not isinstance(pipe.labeling.inference, CRF):
        why = f"its objective is {chain.settings.objective}, whose posterior needs the whole text"
    else:
        return chain
    raise ValueError(f"[{pipe.name}] cannot stream: {why}")
