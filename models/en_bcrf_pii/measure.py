"""Measure personal data of any type by tokens, as Presidio publishes it, and its promise.

    python -m models.en_bcrf_pii.measure MODEL TEST.spacy

The tokens are those of the pipeline, without whitespace. F2 weighs recall more than precision.
"""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import spacy
from spacy.tokens import Doc, Span

from spacy_bcrf.pipeline.apply_thresholds import CANDIDATES
from spacy_bcrf.readers.doc_files import read_docs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="name or folder of the pipeline")
    parser.add_argument("test", type=Path)
    args = parser.parse_args()
    nlp = spacy.load(args.model)
    gold = list(read_docs(args.test, nlp.vocab))
    found = list(nlp.pipe(doc.text for doc in gold))
    show("entities", gold, [list(doc.ents) for doc in found])
    # As `redact`: also the entities of earlier components, which have no probability.
    replaced = [
        [*doc.spans.get(CANDIDATES, ()), *(ent for ent in doc.ents if ent._.confidence is None)]
        for doc in found
    ]
    show("candidates of the promise", gold, replaced)


def show(name: str, gold: Sequence[Doc], found: Iterable[Sequence[Span]]) -> None:
    """Print precision, recall and F2 of tokens in any span."""
    pairs = [
        (in_spans(doc, doc.ents), in_spans(doc, spans))
        for doc, spans in zip(gold, found, strict=True)
    ]
    right, other = (np.concatenate(part) for part in zip(*pairs, strict=True))
    hits = (right & other).sum()
    precision, recall = hits / max(1, other.sum()), hits / max(1, right.sum())
    f2 = 5 * precision * recall / max(1e-12, 4 * precision + recall)
    print(f"{name}: precision {precision:.3f}, recall {recall:.3f}, F2 {f2:.3f}")


def in_spans(doc: Doc, spans: Iterable[Span]) -> np.ndarray:
    """Return whether each token but whitespace is in a span, bool (n,)."""
    inside = np.zeros(len(doc), dtype=bool)
    for span in spans:
        inside[span.start : span.end] = True
    return inside[[not token.is_space for token in doc]]


if __name__ == "__main__":
    main()
