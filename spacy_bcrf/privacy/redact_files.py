"""`redact` of files: in shards as `annotate`, and then as one file of records or as the old files.

A line of a shard has a JSON list with the number of the file and counts, a tab, and the JSON of the
text or record to write.
"""

import hashlib
import json
import os
import secrets
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from sys import maxsize
from typing import IO, Any, NamedTuple

from spacy.language import Language
from spacy.tokens import Doc

from bcrf.chain.potentials import counted
from bcrf.io.atomic import UNFINISHED, replacing, resolve, write_text
from bcrf.io.text import text_suffix
from spacy_bcrf.bulk.annotate import (
    Progress,
    annotate_files,
    check_columns,
    choose_engine,
    find_model,
)
from spacy_bcrf.bulk.worker import RunSettings
from spacy_bcrf.corpora.formats.tables import read_header
from spacy_bcrf.corpora.inputs import find_inputs, read_records
from spacy_bcrf.corpora.texts import Rejected, TextColumns, TextItem, TextRecord
from spacy_bcrf.promises.kinds import note_kinds

from .documents import KINDS, read_document
from .file_parts import Source, check_fields, read_sources
from .nodes import Document
from .recall_promise import note_unpromised
from .redact import Redacted, Redactor
from .redact_columns import write_rows
from .replacer import Replacer
from .restore import VAULT_ID, check_vault
from .vault import OpenVault

KEPT = (".txt", *KINDS, ".parquet")
"""Suffixes of files that keep their format."""
SHARD = 1000
WATCHED = 100
"""Most documents that a promise's watch compares."""
_encode = json.JSONEncoder(ensure_ascii=False).encode
"""As `json.dumps`, which makes an encoder for each value."""


@dataclass(frozen=True)
class RedactionSettings(RunSettings):
    """What decides the output of `redact`, see `Redactor` and `Replacer`.

    vault: a file, which `vault_key` encrypts. fields: see `read_document`.
    """

    style: str = "label"
    key: bytes = b""
    threshold: float | None = None
    promise: str | None = None
    vault: Path | None = None
    vault_key: bytes | None = None
    fields: tuple[str, ...] | None = None

    def make_work(self, nlp: Language) -> "Redaction":
        return Redaction(self, nlp)

    def describe(self) -> dict[str, Any]:
        return {
            "pipes": self.pipes,
            "style": self.style,
            "key": hashlib.sha256(self.key).hexdigest(),
            "threshold": self.threshold,
            "promise": self.promise,
            "vault": str(self.vault),
            "fields": self.fields,
        }


class ReadDocument(NamedTuple):
    """A document with the tokens of each of its texts."""

    document: Document
    docs: list[Doc]

    def __len__(self) -> int:
        return sum(map(len, self.docs))


class Redaction:
    """The work of `redact`. Before a shard is written, the vault has all of its originals."""

    def __init__(self, settings: RedactionSettings, nlp: Language) -> None:
        self._settings, self._nlp = settings, nlp
        nlp.max_length = maxsize  # the limit is for parsers
        self._opened = OpenVault(settings.vault, settings.vault_key)
        self.vault = self._opened.vault
        replacer = Replacer(settings.style, settings.key, self.vault)
        (pipe,) = settings.pipes or (None,)
        self.redactor = Redactor(
            nlp, pipe, replacer, threshold=settings.threshold, promise=settings.promise
        )

    def note(self, report: Callable[[str], object]) -> None:
        note_unpromised(self.redactor.labeler, self.redactor.promise, report)

    def note_kinds(self, report: Callable[[str], object], records: Iterable[TextItem]) -> None:
        """Note if the promise is about other documents than the first ones."""
        if self._settings.threshold is None:
            first = islice((one for one in records if isinstance(one, TextRecord)), WATCHED)
            texts = [self.read(one).document.text for one in first]
            promise = self._settings.promise
            for note in note_kinds(self._nlp, self.redactor.name, promise, texts):
                report(note)

    def note_headers(self, report: Callable[[str], object], files: Iterable[Path]) -> None:
        """Note the first rows of tables in which something is found: they may be records."""
        for file in files:
            if text_suffix(file) in (".csv", ".tsv"):
                names = read_header(file)
                if self.redactor.redact_strings(names) != names:
                    report(
                        f"{file}: the first row has the names of columns, and stays: "
                        f"{', '.join(names)}. If it is a record, add a row of names before it"
                    )

    def read(self, record: TextRecord) -> Any:
        if record.words is not None:  # also without a text
            doc = record.make_doc(self._nlp)
            return ReadDocument(read_document(doc.text, "plain"), [doc])
        kind, head = (record.kind, record.head) if isinstance(record, Source) else ("", "")
        document = read_document(record.text or "", kind, self._settings.fields, head)
        return ReadDocument(*self.redactor.read(document))

    def work(self, read: Sequence[ReadDocument]) -> list[Redacted]:
        return self.redactor.redact_documents([(one.document, one.docs) for one in read])

    def open(self, file: IO[bytes]) -> "Lines":
        return Lines(file, self._opened.save)

    def write(self, writer: "Lines", record: TextRecord, found: Redacted) -> None:
        if isinstance(record, Source):
            found = found._replace(text=found.text[len(record.head) :])
            counts = {**found.counts(), "texts": int(record.is_text)}
            writer.add([record.file, counts], found.text)
        else:
            writer.add([0, found.counts()], {"id": record.id, **found.to_json(self.vault)})


class Lines:
    """JSON lines of a shard. finish: called before the file is in its place."""

    def __init__(self, file: IO[bytes], finish: Callable[[], object]) -> None:
        self._file, self.finish = file, finish

    def add(self, head: list[Any], value: Any) -> None:
        self._file.write(f"{_encode(head)}\t{_encode(value)}\n".encode())


class RedactedFiles(NamedTuple):
    """Counts of what is written, see `Redacted.counts`, and the documents that are not."""

    counts: Counter[str]
    failures: list[Rejected]


def redact_files(
    model: str,
    inputs: Sequence[str],
    output: Path,
    *,
    pipe: str | None = None,
    columns: TextColumns = TextColumns(whole_files=True),  # noqa: B008 (immutable)
    fields: Sequence[str] | None = None,
    style: str = "label",
    key: bytes | None = None,
    n_processes: int | None = None,
    report: Callable[[str], object] = lambda note: None,
    **options: Any,
) -> RedactedFiles:
    """Redact files. The same call resumes an interrupted run, whose parts are in a hidden folder.

    inputs: files, folders, globs and URLs. output: a folder or a file of the only input's suffix:
    files keep their format. Or `.jsonl` without `fields`: JSON lines with id, text and replaced
    spans. columns: of the texts in these, and lines of `.txt`. fields: of JSON and CSV, None for
    all. key: of surrogates, None for a random one. options: see `RedactionSettings`. report:
    receives notes. ValueError for wrong arguments, and if no document can be redacted: nothing is
    written. BulkError if the run cannot go on.
    """
    is_folder = output.is_dir() or not output.suffix
    parts = output / ".parts" if is_folder else output.with_name(f".{output.name}.parts")
    keeps = is_folder or text_suffix(output) != ".jsonl" or fields is not None
    files, n_skipped = find_inputs(inputs, resolve(output), KEPT if keeps else None)
    names = _name_files(files, inputs, output, is_folder) if keeps else []
    read = partial(_read_texts, columns=columns)
    if keeps:
        numbers = {file: i for i, file in enumerate(files)}
        read = partial(read_sources, numbers=numbers, columns=columns)
        check_fields(files, fields)
    else:
        check_columns(files, columns)
    key_file = parts.with_name(f"{parts.name}.key")
    if needs_key := key is None and style in ("surrogate", "shifted"):
        key = key_file.read_bytes() if key_file.exists() else secrets.token_bytes(32)
    settings = RedactionSettings(
        find_model(model),
        () if pipe is None else (pipe,),
        "jsonl",
        parts / "shards",
        style=style,
        key=key or b"",
        fields=None if fields is None else tuple(fields),
        **options,
    )
    if settings.vault is not None and (n_processes or 1) > 1:
        raise ValueError("a vault needs one process: its numbers go on from text to text")
    works: list[Redaction] = []
    run = choose_engine(settings, n_processes, None, works.append)
    works[0].note(report)
    vault = works[0].vault if is_folder else None
    if is_folder:
        check_vault(output, vault)
    if n_skipped:
        report(f"skipped {counted(n_skipped, 'file')} with other extensions")
    if is_folder and (old := [name for name in names if name.exists()]):
        report(f"{counted(len(old), 'file')} of {output} will be replaced, such as {old[0]}")
    progress = Progress(str(output), False, "redacting")
    named = {"shard": SHARD, "columns": columns, "keeps": keeps}
    with _removing(parts, key_file) as remove:
        if needs_key:
            _keep_key(key_file, settings.key)
        counts = annotate_files(files, parts, settings, read, named, run, progress)
    progress.bar.close()
    failures = [Rejected(**json.loads(line)) for line in _read_lines(parts / "errors.jsonl")]
    found = RedactedFiles(Counter(), failures)
    if counts.written:
        lines = _read_shards(parts, found.counts)
        if keeps:
            if vault is not None:
                output.mkdir(parents=True, exist_ok=True)
                write_text(output / VAULT_ID, f"{vault.id}\n")  # first: a kill may come between
            _write_files(lines, names, files, failures)
        else:
            _write_records(lines, output)
        if not failures:
            items = (one for file in files for one in read(file, advance=lambda n_bytes: None))
            works[0].note_kinds(report, items)
        works[0].note_headers(report, files if keeps else ())
    remove()
    if not counts.written:
        joined = ", ".join(inputs)
        if failures:
            failed = counted(len(failures), "text")
            raise ValueError(f"{joined}: no text left, {failed} failed: {failures[0].reason}")
        raise ValueError(f"{joined}: has no texts")
    return found


def _read_texts(path: Path, **options: Any) -> Iterator[TextItem]:
    """Yield the records of a file. An empty text is none to annotate, but one to write."""
    for item in read_records(path, **options):
        yield item if isinstance(item, TextRecord) or item.empty is None else item.empty


def _name_files(
    files: Sequence[Path], inputs: Sequence[str], output: Path, is_folder: bool
) -> list[Path]:
    """Return the file to write for each file. ValueError if two have the same one."""
    if not is_folder:
        if len(files) != 1 or text_suffix(files[0]) != output.suffix.lower():
            raise ValueError(
                f"{output}: expected .jsonl, a folder, or the suffix of the only input, "
                f"{text_suffix(files[0])}"
            )
        return [output]
    folders = [folder for folder in map(Path, inputs) if folder.is_dir()]
    names: dict[Path, Path] = {}
    for file in files:
        inner = (file.relative_to(x) for x in folders if file.is_relative_to(x))
        name = output / next(inner, Path(file.name))
        if name.suffix.lower() != text_suffix(file):
            name = name.with_suffix("")  # of the compression
        if name in names:
            raise ValueError(f"{file}: would be {name}, as {names[name]}; expected other names")
        names[name] = file
    return list(names)


def _keep_key(path: Path, key: bytes) -> None:
    """Keep the key of a run that may be killed: the rest of it has equal surrogates."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        os.write(file, key)
        os.close(file)


def _read_lines(path: Path) -> Iterator[str]:
    if path.exists():
        with path.open(encoding="utf8") as file:
            yield from file


def _read_shards(parts: Path, counts: Counter[str]) -> Iterator[tuple[int, str]]:
    """Yield numbers of files and JSON lines, and add their counts."""
    for path in sorted((parts / "shards").glob("*.jsonl")):
        for line in _read_lines(path):
            head, _, value = line.partition("\t")
            number, found = json.loads(head)
            counts.update(found)
            yield number, value


def _write_records(lines: Iterator[tuple[int, str]], output: Path) -> None:
    with replacing(output) as part, part.open("wb") as file:
        file.writelines(value.encode() for _, value in lines)


def _write_files(
    lines: Iterator[tuple[int, str]],
    names: Sequence[Path],
    files: Sequence[Path],
    failures: Sequence[Rejected],
) -> None:
    """Write each file at once. A file without any document that could be redacted is left out."""
    left = set(range(len(files)))
    places = [failure.place for failure in failures]
    for number, values in groupby(lines, lambda line: line[0]):
        left.remove(number)
        texts = (json.loads(value) for _, value in values)
        with replacing(names[number]) as part:
            if files[number].suffix == ".parquet":
                write_rows(files[number], part, texts, places)
            else:
                with part.open("wb") as file:
                    file.writelines(text.encode(errors="surrogatepass") for text in texts)
    for number in left:
        of_file = str(files[number]), f"{files[number]}:"
        if not any(place == of_file[0] or place.startswith(of_file[1]) for place in places):
            with replacing(names[number]) as part:  # a file without documents
                if files[number].suffix == ".parquet":
                    write_rows(files[number], part, iter(()), places)


@contextmanager
def _removing(parts: Path, key_file: Path) -> Iterator[Callable[[], None]]:
    """Yield what removes the parts of a run. An error removes them unless there is a finished one.

    They are moved first: no half of them is the next run's.
    """
    new = [path for path in (parts, parts.parent) if not path.exists()]

    def remove() -> None:
        key_file.unlink(missing_ok=True)
        gone = parts.with_name(f"{UNFINISHED}{parts.name}")
        shutil.rmtree(gone, ignore_errors=True)
        parts.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
        with suppress(OSError):  # has files
            if parts.parent in new:
                parts.parent.rmdir()

    try:
        yield remove
    except Exception:
        if parts in new and parts.exists() and not any((parts / "shards").glob("0*")):
            remove()
        raise
