"""Lists of known phrases, and where they are in a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spacy.matcher import PhraseMatcher
from spacy.tokens import Doc
from spacy.util import filter_spans
from spacy.vocab import Vocab

from spacy_bcrf.io.text import CorpusError, read_lines


class Gazetteers:
    """Named lists of phrases, each with its tokens between blanks; case does not matter.

    A source is the phrases, or a text file with one a line. Files are read by `load`, when a model
    is initialized; afterwards the model has them with it.
    """

    def __init__(self, sources: Mapping[str, str | Sequence[str]]) -> None:
        self._sources = dict(sources)
        self.names = sorted(sources)
        self.phrases: dict[str, list[str]] = {
            name: [] if isinstance(source, str) else list(source)
            for name, source in sources.items()
        }
        # Of one vocabulary; one attribute, since several threads may predict.
        self._matchers: tuple[Vocab | None, dict[str, Any]] = None, {}

    def copy(self) -> Gazetteers:
        return _restore(self._sources, self.phrases)

    def __reduce__(self) -> tuple:
        # Matchers belong to a vocabulary, which may be another one where this goes.
        return _restore, (self._sources, self.phrases)

    def load(self) -> None:
        """Read the files. CorpusError for one that cannot be read or is empty."""
        for name, source in self._sources.items():
            if isinstance(source, str):
                lines = (line.text.strip() for line in read_lines(Path(source)))
                self.phrases[name] = list(dict.fromkeys(line for line in lines if line))
                if not self.phrases[name]:
                    raise CorpusError(f"{source}: no phrases; expected one a line")
        self._matchers = None, {}

    def restore(self, phrases: Mapping[str, list[str]]) -> None:
        """Have these, whatever the sources are now."""
        self.phrases, self._matchers = dict(phrases), (None, {})

    def find(self, name: str, doc: Doc) -> list[str]:
        """(n,) the place of each token in the longest phrases, none of which overlap: B, I, L, or
        U for the only token of one; else ""."""
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
            inside = ["I"] * (len(span) - 2)
            places[span.start : span.end] = ["U"] if len(span) == 1 else ["B", *inside, "L"]
        return places


def _restore(
    sources: Mapping[str, str | Sequence[str]], phrases: Mapping[str, list[str]]
) -> Gazetteers:
    new = Gazetteers(sources)
    new.restore(phrases)
    return new
