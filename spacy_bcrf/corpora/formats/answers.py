"""Spans as language models write them: in text, without offsets, or with wrong ones."""

import json
import re
from collections.abc import Iterator
from typing import Any

from bcrf.io.json_objects import Problem


def find_json(answer: str) -> list[Any]:
    """Return the JSON lists and objects in an answer, which may have text around them."""
    decoder, values, end = json.JSONDecoder(), [], 0
    for match in re.finditer(r"[\[{]", answer):
        if match.start() >= end:
            try:
                value, end = decoder.raw_decode(answer, match.start())
            except (ValueError, RecursionError):
                continue
            values.append(value)
    return values


def read_answer(answer: str) -> list[Any]:
    """Return the spans of an answer, which has one JSON value with spans, see `_read_spans`.

    Problem without one, or if several have spans: to choose one would lose votes, or turn them into
    votes for O.
    """
    values = find_json(answer)
    if not values:
        raise Problem("no JSON", f"the answer has no JSON list or object: {answer[:80]!r}")
    read = [_read_spans(value) for value in values]
    full = [spans for spans in read if spans]
    if len(full) > 1:
        got = f"{len(full)}: {str(full)[:80]}"
        raise Problem("several lists", f"expected one list of spans in the answer, got {got}")
    if not full and None in read:
        got = str(values[read.index(None)])[:80]
        raise Problem("no spans", f"expected a list of objects in the answer, got {got}")
    return full[0] if full else []


def _read_spans(value: Any) -> list[Any] | None:
    """Return the spans of a list of objects, of an object with one such list, or of an object of
    lists of texts by label; None for other JSON."""
    if isinstance(value, list):
        return value if not value or any(isinstance(one, dict) for one in value) else None
    full = [each for each in value.values() if isinstance(each, list) and each]
    if len(full) == 1 and any(isinstance(one, dict) for one in full[0]):
        return _read_spans(full[0])
    if all(isinstance(texts, list) for texts in value.values()):
        return [{"text": t, "label": label} for label, texts in value.items() for t in texts]
    return None


def locate(span: Any, text: str, everywhere: bool) -> Iterator[Any]:
    """Yield a span with its offsets in a text; a right one or another thing as it is.

    Offsets that are missing, or whose characters are not the span's `text`, are found by it.
    everywhere: whether a text without offsets that occurs several times means all places. Problem
    if no place or several places remain.
    """
    own = span.get("text") if isinstance(span, dict) else None
    if not isinstance(own, str) or not own.strip() or "token_start" in span:
        yield span
        return
    start, end = span.get("start"), span.get("end")
    has_offsets = isinstance(start, int) and isinstance(end, int) and 0 <= start < end
    if has_offsets and text[start:end].split() == own.split():
        yield span
        return
    own = own.strip()
    places = [m.start() for m in re.finditer(rf"(?<!\w){re.escape(own)}(?!\w)", text)]
    if not places:
        places = [m.start() for m in re.finditer(re.escape(own), text)]
    if not places:
        raise Problem("another text", f"the text of the span {own[:60]!r} does not occur")
    if len(places) > 1 and not (everywhere and start is None):
        raise Problem(
            "several places",
            f"the text of the span {own[:60]!r} occurs {len(places)} times; expected right start "
            'and end, or occurrences = "all" for spans without them',
        )
    for place in places:
        yield {**span, "start": place, "end": place + len(own)}
