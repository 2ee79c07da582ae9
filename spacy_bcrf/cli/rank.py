"""`python -m spacy bcrf rank`"""

import json
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import IO, Annotated, Any

import typer
from spacy.cli._util import Arg, Opt, setup_gpu
from tqdm import tqdm

from spacy_bcrf.io.atomic import replacing
from spacy_bcrf.io.json_objects import parse_object
from spacy_bcrf.io.text import MAX_LINE

from .errors import exit_on
from .options import GpuId, PipeName
from .paths import check_output_file


class Measure(str, Enum):
    """Uncertainty measures of --by."""

    entropy = "entropy"
    confidence = "confidence"
    margin = "margin"


class Unit(str, Enum):
    """Units of --per."""

    token = "token"
    entity = "entity"
    document = "document"


class Format(str, Enum):
    """Formats of --format."""

    jsonl = "jsonl"
    prodigy = "prodigy"
    label_studio = "label-studio"


class Lines:
    """Documents of a file of JSON lines with a `text`. The first reading keeps their offsets.

    make_doc: makes a document of a text; ValueError if it cannot. advance: gets the bytes that were
    read. Iteration raises ValueError with file and line of a bad one; `skip_bad` counts it instead.
    """

    def __init__(
        self,
        path: Path,
        skip_bad: bool,
        make_doc: Callable[[str], Any],
        advance: Callable[[int], object],
    ) -> None:
        self.path, self.skip_bad, self.make_doc, self.advance = path, skip_bad, make_doc, advance
        self.offsets: list[int] = []
        self.n_bad = 0
        self.first_bad = ""

    def __iter__(self) -> Iterator[Any]:
        self.offsets.clear()
        offset = 0
        with self.path.open("rb") as file:
            for number, line in enumerate(_read_lines(file), start=1):
                try:
                    if len(line) > MAX_LINE:
                        raise ValueError(
                            f"the line is longer than {MAX_LINE >> 20} MiB; expected one text"
                        )
                    if line.strip():
                        doc = self.make_doc(parse_line(line)["text"])
                        self.offsets.append(offset)
                        yield doc
                except ValueError as error:
                    problem = f"{self.path}:{number}: {error}"
                    if not self.skip_bad:
                        raise ValueError(f"{problem}. --skip-bad skips such lines") from None
                    self.first_bad = self.first_bad or problem
                    self.n_bad += 1
                self.advance(file.tell() - offset)
                offset = file.tell()

    def __getitem__(self, i: int) -> Any:
        return self.make_doc(self.fields(i)["text"])

    def fields(self, i: int) -> dict[str, Any]:
        """Return the object of a document."""
        with self.path.open("rb") as file:
            file.seek(self.offsets[i])
            return parse_line(file.readline())


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
    if path.suffix in (".txt", ".spacy", ".gz", ".xz", ".bz2"):
        raise ValueError(f'{path}: expected JSON lines, {{"text": "..."}} on each line')


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
            help="entropy of the labelings. confidence: 1 - probability of the best labeling. "
            "margin: 1 - difference between the two best probabilities",
        ),
    ] = Measure.entropy,
    per: Annotated[
        Unit,
        Opt(
            "--per",
            help="token: normalized by the length. entity: the mean over possible entities. "
            "document: not normalized, so long documents come first",
        ),
    ] = Unit.token,
    n: Annotated[int, Opt("--n", "-n", help="Number of documents to write (0 for all)", min=0)] = 0,
    diverse: Annotated[
        bool,
        Opt(
            "--diverse",
            help="Choose the n documents that represent the 4 n most uncertain ones",
        ),
    ] = False,
    max_similarity: Annotated[
        float | None,
        Opt(
            "--max-similarity",
            help="Leave out near duplicates: documents that share a larger part of their pairs of "
            "words with a chosen one, such as 0.8",
            min=0,
            max=1,
        ),
    ] = None,
    format: Annotated[
        Format,
        Opt("--format", "-f", help="JSON lines, Prodigy's tasks, or Label Studio's list of tasks"),
    ] = Format.jsonl,
    max_alternatives: Annotated[
        int,
        Opt("--max-alternatives", help="Largest number of alternatives of a prediction", min=0),
    ] = 5,
    pipe: PipeName = None,
    skip_bad: Annotated[
        bool, Opt("--skip-bad", help="Skip and count bad lines instead of stopping")
    ] = False,
    gpu_id: GpuId = -1,
) -> None:
    """
    Order documents for annotation, the most uncertain first. Writes each document with its
    uncertainty, predictions, scores and alternatives. Keeps only one number for each document in
    memory; --max-similarity keeps the pairs of words of the chosen ones.
    """
    from spacy_bcrf.analysis.predictions import predict_spans
    from spacy_bcrf.analysis.ranking import MAX_POOL, rank

    from . import annotation_tasks as tasks
    from .labeler import annotate_before, load_labeler
    from .review.page import check_labeler

    with exit_on(ValueError, OSError):
        setup_gpu(gpu_id, silent=True)
        check_texts(texts)
        if output is not None:
            check_output_file(output, texts)
        if diverse and not 0 < n <= MAX_POOL:
            raise ValueError(f"--diverse needs --n, from 1 to {MAX_POOL:,}; got {n:,}")
        nlp, name, labeler = load_labeler(model, pipe)
        if format != Format.jsonl:
            check_labeler(labeler, one_mark=False)
        with tqdm(
            total=texts.stat().st_size, unit="B", unit_scale=True, desc="reading", disable=None
        ) as progress:
            lines = Lines(texts, skip_bad, nlp.make_doc, progress.update)
            ranking = rank(
                nlp,
                lines,
                name,
                by=by.value,
                per=per.value,
                n=n,
                diverse=diverse,
                max_similarity=max_similarity,
            )
        make = {
            Format.jsonl: tasks.make_record,
            Format.prodigy: tasks.make_prodigy_task,
            Format.label_studio: tasks.make_label_studio_task,
        }[format]
        docs = annotate_before(nlp, name, (lines[one.number] for one in ranking.chosen))
        records = (
            make(lines.fields(one.number), round(one.uncertainty, 6), *found, name)
            for one, found in zip(
                ranking.chosen, predict_spans(labeler, docs, max_alternatives), strict=True
            )
        )
        if output is None:
            write(records, format, typer.get_text_stream("stdout"))
        else:
            with replacing(output) as part, part.open("w", encoding="utf8") as file:
                write(records, format, file)
        similar = f"; left out {ranking.n_similar:,} near duplicates" if ranking.n_similar else ""
        skipped = f"; skipped {lines.n_bad} bad lines" if lines.n_bad else ""
        first = f", the first: {lines.first_bad}" if lines.n_bad else ""
        typer.echo(
            f"{ranking.n_docs:,} documents ranked by {by.value} per {per.value}, "
            f"{len(ranking.chosen):,} written{similar}{skipped}{first}",
            err=True,
        )
        if format == Format.label_studio:
            typer.echo(f"labeling config: {tasks.labeling_config(labeler.labels)}", err=True)


def write(records: Iterable[dict[str, Any]], format: Format, output: IO[str]) -> None:
    """Write JSON lines, or one list for Label Studio."""
    lines = (json.dumps(record, ensure_ascii=False) for record in records)
    if format == Format.label_studio:
        separator = "[\n"
        for line in lines:
            output.write(separator + line)
            separator = ",\n"
        output.write("\n]\n" if separator == ",\n" else "[]\n")
    else:
        output.writelines(f"{line}\n" for line in lines)
