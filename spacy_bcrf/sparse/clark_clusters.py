"""Clark's clusters: classes of words by their neighbours and their letters."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from .brown_clusters import by_word, f
from .word_counts import NO_STATE, Checkpoint, WordCounts

SMOOTHING = 0.1
"""Added to the counts of pairs of letters."""
N_CHARACTERS = 200
"""Number of frequent characters that count as themselves."""


def clark_clusters(
    counts: WordCounts,
    n_clusters: int,
    passes: int = 10,
    seed: int = 0,
    state: Checkpoint = NO_STATE,
) -> dict[str, str]:
    """Return the class of each word, a number. O(passes V C k) for k classes beside a word.

    The exchange algorithm moves one of V words at a time to the one of C classes that raises most
    the likelihood of class bigrams and letters (Clark 2003), until a pass moves none. A Markov
    chain of letters takes the place of his hidden one. state: to save, and to go on from.
    """
    model = Classes(counts, n_clusters)
    saved = state.load()
    # The most frequent words get classes of their own, and the others a random one.
    rest = np.random.default_rng(seed).integers(n_clusters, size=len(counts.words) - n_clusters)
    start = np.concatenate([np.arange(n_clusters), rest])
    model.assign(saved["classes"] if saved else start)
    for done in range(int(saved["passes"]) if saved else 0, passes):
        words = tqdm(range(len(counts.words)), f"pass {done + 1}", delay=1, leave=False)
        if not sum(model.move(word) for word in words):
            break
        state.save(classes=model.classes, passes=np.array(done + 1))
    state.remove()
    return dict(zip(counts.words, map(str, model.classes.tolist()), strict=True))


class Classes:
    """Words in C classes (V,), and the log-likelihood of class bigrams and letters."""

    def __init__(self, counts: WordCounts, n_classes: int) -> None:
        n_words = len(counts.words)
        left, right = counts.pairs.T
        self._counts, self._n_classes = counts, n_classes
        self._after = by_word(left, right, counts.numbers, n_words)
        self._before = by_word(right, left, counts.numbers, n_words)
        self._letters, self._n_letters = _letter_pairs(counts.words)

    def assign(self, classes: NDArray[np.int64]) -> None:
        size, letters = self._n_classes, self._n_letters
        self.classes = classes.copy()
        cells = classes[self._counts.pairs] @ [size, 1]
        counts = np.bincount(cells, self._counts.numbers, size * size)
        self._n = counts.reshape(size, size)
        self._f = f(self._n)
        self._of_left, self._of_right = self._n.sum(axis=1), self._n.sum(axis=0)
        self._sizes = np.bincount(classes, minlength=size)
        # The classes of a pair of letters are neighbours in memory.
        self._spelled = np.zeros((letters, letters, size))
        for word, (first, second) in enumerate(self._letters):
            np.add.at(self._spelled, (first, second, classes[word]), 1)
        self._begun = self._spelled.sum(axis=1)

    def move(self, word: int) -> bool:
        """Move a word to its best class. RETURNS whether it moved."""
        old = int(self.classes[word])
        if self._sizes[old] == 1:
            return False  # a class keeps its last word
        after, before, own = self._neighbours(word)
        self._add(word, old, -1, after, before, own)
        gains = self._gains(word, after, before, own)
        new = int(gains.argmax())
        # Equal classes are no reason to move.
        new = old if gains[new] <= gains[old] + 1e-9 else new
        self._add(word, new, 1, after, before, own)
        return new != old

    def _neighbours(self, word: int) -> tuple[NDArray, NDArray, float]:
        """Return the counts of classes after and before a word, and of the word after itself."""
        found = []
        for words, numbers in (self._after[word], self._before[word]):
            is_other = words != word
            classes = self.classes[words[is_other]]
            found.append(np.bincount(classes, numbers[is_other], self._n_classes))
        words, numbers = self._after[word]
        return found[0], found[1], float(numbers[words == word].sum())

    def _add(
        self, word: int, to: int, sign: int, after: NDArray, before: NDArray, own: float
    ) -> None:
        self._n[to] += sign * after
        self._n[:, to] += sign * before
        self._n[to, to] += sign * own
        self._f[to], self._f[:, to] = f(self._n[to]), f(self._n[:, to])
        self._of_left += sign * before
        self._of_left[to] += sign * (after.sum() + own)
        self._of_right += sign * after
        self._of_right[to] += sign * (before.sum() + own)
        self._sizes[to] += sign
        first, second = self._letters[word]
        np.add.at(self._spelled, (first, second, to), sign)
        np.add.at(self._begun, (first, to), sign)
        self.classes[word] = to

    def _gains(self, word: int, after: NDArray, before: NDArray, own: float) -> NDArray:
        """Return the gain (C,) of log-likelihood by the word in each class, which lacks it."""
        n, diagonal = self._n, np.diag(self._n)
        right, left = np.flatnonzero(after), np.flatnonzero(before)
        gains = (f(n[:, right] + after[right]) - self._f[:, right]).sum(axis=1)
        gains += (f(n[left] + before[left, None]) - self._f[left]).sum(axis=0)
        # The class itself is among its neighbours: one cell gets both counts.
        gains += f(diagonal + after + before + own) - f(diagonal + after) - f(diagonal + before)
        gains += f(diagonal)
        of_left, of_right = self._of_left, self._of_right
        gains -= f(of_left + after.sum() + before + own) - f(of_left)
        gains -= f(of_right + before.sum() + after + own) - f(of_right)
        others = f(of_left + before) - f(of_left), f(of_right + after) - f(of_right)
        return gains + others[0] + others[1] + self._spell(word)

    def _spell(self, word: int) -> NDArray:
        """Return the log-probability of the letters of a word in each class, (C,)."""
        first, second = self._letters[word]
        seen = self._spelled[first, second] + SMOOTHING
        total = self._begun[first] + SMOOTHING * self._n_letters
        return np.log(seen / total).sum(axis=0)


def _letter_pairs(words: list[str]) -> tuple[list[NDArray[np.int64]], int]:
    """Return the pairs (2, n + 1) of characters of each word with its bounds, and their number."""
    characters, counts = np.unique(list("".join(words)), return_counts=True)
    frequent = characters[np.argsort(-counts, kind="stable")][:N_CHARACTERS]
    ids = {char: i for i, char in enumerate(frequent.tolist(), 1)}
    other = len(ids) + 1
    codes = ([0, *(ids.get(char, other) for char in word), 0] for word in words)
    return [np.array(list(pairwise(word))).T for word in codes], other + 1
