"""`python -m spacy bcrf mask`"""

from pathlib import Path
from typing import Annotated, Literal

import typer
from spacy.cli._util import Arg, Opt
from tqdm import tqdm

from bcrf.io.atomic import replacing_folder

from .options import Seed
from .paths import check_output_file, read_corpus

Others = Literal["outside", "missing"]


def mask_cli(
    corpus: Annotated[
        Path, Arg(help="Corpus with complete entity annotation: .spacy, or a folder of them")
    ],
    output: Annotated[
        Path,
        Arg(help="The .spacy file to write; with --by-label, a folder with a file for each label"),
    ],
    by_label: Annotated[
        bool,
        Opt("--by-label", help="Annotate one label in each document; all labels get equal numbers"),
    ] = False,
    drop: Annotated[float | None, Opt(help="Drop this share of the entities", min=0, max=1)] = None,
    others: Annotated[
        Others | None,
        Opt(help="With --drop: annotation of tokens outside of entities (default: outside)"),
    ] = None,
    forget: Annotated[
        float | None, Opt(help="Make this share of entities and tokens missing", min=0, max=1)
    ] = None,
    seed: Seed = 0,
) -> str:
    """
    Make partial annotation from full annotation, to compare models trained on both. Expects one of
    --by-label, --drop and --forget.
    """
    from spacy_bcrf.corpora.doc_files import write_all
    from spacy_bcrf.corpora.mask import drop_entities, forget_tokens, one_label_each

    if sum([by_label, drop is not None, forget is not None]) != 1:
        raise ValueError("expected one of --by-label, --drop SHARE and --forget SHARE")
    if not by_label:
        check_output_file(output, corpus)
    if others is not None and drop is None:
        raise ValueError("--others is only for --drop")
    docs = list(tqdm(read_corpus(corpus), "reading", delay=1, unit="docs"))
    for i, doc in enumerate(docs):
        if len(doc) and not doc.has_annotation("ENT_IOB", require_complete=True):
            raise ValueError(
                f"{corpus}: document {i}, {doc.text[:60]!r}, has missing entity annotation"
            )
    before = sum(len(doc.ents) for doc in docs)
    if not by_label:
        if drop is not None:
            masked = list(drop_entities(docs, drop, seed, others or "outside"))
        else:
            masked = list(forget_tokens(docs, forget or 0.0, seed))
        write_all(masked, output)
        after = sum(len(doc.ents) for doc in masked)
        missing = sum(not token.ent_iob for doc in masked for token in doc)
        typer.echo(
            f"{output}: {len(masked):,} docs, {after:,} of {before:,} entities, "
            f"{missing:,} of {sum(map(len, docs)):,} tokens missing"
        )
        return f"python -m spacy bcrf inspect {output}"
    labels = sorted({ent.label_ for doc in docs for ent in doc.ents})
    if not labels:
        raise ValueError(f"{corpus}: found no entities")
    if unfit := [label for label in labels if Path(label).name != label]:
        raise ValueError(f"{corpus}: label {unfit[0]!r} cannot be the name of a file")
    masked_by_label = list(one_label_each(docs, labels, seed))
    lines = []
    with replacing_folder(output) as part:
        for label in labels:
            masked = [doc for name, doc in masked_by_label if name == label]
            write_all(masked, part / f"{label}.spacy")
            after = sum(len(doc.ents) for doc in masked)
            before = sum(ent.label_ == label for doc in docs for ent in doc.ents)
            path = output / f"{label}.spacy"
            lines.append(f"{path}: {len(masked):,} docs, {after:,} of {before:,} entities")
    typer.echo("\n".join(lines))
    return f"python -m spacy bcrf inspect {output}"
