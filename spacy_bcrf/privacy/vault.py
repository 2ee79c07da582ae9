"""Vaults: the originals of numbered placeholders, such as `[PERSON_1]`.

`[PERSON_1]` is the first form of a person in the texts, and `[PERSON_1.2]` the second one, such as
a surname. A vault finds them in a text, also bent by a language model: in another case, without
brackets, with a blank or `\\_` in place of `_`. `js/src/redact.js` mirrors the numbers alone.
"""

import json
import re
import secrets
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bcrf.io.atomic import replacing
from bcrf.io.extras import require
from spacy_bcrf.annotation.folding import fold_name

LITERAL = "TEXT"
"""The label of what looks like a placeholder in a text that is redacted."""
_NUMBER, _STRING = "\0number", "\0"
"""The ends of a form that is a number of JSON, and of one that only looks so."""
FORMAT, VERSION = "spacy-bcrf vault", 1
_WORD = re.compile(r"[^\W\d_]+")


class Placeholder(NamedTuple):
    """A placeholder in a text. original: None for an unknown one. is_number: of JSON."""

    start: int
    end: int
    original: str | None
    is_number: bool = False


class Names:
    """Names of a document and their numbers: a surname is one of its own document.

    Names of one person share a word of several letters, or one of them has initials alone.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, ...], set[int]] = {}
        self._others: dict[str, list[tuple[str, ...]]] = {}  # by word and initial

    def find(self, words: tuple[str, ...], is_name: bool) -> set[int]:
        """Return the numbers of equal names, else of names that may mean the same person."""
        if words in self._numbers or not is_name:
            return self._numbers.get(words, set())
        keys = [*(word for word in words if len(word) > 1), ""] if _is_long(words) else words
        others = {other for key in keys for other in self._others.get(key, ())}
        return {n for x in others if _is_same(words, x) for n in self._numbers[x]}

    def add(self, words: tuple[str, ...], number: int) -> None:
        if words not in self._numbers:
            initials = {word[0] for word in words}
            for key in {*words, *initials, *[""] * (not _is_long(words))}:
                self._others.setdefault(key, []).append(words)
        self._numbers.setdefault(words, set()).add(number)


OfDocument = dict[str, Names]
"""By label."""


class Vault:
    """The originals of placeholders by label, number and form. repr: what it holds.

    labels: of placeholders to come, which texts must not have by chance. id: names the vault in the
    folders and JSON lines that `redact` writes with it.
    """

    def __init__(self, labels: Iterable[str] = ()) -> None:
        self.id = secrets.token_hex(4)
        self._forms: dict[str, list[list[str]]] = {}
        self._numbers: dict[tuple[str, str], int] = {}  # by label and folded form
        self._labels = {LITERAL}
        self.expect(labels)

    def __repr__(self) -> str:
        counts = (f"{len(found):,} {label}" for label, found in sorted(self._forms.items()))
        return f"vault {self.id} of {', '.join(counts) or 'nothing'}"

    def check(self, given: str, where: str) -> None:
        """Raise ValueError for the id of another vault. where: what was redacted with it."""
        if given != self.id:
            raise ValueError(f"{where} was redacted with the vault {given}, not with {self!r}")

    def _compile(self) -> None:
        names = sorted({*self._labels, *self._forms}, key=lambda name: (-len(name), name))
        some = "|".join(map(re.escape, names))
        starts = "|".join({re.escape(name[:n]) for name in names for n in range(1, len(name))})
        number = r"\d{1,9}(?:\.\d{1,9})?"
        self._pattern = re.compile(
            # As Markdown and addresses have it.
            rf"(?:\\\[|%5B)({some})\\?_({number})(?:\\\]|%5D)"
            rf"|\[\s?({some})(?:\\?_|[ -])({number})\s?\]"
            rf"|(?<!\w)({some})\\?_({number}(?!\w)|\d{{1,9}}(?!\w))",
            re.IGNORECASE,
        )
        rest = r"(?:\\|(?:\\?_|[ -])(?:\d{1,9}(?:\.\d{0,9})?\s?(?:\\|%5?)?)?)?"
        self._beginning = re.compile(
            rf"(?:\\|%5?|(?:\\?\[\s?|%5B)(?:(?:{some}){rest}|{starts})?"
            rf"|(?<!\w)(?:(?:{some}){rest}|{starts}))\Z",
            re.IGNORECASE,
        )

    def expect(self, labels: Iterable[str]) -> None:
        """Add labels of placeholders to come, which texts must not have by chance."""
        self._labels.update(map(clean_label, labels))
        self._compile()

    def replace(self, text: str, label: str, known: OfDocument, is_number: bool = False) -> str:
        """Return the placeholder of a text. is_number: of JSON, not a string.

        known: placeholders of its document, which get this one.
        """
        label = clean_label(label)
        if label not in self._labels and label not in self._forms:
            self.expect([label])
        number = self._find_number(text, label, known.setdefault(label, Names()))
        if is_number:
            text += _NUMBER
        elif text.endswith((_NUMBER, _STRING)):
            text += _STRING
        forms = self._forms[label][number]
        if text not in forms:
            forms.append(text)
        form = forms.index(text)
        return f"[{label}_{number + 1}{f'.{form + 1}' if form else ''}]"

    def _find_number(self, text: str, label: str, known: Names) -> int:
        """Return the number from 0 of whom a text names: of its document, else of the vault."""
        name = text if label == LITERAL else fold_name(text)
        is_name = label != LITERAL and not re.search(r"\d", name)
        words = tuple(_WORD.findall(name)) if is_name else (name,)
        equal = known.find(words, is_name)
        number = self._numbers.get((label, name))
        if len(equal) == 1:
            (number,) = equal
        elif number is None or equal:  # new, or of several persons: nobody knows which one
            number = len(self._forms.setdefault(label, []))
            self._forms[label].append([])
        self._numbers.setdefault((label, name), number)
        known.add(words, number)
        return number

    def find(self, text: str, start: int = 0) -> Iterator[Placeholder]:
        """Yield the placeholders in a text from a character on."""
        for match in self._pattern.finditer(text, start):
            label, number = filter(None, match.groups())
            number, _, form = number.partition(".")
            found = self._forms.get(label.upper(), [])
            forms = found[int(number) - 1] if 0 < int(number) <= len(found) else []
            # A model may bend the form too. Then the first one is whom it means.
            k = int(form or 1) - 1
            original, is_number = None, False
            if forms:
                original, is_number = _read_form(forms[k if 0 <= k < len(forms) else 0])
            yield Placeholder(match.start(), match.end(), original, is_number)

    def find_beginning(self, text: str) -> int:
        """Return the first character of a placeholder that may go on, or the end."""
        match = self._beginning.search(text)
        return match.start() if match else len(text)

    @property
    def size(self) -> int:
        """The number of forms."""
        return sum(len(forms) for found in self._forms.values() for forms in found)

    def to_bytes(self, key: bytes | None = None) -> bytes:
        """Return the content of a file, with a key encrypted."""
        content = json.dumps(self._forms, ensure_ascii=False).encode(errors="surrogatepass")
        values: dict[str, Any] = {"format": FORMAT, "version": VERSION, "id": self.id}
        if key is None:
            return json.dumps({**values, "placeholders": self._forms}).encode()
        salt = secrets.token_bytes(16)
        token = _make_cipher(key, salt).encrypt(content)
        values |= {"salt": b64encode(salt).decode(), "encrypted": token.decode()}
        return json.dumps(values).encode()

    def save(self, path: Path, key: bytes | None = None) -> None:
        """Write a file that only its owner can read, at once. key: a secret that encrypts it."""
        content = self.to_bytes(key)
        if path.exists():
            path.chmod(0o600)  # `replacing` keeps the mode
        with replacing(path, mode=0o600) as part:
            part.write_bytes(content)

    @classmethod
    def load(cls, path: Path, key: bytes | None = None) -> "Vault":
        """Read a file. ValueError for another key, version or content."""
        try:
            values = json.loads(path.read_bytes())
            if values["format"] != FORMAT:
                raise ValueError
        except (ValueError, TypeError, KeyError, RecursionError):
            raise ValueError(f"{path}: is no vault; expected a file of `redact --vault`") from None
        if values.get("version") != VERSION:
            given = values.get("version")
            raise ValueError(f"{path}: a vault of version {given!r}; expected {VERSION}")
        if ("encrypted" in values) != (key is not None):
            how = (
                "encrypted; expected its `key`" if key is None else "not encrypted; leave out `key`"
            )
            raise ValueError(f"{path}: the vault is {how}")
        needed = ("id", "placeholders") if key is None else ("id", "salt", "encrypted")
        if missing := [name for name in needed if name not in values]:
            raise ValueError(f"{path}: the vault is damaged, {missing[0]!r} is missing")
        forms = values.get("placeholders")
        if key is not None:
            try:
                salt, token = b64decode(values["salt"]), values["encrypted"].encode()
            except (AttributeError, TypeError, ValueError):
                raise ValueError(f"{path}: the vault is damaged") from None
            try:
                forms = json.loads(_make_cipher(key, salt).decrypt(token))
            except require("cryptography.fernet", "vault").InvalidToken:
                raise ValueError(f"{path}: the vault has another key, or is damaged") from None
        vault = cls()
        vault.id = values["id"]
        try:
            vault._take(forms)
        except (AttributeError, TypeError):
            raise ValueError(f"{path}: the vault is damaged") from None
        return vault

    def _take(self, forms: dict[str, list[list[str]]]) -> None:
        for label, entities in forms.items():
            for number, texts in enumerate(entities):
                for text in texts:
                    text, _ = _read_form(text)
                    name = text if label == LITERAL else fold_name(text)
                    self._numbers.setdefault((label, name), number)
        self._forms = forms
        self._compile()


class OpenVault:
    """The vault of a run. No placeholder is written before the file has its original."""

    def __init__(self, path: Path | None, key: bytes | None) -> None:
        """Read a file, or begin a new vault."""
        self._path, self._n_saved, self._key = path, 0, key
        self.vault: Vault | None = None
        if path is not None:
            self.vault = Vault.load(path, key) if path.exists() else Vault()
            self._n_saved = self.vault.size if path.exists() else -1

    def save(self) -> None:
        if self.vault is not None and self._path is not None and self.vault.size > self._n_saved:
            self.vault.save(self._path, self._key)
            self._n_saved = self.vault.size


def _read_form(form: str) -> tuple[str, bool]:
    """Return the original of a form, and whether it is a number of JSON."""
    if form.endswith(_NUMBER):
        return form.removesuffix(_NUMBER), True
    return form.removesuffix(_STRING), False


def clean_label(label: str) -> str:
    """Return a label as placeholders have it: in upper case, with _ for other signs."""
    return re.sub(r"[^A-Z_]+", "_", label.upper()).strip("_") or "LABEL"


def _is_long(words: Iterable[str]) -> bool:
    return any(len(word) > 1 for word in words)


def _is_same(words: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether folded names can be of one person: all words of one, or their initials."""
    few, many = sorted((words, other), key=len)
    rest = iter(many)
    return bool(few) and all(
        any(word == each or (len(word) == 1 and each.startswith(word)) for each in rest)
        for word in few
    )


def _make_cipher(key: bytes, salt: bytes) -> Any:
    fernet = require("cryptography.fernet", "vault")
    scrypt = require("cryptography.hazmat.primitives.kdf.scrypt", "vault")
    secret = scrypt.Scrypt(salt=salt, length=32, n=2**15, r=8, p=1).derive(key)
    return fernet.Fernet(urlsafe_b64encode(secret))
