"""`python -m spacy bcrf redact`"""

from __future__ import annotations

import json
import secrets
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from spacy.cli._util import Arg, Opt, setup_gpu

from spacy_bcrf.io.atomic import replacing, write_text

from .errors import exit_on
from .options import GpuId, PipeName
from .paths import check_corpus, check_output_file


class Style(str, Enum):
    """Styles of --style."""

    label = "label"
    surrogate = "surrogate"
    mask = "mask"


def redact_cli(
    model: Annotated[str, Arg(help="Trained pipeline with a promise of recall")],
    texts: Annotated[Path, Arg(help=".txt, .jsonl, .csv, .tsv, .parquet or .spacy")],
    output: Annotated[Path, Opt("--output", "-o", help="File of JSON lines to write")],
    style: Annotated[
        Style,
        Opt(
            "--style",
            help="label: [PERSON]. surrogate: other words of the same form, equal for equal words. "
            "mask: Xxx ##",
        ),
    ] = Style.label,
    threshold: Annotated[
        float | None,
        Opt("--threshold", help="Least posterior of a span (default: of the promise)"),
    ] = None,
    key: Annotated[
        Path | None,
        Opt("--key", help="File with a secret, for equal surrogates in several runs"),
    ] = None,
    report: Annotated[
        Path | None,
        Opt("--report", help="TEXTS has gold spans: file for the leaks, .html or .json"),
    ] = None,
    pipe: PipeName = None,
    gpu_id: GpuId = -1,
) -> None:
    """
    Replace the spans of a recall promise in texts, and their further occurrences.
    Writes one JSON object for each text, with its id, the new text, and the replaced spans.
    With --report, it compares the gold spans of a .spacy corpus with the replaced spans: what is
    left of them, by label, character and document.
    No software finds all personal data. Read a sample of the output.
    """
    from spacy_bcrf.analysis.loading import make_input
    from spacy_bcrf.analysis.promises import ASSUMPTION
    from spacy_bcrf.analysis.redaction import measure_leaks, redact

    from .labeler import load_labeler, read_gold
    from .pages import render
    from .texts import read_text_records

    with exit_on(ValueError, ImportError, OSError):
        check_output_file(output, texts, key)
        if report is not None:
            if report.suffix not in (".html", ".json"):
                raise ValueError(f"{report}: expected a file with the suffix .html or .json")
            check_output_file(report, texts, key, output)
            check_corpus(texts)
        secret = secrets.token_bytes(32) if key is None else key.read_bytes().strip()
        if not secret:
            raise ValueError(f"{key}: is empty; expected a secret, such as 32 random characters")
        setup_gpu(gpu_id, silent=True)
        nlp, name, labeler = load_labeler(model, pipe)
        options: Any = {"style": style.value, "threshold": threshold, "key": secret}
        unpromised: list[str] = []
        if threshold is None and labeler.control is not None:
            unpromised = sorted({*labeler.labels} - {*labeler.control.labels})
        gold = read_gold(nlp, texts) if report is not None else []
        ids: list[Any] = []

        def read() -> Any:
            if report is not None:
                for i, doc in enumerate(gold):
                    ids.append(i)
                    yield make_input(nlp, doc)
            else:
                for record, doc in read_text_records(texts, nlp):
                    ids.append(record.id)
                    yield doc

        regions, n, n_spans = [], 0, 0
        with replacing(output) as part, part.open("w", encoding="utf8") as file:
            for found in redact(nlp, read(), name, **options):
                line = {"id": ids[n], **found.to_json()}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
                n, n_spans = n + 1, n_spans + len(found.spans)
                if report is not None:
                    regions.append(found.regions)
        if unpromised:
            typer.echo(
                f"Note: no promise for {', '.join(unpromised)}: not replaced. Give --threshold",
                err=True,
            )
        typer.echo(f"{n:,} texts with {n_spans:,} replacements written to {output}")
        if report is not None:
            key_of_gold = labeler.codec.settings.get("spans_key")
            leaks = measure_leaks(gold, regions, spans_key=key_of_gold)
            page = render(
                "redaction.html", title=f"Leaks of {name} of {model} in {texts}", report=leaks
            )
            is_page = report.suffix == ".html"
            write_text(report, page if is_page else json.dumps(leaks.to_json(), indent=1) + "\n")
            for row in leaks.rows():
                typer.echo("  ".join(f"{cell:<32}" for cell in row).rstrip())
            typer.echo(f"{report}: {leaks!r}")
        typer.echo(f"Note: {ASSUMPTION}", err=True)
