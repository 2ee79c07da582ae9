"""Convert usaddress's XML to `.spacy` files of entities.

    python -m models.en_bcrf_address.convert CORPORA OUTPUT

An entity is a run of words with the same label. The tokenizer of `config.cfg` makes the words of
usaddress: a comma belongs to the word before it.
"""

import argparse
import shutil
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import filter_spans, load_config, load_model_from_config

from bcrf.io.text import find_file, open_decompressed
from models.folds import write_folds
from spacy_bcrf.readers.doc_files import write_all

FOLDS = 3
TRAIN, TESTS = "labeled.xml", ("test_labeled.xml", "us50_test_tagged.xml")

Word = tuple[str, str]
"""A word and its label."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpora", type=Path)
    parser.add_argument("output", type=Path)
    args = parser.parse_args()
    shutil.rmtree(args.output, ignore_errors=True)  # it may have other folds
    nlp = make_nlp()
    (args.output / "train").mkdir(parents=True, exist_ok=True)
    write_folds(read(nlp, args.corpora / "usaddress" / TRAIN), FOLDS, args.output / "train")
    # The other file has coarser labels: `compare` reads it.
    write_all(read(nlp, args.corpora / "usaddress" / TESTS[0]), args.output / "test.spacy")


def make_nlp() -> Language:
    return load_model_from_config(load_config(Path(__file__).parent / "config.cfg"), auto_fill=True)


def read(nlp: Language, path: Path) -> list[Doc]:
    return [make_doc(nlp, words) for words in read_words(path)]


def read_words(path: Path) -> Iterator[list[Word]]:
    """Yield the words of each address."""
    with open_decompressed(find_file(path)) as file:
        for address in ElementTree.parse(file).getroot():
            yield [(word.text or "", word.tag) for word in address]


def make_doc(nlp: Language, words: list[Word]) -> Doc:
    doc = nlp.make_doc(" ".join(word for word, _ in words))
    spans, at = [], 0
    for label, run in groupby(words, key=lambda word: word[1]):
        text = " ".join(word for word, _ in run)
        # A word may end in a line break, and no entity does.
        end = at + len(text.rstrip())
        spans.append(doc.char_span(at, end, label, alignment_mode="expand"))
        at += len(text) + 1
    doc.set_ents(filter_spans(filter(None, spans)))
    return doc


if __name__ == "__main__":
    main()
