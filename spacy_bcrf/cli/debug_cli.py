"""`python -m spacy bcrf debug`"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from spacy.cli._util import Arg, Opt, import_code, parse_config_overrides
from spacy.tokens import Doc
from spacy.vocab import Vocab
from wasabi import table

from spacy_bcrf.corpora.doc_files import read_docs
from spacy_bcrf.pipeline.config_errors import naming

from .errors import spacy_command
from .options import Code, read_labels, read_language

if TYPE_CHECKING:
    from spacy_bcrf.analysis.gold_report import GoldReport
    from spacy_bcrf.corpora.inspection import Inspection

    Reports = dict[str, dict[str, GoldReport]]

DOCS = ("docs", "complete", "partial", "unannotated", "infeasible")
TOKENS = ("tokens", "annotated", "ambiguous", "missing")
LABEL = ("label", "docs", "entities", "ambiguous", "rejected", "forbidden")
LABEL_TOKENS = ("tokens in", "O", "other", "missing")
WARNINGS = {
    "overlapping": "spans overlap an earlier span. Only bcrf_spans learns all of them",
    "whitespace": "spans start or end on whitespace. Training trims them. The first:",
    "lost": "spans are in no layer. Training leaves them out. The first:",
    "infeasible": "documents have forbidden annotation. Training treats them as unannotated. The "
    "first:",
}
"""Counts of a report that are problems, and what they mean."""
MAX_LABELS = 12
"""Labels of a span group that the report names."""


def debug_cli(
    inputs: Annotated[list[str], Arg(help="Training config with overrides, or .spacy files")],
    code: Code = None,
    labels: Annotated[str | None, Opt(help="Of .spacy files: expected labels, or a file")] = None,
    lang: Annotated[
        str, Opt("--lang", "-l", callback=read_language, help="Of .spacy files: --lang of `init`")
    ] = "xx",
    strict: Annotated[bool, Opt("--strict", help="Exit code 1 for forbidden annotation")] = False,
    as_json: Annotated[bool, Opt("--json", help="Print JSON in place of tables")] = False,
) -> str:
    """
    Count the gold annotation of the training config's corpora, for each component of spacy-bcrf:
    labels, partial and missing annotation, forbidden annotation with the reason, lengths of
    spans, overlaps, and spans with whitespace at an edge. Overrides as in `spacy train`:
    --paths.train train.spacy.

    Or count the annotation of .spacy files, for the components that `init` would choose. Of two
    files, the second is the dev part.
    """
    path, *rest = inputs
    import_code(code)
    if Path(path).is_dir() or path.endswith(".spacy"):
        head, reports, notes = _debug_files(inputs, read_labels(labels))
        flags = ("--train", "--dev") if len(inputs) == 2 else ("--train",) * len(inputs)
        files = chain(*zip(flags, inputs, strict=True))
        step = spacy_command("bcrf", "init", *files, output="model/config.cfg", lang=lang)
    else:
        if labels is not None or lang != "xx":
            raise ValueError(f"{path}: a config sets labels and --lang itself; set them there")
        head, (reports, notes) = [], _debug_config(Path(path), rest)
        step = spacy_command("train", path, "--output", "out", *rest, code=code)
    if as_json:
        counts = json.dumps(reports, default=methodcaller("to_json"), indent=2, ensure_ascii=False)
        typer.echo(counts)
    else:
        for line in (*head, *(line for item in reports.items() for line in show(*item))):
            typer.echo(line)
    for note in notes:
        typer.echo(f"Warning: {note}", err=as_json)
    if strict and any(found.infeasible for each in reports.values() for found in each.values()):
        raise typer.Exit(1)
    return step


def _debug_config(config: Path, arguments: Sequence[str]) -> tuple[Reports, list[str]]:
    """Return the reports by component and part, and warnings."""
    from spacy import util

    from spacy_bcrf.analysis.gold_report import report_config

    if not config.is_file() or config.suffix != ".cfg":
        problem = "" if config.is_file() else "found no such file; "
        expected = "expected a training config (.cfg) or .spacy files, which `convert` writes"
        raise ValueError(f"{config}: {problem}{expected}")
    overrides = parse_config_overrides(list(arguments))
    with naming(config):
        loaded = util.load_config(config, overrides=overrides)
        nlp = util.load_model_from_config(loaded, auto_fill=True)
        nlp.config.interpolate()
    return report_config(nlp, str(config))


@dataclass
class _Corpus:
    """Documents that each iteration reads again, one file in memory at a time."""

    path: Path
    vocab: Vocab

    def __iter__(self) -> Iterator[Doc]:
        return read_docs(self.path, self.vocab)


def _debug_files(
    files: Sequence[str], labels: Sequence[str] | None
) -> tuple[list[str], Reports, list[str]]:
    """Return lines about all files, the reports by component and file, and warnings."""
    import spacy

    from spacy_bcrf.analysis.first_config import FACTORIES, find_annotated
    from spacy_bcrf.analysis.gold_report import report_corpora
    from spacy_bcrf.analysis.loading import find_labelers, note_shared
    from spacy_bcrf.corpora.inspection import Inspection
    from spacy_bcrf.pipeline.training import note_cost

    if options := [name for name in files if name.startswith("-")]:
        raise ValueError(f"{options[0]}: only a training config has overrides")
    nlp = spacy.blank("xx")
    corpora = {name: _Corpus(Path(name), nlp.vocab) for name in files}
    found = Inspection()
    for doc in chain(*corpora.values()):
        found.add(doc)
    if not found.docs:
        raise ValueError(f"{' '.join(files)}: has no documents")
    for name in find_annotated(found):
        nlp.add_pipe(FACTORIES[name], name)
    first, *others = corpora.items()
    notes = [note for name, docs in others for note in note_shared(docs, first[1], name, first[0])]
    if labels and (unknown := sorted(found.labels - {*labels})):
        notes.append(f"labels that are not in --labels: {', '.join(unknown)}")
    reports = report_corpora(nlp, corpora, labels or ()) if nlp.pipe_names else {}
    labelers = find_labelers(nlp) if nlp.pipe_names else {}
    notes += [note for name in labelers for note in note_cost(name, labelers[name].codec)]
    return list(_describe(found)), reports, notes


def _describe(found: Inspection) -> Iterator[str]:
    yield f"{found.docs:,} docs, {found.tokens:,} tokens"
    for name, tags in found.tags.items():
        if tags.values or tags.allowed:
            yield (
                f"{name}: {tags.values.total():,} tokens annotated with {len(tags.values):,} "
                f"values, {tags.missing:,} missing; {tags.allowed:,} with several allowed values"
            )
    for key, labels_of in sorted(found.groups.items()):
        counts = [f"{label or '(any)'} {n:,}" for label, n in labels_of.most_common()]
        named = ", ".join(counts[:MAX_LABELS]) + ", .." * (len(counts) > MAX_LABELS)
        yield f"spans[{key!r}]: {labels_of.total():,} spans" + f": {named}" * bool(named)
    if not found.has_entities:
        yield f"entities: {found.tokens:,} tokens missing"


def show(name: str, reports: dict[str, GoldReport]) -> Iterator[str]:
    yield f"[components.{name}]"
    for columns in (DOCS, TOKENS):
        rows = [
            (part, *(f"{getattr(found, column):,}" for column in columns))
            for part, found in reports.items()
        ]
        header = ("", *columns[:-1], "forbidden" if columns is DOCS else columns[-1])
        yield _table(header, rows)
    first, *others = reports.values()
    rows = [
        (label or "(none)", *(f"{found.labels[label]:,}" for found in reports.values()))
        for label in sorted({label for found in reports.values() for label in found.labels})
    ]
    if rows and (others or not first.by_label):
        yield _table(("label", *reports), rows)
    for part, found in reports.items():
        if found.by_label:
            yield from _show_labels(part, found)
        if found.lengths:
            yield (
                f"{part}: spans of {min(found.lengths)} to {max(found.lengths)}; half of them up "
                f"to {found.length_quantile(0.5)}, 95% up to {found.length_quantile(0.95)}"
            )
    if "dev" in reports and (only := reports["dev"].labels.keys() - reports["train"].labels.keys()):
        yield f"Warning: labels that only dev has: {', '.join(sorted(only))}"
    for part, found in reports.items():
        for kind, what in WARNINGS.items():
            if n := getattr(found, kind):
                yield f"Warning: {part}: {n:,} {what}"
                yield from (f"- {problem}" for problem in found.named.get(kind, ()))
    yield ""


def _show_labels(part: str, found: GoldReport) -> Iterator[str]:
    """Yield the table of the labels of entities, and a warning if no token can be outside."""
    count = found.by_label
    docs, *spans, inside, outside, other, missing = count.values()
    tokens = inside, outside, other, missing
    rows = [
        (
            label or "(any)",
            *(f"{counter[label]:,}" for counter in (docs, found.labels, *spans)),
            # Spans of any label have no counts of tokens.
            *(f"{counter[label]:,}" if label in inside else "" for counter in tokens),
        )
        for label in sorted(set().union(*count.values()), key=lambda label: (not label, label))
    ]
    yield f"{part}:"
    yield _table((*LABEL, *LABEL_TOKENS), rows)
    if never := [label for label, n in sorted(outside.items()) if not n]:
        yield (
            f"Warning: {part}: no token is annotated as outside of {', '.join(never)}. "
            "See entity_ratio of bcrf_ner"
        )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return table(rows, header=header, divider=True, aligns=("l", *"r" * (len(header) - 1)))
