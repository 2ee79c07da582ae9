"""Make partial annotation from full annotation, to compare models trained on both.

    python -m experiments.partial.mask train.spacy masked --by-label
    python -m experiments.partial.mask train.spacy half.spacy --drop 0.5 --others missing

The corpus has complete entity annotation. Write a .spacy file; with --by-label, a folder with a
file for each label.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from spacy.tokens import Doc
from tqdm import tqdm

from bcrf.io.atomic import replacing_folder
from lab.masking import drop_entities, forget_tokens, one_label_each
from spacy_bcrf.cli.paths import check_output_file
from spacy_bcrf.readers.doc_files import read_own_docs, write_all


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path, help=".spacy file, or a folder of them")
    parser.add_argument("output", type=Path)
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument(
        "--by-label",
        action="store_true",
        help="annotate one label in each document; all labels get equal numbers",
    )
    kind.add_argument("--drop", type=_share, help="drop this share of the entities")
    kind.add_argument(
        "--forget", type=_share, help="make this share of entities and tokens missing"
    )
    parser.add_argument(
        "--others",
        choices=("outside", "missing"),
        help="with --drop: annotation of tokens outside of entities (default: outside)",
    )
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    if args.others is not None and args.drop is None:
        parser.error("--others is only for --drop")
    try:
        _mask(args)
    except (ValueError, OSError) as error:
        sys.exit(str(error))


def _share(text: str) -> float:
    if not 0 <= float(text) <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not from 0 to 1")
    return float(text)


def _mask(args: argparse.Namespace) -> None:
    if not args.by_label:
        check_output_file(args.output, ".spacy", args.corpus)
    docs = list(tqdm(read_own_docs(args.corpus), "reading", delay=1, unit="docs"))
    for i, doc in enumerate(docs):
        if len(doc) and not doc.has_annotation("ENT_IOB", require_complete=True):
            raise ValueError(
                f"{args.corpus}: document {i}, {doc.text[:60]!r}, has missing entity annotation"
            )
    if args.by_label:
        _mask_by_label(docs, args)
        return
    if args.drop is not None:
        masked = list(drop_entities(docs, args.drop, args.seed, args.others or "outside"))
    else:
        masked = list(forget_tokens(docs, args.forget, args.seed))
    write_all(masked, args.output)
    before, after = (sum(len(doc.ents) for doc in part) for part in (docs, masked))
    missing = sum(not token.ent_iob for doc in masked for token in doc)
    print(
        f"{args.output}: {len(masked):,} docs, {after:,} of {before:,} entities, "
        f"{missing:,} of {sum(map(len, docs)):,} tokens missing"
    )


def _mask_by_label(docs: Sequence[Doc], args: argparse.Namespace) -> None:
    labels = sorted({ent.label_ for doc in docs for ent in doc.ents})
    if not labels:
        raise ValueError(f"{args.corpus}: found no entities")
    if unfit := [label for label in labels if Path(label).name != label]:
        raise ValueError(f"{args.corpus}: label {unfit[0]!r} cannot be the name of a file")
    masked_by_label = list(one_label_each(docs, labels, args.seed))
    lines = []
    with replacing_folder(args.output) as part:
        for label in labels:
            masked = [doc for name, doc in masked_by_label if name == label]
            write_all(masked, part / f"{label}.spacy")
            after = sum(len(doc.ents) for doc in masked)
            before = sum(ent.label_ == label for doc in docs for ent in doc.ents)
            path = args.output / f"{label}.spacy"
            lines.append(f"{path}: {len(masked):,} docs, {after:,} of {before:,} entities")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
