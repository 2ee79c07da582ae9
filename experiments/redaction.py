"""What `redact` leaves of names and of generated identifiers, and what else it replaces.

    python -m experiments.redaction --corpora DIR

No corpus of private texts can be published. So names, places and organizations of UNER EWT
and WNUT17 stand for them, and sentences with generated identifiers. Each chain makes a promise of
recall on one part of the documents, and the other part measures the leaks.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import spacy
from spacy.tokens import Doc

from lab.labeling_tasks import TASKS, add_options
from lab.tables import markdown_table
from spacy_bcrf.annotation.tokenizers import copy_words
from spacy_bcrf.judging.folds import train_sparse_chain
from spacy_bcrf.privacy.leaks import LeakReport, measure_leaks
from spacy_bcrf.privacy.redact import redact
from spacy_bcrf.promises.control import control

FRAMES = (
    "please call {PHONE} and ask for file {ID}",
    "the transfer to {IBAN} from {DATE} is missing",
    "my address is {MAIL} , order {ID} of {DATE}",
    "write to {MAIL} or phone {PHONE} today",
    "account {IBAN} , born {DATE} , customer {ID}",
    "we moved in 2024 and have 3 rooms for 450 a week",
    "chapter 12 of 30 is about 1000 years of history",
)
PLAIN = ("thanks", "hello", "again", "please", "soon", "now", "well", "so")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--only", nargs="+", default=["uner", "wnut17", "generated"])
    args = parser.parse_args()
    print("| corpus | promise | spans left | characters left | documents with a leak", end="")
    print(" | strings left | other |\n|" + " --- |" * 7)
    for corpus in args.only:
        if corpus == "generated":
            parts = generate(600, 0), generate(400, 1), generate(2000, 2)
        else:
            task = TASKS[corpus]
            vocab = task.make_nlp(None).vocab
            train, dev, test = (
                task.read(Path(args.corpora), part, args.cache, vocab)
                for part in ("train", "dev", "test")
            )
            # The promise needs documents of the source of the test part.
            half = len(test) // 2
            order = np.random.default_rng(0).permutation(len(test)).tolist()
            parts = [*train, *dev], [test[i] for i in order[:half]], [test[i] for i in order[half:]]
        for recall, report in measure(*parts):
            every = report.rows()[1][1:]
            row = (corpus, f"recall {recall:g}", *every, f"{100 * report.replaced:.1f}%")
            print(markdown_table([row, row]).splitlines()[0], flush=True)


def measure(
    train: list[Doc], held_out: list[Doc], test: list[Doc]
) -> Iterator[tuple[float, LeakReport]]:
    """Yield the leaks in test documents for each promise that can be made."""
    labels = sorted({ent.label_ for doc in train for ent in doc.ents})
    nlp = train_sparse_chain(train, labels, "en")
    for recall in (0.6, 0.7, 0.8, 0.9, 0.95, 0.98):
        try:
            control(nlp, held_out, recall=recall)
        except ValueError as error:
            print(error, flush=True)
            return
        found = redact(nlp, [copy_words(doc, nlp.vocab) for doc in test], style="mask")
        yield recall, measure_leaks(test, list(found))


def generate(n: int, seed: int) -> list[Doc]:
    """Make sentences with numbers of phones, accounts and files, mail addresses and dates."""
    rng = np.random.default_rng(seed)
    vocab = spacy.blank("en").vocab

    def digits(k: Any) -> str:
        return "".join(map(str, rng.integers(0, 10, k)))

    def letters(k: Any) -> str:
        return "".join(chr(97 + i) for i in rng.integers(0, 26, k))

    makers = {
        "PHONE": lambda: [f"0{digits(3)}", digits(rng.integers(5, 9))],
        "ID": lambda: [f"{letters(2).upper()}-{digits(6)}"],
        "IBAN": lambda: [f"DE{digits(2)}", digits(4), digits(4), digits(4), digits(4), digits(2)],
        "DATE": lambda: [f"{rng.integers(1, 29)}.{rng.integers(1, 13)}.19{digits(2)}"],
        "MAIL": lambda: [f"{letters(rng.integers(3, 8))}@{letters(5)}.org"],
    }
    docs = []
    for _ in range(n):
        words, ents = [], []
        for word in FRAMES[rng.integers(len(FRAMES))].split():
            made = makers[word[1:-1]]() if word[0] == "{" else [word]
            words += made
            label = word[1:-1] if word[0] == "{" else ""
            ents += [f"{'I' if i else 'B'}-{label}" if label else "O" for i in range(len(made))]
            if rng.random() < 0.1:
                words.append(PLAIN[rng.integers(len(PLAIN))])
                ents.append("O")
        docs.append(Doc(vocab, words=words, ents=ents))
    return docs


if __name__ == "__main__":
    main()
