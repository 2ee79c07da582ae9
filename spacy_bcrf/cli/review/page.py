"""HTML page to review predicted spans, one file that runs without server and network.

The page shows texts and labels as text, and its content security policy runs no other script.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from spacy.language import Language

from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler

from ..pages import as_json, render


def check_labeler(labeler: SequenceLabeler) -> None:
    """Raise ValueError for a component that predicts no spans, or has no labels."""
    if labeler.codec.unit != "span":
        raise ValueError(
            f"{labeler.name} predicts no spans; expected a component bcrf_ner, bcrf_spans or "
            "bcrf_chunker"
        )
    if not labeler.labels:
        raise ValueError(f"{labeler.name} has no labels; expected a trained component")


def review_page(
    nlp: Language,
    labeler: SequenceLabeler,
    predictions: Iterable[dict[str, Any]],
    texts: Path,
    max_alternatives: int,
) -> tuple[str, str]:
    """Return the page of `read_predictions`, which keeps work by its hash, and counts as text."""
    found = list(predictions)
    documents = [document for document in found if document["starts"]]
    if not documents:
        raise ValueError(f"{texts}: found no texts; expected some with at least one token")
    keys = ("text", "starts", "spans", "choices")
    reviewed = [[document.get(key) for key in keys] for document in documents]
    identity = [nlp.meta["name"], nlp.meta["version"], labeler.name, labeler.labels, reviewed]
    data = {
        "key": hashlib.sha256(json.dumps(identity).encode()).hexdigest(),
        "title": f"{texts.name}: {labeler.name} of {nlp.meta['lang']}_{nlp.meta['name']}",
        "file": f"{texts.name.split('.')[0] or 'texts'}.reviewed.jsonl",
        "labels": labeler.labels,
        "overlap": labeler.codec.may_overlap,
        "maxAlternatives": max_alternatives,
        "documents": documents,
    }
    is_predicted = [span[4] for document in documents for span in document["spans"]]
    n_empty, n_predicted = len(found) - len(documents), sum(is_predicted)
    counts = (
        f"{len(documents):,} docs, {n_predicted:,} predicted spans, "
        f"{len(is_predicted) - n_predicted:,} suggestions"
    )
    return fill_page(data), counts + f"; {n_empty:,} empty docs left out" * bool(n_empty)


def fill_page(data: dict[str, Any]) -> str:
    folder = Path(__file__).parent
    return render("page.html", "page.css", "page.js", folder, title="Review", data=as_json(data))
