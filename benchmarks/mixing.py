"""Iterative parameter mixing: tagging accuracy and seconds a round by the number of processes.

    python -m benchmarks.mixing --corpora DIR --out training/mixing

The corpus is UD English EWT, the tagger a sparse chain with the templates "pos". --out keeps all
rounds, so the command can be interrupted and resumed.
"""

import argparse
import json
import time
from pathlib import Path

import spacy
from spacy.training import Corpus, Example
from spacy.util import fix_random_seed

from benchmarks.common import EWT, add_options, describe_machine, print_table
from spacy_bcrf.bulk.mixing import learn_in_rounds
from spacy_bcrf.corpora.convert import convert
from spacy_bcrf.corpora.formats.conllu import read_conllu
from spacy_bcrf.io.atomic import write_text
from spacy_bcrf.io.shards import read_docs
from spacy_bcrf.io.text import find_file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, needs_corpora=True)
    parser.add_argument("--out", type=Path, default=Path("training/mixing"), metavar="DIR")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for part in ("train", "dev"):
        folder = args.out / part
        if not folder.exists():
            source = find_file(args.corpora / str(EWT).replace("train", part))
            convert([(source, read_conllu)], folder, lang="en", shard=1000)
    rows: list[dict[str, object]] = []
    for n in args.processes:
        output = args.out / f"processes-{n}"
        seconds = learn(args.out / "train", output, args.rounds, n, args.seed)
        accuracy = evaluate(output / f"round-{args.rounds:03d}", args.out / "dev")
        rows.append(
            {
                "processes": n,
                "rounds": args.rounds,
                "dev accuracy": f"{100 * accuracy:.2f}",
                "s a round": f"{seconds:.1f}",
            }
        )
    notes = f"{describe_machine(['spacy', 'numpy'])}\nUD English EWT, XPOS tags"
    print_table("Iterative parameter mixing", rows, notes, args.csv)


def learn(corpus: Path, output: Path, rounds: int, n_processes: int, seed: int) -> float:
    """Learn, and return the seconds of the fastest round, of this call or an earlier one."""
    fix_random_seed(seed)
    nlp = spacy.blank("en")
    model = {"@architectures": "spacy-bcrf.LinearChain.v1", "templates": "pos"}
    nlp.add_pipe("bcrf_tagger", "tagger", config={"model": model})
    examples = [Example(doc, doc) for doc in read_docs(corpus, nlp.vocab)]
    nlp.initialize(lambda: examples)
    times: list[float] = []
    last = time.perf_counter()

    def after(number: int, loss: float) -> None:
        nonlocal last
        now = time.perf_counter()
        times.append(now - last)
        last = now

    learn_in_rounds(nlp, "tagger", corpus, output, rounds, n_processes, seed, after)
    store = output / "seconds.json"
    if times:
        write_text(store, json.dumps(min(times)))
    return json.loads(store.read_text())


def evaluate(pipeline: Path, corpus: Path) -> float:
    """Return the tagging accuracy."""
    nlp = spacy.load(pipeline)
    return nlp.evaluate(list(Corpus(corpus, gold_preproc=True)(nlp)))["tag_acc"]


if __name__ == "__main__":
    main()
