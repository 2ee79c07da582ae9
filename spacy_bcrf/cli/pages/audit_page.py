"""HTML page of label suspects."""

from collections.abc import Sequence
from typing import Any

from . import render
from .report_page import split_context

MAX_SHOWN = 2000
"""Largest number of suspects on a page."""

CONTEXT = 80
"""Number of characters shown on each side."""


def audit_page(name: str, records: Sequence[dict[str, Any]]) -> str:
    """Return the page of the records of `audit`. name: of the corpus."""
    return render(
        "audit.html",
        script="rows.js",
        title=f"Label suspects of {name}",
        n=len(records),
        rows=[_row(record) for record in records[:MAX_SHOWN]],
        split=split_context,
    )


def _row(record: dict[str, Any]) -> dict[str, Any]:
    gold, suggestion = record if record["label"] else None, record["suggestion"]
    spans = [span for span in (gold, suggestion) if span]
    first = max(0, min(span["start"] for span in spans) - CONTEXT)
    last = max(span["end"] for span in spans) + CONTEXT
    return {
        **record,
        "context": record["text"][first:last],
        "offset": first,
        "gold": gold,
        "predicted": suggestion,
        "labels": [span["label"] for span in spans],
    }
