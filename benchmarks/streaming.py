"""Peak memory of `spacy train` on a streamed corpus, by the number of its documents.

    python -m benchmarks.streaming --documents 20000 200000

The corpus repeats 2,000 random sentences of 20 words, so all sizes have the same features. The row
"initialize" is `nlp.initialize` on all documents, "train" a training of 400 steps with
`max_epochs = -1`. Each number is the peak of a fresh process.
"""

import argparse
import io
import random
import sys
from collections.abc import Callable, Iterator

import spacy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.training.initialize import init_nlp
from spacy.training.loop import train
from spacy.util import registry

from lab.machine import describe_machine
from lab.options import add_csv_option
from lab.processes import in_own_process, peak_memory
from lab.tables import print_table


@registry.readers("spacy-bcrf.benchmarks.streaming.v1")
def make_reader(n: int) -> Callable[[Language], Iterator[Example]]:
    """Return a corpus of n examples that reads nothing."""

    def read(nlp: Language) -> Iterator[Example]:
        rng = random.Random(0)
        words = [f"w{i}" for i in range(3000)]
        sentences = [rng.choices(words, k=20) for _ in range(2000)]
        for i in range(n):
            ents = ["O"] * 20
            if i % 2:
                ents[3], ents[7] = "B-PER", "B-LOC"
            gold = Doc(nlp.vocab, words=sentences[i % 2000], ents=ents)
            yield Example(Doc(nlp.vocab, words=sentences[i % 2000]), gold)

    return read


def measure(what: str, n: int) -> int:
    """Return the peak memory in bytes of this process."""
    nlp = spacy.blank("en")
    nlp.add_pipe("bcrf_ner")
    if what == "initialize":
        read = make_reader(n)
        nlp.initialize(lambda: read(nlp))
        return peak_memory()
    config = nlp.config.copy()
    for part, size in (("train", n), ("dev", 50)):
        reader = {"@readers": "spacy-bcrf.benchmarks.streaming.v1", "n": size}
        config["corpora"][part] = reader
    config["training"] |= {"max_epochs": -1, "max_steps": 400, "patience": 0}
    config["training"]["score_weights"] = {"ents_f": 1.0}
    train(init_nlp(config), None, stdout=io.StringIO(), stderr=sys.stderr)
    return peak_memory()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, nargs="+", default=[20_000, 200_000], metavar="N")
    add_csv_option(parser)
    args = parser.parse_args()
    rows = []
    for what in ("initialize", "train"):
        peaks = {n: in_own_process(measure, what, n) >> 20 for n in args.documents}
        rows.append({"MiB": what, **{f"{n:,} documents": peak for n, peak in peaks.items()}})
    notes = f"{describe_machine(['spacy'])}\npeak memory in MiB, sparse chain, one thread"
    print_table("Streamed training", rows, notes, args.csv)


if __name__ == "__main__":
    main()
