"""Map the labels of several corpora to PER, LOC, ORG and MISC.

    python -m models.en_bcrf_web.convert CORPORA RAW OUTPUT

RAW: the converted corpora. Each corpus says which labels it annotates: its O is about these labels
alone. The folds are documents of the dev part of UNER EWT, and training reads each of its sentences
COPIES times, because the others are of other kinds of texts.
"""

import argparse
import shutil
from collections.abc import Iterator
from pathlib import Path

from spacy.tokens import Doc, Span
from spacy.vocab import Vocab

from bcrf.io.text import find_file, read_lines
from models.names import write_lists
from spacy_bcrf.analysis.cross_fitting import assign_folds
from spacy_bcrf.annotation.extensions import set_extensions
from spacy_bcrf.corpora.doc_files import read_docs, write_all

LOCALES = (
    *("en_US", "en_GB", "en_AU", "en_NZ", "en_IE", "en_IN", "de_DE", "fr_FR", "it_IT", "es_ES"),
    *("pt_BR", "pl_PL", "nl_NL", "sv_SE", "ar_AA"),
)
"""Of the lists of names."""
FOLDS = 3
COPIES = 3
UNER = "uner-english-ewt/en_ewt-ud-dev.iob2"
LABELS = {
    "PER": "PER PERSON person politician scientist researcher writer musicalartist",
    "LOC": "LOC GPE FAC location country",
    "ORG": "ORG organisation corporation group politicalparty university band",
    "MISC": "MISC",
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
    test = list(read(args.raw / "test.spacy", vocab, THREE))
    write_all(test, args.output / "test.spacy")
    seen = {doc.text for doc in test}
    for name, annotated in CORPORA.items():
        of_corpus = read(args.raw / f"{name}.spacy", vocab, annotated)
        write_all(
            (doc for doc in of_corpus if doc.text not in seen), args.output / f"train/{name}.spacy"
        )
    docs = list(read(args.raw / "uner.spacy", vocab, THREE))
    numbers = find_documents(find_file(args.corpora / UNER))
    folds = assign_folds(max(numbers) + 1, FOLDS)[numbers]
    by_fold = [[doc for doc, n in zip(docs, folds, strict=True) if n == i] for i in range(FOLDS)]
    for i, of_fold in enumerate(by_fold):
        write_all(of_fold, args.output / f"train/fold{i}.spacy")
    for name, left_out in {"final": None, **{f"fold{i}": i for i in range(FOLDS)}}.items():
        again = [doc for i, fold in enumerate(by_fold) if i != left_out for doc in fold]
        path = args.output / f"only/{name}/uner.spacy"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_all(again * (COPIES - 1), path)
    (args.output / "lists").mkdir()
    write_lists(LOCALES, args.output / "lists")


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
