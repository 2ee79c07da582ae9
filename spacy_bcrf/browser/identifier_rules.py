"""The component `bcrf_identifiers`, for `identifiers.js` and `phone_numbers.js`."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from bcrf.io.extras import require
from spacy_bcrf.annotation import identifiers
from spacy_bcrf.pipeline.identifier_recognizer import IdentifierRecognizer

from .patterns import to_javascript
from .sections import Sections

CONSTANTS = {
    "mostWords": identifiers.MOST_WORDS,
    "firstWords": identifiers.FIRST_WORDS,
    "before": identifiers.BEFORE,
    "longestKey": identifiers.LONGEST_KEY,
    "beginKey": identifiers.BEGIN_KEY,
    "noHandles": sorted(identifiers.NO_HANDLES),
    "noUsers": sorted(identifiers.NO_USERS),
}


def describe_identifiers(pipe: IdentifierRecognizer, sections: Sections) -> dict[str, Any]:
    """Return the component as JSON values: patterns, and metadata of telephone numbers."""
    patterns = {
        name.lstrip("_"): to_javascript(pattern)
        for name, pattern in vars(identifiers).items()
        if isinstance(pattern, re.Pattern)
    }
    national = {name: to_javascript(form) for name, form in identifiers.NATIONAL_FORMS.items()}
    regions = pipe.finder.regions
    return {
        "name": pipe.name,
        "writes": "entities",
        "labels": identifiers.LABELS,
        "patterns": patterns,
        "national": national,
        "regions": regions,
        "phones": sections.share(list(_describe_countries(regions))),
        **CONSTANTS,
    }


def _describe_countries(regions: Sequence[str]) -> Iterator[list[Any]]:
    """Yield what a browser needs of each country, the main one of a country code first."""
    phones = require("phonenumbers", "identifiers")
    codes = {phones.country_code_for_region(region) for region in regions}
    for code, names in phones.COUNTRY_CODE_TO_REGION_CODE.items():
        for region in names:
            country = phones.PhoneMetadata.metadata_for_region_or_calling_code(code, region)
            numbers = country.general_desc
            formats = country.number_format if code in codes and region == names[0] else ()
            yield [
                region,
                code,
                country.national_prefix_for_parsing,
                _template(country.national_prefix_transform_rule or ""),
                country.leading_digits,
                country.international_prefix if region in regions else None,
                numbers.national_number_pattern,
                numbers.possible_length,
                numbers.possible_length_local_only,
                list(_describe_kinds(country)),
                [_describe_format(one) for one in formats],
            ]


def _describe_kinds(country: Any) -> Iterator[tuple[Sequence[int], str]]:
    """Yield lengths and pattern of each kind of numbers, such as mobile ones."""
    kinds = ("fixed_line", "mobile", "toll_free", "premium_rate", "shared_cost")
    for name in (*kinds, "personal_number", "voip", "pager", "uan", "voicemail"):
        kind = getattr(country, name)
        if kind is not None and kind.national_number_pattern:
            yield kind.possible_length, kind.national_number_pattern


def _describe_format(one: Any) -> tuple[str, str, str]:
    """Return the pattern of numbers, the one of their first digits, and how they are written."""
    shown, rule = one.format, one.national_prefix_formatting_rule
    if rule:
        shown = re.sub(r"(\\\d)", rule, shown, count=1)
    return one.pattern, (one.leading_digits_pattern or [""])[-1], _template(shown)


def _template(replacement: str) -> str:
    """Return a replacement of `re.sub` as JavaScript's."""
    return re.sub(r"\\(\d)", r"$\1", replacement)
