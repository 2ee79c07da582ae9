"""Texts of a command line argument, as documents without annotation."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc

from spacy_bcrf.corpora.formats.jsonl import read_record
from spacy_bcrf.corpora.record import make_doc
from spacy_bcrf.io.json_objects import Problem, read_objects
from spacy_bcrf.io.shards import read_docs
from spacy_bcrf.io.text import read_lines, text_suffix

_JSON = (".jsonl", ".ndjson", ".json")


def read_texts(path: Path, nlp: Language) -> Iterator[Doc]:
    """Yield the texts of a file as documents without annotation.

    path: `.txt` with one text on each line; JSON lines with "text", "tokens" or both; or `.spacy`,
    a file or a folder. Compressed text is decompressed. Given tokens stay. ValueError names file
    and line of a bad text.
    """
    suffix = text_suffix(path)
    if path.is_dir() or suffix == ".spacy":
        for doc in read_docs(path, nlp.vocab):
            words = [token.text for token in doc]
            yield Doc(nlp.vocab, words, [bool(token.whitespace_) for token in doc])
    elif suffix == ".txt":
        for line in read_lines(path):
            if line.text.strip():
                try:
                    yield nlp.make_doc(line.text)
                except ValueError as error:  # spaCy's limit of characters
                    raise line.error(str(error)) from None
    elif suffix in _JSON:
        for place, value in read_objects(path):
            try:
                if isinstance(value, Problem):
                    raise value
                fields: dict[str, Any] = {
                    key: value[key] for key in ("text", "tokens") if key in value
                }
                yield make_doc(read_record(fields, place), nlp)
            except Problem as problem:
                raise ValueError(f"{place}: {problem}") from None
    else:
        raise ValueError(
            f"{path}: unknown extension {suffix!r}; expected .txt, .spacy or one of "
            f"{', '.join(_JSON)}"
        )
