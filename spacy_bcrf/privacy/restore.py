"""`restore`: the originals in place of numbered placeholders."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from bcrf.chain.potentials import counted
from bcrf.io.atomic import replacing_folder
from bcrf.io.text import explain_utf8, text_suffix
from spacy_bcrf.corpora.inputs import find_inputs

from .documents import KINDS, read_document
from .markdown_texts import SCHEME
from .nodes import Bounds, Document
from .redact_columns import read_rows, write_rows
from .vault import Vault

STRUCTURED = (".txt", *KINDS)
"""Suffixes of text files whose texts may be encoded."""
VAULT_ID = ".vault-id"
"""The file of a redacted folder that names its vault."""
_ID_OF_RECORD = re.compile(r'"spans": \[.*\], "vault": "([0-9a-f]{8})"}\r?$', re.MULTILINE)


class Restored(NamedTuple):
    """A text with originals. n_restored, n_unknown: placeholders with and without one."""

    text: str
    n_restored: int
    n_unknown: int


def restore(text: str, vault: Vault, kind: str = "") -> Restored:
    """Return a text with the originals of its placeholders. Unknown placeholders stay.

    Unchanged output of `redact` becomes the same texts again, in a source that may write them
    otherwise. kind: a suffix of STRUCTURED for a source that keeps its format. ValueError if it has
    another format, and for JSON lines of another vault.
    """
    for match in _ID_OF_RECORD.finditer(text if kind == ".jsonl" else ""):
        vault.check(match[1], "a line")
    if kind not in STRUCTURED:
        restorer = Restorer(vault)
        new = restorer.feed(text) + restorer.close()[0]
        return Restored(new, restorer.n_restored, restorer.n_unknown)
    if kind in (".md", ".markdown"):
        return _restore_markdown(read_document(text.replace(f"<{SCHEME}", "<"), kind), vault)
    document, parts, n_unknown = read_document(text, kind), [], 0
    numbers = set[Bounds]()
    for start, end, original, is_number in vault.find(document.text):
        if original is None or list(document.cut(start, end)) != [(start, end)]:
            n_unknown += 1
        else:
            parts.append((start, end, original))
            if is_number:
                numbers.add((start, end))
    return Restored(document.write(parts, numbers=numbers).source, len(parts), n_unknown)


@contextmanager
def reading(path: Path, vault: Vault) -> Iterator[str]:
    """Yield the content of a file. A ValueError within, or for another vault, names the file."""
    check_vault(path.parent, vault)
    try:
        yield path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} {explain_utf8(error, len(error.object))}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def restore_folder(
    folder: Path, output: Path, vault: Vault, report: Callable[[str], object]
) -> Iterator[Restored]:
    """Write the files of a redacted folder to a new one, all or none, and yield each of them.

    report: receives a note about other files.
    """
    check_vault(folder, vault)
    files, n_skipped = find_inputs([str(folder)], output.absolute(), (*STRUCTURED, ".parquet"))
    if n_skipped:
        report(f"skipped {counted(n_skipped, 'file')} with other extensions")
    with replacing_folder(output) as part:
        for file in files:
            path = part / file.relative_to(folder)
            path.parent.mkdir(parents=True, exist_ok=True)
            if file.suffix == ".parquet":
                yield restore_parquet(file, path, vault)
                continue
            with reading(file, vault) as text:
                yield (found := restore(text, vault, text_suffix(file)))
                path.write_bytes(found.text.encode())


def restore_parquet(path: Path, target: Path, vault: Vault) -> Restored:
    """Write the restored rows of a Parquet file. RETURNS the counts. ValueError names a row."""
    check_vault(path.parent, vault)
    counts = [0, 0]

    def restore_rows() -> Iterator[str]:
        for number, row in enumerate(read_rows(path, lambda n_bytes: None), 1):
            if isinstance(row, Exception):
                raise ValueError(f"{path}:{number}: cannot be read: {row}")
            found = restore(row, vault, ".json")
            counts[0] += found.n_restored
            counts[1] += found.n_unknown
            yield found.text

    write_rows(path, target, restore_rows(), ())
    return Restored("", *counts)


def check_vault(folder: Path, vault: Vault | None) -> None:
    """Raise ValueError if `redact` wrote a folder, or one that it is in, with another vault.

    vault: None for a redaction without one, into whose files the old vault would put its originals.
    """
    whole = folder.resolve()
    for path in (one / VAULT_ID for one in (whole, *whole.parents)):
        if path.exists():
            given, where = path.read_text("utf-8-sig").strip(), str(path.parent)
            if vault is None:
                raise ValueError(
                    f"{where} was redacted with the vault {given}: expected it, or another folder"
                )
            return vault.check(given, where)


def _restore_markdown(document: Document, vault: Vault) -> Restored:
    """Restore placeholders of the source: their brackets may be marks, which are in no text."""
    text, parts, at, n_unknown = document.source, [document.mark], 0, 0
    for start, end, original, is_number in vault.find(text):
        if original is None:
            n_unknown += 1
        else:
            n = is_number and text[start - 1 : start] == text[end : end + 1] == '"'
            start, end = start - n, end + n  # without the quotes of JSON
            parts += [text[at:start], document.find_escape(start, end)(original)]
            at = end
    return Restored("".join([*parts, text[at:]]), (len(parts) - 1) // 2, n_unknown)


class TextChange(Protocol):
    """A text that arrives in pieces and becomes another one: a `Restorer`, a `RedactionStream`."""

    def feed(self, text: str) -> str:
        """Take the next text, and return what is final."""

    def close(self) -> tuple[str, Any]:
        """Return the rest, and a report."""


class Restorer:
    """Restore a text that arrives in pieces. n_restored, n_unknown: see `Restored`."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._held = self._before = ""  # not emitted; the character before it
        self.n_restored = self.n_unknown = 0

    def feed(self, text: str) -> str:
        """Take the next text, and return what is final."""
        self._held += text
        known = self._before + self._held
        return self._emit(max(len(self._before), self._vault.find_beginning(known)))

    def close(self) -> tuple[str, dict[str, int]]:
        """Return the rest, and the numbers of placeholders so far. Another text may follow."""
        rest = self._emit(len(self._before) + len(self._held))
        self._before = ""
        return rest, {"restored": self.n_restored, "unknown": self.n_unknown}

    def _emit(self, end: int) -> str:
        text, at = self._before + self._held, len(self._before)
        parts = []
        for start, stop, original, _ in self._vault.find(text, at):
            if stop > end:
                break
            self.n_restored += original is not None
            self.n_unknown += original is None
            parts += [text[at:start], text[start:stop] if original is None else original]
            at = stop
        parts.append(text[at:end])
        self._before, self._held = text[max(0, end - 1) : end], text[end:]
        return "".join(parts)
