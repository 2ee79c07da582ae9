"""`clusters`: Brown clusters of words by Liang's algorithm, a window of clusters that merge."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from spacy.util import load_language_data, registry
from tqdm import tqdm

from bcrf.io.atomic import replacing, write_text
from bcrf.io.text import read_lines
from spacy_bcrf.corpora.tokenization import TokenizerName, make_blank
from spacy_bcrf.pipeline.config_errors import naming

CHUNK = 1_000_000
"""Tokens whose pairs are counted at once."""
SAVE_EVERY = 2000
"""Merges between two states."""

Read = Callable[[], Iterable[Sequence[str]]]
"""Returns the sentences of a corpus, each a sequence of words."""


def clusters(
    output: Path,
    texts: Path | None = None,
    *,
    lang: str = "xx",
    n_clusters: int = 256,
    min_freq: int = 3,
    tokenizer: TokenizerName = "language",
) -> dict[str, str]:
    """Write the Brown clusters of words to a file. RETURNS the paths of bits by word.

    output: gets a line `word<TAB>path` for each word. texts: raw text, one per line, plain or
    compressed; None takes the clusters of spacy-lookups-data. lang, tokenizer: see `make_blank`.
    n_clusters: the most clusters. min_freq: the least frequency of a word. A killed call resumes
    from the file OUTPUT.state. ValueError as from `count_words` and `load_brown_clusters`.
    """
    if texts is None:
        found = load_brown_clusters(lang)
    else:
        make_doc = make_blank(lang, tokenizer).make_doc

        def read() -> Iterator[list[str]]:
            for line in tqdm(read_lines(texts), "reading", delay=1, unit="texts"):
                yield [token.text for token in make_doc(line.text) if not token.is_space]

        stat = texts.stat()
        settings = [n_clusters, min_freq, lang, tokenizer]
        identity = f"{texts.absolute()} {stat.st_size} {stat.st_mtime_ns} {settings}"
        state = Checkpoint(output.with_name(f"{output.name}.state"), identity)
        with naming(texts):
            counts = count_words(read, min_freq)
        found = brown_clusters(counts, n_clusters, state)
    write_text(output, "".join(f"{word}\t{path}\n" for word, path in found.items()))
    return found


class WordCounts(NamedTuple):
    """V words by frequency, pairs of a word and the next one (P, 2), and their numbers (P,)."""

    words: list[str]
    pairs: NDArray[np.int64]
    numbers: NDArray[np.int64]


def count_words(read: Read, min_freq: int) -> WordCounts:
    """Count frequent words and pairs of them, in two calls of `read`. ValueError for one word."""
    counts = Counter(word for sentence in read() for word in sentence)
    words = [word for word, n in counts.most_common() if n >= min_freq]
    if len(words) < 2:
        what = f"{len(words) or 'no'} word occurs at least {min_freq} times"
        raise ValueError(f"{what}; expected 2 or more: add text, or count rarer words")
    ids = {word: i for i, word in enumerate(words)}
    keys, numbers = np.zeros(0, "int64"), np.zeros(0, "int64")
    for chunk in _chunks(read(), ids):
        is_pair = (chunk[:-1] >= 0) & (chunk[1:] >= 0)
        found, n = np.unique((chunk[:-1] * len(ids) + chunk[1:])[is_pair], return_counts=True)
        keys, places = np.unique(np.concatenate([keys, found]), return_inverse=True)
        numbers = np.bincount(places, np.concatenate([numbers, n]), len(keys)).astype("int64")
    return WordCounts(words, np.stack(np.divmod(keys, len(ids)), axis=1), numbers)


def _chunks(sentences: Iterable[Sequence[str]], ids: dict[str, int]) -> Iterator[NDArray]:
    """Yield the ids of about `CHUNK` tokens, -1 for other words and between sentences."""
    chunk: list[int] = []
    for sentence in sentences:
        chunk += [ids.get(word, -1) for word in sentence]
        chunk.append(-1)
        if len(chunk) >= CHUNK:
            yield np.array(chunk, dtype="int64")
            chunk = []
    yield np.array(chunk, dtype="int64")


class Checkpoint:
    """A file with the state of a computation, so that a killed one goes on."""

    def __init__(self, path: Path, identity: str) -> None:
        self._path, self._identity = path, identity

    def load(self) -> dict[str, NDArray]:
        """Return the saved arrays, none if there is no state of this computation."""
        try:
            with np.load(self._path, allow_pickle=False) as data:
                found = dict(data)
        except (OSError, EOFError, ValueError, BadZipFile):  # EOFError: an empty file
            return {}
        return found if str(found.pop("identity", "")) == self._identity else {}

    def save(self, **arrays: NDArray) -> None:
        with replacing(self._path) as path, path.open("wb") as file:
            np.savez(file, allow_pickle=False, identity=np.array(self._identity), **arrays)

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)


def brown_clusters(counts: WordCounts, n_clusters: int, state: Checkpoint) -> dict[str, str]:
    """Return each word's path of bits in the tree of merges. n_clusters: at most.

    The words enter a window of `n_clusters` clusters in the order of their frequency. When there is
    one cluster more, the two merge whose merge costs least mutual information of neighbouring
    clusters (Brown et al. 1992; Liang 2005, section 4.2). In the end, all merge to a tree. state:
    to save, and to go on from. O(V C (C + k)) for V words, C clusters, k of them beside a word.
    """
    window = ClusterWindow(counts, min(n_clusters, len(counts.words)) + 1)
    start = 0
    if saved := state.load():
        start = int(saved["next"])
        window.restore(saved["slots"], start)
    for word in tqdm(range(start, len(counts.words)), "merging", delay=1, leave=False):
        window.add(word)
        if window.is_full:
            window.merge()
        if word % SAVE_EVERY == SAVE_EVERY - 1:
            state.save(slots=window.slots, next=np.array(word + 1))
    slots = window.slots.copy()
    leaves, of_word = np.unique(slots, return_inverse=True)
    # Nodes of the tree by the slot of their cluster: first the leaves, then the merges.
    nodes = {int(slot): i for i, slot in enumerate(leaves)}
    children = []
    while len(nodes) > 1:
        kept, gone = window.merge()
        children.append((nodes[kept], nodes.pop(gone)))
        nodes[kept] = len(leaves) + len(children) - 1
    paths = find_paths(np.array(children))
    state.remove()
    return {word: paths[k] for word, k in zip(counts.words, of_word.tolist(), strict=True)}


def find_paths(children: NDArray[np.int64]) -> list[str]:
    """Return the path of each of K leaves. children: (K - 1, 2), node K + i has children[i]."""
    n_leaves = len(children) + 1
    paths = [""] * (2 * n_leaves - 1)
    for i in reversed(range(len(children))):
        for bit, child in enumerate(children[i]):
            paths[child] = f"{paths[n_leaves + i]}{bit}"
    return paths[:n_leaves]


def load_brown_clusters(lang: str) -> dict[str, str]:
    """Load the paths of spacy-lookups-data by word. ValueError names it for other languages."""
    tables = registry.lookups.get_all().get(lang, {})
    if "lexeme_cluster" not in tables:
        raise ValueError(
            f"there are no Brown clusters of the language {lang!r}: give a file of texts. "
            "spacy-lookups-data has clusters of en, de and es: pip install spacy-lookups-data"
        )
    found: Any = load_language_data(tables["lexeme_cluster"])
    # The lowest bit of the number is the first bit of the path. 0 means no cluster.
    paths = ((word, f"{number:b}"[::-1]) for word, number in found.items() if number)
    return {word: path for word, path in paths if word and not any(map(str.isspace, word))}


def _f(n: NDArray) -> NDArray:
    """Return n log n, 0 for 0."""
    return n * np.log(np.maximum(n, 1))


def _h(a: NDArray, b: NDArray) -> NDArray:
    """Return f(a) + f(b) - f(a + b), which is 0 where one of both is 0."""
    return _f(a) + _f(b) - _f(a + b)


class ClusterWindow:
    """Clusters in S slots, and what each merge costs.

    The mutual information, times the number of pairs, is the sum of f(n) = n log n over the counts
    of pairs, less those over the counts of left and right clusters, plus a constant. So a merge
    costs the sum of h over the counts of both clusters with every cluster, which `_pairs` (S, S)
    has, less h of their totals. slots: (V,) of the words, -1 outside of the window.
    """

    def __init__(self, counts: WordCounts, n_slots: int) -> None:
        n_words = len(counts.words)
        self._after = _by_word(counts.pairs[:, 0], counts.pairs[:, 1], counts.numbers, n_words)
        self._before = _by_word(counts.pairs[:, 1], counts.pairs[:, 0], counts.numbers, n_words)
        self._counts = counts
        self.slots = np.full(n_words, -1)
        self._n = np.zeros((n_slots, n_slots))
        self._pairs = np.zeros((n_slots, n_slots))
        self._used = np.zeros(n_slots, dtype=bool)

    @property
    def is_full(self) -> bool:
        return bool(self._used.all())

    def restore(self, slots: NDArray[np.int64], n_added: int) -> None:
        self.slots = slots
        pairs = self._counts.pairs
        has = (pairs < n_added).all(axis=1)
        size = len(self._n)
        cells = slots[pairs[has, 0]] * size + slots[pairs[has, 1]]
        counts = np.bincount(cells, self._counts.numbers[has], size * size)
        self._n = counts.astype("float64").reshape(size, size)
        self._used = np.bincount(slots[:n_added], minlength=size) > 0
        for slot in np.flatnonzero(self._used):
            self._pairs[slot] = self._cost_of_pairs(int(slot))

    def add(self, word: int) -> None:
        slot = int(np.flatnonzero(~self._used)[0])
        self.slots[word] = slot
        self._used[slot] = True
        for (neighbours, numbers), line in (
            (self._after[word], self._n[slot]),
            (self._before[word], self._n[:, slot]),
        ):
            known = self.slots[neighbours] >= 0
            line[:] = np.bincount(self.slots[neighbours[known]], numbers[known], len(line))
        nothing = np.zeros(len(self._n))
        self._change(slot, nothing, nothing)

    def merge(self) -> tuple[int, int]:
        """Merge the two clusters that cost least. RETURNS the slot that stays, and the other."""
        costs = self.costs()
        a, b = divmod(int(costs.argmin()), len(costs))
        n = self._n
        if (n[a] > 0).sum() + (n[:, a] > 0).sum() < (n[b] > 0).sum() + (n[:, b] > 0).sum():
            a, b = b, a
        after, before = n[b].copy(), n[:, b].copy()
        # First without b, then with a and b in the slot of a.
        n[b] = n[:, b] = 0
        self._used[b] = False
        self._change(b, after, before)
        old_after, old_before = n[a].copy(), n[:, a].copy()
        n[a] += after
        n[:, a] += before
        n[a, a] = old_after[a] + after[a] + before[a] + after[b]
        n[a, b] = n[b, a] = 0
        self._change(a, old_after, old_before)
        self.slots[self.slots == b] = a
        return a, b

    def costs(self) -> NDArray[np.float64]:
        left, right = self._n.sum(axis=1), self._n.sum(axis=0)
        costs = self._pairs - _h(left[:, None], left) - _h(right[:, None], right)
        is_open = np.triu(self._used[:, None] & self._used, 1)
        return np.where(is_open, costs, np.inf)

    def _change(self, slot: int, after: NDArray, before: NDArray) -> None:
        """Correct `_pairs` for a change. after, before: (S,) old counts of a cluster."""
        for new, old in ((self._n[slot], after), (self._n[:, slot], before)):
            at = np.flatnonzero(new != old)
            change = _h(new[at, None], new) - _h(old[at, None], old)
            # Pairs of two changed clusters are in the rows of both.
            is_other = np.ones((len(old), 1), dtype=bool)
            is_other[at] = False
            self._pairs[at] += change
            self._pairs[:, at] += change.T * is_other
        self._pairs[slot] = self._pairs[:, slot] = self._cost_of_pairs(slot)

    def _cost_of_pairs(self, slot: int) -> NDArray[np.float64]:
        """Return row `slot` of `_pairs`. O(S k) for k clusters beside this one."""
        n, diagonal = self._n, np.diag(self._n)
        row, column, own = n[slot], n[:, slot], n[slot, slot]
        after, before = np.flatnonzero(row), np.flatnonzero(column)
        shared = _h(row[after], n[:, after]).sum(axis=1)
        shared += _h(column[before, None], n[before]).sum(axis=0)
        # The counts of both clusters with each other become one: replace their part of the sum.
        both = _f(own + row) + _f(own + column) + _f(diagonal + row) + _f(diagonal + column)
        apart = _f(np.array(own)) + _f(diagonal) + _f(row) + _f(column)
        return shared + both - apart - _f(own + diagonal + row + column)


def _by_word(
    words: NDArray, others: NDArray, numbers: NDArray, n_words: int
) -> list[tuple[NDArray, NDArray]]:
    order = words.argsort(kind="stable")
    bounds = words[order].searchsorted(np.arange(1, n_words))
    return list(zip(np.split(others[order], bounds), np.split(numbers[order], bounds), strict=True))
