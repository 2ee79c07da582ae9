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

from .errors import exit_on


class Measure(str, Enum):
    entropy = "entropy"
    confidence = "confidence"
    margin = "margin"


class Record(NamedTuple):
    """A line that holds a text: where it starts, in bytes, and the document of its text."""

    offset: int
    doc: Any


class Reader:
    """The records of a file of JSON lines with a `text`, and how many lines were none.

    make_doc: a document of a text, or ValueError.
    """

    def __init__(self, path: Path, skip_bad: bool, make_doc: Callable[[str], Any]) -> None:
        self.path = path
        self.skip_bad = skip_bad
        self.make_doc = make_doc
        self.n_bad = 0
        self.first_bad = ""

    def read(self, advance: Callable[[int], object]) -> Iterator[Record]:
        """ValueError naming file and line for a bad one, unless they are skipped."""
        offset = 0
        with self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    if line.strip():
                        yield Record(offset, self.make_doc(parse(line)["text"]))
                except ValueError as error:
                    problem = f"{self.path}:{number}: {error}"
                    if not self.skip_bad:
                        raise ValueError(f"{problem}. --skip-bad goes on without it") from None
                    self.first_bad = self.first_bad or problem
                    self.n_bad += 1
                offset += len(line)
                advance(len(line))


def parse(line: bytes) -> dict[str, Any]:
    """The object of a line; ValueError saying what is wrong with it."""
    try:
        fields = json.loads(line.strip())
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON: {error.msg} at column {error.colno}") from None
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    except RecursionError:
        raise ValueError("JSON nested too deep") from None
    if not isinstance(fields, dict) or not isinstance(fields.get("text"), str):
        raise ValueError('expected an object with a "text" that is a string')
    try:
        json.dumps(fields, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise ValueError(f"{half} is half of a character, which is no text") from None
    return fields


def rank_cli(
    model: Annotated[str, Arg(help="Trained pipeline: a folder, or the name of a package")],
    texts: Annotated[Path, Arg(help="Documents, one JSON object with a text a line")],
    output: Annotated[
        Path | None, Opt("--output", "-o", help="File to write (default: standard output)")
    ] = None,
    by: Annotated[
        Measure,
        Opt(
            "--by",
            "-b",
            help="entropy: of the labelings, per token. confidence: how improbable the best "
            "labeling is. margin: how close the second best comes to it",
        ),
    ] = Measure.entropy,
    n: Annotated[int, Opt("--n", "-n", help="Only so many documents (0 for all)", min=0)] = 0,
    pipe: Annotated[
        str | None, Opt("--pipe", "-p", help="Name of the component (default: the only one)")
    ] = None,
    skip_bad: Annotated[
        bool, Opt("--skip-bad", help="Go on after lines that are no documents, and count them")
    ] = False,
    gpu_id: Annotated[int, Opt("--gpu-id", "-g", help="GPU ID or -1 for CPU")] = -1,
) -> None:
    """
    Order documents for annotation, those first of which a component is least sure. Each line comes
    out as it went in, with "uncertainty" added: the larger, the less sure. Only a number for each
    document is kept in memory.
    """
    from .labeler import load_labeler

    with exit_on(ValueError, OSError):
        setup_gpu(gpu_id, silent=True)
        if not texts.is_file():
            raise ValueError(f"{texts}: expected a file; it is read twice")
        nlp, name, labeler = load_labeler(model, pipe)
        reader = Reader(texts, skip_bad, nlp.make_doc)
        with tqdm(
            total=texts.stat().st_size, unit="B", unit_scale=True, desc="reading", disable=None
        ) as progress:
            scored = list(score(nlp, name, labeler, by, reader.read(progress.update)))
        # The sort is stable, so that equals stay in the order of the file.
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
    nlp: Any, name: str, labeler: Any, by: Measure, records: Iterable[Record]
) -> Iterator[tuple[float, int]]:
    """Uncertainty and offset of each record."""
    from spacy.util import minibatch

    from .labeler import annotate_before

    for batch in minibatch(records, nlp.batch_size):
        docs = list(annotate_before(nlp, name, (record.doc for record in batch)))
        uncertainty = labeler.uncertainty(docs, by.value, ignore_annotation=False)
        yield from zip(uncertainty.tolist(), (record.offset for record in batch), strict=True)


def write(texts: Path, scored: Iterable[tuple[float, int]], output: IO[str]) -> None:
    with texts.open("rb") as file:
        for uncertainty, offset in scored:
            file.seek(offset)
            fields = {**parse(file.readline()), "uncertainty": round(uncertainty, 6)}
            output.write(json.dumps(fields, ensure_ascii=False) + "\n")
