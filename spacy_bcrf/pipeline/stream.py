"""Streams: the annotation of a text that arrives in pieces, equal to that of the whole text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

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
    LEMMA,
    MORPH,
    POS,
    SENT_START,
    TAG,
)
from spacy.tokens import Doc, Span

from bcrf.chain import CRF, Potentials, span_candidates, span_posteriors
from bcrf.chain.stream import ChainStream
from spacy_bcrf.annotation.arrays import DocBatch
from spacy_bcrf.annotation.entity_tags import BEGIN, INSIDE
from spacy_bcrf.annotation.text_stream import TextStream, stream_text
from spacy_bcrf.layers.linear_chain import is_chain_alone, sparse_chain

from .apply_thresholds import precision_thresholds
from .confidence import find_keys
from .prediction import Component, check_temperature, find_potentials

TOLERANCE = 1e-4
"""The most by which the probability of a released span may differ from that of the whole text."""

_OF_COMPONENTS = {TAG, POS, LEMMA, DEP, HEAD, MORPH, ENT_TYPE, ENT_ID, ENT_KB_ID, SENT_START}


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
    ) -> None:
        """pipe: a component whose model is a sparse linear chain. tokenizer: of text; None if only
        documents are fed.

        max_lag: the most tokens that wait for their annotation. Later ones get the tags of the best
        labeling so far. A span whose probability is still uncertain is dropped under a threshold of
        precision, and is a candidate under a promise of recall. None for no limit.
        probabilities: whether spans and candidates have probabilities, within TOLERANCE unless
        `max_lag` forces them. Thresholds, "confidence" in `annotate`, and `bcrf_spans` need them
        anyway.

        ValueError for a component that cannot stream, with the reason.
        """
        check_streams(pipe)
        if max_lag is not None and max_lag < 1:
            raise ValueError(f"max_lag must be at least 1 token, got {max_lag}")
        codec, settings = pipe.codec, pipe.typed_settings
        self._pipe, self._codec, self._max_lag = pipe, codec, max_lag
        self._columns = list(dict.fromkeys((*codec.attributes, *pipe.labeling.columns)))
        self._text: TextStream | None = None if tokenizer is None else stream_text(tokenizer)
        if tokenizer is not None and (read := _OF_COMPONENTS.intersection(pipe.labeling.columns)):
            names = ", ".join(key.lower() for key, value in IDS.items() if value in read)
            raise ValueError(
                f"[{pipe.name}] cannot stream text: its features read {names}, which other "
                "components set. Feed documents that these have annotated"
            )
        control = settings.control
        check_temperature(pipe.name, settings)
        self._minimum = precision_thresholds(pipe.name, codec.labels, control, settings.threshold)
        self._likely: NDArray | None = None
        if control is not None and control.promise == "recall":
            self._likely = control.by_label(codec.labels, np.inf)
        is_scored = probabilities or "confidence" in settings.annotate or codec.may_overlap
        self._is_scored = is_scored and codec.outside is not None
        self._needs_bounds = self._is_scored or bool(self._minimum.any())
        chain = sparse_chain(pipe.model)
        assert chain
        offsets = [part.offset for template in chain.features.templates for part in template.parts]
        # The scores of a window's first and last token are those of the ends of a text.
        self._before, self._after = max(1, -min(offsets)), max(1, *offsets, 0)
        dummy = DocBatch.of_tokens(
            pipe.vocab.strings, self._columns, np.zeros((1, len(self._columns)), "uint64"),
            np.ones(1, "int32"),
        )  # fmt: skip
        transitions = pipe.labeling.model.predict(dummy).transitions
        keeps = self._needs_bounds or self._likely is not None
        self._chain = ChainStream(codec.n_chains, transitions, keeps, settings.temperature)
        self._decoded = np.zeros(codec.n_chains, dtype="int64")
        self._table = np.zeros((0, len(self._columns)), dtype="uint64")  # from `_table_first` on
        self._table_first = 0
        self._words: list[str] = []  # of tokens that are not released or may be in a span
        self._bounds: list[tuple[int, int]] = []  # their first character, and one past the last
        self._words_first = self._n_characters = self._released = 0
        self._waiting: list[tuple[int, int, int]] = []  # spans without a final probability
        self._dropped: list[tuple[int, int]] = []
        # Spans and candidates that were found.
        self._known: set[tuple[int, int, int]] = set()
        self._promised: set[tuple[int, int, int]] = set()
        self._late = 0
        self._kind: type | None = None
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

        TypeError for anything else, and for text after tokens. ValueError after `close`, for a lone
        surrogate, and for preset entities. The stream then stays as it was.
        """
        if self._closed:
            raise ValueError(f"[{self._pipe.name}] the stream is closed")
        if not isinstance(piece, str | Doc | Span):
            raise TypeError(f"a stream takes a text, a Doc or a Span, got {type(piece).__name__}")
        kind = str if isinstance(piece, str) else Doc
        if self._kind not in (None, kind):
            raise TypeError("a stream takes text or documents, not both")
        tokens: Any = piece
        if isinstance(piece, str):
            if self._text is None:
                raise TypeError("a stream of text needs a tokenizer: pipe.stream(nlp.tokenizer)")
            tokens = self._text.feed(piece)
        self._kind = kind
        if tokens is not None:
            self._add(tokens)
        return self._advance()

    def close(self) -> Final:
        """Return the rest. ValueError if the stream is closed already."""
        if self._closed:
            raise ValueError(f"[{self._pipe.name}] the stream is closed already")
        if self._text is not None:
            self._add(self._text.close())
        self._closed = True
        return self._advance()

    def _add(self, tokens: Doc | Span) -> None:
        n = len(tokens)
        if not n:
            return
        columns: Any = self._columns
        piece: Any = tokens
        values: Any = piece.to_array(columns).reshape(n, -1)
        if ENT_IOB in columns:
            iob = values[:, columns.index(ENT_IOB)]
            if iob.any() and np.isin(iob, (BEGIN, INSIDE)).any():
                raise ValueError(
                    f"[{self._pipe.name}] a stream has no preset entities: remove doc.ents before"
                )
            iob[:] = 0
        doc = tokens.doc if isinstance(tokens, Span) else tokens
        is_split = len(doc) > 1 and doc.has_annotation("SENT_START") and self._kind is not str
        if SENT_START in columns and self._n_characters and not is_split:
            values[0, columns.index(SENT_START)] = 0  # spaCy sets it in each Doc
        self._table = np.concatenate([self._table, values])
        for token in tokens:
            word = token.text_with_ws
            self._words.append(word)
            self._bounds.append((self._n_characters, self._n_characters + len(token)))
            self._n_characters += len(word)

    def _advance(self) -> Final:
        chain, n_tokens = self._chain, self._table_first + len(self._table)
        stop = n_tokens if self._closed else max(chain.length, n_tokens - self._after)
        if chain.length < stop:
            first = max(0, chain.length - self._before)
            values = self._table[first - self._table_first : stop + self._after - self._table_first]
            lengths = np.array([len(values)], "int32")
            strings = self._pipe.vocab.strings
            batch = DocBatch.of_tokens(strings, self._columns, values, lengths)
            potentials = find_potentials(self._pipe.labeling, self._codec, batch, False)
            chain.extend(potentials, chain.length - first, stop - first)
            keep = max(0, stop - self._before)
            self._table, self._table_first = self._table[keep - self._table_first :], keep
        elif not self._closed:
            return Final([], [], [], [], [])
        chain.settle(self._closed)
        if self._max_lag is not None:
            chain.force(self._max_lag)
        return self._release()

    def _release(self) -> Final:
        chain = self._chain
        self._waiting += self._find_complete()
        end = int(chain.final.min()) if chain.length else 0
        spans = self._decide_spans()
        if self._minimum.any():
            end = min([end, *self._decoded.tolist(), *(start for start, *_ in self._waiting)])
        candidates: list[StreamSpan] = []
        inside = np.zeros(0)
        if self._likely is not None and chain.length:
            candidates, end, inside = self._decide_candidates(end)
            inside = inside[self._released - chain.first : end - chain.first]
        words = self._words[self._released - self._words_first : end - self._words_first]
        tags = [] if self._codec.n_chains > 1 else self._name_tags(self._released, end)
        found = Final(words, tags, spans, candidates, inside.tolist())
        self._released = end
        # Tokens before `first` are in no span that is still to come.
        first = min([end, int(self._decoded.min()), *(start for start, *_ in self._waiting)])
        chain.drop(first)
        n = max(0, first - self._words_first)
        self._words, self._bounds = self._words[n:], self._bounds[n:]
        self._words_first += n
        self._dropped = [span for span in self._dropped if span[1] > end]
        for found_spans in (self._known, self._promised):
            gone = {span for span in found_spans if span[0] < chain.first}
            found_spans -= gone
        return found

    def _find_complete(self) -> list[tuple[int, int, int]]:
        """Return the predictions whose tokens have become final, as start, end and label."""
        chain, codec = self._chain, self._codec
        final = chain.final.copy()
        if codec.outside is not None and not self._closed:
            entities = codec.entities  # type: ignore[attr-defined]
            goes_on = (entities.transitions & ~entities.may_start).any(axis=1)
            for c in np.flatnonzero(final > self._decoded).tolist():
                last, tags = int(final[c]) - 1, chain.tags[c]
                if goes_on[tags[last - chain.first]]:
                    while not entities.may_start[tags[last - chain.first]]:
                        last -= 1
                    final[c] = last
        low, high = int(self._decoded.min()), int(final.max(initial=0))
        if high <= low:
            return []
        at = np.arange(low, high)
        block = chain.tags[:, low - chain.first : high - chain.first]
        block = np.where((self._decoded[:, None] <= at) & (at < final[:, None]), block, 0)
        self._decoded = np.maximum(final, self._decoded)
        if codec.outside == 0 and not block.any():
            return []
        lengths = np.array([high - low], "int32")
        parts = self._codec.predictions(np.ascontiguousarray(block).ravel(), lengths)
        starts, ends, labels = (np.asarray(part).tolist() for part in parts)
        spans = [(low + s, low + e, k) for s, e, k in zip(starts, ends, labels, strict=True)]
        new = [span for span in spans if span not in self._known]
        if codec.n_chains > 1:  # several layers can have the same span
            self._known.update(new)
        return new

    def _decide_spans(self) -> list[StreamSpan]:
        """Return the waiting spans that are final, and drop those below their threshold."""
        if not self._waiting or not self._needs_bounds:
            waiting, self._waiting = self._waiting, []
            return [self._make_span(*span) for span in waiting] if self._codec.outside == 0 else []
        low, high = self._bound(self._waiting)
        released, waiting = [], []
        for span, least, most in zip(self._waiting, low.tolist(), high.tolist(), strict=True):
            minimum = min(self._minimum[span[2]], 1 - 1e-5)
            is_open = least < minimum <= most
            is_open |= self._is_scored and most >= minimum and most - least > TOLERANCE
            if is_open and not self._is_late(span[1]):
                waiting.append(span)
                continue
            self._late += is_open
            if least < minimum:
                self._dropped.append(span[:2])
            elif self._codec.outside == 0:
                released.append(self._make_span(*span, self._show((least + most) / 2)))
        self._waiting = waiting
        return released

    def _is_late(self, end: int) -> bool:
        lag = self._chain.length - end
        return self._closed or (self._max_lag is not None and lag >= self._max_lag)

    def _show(self, p: float) -> float | None:
        return p if self._is_scored else None  # uncertain by more than TOLERANCE

    def _make_span(self, start: int, end: int, label: int, p: float | None = None) -> StreamSpan:
        first, last = start - self._words_first, end - 1 - self._words_first
        name, calibration = self._codec.labels[label], self._pipe.typed_settings.calibration
        if p is not None and calibration is not None:
            one = (np.array([start]), np.array([end]), np.array([label]))
            keys = find_keys(self._codec, calibration.by, one)
            p = float(calibration.apply(np.array([p]), keys)[0])
        return StreamSpan(start, end, self._bounds[first][0], self._bounds[last][1], name, p)

    def _name_tags(self, start: int, end: int) -> list[str]:
        codec, chain = self._codec, self._chain
        ids = chain.tags[0, start - chain.first : end - chain.first].copy()
        for first, stop in self._dropped:
            ids[max(0, first - start) : max(0, stop - start)] = -1
        empty = "" if codec.outside is None else codec.tags[codec.outside]
        return [codec.tags[tag] if tag >= 0 else empty for tag in ids.tolist()]

    # Posterior bounds

    def _futures(self) -> Potentials:
        tags = None if self._codec.outside is None else self._codec.span_tags(np)
        return self._chain.futures(tags)

    def _bound(self, spans: Sequence[tuple[int, int, int]]) -> tuple[NDArray, NDArray]:
        """Return the least and the largest probability (M,) of spans in all futures."""
        potentials, chain = self._futures(), self._chain
        length = int(potentials.lengths[0])
        starts, ends, labels = np.array(spans, dtype="int64").T
        span, chains, slots = self._codec.place(labels)
        n_futures = len(potentials.lengths) // len(chain.final)
        future = np.arange(n_futures)[:, None] * len(chain.final)
        shift = ((future + chains) * length - chain.first).ravel()
        slots, of_spans = np.tile(slots, n_futures), np.tile(span, n_futures)
        starts, ends = starts[of_spans] + shift, ends[of_spans] + shift
        if self._codec.outside is None:
            p = CRF().marginals(potentials).unary[starts, slots]
        else:
            p = span_posteriors(potentials, self._codec.span_tags(np), starts, ends, slots)
        p = p.reshape(n_futures, -1)
        found = []
        for bound in (p.min(axis=0), p.max(axis=0)):
            absent = np.ones(len(spans))
            np.multiply.at(absent, span, 1 - bound)
            found.append(1 - absent)
        return found[0], found[1]

    def _decide_candidates(self, end: int) -> tuple[list[StreamSpan], int, NDArray]:
        """Return new candidates, the end of the tokens without undecided ones, and `inside`."""
        assert self._likely is not None
        codec, chain, likely = self._codec, self._chain, self._likely
        potentials = self._futures()
        length, n_chains = int(potentials.lengths[0]), len(chain.final)
        n = chain.length - chain.first
        marginals = CRF().marginals(potentials).unary.reshape(-1, n_chains, length, codec.n_tags)
        inside = (1 - marginals[:, :, :n, 0].prod(axis=1)).max(axis=0)
        least = float(likely.min(initial=np.inf)) / codec.most_layers
        if least > 1:
            return [], end, inside
        found = span_candidates(potentials, codec.span_tags(np), least * (1 - 1e-6))
        sequences, starts = np.divmod(found.starts, length)
        ends = found.ends - sequences * length
        labels = codec.label_of(sequences % n_chains, found.labels)
        is_near = (starts < n) & (found.probabilities >= likely[labels] / codec.most_layers * 0.999)
        columns = np.stack([starts, ends, labels])[:, is_near] + [[chain.first], [chain.first], [0]]
        spans = [tuple(span) for span in np.unique(columns.T, axis=0).tolist()]
        complete = [s for s in spans if s[1] <= chain.length and s not in self._promised]
        # A span that is not complete may become a candidate.
        held, candidates = [], []
        for start, stop, label in (s for s in spans if s[1] > chain.length):
            if not self._is_late(start):
                held.append((start, stop, label))
            elif (span := (start, chain.length, label)) not in self._promised:
                self._late += 1
                self._promised.add(span)
                candidates.append(self._make_span(*span, self._show(float(likely[label]))))
        if complete:
            for span, low, high in zip(complete, *self._bound(complete), strict=True):
                minimum = likely[span[2]]
                is_open = low < minimum <= high
                is_open |= self._is_scored and high >= minimum and high - low > TOLERANCE
                if is_open and not self._is_late(span[1]):
                    held.append(span)
                elif high >= minimum:
                    self._late += bool(is_open)
                    self._promised.add(span)
                    candidates.append(self._make_span(*span, self._show(float(low + high) / 2)))
        return candidates, min([end, *(start for start, *_ in held)]), inside


def check_streams(pipe: Component) -> None:
    """Raise ValueError with the reason if a component cannot stream."""
    model, chain = pipe.model, sparse_chain(pipe.model)
    if chain is None or not is_chain_alone(model):
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
        return
    raise ValueError(f"[{pipe.name}] cannot stream: {why}")
