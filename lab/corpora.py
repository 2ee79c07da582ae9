"""Corpora of the experiments and benchmarks as `.spacy` files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import spacy
from spacy.tokens import Doc
from spacy.util import get_lang_class

from bcrf.io.text import CorpusError, find_file, read_lines, text_suffix
from lab.masking import one_label_each
from spacy_bcrf.annotation.extensions import set_extensions
from spacy_bcrf.corpora.convert import convert
from spacy_bcrf.corpora.formats.columns import read_columns
from spacy_bcrf.corpora.formats.conllu import read_conllu
from spacy_bcrf.corpora.sentence import Sentence
from spacy_bcrf.readers.doc_files import read_docs

PARTS = ("train", "dev", "test")
# Which part a file is, by its name. CoNLL-2003 has eng.train, eng.testa (dev) and eng.testb.
_IS_PART: dict[str, Callable[[str], object]] = {
    "train": lambda name: "train" in name,
    "dev": re.compile("dev|valid|testa").search,
    "test": re.compile("test(?!a)").search,
}
_EXPECTED = (
    "expected one file each for train, dev and test: a treebank's *-ud-train.conllu, "
    "*-ud-dev.conllu and *-ud-test.conllu; CoNLL columns such as eng.train, eng.testa and "
    "eng.testb, or train.txt, valid.txt and test.txt; or train.spacy, dev.spacy and test.spacy"
)


_READERS: dict[str, Callable[..., Iterator[Sentence]]] = {
    "conllu": read_conllu,
    "columns": read_columns,
}
FIRST_AND_LAST: dict[str, Any] = {"format": "columns", "word_column": 1, "ent_columns": (-1,)}
"""Options of `convert` for words in the first and entity tags in the last column."""


@dataclass(frozen=True)
class Corpus:
    """Train, dev and test files and their format: "conllu", "columns", or None for `.spacy`."""

    lang: str
    files: tuple[str, ...]
    format: str | None

    def read(self, source: Path, part: str) -> Iterator[Sentence]:
        """Yield the sentences of a part. The files are relative to `source`."""
        if self.format is None:
            raise ValueError(f"{self.files}: .spacy files are read by spaCy's readers")
        path = find_file(source / self.files[PARTS.index(part)])
        return _READERS[self.format](read_lines(path))


def find_corpus(folder: Path) -> Corpus:
    """Find the train, dev and test files of a folder: CoNLL-U, `.spacy` or CoNLL columns.

    Files may be compressed. A folder with CoNLL-U files is a treebank, whatever else it has. The
    files are absolute paths. The language is the prefix of a treebank's files, else "xx".

    Raises CorpusError naming what was expected and what the folder has.
    """
    if not folder.is_dir():
        raise CorpusError(f"{folder}: no such folder; {_EXPECTED}")
    by_suffix: dict[str, list[Path]] = {".conllu": [], ".spacy": [], "columns": []}
    for path in sorted(folder.resolve().iterdir()):
        if path.is_file():
            by_suffix.get(text_suffix(path), by_suffix["columns"]).append(path)
    parts: dict[str, list[Path]] = {}
    for paths in by_suffix.values():
        parts = {
            part: [path for path in paths if is_part(path.name.lower())]
            for part, is_part in _IS_PART.items()
        }
        if any(parts.values()):
            break
    if any(len(found) != 1 for found in parts.values()):
        found = "; ".join(
            f"{part}: {', '.join(path.name for path in paths) or 'none'}"
            for part, paths in parts.items()
        )
        raise CorpusError(f"{folder}: {_EXPECTED}; found {found}")
    formats = {".conllu": "conllu", ".spacy": None}
    (train,) = parts["train"]
    suffix = text_suffix(train)
    lang = _language(train.name) if suffix == ".conllu" else "xx"
    files = tuple(str(path) for (path,) in parts.values())
    return Corpus(lang, files, formats.get(suffix, "columns"))


def _language(name: str) -> str:
    """Return the language of a treebank's file, such as "de" for de_gsd-ud-train.conllu."""
    match = re.match("[a-z]{2,3}(?=[_-])", name)
    try:
        get_lang_class(match[0] if match else "xx")
    except ImportError:
        return "xx"
    return match[0] if match else "xx"


def convert_parts(source: Path, corpus: Corpus, prefix: str) -> dict[str, Path]:
    """Convert the train, dev and test files of a corpus, one sentence a Doc.

    The files are relative to `source`. Each part is written to `{prefix}{part}.spacy`, unless that
    file exists. `.spacy` files need no conversion: return their paths.

    Raises CorpusError or FileNotFoundError naming the file that cannot be read.
    """
    files = {part: source / file for part, file in zip(PARTS, corpus.files, strict=True)}
    if corpus.format is None:
        return files
    options = FIRST_AND_LAST if corpus.format == "columns" else {"format": corpus.format}
    paths = {part: Path(f"{prefix}{part}.spacy") for part in PARTS}
    for part, path in paths.items():
        if not path.exists():
            convert([files[part]], path, lang=corpus.lang, **options)
    return paths


def read_corpus(path: Path) -> list[Doc]:
    """Read the documents of a `.spacy` file into one vocabulary."""
    set_extensions()
    return list(read_docs(path, spacy.blank("xx").vocab))


def annotate_one_label(docs: Sequence[Doc], seed: int) -> list[Doc]:
    """Mask each document to one of the corpus's entity labels, as in Corro et al. (2025)."""
    labels = sorted({ent.label_ for doc in docs for ent in doc.ents})
    return [doc for _, doc in one_label_each(docs, labels, seed)]
