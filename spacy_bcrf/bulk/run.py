"""A run: inputs, an engine and a manifest, and the progress that it reports."""

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import spacy.util
from tqdm import tqdm

from bcrf.io.hashes import hash_files
from bcrf.io.text import CorpusError, UnreadableError, text_suffix
from spacy_bcrf import __version__
from spacy_bcrf.corpora.texts import Advance, Item, Rejected, TextColumns, read_records

from .engines import Engine
from .manifest import Manifest, describe_inputs, open_manifest
from .shards import Counts, Shard, split_shards
from .worker import BulkError, Settings


class Progress:
    """A bar of bytes and a summary, or JSON lines, one a second. A position is in bytes, about."""

    def __init__(self, output: str, as_json: bool) -> None:
        self.output, self.as_json = output, as_json
        self.is_old = False  # whether an earlier call finished the run
        self.size = self.skipped = self.position = self.earlier_words = 0
        self.started, self.last = time.monotonic(), float("-inf")
        hidden = True if as_json else None
        self.bar = tqdm(unit="B", unit_scale=True, desc="annotating", disable=hidden)

    def start(self, size: int) -> None:
        self.size = self.bar.total = size

    def skip(self, counts: Counts, position: int) -> None:
        """Leave out the time, words and bytes of earlier runs."""
        self.started, self.earlier_words = time.monotonic(), counts.words
        self.bar.initial = self.skipped = self.position = position
        self.bar.update(position - self.bar.n)

    def update(self, counts: Counts, position: int) -> None:
        self.position = max(self.position, position)
        if self.as_json and time.monotonic() - self.last >= 1:
            self.last = time.monotonic()
            self._write("progress", counts)
        self.bar.set_postfix_str(
            f"{counts.read:,} docs, {self._speed(counts):,.0f} words/s, {counts.failed:,} errors",
            refresh=False,
        )
        self.bar.update(self.position - self.bar.n)

    def finish(self, counts: Counts) -> None:
        self.bar.close()
        self.position = self.size
        if self.as_json:
            return self._write("finished", counts)
        failed = f"; {self.output}/errors.jsonl lists the failed ones" if counts.failed else ""
        if counts.unread:
            failed = f", the rest of {counts.unread:,} files unread{failed}"
        done = "finished already: " if self.is_old else ""
        print(
            f"{done}{counts.read:,} documents read, {counts.written:,} written to {self.output}, "
            f"{counts.failed:,} failed{failed}"
        )

    def _seconds(self) -> float:
        return max(1e-9, time.monotonic() - self.started)

    def _speed(self, counts: Counts) -> float:
        return (counts.words - self.earlier_words) / self._seconds()

    def _write(self, event: str, counts: Counts) -> None:
        done, rest = self.position - self.skipped, self.size - self.position
        left = self._seconds() * rest / done if done else None if rest else 0
        fields = {
            "event": event,
            **counts._asdict(),
            "words_per_second": round(self._speed(counts)),
            "seconds": round(self._seconds(), 1),
            "seconds_left": None if left is None else round(left),
        }
        print(json.dumps(fields), flush=True)


def read_inputs(files: Sequence[Path], columns: TextColumns, advance: Advance) -> Iterator[Item]:
    """Yield all records, the broken rest of a file as one. BulkError for an unreadable file."""
    for file in files:
        place = ""
        try:
            for item in read_records(file, columns, advance):
                place = item.place
                yield item
        except UnreadableError as error:
            raise BulkError(str(error)) from None
        except CorpusError as error:
            last = place.rpartition(":")[2]
            number = int(last) + 1 if last.isdecimal() else 1
            unit = "row" if text_suffix(file) in (".parquet", ".spacy") else "line"
            reason = f"rest of {file} from {unit} {number} unread: {error}"
            yield Rejected(str(file), str(file), reason, unread=True)


def annotate_files(
    files: Sequence[Path],
    output: Path,
    settings: Settings,
    columns: TextColumns,
    shard_size: int,
    engine: Engine,
    progress: Progress,
    redo: bool = False,
) -> Counts:
    """Annotate all records in shards below `output`, each once, or go on. redo: `open_manifest`."""
    model = Path(settings.model)
    folder = model if model.exists() else spacy.util.get_package_path(settings.model)
    identity: dict[str, Any] = {
        "model": {"name": settings.model, "sha256": hash_files(folder)},
        "options": {
            "pipes": settings.pipes,
            "format": settings.format,
            "shard": shard_size,
            "text": settings.with_text,
            "alternatives": settings.n_alternatives,
            "dropped": settings.with_dropped,
            "max-length": settings.max_length,
            "text-column": columns.text,
            "id-column": columns.id,
            "whole-files": columns.whole_files,
        },
        "version": __version__,
        "inputs": describe_inputs(files),
    }
    progress.start(sum(each["size"] for each in identity["inputs"].values()))
    with open_manifest(output, identity, settings.format, redo) as manifest:
        progress.is_old = manifest.is_complete
        if progress.is_old:
            return manifest.counts
        ends: dict[int, int] = {}
        n_bytes = position = 0

        def advance(n: int) -> None:
            nonlocal n_bytes
            n_bytes += n

        shards = split_shards(read_inputs(files, columns, advance), shard_size, lambda: n_bytes)
        for finished in engine(_unfinished(shards, manifest, ends, progress)):
            manifest.add(finished)
            # Workers may finish shards in another order.
            position = max(position, ends.pop(finished.number))
            progress.update(manifest.counts, position)
        if describe_inputs(files) != identity["inputs"]:
            raise BulkError(f"{output}: an input changed while the run read it; use a new folder")
        manifest.complete()
        return manifest.counts


def _unfinished(
    shards: Iterator[Shard], manifest: Manifest, ends: dict[int, int], progress: Progress
) -> Iterator[Shard]:
    """Yield the shards that are left, and note where they end."""
    earlier = set(manifest.finished)
    for shard in shards:
        if shard.number in earlier:
            progress.skip(manifest.counts, shard.n_bytes)
        else:
            ends[shard.number] = shard.n_bytes
            yield shard
