"""Texts of files as documents without annotation."""

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc
from tqdm import tqdm

from bcrf.chain.potentials import counted
from bcrf.io.text import text_suffix
from spacy_bcrf.readers.doc_files import read_docs

from .formats.brat import has_annotation
from .inputs import find_inputs, read_records
from .texts import Rejected, TextColumns, TextRecord, as_json_values
from .time_limit import SECONDS, TookTooLongError, time_limit, watch_tokenizer

ReportNote = Callable[[str], object]
"""Receives notes about the texts of a file."""


def _ignore(note: str) -> None:
    """Report no notes."""


def read_text_docs(path: Path, nlp: Language, report: ReportNote = _ignore) -> Iterator[Doc]:
    """Yield the texts of a file as documents without annotation, see `read_text_records`."""
    return (doc for _, doc in read_text_records(path, nlp, report))


def read_texts_or_docs(path: Path, nlp: Language, report: ReportNote = _ignore) -> Iterator[Doc]:
    """Return the documents of .spacy files with their span groups, or documents of texts.

    ValueError for a folder of both.
    """
    files, _ = find_inputs([str(path)])
    others = [file for file in files if text_suffix(file) != ".spacy"]
    if 0 < len(others) < len(files):
        raise ValueError(
            f"{path}: has .spacy files and {len(others):,} others, such as {others[0]}; expected "
            "one folder of .spacy files, and another one of texts"
        )
    if others:
        return read_text_docs(path, nlp, report)
    return chain.from_iterable(read_docs(file, nlp.vocab) for file in files)


def read_text_records(
    path: Path,
    nlp: Language,
    report: ReportNote = _ignore,
    skip: ReportNote | None = None,
    columns: TextColumns = TextColumns(),  # noqa: B008 (immutable)
) -> Iterator[tuple[TextRecord, Doc]]:
    """Yield the records of a file, and their texts as documents without annotation.

    path: a file that `read_records` reads, or a folder of such files. Given tokens stay. report:
    receives notes. skip: receives place and reason of a bad text; without it, they are a
    ValueError. A text that takes the tokenizer more than SECONDS is bad. An empty text is a
    document without words, and a note counts them.
    """
    watch_tokenizer(nlp)
    n_empty = 0
    files, _ = find_inputs([str(path)])
    if n := sum(map(has_annotation, files)):
        report(f"{path}: {counted(n, 'text')} of brat without annotation. `convert` keeps it")
    size = sum(file.stat().st_size for file in files)
    with tqdm(total=size, unit="B", unit_scale=True, desc="reading", delay=1, disable=None) as bar:
        for file in files:
            for item in read_records(file, columns, bar.update):
                try:
                    if isinstance(item, Rejected):
                        if item.empty is None:
                            raise ValueError(item.reason)
                        item, n_empty = item.empty, n_empty + 1
                    with time_limit(SECONDS):
                        pair = item, item.make_doc(nlp)
                except (ValueError, TookTooLongError) as error:  # also spaCy's limit of characters
                    problem = f"{item.place}: {error}"
                    if skip is None:
                        raise ValueError(problem) from None
                    skip(problem)
                else:
                    yield pair
    if n_empty:
        report(f"{path}: {counted(n_empty, 'empty text')}")


class Texts(Sequence[Doc]):
    """The texts of a file as documents: read once, then by number.

    skip_bad: leave out bad texts, and keep their places and reasons in `problems`.
    """

    def __init__(
        self, path: Path, nlp: Language, skip_bad: bool = False, report: ReportNote = _ignore
    ) -> None:
        self.path, self.nlp, self.skip_bad, self.report = path, nlp, skip_bad, report
        self.problems: list[str] = []
        self._kept = TemporaryFile()  # noqa: SIM115 (closed with this object)
        self._offsets: list[int] = []

    def __iter__(self) -> Iterator[Doc]:
        skip = self.problems.append if self.skip_bad else None
        for record, doc in read_text_records(self.path, self.nlp, self.report, skip):
            self._offsets.append(self._kept.tell())
            fields = record.id, record.place, record.text, record.words, record.spaces
            line = json.dumps([*fields, as_json_values(record.meta)])
            self._kept.write(f"{line}\n".encode())
            yield doc

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, i: Any) -> Any:
        return self._record(i).make_doc(self.nlp)

    def fields(self, i: int) -> dict[str, Any]:
        """Return id, text and all other columns of a document, as JSON values."""
        record = self._record(i)
        own_id = {} if record.id == record.place else {"id": record.id}
        return {**own_id, "text": self[i].text, **record.meta}

    def _record(self, i: int) -> TextRecord:
        self._kept.seek(self._offsets[i])
        return TextRecord(*json.loads(self._kept.readline()))
