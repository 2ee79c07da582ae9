"""Time of searches, posteriors and losses relative to Viterbi and the log-partition.

    python -m benchmarks.search

The first table has microseconds a token by number of tags. The second table has the share of the
lattice that Dijkstra's algorithm expands, and its time relative to Viterbi. It varies the margin of
one tag of each token over the others.
"""

import argparse
from collections.abc import Callable

import numpy as np

from bcrf import kernels
from bcrf.chain import (
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
from benchmarks.inputs import random_potentials, sentence_lengths
from benchmarks.timing import interleave
from lab.machine import describe_machine
from lab.options import add_options
from lab.tables import print_table

TAGS = (9, 17, 50, 69)
BATCH = 64
# Added to the score of one tag of each token.
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
        f"us/token, median of {args.rounds} interleaved rounds"
    )
    rows = [time_calls(n_tags, lengths, args.rounds) for n_tags in TAGS]
    print_table("calls", rows, notes, args.csv)
    print()
    rows = [
        search(n_tags, margin, lengths, args.rounds) for n_tags in (17, 50) for margin in MARGINS
    ]
    print_table("best-first search", rows, "expanded: share of the pairs of token and tag")


def draw_potentials(n_tags: int, lengths: np.ndarray, margin: float = 0.0) -> Potentials:
    """Draw potentials in which one tag of each token has a margin."""
    rng = np.random.default_rng(0)
    potentials = random_potentials(n_tags, lengths, rng, unary_scale=1.0, transition_scale=0.5)
    unary = potentials.unary
    unary[np.arange(len(unary)), rng.integers(0, n_tags, len(unary))] += margin
    return potentials


def time_calls(n_tags: int, lengths: np.ndarray, rounds: int) -> dict[str, object]:
    """Return a row with the times of all calls for one number of tags."""
    potentials = draw_potentials(n_tags, lengths)
    gold = viterbi(potentials)[0]
    rng = np.random.default_rng(0)
    calls: dict[str, Callable[[], object]] = {
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
        name: seconds / lengths.sum() * 1e6 for name, seconds in interleave(calls, rounds).items()
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
    """Return a row that compares Dijkstra's algorithm with Viterbi."""
    potentials = draw_potentials(n_tags, lengths, margin)
    arrays = potentials.arrays
    _, _, expanded = kernels.dijkstra(*arrays)
    seconds = interleave(
        {"dijkstra": lambda: dijkstra(potentials), "viterbi": lambda: viterbi(potentials)}, rounds
    )
    return {
        "tags": n_tags,
        "margin": margin,
        "expanded": f"{expanded.sum() / potentials.unary.size:.3f}",
        "time / Viterbi": f"{seconds['dijkstra'] / seconds['viterbi']:.1f}",
    }


if __name__ == "__main__":
    main()
