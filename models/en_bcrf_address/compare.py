"""Compare en_bcrf_address with the package usaddress on usaddress's test files, in one run.

    python -m models.en_bcrf_address.compare MODEL --corpora DIR

An address is right if all of its words have the labels of the file. The file of all states has one
label for all parts of a street's name and one for those of a number, as usaddress's own test of it.
Both systems get texts, on one thread, in turns.
"""

import argparse
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean

import spacy
from spacy.language import Language

from bcrf.io.extras import require

from .convert import TESTS, TRAIN, Word, read_words

REPEATS = 20
COARSE = ("StreetName", "AddressNumber")
"""The labels of the file of all states, which also stand for labels that begin with them."""

Parse = Callable[[Sequence[str]], list[list[Word]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="name or folder of the pipeline")
    parser.add_argument("--corpora", type=Path, required=True, metavar="DIR")
    args = parser.parse_args()
    usaddress, nlp = require("usaddress", "models"), spacy.load(args.model)
    folder = args.corpora / "usaddress"
    known = {text_of(words) for words in read_words(folder / TRAIN)}
    systems: dict[str, Parse] = {
        "usaddress": lambda texts: [usaddress.parse(text) for text in texts],
        args.model: lambda texts: parse(nlp, texts),
    }
    for file in TESTS:
        gold = list(read_words(folder / file))
        texts = [text_of(words) for words in gold]
        is_new = [text not in known for text in texts]
        print(f"{file}: {len(gold):,} addresses, {sum(is_new):,} of them not in {TRAIN}")
        is_coarse = not any(label.startswith("StreetNameP") for x in gold for _, label in x)
        speeds = measure_speeds(systems, texts)
        for name, run in systems.items():
            found = run(texts)
            right = [
                labels_of(a) == labels_of(b, is_coarse) for a, b in zip(gold, found, strict=True)
            ]
            of_new = [x for x, new in zip(right, is_new, strict=True) if new]
            print(
                f"  {name}: {100 * mean(right):.1f}% wholly right, {100 * mean(of_new):.1f}% of "
                f"the new ones; {speeds[name]:,.0f} addresses/s"
            )


def text_of(words: Sequence[Word]) -> str:
    return " ".join(word for word, _ in words)


def labels_of(words: Sequence[Word], is_coarse: bool = False) -> list[str]:
    labels = [label for _, label in words]
    if not is_coarse:
        return labels
    return [next((x for x in COARSE if label.startswith(x)), label) for label in labels]


def parse(nlp: Language, texts: Sequence[str]) -> list[list[Word]]:
    """Return the words of each address, without white space, with the labels of their entities."""
    return [
        [(token.text, token.ent_type_) for token in doc if not token.is_space]
        for doc in nlp.pipe(texts)
    ]


def measure_speeds(systems: dict[str, Parse], texts: Sequence[str]) -> dict[str, float]:
    """Return the addresses a second of processor time of each system, the best of several runs."""
    seconds = dict.fromkeys(systems, math.inf)
    for _ in range(REPEATS):
        for name, run in systems.items():
            start = time.process_time()
            run(texts)
            seconds[name] = min(seconds[name], time.process_time() - start)
    return {name: len(texts) / best for name, best in seconds.items()}


if __name__ == "__main__":
    main()
