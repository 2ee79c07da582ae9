"""`python -m spacy bcrf inspect`"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from spacy.cli._util import Arg, Opt
from tqdm import tqdm

from spacy_bcrf.corpora.doc_files import find_files

from .labels import read_labels
from .paths import read_corpus

if TYPE_CHECKING:
    from spacy_bcrf.corpora.inspection import Inspection

MAX_LABELS = 12
"""Labels of a span group that the report names."""
_HEADER = (
    "label",
    "docs",
    "entities",
    "ambiguous",
    "rejected",
    "contradictory",
    "tokens in",
    "O",
    "other",
    "missing",
)


def inspect_cli(
    corpora: Annotated[
        list[Path], Arg(help=".spacy files, or folders of them", metavar="DATA.spacy")
    ],
    labels: Annotated[
        str | None, Opt(help="The expected labels, separated by commas, or a file of labels")
    ] = None,
    ambiguous_key: Annotated[
        str, Opt("--ambiguous-spans-key", help="ambiguous_spans_key of bcrf_ner")
    ] = "ambiguous_spans",
    incorrect_key: Annotated[
        str, Opt("--incorrect-spans-key", help="incorrect_spans_key of bcrf_ner")
    ] = "incorrect_spans",
    strict: Annotated[
        bool, Opt("--strict", help="Exit with code 1 if the corpus has contradictions")
    ] = False,
) -> str:
    """
    Count the annotation of a corpus by label: documents with an entity of the label, spans,
    documents with contradictions, and tokens: in an entity of the label, in no entity (O), in
    another entity, and missing.
    """
    expected = read_labels(labels)
    found = inspect_corpora(corpora, ambiguous_key, incorrect_key)
    for line in show(found, expected):
        typer.echo(line)
    if strict and found.contradictory:
        raise typer.Exit(1)
    return f"python -m spacy bcrf init --output config.cfg --train {corpora[0]}"


def inspect_corpora(corpora: Iterable[Path], *keys: Any) -> Inspection:
    """Count the annotation of corpora. ValueError without documents.

    keys: of ambiguous and of incorrect spans.
    """
    from spacy_bcrf.corpora.inspection import Inspection

    found = Inspection(*keys)
    corpora = list(corpora)
    files = [file for corpus in corpora for file in find_files(corpus)]
    with tqdm(desc="inspecting", unit="docs", delay=1.0, disable=None) as progress:
        for file in files:
            for i, doc in enumerate(read_corpus(file)):
                found.add(doc, f"{file}: document {i}")
                progress.update()
    if not found.docs:
        raise ValueError(f"{' '.join(map(str, corpora))}: has no documents")
    return found


def show(found: Inspection, labels: list[str] | None) -> Iterator[str]:
    """Yield the lines of the report."""
    from wasabi import table

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
        return
    rows = found.rows(labels or ())
    # Spans of any label have no counts of tokens.
    cells = [
        (row.label, *(f"{n:,}" for n in row[1:]))
        if row.label
        else ("(any)", *(f"{n:,}" for n in row[1:6]), *[""] * 4)
        for row in rows
    ]
    yield table(cells, header=_HEADER, divider=True, aligns=("l", *"r" * (len(_HEADER) - 1)))
    if found.contradictory:
        yield f"Contradictions in {found.contradictory:,} docs, which training skips; the first:"
        yield from (f"- {problem}" for problem in found.named)
    if never := [row.label for row in rows if row.label and not row.outside]:
        yield (
            f"Warning: no token is annotated as outside of {', '.join(never)}. "
            "See entity_ratio of bcrf_ner"
        )
    if labels and (others := sorted(found.labels - {*labels, ""})):
        yield f"Warning: labels that are not in --labels: {', '.join(others)}"
