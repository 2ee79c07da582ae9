"""Corpora of the experiments and benchmarks as `.spacy` files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import spacy
from spacy.tokens import Doc

from spacy_bcrf.annotation.extensions import set_extensions
from spacy_bcrf.corpora.convert import Reader, convert
from spacy_bcrf.corpora.mask import one_label_each
from spacy_bcrf.io.shards import read_docs
from spacy_bcrf.io.text import find_file

PARTS = ("train", "dev", "test")


def convert_parts(
    source: Path, files: Sequence[str], reader: Reader, lang: str, prefix: str
) -> dict[str, Path]:
    """Convert the train, dev and test files of a corpus, one sentence a Doc.

    `files` are relative to `source`. Each part is written to `{prefix}{part}.spacy`, unless that
    file exists.

    Raises CorpusError or FileNotFoundError naming the file that cannot be read.
    """
    paths = {part: Path(f"{prefix}{part}.spacy") for part in PARTS}
    for file, path in zip(files, paths.values(), strict=True):
        if not path.exists():
            convert([(find_file(source / file), reader)], path, lang=lang)
    return paths


def read_corpus(path: Path) -> list[Doc]:
    """Read the documents of a `.spacy` file into one vocabulary."""
    set_extensions()
    return list(read_docs(path, spacy.blank("xx").vocab))


def annotate_one_label(docs: Sequence[Doc], seed: int) -> list[Doc]:
    """Mask each document to one of the corpus's entity labels, as in Corro et al. (2025)."""
    labels = sorted({ent.label_ for doc in docs for ent in doc.ents})
    return [doc for _, doc in one_label_each(docs, labels, seed)]
