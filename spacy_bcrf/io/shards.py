"""Corpora in one `.spacy` file or in a folder of them (shards), read one file at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from spacy.tokens import Doc, DocBin
from spacy.tokens._serialize import ALL_ATTRS
from spacy.vocab import Vocab

from .atomic import replacing
from .text import CorpusError


def find_files(path: Path) -> list[Path]:
    """Return the `.spacy` files of a corpus, sorted by name. ValueError without any."""
    files = sorted(path.rglob("*.spacy")) if path.is_dir() else [path]
    if not files or not all(file.is_file() for file in files):
        raise ValueError(f"{path}: found no .spacy file or folder of .spacy files")
    return files


def read_docs(path: Path, vocab: Vocab) -> Iterator[Doc]:
    """Yield the documents of a corpus, with one file in memory at a time.

    ValueError names a file that is not spaCy's binary format.
    """
    for file in find_files(path):
        try:
            docs = DocBin(store_user_data=True).from_disk(file)
        except Exception as error:  # zlib, msgpack and spaCy raise different types
            raise ValueError(f"{file}: cannot be read as a .spacy file: {error}") from error
        yield from docs.get_docs(vocab)


class Writer:
    """Write documents to one file, or to a folder of files with `shard` documents each.

    shard: 0 for one file. attrs: token attributes to store.
    Use it as a context manager. An exception removes all new files and keeps an older file.
    ValueError for a path without `.spacy`, or for a folder that is not empty.
    """

    def __init__(self, path: Path, shard: int = 0, attrs: Sequence[str] = ALL_ATTRS) -> None:
        if not shard and (path.suffix != ".spacy" or path.is_dir()):
            raise ValueError(f"{path}: expected the name of a .spacy file to write")
        if shard and (path.is_file() or (path.is_dir() and any(path.iterdir()))):
            raise ValueError(
                f"{path}: expected a new or empty folder for files of {shard} documents"
            )
        self.path, self.shard = path, shard
        self.n_docs = 0
        self._is_new = not path.exists()
        self._new_bin = partial(DocBin, attrs, store_user_data=True)
        self._docs = self._new_bin()
        self._written: list[Path] = []

    def add(self, doc: Doc) -> None:
        """Add a document. A full shard goes to disk."""
        self._docs.add(doc)
        self.n_docs += 1
        if self.shard and len(self._docs) == self.shard:
            self._flush()

    def _flush(self) -> None:
        name = f"{len(self._written):06d}.spacy"
        path = self.path / name if self.shard else self.path
        try:
            with replacing(path) as part:
                self._docs.to_disk(part)
        except OSError as error:
            raise CorpusError(f"{path}: cannot be written: {error.strerror or error}") from None
        self._docs = self._new_bin()
        self._written.append(path)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            for path in self._written:
                path.unlink(missing_ok=True)
            if self._written and self._is_new:
                self.path.rmdir()
        elif len(self._docs) or not self.shard:
            self._flush()


def write_all(docs: Iterable[Doc], path: Path, shard: int = 0) -> int:
    """Write documents as `Writer` does, and return their number."""
    with Writer(path, shard) as writer:
        for doc in docs:
            writer.add(doc)
    return writer.n_docs
