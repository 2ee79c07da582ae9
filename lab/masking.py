"""Masking: partial annotation from full annotation, to compare models trained on both.

Each function takes documents with complete entity annotation and yields new documents.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from spacy.attrs import ENT_IOB, ENT_TYPE  # type: ignore[import-not-found]
from spacy.tokens import Doc, Span

from spacy_bcrf.annotation.entity_tags import MISSING


def one_label_each(
    docs: Sequence[Doc], labels: Sequence[str], seed: int
) -> Iterator[tuple[str, Doc]]:
    """Yield each document with the entities of only one label, after this label.

    Every label gets the same number of documents, in random order (Corro et al. 2025, partial NER).
    """
    order = list(range(len(docs)))
    random.Random(seed).shuffle(order)
    dealt = {i: labels[place % len(labels)] for place, i in enumerate(order)}
    for i, doc in enumerate(docs):
        label = dealt[i]
        kept = [ent for ent in doc.ents if ent.label_ == label]
        masked = with_entities(doc, kept, "outside")
        masked._.annotated_labels = [label]
        yield label, masked


def drop_entities(
    docs: Iterable[Doc], share: float, seed: int, others: str = "outside"
) -> Iterator[Doc]:
    """Yield documents without a random share of the entities.

    others: annotation of all tokens outside of the remaining entities, "missing" or "outside".
    "outside" looks complete, but is wrong for dropped entities.
    """
    rng = random.Random(seed)
    for doc in docs:
        yield with_entities(doc, [ent for ent in doc.ents if rng.random() >= share], others)


def forget_tokens(docs: Iterable[Doc], share: float, seed: int) -> Iterator[Doc]:
    """Yield documents with a random share of entities and of other tokens missing."""
    rng = random.Random(seed)
    for doc in docs:
        kept = [ent for ent in doc.ents if rng.random() >= share]
        masked = with_entities(doc, kept, "outside")
        forgotten = {
            i for ent in doc.ents if ent not in kept for i in range(ent.start, ent.end)
        } | {token.i for token in doc if not token.ent_type and rng.random() < share}
        yield _with_missing(masked, forgotten)


def with_entities(doc: Doc, ents: Sequence[Span], others: str) -> Doc:
    """Return a copy with these entities. others: "outside" or "missing", for all other tokens."""
    copy = doc.copy()
    spans = [Span(copy, ent.start, ent.end, label=ent.label) for ent in ents]
    copy.set_ents(spans, default=others)
    return copy


def _with_missing(doc: Doc, tokens: Iterable[int]) -> Doc:
    values: Any = doc.to_array([ENT_IOB, ENT_TYPE])
    values[list(tokens)] = MISSING
    return doc.from_array([ENT_IOB, ENT_TYPE], values)
