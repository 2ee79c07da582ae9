"""`python -m spacy bcrf debug`"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from spacy.cli._util import Opt, import_code, parse_config_overrides

from spacy_bcrf.pipeline.config_errors import naming

from .options import Code, TrainingConfig

if TYPE_CHECKING:
    from spacy_bcrf.analysis.gold_report import GoldReport

DOCS = ("docs", "complete", "partial", "unannotated", "infeasible")
TOKENS = ("tokens", "annotated", "ambiguous", "missing")


def debug_cli(
    ctx: typer.Context,
    config: TrainingConfig,
    code: Code = None,
    as_json: Annotated[bool, Opt("--json", help="Print JSON in place of tables")] = False,
) -> str:
    """
    Count the gold annotation of the training config's corpora, for each component of spacy-bcrf:
    labels, partial and missing annotation, forbidden annotation with the reason, lengths of
    spans, overlaps, and spans with whitespace at an edge. Overrides as in `spacy train`:
    --paths.train train.spacy.
    """
    from spacy import util

    from spacy_bcrf.analysis.gold_report import report_config

    overrides = parse_config_overrides(ctx.args)
    import_code(code)
    with naming(config):
        loaded = util.load_config(config, overrides=overrides)
        nlp = util.load_model_from_config(loaded, auto_fill=True)
        nlp.config.interpolate()
    reports, notes = report_config(nlp, str(config))
    for note in notes:
        typer.echo(f"Warning: {note}", err=as_json)
    step = " ".join(["python -m spacy train", str(config), "--output out", *ctx.args])
    if as_json:
        parts = {
            name: {part: found.to_json() for part, found in by_part.items()}
            for name, by_part in reports.items()
        }
        typer.echo(json.dumps(parts, indent=2, ensure_ascii=False))
        return step
    for name, by_part in reports.items():
        for line in show(name, by_part):
            typer.echo(line)
    return step


def show(name: str, reports: dict[str, GoldReport]) -> Iterator[str]:
    """Yield the lines of a component's tables and warnings."""
    from wasabi import table

    yield f"[components.{name}]"
    for columns in (DOCS, TOKENS):
        rows = [
            (part, *(f"{getattr(found, column):,}" for column in columns))
            for part, found in reports.items()
        ]
        header = ("", *columns[:-1], "forbidden" if columns is DOCS else columns[-1])
        yield table(rows, header=header, divider=True, aligns=("l", *"r" * len(columns)))
    labels = sorted({label for found in reports.values() for label in found.labels})
    rows = [
        (label or "(none)", *(f"{found.labels[label]:,}" for found in reports.values()))
        for label in labels
    ]
    if rows:
        header = ("label", *reports)
        yield table(rows, header=header, divider=True, aligns=("l", *"r" * len(reports)))
    for part, found in reports.items():
        if found.lengths:
            yield (
                f"{part}: spans of {min(found.lengths)} to {max(found.lengths)}; half of them up "
                f"to {found.length_quantile(0.5)}, 95% up to {found.length_quantile(0.95)}"
            )
    train, dev = reports["train"], reports["dev"]
    if only := sorted(set(dev.labels) - set(train.labels)):
        yield f"Warning: labels that only dev has: {', '.join(only)}"
    for part, found in reports.items():
        for n, what in (
            (found.overlapping, "overlap an earlier span. Only bcrf_spans learns all of them"),
            (found.whitespace, "start or end on whitespace"),
            (found.lost, "are in no layer. Training leaves them out. The first:"),
        ):
            if n:
                yield f"Warning: {part}: {n:,} spans {what}"
        yield from (f"- {problem}" for problem in found.named_lost)
        if found.infeasible:
            yield (
                f"Warning: {part}: {found.infeasible:,} documents have forbidden annotation. "
                "Training treats them as unannotated. The first:"
            )
            yield from (f"- {problem}" for problem in found.named)
    yield ""
