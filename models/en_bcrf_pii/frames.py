# ruff: noqa: E501
"""Documents of many kinds with invented values, written as in dev.txt: `⟦LABEL|text⟧`."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from .pieces import INITIALS, UNITS
from .tables import Tables
from .values import WORDS

FOOTERS = WORDS["footers"]


class Frames(Tables):
    """Random documents of each kind. values, fillers, german: see `Pieces`."""

    def __init__(
        self, values: Any, fillers: Sequence[str], german: Sequence[str], seed: int = 0
    ) -> None:
        super().__init__(values, fillers, german, seed)
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
            "report": self._report,
            "record": self._record,
            "list": self._list,
            "letter": self._letter,
            "spoken": self._spoken,
        }

    def make(self, kind: str) -> str:
        marked = self.kinds[kind]()
        if kind in ("mail", "prose", "minutes", "report") and self._r.random() < 0.5:
            marked = _wrap(marked, self._n(60, 80), self._pick("\n", " \n"))
        if kind in ("log", "code", "json", "xml", "html"):
            return marked
        # Who types in haste does so in small letters.
        small = 0.36 if kind in ("chat", "notes", "spoken", "list") else 0.12
        choice = self._r.random()
        if choice < small:
            return _change_case(marked, _simplify if choice < small / 2 else str.lower)
        if choice > 0.94:
            return _change_case(marked, str.upper)
        return "\n".join(map(self._change_line, marked.split("\n")))

    def _change_line(self, line: str) -> str:
        """Change the case of few lines, but of none within a value of more lines."""
        if line.count("⟦") != line.count("⟧"):
            return line
        chance = self._r.random()
        if chance < 0.04:
            return _change_case(line, str.upper)
        return _change_case(line, str.lower) if chance < 0.07 else line

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
        code = "".join(self._pick(*INITIALS) for _ in range(self._n(2, 4)))
        unit = "".join(
            f"/{self._pick(self._pick(*UNITS), code, host)}" for _ in range(self._n(0, 2))
        )
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
        users = [self._pick(self._user, self._bare, self._person)() for _ in range(self._n(2, 4))]
        style, minute, form = self._n(0, 7), 0, self._pick(*WORDS["dates"])
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
                    f"{self._date(form)}, {time} - {user}: {said}",
                    f"[{self._date(form)} {time}] {user}: {said}",
                    f"[{self._date(form)}, {time}:{self._n(0, 59):02}] {user}: {said}",
                    f"{user}  {time}\n{said}",
                )[style]
            )
        return "\n".join(lines)

    def _markdown(self) -> str:
        lines = [f"# {self._pick(self._subject, self._note, self._sentence)()}", ""]
        for _ in range(self._n(1, 3)):
            label = self._fill(self._pick("{labels of roles}::{who}", "{rows}"))
            lines.append("**{}:** {}".format(*label.split("::", 1)))
        for _ in range(self._n(2, 7)):
            bullet = self._pick("- ", "* ", "1. ", "- [x] ", "- [ ] ", "> ", "## ", "")
            lines.append(bullet + self._pick(self._sentence, self._sentence, self._filler)())
        return "\n".join([*lines, *self._grid()] if self._r.random() < 0.4 else lines)

    def _grid(self) -> list[str]:
        """Return the rows of a table."""
        columns, edge = self._chosen(2, 4), self._pick("| ", "| ", "")
        rows = [[name for name, _ in columns]]
        rows += [[make() for _, make in columns] for _ in range(self._n(1, 5))]
        lines = [edge + self._pick(" | ").join(row) + edge[::-1] for row in rows]
        return [lines[0], *(["|---" * len(columns) + "|"] if edge else []), *lines[1:]]

    def _invoice(self) -> str:
        items = "\n".join(
            self._fill("{1-9}   {/sku}   {goods}     {1-99}.{10-99}     {10-999}.{10-99}")
            for _ in range(self._n(1, 5))
        )
        gap = self._pick("\n", "              ")
        return (
            f"{self._pick('INVOICE', 'Invoice', 'Receipt', 'ORDER', 'Delivery note', 'QUOTE')} {self._pick('No.', '#', 'no', '')} {self._id()}     Date: {self._date()}\n\n"
            f"{self._pick('Bill to:', 'Customer:', 'Ship to:', 'To', 'Sold to')}{gap}{self._full()}\n{self._maybe(self._org() + chr(10))}{self._street()}\n⟦STREET_ADDRESS|{self._v.town_line()}⟧\n\n"
            + self._fill("{headers}  {headers}      {headers}   {headers}\n")
            + f"{items}\n{self._note()}\n"
            + self._fill("{Total/Balance due/Amount paid}: {money}\n{sentences}\n{sentences}\n")
            + f"{self._pick('Pay', 'Transfer', 'Settle')} by {self._date()} to {self._v.iban()}. {self._mail_of(self._name())}, {self._phone()}"
        )

    def _cv(self) -> str:
        name = self._name()
        parts = [self._full(name), f"{self._address()} · {self._phone()} · {self._mail_of(name)}"]
        parts += [self._show_row(": ") for _ in range(self._n(0, 2))]
        if self._r.random() < 0.7:
            parts.append(
                self._fill("{labels of birth}: {date} · {Nationality/Citizenship}: {nation}")
            )
        parts += [
            self._fill("\n{headings}\n{a/the/} {nation} {roles} of {years}, {filler}")
        ] * self._n(0, 1)
        for heading in ("EXPERIENCE", "Education", self._fill("{headings}")):
            parts += ["", heading]
            for _ in range(self._n(1, 3)):
                # Whether years are private is unknown.
                y = self._n(1985, 2022)
                end = self._pick("today", "present", y + self._n(1, 4))
                years = f"⟦|{y} {self._pick('-', 'to', '/')} {end}⟧"
                what = f"{self._v.job()}, {self._org()}, {self._city()}"
                parts += [self._pick(f"{years}  {what}", f"{what} ({years})")]
                parts += [f"  {self._pick('-', '•')} {self._pick(self._filler, self._note)()}"]
        parts += [
            "",
            self._fill("{Referees/REFERENCES}"),
            f"{self._full()}, {self._v.job()}, {self._phone()}",
        ]
        return "\n".join(parts)

    def _clinical(self) -> str:
        """Return notes of a clinic: fields, tests and sentences."""
        parts = [self._show_row(self._pick(": ", " ")) for _ in range(self._n(0, 5))]
        parts += [
            self._fill(self._pick(*WORDS["clinic"], "{notes}", "{notes}", "{sentences}"))
            for _ in range(self._n(4, 9))
        ]
        return self._pick("\n", "\n", ". ", "   ").join(parts)

    def _notes(self) -> str:
        """Return short lines of one writer."""
        bullet = self._pick("- ", "* ", "", "• ", "1) ")
        makers = (self._sentence, self._sentence, lambda: self._fill("{actions}"), self._note)
        lines = [bullet + self._pick(*makers)() for _ in range(self._n(3, 10))]
        return self._maybe(self._pick(self._subject, self._date)() + "\n") + "\n".join(lines)

    def _report(self) -> str:
        """Return a report of an incident: fields, and sentences about persons and streets."""
        parts = [self._fill("{headings}").upper()] * self._n(0, 1)
        parts += [self._show_row(": ") for _ in range(self._n(1, 4))]
        told = [
            self._pick(self._sentence, self._carried, lambda: self._fill("{told}."))()
            for _ in range(self._n(3, 8))
        ]
        return "\n".join(parts) + "\n\n" + " ".join(told)

    def _record(self) -> str:
        """Return dated lines: a diary, a ledger, notes on a person. One writer has one form."""
        form, sign = (
            self._pick(*WORDS["dates"]),
            self._pick(" ", "  ", ": ", " - ", "\t", ", ", "\n"),
        )
        # A time behind a date is part of it, as in mails.
        time = self._pick("", "", " ⟦DATE_TIME|{0-23}:{10-59}⟧", " at ⟦|{0-23}{10-59}⟧")
        by = self._pick("", "", "{initials} ", "[{bare}] ", "{bare}: ", "({initials}) ")
        lines = [self._show_row(": ") for _ in range(self._n(0, 3))]
        for _ in range(self._n(3, 9)):
            start = self._date(form) + self._fill(time) + sign + self._fill(by)
            lines.append(start + self._pick(self._fill("{actions}"), self._sentence()))
        return "\n".join(lines)

    def _list(self) -> str:
        """Return persons with a role, a task or a number each."""
        who = self._pick("{bare}", "{bare}", "{full}", "{initials}", "{p}", "{last}", "{first}")
        more = self._pick(
            "{roles}", "{what}", "{phone}", "{years}", "{job}", "{city}", "{when}", "{date}"
        )
        sign = self._pick(": ", " - ", ", ", "  ", "\t", " (", " | ", " / ", " -> ")
        end = ")" if sign == " (" else ""
        forms = (f"{who}{sign}{more}{end}", f"{more}{sign}{who}{end}", who)
        form = self._pick("", "- ", "* ", "• ", "[ ] ") + self._pick(*forms)
        lines = [self._fill(form) for _ in range(self._n(3, 10))]
        title = self._pick("{headings}", "{weekdays}", "{labels of roles}:", "{notes}", "{filler}")
        if self._r.random() < 0.3:
            lines = [self._pick(", ", "; ", " / ").join(lines)]
        return "\n".join([self._fill(title), *lines, *self._grid()] if len(lines) < 5 else lines)

    def _letter(self) -> str:
        """Return a letter on paper."""
        one, other = self._name(), self._name()
        parts = [self._org()] * self._n(0, 1) + [self._address()] * self._n(0, 1)
        parts += [self._full(other), *[self._address()] * self._n(0, 1), "", self._date()]
        parts += [self._show_row(": ") for _ in range(self._n(0, 3))]
        parts += ["", f"{self._pick('Dear', 'Dear', 'To', 'My dear')} {self._greet(other)},", ""]
        parts += [self._pick("Re: ", "RE ", "") + self._subject()] * self._n(0, 1)
        parts += [self._body(self._n(2, 5)) for _ in range(self._n(1, 3))]
        parts += ["", self._pick("Yours sincerely", "Yours faithfully,", "Love,", "With thanks")]
        parts += [self._pick(self._full(one), self._greet(one), self._initials())]
        parts += [self._fill("{cc/Cc:/Enc/Witness:} {who}")] * self._n(0, 1)
        return "\n".join(parts)

    def _spoken(self) -> str:
        """Return speech without signs, or with few."""
        said = [
            self._pick(lambda: self._fill("{spoken}"), self._filler, self._sentence)()
            for _ in range(self._n(3, 8))
        ]
        text = self._pick(" ", ". ", ", ", " um ", " ").join(said)
        return _change_case(text, _simplify) if self._r.random() < 0.6 else text

    def _prose(self) -> str:
        return self._body(self._n(2, 7))

    def _plain(self) -> str:
        """Return a text without entities."""
        makers = self._pick((self._filler,), (self._note,), (self._filler, self._note))
        lines = [self._pick(*makers)() for _ in range(self._n(3, 9))]
        if self._r.random() < 0.2:
            lines = [self._fill("{german}") for _ in lines]
        if self._r.random() < 0.3:
            lines[0] = self._fill("{headings}")
        return self._pick(" ", "\n", "\n- ", "\t", " | ").join(lines)

    def _transcript(self) -> str:
        one, other = self._pick(
            *(("Agent", "Caller"), ("Q", "A"), ("Support", "Customer"), ("Nurse", "Patient")),
            *(("Interviewer", "Speaker 2"), ("Operator", "Member"), (self._bare(), self._bare())),
        )
        lines, second = [], self._n(0, 30)
        for _ in range(self._n(3, 7)):
            asked = self._pick(self._filler(), self._fill("{asked}"), self._fill("{asked}"))
            makers = (lambda: self._fill("{spoken}"), self._sentence, self._filler)
            lines += [f"{one}: {asked}", f"{other}: {self._pick(*makers, makers[0])()}"]
        form = self._pick("", "", "[{}] ", "{} ", "({}) ")
        for i, line in enumerate(lines if form else ()):
            second += self._n(3, 30)
            lines[i] = form.format(f"{second // 60:02}:{second % 60:02}") + line
        return "\n".join(lines)

    def _minutes(self) -> str:
        who = self._pick("{p}", "{bare}", "{initials}", "{full} ({initials})", "{p} ({roles})")
        between = self._pick(", ", "; ", ", ", "\n")
        people = between.join(self._fill(who) for _ in range(self._n(2, 6)))
        lines = [
            f"{self._subject()}{self._pick(', ', chr(10), ' - ')}{self._date()}{self._maybe(f', ⟦|{self._n(8, 20)}:00⟧')}",
            f"{self._pick('Present', 'Attendees', 'In attendance', 'Here')}: {people}",
            *[f"Apologies: {self._fill(who)}"] * self._n(0, 1),
        ]
        first = self._n(9, 120)
        for i in range(self._n(2, 6)):
            number = self._pick(
                f"{first % 100}/{first + i}",
                f"{i + 1}.",
                f"{i + 1}.{self._n(1, 9)}",
                f"Item {i + 1}:",
                "",
            )
            lines.append(f"{number} {self._pick(self._filler, self._sentence, self._sentence)()}")
            lines += [
                self._fill("{Action/ACTION/AP/Owner/Lead}: {initials/bare} {/ondate}")
            ] * self._n(0, 1)
        return "\n".join(lines)

    def _german(self) -> str:
        v, r = self._v, self._pick
        first, last = v.german.first_name(), v.german.last_name()
        letter = (
            f"Sehr geehrte{r('r ⟦PERSON|Herr ', ' ⟦PERSON|Frau ')}{last}⟧,\n\n"
            + " ".join(self._fill("{german sentences}") for _ in range(self._n(2, 5)))
            + f"\n\n{r('Mit freundlichen Grüßen', 'Viele Grüße', 'Hochachtungsvoll')}\n⟦PERSON|{first} {v.german.last_name()}⟧\n⟦ORGANIZATION|{v.german.company()}⟧"
        )
        form = (
            f"{r('Name', 'Nachname', 'Familienname')}: ⟦PERSON|{last}⟧\nVorname: ⟦PERSON|{first}⟧\n{r('Geburtsdatum', 'geb.', 'Geboren am')}: {self._german_date()}\n"
            f"{r('Anschrift', 'Adresse', 'Wohnort')}: {self._german_street()}\nTelefon: {self._phone()}\n"
            + self._fill(
                "{Steuernummer/Kundennr./Ausweisnr.}: {id}\n{Familienstand/Beruf}: {ledig/Koch/Ärztin}\n{Größe/Gewicht}: {50-199}\nAlter: {age} Jahre"
            )
        )
        note = "\n".join(self._fill("{german sentences}") for _ in range(self._n(2, 6)))
        return r(letter, form, note, note)


def _wrap(marked: str, width: int, end: str) -> str:
    """Wrap the lines of a marked text, also within values."""
    parts: list[str] = []
    column = 0
    for word in re.split(r"(?<=[ \n])", marked):
        *before, last = re.sub(r"⟦[A-Z_]*\||⟧", "", word).split("\n")
        if parts and column + len(last) > width and parts[-1].endswith(" "):
            parts[-1], column = parts[-1][:-1] + end, 0
        column = len(last) if before else column + len(last)
        parts.append(word)
    return "".join(parts)


def _change_case(marked: str, change: Callable[[str], str]) -> str:
    """Change the case of a marked text, but not of its labels."""
    return re.sub(r"⟦[A-Z_]*\||[^⟦]+", lambda m: m[0] if m[0][0] == "⟦" else change(m[0]), marked)


def _simplify(text: str) -> str:
    """Return a text as typed in haste: small letters, and no signs behind words."""
    return re.sub(r"(?<=\w)(?:[.,!?;]+(?=\s|$)|')", "", text.lower())
