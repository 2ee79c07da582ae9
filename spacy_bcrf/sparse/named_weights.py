"""Explanation of a sparse linear chain: its weights by name, and the reasons for a tag."""

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc
from spacy.util import minibatch

from bcrf.chain import Potentials
from spacy_bcrf.annotation.arrays import doc_bounds

from .model import SparseChain

GENERAL = ("bias", "start", "end")
"""Names of the rows of weights between transitions and features."""

# A larger difference between a score and its features comes from other parts of a sum.
_ROUNDING = 1e-4


class Weight(NamedTuple):
    """Weight of a feature, or of a transition from the tag that `feature` names, for a tag."""

    tag: str
    feature: str
    weight: float


class Choice(NamedTuple):
    """Comparison of a token's tag with the second-best tag, its rival.

    reasons: (name, score of the tag minus that of the rival), the largest first; all in all.
    """

    tag: int
    rival: int
    reasons: list[tuple[str, float]]


def name_features(chain: SparseChain, docs: Iterable[Doc], rows: NDArray) -> dict[int, str]:
    """Find the names of features in documents, by row: a model has only their keys."""
    wanted = np.zeros(chain.learner.n_features, dtype=bool)
    wanted[rows] = True
    wanted[chain.learner.pairs] = False
    names: dict[int, str] = {}
    for batch in minibatch(docs, 128):
        keys, starts = chain.features.keys(batch)
        found = chain.dictionary.find(keys)
        hits = np.flatnonzero(found >= 0)
        hits = hits[wanted[found[hits]]]
        unique, first = np.unique(found[hits], return_index=True)
        tokens = starts.searchsorted(hits[first], side="right") - 1
        places = hits[first] - starts[tokens]
        for doc, (start, stop) in zip(batch, doc_bounds(batch), strict=True):
            here = np.flatnonzero((tokens >= start) & (tokens < stop))
            own, of_feature = np.unique(tokens[here] - start, return_inverse=True)
            described = chain.features.describe(doc, own.tolist()) if len(own) else []
            for k, token in zip(here.tolist(), of_feature.tolist(), strict=True):
                names[int(unique[k])] = described[token][places[k]]
        wanted[unique] = False
        if not wanted.any():
            break
    return names


def strongest(chain: SparseChain, n: int) -> NDArray:
    """Find the n features with the largest absolute weights for each tag, as rows (T, n)."""
    weights = -np.abs(_features(chain))
    n = min(n, len(weights))
    top = np.argpartition(weights, n - 1, axis=0)[:n] if n else np.zeros_like(weights[:0], int)
    order = np.take_along_axis(weights, top, axis=0).argsort(axis=0, kind="stable")
    return np.take_along_axis(top, order, axis=0).T


def feature_weights(
    chain: SparseChain,
    tags: list[str],
    names: dict[int, str],
    rows: NDArray | None = None,
    weight: float = 1.0,
) -> list[Weight]:
    """List the nonzero weights of features and pairs of tags, tag by tag. names: by row; else keys.

    rows: (T, n) of each tag; None for all, largest first. weight: see `explain_choice`.
    """
    weights = _features(chain)
    firsts = zip([*tags, "start"], chain.learner.pairs.tolist(), strict=False)
    names = names | {
        row: f"{first} -> {second} ->"
        for first, of_first in firsts
        for second, row in zip(tags, of_first, strict=True)
    }
    found = []
    for t, tag in enumerate(tags):
        column = weights[:, t]
        own = np.argsort(-np.abs(column), kind="stable") if rows is None else rows[t]
        for row in own[column[own] != 0].tolist():
            name = names.get(row) or f"key {int(chain.dictionary.keys[row]):016x}"
            found.append(Weight(tag, name, weight * float(column[row])))
    return found


def general_weights(chain: SparseChain, tags: list[str], weight: float = 1.0) -> list[Weight]:
    """List the nonzero weights of transitions, bias, start and end, tag by tag."""
    weights, n = chain.learner.weights, chain.learner.n_states
    # Chains side by side share the transitions, which are shown for the first one.
    return [
        Weight(to, name, weight * float(weights[i, t]))
        for t, to in enumerate(tags)
        for i, name in enumerate([f"{tag} ->" for tag in tags[:n]] + list(GENERAL))
        if (t < n or i >= n) and weights[i, t]
    ]


def name_known(chain: SparseChain, doc: Doc) -> list[list[tuple[str, int]]]:
    """Return the name and the row of each feature of each token, without unknown features."""
    keys, starts = chain.features.keys([doc])
    rows = chain.dictionary.find(keys).tolist()
    by_token = zip(chain.features.describe(doc), pairwise(starts.tolist()), strict=True)
    return [
        [(name, row) for name, row in zip(names, rows[start:stop], strict=True) if row >= 0]
        for names, (start, stop) in by_token
    ]


def explain_choice(
    chain: SparseChain,
    doc: Doc,
    potentials: Potentials,
    tags: list[str],
    best: NDArray[np.int32],
    marginals: NDArray,
    i: int,
    weight: float = 1.0,
    known: list[list[tuple[str, int]]] | None = None,
    first_tag: int = 0,
) -> Choice:
    """Compare the tag of token i with its rival, the other tag of highest marginal probability.

    potentials: scores of the document under its constraints; a rival that they forbid scores -inf.
    best: int32 (n,) the labeling. marginals: (n, T). weight: of the chain in a sum, whose rest is
    one reason. first_tag: the first column among chains side by side. known: `name_known(chain,
    doc)`.
    """
    tag = int(best[i])
    others = marginals[i].copy()
    others[tag] = -1
    rival = int(others.argmax())
    weights = chain.learner.weights[:, first_tag:]
    first = chain.learner.n_general
    known = name_known(chain, doc) if known is None else known
    reasons = [
        (name, weight * float(weights[first + row, tag] - weights[first + row, rival]))
        for name, row in known[i]
    ]
    for k, (name, holds) in enumerate(
        zip(GENERAL, (True, i == 0, i == len(doc) - 1), strict=True), start=len(tags)
    ):
        if holds:
            reasons.append((name, weight * float(weights[k, tag] - weights[k, rival])))
    difference = float(potentials.unary[i, tag] - potentials.unary[i, rival])
    rest = difference - sum(value for _, value in reasons)
    if np.isfinite(rest) and abs(rest) > _ROUNDING * max(1, abs(difference)):
        reasons.append(("other parts of the model", rest))
    # Transitions are (T, T), or (n, T, T) if the constraints differ from token to token.
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


def _features(chain: SparseChain) -> NDArray[np.float32]:
    learner = chain.learner
    return learner.weights[learner.n_general :, : learner.n_tags]
