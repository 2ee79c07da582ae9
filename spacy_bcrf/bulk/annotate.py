"""`annotate`: many documents in shards. A run has inputs, an engine, a manifest and progress."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import spacy.util
from tqdm import tqdm

from bcrf.chain.potentials import counted
from bcrf.io.atomic import resolve
from bcrf.io.extras import require
from bcrf.io.hashes import hash_files
from bcrf.io.text import CorpusError, UnreadableError, text_suffix
from spacy_bcrf import __version__
from spacy_bcrf.corpora.inputs import find_inputs, read_records
from spacy_bcrf.corpora.remote import make_path
from spacy_bcrf.corpora.texts import Advance, Rejected, TextColumns, TextItem
from spacy_bcrf.corpora.writer import RESERVED

from .engines import Engine, run_here
from .manifest import Manifest, describe_inputs, open_manifest
from .meta_columns import find_meta_columns
from .processes import run_processes
from .shards import RunCounts, Shard, split_shards
from .worker import BulkError, RunSettings, Worker


def annotate(
    model: str,
    inputs: Sequence[str],
    output: str,
    *,
    pipes: Sequence[str] = (),
    format: str = "jsonl",
    columns: TextColumns | None = None,
    shard_size: int = 1000,
    n_processes: int | None = None,
    ray: str | None = None,
    redo: bool = False,
    as_json: bool = False,
    report: Callable[[str], object] = lambda note: None,
    **options: Any,
) -> RunCounts:
    """Annotate any number of documents in shards. The same call resumes an interrupted run.

    model: folder or package. inputs: files, folders, globs and URLs. output: folder or URL.
    pipes, options: see `RunSettings`. format: name in `formats.table` of the shards. columns: names
    of text and id in the inputs. n_processes: processes (default: 1) or Ray's actors (default: the
    CPUs). ray: address of a Ray cluster, or "local" for this machine; None annotates in processes.
    redo: annotate damaged shards again. as_json: print the progress as JSON lines. report: receives
    notes about the inputs. ValueError for wrong arguments, before the folder exists. BulkError if
    the run cannot go on.
    """
    if ray is not None:
        require("ray", "ray")
    columns = columns or TextColumns()
    target = resolve(make_path(output))
    files, n_skipped = find_inputs(inputs, target)
    check_columns(files, columns)
    meta_columns = b""
    if format == "parquet":
        require("pyarrow.parquet", "parquet")
        meta_columns = find_meta_columns(files, columns, RESERVED)
    settings = RunSettings(
        find_model(model),
        tuple(pipes),
        format,
        target / "shards",
        meta_columns=meta_columns,
        **options,
    )
    run = choose_engine(settings, n_processes, ray)
    if n_skipped:
        report(f"skipped {counted(n_skipped, 'file')} with other extensions")
    progress = Progress(output, as_json)
    read = partial(read_records, columns=columns)
    named: dict[str, Any] = {
        "shard": shard_size,
        "text-column": columns.text,
        "id-column": columns.id,
        "whole-files": columns.whole_files,
    }
    counts = annotate_files(files, target, settings, read, named, run, progress, redo)
    progress.finish(counts)
    return counts


def check_columns(files: Sequence[Path], columns: TextColumns) -> None:
    """Raise ValueError for a table without its text column: the run could not go on."""
    for file in files:
        if text_suffix(file) in (".csv", ".tsv", ".parquet"):
            with suppress(CorpusError):  # becomes a line of errors.jsonl
                next(read_records(file, columns), None)


def find_model(model: str) -> str:
    """Return the name of a package, or the whole path: workers may have another folder."""
    return str(resolve(Path(model))) if Path(model).exists() else model


def choose_engine(
    settings: RunSettings,
    n_processes: int | None,
    ray: str | None,
    see: Callable[[Any], object] = lambda work: None,
) -> Engine:
    """Return the engine of a run. ValueError for wrong options, before its folder exists.

    see: receives the `Work` of a worker.
    """
    worker = Worker(settings)
    see(worker.work)
    if ray is not None:
        from .ray_engine import run_ray

        return partial(run_ray, settings, n_processes, None if ray == "local" else ray)
    if n_processes is None or n_processes == 1:
        return partial(run_here, worker)
    return partial(run_processes, settings, n_processes)


class Progress:
    """A bar of bytes and a summary, or JSON lines, one a second. A position is in bytes, about."""

    def __init__(self, output: str, as_json: bool, title: str = "annotating") -> None:
        self.output, self.as_json = output, as_json
        self.is_old = False  # whether an earlier call finished the run
        self.size = self.skipped = self.position = self.earlier_words = 0
        self.started, self.last = time.monotonic(), float("-inf")
        hidden = True if as_json else None
        self.bar = tqdm(unit="B", unit_scale=True, desc=title, disable=hidden)

    def start(self, size: int) -> None:
        self.size = self.bar.total = size

    def skip(self, counts: RunCounts, position: int) -> None:
        """Leave out the time, words and bytes of earlier runs."""
        self.started, self.earlier_words = time.monotonic(), counts.words
        self.bar.initial = self.skipped = self.position = position
        self.bar.update(position - self.bar.n)

    def update(self, counts: RunCounts, position: int) -> None:
        self.position = max(self.position, position)
        if self.as_json and time.monotonic() - self.last >= 1:
            self.last = time.monotonic()
            self._write("progress", counts)
        self.bar.set_postfix_str(
            f"{counts.read:,} docs, {self._speed(counts):,.0f} words/s, {counts.failed:,} errors",
            refresh=False,
        )
        self.bar.update(self.position - self.bar.n)

    def finish(self, counts: RunCounts) -> None:
        self.bar.close()
        self.position = self.size
        if self.as_json:
            return self._write("finished", counts)
        failed = f"; {self.output}/errors.jsonl lists the failed ones" if counts.failed else ""
        if counts.unread:
            failed = f", the rest of {counts.unread:,} files unread{failed}"
        done = "finished already: " if self.is_old else ""
        print(
            f"{done}{counted(counts.read, 'document')} read, {counts.written:,} written to "
            f"{self.output}, {counts.failed:,} failed{failed}"
        )

    def _seconds(self) -> float:
        return max(1e-9, time.monotonic() - self.started)

    def _speed(self, counts: RunCounts) -> float:
        return (counts.words - self.earlier_words) / self._seconds()

    def _write(self, event: str, counts: RunCounts) -> None:
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


Read = Callable[..., Iterator[TextItem]]
"""Yields the records of a file, from its path and `advance`."""


def read_inputs(files: Sequence[Path], read: Read, advance: Advance) -> Iterator[TextItem]:
    """Yield all records, the broken rest of a file as one. BulkError for an unreadable file."""
    for file in files:
        place = ""
        try:
            for item in read(file, advance=advance):
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
    settings: RunSettings,
    read: Read,
    options: dict[str, Any],
    engine: Engine,
    progress: Progress,
    redo: bool = False,
) -> RunCounts:
    """Annotate all records in shards below `output`, each once, or go on. redo: `open_manifest`.

    options: what decides the output besides the settings, such as `shard`, its documents.
    """
    model = Path(settings.model)
    folder = model if model.exists() else spacy.util.get_package_path(settings.model)
    identity: dict[str, Any] = {
        "model": {"name": settings.model, "sha256": hash_files(folder)},
        "options": {**settings.describe(), **options},
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

        items = read_inputs(files, read, advance)
        shards = split_shards(items, options["shard"], lambda: n_bytes)
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
