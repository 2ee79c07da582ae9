"""Heads by number of tags, sequence length and batch size: `benchmarks.heads --lengths ...`."""

import argparse
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bcrf.chain import BCRF, CRF, Inference, MeanField, Potentials
from benchmarks.inputs import random_potentials
from benchmarks.timing import interleave
from benchmarks.torch_heads import (
    PlainBCRF,
    PlainCRF,
    PytorchCRF,
    TorchHead,
    TorchStruct,
    check_agreement,
    to_host,
)
from lab.machine import describe_machine
from lab.options import need
from lab.tables import print_table

OURS: dict[str, Inference] = {"CRF": CRF(), "BCRF(10)": BCRF(10), "MF(10)": MeanField(10)}
THEIRS: dict[str, type[TorchHead]] = {
    "pytorch-crf": PytorchCRF,
    "torch-struct": TorchStruct,
    "plain CRF": PlainCRF,
    "plain BCRF(10)": PlainBCRF,
}
# The inference of each PyTorch head that is not a CRF. Algorithm 1 has no over-relaxation.
COMPUTED: dict[str, Inference] = {"plain BCRF(10)": BCRF(10, relaxation=1.0)}
Task = dict[str, Callable[[], object]]


def add_size_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `measure_sizes`."""
    parser.add_argument(
        "--lengths", type=int, nargs="+", metavar="L", help="sequence lengths, from 2"
    )
    parser.add_argument("--batch", type=int, nargs="+", default=[64], metavar="B")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=int, default=1, help="on a CPU, ours and PyTorch's")
    parser.add_argument(
        "--seconds",
        type=float,
        default=20,
        help="time for one task and size; limits the rounds",
    )


def measure_sizes(args: argparse.Namespace) -> None:
    """Time all heads at all sizes and print the table."""
    torch = need("torch")

    if args.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("--device cuda: PyTorch finds no GPU")
    torch.set_num_threads(args.threads)
    room = free_memory(args.device) // 2
    missing = {name: why for name, head in THEIRS.items() if (why := head.why_not())}
    rows: list[dict[str, object]] = []
    for n_tags in args.tags:
        check(n_tags, args.device, missing)
        for length, batch in product(args.lengths, args.batch):
            rows += measure_size(n_tags, length, batch, args, room, missing)
    where = torch.cuda.get_device_name() if args.device == "cuda" else f"threads: {args.threads}"
    notes = (
        f"{describe_machine(['numpy', 'torch', 'pytorch-crf'])}; {where}\n"
        f"us/token, median of up to {args.rounds} interleaved rounds; "
        "x: times faster than plain CRF\n"
        f"-: left out, needs more than {room / 2**30:.0f} GiB, half of the free memory"
        + "".join(f"\n{name}: left out: {why}" for name, why in missing.items())
    )
    print_table("Heads by size", rows, notes, args.csv)


def measure_size(
    n_tags: int,
    length: int,
    batch: int,
    args: argparse.Namespace,
    room: int,
    missing: Mapping[str, str],
) -> list[dict[str, object]]:
    """Return a row for each head."""
    n_tokens = length * batch
    size = {"T": n_tags, "length": length, "batch": batch}
    ours_fit = 4 * n_tokens * n_tags * 16 < room
    fit = [head for head in THEIRS if THEIRS[head].memory(n_tokens, n_tags) < room and ours_fit]
    tasks: dict[str, Task] = {"loss+gradient": {}, "decode": {}}
    if ours_fit:
        potentials, gold = draw(n_tags, length, batch)
        for name in fit:
            if name not in missing:
                head = THEIRS[name](potentials, gold, args.device)
                tasks["loss+gradient"][name] = head.loss
                tasks["decode"][name] = head.decode
        potentials, gold = to_device(potentials, gold, args.device)
        for name, inference in OURS.items():
            tasks["loss+gradient"][name] = partial(inference.loss, potentials, gold)
            tasks["decode"][name] = partial(decode, inference, potentials)
    rows = {name: {"head": name, **size} for name in (*THEIRS, *OURS) if name not in missing}
    for task, contenders in tasks.items():
        seconds = time_within(args.seconds, contenders, args.rounds, args.device)
        for name, row in rows.items():
            row[task] = f"{seconds[name] / n_tokens * 1e6:.2f}" if name in seconds else "-"
            known = name in seconds and "plain CRF" in seconds
            row[f"x {task}"] = f"{seconds['plain CRF'] / seconds[name]:.1f}" if known else "-"
    return list(rows.values())


def draw(n_tags: int, length: int, batch: int) -> tuple[Potentials, NDArray[np.int32]]:
    """Draw potentials and gold tags."""
    rng = np.random.default_rng(0)
    potentials = random_potentials(n_tags, np.full(batch, length, "int32"), rng)
    return potentials, rng.integers(n_tags, size=length * batch, dtype="int32")


def to_device(potentials: Potentials, gold: Any, device: str) -> tuple[Potentials, Any]:
    """Copy potentials and gold tags to the device."""
    if device == "cpu":
        return potentials, gold
    cupy = need("cupy", "cuda12x")

    arrays = potentials.arrays
    return Potentials(*map(cupy.asarray, arrays)), cupy.asarray(gold)


def decode(inference: Inference, potentials: Potentials) -> NDArray[np.int32]:
    """Decode and copy the tags to the host."""
    return to_host(inference.decode(potentials))


def time_within(budget: float, contenders: Task, rounds: int, device: str) -> dict[str, float]:
    """Call `interleave` with as many rounds as fit into the budget in seconds, at least one."""
    if not contenders:
        return {}
    if device == "cuda":
        contenders = {name: partial(synchronized, run) for name, run in contenders.items()}
    start = time.perf_counter()
    for run in contenders.values():
        run()
    once = time.perf_counter() - start
    return interleave(contenders, max(1, min(rounds, int(budget / once))))


def synchronized(run: Callable[[], object]) -> None:
    """Call `run` and wait for the GPU."""
    torch = need("torch")

    run()
    torch.cuda.synchronize()


def free_memory(device: str) -> int:
    """Return the free bytes of the device."""
    if device == "cuda":
        torch = need("torch")

        return torch.cuda.mem_get_info()[0]
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check(n_tags: int, device: str, missing: Mapping[str, str]) -> None:
    """Check that each PyTorch head agrees with its counterpart in `chain`."""
    potentials, gold = draw(n_tags, 6, 5)
    for name, head in THEIRS.items():
        if name not in missing:
            theirs = head(potentials, gold, device)
            inference = COMPUTED.get(name, CRF())
            # Marginals have ties, which decoding may break in another way.
            check_agreement(theirs, inference, *to_device(potentials, gold, device), least=0.9)
