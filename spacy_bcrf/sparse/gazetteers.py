"""Lists of known phrases, and their occurrences in documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from spacy.matcher import PhraseMatcher
from spacy.tokens import Doc
from spacy.util import filter_spans
from spacy.vocab import Vocab

from spacy_bcrf.io.text import CorpusError, read_lines


class Gazetteers:
    """Named lists of phrases, matched regardless of case.

    sources: for each name the phrases, or the path of a text file with one phrase a line. Blanks
        separate the tokens of a phrase.

    `load` reads the files when a model is initialized. The saved model contains the phrases.
    """

    def __init__(self, sources: Mapping[str, str | Sequence[str]]) -> None:
        self._sources = dict(sources)
        self.names = sorted(sources)
        self.phrases: dict[str, list[str]] = {
            name: [] if isinstance(source, str) else list(source)
            for name, source in sources.items()
        }
        # One attribute, so that other threads never see matchers of another vocabulary.
        self._matchers: tuple[Vocab | None, dict[str, Any]] = None, {}
        self._places: dict[str, dict[str, list[str]]] = {}

    def copy(self) -> Gazetteers:
        """Copy sources and phrases."""
        return _restore(self._sources, self.phrases)

    def __reduce__(self) -> tuple:
        # Matchers depend on a vocabulary, so another process makes its own.
        return _restore, (self._sources, self.phrases)

    def load(self) -> None:
        """Read the files. Raises CorpusError if one cannot be read or is empty."""
        for name, source in self._sources.items():
            if isinstance(source, str):
                lines = (line.text.strip() for line in read_lines(Path(source)))
                self.phrases[name] = list(dict.fromkeys(line for line in lines if line))
                if not self.phrases[name]:
                    raise CorpusError(f"{source}: no phrases; expected one phrase a line")
        self._matchers, self._places = (None, {}), {}

    def restore(self, phrases: Mapping[str, list[str]]) -> None:
        """Set the phrases of a saved model, without reading the sources."""
        self.phrases, self._matchers, self._places = dict(phrases), (None, {}), {}

    def find(self, name: str, doc: Doc) -> list[str]:
        """Match the phrases of a list; of overlapping matches only the longest counts.

        Returns each token's position in its phrase: B, I, L, U (a phrase of one token), or "".
        """
        vocab, matchers = self._matchers
        if vocab is not doc.vocab:
            self._matchers = _, matchers = doc.vocab, {}
        if name not in matchers:
            matcher = PhraseMatcher(doc.vocab, attr="LOWER")
            words = (phrase.split() for phrase in self.phrases[name])
            matcher.add(name, [Doc(doc.vocab, words=phrase) for phrase in words if phrase])
            matchers[name] = matcher
        places = [""] * len(doc)
        for span in filter_spans(matchers[name](doc, as_spans=True)):
            places[span.start : span.end] = _places(len(span))
        return places

    def find_partial(self, name: str, word: str) -> Iterator[str]:
        """Yield the positions B, I, L, U that a word has in any phrase of a list.

        The word alone decides: the phrase need not follow in the text.
        """
        if name not in self._places:
            places: dict[str, set[str]] = {}
            for phrase in self.phrases[name]:
                words = phrase.lower().split()
                for known, place in zip(words, _places(len(words)), strict=True):
                    places.setdefault(known, set()).add(place)
            self._places[name] = {known: sorted(found) for known, found in places.items()}
        yield from self._places[name].get(word.lower(), ())


def _places(n: int) -> list[str]:
    """Return the positions of the n tokens of a phrase."""
    return ["U"] if n == 1 else ["B", *["I"] * (n - 2), "L"][:n]


def _restore(
    sources: Mapping[str, str | Sequence[str]], phrases: Mapping[str, list[str]]
) -> Gazetteers:
    new = Gazetteers(sources)
    new.restore(phrases)
    return new
