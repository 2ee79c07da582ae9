"""Texts of a command line argument, as documents without annotation."""

from collections.abc import Iterator
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Doc

from spacy_bcrf.corpora.texts import Rejected, TextRecord, read_records
from spacy_bcrf.io.shards import find_files


def read_texts(path: Path, nlp: Language) -> Iterator[Doc]:
    """Yield the texts of a file as documents without annotation, see `read_text_records`."""
    return (doc for _, doc in read_text_records(path, nlp))


def read_text_records(path: Path, nlp: Language) -> Iterator[tuple[TextRecord, Doc]]:
    """Yield the records of a file, and their texts as documents without annotation.

    path: a file that `corpora.texts.read_records` reads, or a folder of `.spacy` files. Given
    tokens stay. ValueError names file and line of a bad text.
    """
    is_corpus = path.is_dir() or path.suffix == ".spacy"
    for file in find_files(path) if is_corpus else [path]:
        for item in read_records(file):
            if isinstance(item, Rejected):
                raise ValueError(f"{item.place}: {item.reason}")
            try:
                yield item, item.make_doc(nlp)
            except ValueError as error:  # spaCy's limit of characters, or other words than the text
                raise ValueError(f"{item.place}: {error}") from None
