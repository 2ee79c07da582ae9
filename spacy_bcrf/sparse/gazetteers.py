"""Lists of known phrases, and their occurrences in documents.

gazetteer.name[0]  the position in a phrase that matches regardless of case: B, I, L, U
exact.name[0]      the position in a phrase that matches with case
partial.name[0]    the positions of the word in any phrase, without its neighbours
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import srsly
from numpy.typing import NDArray
from spacy.attrs import LOWER, ORTH  # type: ignore[import-not-found]
from spacy.language import Language
from spacy.strings import hash_string  # type: ignore[attr-defined]
from spacy.symbols import IDS  # type: ignore[import-not-found]
from spacy.tokens import Doc
from spacy.vocab import Vocab

from bcrf.io.text import CorpusError, Line, read_lines, text_suffix
from spacy_bcrf.annotation.arrays import doc_lengths, read_attributes

EXACT = "exact"
ATTRIBUTES = ("gazetteer", EXACT, "partial")
"""The attributes, which a dot and the name of a list follow."""
FIELDS = ("pattern", "name", "text", "alias", "aliases")
"""Fields of JSONL with a phrase, or a list of phrases. Without them, `label` is a phrase."""
PLACES = ("B", "I", "L", "U")
_PHRASE = re.compile("[^\n]+")
_WORD = re.compile("[^ \n]+")
_UNCLEAN = re.compile(r"[^\S \n]|  |^ | $|^$", re.MULTILINE)
# A Doc has the names of spaCy's symbols, such as "mark" and "LOC", by their ids.
_SYMBOLS, _SYMBOL_IDS = np.array(
    sorted((hash_string(name), value) for name, value in IDS.items()), dtype="uint64"
).T.copy()
_BLOCK = 2**16  # words at once, for little memory
_WORDS = 1000  # words at once: some tokenizers refuse long texts
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


class Gazetteers:
    """Named lists of phrases, with blanks between tokens. The saved model contains them.

    sources: phrases, or the path of a file that `load` reads, see `read_phrases`. A list is one
    string, and a matcher has 64 bits for each beginning of a phrase.
    """

    def __init__(self, sources: Mapping[str, str | Sequence[str]]) -> None:
        self._sources = dict(sources)
        self.names = sorted(sources)
        self.restore({name: () if isinstance(x, str) else x for name, x in sources.items()})

    @property
    def phrases(self) -> dict[str, list[str]]:
        return {name: text.split("\n") if text else [] for name, text in self._texts.items()}

    def load(self, nlp: Language | None = None) -> None:
        """Read the files. With `nlp`, phrases match also in the tokens of its tokenizer."""
        phrases = {
            name: read_phrases(Path(x)) if isinstance(x, str) else list(x)
            for name, x in self._sources.items()
        }
        if nlp is not None:
            phrases = {
                name: [*dict.fromkeys(list_ + split_phrases(list_, nlp))]
                for name, list_ in phrases.items()
            }
        self.restore(phrases)

    def restore(self, phrases: Mapping[str, Sequence[str]]) -> None:
        self._set({name: _join_phrases(list_) for name, list_ in phrases.items()})

    def _set(self, texts: dict[str, str]) -> None:
        self._texts = texts
        self._matchers: dict[str, _Matcher] = {}
        self._words: dict[str, tuple[Any, NDArray[np.uint8]]] = {}

    def __getstate__(self) -> dict[str, Any]:
        # Copies make their own matchers, which depend on a vocabulary.
        return {**self.__dict__, "_matchers": {}, "_words": {}}

    def find(self, name: str, words: WordHashes, exact: bool = False) -> NDArray[np.int8]:
        """Match the phrases of a list; of overlapping matches only the longest, then first, counts.

        exact: whether case matters. RETURNS the places of tokens in phrases (N,): indices of
        `PLACES`, where U is a phrase of one token, -1 outside.
        """
        if name not in self._matchers:
            self._matchers[name] = _Matcher(self._texts[name])
        matcher = self._matchers[name]
        if name not in words.matches:
            words.matches[name] = matcher.find(words.lower, words.ends)
        starts, sizes, _ = words.matches[name]
        if exact:
            is_exact = matcher.has_case(words.orth, starts, sizes)
            starts, sizes = starts[is_exact], sizes[is_exact]
        places = np.full(len(words.lower), -1, dtype="int8")
        is_long = sizes > 1
        order = np.lexsort((starts[is_long], -sizes[is_long]))
        longer = np.stack([starts[is_long], starts[is_long] + sizes[is_long]], axis=1)[order]
        for start, end in longer.tolist():
            if places[start] < 0 and places[end - 1] < 0:
                places[start:end] = 1
                places[start], places[end - 1] = 0, 2
        alone = starts[~is_long]
        places[alone[places[alone] < 0]] = 3
        return places

    def count_final(self, words: WordHashes, places: NDArray[np.int8], cuts: NDArray) -> int:
        """Return the last of some cuts before which no later word can change the places of words.

        words: hashes of the first words of a document, after `find`. places: (A, N), by list, case.
        cuts: numbers of words, ascending.
        """
        # No phrase crosses the cut, and none that may go on.
        end = min(is_open for *_, is_open in words.matches.values())
        cut = cuts[cuts <= end][-1:]
        bounds = [(starts, starts + sizes) for starts, sizes, _ in words.matches.values()]
        starts, ends = map(np.concatenate, zip(*bounds, strict=True))
        while len(cut) and len(crossing := starts[(starts < cut) & (cut < ends)]):
            cut = cuts[cuts <= crossing.min()][-1:]
        # A phrase yields only to a longer one, and so on: further words are out of reach.
        n = max([1, *(self._matchers[name].longest for name in words.matches)])
        is_inside = (places == 1) | (places == 2)
        far = cuts[cuts <= places.shape[1] - n * (n + 3) // 2]
        far = far[~is_inside[:, far].any(axis=0)][-1:]
        return int(max([0, *cut, *far]))

    def find_partial(self, name: str, word: str) -> Iterator[str]:
        """Yield the positions B, I, L, U that a word alone has in any phrase of a list."""
        if name not in self._words:
            self._words[name] = _index_words(self._texts[name])
        index, found = self._words[name]
        key = np.array([hash_string(word.lower())], dtype="uint64")
        _take_symbols(key)
        row = int(index.find(key)[0])
        if row >= 0:
            yield from (place for k, place in enumerate(PLACES) if found[row] >> k & 1)


class WordHashes:
    """The words of documents, which all lists match.

    lower, orth: (N,) hashes of the words. ends: (N,) one past the last token of each token's
    document. matches: see `_Matcher.find`, by list.
    """

    def __init__(self, lower_and_orth: NDArray[np.uint64], lengths: NDArray[np.int32]) -> None:
        """lower_and_orth: (N, 2). lengths: numbers of tokens of the documents."""
        self.lower, self.orth = np.ascontiguousarray(lower_and_orth.T)
        self.ends = np.repeat(lengths.cumsum(), lengths)
        self.matches: dict[str, tuple[NDArray[np.int64], NDArray[np.int64], int]] = {}

    @classmethod
    def of(cls, docs: Sequence[Doc]) -> WordHashes:
        return cls(read_attributes(docs, [LOWER, ORTH]), doc_lengths(docs))


class _Matcher:
    """The beginnings of phrases, as hashes of 64 bits, which collide in about one of 2^64 / n."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._with_case: _Hashes | None = None
        flat, lengths = _hash_words(text, lower=True)
        self.longest = int(lengths.max(initial=0))
        firsts, keys = lengths.cumsum() - lengths, np.zeros(len(lengths), dtype="uint64")
        for n in range(self.longest):
            longer = np.flatnonzero(lengths > n)
            at = firsts[longer] + n
            # The beginning that ends at a word takes the word's place.
            keys[longer] = flat[at] = _extend(keys[longer], flat[at])
        self._index = _Hashes(flat)
        self._is_end = np.zeros(len(self._index.keys), dtype=bool)
        self._is_end[self._index.find(keys)] = True

    def has_case(
        self, orths: NDArray[np.uint64], starts: NDArray[np.int64], sizes: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return which matches regardless of case match with case too. orths: (N,) hashes."""
        if self._with_case is None:
            flat, lengths = _hash_words(self._text, lower=False)
            self._with_case = _Hashes(_hash_spans(flat, lengths.cumsum() - lengths, lengths))
        return self._with_case.find(_hash_spans(orths, starts, sizes)) >= 0

    def find(
        self, words: NDArray[np.uint64], ends: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """Return starts and numbers of tokens of all matches. words, ends: see `WordHashes`.

        Also returns the first beginning of a phrase that reaches the end of its document.
        """
        starts, sizes, first_open = [np.zeros(0, "int64")], [np.zeros(0, "int64")], len(words)
        at, keys, n = np.arange(len(words)), np.zeros(len(words), dtype="uint64"), 0
        while len(at):
            keys = _extend(keys, words[at + n])
            rows = self._index.find(keys)
            n += 1
            known = rows >= 0
            at, keys, rows = at[known], keys[known], rows[known]
            starts.append(at[self._is_end[rows]])
            sizes.append(np.full(len(starts[-1]), n))
            inside = at + n < ends[at]
            first_open = min([first_open, *at[~inside][:1].tolist()])
            at, keys = at[inside], keys[inside]
        return np.concatenate(starts), np.concatenate(sizes), first_open


class _Hashes:
    """Distinct hashes in order, 9 to 13 bytes each. Their first bits give the place to look at."""

    def __init__(self, keys: NDArray[np.uint64]) -> None:
        self.keys = np.unique(np.append(keys, np.iinfo("uint64").max))
        bits = len(self.keys).bit_length()
        self._shift = np.uint64(64 - bits)
        firsts = np.arange(2**bits, dtype="uint64") << self._shift
        self._starts = np.searchsorted(self.keys, firsts).astype("int32")

    def find(self, keys: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the places of hashes in `keys`, -1 for unknown ones."""
        rows = self._starts[keys >> self._shift]
        smaller = np.flatnonzero(self.keys[rows] < keys)
        while len(smaller):
            rows[smaller] += 1
            smaller = smaller[self.keys[rows[smaller]] < keys[smaller]]
        return np.where(self.keys[rows] == keys, rows, -1)


def _hash_words(text: str, lower: bool) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the hashes of the words of all phrases, and the number of words of each."""
    # Of known size, since growing arrays leave gaps of a multiple of their size in the memory.
    n_phrases = text.count("\n") + bool(text)
    sizes = (match[0].count(" ") + 1 for match in _PHRASE.finditer(text))
    lengths = np.fromiter(sizes, "int64", n_phrases)
    words: Iterator[str] = (match[0] for match in _WORD.finditer(text))
    hashes = map(hash_string, map(str.lower, words) if lower else words)
    found = np.fromiter(hashes, "uint64", int(lengths.sum()))
    _take_symbols(found)
    return found, lengths


def _take_symbols(hashes: NDArray[np.uint64]) -> None:
    """Replace the hashes of spaCy's symbols by their ids, which a Doc has for these words."""
    for start in range(0, len(hashes), _BLOCK):
        block = hashes[start : start + _BLOCK]
        rows = _SYMBOLS.searchsorted(block).clip(max=len(_SYMBOLS) - 1)
        np.copyto(block, _SYMBOL_IDS[rows], where=_SYMBOLS[rows] == block)


def _hash_spans(
    words: NDArray[np.uint64], starts: NDArray[np.int64], sizes: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Return the hashes of stretches of words."""
    keys = np.zeros(len(starts), dtype="uint64")
    for n in range(int(sizes.max(initial=0))):
        longer = np.flatnonzero(sizes > n)
        keys[longer] = _extend(keys[longer], words[starts[longer] + n])
    return keys


def _extend(keys: NDArray[np.uint64], words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the hashes of phrases with one word more."""
    mixed = (keys ^ (keys >> np.uint64(29))) * _FACTOR + words
    return mixed ^ (mixed >> np.uint64(32))


def _index_words(text: str) -> tuple[Any, NDArray[np.uint8]]:
    """Return an index of the lowercased words of phrases, and the bits of their positions."""
    from bcrf.kernels.sparse import Dictionary

    flat, lengths = _hash_words(text, lower=True)
    # Places of the tokens: B 0, I 1, L 2, U 3.
    places = np.ones(len(flat), dtype="uint8")
    ends = lengths.cumsum()
    places[ends - 1] = 2
    places[ends - lengths] = np.where(lengths == 1, 3, 0)
    index: Any = Dictionary()
    rows = index.find(flat, True)
    found = np.zeros(len(index), dtype="uint8")
    np.bitwise_or.at(found, rows, np.uint8(1) << places)
    return index, found


def read_phrases(path: Path) -> list[str]:
    """Read the distinct phrases of a file. CorpusError if it cannot be read or has no phrase.

    A line is a phrase, in `.tsv` up to a tab, in `.jsonl` a string or an object with `FIELDS`. A
    folder is a spaCy knowledge base, whose aliases are phrases.
    """
    if path.is_dir():
        found: Iterator[str] = iter(_read_aliases(path))
    else:
        lines = (line for line in read_lines(path) if line.text.strip())
        suffix = text_suffix(path)
        if suffix == ".jsonl":
            found = (phrase for line in lines for phrase in _read_json(line))
        else:
            found = (line.text.split("\t")[0] if suffix == ".tsv" else line.text for line in lines)
    phrases = list(dict.fromkeys(text for phrase in found if (text := phrase.strip())))
    if not phrases:
        raise CorpusError(f"{path}: no phrases; expected one phrase a line")
    return phrases


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


def split_phrases(phrases: Sequence[str], nlp: Language) -> list[str]:
    """Return the phrases with blanks between the tokens of a pipeline's tokenizer."""
    words = list(dict.fromkeys(word for phrase in phrases for word in phrase.split()))
    tokens: list[str] = []
    with nlp.memory_zone():  # the vocabulary is saved without them
        for start in range(0, len(words), _WORDS):
            tokens += _split_words(words[start : start + _WORDS], nlp)
    of_word = dict(zip(words, tokens, strict=True))
    return [" ".join(of_word[word] for word in phrase.split()) for phrase in phrases]


def _split_words(words: list[str], nlp: Language) -> list[str]:
    """Return the words with blanks between their tokens."""
    lines: list[list[str]] = [[]]
    for token in nlp.make_doc("\n".join(words)):
        if not token.is_space:
            lines[-1].append(token.text)
        lines += [[] for _ in range(token.text.count("\n"))]
    if len(words) > 1 and ["".join(line) for line in lines] != words:
        # The tokenizer does not split at line breaks, such as one that splits at blanks alone.
        return [" ".join(token.text for token in nlp.make_doc(word)) for word in words]
    return [" ".join(line) for line in lines]


def _join_phrases(phrases: Sequence[str]) -> str:
    text = "\n".join(phrases)
    if text.count("\n") == len(phrases) - 1 and not _UNCLEAN.search(text):
        return text  # as of a saved model, which loads in half the time
    return "\n".join(filter(None, (" ".join(phrase.split()) for phrase in phrases)))
