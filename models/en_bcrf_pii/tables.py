# ruff: noqa: E501
"""Documents of fields, rows and code with invented values, written as in dev.txt."""

import json
import re
from collections.abc import Callable
from typing import Any

from .pieces import MONTHS, NOTES, Pieces


class Tables(Pieces):
    """Random documents of fields, rows and code."""

    def _log(self) -> str:
        def line() -> str:
            at = f"20{self._n(10, 26)}-{self._n(1, 12):02}-{self._n(1, 28):02}{self._pick('T', ' ')}{self._n(0, 23):02}:{self._n(0, 59):02}:{self._n(0, 59):02}{self._pick('Z', '', ',123')}"
            level = self._pick("INFO", "WARN", "ERROR", "DEBUG")
            what = self._pick(
                f"auth.session user={self._user()} ip=⟦ID|{self._v.ip()}⟧ status={self._n(200, 503)} took={self._n(1, 99)}ms",
                f"worker {self._n(1, 12)} of 12 finished {self._n(1, 9999)} jobs in {self._n(1, 99)}.{self._n(0, 9)} s",
                f"cache.miss key=article:{self._n(1, 99999)} size={self._n(1, 9999)} ttl=300",
                f"GET /v{self._n(1, 3)}/items?page={self._n(1, 99)} {self._n(200, 503)} {self._n(10, 9999)}",
                f'mail.queue to=<{self._mail_of(self._name())}> code={self._n(200, 550)} reason="mailbox full"',
                f"login failed for {self._user()} from ⟦ID|{self._v.ip()}⟧ port {self._n(1024, 65000)}",
                f"user {self._full()} ({self._user()}) changed role to admin",
                f"retry {self._n(1, 5)} of 5, build {self._n(100, 9999)}, version {self._n(1, 9)}.{self._n(0, 20)}.{self._n(0, 9)}",
                f"db.pool size={self._n(1, 50)} idle={self._n(1, 50)} node=db-eu-{self._n(1, 9)}",
            )
            return f"{at} {level} {what}"

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
            (("account", "customer_id", "ssn", "passport", "member_no", "policy"), self._id),
            (("company", "employer", "organisation"), self._org),
            (("first_name", "given", "firstName"), lambda: f"⟦PERSON|{name[0][0]}⟧"),
            (("last_name", "family", "surname", "lastName"), lambda: f"⟦PERSON|{name[0][1]}⟧"),
            (("user", "username", "login"), lambda: self._user(name[0])),
            (("country",), lambda: f"⟦GPE|{self._v.country()}⟧"),
            (
                ("note", "comment", "remark"),
                lambda: self._pick(self._sentence, self._filler)().replace(",", ""),
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
                    {"sku": f"TX-{self._n(100, 999)}", "count": self._n(1, 9)} for _ in range(2)
                ]
            return found

        indent = self._pick(None, None, 2)
        return "\n".join(
            json.dumps(value(1), ensure_ascii=False, indent=indent) for _ in range(self._n(1, 3))
        )

    def _html(self) -> str:
        tag = self._pick("b", "li", "td", "span", "h3", "a")
        parts = ["<html><head><title>Our team</title></head><body>" * self._n(0, 1)]
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
            f"<footer>Page {self._n(1, 9)} of 9 &copy; 2025</footer>"
        )

    def _form(self) -> str:
        fields: list[tuple[tuple[str, ...], Callable[[], str]]] = [
            (
                ("Name", "Full name", "Patient", "Applicant", "Account holder", "Insured"),
                self._full,
            ),
            (("Surname", "Last name", "Family name"), lambda: f"⟦PERSON|{self._name()[1]}⟧"),
            (("First name", "Given name", "Forename"), lambda: f"⟦PERSON|{self._name()[0]}⟧"),
            (("Date of birth", "DOB", "Born", "Birth date"), self._date),
            (("Place of birth", "Town", "City"), self._city),
            (("Address", "Street", "Home address"), self._pick(self._street, self._address)),
            (("Postcode", "ZIP", "Zip code"), self._zip),
            (("Phone", "Tel.", "Mobile", "Telephone"), self._phone),
            (("Email", "E-mail"), lambda: self._mail_of(self._name())),
            (
                (
                    "MRN",
                    "Policy no.",
                    "Licence no.",
                    "Passport no.",
                    "Customer no.",
                    "Reg. no.",
                    "Plate",
                    "Account",
                    "Ref.",
                    "Case no.",
                ),
                self._id,
            ),
            (("Employer", "Company", "School", "Hospital"), self._org),
            (("Sex", "Gender"), lambda: self._pick("F", "M", "female", "male")),
            (("Children", "Persons", "Quantity"), lambda: str(self._n(0, 9))),
            (("Marital status",), lambda: self._pick("single", "married")),
            (("Vehicle",), lambda: self._pick("estate car, blue", "van, white", "hatchback, red")),
            (("Fee", "Amount", "Total"), lambda: f"{self._n(1, 99)}.00"),
            (("Admitted", "Date", "Issued", "Discharged"), self._date),
            (("Notes", "Remarks"), lambda: self._pick(*NOTES)),
        ]
        style = self._pick(": ", ": ", " .... ", "    ", ":\t", ":\n", " = ")
        rows = [
            self._pick(*names) + style + make()
            for names, make in self._r.sample(fields, self._n(4, 11))
        ]
        if self._r.random() < 0.3:
            rows = [f"{a}     {b}" for a, b in zip(rows[::2], rows[1::2], strict=False)]
        title = self._pick(
            "APPLICATION FORM",
            "Registration",
            "CLAIM",
            "PARKING PERMIT        Form PP-3 (rev. 2)",
            "",
        )
        return "\n".join([title, *rows]) + self._maybe(
            f"\n[X] Resident   [ ] Visitor      Fee: {self._n(5, 99)}.00", 0.3
        )

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
            + '\n<item code="B-17" qty="2" price="49.95"/></order>'
        )

    def _code(self) -> str:
        name = self._name()
        lines = [
            f'DB_HOST = "⟦ID|{self._v.ip()}⟧"',
            f'DB_USER = "{self._user()}"',
            f"RETRIES = {self._n(1, 9)}",
            f'ADMINS = [("{self._full(name)}", "{self._mail_of(name)}")]',
            f"# TODO({self._user()}): {self._filler()}",
            "def area(width: float, height: float) -> float:\n    return width * height",
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
        rows = []
        for _ in range(self._n(3, 9)):
            what = self._pick(
                *(
                    "Balance brought forward",
                    "Cash withdrawal, 2 x 50",
                    "Interest",
                    f"SUPERMARKT {self._n(100, 9999)}",
                ),
                *(
                    f"Standing order {self._full()} RENT",
                    f"Salary {self._org()}",
                    f"Transfer {self._person()} ref {self._id()}",
                ),
            )
            rows.append(
                f"{self._n(1, 28):02} {self._pick(*MONTHS)}  {what}     {self._pick('-', '')}{self._n(1, 2000)}.{self._n(0, 99):02}"
            )
        return (
            f"Account holder: {self._full()}     Account: {self._id()}\nPeriod: 01 Mar to 31 Mar 2025\n\n"
            + "\n".join(rows)
        )
