"""HTML page of label suspects."""

from collections.abc import Sequence
from typing import Any

from . import render

MAX_SHOWN = 2000
"""Largest number of suspects on a page."""

CONTEXT = 80
"""Number of characters shown on each side."""


def audit_page(name: str, records: Sequence[dict[str, Any]]) -> str:
    """Return the page of the records of `audit`. name: of the corpus."""
    return render(
        "audit.html",
        title=f"Label suspects of {name}",
        n=len(records),
        rows=[_row(record) for record in records[:MAX_SHOWN]],
    )


def _row(record: dict[str, Any]) -> dict[str, Any]:
    text, start, end, other = (record[key] for key in ("text", "start", "end", "suggestion"))
    suggestion = "no span" if other is None else other["label"]
    if record["kind"] == "boundary":
        suggestion = f"{suggestion}: {text[other['start'] : other['end']]}"
    return {
        **record,
        "before": text[max(0, start - CONTEXT) : start],
        "marked": text[start:end],
        "after": text[end : end + CONTEXT],
        "gold": record["label"] or "no span",
        "suggestion": suggestion,
    }
