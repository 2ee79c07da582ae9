"""The tokens of a stream's pieces: of text, or of annotated documents."""

from __future__ import annotations

from collections.abc import Callable
from itertools import starmap
from typing import Any
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
    SPACY,
    TAG,
)
from spacy.tokens import Doc, Span

from bcrf.linear import Tokens
from bcrf.linear.word_cache import Bags
from spacy_bcrf.annotation.entity_tags import BEGIN, INSIDE
from spacy_bcrf.annotation.identifiers import LABELS, Identifier, Identifiers
from spacy_bcrf.annotation.text_stream import LONG_WORD, MOST_WORDS, stream_text
from spacy_bcrf.sparse.features import Features, list_places
from spacy_bcrf.sparse.gazetteers import WordHashes

from .identifier_recognizer import IdentifiedText, set_identifiers
from .phrased_text import PhrasedText
from .prediction import Component

_OF_COMPONENTS = {TAG, POS, LEMMA, DEP, HEAD, MORPH, ENT_TYPE, ENT_ID, ENT_KB_ID, SENT_START}

_KNOWN: WeakKeyDictionary[Any, tuple[Any, Any, dict[str, Any]]] = WeakKeyDictionary()
"""Of word caches: the last tokenizer of a stream, its special cases, and the tokens of words."""


class Pieces:
    """Reader of pieces: texts, or the parts of documents.

    state: text and documents so far. It can be set back to an earlier one.
    """

    def __init__(
        self,
        pipe: Component,
        features: Features,
        tokenizer: Callable[[str], Doc] | None,
        identifiers: Identifiers | None = None,
    ) -> None:
        """tokenizer: None if only documents come. identifiers: to find in text.

        ValueError if features need other components, or if the pipe has a label of an identifier.
        """
        self._name, self._has_entities = pipe.name, ENT_IOB in pipe.codec.attributes
        self._features: Any = features.compiled
        self._lists = features if features.phrases else None
        self._tokenizer: Any = tokenizer
        self._text = None if tokenizer is None else stream_text(tokenizer)
        self._marked = IdentifiedText(identifiers) if identifiers and self._text else None
        self._phrases: PhrasedText | None = None
        if tokenizer is not None and features.phrases:
            self._phrases = PhrasedText(features, tokenizer)
        if both := sorted({*LABELS}.intersection(pipe.codec.labels if identifiers else ())):
            raise ValueError(
                f"[{pipe.name}] cannot stream after bcrf_identifiers: both have the label {both[0]}"
            )
        set_by_others = _OF_COMPONENTS - ({ENT_TYPE} if identifiers else set())
        if self._text and (read := set_by_others.intersection(pipe.labeling.columns)):
            names = ", ".join(key.lower() for key, value in IDS.items() if value in read)
            raise ValueError(
                f"[{pipe.name}] cannot stream text: its features read {names}, which other "
                "components set. Feed documents that these have annotated"
            )
        self._n_features, self._n_columns = len(features.attributes), len(features.columns)
        self._columns = [*features.attributes, LENGTH, SPACY, SENT_START, IS_SPACE]
        self._sentence = [k for k, column in enumerate(self._columns) if column == SENT_START]
        self._known: dict[str, Any] = {}
        words, rules = features.compiled.words, (tokenizer, self._text and self._text.cases)
        if words in _KNOWN and all(a is b for a, b in zip(rules, _KNOWN[words], strict=False)):
            self._known = _KNOWN[words][-1]
        _KNOWN[words] = *rules, self._known
        self._is_first = True
        self._length = 0, 0  # tokens and characters
        self.identifiers: list[tuple[int, int, int, int, str]] = []
        """Tokens, characters and label of each one in the text so far that nobody has taken."""
        self._last: tuple[Doc | None, int] | None = None  # the last piece: document and end
        self._places: Any = None  # in phrases, of the last document

    @property
    def state(self) -> tuple[Any, ...]:
        marked = self._marked and self._marked.state
        of_text = self._text and self._text.state
        phrases, n = self._phrases and self._phrases.state, len(self.identifiers)
        return of_text, self._last, self._is_first, marked, phrases, self._length, n

    @state.setter
    def state(self, state: tuple[Any, ...]) -> None:
        text, self._last, self._is_first, marked, phrases, self._length, n = state
        del self.identifiers[n:]
        if self._text:
            self._text.state = text
        if self._marked:
            self._marked.state = marked
        if self._phrases:
            self._phrases.state = phrases

    def read(self, piece: str | Doc | Span | None) -> list[Any]:
        """Return the `StreamTokens` that are final. None ends the stream. Errors: `Stream.feed`."""
        if piece is None:
            return self._read_words(self._text.close(), True) if self._text else []
        if not isinstance(piece, str):
            if isinstance(piece, Doc | Span):
                return [self._read_part(piece)]
            raise TypeError(f"a stream takes a text, a Doc or a Span, got {type(piece).__name__}")
        if self._text is None:
            raise TypeError("a stream of text needs a tokenizer: pipe.stream(nlp.tokenizer)")
        if self._last and self._last[0] is not None:
            raise TypeError("a stream takes text or documents, not both")
        self._last = None, 0
        return self._read_words(self._text.feed(piece))

    def _read_part(self, piece: Doc | Span) -> Any:
        if isinstance(piece, Span):
            doc, start, end = piece.doc, piece.start, piece.end
        else:
            doc, start, end = piece, 0, len(piece)
        last, expected = self._last or (doc, start)
        if last is None:
            raise TypeError("a stream takes text or documents, not both")
        # A document may come again, but not behind a part of it.
        goes_on = isinstance(piece, Span) or expected < len(doc)
        if last is doc and goes_on and start != expected:
            raise ValueError(
                f"[{self._name}] token {expected} of the document comes next, got a span from "
                f"token {start} on"
            )
        if self._has_entities and any(t.ent_iob in (BEGIN, INSIDE) for t in piece):
            raise ValueError(
                f"[{self._name}] a stream has no preset entities: remove doc.ents before"
            )
        self._last = doc, end
        places = None
        if self._lists:
            if last is not doc or not goes_on or self._places is None:
                self._places = self._lists.find_places(WordHashes.of([doc]))
            places = self._places[:, start:end]
        # spaCy sets a sentence start at the first token of each document.
        has_sentences = len(doc) > 1 and doc.has_annotation("SENT_START")
        return self._read_tokens(piece, has_sentences, places)

    def _read_words(self, texts: list[str], ended: bool = False) -> list[Any]:
        if self._marked or self._phrases:
            read = self._marked.read(texts, ended) if self._marked else [(x, []) for x in texts]
            if self._phrases is None:
                return list(starmap(self._read_text, read))
            return list(starmap(self._read_text, self._phrases.read(read, ended)))
        if self._is_first:  # The first word, unlike all others, starts a sentence.
            first = [self._read_tokens(self._tokenizer(text), False) for text in texts[:1]]
            return first + [self._tokenize(text) for text in texts[1:]]
        return [self._known.get(text) or self._tokenize(text) for text in texts]

    def _read_text(
        self, text: str, identifiers: list[Identifier], places: NDArray | None = None
    ) -> Any:
        """Return the tokens of a text. places: (A, N), in phrases, if they are in any."""
        if identifiers or places is not None or self._is_first:
            doc = self._tokenizer(text)
            n, at = self._length
            for span in set_identifiers(doc, identifiers):
                bounds = n + span.start, n + span.end, at + span.start_char, at + span.end_char
                self.identifiers.append((*bounds, span.label_))
            tokens = self._read_tokens(doc, False, places)
        else:
            tokens = self._known.get(text) or self._tokenize(text)
        self._length = self._length[0] + len(tokens.words), self._length[1] + len(text)
        return tokens

    def _tokenize(self, text: str) -> Any:
        tokens = self._read_tokens(self._tokenizer(text), False)
        if len(text) <= LONG_WORD:
            if len(self._known) >= MOST_WORDS:
                self._known.clear()
            self._known[text] = tokens
        return tokens

    def _read_tokens(self, tokens: Any, has_sentences: bool, places: NDArray | None = None) -> Any:
        n, listed = len(tokens), list[Bags]()
        if self._lists:
            nowhere = np.full((len(self._lists.phrases), n), -1, "int8")
            listed = list(map(list_places, nowhere if places is None else places))
        values: Any = (
            tokens.to_array(self._columns) if n else np.zeros((0, len(self._columns)), "uint64")
        )
        if n and not (has_sentences or self._is_first):
            values[0, self._sentence] = 0
        if any(token.ent_type for token in tokens):
            # White space that starts a sentence is in no entity, and neither are identifiers.
            values[[bool(token.ent_type) for token in tokens], -2:] = 1
        self._is_first = self._is_first and not n
        words, marks = [t.text_with_ws for t in tokens], values[:, self._n_features :]
        read = Tokens(
            values[:, 0],
            values[:, 1 : 1 + self._n_columns],
            np.array([n], "int32"),
            tokens.vocab.strings.__getitem__,
            listed,
        )
        return self._features.read(words, read, marks)
