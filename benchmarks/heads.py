"""Loss with gradient, and decoding, of `chain.CRF` and `chain.BCRF` against pytorch-crf.

    python -m benchmarks.heads --corpora DIR
    python -m benchmarks.heads --lengths 10 30 100 1000 10000 --batch 1 8 64 512 --tags 9 17 50 128

The first is of the lengths that sentences have, the second of batches of sequences of one length,
mean field, torch-struct and plain PyTorch among the heads.
"""

import argparse
from collections.abc import Callable
from functools import partial

import numpy as np
from head_sizes import add_size_options, measure_sizes
from numpy.typing import NDArray

from benchmarks.common import (
    add_options,
    describe_machine,
    interleave,
    print_table,
    sentence_lengths,
)
from benchmarks.torch_heads import PytorchCRF
from spacy_bcrf import kernels
from spacy_bcrf.chain import BCRF, CRF, Inference, Potentials

N_TAGS = (9, 17, 50, 69)
BATCH_SIZE = 64
TORCH_THREADS = (1, 2)
OURS: dict[str, Inference] = {"CRF": CRF(), "BCRF(10)": BCRF(n_iter=10)}

Batch = tuple[Potentials, NDArray[np.int32]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--batches", type=int, default=4, help="different batches a round")
    parser.add_argument("--tags", type=int, nargs="+", default=N_TAGS, metavar="T")
    parser.add_argument(
        "--sorted", action="store_true", help="batches of like lengths, the best case for padding"
    )
    add_size_options(parser)
    args = parser.parse_args()
    kernels.set_threads(args.threads)
    if args.lengths:
        measure_sizes(args)
        return
    if args.device != "cpu" or args.threads != 1:
        parser.error("--device and --threads are for --lengths")
    drawn, source = sentence_lengths(args.corpora)
    rows: list[dict[str, object]] = []
    for n_tags in args.tags:
        batches = draw_batches(drawn, n_tags, args.batches, args.sorted)
        rows += measure(n_tags, batches, args.rounds)
    notes = (
        f"{describe_machine(['numpy', 'torch', 'pytorch-crf'])}\n{source}; {args.batches} batches "
        f"of {BATCH_SIZE} sentences{', sorted by length' if args.sorted else ''}; us/token, "
        f"fastest of {args.rounds} interleaved rounds\n"
        f"pytorch-crf: best of {TORCH_THREADS} threads, padding not timed; ours: 1 thread\n"
        "x: times faster than pytorch-crf; decode: Viterbi, but for BCRF(10) by marginals"
    )
    print_table("Heads", rows, notes, args.csv)


def draw_batches(
    lengths: NDArray[np.int32], n_tags: int, n_batches: int, by_length: bool
) -> list[Batch]:
    """Potentials and gold of sentences with the lengths that a corpus has."""
    rng = np.random.default_rng(0)
    drawn = rng.choice(lengths, (n_batches, BATCH_SIZE))
    if by_length:
        drawn = np.sort(drawn, axis=None).reshape(drawn.shape)
    batches = []
    for batch in drawn:
        n_tokens = batch.sum()
        unary = 2 * rng.standard_normal((n_tokens, n_tags), dtype="float32")
        transitions = rng.standard_normal((n_tags, n_tags), dtype="float32")
        gold = rng.integers(n_tags, size=n_tokens, dtype="int32")
        batches.append((Potentials(unary, transitions, batch), gold))
    return batches


def measure(n_tags: int, batches: list[Batch], rounds: int) -> list[dict[str, object]]:
    """A row for each contender."""
    theirs = [PytorchCRF(potentials, gold) for potentials, gold in batches]
    check_agreement(batches[0], theirs[0])
    tasks: dict[str, dict[str, Callable[[], object]]] = {"loss+gradient": {}, "decode": {}}
    for name, inference in OURS.items():
        tasks["loss+gradient"][name] = partial(lose_all, inference, batches)
        tasks["decode"][name] = partial(decode_all, inference, batches)
    for n_threads in TORCH_THREADS:
        name = f"pytorch-crf {n_threads}"
        tasks["loss+gradient"][name] = partial(run_all, theirs, "loss", n_threads)
        tasks["decode"][name] = partial(run_all, theirs, "decode", n_threads)
    n_tokens = sum(len(gold) for _, gold in batches)
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
    return list(rows.values())


def lose_all(inference: Inference, batches: list[Batch]) -> None:
    for potentials, gold in batches:
        inference.loss(potentials, gold)


def decode_all(inference: Inference, batches: list[Batch]) -> None:
    for potentials, _ in batches:
        inference.decode(potentials)


def run_all(batches: list[PytorchCRF], method: str, n_threads: int) -> None:
    import torch

    torch.set_num_threads(n_threads)
    for batch in batches:
        getattr(batch, method)()


def check_agreement(batch: Batch, theirs: PytorchCRF) -> None:
    """Nothing is worth timing that does not compute the same."""
    potentials, gold = batch
    losses, gradient = CRF().loss(potentials, gold)
    np.testing.assert_allclose(losses.sum(), theirs.loss(), rtol=1e-4)
    d_transitions = theirs.crf.transitions.grad.numpy()
    np.testing.assert_allclose(gradient.transitions, d_transitions, atol=1e-2)
    paths = np.concatenate(theirs.decode())
    agreement = (paths == CRF().decode(potentials)).mean()
    assert agreement > 0.999, f"Viterbi agrees with pytorch-crf's in only {agreement:.1%} of tags"


if __name__ == "__main__":
    main()
