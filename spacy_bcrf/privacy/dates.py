"""Dates that move by days, in their own format."""

import re
from datetime import date, timedelta

MOST_DAYS = 365
"""A date moves by 1 to MOST_DAYS days, to the past or to the future."""

# By language: English, German, French, Spanish. The first name with the given letters counts.
_MONTHS = (
    "january february march april may june july august september october november december",
    "januar februar märz april mai juni juli august september oktober november dezember",
    "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
)
_NUMBERS = re.compile(r"\s*(\d{1,4})([-./ ]\s?)(\d{1,2})\2(\d{4}|\d{2})\s*")
_NAME = r"(?P<month>[^\W\d_]{3,})"
_DAY = r"(?P<day>\d{1,2})(?P<ordinal>st|nd|rd|th)?"
_YEAR = r"(?:[\s,./-]+(?:(?:of|de)\s+)?(?P<year>[12]\d{3}))?"
_IN_WORDS = [
    re.compile(rf"\s*{form}{_YEAR}\s*", re.IGNORECASE)
    for form in (rf"{_DAY}[\s./-]*(?:(?:of|de)\s+)?{_NAME}\.?", rf"{_NAME}[\s./-]+{_DAY}")
]
_ANY_YEAR = 2004
"""The year of a date without one: a leap year."""


def draw_days(digest: bytes) -> int:
    """Return a number of days from random bytes: never 0."""
    days = int.from_bytes(digest[:8], "big") % (2 * MOST_DAYS)
    return days - MOST_DAYS if days < MOST_DAYS else days - MOST_DAYS + 1


def shift_date(text: str, days: int) -> str | None:
    """Return a date that has moved, None for a text that is more than one date, or none.

    The month of 3/4/2020 is the first number, that of 3.4.2020 the second one.
    """
    by = timedelta(days)
    for read in (_read_numbers, _read_words):
        try:
            found = read(text, by)
        except (ValueError, OverflowError):  # no such day
            continue
        if found is not None:
            return found
    return None


def _read_numbers(text: str, by: timedelta) -> str | None:
    match = _NUMBERS.fullmatch(text)
    if match is None:
        return None
    first, separator, middle, last = match.groups()
    parts, order = [first, middle, last], (0, 1, 2)
    if len(first) <= 2:
        is_american = (separator == "/" and int(first) <= 12) or int(middle) > 12
        order = (2, 0, 1) if is_american else (2, 1, 0)
    if len(parts[order[0]]) == 3:
        return None
    given = [int(parts[k]) for k in order]
    century = 0
    if len(parts[order[0]]) <= 2:
        century = 1900 if given[0] > 40 else 2000
    new = date(century + given[0], *given[1:]) + by
    width = min(len(parts[k]) for k in order[1:])
    for k, value in zip(order, (new.year, new.month, new.day), strict=True):
        shown = str(value)[-2:] if k == order[0] and century else str(value)
        parts[k] = shown.zfill(width)
    return text[: match.start(1)] + separator.join(parts) + text[match.end(4) :]


def _read_words(text: str, by: timedelta) -> str | None:
    match = next(filter(None, (form.fullmatch(text) for form in _IN_WORDS)), None)
    found = match and _find_month(match["month"])
    if match is None or found is None:
        return None
    names, number = found
    new = date(int(match["year"] or _ANY_YEAR), number, int(match["day"])) + by
    changes = {
        "month": _as_written(names[new.month - 1], match["month"], names[number - 1]),
        "day": str(new.day).zfill(2 if match["day"][0] == "0" else 1),
        "ordinal": _ordinal(new.day),
        "year": str(new.year),
    }
    for name in sorted(changes, key=match.start, reverse=True):
        if match[name] is not None:
            text = text[: match.start(name)] + changes[name] + text[match.end(name) :]
    return text


def _find_month(word: str) -> tuple[list[str], int] | None:
    for names in map(str.split, _MONTHS):
        for number, name in enumerate(names, 1):
            if name == word.lower() or (len(word) <= 4 and name.startswith(word.lower())):
                return names, number
    return None


def _as_written(name: str, word: str, old: str) -> str:
    """Return a month with the length and the case of another one."""
    name = name if word.lower() == old else name[: len(word)]
    return name.upper() if word.isupper() else name.title() if word[0].isupper() else name


def _ordinal(day: int) -> str:
    return "th" if 10 < day < 20 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
