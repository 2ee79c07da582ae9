"""`python -m spacy bcrf rank`"""

import json
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import IO, Annotated, Any, NamedTuple

import typer
from spacy.cli._util import Arg, Opt, setup_gpu
from tqdm import tqdm

from spacy_bcrf.io.atomic import replacing
from spacy_bcrf.io.json_objects import parse_object
from spacy_bcrf.io.text import MAX_LINE

from .errors import exit_on


class Measure(str, Enum):
    """Uncertainty measures of --by."""

    entropy = "entropy"
    confidence = "confidence"
    margin = "margin"


class Candidate(NamedTuple):
    """A document to rank. offset: position of its line in the file, in bytes."""

    offset: int
    doc: Any


class Reader:
    """Read documents from a file of JSON lines with a `text`, and count the bad lines.

    make_doc: makes a document of a text; ValueError if it cannot.
    """

    def __init__(self, path: Path, skip_bad: bool, make_doc: Callable[[str], Any]) -> None:
        self.path = path
        self.skip_bad = skip_bad
        self.make_doc = make_doc
        self.n_bad = 0
        self.first_bad = ""

    def read(self, advance: Callable[[int], object]) -> Iterator[Candidate]:
        """Yield documents. ValueError names file and line of a bad one, unless `skip_bad`."""
        offset = 0
        with self.path.open("rb") as file:
            for number, line in enumerate(_read_lines(file), start=1):
                try:
                    if len(line) > MAX_LINE:
                        raise ValueError(
                            f"the line is longer than {MAX_LINE >> 20} MiB; expected one text"
                        )
                    if line.strip():
                        yield Candidate(offset, self.make_doc(parse_line(line)["text"]))
                except ValueError as error:
                    problem = f"{self.path}:{number}: {error}"
                    if not self.skip_bad:
                        raise ValueError(f"{problem}. --skip-bad skips such lines") from None
                    self.first_bad = self.first_bad or problem
                    self.n_bad += 1
                advance(file.tell() - offset)
                offset = file.tell()


def _read_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of a file, of a longer one only the first MAX_LINE + 1 bytes."""
    while line := file.readline(MAX_LINE + 1):
        rest = line
        while len(rest) > MAX_LINE and not rest.endswith(b"\n"):
            rest = file.readline(MAX_LINE + 1)
        yield line


def parse_line(line: bytes) -> dict[str, Any]:
    """Parse an object with a `text`. ValueError for another value, or half a surrogate pair."""
    fields = parse_object(line.strip())
    if not isinstance(fields.get("text"), str):
        raise ValueError('no "text" that is a string')
    try:
        json.dumps(fields, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise ValueError(f"{half} is half a surrogate pair") from None
    return fields


def check_texts(path: Path) -> None:
    """Raise ValueError if `path` cannot be a file of JSON lines."""
    if not path.exists():
        raise ValueError(f"{path}: there is no such file; expected JSON lines with a text")
    if not path.is_file():
        raise ValueError(f"{path}: expected a file, because rank reads it twice")
    if path.suffix in (".spacy", ".gz", ".xz", ".bz2"):
        raise ValueError(
            f'{path}: is no plain text; expected JSON lines, {{"text": "..."}} on each line'
        )


def rank_cli(
    model: Annotated[str, Arg(help="Trained pipeline: a folder, or the name of a package")],
    texts: Annotated[Path, Arg(help="JSON lines: one object with a text on each line")],
    output: Annotated[
        Path | None, Opt("--output", "-o", help="File to write (default: standard output)")
    ] = None,
    by: Annotated[
        Measure,
        Opt(
            "--by",
            "-b",
            help="entropy: entropy per token. confidence: 1 - probability of the best labeling. "
            "margin: 1 - difference between the probabilities of the two best labelings",
        ),
    ] = Measure.entropy,
    n: Annotated[int, Opt("--n", "-n", help="Number of documents to write (0 for all)", min=0)] = 0,
    pipe: Annotated[
        str | None, Opt("--pipe", "-p", help="Name of the component (default: the only one)")
    ] = None,
    skip_bad: Annotated[
        bool, Opt("--skip-bad", help="Skip and count bad lines instead of stopping")
    ] = False,
    gpu_id: Annotated[int, Opt("--gpu-id", "-g", help="GPU ID or -1 for CPU")] = -1,
) -> None:
    """
    Order documents for annotation, the most uncertain first. Writes each line with "uncertainty"
    added. Keeps only one number for each document in memory.
    """
    from .labeler import load_labeler

    with exit_on(ValueError, OSError):
        setup_gpu(gpu_id, silent=True)
        check_texts(texts)
        nlp, name, labeler = load_labeler(model, pipe)
        reader = Reader(texts, skip_bad, nlp.make_doc)
        with tqdm(
            total=texts.stat().st_size, unit="B", unit_scale=True, desc="reading", disable=None
        ) as progress:
            scored = list(score(nlp, name, labeler, by, reader.read(progress.update)))
        # The sort is stable: ties keep the order of the file.
        scored.sort(key=lambda pair: -pair[0])
        chosen = scored[:n] if n else scored
        if output is None:
            write(texts, chosen, typer.get_text_stream("stdout"))
        else:
            with replacing(output) as part, part.open("w", encoding="utf8") as file:
                write(texts, chosen, file)
        skipped = f"; skipped {reader.n_bad} bad lines" if reader.n_bad else ""
        first = f", the first: {reader.first_bad}" if reader.n_bad else ""
        typer.echo(
            f"{len(scored):,} documents ranked by {by.value}, {len(chosen):,} written"
            f"{skipped}{first}",
            err=True,
        )


def score(
    nlp: Any, name: str, labeler: Any, by: Measure, candidates: Iterable[Candidate]
) -> Iterator[tuple[float, int]]:
    """Yield the uncertainty and the offset of each document."""
    from spacy.util import minibatch

    from .labeler import annotate_before

    for batch in minibatch(candidates, nlp.batch_size):
        docs = list(annotate_before(nlp, name, (candidate.doc for candidate in batch)))
        uncertainty = labeler.uncertainty(docs, by.value, ignore_annotation=False)
        yield from zip(uncertainty.tolist(), (candidate.offset for candidate in batch), strict=True)


def write(texts: Path, scored: Iterable[tuple[float, int]], output: IO[str]) -> None:
    """Write the lines of `texts` at these offsets, with their uncertainty."""
    with texts.open("rb") as file:
        for uncertainty, offset in scored:
            file.seek(offset)
            fields = {**parse_line(file.readline()), "uncertainty": round(uncertainty, 6)}
            output.write(json.dumps(fields, ensure_ascii=False) + "\n")
