"""HTML page of an evaluation report."""

from itertools import groupby, islice
from operator import itemgetter
from typing import Any

from spacy_bcrf.analysis.evaluation import OUTCOMES

from . import render

MAX_GROUPS = 100
"""Largest number of confusions of a kind on a page. JSON has all."""

NOUNS = {"token": "tags", "word": "words", "span": "spans"}


def report_page(report: dict[str, Any]) -> str:
    """Return the page of a report, see `analysis.report_values`."""
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
