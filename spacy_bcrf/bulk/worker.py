"""A worker: one pipeline in one process, which annotates and writes whole shards."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from spacy.tokens import Doc

from bcrf.io.atomic import UNFINISHED, replacing, write_text
from bcrf.io.hashes import hash_files
from spacy_bcrf.analysis.loading import find_labelers, load_pipeline
from spacy_bcrf.corpora.remote import describe, path_errors
from spacy_bcrf.corpora.texts import Rejected, TextRecord
from spacy_bcrf.corpora.time_limit import time_limit, watch_tokenizer
from spacy_bcrf.pipeline.predict_in_parts import is_out_of_memory, predict_in_parts

from .predictor import Predictions, Predictor
from .shards import Finished, Shard
from .writers import OPTIONAL, WRITERS, Row, Writer

BATCH_TOKENS = 10_000
"""A batch ends after this number of tokens. It bounds the memory of activations."""
BATCH_LIMITS = 10
"""A batch can take at most as long as the time limits of this number of documents."""
MAX_REASON = 1000
"""Longest reason of a failure, in characters: the message of an error may have the whole text."""


class BulkError(ValueError):
    """A run cannot go on. Finished shards stay, and the same command goes on from them."""


@dataclass(frozen=True)
class Settings:
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

    def note_path(self, number: int) -> Path:
        """Return the file that has the index of the record of a careful shard."""
        return self.folder / f"{UNFINISHED}at-{number:06d}"


class Worker:
    """Annotate shards and write their files."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        nlp = load_pipeline(settings.model)
        pipes = find_labelers(nlp, settings.pipes, settings.model)
        if settings.max_length is not None:
            nlp.max_length = settings.max_length
        watch_tokenizer(nlp)
        self.nlp = nlp
        self.batch_tokens = BATCH_TOKENS
        n, with_dropped = settings.n_alternatives, settings.with_dropped
        self._predictor = Predictor(nlp, tuple(pipes), n, with_dropped)
        promises = {pipe.control.promise for pipe in pipes.values() if pipe.control}
        has = zip(OPTIONAL, (n > 0, "recall" in promises, with_dropped), strict=True)
        self._fields = tuple(name for name, is_written in has if is_written), settings.meta_columns

    def annotate(self, shard: Shard) -> Finished:
        """Annotate a shard and write its file atomically. BulkError if it cannot be written.

        A document that cannot be annotated or written is a failure. The memory zone frees strings.
        """
        path = self.settings.folder / f"{shard.number:06d}.{self.settings.format}"
        try:
            with self.nlp.memory_zone(), replacing(path, follow=False) as part:
                with part.open("wb") as file:
                    writer = WRITERS[self.settings.format](file, *self._fields)
                    found = self._annotate(shard, writer)
                    writer.finish()
                return found._replace(size=part.stat().st_size, hash=hash_files(part))
        except path_errors() as error:
            raise BulkError(f"{path}: cannot be written: {describe(error)}") from None
        except MemoryError:
            raise BulkError(f"{path}: the memory is too small; use a smaller --shard") from None
        finally:
            if shard.careful:
                self.settings.note_path(shard.number).unlink(missing_ok=True)

    def _annotate(self, shard: Shard, writer: Writer) -> Finished:
        failures: list[Rejected] = []
        n_written = n_words = 0
        for batch in self._batches(shard, failures):
            for (record, _), found in zip(batch, self._predict(batch), strict=True):
                try:
                    if isinstance(found, Exception):
                        raise found
                    text = found.doc.text if self.settings.with_text else None
                    writer.add(Row(record.id, text, record.meta, found))
                except Exception as error:  # a component may raise any
                    failures.append(_failure(record, error))
                else:
                    n_written += 1
                    n_words += len(found.doc)
        return Finished(shard.number, len(shard.items), n_written, n_words, failures)

    def _batches(
        self, shard: Shard, failures: list[Rejected]
    ) -> Iterator[list[tuple[TextRecord, Doc]]]:
        batch: list[tuple[TextRecord, Doc]] = []
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

    def _tokenize(self, record: TextRecord) -> Doc:
        with time_limit(self.settings.timeout):
            return record.make_doc(self.nlp)

    def _predict(self, batch: Sequence[tuple[TextRecord, Doc]]) -> list[Predictions | Exception]:
        docs: dict[int, Doc] = {id(record): doc for record, doc in batch}

        def predict(records: Sequence[TextRecord]) -> list[Predictions]:
            # A failed batch may have annotated its documents in part.
            found = [
                docs.pop(id(record)) if id(record) in docs else self._tokenize(record)
                for record in records
            ]
            with time_limit(self.settings.timeout * min(len(found), BATCH_LIMITS)):
                return self._predictor.predict(found)

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
