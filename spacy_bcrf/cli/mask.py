"""`python -m spacy bcrf mask`"""

import os
import shutil
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from spacy.cli._util import Arg, Opt
from tqdm import tqdm

from .errors import exit_on


class Others(str, Enum):
    outside = "outside"
    missing = "missing"


def mask_cli(
    corpus: Annotated[Path, Arg(help="Fully annotated entities: .spacy, or a folder of them")],
    output: Annotated[
        Path, Arg(help="The .spacy file to write; with --by-label the folder of one for each")
    ],
    by_label: Annotated[
        bool,
        Opt("--by-label", help="Deal the documents out evenly, one label annotated in each"),
    ] = False,
    drop: Annotated[
        float | None, Opt(help="Leave out this share of the entities", min=0, max=1)
    ] = None,
    others: Annotated[
        Others | None,
        Opt(help="With --drop: what tokens in no entity that is left become (default: outside)"),
    ] = None,
    forget: Annotated[
        float | None, Opt(help="Make this share of entities and tokens missing", min=0, max=1)
    ] = None,
    seed: Annotated[int, Opt("--seed", help="Of all random choices")] = 0,
) -> None:
    """
    Make partial annotation from full, in one of three ways, so that what is learned from the one
    can be compared with what is learned from the other.
    """
    from spacy.vocab import Vocab

    from spacy_bcrf.annotation.extensions import set_extensions
    from spacy_bcrf.corpora.mask import drop_entities, forget_tokens, one_label_each
    from spacy_bcrf.io.shards import read_docs, write_all

    set_extensions()
    with exit_on(ValueError, OSError):
        if sum([by_label, drop is not None, forget is not None]) != 1:
            raise ValueError("expected one of --by-label, --drop SHARE and --forget SHARE")
        if others is not None and drop is None:
            raise ValueError("--others is for --drop")
        if by_label and (output.is_file() or (output.is_dir() and any(output.iterdir()))):
            raise ValueError(f"{output}: expected a new or empty folder")
        docs = list(tqdm(read_docs(corpus, Vocab()), "reading", delay=1, unit="docs"))
        for i, doc in enumerate(docs):
            if len(doc) and not doc.has_annotation("ENT_IOB", require_complete=True):
                raise ValueError(
                    f"{corpus}: document {i}, {doc.text[:60]!r}, is not annotated in full"
                )
        before = sum(len(doc.ents) for doc in docs)
        if not by_label:
            if drop is not None:
                masked = list(drop_entities(docs, drop, seed, (others or Others.outside).value))
            else:
                masked = list(forget_tokens(docs, forget or 0.0, seed))
            write_all(masked, output)
            after = sum(len(doc.ents) for doc in masked)
            missing = sum(not token.ent_iob for doc in masked for token in doc)
            typer.echo(
                f"{output}: {len(masked):,} docs, {after:,} of {before:,} entities, "
                f"{missing:,} of {sum(map(len, docs)):,} tokens missing"
            )
            return
        labels = sorted({ent.label_ for doc in docs for ent in doc.ents})
        if not labels:
            raise ValueError(f"{corpus}: there are no entities")
        if unfit := [label for label in labels if Path(label).name != label]:
            raise ValueError(f"{corpus}: a label is the name of a file, not {unfit[0]!r}")
        found = list(one_label_each(docs, labels, seed))
        part = output.with_name(f".{os.getpid()}.{output.name}")
        said = []
        try:
            for label in labels:
                mine = [doc for name, doc in found if name == label]
                write_all(mine, part / f"{label}.spacy")
                n_ents = sum(len(doc.ents) for doc in mine)
                all_ents = sum(ent.label_ == label for doc in docs for ent in doc.ents)
                path = output / f"{label}.spacy"
                said.append(f"{path}: {len(mine):,} docs, {n_ents:,} of {all_ents:,} entities")
            if output.is_dir():
                output.rmdir()
            part.replace(output)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        typer.echo("\n".join(said))
