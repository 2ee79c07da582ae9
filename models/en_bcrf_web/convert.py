"""Map the labels of several corpora to PER, LOC, ORG and MISC.

    python -m models.en_bcrf_web.convert CORPORA RAW OUTPUT

RAW: the converted corpora. Each corpus says which labels it annotates: its O is about these labels
alone. Where the corpora lack the train part of UNER EWT, its dev part is training data, in folds of
whole documents, and training reads each of its sentences COPIES times, because the others are of
other kinds of texts.
"""

import argparse
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from spacy.tokens import Doc, Span
from spacy.vocab import Vocab

from bcrf.io.text import find_file, read_lines
from models.folds import write_folds
from models.names import write_lists
from spacy_bcrf.annotation.extensions import set_extensions
from spacy_bcrf.cli.convert_cli import convert_cli
from spacy_bcrf.readers.doc_files import read_docs, write_all

LOCALES = (
    *("en_US", "en_GB", "en_AU", "en_NZ", "en_IE", "en_IN", "de_DE", "fr_FR", "it_IT", "es_ES"),
    *("pt_BR", "pl_PL", "nl_NL", "sv_SE", "ar_AA"),
)
"""Of the lists of names."""
FOLDS = 3
COPIES = 3
UNER = "uner-english-ewt/en_ewt-ud-{}.iob2"
LABELS = {
    "PER": "PER PERSON person politician scientist researcher writer musicalartist",
    "LOC": "LOC GPE FAC location country",
    "ORG": "ORG organisation corporation group politicalparty university band",
    "MISC": "MISC OTH",
}
"""Our labels, and theirs."""
OURS = {theirs: ours for ours, names in LABELS.items() for theirs in names.split()}
UNCLEAR = {"magazine", "academicjournal", "astronomicalobject", "conference"}
"""Labels whose entities other corpora may take for an organization or a place."""
THREE = ["PER", "LOC", "ORG"]
CORPORA = {"wikigold": [*LABELS], "sec": [*LABELS], "wnut17": THREE, "crossner": THREE}
"""The labels that a corpus annotates."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpora", type=Path)
    parser.add_argument("raw", type=Path)
    parser.add_argument("output", type=Path)
    args = parser.parse_args()
    shutil.rmtree(args.output, ignore_errors=True)  # it may have other folds
    set_extensions()
    vocab = Vocab()
    (args.output / "train").mkdir(parents=True, exist_ok=True)
    test, dev = (list(read(args.raw / f"{x}.spacy", vocab, THREE)) for x in ("test", "uner"))
    write_all(test, args.output / "test.spacy")
    held_out, corpora = {doc.text for doc in test}, CORPORA
    if (path := find_file(args.corpora / UNER.format("train"))).is_file():
        write_as_dev(path, args.raw / "uner-train.iob2")
        convert_cli([args.raw / "uner-train.iob2"], args.raw / "uner-train.spacy", lang="en")
        corpora = {**CORPORA, "uner-train": [*LABELS]}
        held_out |= {doc.text for doc in dev}
        write_all(dev, args.output / "dev.spacy")
    else:
        numbers = find_documents(find_file(args.corpora / UNER.format("dev")))
        write_dev(dev, numbers, args.output)
    for name, annotated in corpora.items():
        docs = read(args.raw / f"{name}.spacy", vocab, annotated)
        path = args.output / f"train/{name}.spacy"
        write_all((doc for doc in docs if doc.text not in held_out), path)
    (args.output / "lists").mkdir()
    write_lists(LOCALES, args.output / "lists")


def write_dev(docs: list[Doc], numbers: list[int], output: Path) -> None:
    """Write the dev part as training data. numbers: of the document of each sentence."""
    by_fold = write_folds(docs, FOLDS, output / "train", numbers)
    for name, left_out in {"final": None, **{f"fold{i}": i for i in range(FOLDS)}}.items():
        again = [doc for i, fold in enumerate(by_fold) if i != left_out for doc in fold]
        path = output / f"only/{name}/uner.spacy"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_all(again * (COPIES - 1), path)


def write_as_dev(path: Path, output: Path) -> None:
    """Write the train part of UNER EWT, a first version, with the columns and labels of the others.

    Only words of an entity have columns after the tag. "B-O" marks words without an entity.
    """
    rows = ("\t".join(line.text.split("\t")[:3]) for line in read_lines(path))
    output.write_text("".join(re.sub(r"\tB-O$", "\tO", row) + "\n" for row in rows), "utf8")


def read(path: Path, vocab: Vocab, annotated: list[str]) -> Iterator[Doc]:
    """Yield the documents of a corpus with our labels."""
    for doc in read_docs(path, vocab):
        ents = [Span(doc, e.start, e.end, OURS[e.label_]) for e in doc.ents if e.label_ in OURS]
        unclear = [e for e in doc.ents if e.label_ in UNCLEAR]
        doc.set_ents([e for e in ents if e.label_ in annotated], missing=unclear, default="outside")
        doc._.annotated_labels = annotated
        yield doc


def find_documents(path: Path) -> list[int]:
    """Return the number of the document of each sentence."""
    numbers: list[int] = []
    n = -1
    for line in read_lines(path):
        n += line.text.startswith("# newdoc")
        if line.text.startswith("# sent_id"):
            numbers.append(n)
    return numbers


if __name__ == "__main__":
    main()
