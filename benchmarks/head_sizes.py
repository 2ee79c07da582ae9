"""Heads by number of tags, length of sequences and size of batch: `heads.py --lengths ...`."""

import argparse
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import describe_machine, interleave, print_table
from benchmarks.torch_heads import PlainBCRF, PlainCRF, PytorchCRF, TorchHead, TorchStruct
from spacy_bcrf.chain import BCRF, CRF, Inference, MeanField, Potentials

OURS: dict[str, Inference] = {"CRF": CRF(), "BCRF(10)": BCRF(10), "MF(10)": MeanField(10)}
THEIRS: dict[str, type[TorchHead]] = {
    "pytorch-crf": PytorchCRF,
    "torch-struct": TorchStruct,
    "plain CRF": PlainCRF,
    "plain BCRF(10)": PlainBCRF,
}
Task = dict[str, Callable[[], object]]


def add_size_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--lengths", type=int, nargs="+", metavar="L", help="sequences of one length, over 1"
    )
    parser.add_argument("--batch", type=int, nargs="+", default=[64], metavar="B")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=int, default=1, help="of ours and of PyTorch, on a CPU")
    parser.add_argument(
        "--seconds",
        type=float,
        default=20,
        help="for a task of one size; fewer rounds if it is over",
    )


def measure_sizes(args: argparse.Namespace) -> None:
    import torch

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
        f"us/token, fastest of up to {args.rounds} interleaved rounds; "
        "x: times faster than plain CRF\n"
        f"-: left out, since it takes over {room / 2**30:.0f} GiB, half of what is free"
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
    """A row for each head."""
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
    rng = np.random.default_rng(0)
    unary = 2 * rng.standard_normal((length * batch, n_tags), dtype="float32")
    transitions = rng.standard_normal((n_tags, n_tags), dtype="float32")
    gold = rng.integers(n_tags, size=length * batch, dtype="int32")
    return Potentials(unary, transitions, np.full(batch, length, "int32")), gold


def to_device(potentials: Potentials, gold: Any, device: str) -> tuple[Potentials, Any]:
    if device == "cpu":
        return potentials, gold
    import cupy

    arrays = potentials.unary, potentials.transitions, potentials.lengths
    return Potentials(*map(cupy.asarray, arrays)), cupy.asarray(gold)


def decode(inference: Inference, potentials: Potentials) -> NDArray[np.int32]:
    return to_host(inference.decode(potentials))


def time_within(budget: float, contenders: Task, rounds: int, device: str) -> dict[str, float]:
    """`interleave` with as many rounds as fit in the seconds, at least one."""
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
    import torch

    run()
    torch.cuda.synchronize()


def free_memory(device: str) -> int:
    if device == "cuda":
        import torch

        return torch.cuda.mem_get_info()[0]
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check(n_tags: int, device: str, missing: Mapping[str, str]) -> None:
    """Nothing is worth timing that does not compute the same."""
    potentials, gold = draw(n_tags, 6, 5)
    plainly: dict[str, Inference] = {"plain BCRF(10)": BCRF(10, relaxation=1.0)}
    for name, head in THEIRS.items():
        if name in missing:
            continue
        inference = plainly.get(name, CRF())
        theirs = head(potentials, gold, device)
        losses, gradient = inference.loss(*to_device(potentials, gold, device))
        np.testing.assert_allclose(theirs.loss(), float(losses.sum()), rtol=1e-4, err_msg=name)
        ours = to_host(gradient.transitions)
        np.testing.assert_allclose(to_host(theirs.transitions.grad), ours, atol=1e-3, err_msg=name)
        tags = theirs.decode()
        tags = np.concatenate(tags) if isinstance(tags, list) else tags
        found = decode(inference, to_device(potentials, gold, device)[0])
        assert (tags == found).mean() > 0.9, f"{name}: other tags with T = {n_tags}"


def to_host(array: Any) -> NDArray:
    """Of NumPy, CuPy or PyTorch."""
    if hasattr(array, "get"):
        return array.get()
    return np.asarray(array.cpu() if hasattr(array, "cpu") else array)
