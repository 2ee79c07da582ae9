"""`python -m spacy bcrf annotate`"""

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from spacy.cli._util import Arg, Opt, setup_gpu

from .options import GpuId, Model, PipeNames
from .paths import print_notes

FAILED_DOCUMENTS = 3
"""Exit code of a finished run with failed documents."""
UNREAD_INPUT = 4
"""Exit code of a finished run that could not read all of its input."""


Format = Literal["jsonl", "parquet", "spacy"]
EngineName = Literal["processes", "ray"]


def annotate_cli(
    model: Model,
    inputs: Annotated[
        list[str],
        Arg(
            help="Files, folders, globs and URLs (s3://bucket/x): .txt, .jsonl, .csv, .tsv, "
            ".parquet and .spacy; text also compressed by .gz, .bz2 or .xz"
        ),
    ],
    output: Annotated[str, Opt("--output", "-o", help="Folder or URL of the run")],
    pipe: PipeNames = None,
    format: Annotated[Format, Opt("--format", "-f", help="Format of the shards")] = "jsonl",
    shard: Annotated[int, Opt(help="Documents in a shard", min=1)] = 1000,
    text: Annotated[bool, Opt("--text/--no-text", help="Write the text of each document")] = True,
    alternatives: Annotated[int, Opt(help="Labelings to write of each document", min=0)] = 0,
    dropped: Annotated[bool, Opt("--dropped", help="Write dropped predictions too")] = False,
    text_column: Annotated[str, Opt(help="Column or key of the text")] = "text",
    id_column: Annotated[str, Opt(help="Column or key of the id (none: file and line)")] = "id",
    whole_files: Annotated[bool, Opt("--whole-files", help="A .txt file is one document")] = False,
    max_length: Annotated[int | None, Opt(help="Most characters (default: model's)", min=1)] = None,
    timeout: Annotated[float, Opt(help="Seconds until a document fails (0: never)", min=0)] = 60.0,
    n_process: Annotated[
        int | None,
        Opt("--n-process", "-n", help="Processes (default: 1), or actors (Ray's CPUs)", min=1),
    ] = None,
    redo: Annotated[bool, Opt("--redo", help="Annotate damaged shards again")] = False,
    engine: Annotated[EngineName, Opt(help="Where to annotate")] = "processes",
    address: Annotated[str | None, Opt(help="Ray cluster (default: this machine)")] = None,
    log_json: Annotated[bool, Opt("--log-json", help="Progress as JSON lines on stdout")] = False,
    gpu_id: GpuId = -1,
) -> str:
    """
    Annotate any number of documents in shards.
    Started again, the same command goes on where it ended, and writes each document once.
    OUTPUT gets shards/, manifest.json, progress.jsonl, and errors.jsonl with failed documents.
    Exit code 0: all documents are written. 1: the run stopped. 3: some documents failed.
    4: the rest of a file could not be read.
    """
    from bcrf.io.extras import require
    from bcrf.io.text import CorpusError, text_suffix
    from spacy_bcrf.bulk.engines import run_here
    from spacy_bcrf.bulk.meta_columns import find_meta_columns
    from spacy_bcrf.bulk.processes import run_processes
    from spacy_bcrf.bulk.run import Progress, annotate_files
    from spacy_bcrf.bulk.worker import Settings, Worker
    from spacy_bcrf.bulk.writers import COLUMNS
    from spacy_bcrf.corpora.remote import make_path
    from spacy_bcrf.corpora.texts import TextColumns, find_inputs, read_records

    if address is not None and engine != "ray":
        raise ValueError("--address is only for --engine ray")
    if engine == "ray":
        require("ray", "ray")
    if gpu_id >= 0 and (engine == "ray" or (n_process or 1) > 1):
        raise ValueError("--gpu-id is only for one process")
    if text_column == id_column:
        raise ValueError(f"--text-column and --id-column are both {text_column!r}")
    target = make_path(output).resolve()
    files, n_skipped = find_inputs(inputs, target)
    columns = TextColumns(text_column, id_column, whole_files)
    for file in files:
        # A run cannot go on without its text column.
        if text_suffix(file) in (".csv", ".tsv", ".parquet"):
            with suppress(CorpusError):  # becomes a line of errors.jsonl
                next(read_records(file, columns), None)
    meta_columns = b""
    if format == "parquet":
        require("pyarrow.parquet", "parquet")
        meta_columns = find_meta_columns(files, columns, COLUMNS)
    setup_gpu(gpu_id, silent=True)
    # Workers may have another folder.
    path = Path(model)
    settings = Settings(
        str(path.resolve()) if path.exists() else model,
        tuple(pipe or ()),
        format,
        target / "shards",
        text,
        alternatives,
        dropped,
        max_length,
        meta_columns,
        timeout,
    )
    worker = Worker(settings)  # finds wrong options before the folder exists
    if engine == "ray":
        from spacy_bcrf.bulk.ray_engine import run_ray

        run: Any = partial(run_ray, settings, n_process, address)
    elif n_process is None or n_process == 1:
        run = partial(run_here, worker)
    else:
        run = partial(run_processes, settings, n_process)
    del worker
    if n_skipped:
        typer.echo(f"{n_skipped:,} files with other extensions are skipped", err=True)
    progress = Progress(output, log_json)
    counts = annotate_files(files, target, settings, columns, shard, run, progress, redo)
    progress.finish(counts)
    print_notes(["the inputs have no document, nothing was read"] * (not counts.read))
    if counts.failed:
        raise typer.Exit(UNREAD_INPUT if counts.unread else FAILED_DOCUMENTS)
    return f"read the files in {output}/shards, which its manifest.json lists" * bool(counts.read)
