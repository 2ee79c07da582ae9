"""Invented parts of documents, written as in dev.txt: `⟦LABEL|text⟧`. None is of a real person."""

import random
import re
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

from .values import WORDS

MONTHS, LONG_MONTHS = WORDS["months"], WORDS["long months"]
DAYS, WEEKDAYS = WORDS["days"], WORDS["weekdays"]
INITIALS = "ABCDEFGHJKLMNPRSTW"
SUBJECTS, UNITS = WORDS["subjects"], WORDS["units of mail"]
_SLOT = re.compile(r"\{([^{}]*)\}")
_IN_REAL = (
    (r"\b(?:He|he|She|she|him)\b(?!/)", "{who of one}"),
    (r"\b[Hh]is(?= [a-z]{3,})", "{bare}'s"),
    (r"\b(?:[Ss]omeone|[Ss]omebody|[Ee]veryone|[Nn]obody)\b", "{who of one}"),
    (r"\b[Mm]y (?:mom|mum|dad|husband|wife|son|daughter|brother|sister|friend|boss)\b", "{bare}"),
    (r"\bthe (?:manager|doctor|owner|driver|teacher|waiter|officer|dentist|vet)\b", "{who of one}"),
    (r"(?<=\S )(?:yesterday|tomorrow|today|last (?:week|month|year)|recently)\b", "on {date}"),
    (r"(?<=\S )(?:over )?there(?=[.,!?]| (?:for|to|and|with|again|yesterday|in)\b)", "{where}"),
    (r"(?<=\S )(?:here|home)(?=[.,!?]| (?:for|to|and|with|again)\b)", "{where}"),
    (r"\b[Tt]his (?:place|company|restaurant|hotel|store|shop|office|school)\b", "{org}"),
    (r"\b[Tt]he (?:company|restaurant|hotel|school|bank|hospital|government)\b", "{org}"),
    (r"\bin the (?:city|country|area|region|town)\b", "in {city}"),
)
"""Words of real sentences, and what stands in the place of the first one."""


class Pieces:
    """Random values and sentences. fillers, german: sentences of real texts without entities."""

    def __init__(
        self, values: Any, fillers: Sequence[str], german: Sequence[str], seed: int = 0
    ) -> None:
        self._v, self._fillers, self._r = values, fillers, random.Random(seed)
        self._makers: dict[str, Callable[[], str]] = {
            "p": self._person,
            "full": self._full,
            "bare": self._bare,
            "first": lambda: self._mark(self._name()[0]),
            "last": lambda: self._mark(self._name()[1]),
            "initials": self._initials,
            "spelled": lambda: self._spell(self._name()[1]),
            "spelled name": self._spell_name,
            "user": self._user,
            "mail": lambda: self._mail_of(self._name()),
            "org": self._org,
            "job": self._job,
            "age": self._age,
            "nation": self._nation,
            "city": self._city,
            "country": lambda: f"⟦GPE|{self._v.country()}⟧",
            "zip": self._zip,
            "street": self._street,
            "address": self._address,
            "lane": lambda: f"⟦STREET_ADDRESS|{self._lane()}⟧",
            "spokenstreet": self._say_street,
            "date": self._date,
            "spokendate": self._say_date,
            "phone": self._phone,
            "spokenphone": lambda: self._say_digits(10, 11),
            "id": self._id,
            "ids": self._ids,
            "spokenid": lambda: self._say_digits(5, 9),
            "spokenmail": self._say_mail,
            "host": self._host,
            "sku": self._sku,
            "filler": self._filler,
            "german": lambda: self._pick(*german),
            "gdate": self._german_date,
            "gstreet": self._german_street,
            "gcity": lambda: f"⟦GPE|{self._v.german.city_name()}⟧",
        }
        texts = [*fillers, "So he came back today."]
        found = [(text, re.search(old, text), new) for text in texts for old, new in _IN_REAL]
        self._carriers = [
            (text[: match.start()], new, text[match.end() :]) for text, match, new in found if match
        ]

    def _fill(self, template: str) -> str:
        """Replace slots: `{city}` of a maker, `{what}` of words.txt, `{2-9}`, and `{this/that}`."""
        return _SLOT.sub(lambda match: self._fill_slot(match[1]), template)

    def _fill_slot(self, name: str) -> str:
        if name in self._makers:
            return self._makers[name]()
        if name in WORDS:
            return self._fill(self._pick(*WORDS[name]))
        if limits := re.fullmatch(r"(\d+)-(\d+)", name):
            return str(self._n(int(limits[1]), int(limits[2])))
        return self._fill_slot(self._pick(*name.split("/"))) if "/" in name else name

    def _pick(self, *options: Any) -> Any:
        return self._r.choice(options)

    def _n(self, low: int, high: int) -> int:
        return self._r.randint(low, high)

    def _maybe(self, text: str, p: float = 0.5) -> str:
        return text if self._r.random() < p else ""

    def _name(self) -> tuple[str, str]:
        """Return first and last name. Some are in no list, so that their context decides."""
        fake = self._v.any_name()
        first, last, chance = fake.first_name(), fake.last_name(), self._r.random()
        if chance < 0.15:
            first = self._pick(*WORDS["nicknames"])
        elif chance < 0.3:
            first = self._join(first, self._v.any_name().first_name())
        if chance > 0.95:
            last = f"{last}-{self._v.any_name().last_name()}"
        elif chance > 0.75:
            last = self._join(last, self._v.any_name().last_name())
        return first, last

    def _join(self, one: str, other: str) -> str:
        """Return a name of the start of one and the end of another one."""
        return one[: max(2, len(one) // 2)] + other[(len(other) + 1) // 2 :].lower()

    def _mark(self, name: str) -> str:
        """Mark a person, some in capitals."""
        return f"⟦PERSON|{name.upper() if self._r.random() < 0.06 else name}⟧"

    def _bare(self) -> str:
        """Return a part of a name alone."""
        first, last = self._name()
        return self._mark(self._pick(first, first, first, last))

    def _initials(self) -> str:
        letters = [self._pick(*INITIALS) for _ in range(2 if self._r.random() < 0.9 else 3)]
        return f"⟦PERSON|{self._pick('', '', '', '.').join(letters)}⟧"

    def _person(self, name: tuple[str, str] | None = None) -> str:
        first, last = name or self._name()
        title = self._pick(
            "Mr", "Mrs", "Ms", "Dr", "Mr.", "Mrs.", "Ms.", "Dr.", "Prof.", "Cllr", "Sir"
        )
        forms = (
            *([f"{first} {last}"] * 6 + [first] * 4 + [last] * 2),
            *(f"{title} {last}", f"{title} {first} {last}", f"{first[0]}. {last}"),
            *(f"{last}, {first}", f"{first} {self._pick(*INITIALS)}. {last}", f"{first[0]} {last}"),
            *(f"{first} {self._name()[1]} {last}", f"{first} {last[0]}", f"{first} {last[0]}."),
            *(
                f"{first[0]}. {last}",
                f"{first[0]}. {last}-{self._name()[1]}",
                f"{last} {first[0]}.",
            ),
        )
        return self._mark(self._pick(*forms))

    def _full(self, name: tuple[str, str] | None = None) -> str:
        first, last = name or self._name()
        middle = self._maybe(f" {self._pick(*INITIALS)}{self._pick('.', '.', '')}", 0.25)
        straight, turned = f"{first}{middle} {last}", f"{last}, {first}{middle}"
        return self._mark(self._pick(straight, straight, turned))

    def _org(self) -> str:
        return f"⟦ORGANIZATION|{self._v.company()}⟧"

    def _city(self) -> str:
        return f"⟦GPE|{self._v.city()}⟧"

    def _street(self) -> str:
        """Return a street with a number, or a flat."""
        number = f"{self._n(1, 299)}{self._maybe(self._pick(*'abcA'), 0.1)}"
        flat = f"{self._pick('Flat', 'Flat', 'Apt', 'Unit', 'Apartment', 'Room')} {self._n(1, 60)}"
        near, own = f"{number} {self._lane()}", self._v.street()
        street = self._pick(own, own, own, near, near, f"{flat}, {near}", flat)
        return f"⟦STREET_ADDRESS|{street}⟧"

    def _lane(self) -> str:
        words, kind = WORDS["street words"], self._pick(*WORDS["street kinds"])
        last, city, name = self._v.any_name().last_name(), self._v.city(), self._pick(*words)
        name = self._pick(name, name, name, f"{name} {self._pick(*words)}")
        return f"{self._pick(name, name, last, city, self._join(last, name))} {kind}"

    def _address(self) -> str:
        between = self._pick(", ", ", ", "\n", " ")
        return f"{self._street()[:-1]}{between}{self._v.town_line()}⟧"

    def _zip(self) -> str:
        return f"⟦STREET_ADDRESS|{self._v.postcode()}⟧"

    def _date(self, form: str = "") -> str:
        """Return a date. form: of words.txt, a random one by default."""
        at = date(self._n(1940, 2026), self._n(1, 12), self._n(1, 28))
        end = {1: "st", 2: "nd", 3: "rd"}.get(at.day % 10 if at.day // 10 != 1 else 0, "th")
        day = (form or self._pick(*WORDS["dates"])).format(
            **{"d": at.day, "m": at.month, "y": at.year, "dd": f"{at.day:02}", "th": end},
            **{"e": at.day + 1, "f": at.day + 2},
            **{"mm": f"{at.month:02}", "yy": f"{at.year % 100:02}", "mon": MONTHS[at.month - 1]},
            **{"month": LONG_MONTHS[at.month - 1], "day": DAYS[at.weekday()]},
            weekday=WEEKDAYS[at.weekday()],
        )
        return f"⟦DATE_TIME|{day.upper() if self._r.random() < 0.1 else day}⟧"

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
        year, n = self._n(2000, 2026), digits[:5]
        forms = (
            *(f"{letters}-{digits}", f"{letters}{digits}", digits, f"{digits[:4]}-{digits[3:]}"),
            *(f"{letters}-{year}-{n}", f"{n}/{year % 100:02}", f"{digits}-{letters}"),
            *(f"{letters} {digits[:3]} {digits[3:]}", f"{letters}{digits}{letters}"),
            *(f"{letters}-{digits[:2]}-{digits[2:5]}", f"{letters}/{year % 100}/{digits}"),
            *(f"{digits[:2]}-{digits[2:4]}-{digits[4:]} {digits}", f"{year}/{n}", f"{year}-{n}"),
            *(f"{letters}{n[:2]} {letters}{self._pick(*INITIALS)}", f"{n[:3]} {n[2:]} {n[1:]}"),
            f"{digits[:2]}-{digits[1:5]}-{letters[0]}",
            *(
                f"{letters}-{n}",
                f"{letters}{n[:4]}",
                f"{letters}.{n}",
                f"{letters}/{n[:4]}/{year % 100}",
                n,
            ),
        )
        return f"⟦ID|{self._pick(*forms)}⟧"

    def _sku(self) -> str:
        """Return the number of a product, which is not private."""
        letters = "".join(self._pick(*INITIALS) for _ in range(self._n(1, 3)))
        sku = f"{letters}{self._pick('-', '-', ' ', '')}{self._n(1, 999)}"
        return sku + self._maybe(f"-{self._pick(*INITIALS)}", 0.2)

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
        age = self._n(1, 95)
        return f"⟦AGE|{self._say(age) if self._r.random() < 0.1 else age}⟧"

    def _host(self) -> str:
        """Return the name of a computer, which may have the name of its user."""
        user = re.sub(r"\W", "", self._pick(*self._name())).upper()
        end = self._pick("LAPTOP", "PC", "MBP", "iPhone", "WS", f"{self._n(1, 99):02}")
        host = self._pick(f"{user}-{end}", f"{end}-{user}", f"{user}s-{end}")
        return f"⟦ID|{self._pick(host, host.lower())}⟧"

    # Speech

    def _say(self, n: int) -> str:
        """Return a number below 100 in words."""
        if n < 20:
            return WORDS["ones"][n - 1] if n else "oh"
        ten, one = WORDS["tens"][n // 10 - 2], n % 10
        return ten + (self._pick("-", " ") + WORDS["ones"][one - 1] if one else "")

    def _say_date(self) -> str:
        two = self._say(self._n(30, 99))
        year = self._pick(two, f"nineteen {two}", f"two thousand and {self._say(self._n(1, 25))}")
        form = self._pick(*WORDS["spoken dates"])
        nth, month = self._pick(*WORDS["ordinals"]), self._pick(*LONG_MONTHS)
        return f"⟦DATE_TIME|{form.format(nth=nth, month=month, year=year)}⟧"

    def _say_digits(self, low: int, high: int) -> str:
        """Return digits with gaps, or in words."""
        digits = [self._n(0, 9) for _ in range(self._n(low, high))]
        said = self._pick([str(d) for d in digits], [self._say(d) for d in digits])
        if self._r.random() < 0.3:
            i = self._n(1, len(said) - 2)
            said[i : i + 2] = ["double", said[i]]
        breaks = [self._pick(" ", " ", " ", ", ") for _ in said[1:]]
        return f"⟦ID|{''.join(a + b for a, b in zip(said, [*breaks, ''], strict=True))}⟧"

    def _say_mail(self) -> str:
        first, last = (re.sub(r"\W", "", part).lower() for part in self._name())
        local = self._pick(
            f"{first} dot {last}", f"{first}{last}", f"{first} dot {last[:1]}", first
        )
        end = self._pick("com", "org", "co dot uk", "net", "example")
        return f"⟦ID|{local} at {self._word()}{self._pick('mail', '', 'post')} dot {end}⟧"

    def _say_street(self) -> str:
        return f"⟦STREET_ADDRESS|{self._say(self._n(1, 99))} {self._lane()}⟧"

    def _spell(self, name: str) -> str:
        between = self._pick("-", "-", " ", ", ", ". ")
        signs = {"'": "apostrophe", "-": self._pick("hyphen", "dash")} if " " in between else {}
        letters = (signs.get(c, c) for c in name.upper() if c.isalpha() or c in signs)
        return f"⟦PERSON|{between.join(letters) or name}⟧"

    def _spell_name(self) -> str:
        first, last = self._name()
        return f"{self._mark(f'{first} {last}')}, {self._spell(self._pick(first, last))}"

    def _subject(self) -> str:
        """Return the subject of a mail or the title of a file, mostly in title case."""
        words = self._pick(
            *(self._filler(), self._fill("{what} {what}"), self._fill("{headings} {goods}")),
            *[" ".join(self._r.sample(SUBJECTS, self._n(2, 5))) for _ in range(3)],
        ).split()
        start = self._n(0, max(0, len(words) - 3))
        text = " ".join(words[start : start + self._n(2, 7)]).rstrip(".,!?;:")
        changed = self._pick(text, text.title(), text.title(), text.upper())
        return changed + self._pick(
            "", "", "", f" {self._n(1, 12)}/{self._n(1, 28)}", f" - Q{self._n(1, 4)}"
        )

    def _word(self) -> str:
        return self._pick(*WORDS["street words"], *WORDS["tools"]).split()[-1].lower()

    def _filler(self) -> str:
        return self._pick(*self._fillers)

    def _note(self) -> str:
        """Return an expression without values."""
        return self._fill_slot("notes")

    def _body(self, n: int) -> str:
        return " ".join(self._pick(self._filler, self._filler, self._sentence)() for _ in range(n))

    def _carried(self) -> str:
        """Return a real sentence with a value in the place of a word."""
        before, new, after = self._pick(*self._carriers)
        return before + self._fill(new) + after

    def _sentence(self) -> str:
        """Return a sentence with values."""
        chance = self._r.random()
        if chance < 0.3:
            return self._carried()
        if chance < 0.4:
            return self._note() + self._pick(".", ".", "")
        text = self._fill_slot("sentences" if chance < 0.85 else "press").replace("\\n", "\n")
        if self._r.random() < 0.7:
            text = text[0].upper() + text[1:]
        return text if text[-1] in ".!?x" else text + self._pick(".", ".", "", "!")

    # German

    def _german_date(self) -> str:
        d, m, y = self._n(1, 28), self._n(1, 12), self._n(1940, 2026)
        month = WORDS["german months"][m - 1]
        forms = (
            f"{d}. {month} {y}",
            f"{d:02}.{m:02}.{y}",
            f"{d}.{m}.{y % 100:02}",
            f"{d}. {month}",
        )
        return f"⟦DATE_TIME|{self._pick(*forms, f'{d}.{m}.')}⟧"

    def _german_street(self) -> str:
        street = f"{self._v.german.street_name()} {self._n(1, 199)}"
        town = f", {self._v.german.postcode()} {self._v.german.city_name()}"
        return f"⟦STREET_ADDRESS|{street}{self._maybe(town)}⟧"
