"""Lists of known phrases, and their occurrences in documents.

gazetteer.name[0]  the position in a phrase that matches regardless of case: B, I, L, U
exact.name[0]      the position in a phrase that matches with case
partial.name[0]    the positions of the word in any phrase, without its neighbours
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import srsly
from numpy.typing import NDArray
from spacy.attrs import LOWER, ORTH  # type: ignore[import-not-found]
from spacy.strings import hash_string  # type: ignore[attr-defined]
from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_bcrf.annotation.arrays import read_doc
from spacy_bcrf.io.text import CorpusError, Line, read_lines, text_suffix

KINDS = ("gazetteer", "exact", "partial")
"""The attributes, which a dot and the name of a list follow."""
FIELDS = ("pattern", "name", "text", "alias", "aliases")
"""Fields of JSONL with a phrase, or a list of phrases. Without them, `label` is a phrase."""
_PLACES = ("B", "I", "L", "U")
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


class Gazetteers:
    """Named lists of phrases.

    sources: for each name the phrases, or the path of a file, see `read_phrases`. Blanks separate
        the tokens of a phrase.

    `load` reads the files when a model is initialized. The saved model contains the phrases. A
    matcher keeps 64 bits for each beginning of a phrase, not its words.
    """

    def __init__(self, sources: Mapping[str, str | Sequence[str]]) -> None:
        self._sources = dict(sources)
        self.names = sorted(sources)
        self.phrases: dict[str, list[str]] = {
            name: [] if isinstance(source, str) else list(source)
            for name, source in sources.items()
        }
        self._matchers: dict[tuple[str, int], _Matcher] = {}
        self._words: dict[str, tuple[Any, NDArray[np.uint8]]] = {}

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
                self.phrases[name] = read_phrases(Path(source))
        self._matchers, self._words = {}, {}

    def restore(self, phrases: Mapping[str, list[str]]) -> None:
        """Set the phrases of a saved model, without reading the sources."""
        self.phrases, self._matchers, self._words = dict(phrases), {}, {}

    def find(self, name: str, doc: Doc, exact: bool = False) -> list[str]:
        """Match the phrases of a list; of overlapping matches only the longest counts.

        exact: whether case matters. Returns each token's position in its phrase: B, I, L, U (a
        phrase of one token), or "".
        """
        key = name, ORTH if exact else LOWER
        if key not in self._matchers:
            self._matchers[key] = _Matcher(self.phrases[name], exact)
        places = [""] * len(doc)
        matches = self._matchers[key].find(read_doc(doc, [key[1]])[:, 0]) if len(doc) else []
        for start, end in sorted(matches, key=lambda match: (match[0] - match[1], match[0])):
            if not (places[start] or places[end - 1]):
                places[start:end] = _places(end - start)
        return places

    def find_partial(self, name: str, word: str) -> Iterator[str]:
        """Yield the positions B, I, L, U that a word has in any phrase of a list.

        The word alone decides: the phrase need not follow in the text.
        """
        if name not in self._words:
            self._words[name] = _index_words(self.phrases[name])
        index, found = self._words[name]
        row = int(index.find(np.array([hash_string(word.lower())], dtype="uint64"))[0])
        if row >= 0:
            yield from (place for k, place in enumerate(_PLACES) if found[row] >> k & 1)


class _Matcher:
    """The beginnings of phrases, as hashes of 64 bits.

    Two phrases or texts have the same hash by chance in one of about 2^64 / (number of hashes).
    """

    def __init__(self, phrases: Sequence[str], exact: bool) -> None:
        from spacy_bcrf.kernels.sparse import Dictionary

        self._index: Any = Dictionary()
        flat, lengths = _hash_words(phrases, lower=not exact)
        firsts, keys = lengths.cumsum() - lengths, np.zeros(len(phrases), dtype="uint64")
        ends = []
        for n in range(int(lengths.max(initial=0))):
            longer = lengths > n
            keys[longer] = _extend(keys[longer], flat[firsts[longer] + n])
            rows = self._index.find(keys[longer], True)
            ends.append(rows[lengths[longer] == n + 1])
        self._is_end = np.zeros(len(self._index), dtype=bool)
        self._is_end[np.concatenate([np.zeros(0, "int64"), *ends])] = True

    def find(self, words: NDArray[np.uint64]) -> list[tuple[int, int]]:
        """Return the starts and ends of all matches. words: (n,) hashes."""
        found: list[tuple[int, int]] = []
        at, keys, n = np.arange(len(words)), np.zeros(len(words), dtype="uint64"), 0
        while len(at):
            keys = _extend(keys, words[at + n])
            rows = self._index.find(keys)
            n += 1
            known = rows >= 0
            at, keys, rows = at[known], keys[known], rows[known]
            found += [(start, start + n) for start in at[self._is_end[rows]].tolist()]
            inside = at + n < len(words)
            at, keys = at[inside], keys[inside]
        return found


def _hash_words(
    phrases: Sequence[str], lower: bool
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the hashes of the words of all phrases, and the number of words of each."""
    flat, lengths = array("Q"), array("q")
    for phrase in phrases:
        words = (phrase.lower() if lower else phrase).split()
        flat.extend(map(hash_string, words))
        lengths.append(len(words))
    return np.array(flat, dtype="uint64"), np.array(lengths, dtype="int64")


def _extend(keys: NDArray[np.uint64], words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the hashes of phrases with one word more."""
    mixed = (keys ^ (keys >> np.uint64(29))) * _FACTOR + words
    return mixed ^ (mixed >> np.uint64(32))


def _index_words(phrases: Sequence[str]) -> tuple[Any, NDArray[np.uint8]]:
    """Return an index of the lowercased words of phrases, and the bits of their positions."""
    from spacy_bcrf.kernels.sparse import Dictionary

    flat, lengths = _hash_words(phrases, lower=True)
    # Places of the tokens: B 0, I 1, L 2, U 3.
    places = np.ones(len(flat), dtype="uint8")
    ends = lengths.cumsum()
    has = lengths > 0
    places[ends[has] - 1] = 2
    places[(ends - lengths)[has]] = np.where(lengths[has] == 1, 3, 0)
    index: Any = Dictionary()
    rows = index.find(flat, True)
    found = np.zeros(len(index), dtype="uint8")
    np.bitwise_or.at(found, rows, np.uint8(1) << places)
    return index, found


def read_phrases(path: Path) -> list[str]:
    """Read the distinct phrases of a file.

    A line of `.tsv` has a phrase before its first tab, a line of `.jsonl` a string or an object
    with `FIELDS`, and a line of another file is a phrase. A folder is a spaCy knowledge base, whose
    aliases are phrases. Raises CorpusError if it cannot be read or has no phrase.
    """
    if path.is_dir():
        found: Iterator[str] = iter(_read_aliases(path))
    else:
        read = {".jsonl": _read_json, ".tsv": _read_tsv}.get(text_suffix(path), _read)
        found = (phrase for line in read_lines(path) if line.text.strip() for phrase in read(line))
    phrases = list(dict.fromkeys(text for phrase in found if (text := phrase.strip())))
    if not phrases:
        raise CorpusError(f"{path}: no phrases; expected one phrase a line")
    return phrases


def _read(line: Line) -> list[str]:
    return [line.text]


def _read_tsv(line: Line) -> list[str]:
    return [line.text.split("\t")[0]]


def _read_json(line: Line) -> list[str]:
    try:
        value = srsly.json_loads(line.text)
    except ValueError as error:
        raise line.error(f"expected JSON, got {line.text[:60]!r} ({error})") from error
    if isinstance(value, dict):
        value = [value[field] for field in FIELDS if field in value] or value.get("label")
    values = value if isinstance(value, list) else [value]
    texts = [text for v in values for text in (v if isinstance(v, list) else [v])]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise line.error(
            f"expected a string, or an object with {' or '.join(FIELDS)}, got {line.text[:60]!r}"
        )
    return texts


def _read_aliases(path: Path) -> list[str]:
    """Return the aliases of a folder that `InMemoryLookupKB.to_disk` wrote."""
    from spacy.kb import InMemoryLookupKB

    # spaCy ends the process without this file.
    if not (path / "contents").is_file():
        raise CorpusError(f"{path}: expected a spaCy knowledge base, which has a file `contents`")
    try:
        knowledge = InMemoryLookupKB(Vocab(), entity_vector_length=1)
        knowledge.from_disk(path)
        return list(knowledge.get_alias_strings())
    except (OSError, ValueError, KeyError) as error:
        raise CorpusError(f"{path}: expected a spaCy knowledge base ({error})") from error


def _places(n: int) -> list[str]:
    """Return the positions of the n tokens of a phrase."""
    return ["U"] if n == 1 else ["B", *["I"] * (n - 2), "L"][:n]


def _restore(
    sources: Mapping[str, str | Sequence[str]], phrases: Mapping[str, list[str]]
) -> Gazetteers:
    new = Gazetteers(sources)
    new.restore(phrases)
    return new
