"""HTML page of an evaluation report."""

from collections.abc import Iterator
from itertools import groupby, islice, pairwise
from operator import itemgetter
from typing import Any

from spacy_bcrf.analysis.evaluation import OUTCOMES

from . import render

MAX_GROUPS = 100
"""Largest number of confusions of a kind on a page. JSON has all."""
MAX_SPAN = 200
"""Largest number of characters of one part of a context."""

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
        split=split_context,
    )


def split_context(example: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the parts of a context, shortened: "gold", "predicted", both or none, and the text."""
    text, offset = example["context"], example["offset"]
    spans = {
        name: (span["start"] - offset, span["end"] - offset)
        for name in ("gold", "predicted")
        if (span := example[name])
    }
    cuts = sorted({0, len(text), *(cut for span in spans.values() for cut in span)})
    for start, end in pairwise(cuts):
        names = [name for name, span in spans.items() if span[0] <= start and end <= span[1]]
        part = text[start:end]
        if len(part) > MAX_SPAN:
            part = f"{part[: MAX_SPAN // 2]} … {part[-MAX_SPAN // 2 :]}"
        yield " ".join(names), part
