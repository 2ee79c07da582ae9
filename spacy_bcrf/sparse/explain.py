"""What a linear chain has learned, by name, and why it chose a tag."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc
from spacy.util import minibatch

from spacy_bcrf.chain import Potentials

from .model import SparseChain

GENERAL = ("bias", "start", "end")
"""The rows of weights between transitions and features."""


class Weight(NamedTuple):
    """tag: for a transition, the one it leads to, and `feature` names the one it comes from."""

    tag: str
    feature: str
    weight: float


class Choice(NamedTuple):
    """Why a token has its tag rather than its rival: (reason, score for the tag less that for the
    rival), the largest first; they add up to the difference of the two labelings' scores."""

    tag: int
    rival: int
    reasons: list[tuple[str, float]]


def name_features(store: SparseChain, docs: Iterable[Doc], rows: NDArray) -> dict[int, str]:
    """Names of features, by number, as far as documents have them: a model has only their keys."""
    wanted = np.zeros(store.learner.n_features, dtype=bool)
    wanted[rows] = True
    names: dict[int, str] = {}
    for batch in minibatch(docs, 128):
        keys, starts, _ = store.features.keys(batch)
        found = store.dictionary.find(keys)
        hits = np.flatnonzero(found >= 0)
        hits = hits[wanted[found[hits]]]
        unique, first = np.unique(found[hits], return_index=True)
        tokens = starts.searchsorted(hits[first], side="right") - 1
        places = [(doc, i) for doc in batch for i in range(len(doc))]
        by_token: dict[int, list[tuple[int, int]]] = {}
        for row, at, token in zip(
            unique.tolist(), hits[first].tolist(), tokens.tolist(), strict=True
        ):
            by_token.setdefault(token, []).append((row, at - int(starts[token])))
        for token, wanted_here in by_token.items():
            described = [name for _, name in store.features.describe(*places[token])]
            names.update((row, described[k]) for row, k in wanted_here)
        wanted[unique] = False
        if not wanted.any():
            break
    return names


def strongest(store: SparseChain, n: int) -> NDArray:
    """(T, n) numbers of features, those of the largest absolute weight for each tag."""
    weights = np.abs(_features(store))
    n = min(n, len(weights))
    top = (
        np.argpartition(-weights, n - 1, axis=0)[:n] if n else np.zeros((0, weights.shape[1]), int)
    )
    order = np.take_along_axis(-weights, top, axis=0).argsort(axis=0, kind="stable")
    return np.take_along_axis(top, order, axis=0).T


def feature_weights(
    store: SparseChain, tags: list[str], names: dict[int, str], rows: NDArray | None = None
) -> list[Weight]:
    """Weights that are not 0: of `rows` (T, n) by tag, or of all features, the largest first."""
    weights = _features(store)
    found = []
    for t, tag in enumerate(tags):
        column = weights[:, t]
        own = np.argsort(-np.abs(column), kind="stable") if rows is None else rows[t]
        for row in own[column[own] != 0].tolist():
            name = names.get(row) or f"key {int(store.dictionary.keys[row]):016x}"
            found.append(Weight(tag, name, float(column[row])))
    return found


def general_weights(store: SparseChain, tags: list[str]) -> list[Weight]:
    """Bias, start and end of each tag, and transitions, `from` by `to`, that are not 0."""
    weights = store.learner.weights
    names = [f"{tag} ->" for tag in tags] + list(GENERAL)
    return [
        Weight(to, name, float(weights[i, t]))
        for t, to in enumerate(tags)
        for i, name in enumerate(names)
        if weights[i, t]
    ]


def explain_choice(
    store: SparseChain,
    doc: Doc,
    potentials: Potentials,
    tags: list[str],
    best: NDArray[np.int32],
    marginals: NDArray,
    i: int,
) -> Choice:
    """Why token i of a document has its tag of `best` (n,) rather than the one that is next by
    `marginals` (n, T), all other tags being as they are. `potentials` are those of the document
    under its constraints: what they forbid counts as -inf for the rival."""
    tag = int(best[i])
    others = marginals[i].copy()
    others[tag] = -1
    rival = int(others.argmax())
    weights = store.learner.weights
    first = len(tags) + len(GENERAL)
    names = [name for _, name in store.features.describe(doc, i)]
    keys, starts, _ = store.features.keys([doc])
    rows = store.dictionary.find(keys[starts[i] : starts[i + 1]])
    reasons = [
        (name, float(weights[first + row, tag] - weights[first + row, rival]))
        for name, row in zip(names, rows.tolist(), strict=True)
        if row >= 0
    ]
    for k, (name, holds) in enumerate(
        zip(GENERAL, (True, i == 0, i == len(doc) - 1), strict=True), start=len(tags)
    ):
        if holds:
            reasons.append((name, float(weights[k, tag] - weights[k, rival])))
    # Constraints can be those of each pair of neighbours.
    transitions = np.broadcast_to(potentials.transitions, (len(doc), len(tags), len(tags)))
    if i:
        before = best[i - 1]
        difference = float(transitions[i - 1, before, tag] - transitions[i - 1, before, rival])
        reasons.append((f"after {tags[before]}", difference))
    if i + 1 < len(doc):
        after = best[i + 1]
        difference = float(transitions[i, tag, after] - transitions[i, rival, after])
        reasons.append((f"before {tags[after]}", difference))
    if not np.isfinite(potentials.unary[i, rival]):
        reasons.append((f"{tags[rival]} is not allowed here", float("inf")))
    return Choice(tag, rival, sorted(reasons, key=lambda reason: -abs(reason[1])))


def _features(store: SparseChain) -> NDArray[np.float32]:
    """(F, T) weights of features."""
    n_tags = store.learner.n_tags
    return store.learner.weights[n_tags + len(GENERAL) :, :n_tags]
