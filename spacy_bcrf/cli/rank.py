"""`python -m spacy bcrf rank`"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import IO, Annotated, Any, NamedTuple

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


# A diverse choice compares each document of the pool with all others.
POOL_FACTOR, MAX_POOL = 4, 4096


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
    if path.suffix in (".txt", ".spacy", ".gz", ".xz", ".bz2"):
        raise ValueError(f'{path}: expected JSON lines, {{"text": "..."}} on each line')


class Scored(NamedTuple):
    """A ranked document. offset: see `Candidate`."""

    uncertainty: float
    offset: int


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
            help=f"Choose the n documents that represent the {POOL_FACTOR} n most uncertain ones",
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
    from .annotation_tasks import labeling_config
    from .labeler import load_labeler
    from .review_page import check_labeler

    with exit_on(ValueError, OSError):
        setup_gpu(gpu_id, silent=True)
        check_texts(texts)
        if output is not None:
            check_output_file(output, texts)
        if diverse and not 0 < n <= MAX_POOL:
            raise ValueError(f"--diverse needs --n, from 1 to {MAX_POOL:,}; got {n:,}")
        nlp, name, labeler = load_labeler(model, pipe)
        if format != Format.jsonl:
            check_labeler(labeler)
        reader = Reader(texts, skip_bad, nlp.make_doc)
        with tqdm(
            total=texts.stat().st_size, unit="B", unit_scale=True, desc="reading", disable=None
        ) as progress:
            scored = list(score(nlp, name, labeler, by, per, reader.read(progress.update)))
        # The sort is stable: ties keep the order of the file.
        scored.sort(key=lambda one: -one.uncertainty)
        n_pool = max(n, min(POOL_FACTOR * n, MAX_POOL)) if diverse else n
        chosen, n_similar = leave_out_duplicates(texts, scored, n_pool, max_similarity)
        if diverse:
            chosen = choose_diverse(texts, chosen, n, nlp, name, labeler)
        records = make_records(texts, chosen, nlp, name, labeler, format, max_alternatives)
        if output is None:
            write(records, format, typer.get_text_stream("stdout"))
        else:
            with replacing(output) as part, part.open("w", encoding="utf8") as file:
                write(records, format, file)
        similar = f"; left out {n_similar:,} near duplicates" if n_similar else ""
        skipped = f"; skipped {reader.n_bad} bad lines" if reader.n_bad else ""
        first = f", the first: {reader.first_bad}" if reader.n_bad else ""
        typer.echo(
            f"{len(scored):,} documents ranked by {by.value} per {per.value}, "
            f"{len(chosen):,} written{similar}{skipped}{first}",
            err=True,
        )
        if format == Format.label_studio:
            typer.echo(f"labeling config: {labeling_config(labeler.labels)}", err=True)


def score(
    nlp: Any, name: str, labeler: Any, by: Measure, per: Unit, candidates: Iterable[Candidate]
) -> Iterator[Scored]:
    """Yield the uncertainty and the offset of each document."""
    from spacy.util import minibatch

    from .labeler import annotate_before

    for batch in minibatch(candidates, nlp.batch_size):
        docs = list(annotate_before(nlp, name, (candidate.doc for candidate in batch)))
        uncertainty = labeler.uncertainty(docs, by.value, per=per.value, ignore_annotation=False)
        yield from map(Scored, uncertainty.tolist(), (candidate.offset for candidate in batch))


def leave_out_duplicates(
    texts: Path, scored: Iterable[Scored], n: int, max_similarity: float | None
) -> tuple[list[Scored], int]:
    """Return the first n documents (0 for all) without near duplicates, and the number left out."""
    from spacy_bcrf.pipeline.diversity import NearDuplicates

    if max_similarity is None:
        return list(islice(scored, n or None)), 0
    duplicates, kept, n_similar = NearDuplicates(max_similarity), [], 0
    with texts.open("rb") as file:
        for one in scored:
            if duplicates.keep(_read_at(file, one.offset)["text"]):
                kept.append(one)
                if len(kept) == n:
                    break
            else:
                n_similar += 1
    return kept, n_similar


def choose_diverse(
    texts: Path, scored: Sequence[Scored], n: int, nlp: Any, name: str, labeler: Any
) -> list[Scored]:
    """Return the n documents that represent all of them best, see `facility_location`."""
    import numpy as np

    from spacy_bcrf.pipeline.diversity import document_vectors, facility_location

    from .labeler import annotate_before

    if not scored:
        return []
    docs = annotate_before(
        nlp, name, (nlp.make_doc(fields["text"]) for fields in read_lines_at(texts, scored))
    )
    vectors = document_vectors(labeler, list(docs))
    weights = np.array([one.uncertainty for one in scored])
    return [scored[i] for i in facility_location(vectors, weights, n)]


def make_records(
    texts: Path,
    scored: Sequence[Scored],
    nlp: Any,
    name: str,
    labeler: Any,
    format: Format,
    max_alternatives: int,
) -> Iterator[dict[str, Any]]:
    """Yield the documents with their predictions, in the given format."""
    from . import annotation_tasks as tasks
    from .labeler import annotate_before

    make = {
        Format.jsonl: tasks.make_record,
        Format.prodigy: tasks.make_prodigy_task,
        Format.label_studio: tasks.make_label_studio_task,
    }[format]
    docs = (nlp.make_doc(fields["text"]) for fields in read_lines_at(texts, scored))
    predicted = tasks.predict_spans(labeler, annotate_before(nlp, name, docs), max_alternatives)
    lines = read_lines_at(texts, scored)
    for one, fields, found in zip(scored, lines, predicted, strict=True):
        yield make(fields, round(one.uncertainty, 6), *found, name)


def read_lines_at(texts: Path, scored: Iterable[Scored]) -> Iterator[dict[str, Any]]:
    """Yield the objects of `texts` at these offsets."""
    with texts.open("rb") as file:
        for one in scored:
            yield _read_at(file, one.offset)


def _read_at(file: IO[bytes], offset: int) -> dict[str, Any]:
    file.seek(offset)
    return parse_line(file.readline())


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
