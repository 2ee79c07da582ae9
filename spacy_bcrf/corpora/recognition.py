"""The format of a file, by its name and its content."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bcrf.io.text import check_text, find_file, text_suffix
from spacy_bcrf.annotation.tag_forms import STANDARD

from .formats.brat import find_annotations
from .formats.columns import Columns, guess_columns
from .formats.table import COLUMNS, FORMATS, Format, get_format
from .sample import MOST_BAD, Sample

ANNOTATED = [each for each in FORMATS if each.read]
"""Formats with annotation."""
SUFFIXES = list(dict.fromkeys(suffix for each in ANNOTATED for suffix in each.suffixes.split()))


def find_inputs(inputs: Sequence[Path]) -> Iterator[Path]:
    """Yield the files of inputs, which are folders of brat, or files without compression."""
    for path in inputs:
        yield from find_annotations(path) or [find_file(path)]


def find_format(
    sample: Sample, name: str, has_columns: bool, report: Callable[[str], object]
) -> Format:
    """Return the format of a file. ValueError if it has none with annotation.

    name: a format, or "auto". An extension of columns does not decide, unless the caller
    gives columns. report: receives a sentence if the content decides.
    """
    path, suffix = sample.path, text_suffix(sample.path)
    if path.is_dir():
        inside = Counter(file.suffix for file in path.iterdir() if text_suffix(file) in SUFFIXES)
        example = f", for instance {path}/*{inside.most_common(1)[0][0]}" if inside else ""
        raise ValueError(f"{path}: is a folder; expected files{example}")
    if suffix == ".spacy":
        raise ValueError(
            f"{path}: is converted already; `spacy bcrf debug {path}` counts its annotation, and "
            f"`spacy bcrf init --train {path}` writes a training config"
        )
    expected = [each for each in ANNOTATED if suffix in each.suffixes.split()]
    expected = expected if name == "auto" else [get_format(name)]
    if all(each.is_text for each in expected):
        check_text(path)
    if name != "auto":
        return expected[0]
    if expected and (has_columns or expected != [COLUMNS]):
        return next((each for each in expected if each.recognize(sample)), expected[-1])
    found = next((each for each in ANNOTATED if each.recognize(sample)), None)
    if found is None and suffix == ".txt" and not sample.rows and is_prose(sample):
        raise ValueError(
            f"{path}: seems to be raw text, because its lines have no columns of tags; expected "
            "annotation (a format of `convert --format`), or for raw text `init --names LABEL=FILE "
            f"--train {path}`"
        )
    has_tags = bool(expected) and guess_columns(sample) != Columns()
    if found is None or (found.name == "conllu" and has_tags):
        found = next(iter(expected), None)
    if found is None:
        names = ", ".join(each.name for each in ANNOTATED if each.is_text)
        raise ValueError(
            f"{path}: unknown extension {suffix!r}, and content; expected one of "
            f"{' '.join(SUFFIXES)}, or `convert --format` {names}"
        )
    if found not in expected:
        report(f"{path}: is read as {found.name}, by its content (see `convert --format`)")
    return found


def is_prose(sample: Sample) -> bool:
    """Return whether a file of no known format has five words a line, no tabs, and few tags."""
    lines = [line.text for line in sample.lines if line.text.strip()]
    rows = [line.split() for line in lines]
    n_tags = sum(STANDARD.fits(row[-1]) for row in rows)
    is_wide = sum(map(len, rows)) >= 5 * len(rows)
    return is_wide and n_tags < MOST_BAD * len(rows) and not any("\t" in line for line in lines)
