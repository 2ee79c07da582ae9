"""What is asked of potentials, in time relative to Viterbi and the log-partition.

    python -m benchmarks.search

First table: microseconds a token, by number of tags. Second: how much of the graph Dijkstra's
algorithm expands, and its time against Viterbi's, by how far one tag of each token stands out.
"""

import argparse
from collections.abc import Callable

import numpy as np

from benchmarks.common import (
    add_options,
    describe_machine,
    interleave,
    print_table,
    sentence_lengths,
)
from spacy_bcrf import kernels
from spacy_bcrf.chain import (
    CRF,
    MIRA,
    SAPO,
    MeanField,
    Perceptron,
    Potentials,
    dijkstra,
    entropy,
    nbest,
    sample,
    viterbi,
)

TAGS = (9, 17, 50, 69)
BATCH = 64
# By how much one tag of each token is better, where tags' scores have a standard deviation of 1 and
# transitions' of 0.5.
MARGINS = (0, 2, 4, 8, 16)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    kernels.set_threads(1)
    all_lengths, source = sentence_lengths(args.corpora)
    lengths = all_lengths[:BATCH]
    notes = (
        f"{describe_machine(['numpy'])}\n"
        f"{BATCH} sequences, {lengths.sum()} tokens, {source}; one thread, float32; "
        f"us/token, fastest of {args.rounds} interleaved rounds"
    )
    rows = [ask(n_tags, lengths, args.rounds) for n_tags in TAGS]
    print_table("questions", rows, notes, args.csv)
    print()
    rows = [
        search(n_tags, margin, lengths, args.rounds) for n_tags in (17, 50) for margin in MARGINS
    ]
    print_table("best-first search", rows, "expanded: share of the pairs of token and tag")


def problem(n_tags: int, lengths: np.ndarray, margin: float = 0.0) -> Potentials:
    rng = np.random.default_rng(0)
    unary = rng.normal(0, 1, (lengths.sum(), n_tags))
    unary[np.arange(len(unary)), rng.integers(0, n_tags, len(unary))] += margin
    transitions = rng.normal(0, 0.5, (n_tags, n_tags))
    return Potentials(unary.astype("float32"), transitions.astype("float32"), lengths)


def ask(n_tags: int, lengths: np.ndarray, rounds: int) -> dict[str, object]:
    potentials = problem(n_tags, lengths)
    gold = viterbi(potentials)[0]
    rng = np.random.default_rng(0)
    questions: dict[str, Callable[[], object]] = {
        "viterbi": lambda: viterbi(potentials),
        "nbest(5)": lambda: nbest(potentials, 5),
        "beam(5, 50)": lambda: nbest(potentials, 5, "beam", 50),
        "log Z": lambda: CRF().log_partition(potentials),
        "entropy": lambda: entropy(potentials),
        "sample(5)": lambda: sample(potentials, 5, rng),
        "CRF loss": lambda: CRF().loss(potentials, gold),
        "SAPO(5)": lambda: SAPO(5).loss(potentials, gold),
        "perceptron": lambda: Perceptron().loss(potentials, gold),
        "MIRA": lambda: MIRA().loss(potentials, gold),
        "MIRA(5)": lambda: MIRA(5).loss(potentials, gold),
        "MF(10) loss": lambda: MeanField(10).loss(potentials, gold),
    }
    us = {
        name: seconds / lengths.sum() * 1e6
        for name, seconds in interleave(questions, rounds).items()
    }
    ratios = {
        "nbest/viterbi": us["nbest(5)"] / us["viterbi"],
        "SAPO/viterbi": us["SAPO(5)"] / us["viterbi"],
        "entropy/log Z": us["entropy"] / us["log Z"],
        "MF/CRF": us["MF(10) loss"] / us["CRF loss"],
    }
    times = {name: f"{value:.3f}" for name, value in us.items()}
    return {"tags": n_tags, **times, **{name: f"{value:.2f}" for name, value in ratios.items()}}


def search(n_tags: int, margin: float, lengths: np.ndarray, rounds: int) -> dict[str, object]:
    potentials = problem(n_tags, lengths, margin)
    arrays = potentials.unary, potentials.transitions, potentials.lengths
    _, _, expanded = kernels.dijkstra(*arrays)
    seconds = interleave(
        {"dijkstra": lambda: dijkstra(potentials), "viterbi": lambda: viterbi(potentials)}, rounds
    )
    return {
        "tags": n_tags,
        "margin": margin,
        "expanded": f"{expanded.sum() / potentials.unary.size:.3f}",
        "x Viterbi's time": f"{seconds['dijkstra'] / seconds['viterbi']:.1f}",
    }


if __name__ == "__main__":
    main()
