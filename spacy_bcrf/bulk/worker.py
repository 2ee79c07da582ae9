"""A worker: one pipeline in one process, which annotates and writes whole shards."""

import warnings
from collections.abc import Iterator, Sequence, Sized
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from spacy.language import Language
from spacy.tokens import Doc

from bcrf.io.atomic import UNFINISHED, replacing, write_text
from bcrf.io.hashes import hash_files
from spacy_bcrf.corpora.formats.table import get_format
from spacy_bcrf.corpora.remote import describe_error, path_errors
from spacy_bcrf.corpora.texts import Rejected, TextRecord
from spacy_bcrf.corpora.time_limit import time_limit, watch_tokenizer
from spacy_bcrf.corpora.writer import OPTIONAL, DocPredictions, Row, Writer
from spacy_bcrf.loading import find_labelers, load_pipeline
from spacy_bcrf.pipeline.predict_in_parts import is_out_of_memory, predict_in_parts

from .predictor import Predictor
from .shards import Finished, Shard

BATCH_TOKENS = 10_000
"""A batch ends after this number of tokens. It bounds the memory of activations."""
BATCH_LIMITS = 10
"""A batch can take at most as long as the time limits of this number of documents."""
WARM_UP = 500_000
"""Characters of the first texts. Their words stay in memory and in the tokenizer's cache.

Later texts are read in memory zones, which free their strings, but add no words to the cache. With
an empty cache, the tokenizer takes eight times as long."""
MAX_REASON = 1000
"""Longest reason of a failure, in characters: the message of an error may have the whole text."""


class BulkError(ValueError):
    """A run cannot go on. Finished shards stay, and the same command goes on from them."""


@dataclass(frozen=True)
class RunSettings:
    """What decides the output for given inputs.

    model: folder or package. pipes: components to write. folder: of the shards. n_alternatives:
    labelings of each document. with_dropped: predictions below a threshold too. max_length: of a
    text, None for the pipeline's. timeout: seconds for each document, 0 for no limit.
    """

    model: str
    pipes: tuple[str, ...]
    format: str
    folder: Path
    with_text: bool = True
    n_alternatives: int = 0
    with_dropped: bool = False
    max_length: int | None = None
    meta_columns: bytes = b""
    timeout: float = 60.0

    def make_work(self, nlp: Language) -> "Work":
        """Return what workers do with a document."""
        return Annotation(self, nlp)

    def describe(self) -> dict[str, Any]:
        """Return JSON values that decide the output, besides the model."""
        return {
            "pipes": self.pipes,
            "format": self.format,
            "text": self.with_text,
            "alternatives": self.n_alternatives,
            "dropped": self.with_dropped,
            "max-length": self.max_length,
        }

    def note_path(self, number: int) -> Path:
        """Return the file that has the index of the record of a careful shard."""
        return self.folder / f"{UNFINISHED}at-{number:06d}"


class Work(Protocol):
    """What a worker does with documents: read their tokens, and write what it finds for them."""

    def read(self, record: TextRecord) -> Sized:
        """Tokenize a document."""

    def work(self, read: Sequence[Any]) -> Sequence[Any]:
        """Return what is found for a batch. An exception leaves it in no usable state."""

    def open(self, file: IO[bytes]) -> Any:
        """Return a writer with `finish`."""

    def write(self, writer: Any, record: TextRecord, found: Any) -> None:
        """Write what is found, or raise ValueError."""


class Annotation:
    """The work of `annotate`: predictions as rows of a format."""

    def __init__(self, settings: RunSettings, nlp: Language) -> None:
        """ValueError as from `find_labelers`, and for options that the components do not have."""
        self._nlp, self._settings = nlp, settings
        pipes = find_labelers(nlp, settings.pipes, settings.model)
        writer = get_format(settings.format).writer
        assert writer is not None
        self._writer = writer
        n, with_dropped = settings.n_alternatives, settings.with_dropped
        self._predictor = Predictor(nlp, tuple(pipes), n, with_dropped)
        promises = {pipe.control.promise for pipe in pipes.values() if pipe.control}
        has = zip(OPTIONAL, (n > 0, "recall" in promises, with_dropped), strict=True)
        self._fields = tuple(name for name, is_written in has if is_written), settings.meta_columns

    def read(self, record: TextRecord) -> Doc:
        return record.make_doc(self._nlp)

    def work(self, read: Sequence[Doc]) -> list[DocPredictions]:
        return self._predictor.predict(read)

    def open(self, file: IO[bytes]) -> Writer:
        return self._writer(file, *self._fields)

    def write(self, writer: Writer, record: TextRecord, found: DocPredictions) -> None:
        text = found.doc.text if self._settings.with_text else None
        writer.add(Row(record.id, text, record.meta, found))


class Worker:
    """Work on shards, and write their files."""

    def __init__(self, settings: RunSettings) -> None:
        self.settings = settings
        nlp = load_pipeline(settings.model)
        if settings.max_length is not None:
            nlp.max_length = settings.max_length
        watch_tokenizer(nlp)
        self.nlp = nlp
        self.batch_tokens = BATCH_TOKENS
        self.work = settings.make_work(nlp)
        self._n_characters = 0

    def annotate(self, shard: Shard) -> Finished:
        """Annotate a shard and write its file atomically. BulkError if it cannot be written.

        A document that cannot be annotated or written is a failure.
        """
        path = self.settings.folder / f"{shard.number:06d}.{self.settings.format}"
        zone = self.nlp.memory_zone() if self._n_characters > WARM_UP else nullcontext()
        texts = (item for item in shard.items if isinstance(item, TextRecord))
        self._n_characters += sum(item.n_characters for item in texts)
        try:
            with zone, replacing(path, follow=False) as part:
                with part.open("wb") as file:
                    writer = self.work.open(file)
                    found = self._annotate(shard, writer)
                    writer.finish()
                return found._replace(size=part.stat().st_size, hash=hash_files(part))
        except path_errors() as error:
            raise BulkError(f"{path}: cannot be written: {describe_error(error)}") from None
        except MemoryError:
            raise BulkError(f"{path}: the memory is too small; use smaller shards") from None
        finally:
            if shard.careful:
                self.settings.note_path(shard.number).unlink(missing_ok=True)

    def _annotate(self, shard: Shard, writer: Any) -> Finished:
        failures: list[Rejected] = []
        n_written = n_words = 0
        for batch in self._batches(shard, failures):
            for (record, read), found in zip(batch, self._predict(batch), strict=True):
                try:
                    if isinstance(found, Exception):
                        raise found
                    self.work.write(writer, record, found)
                except Exception as error:  # a component may raise any
                    failures.append(_failure(record, error))
                else:
                    n_written += 1
                    n_words += len(read)
        return Finished(shard.number, len(shard.items), n_written, n_words, failures)

    def _batches(
        self, shard: Shard, failures: list[Rejected]
    ) -> Iterator[list[tuple[TextRecord, Sized]]]:
        batch: list[tuple[TextRecord, Sized]] = []
        n_tokens = 0
        for i, item in enumerate(shard.items):
            if isinstance(item, Rejected):
                failures.append(item)
                continue
            if shard.careful:
                write_text(self.settings.note_path(shard.number), str(i))
            try:
                batch.append((item, self._tokenize(item)))
            except Exception as error:  # a custom tokenizer may raise any
                failures.append(_failure(item, error))
                continue
            n_tokens += len(batch[-1][1])
            if n_tokens >= self.batch_tokens or shard.careful:
                yield batch
                batch, n_tokens = [], 0
        if batch:
            yield batch

    def _tokenize(self, record: TextRecord) -> Sized:
        with time_limit(self.settings.timeout):
            return self.work.read(record)

    def _predict(self, batch: Sequence[tuple[TextRecord, Sized]]) -> list[Any]:
        docs: dict[int, Sized] = {id(record): read for record, read in batch}

        def predict(records: Sequence[TextRecord]) -> Sequence[Any]:
            # A failed batch may have annotated its documents in part.
            found = [
                docs.pop(id(record)) if id(record) in docs else self._tokenize(record)
                for record in records
            ]
            with time_limit(self.settings.timeout * min(len(found), BATCH_LIMITS)):
                return self.work.work(found)

        return predict_in_parts(predict, [record for record, _ in batch], self._shrink)

    def _shrink(self, error: Exception, size: int) -> None:
        """Make smaller batches from now on, if memory is short."""
        if is_out_of_memory(error):
            self.batch_tokens = max(1, self.batch_tokens // 2)
            warnings.warn(
                f"memory is short for a batch of {size} documents. Batches now end after "
                f"{self.batch_tokens:,} tokens",
                stacklevel=2,
            )


def _failure(record: TextRecord, error: Exception) -> Rejected:
    reason = " ".join(str(error)[:MAX_REASON].split()) or type(error).__name__
    return Rejected(record.id, record.place, reason)
