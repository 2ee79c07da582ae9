"""Memory of a large gazetteer, and its cost a word in a sparse chain.

    python -m benchmarks.gazetteers --corpora DIR
    python -m benchmarks.gazetteers --corpora DIR --list titles.txt

Without --list, the phrases are drawn: one to four words of the Brown clusters of `assets/english`.
The documents are sentences of UNER English EWT, whose words are in the list.
"""

import argparse
import gc
import os
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from spacy.tokens import Doc

from bcrf.io.text import read_lines
from benchmarks.timing import time_rounds
from lab import ROOT
from lab.labeling_tasks import TASKS
from lab.machine import describe_machine
from lab.options import add_options
from lab.processes import in_own_process, peak_memory
from lab.tables import print_table
from spacy_bcrf.judging.folds import fit_sparse_chain
from spacy_bcrf.sparse.gazetteers import Gazetteers, WordHashes
from spacy_bcrf.sparse.template_sets import get_templates

KINDS = {
    "lowercase": ("gazetteer",),
    "lowercase, exact": ("gazetteer", "exact"),
    "lowercase, exact, parts": ("gazetteer", "exact", "partial"),
}
WORDS = ROOT / "assets/english/clusters.tsv.xz"
LENGTHS = {1: 0.25, 2: 0.45, 3: 0.2, 4: 0.1}
"""The share of the phrases of each number of words."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, needs_corpora=True)
    parser.add_argument("--phrases", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--list", type=Path, metavar="FILE", help="phrases, one a line")
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    with TemporaryDirectory() as folder:
        path = args.list or Path(folder) / "phrases.txt"
        if not args.list:
            path.write_text("\n".join(draw_phrases(args.phrases)), "utf8")
        found = in_own_process(measure_time, path, args.corpora, Path(folder), args.rounds)
        rows = []
        for name, kinds in KINDS.items():
            row = {"matched by": name} | in_own_process(measure_memory, path, kinds)
            rows.append(row | {"us/word more": f"{found[name]:.2f}"})
    notes = (
        f"{describe_machine(['spacy', 'numpy'])}\n"
        f"MB: resident memory of a fresh process with the list, more than without; us/word more: "
        f"median of the differences of {args.rounds} interleaved rounds, processor time"
    )
    print_table("Gazetteers", rows, notes, args.csv)


def draw_phrases(n: int) -> list[str]:
    """Draw n distinct phrases, some in title case."""
    rng = np.random.default_rng(0)
    words = [line.text.split("\t")[0] for line in read_lines(WORDS)]
    found: dict[str, None] = {}
    while len(found) < n:
        lengths = rng.choice(list(LENGTHS), p=list(LENGTHS.values()), size=n)
        for length, is_title in zip(lengths, rng.random(n) < 0.5, strict=True):
            phrase = " ".join(words[k] for k in rng.integers(len(words), size=length))
            found[phrase.title() if is_title else phrase] = None
    return list(found)[:n]


def resident() -> int:
    """Return the resident memory of this process in bytes."""
    gc.collect()
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def measure_memory(path: Path, kinds: tuple[str, ...]) -> dict[str, str]:
    """Return what a list and its matchers hold, and the peak of this process."""
    doc = Doc(TASKS["uner"].make_nlp(None).vocab, words=["London", "bridge"])
    use(Gazetteers({"list": ["London"]}), doc, kinds)
    before = resident()
    gazetteers = Gazetteers({"list": str(path)})
    gazetteers.load()
    use(gazetteers, doc, kinds)
    held = resident() - before
    n = len(gazetteers.phrases["list"])
    return {
        "phrases": f"{n:,}",
        "MB": f"{held / 1e6:,.0f}",
        "peak MB": f"{peak_memory() / 1e6:,.0f}",
    }


def use(gazetteers: Gazetteers, doc: Doc, kinds: tuple[str, ...]) -> None:
    """Match by all kinds, which makes the matchers."""
    for kind in kinds:
        if kind == "partial":
            list(gazetteers.find_partial("list", doc[0].text))
        else:
            gazetteers.find("list", WordHashes.of([doc]), exact=kind == "exact")


def measure_time(path: Path, corpora: Path, cache: Path, rounds: int) -> dict[str, float]:
    """Return the microseconds a word that each kind of matching adds to a chain."""
    task = TASKS["uner"]
    runs: dict[str, Any] = {}
    for name, kinds in {"": (), **KINDS}.items():
        templates = [*get_templates(task.templates), *(f"{kind}.list[0]" for kind in kinds)]
        model = {"@architectures": "spacy-bcrf.LinearChain.v1", "templates": templates}
        nlp = task.make_nlp(model | {"gazetteers": {"list": str(path)} if kinds else None})
        train, test = (task.read(corpora, part, cache, nlp.vocab) for part in ("train", "test"))
        fit_sparse_chain(nlp, task.examples(nlp, train), 2)
        words = [[token.text for token in doc] for doc in test]

        def run(nlp: Any = nlp, words: list[list[str]] = words) -> None:
            docs = [Doc(nlp.vocab, words=row) for row in words]
            for _ in nlp.pipe(docs, batch_size=256):
                pass

        runs[name] = run
    n_words = sum(map(len, test))
    seconds = time_rounds(runs, rounds, time.process_time)
    return {
        name: 1e6 * median(a - b for a, b in zip(seconds[name], seconds[""], strict=True)) / n_words
        for name in KINDS
    }


if __name__ == "__main__":
    main()
