"""Soft gold of entities from several annotators, or from weighted candidates."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bcrf.chain import CRF, Marginals, Potentials
from bcrf.chain.annotators import Annotation, agreement, estimate_truth
from spacy_bcrf.annotation.arrays import doc_lengths, find_bounds
from spacy_bcrf.corpora.formats.annotators import Annotated, Candidate
from spacy_bcrf.pipeline.codecs.entities import EntityCodec


class Reliability(NamedTuple):
    """Reliability of an annotator.

    n_docs: number of documents. recall, precision: expected ones of the tokens in entities.
    """

    n_docs: int
    recall: float
    precision: float


class Crowd(NamedTuple):
    """What annotators tell about documents.

    targets: marginals by document, with edges. reliability: by annotator, empty for a single one.
    """

    targets: list[Marginals]
    reliability: dict[str, Reliability]


def aggregate(annotated: Sequence[Annotated], codec: EntityCodec) -> Crowd:
    """Return the soft gold of documents.

    A single annotator's candidates are the soft gold. Several annotators are weighted by EM, see
    `chain.annotators.estimate_truth`. ValueError for candidates whose weights exclude each other.
    """
    docs = [one.doc for one in annotated]
    names = sorted({name for one in annotated for name in one.by_annotator})
    marginals = [
        {name: candidate_marginals(one, found, codec) for name, found in one.by_annotator.items()}
        for one in annotated
    ]
    if len(names) == 1:
        return Crowd([by_name[names[0]] for by_name in marginals], {})
    bounds = find_bounds(docs)
    annotations = []
    for name in names:
        of_name = [i for i, one in enumerate(annotated) if name in one.by_annotator]
        tokens = [np.arange(*bounds[i]) for i in of_name]
        tags = [marginals[i][name].unary for i in of_name]
        annotations.append(Annotation(np.concatenate(tokens), np.concatenate(tags)))
    constraints = codec.constraints
    estimate = estimate_truth(
        annotations,
        doc_lengths(docs),
        constraints.transitions,
        constraints.start,
        constraints.end,
    )
    truth = CRF().marginals(estimate.chain)
    reliability = {}
    for name, annotation in zip(names, annotations, strict=True):
        n_docs = sum(name in one.by_annotator for one in annotated)
        reliability[name] = Reliability(n_docs, *agreement(truth, annotation))
    targets = [_of_document(estimate.chain, *bound) for bound in bounds]
    return Crowd(targets, reliability)


def _of_document(chain: Potentials, start: int, end: int) -> Marginals:
    lengths = np.array([end - start], dtype="int32")
    one = Potentials(chain.unary[start:end], chain.transitions, lengths).astype("float32")
    return CRF().marginals(one, edges=True)


def candidate_marginals(
    annotated: Annotated, candidates: Sequence[Candidate], codec: EntityCodec
) -> Marginals:
    """Return the marginals of one annotator's weighted candidates, (n, T) and (n, T, T).

    One candidate of each group of overlapping ones is an entity, with the probability of its
    weight, or none. The groups are independent. So the marginals are exact. ValueError names the
    place if the weights of a group sum to more than 1.
    """
    n, n_tags = len(annotated.doc), len(codec.tags)
    unary = np.zeros((n, n_tags), dtype="float32")
    unary[:, 0] = 1
    edges = np.zeros((n, n_tags, n_tags), dtype="float32")
    groups: list[list[Candidate]] = []
    end = -1
    for candidate in sorted(candidates):
        if candidate.start >= end:
            groups.append([])
        groups[-1].append(candidate)
        end = max(end, candidate.end)
    inner: list[tuple[int, int]] = []
    for group in groups:
        total = sum(candidate.weight for candidate in group)
        if total > 1 + 1e-6:
            names = ", ".join(
                f"{annotated.doc[c.start : c.end].text!r} {c.label} {c.weight:g}" for c in group
            )
            raise ValueError(
                f"{annotated.place}: overlapping candidates exclude each other, but their weights "
                f"sum to {total:g}: {names}"
            )
        start, end = group[0].start, max(c.end for c in group)
        inner.append((start, end))
        unary[start:end] = 0
        for tags, weight in _labelings(group, start, end, codec):
            at = np.arange(start, end)
            unary[at, tags] += weight
            edges[at[:-1], tags[:-1], tags[1:]] += weight
    inside = np.zeros(max(n - 1, 0), dtype=bool)
    for start, end in inner:
        inside[start : end - 1] = True
    at = np.flatnonzero(~inside)
    edges[at] = unary[at][:, :, None] * unary[at + 1][:, None, :]
    return Marginals(unary, edges)


def _labelings(
    group: Sequence[Candidate], start: int, end: int, codec: EntityCodec
) -> list[tuple[NDArray[np.int64], float]]:
    """Return the tags (end - start,) of each candidate, and of none of them, with weights."""
    spans = codec.entities.span_tags
    none = np.zeros(end - start, dtype="int64")
    found = [(none, max(0.0, 1 - sum(candidate.weight for candidate in group)))]
    for candidate in group:
        label = codec.labels.index(candidate.label)
        tags = none.copy()
        a, b = candidate.start - start, candidate.end - start
        tags[a:b] = spans.inside[label]
        tags[b - 1], tags[a] = spans.last[label], spans.first[label]
        if b - a == 1:
            tags[a] = spans.single[label]
        found.append((tags, candidate.weight))
    return found
