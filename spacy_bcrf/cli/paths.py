"""Files of a command: checks before its work begins, and reports and figures at its end."""

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any

import typer
from tqdm import tqdm

from bcrf.io.atomic import check_replaced, is_stream, replacing, write_text
from bcrf.io.extras import require

PIPELINE_FILES = ("config.cfg", "meta.json")


@contextmanager
def keep_parts(work: Path | None, output: Path, kind: str) -> Iterator[Path]:
    """Yield the folder of finished parts, from which a killed run goes on.

    `work`, or a hidden one beside `output`, which is removed at the end, or if an error leaves it
    without a part.
    """
    hidden = output.with_name(f".{output.name}.{kind}")
    try:
        yield work or hidden
    except Exception:
        if work is None and not any(hidden.rglob("*.spacy")):
            shutil.rmtree(hidden, ignore_errors=True)
        raise
    if work is None:
        shutil.rmtree(hidden, ignore_errors=True)


class Existing(Enum):
    """What a command does with a file that exists: a note, an error, or nothing."""

    NOTE = "a note names it, before the command begins its work"
    KEEP = "it is an error, as for configs, which people edit"
    REPLACE = "the command resumes from the file, or has --force"


def keep_unless(force: bool) -> Existing:
    return Existing.REPLACE if force else Existing.KEEP


def check_output_file(
    path: Path | None, suffixes: str, *inputs: Path | None, existing: Existing = Existing.NOTE
) -> None:
    """Raise ValueError for a file to write that is a folder, one of the inputs or of a pipeline.

    Also for a name of another kind. A new file can have no suffix, a device and a pipe any name.

    path, inputs: None if they are not given. suffixes: of the files that the command writes, with
    spaces between. inputs: files, also other outputs, and folders of input files.
    """
    if path is None:
        return
    check_replaced(path, *filter(None, inputs))
    if is_stream(path):
        return
    kinds = suffixes.split()
    if path.suffix.lower() not in kinds and (path.suffix or path.exists()):
        raise ValueError(f"{path}: expected a file with the suffix {' or '.join(kinds)}")
    if path.name in PIPELINE_FILES and (path.parent / "meta.json").is_file():
        raise ValueError(f"{path}: is a file of a pipeline; expected a file in another folder")
    if path.exists():
        if existing is Existing.KEEP:
            raise ValueError(f"{path} exists; expected another --output, or --force")
        print_notes([f"{path} will be replaced"] * (existing is Existing.NOTE))


def write_report(path: Path, pages: Mapping[str, Callable[[], str]], values: Any) -> None:
    """Write a page by the suffix of the file, or else JSON."""
    if page := pages.get(path.suffix.lower()):
        return write_text(path, page())
    write_json(path, values)


def write_json(path: Path, values: Any) -> None:
    write_text(path, json.dumps(values, ensure_ascii=False, indent=1, allow_nan=False) + "\n")


def write_json_lines(path: Path, values: Iterable[Any]) -> None:
    with replacing(path) as part, part.open("w", encoding="utf8") as file:
        file.writelines(json.dumps(value, ensure_ascii=False) + "\n" for value in values)


def check_plot(path: Path | None, *inputs: Path | None) -> None:
    """Check the file of a diagram as `check_output_file`. ImportError without matplotlib."""
    check_output_file(path, ".png", *inputs)
    if path is not None:
        require("matplotlib", "plot")


def draw(found: Any, path: Path | None) -> None:
    if path is not None:
        with replacing(path) as part:
            found.plot().savefig(part, format="png", dpi=120)
        typer.echo(f"drawn in {path}")


def report_above_bars(message: str) -> None:
    """Print a message to stderr, above the bars of a command that runs."""
    tqdm.write(message, file=sys.stderr)


def print_note(note: str) -> None:
    typer.echo(f"Note: {note}", err=True)


def print_notes(notes: Iterable[str]) -> None:
    for note in notes:
        print_note(note)
