"""Markdown of an evaluation report: the scores, calibration and promises, for a model card."""

from collections.abc import Iterable, Sequence
from typing import Any

from spacy_bcrf.analysis.report_values import SCORES

Score = dict[str, float | None]


def report_markdown(report: dict[str, Any]) -> str:
    """Return the Markdown of a report, see `analysis.report_values`."""
    rows = [
        (row["label"] or "all", f"{row['gold']:,}", *(_percent(row[score]) for score in SCORES))
        for row in report["scores"]["exact"]
        if row["gold"]
    ]
    lines = [
        f"{report['documents']:,} documents of {report['corpus']}, {report['predicts']}, with the "
        f"95% interval of {report['resamples']:,} bootstrap samples of documents.",
        "",
        *table(("label", "gold", "precision", "recall", "F"), rows),
    ]
    for row in report["calibration"][:1]:
        lines += [
            "",
            f"The expected calibration error of the probabilities is {row['error']:.3f}. Perfectly "
            f"calibrated probabilities have {row['expected_error']:.3f} on so many predictions.",
        ]
    if report["promises"]:
        lines += ["", *promise_table(report["promises"])]
    return "\n".join([*lines, *(f"\n{note}" for note in report["notes"])]) + "\n"


def promise_table(promises: Iterable[dict[str, Any]]) -> list[str]:
    """Return the lines of a table of promises, see `thresholds.measure_promises`."""
    rows = []
    for row in promises:
        reached = {"value": row["reached"], "low": row["low"], "high": row["high"]}
        promised = f"{row['kind']} {row['promised']:g}" + (
            " a document" if row["unit"] == "document" else ""
        )
        rows.append(
            (", ".join(row["labels"]), promised, _percent(reached), f"{row['documents']:,}")
        )
    return table(("labels", "promised", "reached, %", "documents"), rows)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table."""
    return [f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows)]


def _percent(score: Score) -> str:
    value, low, high = score["value"], score["low"], score["high"]
    interval = "" if low is None or high is None else f" ({100 * low:.1f} to {100 * high:.1f})"
    return "-" if value is None else f"{100 * value:.1f}{interval}"
