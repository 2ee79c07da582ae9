"""Time of loss with gradient and of decoding: `chain.CRF` and `chain.BCRF` against pytorch-crf.

    python -m benchmarks.heads --corpora DIR
    python -m benchmarks.heads --lengths 10 30 100 1000 10000 --batch 1 8 64 512 --tags 9 17 50 128

The first command takes sentence lengths from a corpus. The second times batches of sequences of one
length, and adds mean field, torch-struct and plain PyTorch to the heads. `benchmarks.scaling`
explains the fraction of the limit.
"""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bcrf import kernels
from bcrf.chain import BCRF, CRF, Inference, Potentials
from benchmarks.head_sizes import add_size_options, measure_sizes
from benchmarks.inputs import random_potentials, sentence_lengths
from benchmarks.scaling import array_library, least_seconds, limits
from benchmarks.timing import interleave
from benchmarks.torch_heads import PytorchCRF, check_agreement
from lab.figures import make_figure, save_figure
from lab.machine import describe_machine
from lab.options import add_options, need
from lab.processes import in_own_process
from lab.tables import print_table

N_TAGS = (9, 17, 50, 69)
BATCH_SIZE = 64
TORCH_THREADS = (1, 2)
OURS: dict[str, Inference] = {"CRF": CRF(), "BCRF(10)": BCRF(n_iter=10)}
# The kernel of `benchmarks.scaling` behind each task of a head. Decoding by marginals has none.
KERNELS = {
    ("CRF", "loss+gradient"): "CRF",
    ("BCRF(10)", "loss+gradient"): "BCRF(10)",
    ("CRF", "decode"): "Viterbi",
}

Batch = tuple[Potentials, NDArray[np.int32]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--batches", type=int, default=4, help="different batches in a round")
    parser.add_argument("--tags", type=int, nargs="+", default=N_TAGS, metavar="T")
    parser.add_argument(
        "--sorted", action="store_true", help="sort by length, the best case for padding"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="not with --lengths")
    add_size_options(parser)
    args = parser.parse_args()
    kernels.set_threads(args.threads)
    if args.plot:
        need("matplotlib.figure", "plot")
    if args.lengths:
        if args.plot:
            parser.error("--plot draws the times by number of tags; leave it out with --lengths")
        measure_sizes(args)
        return
    if args.device != "cpu" or args.threads != 1:
        parser.error("--device and --threads need --lengths")
    drawn, source = sentence_lengths(args.corpora)
    # NumPy's matrix product takes its number of threads at import, so it needs a fresh process.
    peak = in_own_process(measure_limits)
    rows: list[dict[str, object]] = []
    for n_tags in args.tags:
        batches = draw_batches(drawn, n_tags, args.batches, args.sorted)
        rows += measure(n_tags, batches, args.rounds, peak)
    notes = (
        f"{describe_machine(['numpy', 'torch', 'pytorch-crf'])}\n{source}; {args.batches} batches "
        f"of {BATCH_SIZE} sentences{', sorted by length' if args.sorted else ''}; us/token, "
        f"median of {args.rounds} interleaved rounds\n"
        f"pytorch-crf: faster of {TORCH_THREADS} threads, without padding; ours: 1 thread\n"
        "x: times faster than pytorch-crf; decode: Viterbi, for BCRF(10) by marginals\n"
        f"of limit: fraction of {peak[0] / 1e9:.1f} GFLOP/s or {peak[1] / 1e9:.1f} GB/s"
    )
    print_table("Heads", rows, notes, args.csv)
    if args.plot:
        draw(args.plot, rows)


def measure_limits() -> tuple[float, float]:
    """Measure the limits of one core in operations and bytes a second."""
    return limits(*array_library("cpu"))


def draw_batches(
    lengths: NDArray[np.int32], n_tags: int, n_batches: int, by_length: bool
) -> list[Batch]:
    """Draw potentials and gold tags, with sentence lengths drawn from a corpus."""
    rng = np.random.default_rng(0)
    drawn = rng.choice(lengths, (n_batches, BATCH_SIZE))
    if by_length:
        drawn = np.sort(drawn, axis=None).reshape(drawn.shape)
    batches = []
    for batch in drawn:
        potentials = random_potentials(n_tags, batch, rng)
        batches.append((potentials, rng.integers(n_tags, size=batch.sum(), dtype="int32")))
    return batches


def measure(
    n_tags: int, batches: list[Batch], rounds: int, peak: tuple[float, float]
) -> list[dict[str, object]]:
    """Return a row for each contender."""
    theirs = [PytorchCRF(potentials, gold) for potentials, gold in batches]
    check_agreement(theirs[0], CRF(), *batches[0])
    tasks: dict[str, dict[str, Callable[[], object]]] = {"loss+gradient": {}, "decode": {}}
    for name, inference in OURS.items():
        tasks["loss+gradient"][name] = partial(compute_losses, inference, batches)
        tasks["decode"][name] = partial(decode_all, inference, batches)
    for n_threads in TORCH_THREADS:
        name = f"pytorch-crf {n_threads}"
        tasks["loss+gradient"][name] = partial(run_all, theirs, "loss", n_threads)
        tasks["decode"][name] = partial(run_all, theirs, "decode", n_threads)
    n_tokens = sum(len(gold) for _, gold in batches)
    edges = 1 - BATCH_SIZE * len(batches) / n_tokens
    rows: dict[str, dict[str, object]] = {
        name: {"head": name, "T": n_tags} for name in ("pytorch-crf", *OURS)
    }
    for task, contenders in tasks.items():
        seconds = interleave(contenders, rounds)
        by_threads = [seconds[f"pytorch-crf {n_threads}"] for n_threads in TORCH_THREADS]
        seconds["pytorch-crf"] = min(by_threads)
        for name, row in rows.items():
            row[task] = f"{seconds[name] / n_tokens * 1e6:.2f}"
            row[f"x {task}"] = f"{seconds['pytorch-crf'] / seconds[name]:.1f}"
            row[f"/ CRF {task}"] = f"{seconds[name] / seconds['CRF']:.2f}"
            kernel = KERNELS.get((name, task))
            least = least_seconds(kernel, n_tags, edges, peak) if kernel else None
            share = f"{least * n_tokens / seconds[name]:.2f}" if least else "-"
            row[f"{task} of limit"] = share
    return list(rows.values())


def compute_losses(inference: Inference, batches: list[Batch]) -> None:
    """Compute loss and gradient of each batch."""
    for potentials, gold in batches:
        inference.loss(potentials, gold)


def decode_all(inference: Inference, batches: list[Batch]) -> None:
    """Decode each batch."""
    for potentials, _ in batches:
        inference.decode(potentials)


def run_all(batches: list[PytorchCRF], method: str, n_threads: int) -> None:
    """Call a method of each batch with this number of PyTorch threads."""
    torch = need("torch")

    torch.set_num_threads(n_threads)
    for batch in batches:
        getattr(batch, method)()


def draw(path: Path, rows: list[dict[str, object]]) -> None:
    """Draw the time of each head by number of tags, with a panel for each task."""
    figure = make_figure(9, 4)
    for axes, task in zip(figure.subplots(1, 2), ("loss+gradient", "decode"), strict=True):
        for name in dict.fromkeys(row["head"] for row in rows):
            mine = [row for row in rows if row["head"] == name]
            times = [float(str(row[task])) for row in mine]
            axes.plot([row["T"] for row in mine], times, marker="o", label=name)
        axes.set(xlabel="tags", ylabel="us/token", title=task, xscale="log", yscale="log")
    figure.axes[0].legend()
    save_figure(figure, path)


if __name__ == "__main__":
    main()
