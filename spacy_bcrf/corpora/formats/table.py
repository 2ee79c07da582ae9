"""The formats of corpora: one row and one module each."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

from spacy_bcrf.corpora.reading import Reading
from spacy_bcrf.corpora.record import Record
from spacy_bcrf.corpora.sample import Sample
from spacy_bcrf.corpora.texts import Advance, TextColumns, TextItem
from spacy_bcrf.corpora.writer import Task, Writer

from . import (
    arrow,
    brat,
    columns,
    conll2012,
    conllu,
    iob,
    jsonl,
    label_studio,
    parquet,
    plain,
    prodigy,
    spacy_docs,
    tables,
    webanno,
)


class Format(NamedTuple):
    """A format of files.

    suffixes: suffixes of its files, with spaces between, in lower case and without compression.
    recognize: decides by content. read: yields annotated records, which `unit` names.
    is_text: whether files are UTF-8.
    read_texts: yields texts without annotation. writer: of annotated documents.
    write_tasks: writes texts to annotate; its last argument is the name of the model.
    """

    name: str
    suffixes: str = ""
    recognize: Callable[[Sample], bool] = lambda sample: False
    read: Callable[[Sample, Reading], Iterator[Record]] | None = None
    unit: str = "records"
    is_text: bool = True
    read_texts: Callable[[Path, TextColumns, Advance], Iterator[TextItem]] | None = None
    writer: type[Writer] | None = None
    write_tasks: Callable[[Iterable[Task], IO[str], str], None] | None = None


_JSON = ".jsonl .ndjson .json"
COLUMNS = Format(
    "columns",
    ".conll .iob .iob2 .bio .tsv .txt",
    columns.recognize,
    columns.read,
    unit="sentences",
)
FORMATS = (
    Format("plain", ".txt", read_texts=plain.read_texts),
    Format("conllu", ".conllu", conllu.recognize, conllu.read, unit="sentences"),
    Format("conll2012", "", conll2012.recognize, conll2012.read, unit="sentences"),
    Format("webanno", "", webanno.recognize, webanno.read),
    Format("iob", "", iob.recognize, iob.read, unit="sentences"),
    Format("prodigy", _JSON, prodigy.recognize, prodigy.read, write_tasks=prodigy.write_tasks),
    Format(
        "label-studio",
        _JSON,
        label_studio.recognize,
        label_studio.read,
        write_tasks=label_studio.write_tasks,
    ),
    Format(
        "jsonl",
        _JSON,
        jsonl.recognize,
        jsonl.read,
        read_texts=jsonl.read_texts,
        writer=jsonl.JsonWriter,
        write_tasks=jsonl.write_tasks,
    ),
    Format("csv", ".csv", tables.recognize, tables.read, read_texts=tables.read_texts),
    COLUMNS,
    Format("brat", ".ann", read=brat.read),
    Format("tsv", ".tsv", read_texts=tables.read_texts),
    Format("arrow", ".arrow .feather", read=arrow.read, is_text=False),
    Format(
        "parquet",
        ".parquet",
        read=parquet.read,
        is_text=False,
        read_texts=parquet.read_texts,
        writer=parquet.ParquetWriter,
    ),
    Format("spacy", ".spacy", read_texts=spacy_docs.read_texts, writer=spacy_docs.DocWriter),
)
"""A file has the first format that recognizes it, among formats that can read it."""


def get_format(name: str) -> Format:
    return next(each for each in FORMATS if each.name == name)
