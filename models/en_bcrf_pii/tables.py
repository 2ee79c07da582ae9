# ruff: noqa: E501
"""Documents of fields, rows and code with invented values, written as in dev.txt."""

import json
import re
from collections.abc import Callable
from typing import Any

from .pieces import Pieces
from .values import WORDS


class Tables(Pieces):
    """Random documents of fields, rows and code."""

    def _log(self) -> str:
        """Return lines of programs. Whether their times are private is unknown."""
        form = self._pick(
            *("20{10-26}-0{1-9}-{10-28}{T/ }{10-23}:{10-59}:{10-59}{Z//,123/.004Z/+01:00}",) * 2,
            *(
                "{months} {10-28} {10-23}:{10-59}:{10-59}",
                "[{10-28}/{months}/20{10-26}:{10-23}:{10-59}:{10-59} +0000]",
            ),
            *("{10-23}:{10-59}:{10-59}", "0{1-9}/{10-28}/20{10-26} {10-23}:{10-59}:{10-59} PM"),
        )
        host = self._maybe(f" {self._pick(self._fill('web{1-9}'), self._host())}", 0.3)

        def line() -> str:
            at = self._fill(form)
            level = self._pick("INFO", "WARN", "ERROR", "DEBUG", "info:", "")
            what = self._pick(
                f"user={self._user()} ip=⟦ID|{self._v.ip()}⟧ status={self._n(200, 503)} took={self._n(1, 99)}ms",
                *[self._fill(self._pick(*WORDS["events"])) for _ in range(3)],
                f"{self._pick('login', 'Failed password', 'session opened', 'sudo')} for {self._user()} from ⟦ID|{self._v.ip()}⟧ port {self._n(1024, 65000)}",
                f"user {self._full()} ({self._user()}) {self._pick('changed role', 'logged in', 'exported 3 files')}",
            )
            return f"⟦|{at}⟧{host} {level} {what}"

        return "\n".join(line() for _ in range(self._n(4, 12)))

    def _columns(self) -> list[tuple[tuple[str, ...], Callable[[], str]]]:
        name: list[tuple[str, str]] = [self._name()]

        def whole() -> str:
            name[0] = self._name()
            return self._full(name[0])

        return [
            (("id", "no", "row", "#"), lambda: str(self._n(1, 999))),
            (("name", "full_name", "customer", "Name", "contact", "employee", "patient"), whole),
            (("email", "mail", "e-mail"), lambda: self._maybe(self._mail_of(name[0]), 0.8)),
            (("phone", "tel", "mobile"), lambda: self._maybe(self._phone(), 0.8)),
            (("city", "town", "place", "City", "birthplace"), self._city),
            (("signed", "last_seen", "Date", "start", "due", "updated", "hired"), self._date),
            (("age", "Age", "years"), self._age),
            (("nationality", "citizen", "Nationality"), self._nation),
            (("host", "device", "machine"), self._host),
            (("owner", "assigned", "by", "lead", "Who", "Contact"), self._bare),
            (("item", "product", "what", "Details"), lambda: self._fill("{goods}")),
            (("model", "version", "tool"), lambda: self._fill("{makes} {A/B/X}{1-99}")),
            (("sku", "code", "item_no"), self._sku),
            (("street", "address", "line1", "Street"), self._street),
            (("zip", "postcode", "postal_code"), self._zip),
            (
                ("plan", "type", "status"),
                lambda: self._pick("basic", "pro", "trial", "open", "paid"),
            ),
            (("amount", "total", "price"), lambda: f"{self._n(1, 999)}.{self._n(0, 99):02}"),
            (("count", "qty", "visits", "score"), lambda: str(self._n(0, 99))),
            (
                ("dob", "birth_date", "date_of_birth", "born"),
                lambda: (
                    f"⟦DATE_TIME|{self._n(1940, 2010)}-{self._n(1, 12):02}-{self._n(1, 28):02}⟧"
                ),
            ),
            (
                (
                    "account",
                    "customer_id",
                    "ssn",
                    "passport",
                    "member_no",
                    "policy",
                    "case",
                    "ref",
                    "invoice",
                ),
                self._id,
            ),
            (("company", "employer", "organisation"), self._org),
            (("first_name", "given", "firstName"), lambda: f"⟦PERSON|{name[0][0]}⟧"),
            (("last_name", "family", "surname", "lastName"), lambda: f"⟦PERSON|{name[0][1]}⟧"),
            (("user", "username", "login"), lambda: self._user(name[0])),
            (("country",), lambda: f"⟦GPE|{self._v.country()}⟧"),
            (
                ("note", "comment", "remark"),
                lambda: re.sub("[,\n]+", " ", self._pick(self._sentence, self._filler)()),
            ),
        ]

    def _chosen(self, low: int, high: int) -> list[tuple[str, Callable[[], str]]]:
        found = self._columns()
        chosen = self._r.sample(found, self._n(low, high))
        if self._r.random() < 0.8 and found[1] not in chosen:
            chosen.insert(self._n(0, 1), found[1])
        return [(self._pick(*names), make) for names, make in chosen]

    def _csv(self) -> str:
        columns, between = self._chosen(3, 8), self._pick(",", ",", ",", ";", "\t", " | ")
        rows = [between.join(name for name, _ in columns)]
        for _ in range(self._n(2, 8)):
            cells = [make() for _, make in columns]
            rows.append(between.join(f'"{x}"' if between in x else x for x in cells))
        return "\n".join(rows)

    def _json(self) -> str:
        def value(depth: int) -> Any:
            found: dict[str, Any] = {}
            for name, make in self._chosen(2, 6):
                made = make()
                is_number = re.fullmatch(r"\d+", made) and self._r.random() < 0.8
                found[name] = int(made) if is_number else made
            found |= {
                self._pick("ticket", "retries", "version", "page"): self._n(1, 9999),
                "active": True,
            }
            if depth and self._r.random() < 0.6:
                found[self._pick("customer", "owner", "billing", "meta")] = value(depth - 1)
            if depth and self._r.random() < 0.4:
                found["items"] = [
                    {self._pick("part", "sku"): self._fill("{sku/goods}"), "count": self._n(1, 9)}
                    for _ in range(2)
                ]
            return found

        indent = self._pick(None, None, 2)
        return "\n".join(
            json.dumps(value(1), ensure_ascii=False, indent=indent) for _ in range(self._n(1, 3))
        )

    def _html(self) -> str:
        tag = self._pick("b", "li", "td", "span", "h3", "a")
        parts = [f"<html><head><title>{self._subject()}</title></head><body>"] * self._n(0, 1)
        parts += [self._fill(self._pick(*WORDS["markup"])) for _ in range(self._n(0, 4))]
        for _ in range(self._n(2, 7)):
            what = self._pick(
                self._full,
                self._person,
                self._org,
                self._city,
                self._sentence,
                self._filler,
                self._address,
            )()
            parts.append(
                f"<{tag}>{what}</{tag}>"
                + self._maybe(f", {self._pick(self._filler, self._sentence)()}<br>")
            )
        name = self._name()
        parts += [
            f'<p class="c{self._n(1, 9)}">{self._body(2)}</p>',
            f'<a href="mailto:{self._mail_of(name)}">{self._full(name)}</a>',
        ]
        return self._pick("\n", "", "\n  ").join(parts) + self._maybe(
            f"<footer>{self._note()} &copy;&nbsp;2025</footer>"
        )

    def _show_row(self, style: str) -> str:
        """Return a label and a value. style: what is between them."""
        label, value = self._pick(*WORDS["rows"]).split("::", 1)
        label = self._fill(label)
        return (
            self._pick(label, label, label, label.upper(), label.lower())
            + style
            + self._fill(value)
        )

    def _form(self) -> str:
        style = self._pick(": ", ": ", " .... ", "    ", ":\t", ":\n", " = ", ":", " - ")
        rows = [self._show_row(style) for _ in range(self._n(4, 12))]
        if self._r.random() < 0.3:
            rows = [f"{a}     {b}" for a, b in zip(rows[::2], rows[1::2], strict=False)]
        title = self._pick(self._subject().upper(), self._fill("{headings}"), self._note(), "")
        boxes = "\n[{x/X/ }] {Yes/Agreed/Full time}   [{x/ }] {No/Declined/Part time}    {headers}: {money}"
        return "\n".join([title, *rows]) + self._maybe(self._fill(boxes), 0.3)

    def _xml(self) -> str:
        rows = []
        for _ in range(self._n(1, 3)):
            cells = "".join(
                f"{self._pick('', '', chr(10) + '  ')}<{name}>{make()}</{name}>"
                for name, make in self._chosen(2, 6)
            )
            rows.append(f'<customer id="{self._id()}" qty="{self._n(1, 9)}">{cells}</customer>')
        return (
            f'<?xml version="1.0"?>\n<order no="{self._id()}" status="open">\n'
            + "\n".join(rows)
            + self._fill(
                '\n<item code="{K/D/R}-{1-99}" qty="{1-9}" price="{1-99}.{10-99}"/></order>'
            )
        )

    def _code(self) -> str:
        name = self._name()
        lines = [
            f'DB_HOST = "⟦ID|{self._v.ip()}⟧"',
            f'DB_USER = "{self._user()}"',
            f"RETRIES = {self._n(1, 9)}",
            f'ADMINS = [("{self._full(name)}", "{self._mail_of(name)}")]',
            f"# TODO({self._user()}): {self._filler()}",
            "def mean(values: list[float]) -> float:\n    return sum(values) / len(values)",
            f"# Author: {self._full()}",
            "for i in range(10):\n    print(i)",
            f"import os, sys  # {self._filler()}",
            "class Item(Base):\n    name: str = None\n    size: int = 3",
            f'    user = User(name="{self._full()}", city="{self._city()}", age={self._n(1, 90)})',
            "    if not self.values:\n        raise ValueError('no values')",
            f"Copyright (c) {self._n(1999, 2026)} {self._full()}",
        ]
        return "\n".join(self._r.sample(lines, self._n(3, 9)))

    def _statement(self) -> str:
        """Return the rows of an account."""
        form = self._pick(*WORDS["dates"], "{dd} {mon}", "{dd} {mon}", "{dd}/{mm}")
        between, end = self._pick("  ", " ", "\t", " | "), self._date(form)
        rows = []
        for _ in range(self._n(3, 10)):
            start = self._date(form) + between
            amount = self._fill("{/-/+}{1-2000}.{10-99}{// CR}")
            rows.append(f"{start}{self._fill('{payments}')}{between}   {amount}")
        head = [self._show_row(": ") for _ in range(self._n(0, 2))]
        head += [
            f"{self._pick('Period', 'Statement')}: {self._date(form)} {self._pick('to', '-')} {end}"
        ]
        return "\n".join(
            [
                f"{self._fill('{labels of names}')}: {self._full()}     Account: {self._id()}",
                *head,
                *rows,
            ]
        )
