"""`python -m spacy bcrf debug`"""

from __future__ import annotations

import json
from collections.abc import Iterator
from configparser import Error as InterpolationError
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from spacy.cli._util import Arg, Opt, import_code, parse_config_overrides

from .errors import exit_on
from .registry_names import explain_name

if TYPE_CHECKING:
    from spacy_bcrf.analysis.gold_report import GoldReport

DOCS = ("docs", "complete", "partial", "unannotated", "infeasible")
TOKENS = ("tokens", "annotated", "ambiguous", "missing")


def debug_cli(
    ctx: typer.Context,
    config: Annotated[Path, Arg(help="Training config", exists=True, dir_okay=False)],
    code: Annotated[
        Path | None, Opt("--code", "-c", help="Python file with registered functions")
    ] = None,
    as_json: Annotated[bool, Opt("--json", help="Print JSON in place of tables")] = False,
) -> None:
    """
    Count the gold annotation of the training config's corpora, for each component of spacy-bcrf:
    labels, partial and missing annotation, infeasible gold with its reason, lengths of spans,
    overlaps, and spans with whitespace at an edge. Overrides as in `spacy train`:
    --paths.train train.spacy.
    """
    with exit_on(ValueError, OSError):
        overrides = parse_config_overrides(ctx.args)
        import_code(code)
        reports, notes = report(config, overrides)
    for note in notes:
        typer.echo(f"Warning: {note}", err=as_json)
    if as_json:
        parts = {
            name: {part: found.to_json() for part, found in by_part.items()}
            for name, by_part in reports.items()
        }
        typer.echo(json.dumps(parts, indent=2, ensure_ascii=False))
        return
    for name, by_part in reports.items():
        for line in show(name, by_part):
            typer.echo(line)


def report(
    path: Path, overrides: dict[str, Any]
) -> tuple[dict[str, dict[str, GoldReport]], list[str]]:
    """Return `report_config` of a config. ValueError names the config's file."""
    from spacy import util

    from spacy_bcrf.analysis.gold_report import report_config

    try:
        loaded = util.load_config(path, overrides=overrides)
        nlp = util.load_model_from_config(loaded, auto_fill=True)
        nlp.config.interpolate()
    except (ValueError, InterpolationError) as error:
        raise ValueError(f"{path}: {explain_name(error)}") from None
    return report_config(nlp, str(path))


def show(name: str, reports: dict[str, GoldReport]) -> Iterator[str]:
    """Yield the lines of a component's tables and warnings."""
    from wasabi import table

    yield f"[components.{name}]"
    for columns in (DOCS, TOKENS):
        rows = [
            (part, *(f"{getattr(found, column):,}" for column in columns))
            for part, found in reports.items()
        ]
        yield table(rows, header=("", *columns), divider=True, aligns=("l", *"r" * len(columns)))
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
                f"Warning: {part}: {found.infeasible:,} documents are infeasible. Training treats "
                "them as unannotated. The first:"
            )
            yield from (f"- {problem}" for problem in found.named)
    yield ""
