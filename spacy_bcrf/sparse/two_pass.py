"""The first chain of `two_pass`, and the attribute `pooled` that the second chain reads.

The values of a token pool the posteriors of the first chain over the other occurrences of the same
string in other sentences (Krishnan and Manning 2006, with posteriors in place of labels):

    most PER 2   the label of the largest mean posterior, and the number of occurrences, up to 3
    some PER     a label that one occurrence or more is expected to have
    part PER     a label of longer spans that one occurrence or more is expected to be in
    mean PER 4   a label and the class of its mean posterior

Documents of fewer than `LEAST_SENTENCES` sentences have no values: on tweets, values lost 0.8 F.
`ENDS` end sentences, since documents can have other boundaries in training.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import IS_PUNCT, ORTH  # type: ignore[import-not-found]
from spacy.strings import hash_string  # type: ignore[attr-defined]
from spacy.tokens import Doc
from tqdm import tqdm

from bcrf.chain import CRF
from bcrf.chain.side_by_side import join_chains
from bcrf.linear.learner import OnlineLearner
from bcrf.linear.model_bytes import SavedChain
from spacy_bcrf.annotation.arrays import doc_lengths, read_attributes, read_doc_attributes

from .doc_attributes import POOLED, Values

TEMPLATES = [f"{POOLED}[0]"]
"""The templates that `two_pass` adds to templates without `pooled`."""
FOLDS = 5
PASSES = 8
"""Passes of the first chain over its training data."""
ENDS = (".", "!", "?", "\n", "\n\n", "。", "\uff01", "\uff1f", "؟", "।")
"""Tokens that end a sentence."""
LEAST_SENTENCES = 5
"""A document of fewer sentences has no values."""

_ENDS = np.array([hash_string(text) for text in ENDS], dtype="uint64")
_CLASSES = (0.05, 0.2, 0.5, 0.8, 0.95)
_PREFIXED = re.compile("([A-Z])-(.+)")


class FirstPass:
    """The first chain, a `SparseChain` without `pooled`, the names of its tags, and its values."""

    def __init__(self, chain: Any) -> None:
        self.chain = chain
        self.tags: list[str] = []
        # By the words of a training document: its values under a chain that did not learn from it.
        self._held_out: dict[bytes, Values] = {}

    def fit(
        self, docs: Sequence[Doc], gold: NDArray, tags: Sequence[str], n_chains: int = 1
    ) -> None:
        """Learn from documents, and keep their values by chains of the other four of five folds.

        Equal documents share a fold. gold: see `OnlineLearner.step`. tags: of all chains.
        """
        chain, self.tags, self._held_out = self.chain, list(tags), {}
        chain.n_chains = n_chains
        chain.initialize(docs, len(tags))
        rows, lengths, learner = chain.rows(docs), doc_lengths(docs), chain.learner
        words = [_words(doc) for doc in docs]
        distinct = {key: i for i, key in enumerate(dict.fromkeys(words))}
        order = np.random.default_rng(chain.settings.seed).permutation(len(distinct)) % FOLDS
        folds = order[[distinct[key] for key in words]]
        for k in tqdm(range(FOLDS), "first chain", leave=False, delay=5, disable=None):
            held_out = [docs[i] for i in np.flatnonzero(folds == k).tolist()]
            if held_out:
                size = len(tags), learner.n_features
                of_fold = OnlineLearner(*size, chain.settings, n_chains=n_chains)
                of_fold.fit(rows, lengths, gold, PASSES, only=np.flatnonzero(folds != k))
                chain.set_learner(of_fold)
                self._held_out |= zip(map(_words, held_out), self.values(held_out), strict=True)
        chain.set_learner(learner)
        learner.fit(rows, lengths, gold, PASSES)

    def reset(self) -> None:
        self.tags, self._held_out = [], {}
        self.chain.set_learner(None)

    def load(self, saved: SavedChain, tags: Sequence[str]) -> None:
        """Take the weights of a saved first chain. ValueError for other templates."""
        self.chain.load(saved)
        self.tags, self._held_out = list(tags), {}

    def values(self, docs: Sequence[Doc], held_out: bool = False) -> list[Values]:
        """Return the values of each document, none before `fit`. held_out: cross-fitted ones."""
        known = self._held_out if held_out else {}
        if known and all(key in known for key in map(_words, docs)):
            return [known[_words(doc)] for doc in docs]
        if known:
            return [known.get(_words(doc)) or self.values([doc])[0] for doc in docs]
        lengths = doc_lengths(docs)
        if not (self.chain.is_ready and lengths.any()):
            return [[[] for _ in doc] for doc in docs]
        marginals = CRF().marginals(self.chain.potentials(docs)).unary
        posterior = join_chains(marginals, lengths, self.chain.learner.n_chains, np)
        columns = read_attributes(docs, [ORTH, IS_PUNCT])
        orths, is_punct = columns[:, 0], columns[:, 1].astype(bool)
        found = pool_posteriors(np.asarray(posterior), self.tags, orths, is_punct, lengths)
        bounds = pairwise([0, *lengths.cumsum().tolist()])
        return [found[start:end] for start, end in bounds]


def are_long(orths: NDArray[np.uint64], lengths: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return which documents have `LEAST_SENTENCES` sentences or more. orths: (N,) hashes."""
    ends = np.isin(orths, _ENDS)
    ends[lengths.cumsum()[lengths > 0] - 1] = True
    doc = np.repeat(np.arange(len(lengths)), lengths)
    return np.bincount(doc, ends, len(lengths)) >= LEAST_SENTENCES


def pool_posteriors(
    posterior: NDArray,
    tags: Sequence[str],
    orths: NDArray[np.uint64],
    is_punct: NDArray[np.bool_],
    lengths: NDArray[np.int32],
) -> Values:
    """Return the values of N tokens in documents of these lengths. O(N log N + N T L).

    posterior: (N, T), of all chains side by side. orths: (N,). is_punct: (N,) without values.
    """
    labels, of_label, of_longer = group_tags(tags)
    doc = np.repeat(np.arange(len(lengths)), lengths)
    ends = np.isin(orths, _ENDS)
    sentence: NDArray[np.int64] = np.cumsum(ends) - ends
    _, word = np.unique(orths, return_inverse=True)
    _, in_doc = np.unique(doc * len(orths) + word, return_inverse=True)
    n_sentences = int(sentence[-1]) + 1
    _, in_sentence = np.unique(in_doc * n_sentences + sentence, return_inverse=True)
    of_labels = posterior @ of_label
    if "O" in labels:  # of C chains side by side, 1 - the probabilities of all labels
        of_labels[:, labels.index("O")] -= of_label[:, labels.index("O")].sum() - 1
    scores = np.column_stack([np.ones(len(orths)), of_labels, posterior @ of_longer])
    others = _sum(scores, in_doc)[in_doc] - _sum(scores, in_sentence)[in_sentence]
    n = np.rint(others[:, 0]).astype("int64")
    has = np.flatnonzero((n > 0) & ~is_punct & are_long(orths, lengths)[doc])
    n, others = n[has], others[has, 1:]
    sums, longer = np.split(others, 2, axis=1)
    means = sums / n[:, None]
    names: list[str] = []
    found: list[tuple[NDArray, NDArray]] = []  # tokens, and the index of their value in names

    def add(kind: str, at: NDArray, label: NDArray, number: NDArray | None = None) -> None:
        suffixes = [""] if number is None else [f" {k + 1}" for k in range(len(_CLASSES))]
        found.append((at, len(names) + label * len(suffixes) + (0 if number is None else number)))
        names.extend(f"{kind} {name}{suffix}" for name in labels for suffix in suffixes)

    best = means.argmax(axis=1)
    add("most", np.arange(len(has)), best, np.minimum(n, 3) - 1)
    is_span = np.array([name != "O" for name in labels])
    add("some", *np.nonzero((sums >= 0.5) & is_span))
    add("part", *np.nonzero((longer >= 0.5) & is_span))
    at, label = np.nonzero((means >= _CLASSES[0]) & is_span)
    add("mean", at, label, np.searchsorted(_CLASSES, means[at, label], "right") - 1)
    at, value = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = at.argsort(kind="stable")
    texts = [names[k] for k in value[order].tolist()]
    values: Values = [[] for _ in range(len(orths))]
    stops = np.bincount(at, minlength=len(has)).cumsum().tolist()
    for i, (start, stop) in zip(has.tolist(), pairwise([0, *stops]), strict=True):
        values[i] = texts[start:stop]
    return values


def _sum(scores: NDArray, group: NDArray[np.integer]) -> NDArray[np.float64]:
    n = int(group.max()) + 1
    return np.stack([np.bincount(group, column, n) for column in scores.T], axis=1)


def group_tags(tags: Sequence[str]) -> tuple[list[str], NDArray, NDArray]:
    """Return the labels of tags, and indicators (T, L) of tags of a label and of longer spans."""
    matches = (_PREFIXED.fullmatch(tag) for tag in tags)
    split = [m.groups() if m else ("", tag) for m, tag in zip(matches, tags, strict=True)]
    # Each chain of spans that may overlap has an O of its own.
    split = [("", "O") if prefix == "O" else (prefix, label) for prefix, label in split]
    labels = list(dict.fromkeys(label for _, label in split))
    of_label = np.array([[label == name for name in labels] for _, label in split], dtype="float64")
    is_longer = np.array([prefix not in ("", "S", "U") for prefix, _ in split])
    return labels, of_label, of_label * is_longer[:, None]


def _words(doc: Doc) -> bytes:
    return read_doc_attributes(doc, [ORTH]).tobytes()
