"""HTML page of an evaluation report, one file without scripts and network.

The content security policy admits the page's own style sheet only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from itertools import pairwise
from string import Template
from typing import Any

from spacy_bcrf.analysis.evaluation import OUTCOMES

from .review_page import policy_hash, read_part

DASH = "\N{EN DASH}"

MAX_GROUPS = 15
"""Largest number of confusions of a kind on a page. JSON has all."""
MAX_SPAN = 200
"""Largest number of characters of one part of a context."""

_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src '$style_hash'">
<title>$title</title>
<style>$style</style>
</head>
<body>
$body
</body>
</html>
""")

KIND_NAMES = {
    "correct": "correct",
    "type": "wrong type",
    "boundary": "wrong boundary",
    "missing": "missing",
    "spurious": "spurious",
}
NOUNS = {"token": "tags", "word": "words", "span": "spans"}
MEASURE_NAMES = {
    "exact": ("Exact", "same boundaries, same label"),
    "boundaries": ("Boundaries", "same boundaries, any label"),
    "overlap": ("Overlap", "overlapping, same label"),
}


def report_page(report: dict[str, Any]) -> str:
    """Return the page of a report, see `report_values`."""
    style = read_part("palette.css") + read_part("report_page.css")
    title = f"{report['component']} of {report['model']} on {report['corpus']}"
    noun = "entities" if report["predicts"] == "entities" else NOUNS[report["unit"]]
    sections = [
        _summary(report, noun),
        _scores(report, noun),
        _comparison(report, noun) if "against" in report else "",
        _outcomes(report, noun),
        _partial(report) if report["unit"] != "token" else "",
        _calibration(report),
        _confusions(report),
        _errors(report, noun),
    ]
    return _PAGE.substitute(
        style_hash=policy_hash(style),
        style=style,
        title=escape(title),
        body="\n".join(section for section in sections if section),
    )


def _summary(report: dict[str, Any], noun: str) -> str:
    every = report["scores"]["exact"][0]
    facts = [
        ("Precision", _value(every["precision"])),
        ("Recall", _value(every["recall"])),
        ("F", _value(every["f"])),
    ]
    if report["unit"] == "token":
        facts[:3] = [("Token accuracy", _value(every["recall"]))]
    if report["calibration"]:
        error = report["calibration"][0]["error"]
        facts.append(("Calibration error", f"{error:.3f}<small>0 is best</small>"))
    if "against" in report:
        difference = report["against"]["differences"][0]["f"]
        facts.append(("F against the other", _difference(difference)))
    cells = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts)
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in report["notes"])
    against = f", against {escape(report['against']['model'])}" if "against" in report else ""
    return (
        f"<h1>{escape(report['component'])} of {escape(report['model'])}</h1>"
        f'<p class="soft">{escape(report["corpus"])}{against}: {report["documents"]:,} documents, '
        f"{every['gold']:,} gold {noun}, {every['predicted']:,} predicted</p>"
        f'<dl class="facts">{cells}</dl>{notes}'
    )


def _scores(report: dict[str, Any], noun: str) -> str:
    others = report.get("against", {}).get("scores", {}).get("exact")
    rows = []
    for i, row in enumerate(report["scores"]["exact"]):
        strip = _strip(row["f"], others and others[i]["f"])
        cells = "".join(f"<td>{_value(row[name])}</td>" for name in ("precision", "recall", "f"))
        rows.append(_row(row["label"], strip, f"<td>{row['gold']:,}</td>{cells}"))
    intervals = (
        f" Below each score: its 95% interval, from {report['resamples']:,} bootstrap samples of "
        "the documents."
        if report["documents"] > 1
        else ""
    )
    other = " An orange line is the F of the other pipeline." if others else ""
    return (
        f"<h2>Scores by label</h2><p>In percent. Boundaries and label must be right.{intervals} "
        f"The strip is F from 0 to 100 with its interval.{other}</p>"
        + _table(("label", f"gold {noun}", "precision", "recall", "F"), rows)
    )


def _comparison(report: dict[str, Any], noun: str) -> str:
    against = report["against"]
    rows = []
    columns = zip(
        report["scores"]["exact"],
        against["scores"]["exact"],
        against["differences"],
        strict=True,
    )
    for one, other, difference in columns:
        p = difference["f"]["p"]
        cells = "".join(
            f"<td>{cell}</td>"
            for cell in (
                _percent(one["f"]["value"]),
                _percent(other["f"]["value"]),
                _difference({**difference["f"], "p": None}),
                DASH if p is None else f"{p:.4f}",
            )
        )
        rows.append(_row(one["label"], "", cells))
    counts = against["agreement"]["counts"]
    examples = against["agreement"]["examples"]
    one, other = escape(report["model"]), escape(against["model"])
    lists = "".join(
        f"<details><summary>Errors of {wrong} where {right} is right"
        f'<span class="n">{counts[key]:,}</span></summary>{_examples(examples[key])}</details>'
        for right, wrong, key in ((one, other, "one"), (other, one, "other"))
        if examples[key]
    )
    tested = (
        f"p: paired approximate randomization with {report['resamples']:,} random swaps of whole "
        "documents (Noreen 1989), two-sided. The p of a label is not corrected for the number of "
        "labels. Below each difference: its 95% interval, by the bootstrap over documents."
        if report["documents"] > 1
        else "One document: no p-values."
    )
    return (
        f"<h2>Against {other}</h2><p>F in percent. {tested}</p>"
        + _table(("label", "F", "other F", "difference", "p"), rows)
        + f"<p>Of the gold {noun}, both pipelines are right on {counts['both']:,}, only this one "
        f"on {counts['one']:,}, only the other on {counts['other']:,}, none on "
        f"{counts['none']:,}.</p>{lists}"
    )


def _outcomes(report: dict[str, Any], noun: str) -> str:
    totals = {
        kind: sum(of_label[kind] for of_label in report["outcomes"].values()) for kind in OUTCOMES
    }
    shown = [kind for kind in OUTCOMES if totals[kind] or report["unit"] != "token"]
    rows = []
    for label, of_label in ((None, totals), *report["outcomes"].items()):
        if any(of_label.values()):
            cells = "".join(f"<td>{of_label[kind]:,}</td>" for kind in shown)
            rows.append(_row(label, _stack(of_label), cells))
    header = [f'<span class="kind {kind}">{kind}</span>' for kind in shown]
    return (
        f"<h2>Outcomes</h2><p>Each of the gold {noun} is correct, has a wrong type (the boundaries "
        "are right), a wrong boundary (it overlaps the prediction), or is missing. A spurious "
        "prediction overlaps nothing that is left; its row is the predicted label.</p>"
        + _table(("label", *header), rows, "outcomes")
    )


def _partial(report: dict[str, Any]) -> str:
    rows = []
    for measure, (name, meaning) in MEASURE_NAMES.items():
        every = report["scores"][measure][0]
        cells = "".join(f"<td>{_value(every[key])}</td>" for key in ("precision", "recall", "f"))
        rows.append(f"<tr><th>{name}<small>{meaning}</small></th>{cells}</tr>")
    parts = []
    for measure in ("boundaries", "overlap"):
        of_label = [
            _row(
                row["label"],
                "",
                "".join(f"<td>{_value(row[key])}</td>" for key in ("precision", "recall", "f")),
            )
            for row in report["scores"][measure][1:]
        ]
        name, meaning = MEASURE_NAMES[measure]
        parts.append(
            f"<details><summary>{name} by label ({meaning})</summary>"
            + _table(("label", "precision", "recall", "F"), of_label)
            + "</details>"
        )
    return (
        "<h2>Partial matches</h2><p>The same predictions under weaker conditions.</p>"
        + _table(("match", "precision", "recall", "F"), rows)
        + "".join(parts)
    )


def _calibration(report: dict[str, Any]) -> str:
    if not report["calibration"]:
        return ""
    figures = "".join(_diagram(table) for table in report["calibration"])
    other = report.get("against", {}).get("calibration")
    compared = f" The error of the other pipeline is {other[0]['error']:.3f}." if other else ""
    return (
        "<h2>Calibration</h2><p>Across: the probability of a prediction. Up: the share of correct "
        "predictions. On the dashed line both are equal. The bars are the numbers of predictions. "
        "The calibration error is the mean distance from the line; with few predictions it is "
        f'never 0.{compared}</p><div class="diagrams">{figures}</div>'
    )


def _diagram(table: dict[str, Any]) -> str:
    """Return a reliability diagram. Its unit is a percent, and y grows downwards."""
    n_bins = len(table["counts"])
    most = max(table["counts"])
    bars, points = [], []
    for i, count in enumerate(table["counts"]):
        if count:
            height = 30 * count / most
            bars.append(
                f'<rect class="count" x="{100 * i / n_bins + 0.5:.1f}" y="{100 - height:.1f}" '
                f'width="{100 / n_bins - 1:.1f}" height="{height:.1f}"/>'
            )
            points.append((100 * table["confidence"][i], 100 - 100 * table["accuracy"][i]))
    curve = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    circles = "".join(
        f'<circle class="point" cx="{x:.1f}" cy="{y:.1f}" r="1.8"/>' for x, y in points
    )
    label = "all labels" if table["label"] is None else table["label"]
    alternative = escape(f"Calibration of {label}", quote=True)
    return (
        f'<figure><svg class="diagram" viewBox="-8 -3 112 112" role="img" '
        f'aria-label="{alternative}">'
        '<rect class="frame" width="100" height="100"/><path class="ideal" d="M0 100L100 0"/>'
        f'{"".join(bars)}<polyline class="curve" points="{curve}"/>{circles}'
        '<text x="0" y="107">0</text><text x="50" y="107" text-anchor="middle">probability</text>'
        '<text x="100" y="107" text-anchor="end">1</text>'
        '<text x="-2" y="100" text-anchor="end">0</text><text x="-2" y="4" text-anchor="end">1'
        '</text><text transform="translate(-3 50) rotate(-90)" text-anchor="middle">correct</text>'
        f"</svg><figcaption><b>{escape(label)}</b><br>error {table['error']:.3f}, "
        f"{table['n']:,} predictions</figcaption></figure>"
    )


def _confusions(report: dict[str, Any]) -> str:
    groups = report["errors"]
    if not groups:
        return "<h2>Confusions</h2><p>No errors.</p>"
    parts = []
    n_shown: Counter[str] = Counter()
    for group in groups:
        n_shown[group["kind"]] += 1
        if n_shown[group["kind"]] > MAX_GROUPS:
            continue
        labels = " → ".join(
            "nothing" if label is None else f"<b>{escape(label)}</b>"
            for label in (group["gold"], group["predicted"])
        )
        parts.append(
            f'<details><summary><span class="kind {group["kind"]}">{KIND_NAMES[group["kind"]]}'
            f'</span>: {labels}<span class="n">{group["count"]:,}</span></summary>'
            f"{_examples(group['examples'])}</details>"
        )
    n_left = len(groups) - len(parts)
    rest = f"<p>{n_left:,} less frequent confusions are in the JSON only.</p>" if n_left else ""
    return (
        "<h2>Confusions</h2><p>Gold label → predicted label, by kind and frequency. Open a line "
        f"for its most certain examples. {_LEGEND}</p>{''.join(parts)}{rest}"
    )


_LEGEND = (
    'In the text, gold is <span class="context"><span class="gold">underlined</span></span>, the '
    'prediction is <span class="context"><span class="predicted">shaded</span></span>.'
)


def _errors(report: dict[str, Any], noun: str) -> str:
    lists = [
        (
            "Most certain errors",
            "Wrong predictions with the highest probability. Some may be errors of the gold "
            "annotation.",
            report["certain"],
        ),
        (
            "Least certain errors",
            "Wrong predictions with the lowest probability.",
            report["uncertain"],
        ),
        (
            "Most certain misses",
            f"Missing gold {noun} with the lowest probability.",
            report["missed"],
        ),
        (
            "Nearly found",
            f"Missing gold {noun} with the highest probability.",
            report["nearly_found"],
        ),
    ]
    parts = [
        f"<section><h3>{title}</h3><p>{meaning}</p>{_examples(examples)}</section>"
        for title, meaning, examples in lists
        if examples
    ]
    if not parts:
        return ""
    return f'<h2>Certain and uncertain errors</h2><div class="columns">{"".join(parts)}</div>'


def _examples(examples: Sequence[dict[str, Any]]) -> str:
    items = "".join(
        f'<li><p class="context">{_context(example)}</p><p class="verdict">'
        f'<span class="kind {example["kind"]}">{KIND_NAMES[example["kind"]]}</span>: '
        f"{_verdict(example)}; document {example['document']}</p></li>"
        for example in examples
    )
    return f'<ul class="examples">{items}</ul>'


def _verdict(example: dict[str, Any]) -> str:
    parts = []
    for name in ("gold", "predicted"):
        if span := example[name]:
            p = span["probability"]
            shown = "" if p is None else f" ({p:.3f})"
            parts.append(f"{name} <b>{escape(span['label'])}</b>{shown}")
    return ", ".join(parts)


def _context(example: dict[str, Any]) -> str:
    """Return the context with its spans marked. Long parts are shortened."""
    text, offset = example["context"], example["offset"]
    spans = {
        name: (span["start"] - offset, span["end"] - offset)
        for name in ("gold", "predicted")
        if (span := example[name])
    }
    cuts = sorted({0, len(text), *(cut for span in spans.values() for cut in span)})
    parts = []
    for start, end in pairwise(cuts):
        names = [name for name, span in spans.items() if span[0] <= start and end <= span[1]]
        part = escape(_shorten(text[start:end]))
        parts.append(f'<span class="{" ".join(names)}">{part}</span>' if names else part)
    return "".join(parts)


def _shorten(text: str) -> str:
    half = MAX_SPAN // 2
    return text if len(text) <= MAX_SPAN else f"{text[:half]} … {text[-half:]}"


def _table(header: Sequence[str], rows: Iterable[str], kind: str = "scores") -> str:
    cells = "".join(f"<th>{cell}</th>" for cell in header)
    head = f'<table class="{kind}"><thead><tr>{cells}</tr></thead>'
    return f"{head}<tbody>{''.join(rows)}</tbody></table>"


def _row(label: str | None, picture: str, cells: str) -> str:
    """Return a row of a label, None for all labels."""
    name, kind = ("all", ' class="all"') if label is None else (escape(label), "")
    return f"<tr{kind}><th>{name}{picture}</th>{cells}</tr>"


def _percent(value: float | None) -> str:
    return DASH if value is None else f"{100 * value:.1f}"


def _value(score: dict[str, Any]) -> str:
    """Return a score in percent, with its interval."""
    if score["low"] is None:
        return _percent(score["value"])
    interval = f"{_percent(score['low'])}{DASH}{_percent(score['high'])}"
    return f"{_percent(score['value'])}<small>{interval}</small>"


def _difference(score: dict[str, Any]) -> str:
    """Return a difference in percent, with its interval and p-value."""
    if score["value"] is None:
        return DASH
    parts = []
    if score["low"] is not None:
        parts.append(f"{100 * score['low']:+.1f} to {100 * score['high']:+.1f}")
    if score["p"] is not None:
        parts.append(f"p = {score['p']:.4f}")
    below = f"<small>{'<br>'.join(parts)}</small>" if parts else ""
    return f"{100 * score['value']:+.1f}{below}"


def _strip(score: dict[str, Any], other: dict[str, Any] | None) -> str:
    """Return F and its interval on a line from 0 to 100."""
    if score["value"] is None:
        return ""
    parts = ['<path class="axis" d="M0 8H100"/>']
    if score["low"] is not None:
        parts.append(
            f'<path class="interval" d="M{100 * score["low"]:.1f} 8H{100 * score["high"]:.1f}"/>'
        )
    for kind, shown in (("value other", other), ("value", score)):
        if shown and shown["value"] is not None:
            parts.append(f'<path class="{kind}" d="M{100 * shown["value"]:.1f} 2V14"/>')
    return (
        '<svg class="strip" viewBox="0 0 100 16" preserveAspectRatio="none" aria-hidden="true">'
        f"{''.join(parts)}</svg>"
    )


def _stack(counts: dict[str, int]) -> str:
    """Return a bar of the shares of the outcomes."""
    total, x, parts = sum(counts.values()), 0.0, []
    for kind in OUTCOMES:
        width = 100 * counts[kind] / total
        if width:
            parts.append(f'<rect class="{kind}" x="{x:.2f}" width="{width:.2f}" height="12"/>')
        x += width
    return (
        '<svg class="stack" viewBox="0 0 100 12" preserveAspectRatio="none" aria-hidden="true">'
        f"{''.join(parts)}</svg>"
    )
