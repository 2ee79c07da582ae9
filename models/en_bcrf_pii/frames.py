# ruff: noqa: E501
"""Documents of many kinds with invented values, written as in dev.txt: `⟦LABEL|text⟧`."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from .pieces import INITIALS, NOTES, UNITS
from .tables import Tables
from .values import WORDS

FOOTERS = WORDS["footers"]


class Frames(Tables):
    """Random documents of each kind. values: see `Values`."""

    def __init__(self, values: Any, fillers: Sequence[str], seed: int = 0) -> None:
        super().__init__(values, fillers, seed)
        self.kinds: dict[str, Callable[[], str]] = {
            "mail": self._mail,
            "chat": self._chat,
            "log": self._log,
            "csv": self._csv,
            "json": self._json,
            "html": self._html,
            "markdown": self._markdown,
            "form": self._form,
            "invoice": self._invoice,
            "cv": self._cv,
            "clinical": self._clinical,
            "notes": self._notes,
            "prose": self._prose,
            "xml": self._xml,
            "code": self._code,
            "transcript": self._transcript,
            "statement": self._statement,
            "minutes": self._minutes,
            "german": self._german,
            "plain": self._plain,
        }

    def make(self, kind: str) -> str:
        marked = self.kinds[kind]()
        choice = self._r.random()
        if kind in ("mail", "prose", "minutes") and self._r.random() < 0.5:
            marked = _wrap(marked, self._n(60, 80), self._pick("\n", " \n"))
        if kind in ("log", "code", "json", "xml", "html"):
            return marked
        if choice < 0.06:
            return _change_case(marked, str.upper)
        return _change_case(marked, str.lower) if choice < 0.16 else marked

    def _mail(self) -> str:
        one, other = self._name(), self._name()
        lines = []
        for _ in range(self._n(1, 3)):
            lines += self._headers(one, other)
            lines += [
                "",
                f"{self._pick('Hi', 'Dear', 'Hello', 'Hey', '')} {self._greet(other)},".strip(),
                "",
            ]
            lines += [self._body(self._n(1, 4)) for _ in range(self._n(1, 3))]
            lines += ["", *self._signature(one), ""]
            if self._r.random() < 0.4:
                lines += [
                    self._pick(
                        "-----Original Message-----",
                        f"On {self._stamp()}, {self._full(other)} wrote:",
                    )
                ]
            one, other = other, one
        if self._r.random() < 0.15:
            lines += [self._pick(*FOOTERS)]
        if self._r.random() < 0.3:
            lines = [f"> {line}" if i > len(lines) // 2 else line for i, line in enumerate(lines)]
        return "\n".join(lines)

    def _greet(self, name: tuple[str, str]) -> str:
        return f"⟦PERSON|{self._pick(name[0], name[0], f'Mr {name[1]}', f'Ms {name[1]}', name[0] + ' ' + name[1])}⟧"

    def _headers(self, one: tuple[str, str], other: tuple[str, str]) -> list[str]:
        def show_any(name: tuple[str, str]) -> str:
            full = self._full(name)
            forms = (
                *(
                    full,
                    full,
                    f'"{full}" <{self._mail_of(name)}>',
                    f"{full} <{self._mail_of(name)}>",
                ),
                *(
                    self._mail_of(name),
                    f"{full} [mailto:{self._mail_of(name)}]",
                    self._notes_of(name),
                ),
            )
            return self._pick(*forms)

        def show_turned(name: tuple[str, str]) -> str:
            return f"⟦PERSON|{name[1]}, {name[0]}{self._maybe(f' {self._pick(*INITIALS)}.', 0.3)}⟧"

        # One program writes all names of a mail alike.
        show = self._pick(show_any, show_any, show_turned, self._notes_of)
        others = self._pick("; ", ", ").join(show(self._name()) for _ in range(self._n(1, 9)))
        lines = [
            self._pick("From: ", "From:\t", " From: ", "") + show(one),
            self._pick("To: ", "To:\t", " To: ", "to ") + show(other),
            *[self._pick("Cc: ", "cc: ", "CC:\t") + others] * self._n(0, 1),
            self._pick("Date: ", "Sent: ", "Sent:\t", "", "on ") + self._stamp(),
            self._pick("Subject: ", "Subject:\t", " Subject: ")
            + self._pick("Re: ", "RE: ", "FW: ", "", "")
            + self._subject(),
        ]
        if self._r.random() < 0.2:
            lines = [
                f"{self._pick('Forwarded by', '---- Forwarded by')} {show(one)} on {self._stamp()} ----",
                *lines,
            ]
        if self._r.random() < 0.3:
            lines[1:3] = [
                lines[1] + ", " + ", ".join(show(self._name()) for _ in range(self._n(2, 9)))
            ]
        return lines

    def _notes_of(self, name: tuple[str, str]) -> str:
        """Return a name with its route in a mail system, which names units and hosts."""
        host = self._pick(*UNITS, "Enron", "ACME", self._v.company().split()[0])
        host = self._pick(host, f"{host} {self._pick('Communications', 'Group', 'Legal', 'Sales')}")
        unit = "".join(f"/{self._pick(*UNITS, host)}" for _ in range(self._n(0, 2)))
        other = self._pick(host, host.upper(), host.lower() + self._pick("XGate", "mail", ""))
        return f"⟦PERSON|{name[0]} {name[1]}⟧{unit}{self._pick('@', '@', ' @ ')}{other}"

    def _signature(self, name: tuple[str, str]) -> list[str]:
        lines = [
            self._pick("Thanks,", "Regards,", "Best,", "Cheers", "Sincerely,", ""),
            self._greet(name),
        ]
        if self._r.random() < 0.6:
            more = [
                self._full(name) + self._maybe(f" | {self._job()}"),
                self._job(),
                self._org(),
                self._address(),
                f"{self._pick('Tel.', 'Phone:', 'T:', 'Ph', '', 'Office:')} {self._phone()}",
                f"{self._pick('Fax', 'F:', 'Mobile', '(fax)')} {self._phone()}",
                self._mail_of(name),
            ]
            lines += ["--", *(line for line in more if self._r.random() < 0.6)]
        return lines

    def _chat(self) -> str:
        users = [self._pick(self._user, self._user, self._person)() for _ in range(self._n(2, 4))]
        style, minute = self._pick(0, 1, 2, 3), 0
        lines = []
        for _ in range(self._n(4, 12)):
            user, minute = self._pick(*users), minute + 1
            said = self._pick(self._filler, self._sentence, self._sentence)()
            time = f"{self._n(7, 22):02}:{minute:02}"
            lines.append(
                (
                    f"[{time}] {user}: {said}",
                    f"{user}: {said}",
                    f"<{user}> {said}",
                    f"{time} - {user}: {said}",
                )[style]
            )
        return "\n".join(lines)

    def _markdown(self) -> str:
        lines = [
            f"# {self._pick('Incident', 'Release', 'Meeting', 'Plan')} {self._n(2015, 2026)}-{self._n(1, 99):03}",
            "",
        ]
        lines += [
            f"**{self._pick('Owner', 'Author', 'Contact', 'Lead')}:** {self._full()} (`@{self._user()}`)",
            f"**Status:** {self._pick('open', 'closed')}",
            "",
        ]
        for _ in range(self._n(2, 6)):
            bullet = self._pick("- ", "* ", "1. ", "- [x] ", "- [ ] ", "> ", "## ")
            lines.append(
                bullet
                + self._pick(
                    self._sentence, self._filler, lambda: f"{self._person()}: {self._filler()}"
                )()
            )
        lines += [f"| name | city |\n|---|---|\n| {self._full()} | {self._city()} |"] * self._n(
            0, 1
        )
        return "\n".join(lines)

    def _invoice(self) -> str:
        items = "\n".join(
            f"{self._n(1, 9)}   {self._pick('Oak shelf, 120 x 30 cm', 'Wall bracket, steel', 'Paper A4', 'Service, 2 h')}     {self._n(5, 99)}.{self._n(0, 99):02}     {self._n(99, 999)}.{self._n(0, 99):02}"
            for _ in range(self._n(1, 4))
        )
        gap = self._pick("\n", "              ")
        return (
            f"{self._pick('INVOICE', 'Invoice', 'Receipt', 'ORDER')} {self._pick('No.', '#', 'no', '')} {self._id()}     Date: {self._date()}\n\n"
            f"{self._pick('Bill to:', 'Customer:', 'Ship to:', 'To')}{gap}{self._full()}\n{self._maybe(self._org() + chr(10))}{self._street()}\n⟦STREET_ADDRESS|{self._v.town_line()}⟧\n\n"
            f"Qty  Article      Unit price   Amount\n{items}\n   VAT {self._n(5, 25)}%   {self._n(5, 99)}.20\n   TOTAL EUR {self._n(100, 999)}.70\n\n"
            f"Please pay within {self._n(7, 30)} days to {self._v.iban()}. Questions: {self._mail_of(self._name())}, {self._phone()}"
        )

    def _cv(self) -> str:
        name = self._name()
        return (
            f"{self._full(name)}\n{self._address()} · {self._phone()} · {self._mail_of(name)}\n"
            f"{self._pick('Date of birth', 'Born')}: {self._date()} · {self._maybe('Nationality: ⟦NRP|' + self._v.nation() + '⟧')}\n\nEXPERIENCE\n"
            + "\n".join(
                f"{(y := self._n(1995, 2022))} - {self._pick('today', y + self._n(1, 4))}  {self._v.job()}, {self._org()}, {self._city()}\n  - {self._pick(self._filler(), *NOTES)}"
                for _ in range(self._n(1, 4))
            )
            + f"\n\nEDUCATION\n{self._pick('B.Sc.', 'M.A.', 'B.Tech.')}, {self._org()}, {self._n(1980, 2024)}. Grade {self._n(1, 9)}.{self._n(0, 9)}\n\n"
            f"REFERENCES\n{self._full()}, {self._v.job()}, {self._mail_of(self._name())}"
        )

    def _clinical(self) -> str:
        p, f = self._person(), self._filler
        notes = [self._pick(*NOTES) for _ in range(4)]
        forms = (
            f"Patient: {self._full()}   MRN: {self._id()}   DOB: {self._date()}   Sex: {self._pick('F', 'M')}\n"
            f"Admitted: {self._date()}   Discharged: {self._date()}\nAttending: {self._person()}, {self._org()}\n\n"
            f"This is a {self._age()} year old {self._pick('woman', 'man')} with type {self._n(1, 2)} diabetes who presented with chest pain of {self._n(2, 9)} hours. "
            f"{notes[0]}. Aspirin {self._n(50, 100)} mg daily. {notes[1]}. Follow-up with {p} in two weeks. Her daughter {self._person()} ({self._phone()}) lives in {self._city()}.",
            f"pt seen in clinic today, c/o headache x{self._n(2, 5)}d. bp {self._n(110, 150)}/{self._n(60, 95)}, temp 37.{self._n(0, 9)}. {notes[2]}. {p} lives alone in {self._city()}. plan: ibuprofen 400 tid. gp: {self._person()}, tel {self._phone()}.",
            f"{p} was seen by {self._person()} on {self._date()} at {self._org()}. {notes[0]}. {f()} {notes[3]}. Dictated by {self._person()}, transcribed {self._date()}.",
        )
        return self._pick(*forms)

    def _notes(self) -> str:
        lines = []
        for _ in range(self._n(3, 9)):
            what = self._pick(
                f"{self._person()}: {self._filler()}",
                f"{self._person()} out sick, back {self._pick('thu', 'mon', 'friday')}",
                f"ask {self._person()} re {self._pick('forms', 'budget', 'the slides')}",
                *(self._pick(*NOTES), self._filler(), self._sentence()),
                f"{self._person()}'s bday {self._pick('fri', 'sat')}!! cake",
                f"{self._person()} -> {self._city()}, {self._n(2, 9)} days",
            )
            lines.append(self._pick("- ", "* ", "", "• ", "1) ") + what)
        return self._pick("standup tue\n", "TODO\n", "", "notes\n") + "\n".join(lines)

    def _prose(self) -> str:
        return self._body(self._n(2, 7))

    def _plain(self) -> str:
        """Return a text without entities."""
        lines = [
            self._pick(self._filler, lambda: self._pick(*NOTES) + ".")()
            for _ in range(self._n(3, 8))
        ]
        return self._pick(" ", "\n").join(lines)

    def _transcript(self) -> str:
        one, other = self._pick(
            ("Agent", "Caller"), ("Q", "A"), ("Support", "Customer"), ("Nurse", "Patient")
        )
        lines = [
            f"{one}: Thank you for calling, you are speaking with {self._person()}. May I have your name?",
            f"{other}: It's {self._full()}.",
            f"{one}: And your account number?",
            f"{other}: {self._id()}.",
            f"{one}: And your date of birth, please?",
            f"{other}: {self._date()}.",
            f"{one}: I see two routers here, the one in {self._city()} has been offline since Sunday.",
            f"{other}: {self._filler()}",
            f"{one}: {self._sentence()}",
            f"{one}: Is {self._phone()} still your number?",
            f"{other}: Yes. {self._sentence()}",
        ]
        return "\n".join(line for line in lines if self._r.random() < 0.75)

    def _minutes(self) -> str:
        people = ", ".join(self._person() for _ in range(self._n(2, 6)))
        lines = [
            f"Minutes of the {self._pick('board', 'council', 'committee')}, {self._date()}, {self._n(8, 20)}:00",
            f"Present: {people}",
            f"Apologies: {self._person()}",
        ]
        for i in range(self._n(2, 6)):
            lines.append(
                f"{self._pick(f'25/{i + 31}', f'{i + 1}.')} {self._pick(self._filler, self._sentence)()}"
            )
        return "\n".join(lines)

    def _german(self) -> str:
        v, r = self._v, self._pick
        first, last = v.german.first_name(), v.german.last_name()
        street = f"⟦STREET_ADDRESS|{v.german.street_name()} {self._n(1, 199)}, {v.german.postcode()} {v.german.city_name()}⟧"
        letter = (
            f"Sehr geehrte{r('r ⟦PERSON|Herr ', ' ⟦PERSON|Frau ')}{last}⟧,\n\nvielen Dank für Ihr Schreiben vom ⟦DATE_TIME|{self._n(1, 28)}. {r('Februar', 'Mai', 'Juni', 'März')} {self._n(1999, 2026)}⟧. "
            f"Ihre Kundennummer lautet {self._id()}. Die Reparatur kostet {self._n(20, 900)},90 Euro und dauert etwa drei Tage. Unsere Werkstatt in der {street} hat montags bis freitags geöffnet. "
            f"Rückfragen beantwortet ⟦PERSON|{r('Frau', 'Herr')} {v.german.last_name()}⟧ unter {self._phone()}.\n\nMit freundlichen Grüßen\n⟦PERSON|{first} {v.german.last_name()}⟧\n⟦ORGANIZATION|{v.german.company()}⟧"
        )
        form = (
            f"Name: ⟦PERSON|{last}⟧\nVorname: ⟦PERSON|{first}⟧\nGeburtsdatum: ⟦DATE_TIME|{self._n(1, 28):02}.{self._n(1, 12):02}.{self._n(1940, 2010)}⟧\n"
            f"Anschrift: {street}\nTelefon: {self._phone()}\nFamilienstand: {r('ledig', 'verheiratet')}\nKinder: {self._n(0, 4)}\nBeruf: {r('Lehrer', 'Ärztin', 'Koch')}\nBeschäftigt seit: {self._n(1990, 2024)}"
        )
        note = f"Liebe ⟦PERSON|{first}⟧, wir treffen uns am Samstag in ⟦GPE|{v.german.city_name()}⟧. ⟦PERSON|{v.german.first_name()}⟧ kommt auch. Bringst du bitte zwei Flaschen Wasser mit? Liebe Grüße, ⟦PERSON|{v.german.first_name()}⟧"
        return r(letter, form, note)


def _wrap(marked: str, width: int, end: str) -> str:
    """Wrap the lines of a marked text, also within values."""
    parts: list[str] = []
    column = 0
    for word in re.split(r"(?<=[ \n])", marked):
        *before, last = re.sub(r"⟦[A-Z_]+\||⟧", "", word).split("\n")
        if parts and column + len(last) > width and parts[-1].endswith(" "):
            parts[-1], column = parts[-1][:-1] + end, 0
        column = len(last) if before else column + len(last)
        parts.append(word)
    return "".join(parts)


def _change_case(marked: str, change: Callable[[str], str]) -> str:
    """Change the case of a marked text, but not of its labels."""
    return re.sub(r"⟦[A-Z_]+\||[^⟦]+", lambda m: m[0] if m[0][0] == "⟦" else change(m[0]), marked)
