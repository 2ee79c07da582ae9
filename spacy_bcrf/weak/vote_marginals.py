"""Soft gold from the weighted votes of one source."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bcrf.chain import Marginals
from spacy_bcrf.corpora.formats.votes import Vote, VotedDoc
from spacy_bcrf.pipeline.codecs.entities import EntityCodec


def vote_marginals(voted: VotedDoc, votes: Sequence[Vote], codec: EntityCodec) -> Marginals:
    """Return the exact marginals (n, T) and (n, T, T) of one source's weighted votes.

    At most one vote of each group of overlapping ones is an entity, with the probability of its
    weight. ValueError names the place if the weights of a group sum to more than 1.
    """
    n, n_tags = len(voted.doc), len(codec.tags)
    unary = np.zeros((n, n_tags), dtype="float32")
    unary[:, 0] = 1
    edges = np.zeros((n, n_tags, n_tags), dtype="float32")
    inside = np.zeros(max(n - 1, 0), dtype=bool)
    for group in group_overlaps(votes):
        total = sum(vote.weight for vote in group)
        if total > 1 + 1e-6:
            names = ", ".join(
                f"{voted.doc[c.start : c.end].text!r} {c.label} {c.weight:g}" for c in group
            )
            raise ValueError(
                f"{voted.place}: overlapping spans exclude each other, but their weights "
                f"sum to {total:g}: {names}"
            )
        start, end = group[0].start, max(c.end for c in group)
        inside[start : end - 1] = True
        unary[start:end] = 0
        for tags, weight in _labelings(group, start, end, codec):
            at = np.arange(start, end)
            unary[at, tags] += weight
            edges[at[:-1], tags[:-1], tags[1:]] += weight
    at = np.flatnonzero(~inside)
    edges[at] = unary[at][:, :, None] * unary[at + 1][:, None, :]
    return Marginals(unary, edges)


def group_overlaps(spans: Iterable[Any]) -> list[list[Any]]:
    """Return the groups of overlapping spans, tuples that begin with (start, end), in order."""
    groups: list[list[Any]] = []
    end = -1
    for span in sorted(spans):
        if span[0] >= end:
            groups.append([])
        groups[-1].append(span)
        end = max(end, span[1])
    return groups


def _labelings(
    group: Sequence[Vote], start: int, end: int, codec: EntityCodec
) -> list[tuple[NDArray[np.int64], float]]:
    """Return the tags (end - start,) of each vote, and of none of them, with weights."""
    spans = codec.entities.span_tags
    none = np.zeros(end - start, dtype="int64")
    found = [(none, max(0.0, 1 - sum(vote.weight for vote in group)))]
    for vote in group:
        label = codec.labels.index(vote.label)
        tags = none.copy()
        a, b = vote.start - start, vote.end - start
        tags[a:b] = spans.inside[label]
        tags[b - 1], tags[a] = spans.last[label], spans.first[label]
        if b - a == 1:
            tags[a] = spans.single[label]
        found.append((tags, vote.weight))
    return found
