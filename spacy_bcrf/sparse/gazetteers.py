"""Lists of known phrases, and their occurrences in documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from spacy.tokens import Doc

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
        self._known: dict[str, _Phrases] = {}
        self._places: dict[str, dict[str, list[str]]] = {}

    def copy(self) -> Gazetteers:
        """Copy sources and phrases."""
        new = Gazetteers(self._sources)
        new.restore(self.phrases)
        return new

    def load(self) -> None:
        """Read the files. Raises CorpusError if one cannot be read or is empty."""
        for name, source in self._sources.items():
            if isinstance(source, str):
                lines = (line.text.strip() for line in read_lines(Path(source)))
                self.phrases[name] = list(dict.fromkeys(line for line in lines if line))
                if not self.phrases[name]:
                    raise CorpusError(f"{source}: no phrases; expected one phrase a line")
        self.restore(self.phrases)

    def restore(self, phrases: Mapping[str, list[str]]) -> None:
        """Set the phrases of a saved model, without reading the sources."""
        self.phrases, self._known, self._places = dict(phrases), {}, {}

    def find(self, name: str, doc: Doc) -> list[str]:
        """Match the phrases of a list; of overlapping matches only the longest counts.

        Returns each token's position in its phrase: B, I, L, U (a phrase of one token), or "".
        """
        if name not in self._known:
            self._known[name] = _Phrases(self.phrases[name])
        known, words = self._known[name], [token.lower_ for token in doc]
        matches = [
            (start, n)
            for start, word in enumerate(words)
            for n in known.lengths.get(word, ())
            if tuple(words[start : start + n]) in known.phrases and start + n <= len(words)
        ]
        places = [""] * len(doc)
        for start, n in sorted(matches, key=lambda match: (-match[1], match[0])):
            if not any(places[start : start + n]):
                places[start : start + n] = _places(n)
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


class _Phrases:
    """Phrases as tuples of lowercase words, and the lengths of the phrases by their first word.

    Their words stay out of the vocabulary: spaCy's PhraseMatcher makes a Doc of each phrase, which
    takes a minute for a million.
    """

    def __init__(self, phrases: Sequence[str]) -> None:
        self.phrases = {tuple(phrase.lower().split()) for phrase in phrases}
        self.lengths: dict[str, set[int]] = {}
        for phrase in filter(None, self.phrases):
            self.lengths.setdefault(phrase[0], set()).add(len(phrase))


def _places(n: int) -> list[str]:
    """Return the positions of the n tokens of a phrase."""
    return ["U"] if n == 1 else ["B", *["I"] * (n - 2), "L"][:n]
