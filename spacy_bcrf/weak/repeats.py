"""Repeats of entities in the texts, where no source proposes a span.

- Abbreviations: of "Wilson disease (WD)" with the entity "Wilson disease", each WD in the document.
- Other mentions: phrases that are an entity in most places of the corpus.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache

from numpy.typing import NDArray
from spacy.tokens import Doc

from spacy_bcrf.annotation.arrays import doc_bounds

MAX_WORDS = 6
"""Longest phrase that is looked for, in tokens."""
MIN_LETTERS = 3
"""Shortest phrase that is looked for, in letters and digits. Shorter ones need a definition."""

Found = tuple[int, int, int]
"""First flat token, one past the last, number of the label."""


class Repeats:
    """Phrases of entities, and how often they are none.

    Case, hyphens and a final s do not count: they differ between mentions.
    """

    def __init__(self) -> None:
        self._labels: dict[str, Counter[int]] = defaultdict(Counter)
        self._beginnings: set[str] = set()
        self._n_missed: Counter[str] = Counter()

    def learn(self, docs: Sequence[Doc], entities: Sequence[Found]) -> None:
        """Count the phrases of entities."""
        words = [token.text for doc in docs for token in doc]
        for start, end, label in entities:
            if key := _key(list(map(_letters, words[start:end])), words[end - 1]):
                self._labels[key][label] += 1
                # The first word may be shorter: "St. Louis".
                self._beginnings.update(key[:n] for n in range(1, MIN_LETTERS + 1))

    def learn_misses(self, docs: Sequence[Doc], tags: NDArray, voted: NDArray) -> None:
        """Count where else the phrases occur, after `learn` has seen all documents.

        tags (N,): of the best labelings. voted: mask (N,) of tokens with a vote.
        """
        words = [token.text for doc in docs for token in doc]
        for *_, key in self._scan(docs, words, (tags > 0) | voted):
            self._n_missed[key] += 1

    def find(
        self, docs: Sequence[Doc], entities: Sequence[Found], tags: NDArray, voted: NDArray
    ) -> list[Found]:
        """Return the repeats in documents, outside of entities and votes; none overlaps another."""
        words = [token.text for doc in docs for token in doc]
        taken = (tags > 0) | voted
        found = list(_find_abbreviations(docs, words, entities, taken))
        for start, end, _ in found:
            taken[start:end] = True
        for start, end, key in self._scan(docs, words, taken):
            ((label, n),) = self._labels[key].most_common(1)
            if n > self._n_missed[key]:
                found.append((start, end, label))
        return sorted(found)

    def _scan(
        self, docs: Sequence[Doc], words: Sequence[str], taken: NDArray
    ) -> list[tuple[int, int, str]]:
        found, busy, letters = [], taken.tolist(), list(map(_letters, words))
        for at, last in doc_bounds(docs):
            while at < last:
                size = 1
                if not busy[at] and letters[at][:MIN_LETTERS] in self._beginnings:
                    most = next(
                        (n for n in range(1, MAX_WORDS) if at + n == last or busy[at + n]),
                        MAX_WORDS,
                    )
                    for n in range(most, 0, -1):
                        key = _key(letters[at : at + n], words[at + n - 1])
                        if key in self._labels and letters[at + n - 1]:
                            found.append((at, at + n, key))
                            size = n
                            break
                at += size
        return found


def _find_abbreviations(
    docs: Sequence[Doc], words: Sequence[str], entities: Sequence[Found], taken: NDArray
) -> list[Found]:
    labels = {start: (end, label) for start, end, label in entities}
    found = []
    for first, last in doc_bounds(docs):
        local = {}
        for start in range(first, last - 3):
            end, label = labels.get(start, (last, 0))
            is_defined = end + 2 < last and (words[end], words[end + 2]) == ("(", ")")
            if is_defined and _is_abbreviation(words[end + 1], " ".join(words[start:end])):
                local[words[end + 1]] = label
        if local:
            found += [
                (at, at + 1, local[words[at]])
                for at in range(first, last)
                if words[at] in local and not taken[at]
            ]
    return found


def _is_abbreviation(short: str, long: str) -> bool:
    """Return whether the letters of a short form occur in the long form, in their order.

    The first one starts a word. The algorithm is that of Schwartz and Hearst (2003).
    """
    letters, text = [c for c in short.lower() if c.isalnum()], long.lower()
    if not 2 <= len(letters) <= 10 or not any(c.isupper() for c in short):
        return False
    at = len(text)
    for i in range(len(letters) - 1, -1, -1):
        at -= 1
        while at >= 0 and (
            text[at] != letters[i] or (i == 0 and at > 0 and text[at - 1].isalnum())
        ):
            at -= 1
        if at < 0:
            return False
    return True


@lru_cache(1 << 16)
def _letters(word: str) -> str:
    return "".join(c for c in word.lower() if c.isalnum())


def _key(letters: Sequence[str], last: str) -> str:
    """Return what mentions of a phrase share: its letters, by word, less the s of the last word."""
    key = "".join(letters)
    if len(key) < MIN_LETTERS:
        return ""
    if len(key) > 4 and last.isalpha() and not last.isupper():
        if key.endswith("ies"):
            return f"{key[:-3]}y"
        return key[:-1] if key.endswith("s") and not key.endswith("ss") else key
    return key
