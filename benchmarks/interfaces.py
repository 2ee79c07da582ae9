"""`bcrf.torch` against pytorch-crf, torch-struct and TorchCRF, on one thread.

    python -m benchmarks.interfaces [--corpora DIR] [--rounds N] [--tags T ...] [--batches B ...]

Loss and its gradients, and decoding, of float32 batches with the lengths of English sentences.
"""

import argparse
import math
import warnings
from collections.abc import Callable
from functools import partial
from time import perf_counter, process_time
from typing import Any

import numpy as np

from bcrf import kernels
from bcrf.chain import CRF, Potentials
from benchmarks.inputs import random_potentials, sentence_lengths
from benchmarks.timing import interleave
from benchmarks.torch_heads import Differentiated, PytorchCRF, TorchHead, TorchStruct
from lab.machine import describe_machine
from lab.options import add_options, need
from lab.processes import use_one_thread
from lab.tables import Row, print_table

TAGS = (9, 17, 37, 69)
BATCHES = (8, 64, 512)
LONGEST = 60
"""Longer sentences are cut, because torch-struct computes all at the greatest length. It needs two
tokens in each."""
MOST_BYTES = 1_000_000_000
OVERHEAD = (64, 30, 17)
BLOCK, BLOCKS = 20, 150
"""Calls in a row, and how often."""


class Module(PytorchCRF):
    """Our module, which has pytorch-crf's interface."""

    def __init__(self, potentials: Potentials, gold: Any, device: str = "cpu") -> None:
        from bcrf.torch import CRF

        super().__init__(potentials, gold, device)
        saved, self.crf = self.crf.state_dict(), CRF(self.crf.num_tags)
        self.crf.load_state_dict(saved)
        self.transitions = self.crf.transitions


class TorchCRF(Differentiated):
    """TorchCRF, with arrays in its layout (B, L, T)."""

    def __init__(self, potentials: Potentials, gold: Any, device: str = "cpu") -> None:
        torch = need("torch")

        CRF = need("TorchCRF").CRF
        super().__init__(potentials, gold, device)
        self.crf: Any = CRF(self.unary.shape[2], use_gpu=False)
        with torch.no_grad():
            self.crf.trans_matrix.copy_(self.transitions)
            self.crf.start_trans.zero_()
            self.crf.end_trans.zero_()
        self.transitions = self.crf.trans_matrix

    def _loss(self) -> Any:
        self.crf.start_trans.grad = self.crf.end_trans.grad = None
        return -self.crf(self.unary, self.tags, self.filled).sum()

    def decode(self) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return np.concatenate(self.crf.viterbi_decode(self.unary, self.filled))


PEERS: dict[str, type[TorchHead]] = {
    "pytorch-crf": PytorchCRF,
    "TorchCRF": TorchCRF,
    "torch-struct": TorchStruct,
}


def compare(n_tags: int, lengths: Any, rounds: int, rng: np.random.Generator) -> list[Row]:
    """Return the times of loss and decoding of one batch; nothing of a peer that needs too much."""
    potentials = random_potentials(n_tags, lengths, rng)
    gold = rng.integers(0, n_tags, len(potentials.unary)).astype("int32")
    ours = Module(potentials, gold)
    n_tokens = len(lengths) * int(lengths.max())
    heads = {
        name: peer(potentials, gold)
        for name, peer in PEERS.items()
        if peer.memory(n_tokens, n_tags) < MOST_BYTES
    }
    loss, tags = ours.loss(), ours.decode()
    for name, head in heads.items():
        np.testing.assert_allclose(head.loss(), loss, rtol=1e-4, err_msg=name)
        assert (head.decode() == tags).mean() > 0.999, name
    rows: list[Row] = []
    for what in ("loss", "decode"):
        runs = {name: getattr(head, what) for name, head in {"ours": ours, **heads}.items()}
        seconds = interleave(runs, rounds, process_time)
        ratios = {
            name: seconds[name] / seconds["ours"] if name in seconds else None for name in PEERS
        }
        rows.append(
            {
                "step": "loss, gradient" if what == "loss" else what,
                "tags": n_tags,
                "batch": len(lengths),
                "ours, us": f"{seconds['ours'] * 1e6:,.0f}",
                **{name: f"{x:.0f}x" if x else "-" for name, x in ratios.items()},
            }
        )
    return rows


def least(runs: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the least seconds of one call of each, which other load changes least.

    Blocks of calls alternate, because the clock of the processor changes.
    """
    found = dict.fromkeys(runs, math.inf)
    for _ in range(rounds):
        for name, run in runs.items():
            for _ in range(BLOCK):
                start = perf_counter()
                run()
                found[name] = min(found[name], perf_counter() - start)
    return found


def measure_overhead(rounds: int, rng: np.random.Generator) -> list[Row]:
    """Return the least time of calls of the module, and of the kernels alone, in us."""
    torch = need("torch")

    size, steps, n_tags = OVERHEAD
    lengths = np.full(size, steps, "int32")
    potentials = random_potentials(n_tags, lengths, rng)
    gold = rng.integers(0, n_tags, len(potentials.unary)).astype("int32")
    ours = Module(potentials, gold)
    arrays = potentials.arrays
    minus, mask = torch.tensor(-1.0), ours.mask
    value = ours.crf(ours.unary, ours.gold, mask)

    def backward() -> None:
        ours.unary.grad = ours.transitions.grad = None
        ours.crf.start_transitions.grad = ours.crf.end_transitions.grad = None
        value.backward(minus, retain_graph=True)

    def trivial() -> None:
        ours.unary.grad = ours.transitions.grad = None
        (ours.unary.sum() + ours.transitions.sum()).backward(minus)

    kernel: dict[str, Callable[[], object]] = {
        "loss": partial(kernels.fused_loss, *arrays, gold),
        "decode": partial(kernels.max_product, *arrays),
        "none": lambda: None,
    }
    calls: dict[str, tuple[Callable[[], object], str]] = {
        "loss": (partial(ours.crf, ours.unary, ours.gold, mask), "loss"),
        "its backward": (backward, "none"),
        "loss, gradient": (ours.loss, "loss"),
        "decode": (partial(ours.crf.decode, ours.unary, mask), "decode"),
        "chain.CRF().loss": (partial(CRF().loss, potentials, gold), "loss"),
        "PyTorch's own sum, gradient": (trivial, "none"),
    }
    runs = {f"kernel {name}": run for name, run in kernel.items()}
    runs |= {name: run for name, (run, _) in calls.items()}
    seconds = least(runs, rounds)
    rows: list[Row] = []
    for name, (_, used) in calls.items():
        cells = {"call": seconds[name], "kernel": seconds[f"kernel {used}"]}
        cells["outside"] = cells["call"] - cells["kernel"]
        rows.append({"what": name, **{k: f"{x * 1e6:.0f}" for k, x in cells.items()}})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_options(parser)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tags", type=int, nargs="+", default=TAGS)
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES)
    args = parser.parse_args()
    use_one_thread()
    torch = need("torch")

    torch.set_num_threads(1)
    kernels.set_threads(1)
    rng = np.random.default_rng(0)
    lengths, source = sentence_lengths(args.corpora)
    rows = [
        row
        for n_tags in args.tags
        for size in args.batches
        for row in compare(n_tags, rng.choice(lengths, size).clip(2, LONGEST), args.rounds, rng)
    ]
    machine = describe_machine(["torch", "pytorch-crf", "TorchCRF", "torch-struct"])
    how = f"medians of {args.rounds} rounds, processor time; - needs > 1 GB"
    notes = f"{machine}\n{source}, cut at {LONGEST}; {how}"
    print_table(
        "PyTorch modules: times of ours, and how many times as long others take",
        rows,
        notes,
        args.csv,
    )
    size, steps, n_tags = OVERHEAD
    rows = measure_overhead(BLOCKS, rng)
    calls = f"least of {BLOCKS * BLOCK:,} calls, us"
    notes = f"{machine}\n{calls}: {size} sequences of {steps} tokens, {n_tags} tags"
    print_table("A call of the module, and the kernels alone", rows, notes, args.csv)


if __name__ == "__main__":
    main()
