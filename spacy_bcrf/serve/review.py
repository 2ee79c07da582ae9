"""`review`: an HTML page to review spans, one file that runs without server and network.

The page shows texts and labels as text, and its content security policy runs no other script.
"""

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from spacy.language import Language
from tqdm import tqdm

from bcrf.chain.potentials import counted
from spacy_bcrf.corpora.text_docs import read_text_records
from spacy_bcrf.corpora.texts import TextColumns
from spacy_bcrf.judging.prediction_records import MAX_ALTERNATIVES, read_predictions
from spacy_bcrf.loading import annotate_before, find_labeler
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler
from spacy_bcrf.privacy.recall_promise import choose_promise

from .near_leaks import read_redaction
from .pages import as_script_json, render
from .suspects import keep_suspects, read_annotation


def review(
    nlp: Language,
    texts: Path,
    pipe: str | None = None,
    *,
    max_alternatives: int = MAX_ALTERNATIVES,
    gold: bool = False,
    suspects: Path | None = None,
    redaction: bool = False,
    promise: str | None = None,
    report: Callable[[str], object] = lambda note: None,
) -> tuple[str, str]:
    """Return the page to review spans of texts, and its counts as text.

    texts: a file or folder of texts. pipe: the component, None for the only one. max_alternatives:
    largest number for each span. gold: review the annotation of `texts`, not predictions. suspects:
    JSON lines of `audit`, the only gold spans to review. redaction: review what `redact` replaces,
    and what it leaves, first the most probable; as for `redact`, a `.txt` file is one text.
    promise: as for `redact`. report: receives notes about the texts.
    ValueError for a component without spans or labels, and without texts.
    """
    name, labeler = find_labeler(nlp, pipe)
    check_labeler(labeler)
    is_complete: list[bool] = []
    is_gold = gold or suspects is not None
    spans = read_annotation(nlp, labeler, texts, is_complete) if is_gold else None
    columns = TextColumns(whole_files=redaction)
    read = (doc for _, doc in read_text_records(texts, nlp, report, columns=columns))
    docs = tqdm(read, "predicting", unit="docs", delay=1, disable=None)
    before = annotate_before(nlp, name, docs)
    labels = [*labeler.labels]
    if redaction:
        chosen = choose_promise(nlp, name, None, promise)[-1]
        predictions = read_redaction(labeler, before, max_alternatives, chosen, labels)
    else:
        predictions = read_predictions(labeler, before, max_alternatives, spans)
    if suspects is not None:
        predictions = keep_suspects(predictions, suspects, labeler.labels, is_complete)
    what = "gold" if is_gold else "predicted"
    return review_page(nlp, labeler, predictions, texts, max_alternatives, labels, what)


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
    labels: list[str],
    what: str,
) -> tuple[str, str]:
    """Return the page of `read_predictions`, which keeps work by its hash, and counts as text.

    labels: they are complete after the last span is read. what: which spans, for the counts.
    """
    found = list(predictions)
    documents = [document for document in found if document["starts"]]
    if not documents:
        raise ValueError(f"{texts}: found no texts; expected some with at least one token")
    keys = ("text", "starts", "spans", "choices")
    reviewed = [[document.get(key) for key in keys] for document in documents]
    identity = [nlp.meta["name"], nlp.meta["version"], labeler.name, labels, reviewed]
    data = {
        "key": hashlib.sha256(json.dumps(identity).encode()).hexdigest(),
        "title": f"{texts.name}: {labeler.name} of {nlp.meta['lang']}_{nlp.meta['name']}",
        "file": f"{texts.name.split('.')[0] or 'texts'}.reviewed.jsonl",
        "labels": labels,
        "overlap": labeler.codec.layered is not None,
        "maxAlternatives": max_alternatives,
        "documents": documents,
    }
    is_predicted = [span[4] for document in documents for span in document["spans"]]
    n_empty, n_predicted = len(found) - len(documents), sum(is_predicted)
    counts = (
        f"{counted(len(documents), 'doc')}, {counted(n_predicted, f'{what} span')}, "
        f"{counted(len(is_predicted) - n_predicted, 'suggestion')}"
    )
    return fill_page(data), counts + f"; {counted(n_empty, 'empty doc')} left out" * bool(n_empty)


def fill_page(data: dict[str, Any]) -> str:
    return render(
        "review.html", "review.css", "review.js", title="Review", data=as_script_json(data)
    )
