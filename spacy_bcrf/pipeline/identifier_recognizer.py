"""`bcrf_identifiers`: entities that check digits, libraries or an unmistakable form decide."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from spacy.tokens import Doc, Span

from spacy_bcrf.annotation.identifiers import BEFORE, LABELS, REGIONS, Identifier, Identifiers


class IdentifierRecognizer:
    """Add mail addresses, URLs, numbers with check digits, telephones and keys to `Doc.ents`.

    They are fixed for a `bcrf_ner` behind it, which needs other labels; templates with `ent_type`
    read them. Earlier entities stay. Errors: see `Identifiers`.
    """

    labels = LABELS

    def __init__(
        self, name: str = "bcrf_identifiers", regions: Sequence[str] | None = None
    ) -> None:
        """regions: countries whose telephone numbers need no country's code; None for REGIONS."""
        self.name = name
        self.finder = Identifiers(REGIONS if regions is None else regions)

    def __call__(self, doc: Doc) -> Doc:
        """Return the annotated document."""
        set_identifiers(doc, self.finder.find(doc.text))
        return doc

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Do nothing: the config has all settings."""

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "IdentifierRecognizer":
        return self


def set_identifiers(doc: Doc, identifiers: Iterable[Identifier]) -> list[Span]:
    """Add identifiers to the entities, as the tokens that they touch, and return their spans.

    A token belongs to the first entity that touches it.
    """
    spans: list[Span] = []
    end = 0
    for start_char, end_char, label in identifiers:
        touched: Any = doc.char_span(start_char, end_char, label, alignment_mode="expand")
        start = max(end, touched.start)
        if start < touched.end and not any(token.ent_type for token in doc[start : touched.end]):
            spans.append(Span(doc, start, touched.end, label))
            end = touched.end
    if spans:
        doc.set_ents(spans, default="unmodified")
    return spans


class IdentifiedText:
    """The identifiers of a text that arrives in pieces, whose tokens are final.

    state: can be set back to an earlier one.
    """

    def __init__(self, finder: Identifiers) -> None:
        self._finder = finder
        # Text, the character up to which its identifiers are known, these, the waiting pieces at
        # the end of the text.
        self.state: tuple[str, int, tuple[Identifier, ...], tuple[str, ...]] = "", 0, (), ()

    def read(self, pieces: Sequence[str], ended: bool) -> list[tuple[str, list[Identifier]]]:
        """Return the texts whose identifiers are known: pieces, joined where an identifier goes on.

        Identifiers are in the characters of their text.
        """
        text, at, known, waiting = self.state
        waiting = (*waiting, *pieces)
        text += "".join(pieces)
        found, at = self._finder.scan(text, at, ended)
        known = tuple(sorted((*known, *found)))
        first = len(text) - sum(map(len, waiting))
        read: list[tuple[str, list[Identifier]]] = []
        n = k = 0
        while n < len(waiting):
            # The next piece, and all that its identifiers touch.
            stop, m, j = first, n, k
            while m == n or (j < len(known) and known[j].start < stop):
                if m < len(waiting) and (m == n or known[j].end > stop):
                    stop += len(waiting[m])
                    m += 1
                elif known[j].end > stop:
                    break
                else:
                    j += 1
            if stop > at or (j < len(known) and known[j].start < stop):
                break
            moved = [Identifier(s - first, e - first, label) for s, e, label in known[k:j]]
            read.append((text[first:stop], moved))
            n, k, first = m, j, stop
        # What is before may say what a number is.
        cut = max(0, min(first, at) - 2 * BEFORE)
        left = tuple(Identifier(s - cut, e - cut, label) for s, e, label in known[k:])
        self.state = text[cut:], at - cut, left, waiting[n:]
        return read
