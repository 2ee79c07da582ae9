"""Files of a command: checks before its work begins, and reports and figures at its end."""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from spacy.tokens import Doc
from spacy.vocab import Vocab

from bcrf.io.atomic import is_stream, replacing, write_text
from bcrf.io.extras import require
from spacy_bcrf.annotation.extensions import set_extensions
from spacy_bcrf.corpora.doc_files import find_files, read_docs

PIPELINE_FILES = ("config.cfg", "meta.json")


def read_corpus(corpus: Path) -> Iterator[Doc]:
    """Yield the documents of a .spacy file or of a folder of them, in their own vocabulary."""
    set_extensions()
    return read_docs(corpus, Vocab())


def check_corpus(corpus: Path) -> None:
    """Raise ValueError for a corpus that is neither a .spacy file nor a folder of them."""
    for file in find_files(corpus):
        if file.suffix != ".spacy":
            raise ValueError(f"{file}: expected a .spacy file, or a folder of .spacy files")


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


def check_output_file(
    path: Path | None, suffixes: str, *inputs: Path | None, keep: bool | None = None
) -> None:
    """Raise ValueError for a file to write that is a folder, one of the inputs or of a pipeline.

    Also for a name of another kind. A new file can have no suffix, a device and a pipe any name.

    path, inputs: None if they are not given. suffixes: of the files that the command writes, with
    spaces between. inputs: files, also other outputs, and folders of input files. keep: whether
    a file that exists is an error, as for configs, which people edit. None: a note names it, before
    the command begins its work. False: it goes on from the file, or has --force.
    """
    if path is None:
        return
    if path.is_dir():
        raise ValueError(f"{path}: expected the name of a file to write, this is a folder")
    target = path.resolve()
    for given in filter(None, inputs):
        source = given.resolve()
        if target == source or (source.is_dir() and source in target.parents):
            raise ValueError(f"{path}: would replace the input {given}; expected another file")
    if is_stream(path):
        return
    kinds = suffixes.split()
    if path.suffix.lower() not in kinds and (path.suffix or path.exists()):
        raise ValueError(f"{path}: expected a file with the suffix {' or '.join(kinds)}")
    if path.name in PIPELINE_FILES and (path.parent / "meta.json").is_file():
        raise ValueError(f"{path}: is a file of a pipeline; expected a file in another folder")
    if path.exists():
        if keep:
            raise ValueError(f"{path} exists; expected another --output, or --force")
        print_notes([f"{path} will be replaced"] * (keep is None))


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


def print_notes(notes: Iterable[str]) -> None:
    for note in notes:
        typer.echo(f"Note: {note}", err=True)
