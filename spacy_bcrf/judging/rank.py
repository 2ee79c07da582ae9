"""`rank`: documents in the order in which their annotation teaches most."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import minibatch

from bcrf.chain.potentials import counted
from spacy_bcrf.loading import annotate_before, find_labeler
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler
from spacy_bcrf.result import Result

from .diversity import NearDuplicates, document_vectors, facility_location

POOL_FACTOR, MAX_POOL = 4, 4096
"""A diverse choice compares each document of the pool with all others."""


class RankedDoc(NamedTuple):
    """A ranked document. number: its place among the documents."""

    uncertainty: float
    number: int


@dataclass(repr=False)
class Ranking(Result):
    """Chosen documents, best first, the number of all, and of near duplicates that are left out."""

    chosen: list[RankedDoc]
    n_docs: int
    n_similar: int

    def __repr__(self) -> str:
        similar = (
            f", {counted(self.n_similar, 'near duplicate')} left out" if self.n_similar else ""
        )
        return f"Ranking({len(self.chosen):,} of {self.n_docs:,} documents{similar})"

    def rows(self) -> list[tuple[str, ...]]:
        """Return the cells of a table of the first 50 documents, with a header."""
        rows = [(str(one.number), f"{one.uncertainty:.4f}") for one in self.chosen[:50]]
        return [("document", "uncertainty"), *rows]


def rank(
    nlp: Language,
    docs: Sequence[Doc],
    pipe: str | None = None,
    *,
    by: str = "entropy",
    per: str = "token",
    n: int = 0,
    diverse: bool = False,
    max_similarity: float | None = None,
) -> Ranking:
    """Order documents for annotation, the most uncertain first.

    docs: tokenized texts, read once and then by index. pipe: name of the component, None for the
    only one. by, per: see `PosteriorQueries.uncertainty`. n: number of documents, 0 for all.
    diverse: choose the n documents that represent the POOL_FACTOR n most uncertain ones.
    max_similarity: leave out documents that share a larger part of their pairs of words with a
    chosen one. ValueError for a diverse choice of no or too many documents.
    """
    if diverse and not 0 < n <= MAX_POOL:
        raise ValueError(f"a diverse choice needs `n` from 1 to {MAX_POOL:,}; got {n:,}")
    name, labeler = find_labeler(nlp, pipe)
    # The sort is stable: ties keep the order of the documents.
    scored = sorted(_score(nlp, name, labeler, docs, by, per), key=lambda one: -one.uncertainty)
    n_pool = max(n, min(POOL_FACTOR * n, MAX_POOL)) if diverse else n
    chosen, n_similar = _leave_out_duplicates(docs, scored, n_pool, max_similarity)
    if diverse and chosen:
        found = annotate_before(nlp, name, (docs[one.number] for one in chosen))
        vectors = document_vectors(labeler, list(found))
        weights = np.array([one.uncertainty for one in chosen])
        chosen = [chosen[i] for i in facility_location(vectors, weights, n)]
    return Ranking(chosen, len(scored), n_similar)


def _score(
    nlp: Language, name: str, labeler: SequenceLabeler, docs: Iterable[Doc], by: str, per: str
) -> Iterator[RankedDoc]:
    pipe: Any = labeler
    index = 0
    for batch in minibatch(docs, nlp.batch_size):
        annotated = list(annotate_before(nlp, name, batch))
        for value in pipe.uncertainty(annotated, by, per=per, ignore_annotation=False).tolist():
            yield RankedDoc(value, index)
            index += 1


def _leave_out_duplicates(
    docs: Sequence[Doc], scored: Sequence[RankedDoc], n: int, max_similarity: float | None
) -> tuple[list[RankedDoc], int]:
    """Return the first n documents (0 for all) without near duplicates, and the number left out."""
    if max_similarity is None:
        return list(islice(scored, n or None)), 0
    duplicates, kept, n_similar = NearDuplicates(max_similarity), [], 0
    for one in scored:
        if duplicates.keep(docs[one.number].text):
            kept.append(one)
            if len(kept) == n:
                break
        else:
            n_similar += 1
    return kept, n_similar
