"""The values of an evaluation report, for `result.as_json`: NaN is unknown."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacy_bcrf.pipeline.calibration import expected_error, measure_reliability

from .evaluation import CORRECT, MEASURES, OUTCOMES, OVERLAPS, Evaluation, Place, SpanCounts, score
from .resampling import bootstrap_scores, has_interval, percentile_interval, randomization_test

SCORES = ("precision", "recall", "f")
N_EXAMPLES = 3
"""Number of examples of one confusion."""
N_ERRORS = 12
"""Number of the most and of the least certain errors."""
CONTEXT = 60
"""Number of characters of context on each side."""


def describe_pipeline(
    evaluation: Evaluation, texts: Sequence[str], n: int, seed: int
) -> dict[str, Any]:
    """Return all values about one pipeline. texts: of the documents. n: bootstrap samples.

    - `scores`: by measure, a list of all labels together (label None) and each label.
    - `overlaps`: exact scores of the spans of each of OVERLAPS as `label`, empty if none overlap.
    - `outcomes`: by label, the number of each outcome.
    - `calibration`: as `scores`, reliability tables, with the error that a perfectly calibrated
      model would have on this many predictions. Empty without probabilities.
    - `errors`: the confusions by kind, the most frequent first, with their most certain examples.
    - `certain`, `uncertain`: the most and the least certain errors; `missed` and `nearly_found`:
      the missing gold spans of the least and of the highest probability.
    """
    labels = [None, *evaluation.labels]
    scores = {key: _score_rows(labels, evaluation.count(key), n, seed) for key in MEASURES}
    overlaps = evaluation.count_overlaps()
    errors = [place for place in evaluation.places if place[1].kind != CORRECT]
    wrong = [place for place in errors if place[1].predicted]
    missing = [place for place in errors if not place[1].predicted]
    most, least = _by_certainty(wrong, texts)
    most_missing, least_missing = _by_certainty(missing, texts)
    return {
        "scores": scores,
        "overlaps": _score_rows(OVERLAPS, overlaps, n, seed) if overlaps[:, 1:].any() else [],
        "outcomes": evaluation.outcomes(),
        "calibration": list(_calibrate(evaluation, labels)),
        "errors": _group(errors, texts),
        "certain": most,
        "uncertain": least,
        "missed": most_missing,
        "nearly_found": least_missing,
    }


def compare(
    one: Evaluation, other: Evaluation, texts: Sequence[str], n: int, seed: int
) -> dict[str, Any]:
    """Return the values about the differences of two pipelines on the same documents.

    - `differences`: exact scores of `one` minus exact scores of `other`, with intervals and
      p-values.
    - `agreement`: how many gold spans both, only one or none of them find, with examples.
    """
    counts = one.count("exact"), other.count("exact")
    values = np.subtract(*(score(x.sum(axis=0)) for x in counts))
    p_values = np.full(values.shape, np.nan)
    bounds = np.full((2, *values.shape), np.nan)
    if len(texts) > 1:
        samples = np.subtract(*(bootstrap_scores(x, n, seed) for x in counts))
        bounds = np.where(has_interval(*counts), percentile_interval(samples), np.nan)
        p_values = randomization_test(*counts, n, seed)
    rows = np.stack([values, *bounds, p_values], axis=1)
    differences = [
        {"label": label, **_name_scores(row)}
        for label, row in zip([None, *one.labels], rows, strict=True)
    ]
    found: dict[str, list[Place]] = {"both": [], "one": [], "other": [], "none": []}
    names = {(True, True): "both", (True, False): "one", (False, True): "other"}
    for i, (pairs, of_other) in enumerate(zip(one.pairs, other.pairs, strict=True)):
        # Only the gold spans of `one` have probabilities.
        by_gold = {pair.gold[:3]: pair for pair in of_other if pair.gold}
        for pair in pairs:
            if pair.gold is None:
                continue
            opposite = by_gold[pair.gold[:3]]
            is_right = pair.kind == CORRECT, opposite.kind == CORRECT
            # The example shows the error.
            shown = opposite if is_right == (True, False) else pair
            found[names.get(is_right, "none")].append((i, shown))
    return {
        "differences": differences,
        "agreement": {
            "counts": {name: len(places) for name, places in found.items()},
            "examples": {
                name: [_example(place, texts) for place in _most_certain(found[name], N_ERRORS)]
                for name in ("one", "other")
            },
        },
    }


def _score_rows(
    labels: Sequence[str | None], counts: SpanCounts, n: int, seed: int
) -> list[dict[str, Any]]:
    values = score(counts.sum(axis=0))
    samples = bootstrap_scores(counts, n, seed)
    bounds = np.where(has_interval(counts), percentile_interval(samples), np.nan)
    rows = np.stack([values, *bounds], axis=1)
    totals = counts[..., :2].sum(axis=0).astype(int)
    return [
        {"label": label, "gold": gold, "predicted": predicted, **_name_scores(row)}
        for label, (gold, predicted), row in zip(labels, totals, rows, strict=True)
    ]


def _name_scores(row: NDArray) -> dict[str, dict[str, float]]:
    """Return scores by name. row: (3, 3) of values and bounds, or (4, 3) with p-values."""
    keys = ("value", "low", "high", "p")[: len(row)]
    return {name: dict(zip(keys, x, strict=True)) for name, x in zip(SCORES, row.T, strict=True)}


def list_scores(rows: Iterable[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Return rows of `scores` in percent, with their intervals, as a table with a header."""
    cells = [
        (row["label"] or "all", f"{row['gold']:,}", *(percent(row[score]) for score in SCORES))
        for row in rows
    ]
    return [("label", "gold", "precision", "recall", "F"), *cells]


def percent(score: dict[str, float | None]) -> str:
    value, low, high = score["value"], score["low"], score["high"]
    interval = "" if low is None or high is None else f" ({100 * low:.1f} to {100 * high:.1f})"
    return "-" if value is None else f"{100 * value:.1f}{interval}"


def _calibrate(evaluation: Evaluation, labels: Iterable[str | None]) -> Iterable[dict[str, Any]]:
    for label in labels:
        p, correct = evaluation.predictions(label)
        if len(p):
            table = measure_reliability(p, correct)
            yield {
                "label": label,
                "n": len(p),
                "error": table.error,
                "expected_error": expected_error(p),
                **table._asdict(),
            }


def _group(errors: Sequence[Place], texts: Sequence[str]) -> list[dict[str, Any]]:
    groups: dict[tuple[str, str | None, str | None], list[Place]] = defaultdict(list)
    for place in errors:
        pair = place[1]
        gold, predicted = (span and span.label for span in pair)
        groups[pair.kind, gold, predicted].append(place)
    return [
        {
            "kind": kind,
            "gold": gold,
            "predicted": predicted,
            "count": len(places),
            "examples": [_example(place, texts) for place in _most_certain(places, N_EXAMPLES)],
        }
        for (kind, gold, predicted), places in sorted(
            groups.items(), key=lambda item: (OUTCOMES.index(item[0][0]), -len(item[1]))
        )
    ]


def _most_certain(places: Sequence[Place], n: int) -> list[Place]:
    return sorted(places, key=lambda place: -(place[1].certainty or 0))[:n]


def _by_certainty(
    places: Sequence[Place], texts: Sequence[str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the most and the least certain places with probabilities, without overlap."""
    known = [place for place in places if place[1].certainty is not None]
    ordered = _most_certain(known, len(known))
    n = min(N_ERRORS, (len(ordered) + 1) // 2)
    most, least = ordered[:n], ordered[n:][::-1][:n]
    return [_example(place, texts) for place in most], [_example(place, texts) for place in least]


def _example(place: Place, texts: Sequence[str]) -> dict[str, Any]:
    """Return a pair in its context. The positions of the spans are of the whole text."""
    i, pair = place
    spans = [span for span in pair if span]
    text, first, last = texts[i], min(span.start for span in spans), max(span.end for span in spans)
    start, end = max(0, first - CONTEXT), min(len(text), last + CONTEXT)
    # Cut at spaces, if there are any.
    if start:
        start += max(0, text[start:first].find(" ") + 1)
    if end < len(text) and " " in text[last:end]:
        end = text.rindex(" ", last, end)
    return {
        "document": i,
        "kind": pair.kind,
        "gold": pair.gold,
        "predicted": pair.predicted,
        "offset": start,
        "context": text[start:end],
    }
