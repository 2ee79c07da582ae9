"""An evaluation report as an HTML page, and as Markdown for a model card."""

from collections.abc import Iterable, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

from spacy_bcrf.judging.evaluation import OUTCOMES
from spacy_bcrf.judging.report_values import list_scores, percent
from spacy_bcrf.promises.evidence import name_labels

from . import render

MAX_GROUPS = 100
"""Largest number of confusions of a kind on a page. JSON has all."""

NOUNS = {"token": "tags", "word": "words", "span": "spans"}


def report_page(report: dict[str, Any]) -> str:
    """Return the page of a report, see `judging.report_values`."""
    outcomes = report["outcomes"]
    totals = {kind: sum(counts[kind] for counts in outcomes.values()) for kind in OUTCOMES}
    return render(
        "report.html",
        script="rows.js",
        title=f"{report['component']} of {report['model']} on {report['corpus']}",
        report=report,
        noun="entities" if report["predicts"] == "entities" else NOUNS[report["unit"]],
        by_label=[(None, totals), *outcomes.items()],
        outcomes=OUTCOMES,
        shown=[kind for kind in OUTCOMES if totals[kind] or report["unit"] != "token"],
        groups=[
            group
            for _, of_kind in groupby(report["errors"], key=itemgetter("kind"))
            for group in islice(of_kind, MAX_GROUPS)
        ],
    )


def report_markdown(report: dict[str, Any]) -> str:
    """Return the scores, calibration and promises."""
    header, *rows = list_scores(row for row in report["scores"]["exact"] if row["gold"])
    lines = [
        f"{report['documents']:,} documents of {report['corpus']}, {report['predicts']}, with the "
        f"95% interval of {report['resamples']:,} bootstrap samples of documents.",
        "",
        *table(header, rows),
    ]
    for row in report["calibration"][:1]:
        lines += [
            "",
            f"The expected calibration error of the probabilities is {row['error']:.3f}. Perfectly "
            f"calibrated probabilities have {row['expected_error']:.3f} on this many predictions.",
        ]
    if report["promises"]:
        lines += ["", *promise_table(report["promises"])]
    return "\n".join([*lines, *(f"\n{note}" for note in report["notes"])]) + "\n"


def promise_table(promises: Iterable[dict[str, Any]]) -> list[str]:
    """Return the lines of a table of promises, see `thresholds.measure_promises`."""
    rows = []
    for row in promises:
        reached = {"value": row["reached"], "low": row["low"], "high": row["high"]}
        labels, documents = name_labels(row["labels"]), f"{row['documents']:,}"
        rows.append((labels, row["promise"], percent(reached), documents))
    return table(("labels", "promised", "reached, %", "documents"), rows)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *rows)]
