# ruff: noqa: E501
"""Invented parts of documents, written as in dev.txt: `⟦LABEL|text⟧`. None is of a real person."""

import random
import re
from collections.abc import Sequence
from typing import Any

from .values import WORDS

MONTHS, LONG_MONTHS = WORDS["months"], WORDS["long months"]
DAYS, WEEKDAYS = WORDS["days"], WORDS["weekdays"]
INITIALS = "ABCDEFGHJKLMNPRSTW"
NOTES, SUBJECTS, UNITS = WORDS["notes"], WORDS["subjects"], WORDS["units"]


class Pieces:
    """Random values and sentences. fillers: sentences of real texts without entities."""

    def __init__(self, values: Any, fillers: Sequence[str], seed: int = 0) -> None:
        self._v, self._fillers, self._r = values, fillers, random.Random(seed)

    def _pick(self, *options: Any) -> Any:
        return self._r.choice(options)

    def _n(self, low: int, high: int) -> int:
        return self._r.randint(low, high)

    def _maybe(self, text: str, p: float = 0.5) -> str:
        return text if self._r.random() < p else ""

    def _name(self) -> tuple[str, str]:
        """Return first and last name."""
        fake = self._v.any_name()
        return fake.first_name(), fake.last_name()

    def _person(self, name: tuple[str, str] | None = None) -> str:
        first, last = name or self._name()
        title = self._pick(
            "Mr", "Mrs", "Ms", "Dr", "Mr.", "Mrs.", "Ms.", "Dr.", "Prof.", "Cllr", "Sir"
        )
        forms = (
            [f"{first} {last}"] * 6
            + [first] * 3
            + [
                f"{title} {last}",
                f"{title} {first} {last}",
                f"{first[0]}. {last}",
                f"{last}, {first}",
                f"{first} {self._pick(*INITIALS)}. {last}",
                f"{first} {self._name()[1]} {last}",
            ]
        )
        return f"⟦PERSON|{self._pick(*forms)}⟧"

    def _full(self, name: tuple[str, str] | None = None) -> str:
        first, last = name or self._name()
        middle = self._maybe(f" {self._pick(*INITIALS)}{self._pick('.', '.', '')}", 0.25)
        straight, turned = f"{first}{middle} {last}", f"{last}, {first}{middle}"
        return f"⟦PERSON|{self._pick(straight, straight, turned)}⟧"

    def _org(self) -> str:
        return f"⟦ORGANIZATION|{self._v.company()}⟧"

    def _city(self) -> str:
        return f"⟦GPE|{self._v.city()}⟧"

    def _street(self) -> str:
        return f"⟦STREET_ADDRESS|{self._v.street()}⟧"

    def _address(self) -> str:
        between = self._pick(", ", ", ", "\n", " ")
        return f"⟦STREET_ADDRESS|{self._v.street()}{between}{self._v.town_line()}⟧"

    def _zip(self) -> str:
        return f"⟦STREET_ADDRESS|{self._v.postcode()}⟧"

    def _day(self) -> str:
        d, m, y = self._n(1, 28), self._n(1, 12), self._n(1940, 2026)
        forms = (
            *(
                f"{d} {LONG_MONTHS[m - 1]} {y}",
                f"{LONG_MONTHS[m - 1]} {d}, {y}",
                f"{y}-{m:02}-{d:02}",
            ),
            *(
                f"{d:02}/{m:02}/{y}",
                f"{m:02}/{d:02}/{y}",
                f"{d:02}.{m:02}.{y}",
                f"{d} {MONTHS[m - 1]} {y}",
            ),
            *(f"{d}/{m}/{y % 100:02}", f"{LONG_MONTHS[m - 1]} {y}", f"{d} {LONG_MONTHS[m - 1]}"),
        )
        return self._pick(*forms)

    def _date(self) -> str:
        return f"⟦DATE_TIME|{self._day()}⟧"

    def _stamp(self) -> str:
        """Return the date of a mail."""
        d, m, y = self._n(1, 28), self._n(0, 11), self._n(1998, 2026)
        time = f"{self._n(0, 23):02}:{self._n(0, 59):02}{self._maybe(f':{self._n(0, 59):02}', 0.2)}"
        # Programs break lines within a date.
        gap = self._pick(" ", " ", " ", " ", " \n", "\n", "\n\t")
        half = f"{time}{self._pick(' ', ' ', ' ', '', gap)}{self._pick('AM', 'PM')}"
        half += self._maybe(self._pick(" CDT", " CST", " EST", " PST"), 0.1)
        forms = (
            f"{self._pick(*DAYS)}, {d} {MONTHS[m]} {y} {time}:{self._n(0, 59):02}",
            f"{m + 1:02}/{d:02}/{y}{gap}{half}",
            f"{m + 1}/{d}/{y % 100:02}{gap}{half}",
            f"{LONG_MONTHS[m]} {d}, {y}{gap}{half}",
            f"{y}-{m + 1:02}-{d:02} {time}",
        )
        stamp = self._pick(*forms)
        # A day of the week alone says little.
        day = self._pick(*WEEKDAYS) + ", " if stamp[0] in "JFMASOND" and "," in stamp[5:] else ""
        zone = self._maybe(self._pick(" +0100", " -0800 (PST)", " +0000"), 0.4)
        return f"{day}⟦DATE_TIME|{stamp}⟧{zone}"

    def _id(self) -> str:
        letters = "".join(self._pick(*"ABCDEFGHJKLMNPRSTUVWXYZ") for _ in range(self._n(1, 3)))
        digits = "".join(str(self._n(0, 9)) for _ in range(self._n(5, 9)))
        forms = (
            *(f"{letters}-{digits}", f"{letters}{digits}", digits, f"{digits[:4]}-{digits[3:]}"),
            *(f"{letters}-{self._n(2000, 2026)}-{digits[:5]}", f"{digits[:5]}/{self._n(0, 99):02}"),
            *(
                f"{letters} {digits[:3]} {digits[3:]}",
                f"{letters}{digits}{letters}",
                f"{digits}-{letters}",
            ),
            *(
                f"{letters}-{digits[:2]}-{digits[2:5]}",
                f"{digits[:2]}-{digits[2:4]}-{digits[4:]} {digits}",
            ),
        )
        return f"⟦ID|{self._pick(*forms)}⟧"

    def _ids(self) -> str:
        """Return a list of ids of one form."""
        sign, year = self._pick("/", "/", "-", " "), self._n(60, 99)
        forms = [f"{self._n(100, 99999)}{sign}{min(99, year + i)}" for i in range(self._n(2, 6))]
        *before, last = [f"⟦ID|{form}⟧" for form in forms]
        return f"{', '.join(before)} {self._pick('and', 'and', 'or', '&')} {last}"

    def _phone(self) -> str:
        return f"⟦PHONE_NUMBER|{self._v.phone()}⟧"

    def _mail_of(self, name: tuple[str, str]) -> str:
        first, last = (re.sub(r"\W", "", part).lower() for part in name)
        host = re.sub(r"\W", "", self._v.company().split()[0]).lower() or "mail"
        local = self._pick(f"{first}.{last}", f"{first[:1]}{last}", first, f"{first}_{last}")
        return f"⟦ID|{local}@{host}.{self._pick('com', 'org', 'example', 'net', 'co.uk', 'de')}⟧"

    def _user(self, name: tuple[str, str] | None = None) -> str:
        first, last = (re.sub(r"\W", "", part).lower() for part in name or self._name())
        forms = (
            *(
                f"{first}.{last[:1]}",
                f"{first}_{last[:1]}",
                f"{first[:1]}{last}",
                f"{first}{self._n(1, 99)}",
            ),
            *(
                f"{first}_{last}",
                f"{first}.{last}",
                f"{self._word()}{first.title()}",
                f"svc_{first}",
            ),
            *(f"{self._word().title()}Of{self._word().title()}", f"{last}{self._word()}"),
        )
        return f"⟦PERSON|{self._pick(*forms)}⟧"

    def _job(self) -> str:
        return f"⟦TITLE|{self._v.job()}⟧"

    def _nation(self) -> str:
        return f"⟦NRP|{self._v.nation()}⟧"

    def _age(self) -> str:
        return f"⟦AGE|{self._n(1, 95)}⟧"

    def _subject(self) -> str:
        """Return the subject of a mail or the title of a file, mostly in title case."""
        words = self._pick(
            self._filler(), " ".join(self._r.sample(SUBJECTS, self._n(2, 5)))
        ).split()
        start = self._n(0, max(0, len(words) - 3))
        text = " ".join(words[start : start + self._n(2, 7)]).rstrip(".,!?;:")
        changed = self._pick(text, text.title(), text.title(), text.upper())
        return changed + self._pick(
            "", "", "", f" {self._n(1, 12)}/{self._n(1, 28)}", f" - Q{self._n(1, 4)}"
        )

    def _word(self) -> str:
        return self._pick(
            "harbor", "cat", "river", "gamer", "sun", "chef", "moon", "fox", "spoon", "hill"
        )

    def _filler(self) -> str:
        return self._pick(*self._fillers)

    def _body(self, n: int) -> str:
        return " ".join(self._pick(self._filler, self._filler, self._sentence)() for _ in range(n))

    def _sentence(self) -> str:
        """Return a sentence with values."""
        p = self._person
        makers = (
            lambda: f"Please call {p()} at {self._phone()}.",
            lambda: f"{p()} from {self._org()} will join us in {self._city()}.",
            lambda: f"I talked to {p()} and {p()} about it, {self._filler()}",
            lambda: f"we live at {self._street()} now, come by",
            lambda: f"The foreman is {p()}, his number is {self._phone()}.",
            lambda: f"{p()} says hi",
            lambda: f"could you send {p()}s address? its {self._address()}",
            lambda: f"{p()}, {p()} and {p()} have the slides.",
            lambda: f"She works at {self._org()} in {self._city()}.",
            lambda: f"Order {self._id()} for {p()} is late.",
            lambda: f"{p()} was born on {self._date()} in {self._city()}.",
            lambda: (
                f"Your parcel {self._id()} arrives today {self._n(8, 12)}:00-{self._n(13, 18)}:00."
            ),
            lambda: (
                f"{self._org()}: your code is {self._n(100, 999)} {self._n(100, 999)}. Never share it."
            ),
            lambda: f"meet me at {self._org()} in {self._city()} this sunday, with {p()}",
            lambda: (
                f"Ask {p()} re the forms ({self._pick('hosp.', 'office', 'branch')} in {self._city()})."
            ),
            lambda: f"dinner at {p()}s? bring the drill",
            lambda: f"{p()}, who hates soup, had two bowls. Serves {self._n(2, 9)}.",
            lambda: (
                f"My {self._pick('husband', 'wife', 'brother', 'boss', 'son', 'daughter')} {p()} was there."
            ),
            lambda: f"Payment to account {self._id()}, policy {self._id()}.",
            lambda: f"{self._pick('See', 'Cases', 'Files nos.', 'Applications')} {self._ids()}.",
            lambda: f"Passengers to {self._city()} change in {self._city()}.",
            lambda: f"thanks {self._user()}!",
            lambda: f"{p()}, {self._age()}, is {self._nation()}.",
            lambda: f"I'm {self._age()} years old and work as a {self._job()}.",
            lambda: f"He is {self._nation()}, she turned {self._age()} on {self._date()}.",
            lambda: self._pick(*NOTES) + ".",
            lambda: self._pick(*NOTES) + ".",
        )
        return self._pick(*makers)()
