"""Wrong calls of each kernel and of the functions of `chain`. Run as a script.

It prints how many calls it made. It exits with an error if one does not raise ValueError or
TypeError naming the argument. A crash ends the process, so a test runs the script in a process of
its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bcrf import chain, kernels
from bcrf.chain import Potentials
from bcrf.kernels import BregmanOptions

T, LENGTHS = 3, np.array([3, 0, 2], dtype="int32")
N = int(LENGTHS.sum())
COUNTS = (0, -1, -(2**31), 2**31, 2**63, 1.5, None, "2")
Arguments = dict[str, Any]


def valid_calls() -> Iterator[tuple[Callable[..., Any], Arguments]]:
    """Each kernel with valid arguments, for both dtypes and both forms of transitions."""
    rng = np.random.default_rng(0)
    tags = rng.integers(T, size=(2, N)).astype("int32")
    for dtype in "float32", "float64":
        for shape in (T, T), (N, T, T):
            batch: Arguments = {
                "unary": rng.normal(size=(N, T)).astype(dtype),
                "transitions": rng.normal(size=shape).astype(dtype),
                "lengths": LENGTHS,
            }
            edges = "sum" if len(shape) == 2 else "each"
            yield kernels.sum_product, {**batch, "edges": edges}
            yield kernels.max_product, batch
            yield kernels.entropy, batch
            yield kernels.pair_marginals, {**batch, "heads": tags[0, :4], "tails": tags[1, :4]}
            yield kernels.sample, {**batch, "uniform": rng.random((2, N))}
            yield kernels.nbest, {**batch, "n": 2}
            yield kernels.beam_search, {**batch, "n": 2, "width": 3}
            yield kernels.dijkstra, batch
            yield kernels.path_scores, {**batch, "tags": tags[0]}
            yield kernels.bregman, {**batch, "options": BregmanOptions(3, None, None)}
            yield kernels.mean_field, {**batch, "n_iter": 2}
            yield kernels.mean_field_loss, {**batch, "gold": tags[0], "n_iter": 2}
            yield (
                kernels.add_features,
                {
                    "tags": tags,
                    "weights": rng.normal(size=(3, 2)).astype(dtype),
                    "lengths": LENGTHS,
                    "node": batch["unary"].copy(),
                    "edge": batch["transitions"].copy(),
                },
            )
        yield kernels.gram_matrices, {"tags": tags, "lengths": LENGTHS, "n_tags": T, "shared": True}
        yield kernels.hildreth, {"gains": np.ones((2, 3)), "gram": np.ones((2, 3, 3)), "most": 1.0}


def wrong_values(name: str, value: Any) -> Iterator[Any]:
    """Wrong values of one argument of a kernel."""
    if isinstance(value, np.ndarray):
        yield from (None, value.tolist(), value[..., :-1], value[None], value[..., 0])
        yield np.concatenate([value, value], axis=-1)[..., ::2]  # not contiguous
        yield value.astype(value.dtype.newbyteorder())
        for dtype in "int64", "float16", "complex128", "object", "bool":
            yield value.astype(dtype)
        if value.ndim > 1:
            yield np.asfortranarray(value)
            yield value.swapaxes(-1, -2)
    if name in ("heads", "tails", "tags", "gold"):
        for tag in T, -2, 2**30, -(2**31):
            changed = value.copy()
            changed.flat[-1] = tag
            yield changed
    if name == "lengths":
        for lengths in (
            *([3, 0, 3], [6, 0, -1], [5, 3_000_000, 2], [2**31 - 1] * 3, [-(2**31), 5, 2]),
            *([2**31 - 1, 2**31 - 1, N + 2], [3, 0, 2, 1]),
        ):
            yield np.array(lengths, dtype="int32")
    if name in ("node", "edge"):
        read_only = value.copy()
        read_only.flags.writeable = False
        yield read_only
    if name in ("n", "width", "n_iter", "n_tags"):
        yield from COUNTS
    if name == "n_tags":
        yield 1  # there are larger tags
    if name == "edges":
        yield from ("all", None, 1, ["sum"])
    if name == "most":
        yield from (-1.0, float("nan"), float("inf"))
    if name == "options":
        for field, wrong in {
            "n_iter": COUNTS,
            "relaxation": (0.9, 2.0, float("nan")),
            "tolerance": (-1.0, float("nan")),
            "bound": ("middle", None),
            "unary": ("middle", None),
            "scale": (0.0, -1.0, float("inf"), float("nan")),
        }.items():
            for one in wrong:
                yield value._replace(**{field: one})


def kernel_attacks() -> Iterator[tuple[str, Callable[[], Any]]]:
    for kernel, arguments in valid_calls():
        kernel(**arguments)
        for name, value in arguments.items():
            for wrong in wrong_values(name, value):
                if isinstance(value, np.ndarray) and isinstance(wrong, np.ndarray):
                    same = wrong.shape == value.shape and wrong.dtype == value.dtype
                    if same and wrong.flags.c_contiguous and np.array_equal(wrong, value):
                        continue  # one axis of length 1
                changed = {**arguments, name: wrong}
                yield f"{kernel.__name__}({name}={wrong!r})", lambda k=kernel, a=changed: k(**a)


def chain_attacks() -> Iterator[tuple[str, Callable[[], Any]]]:
    unary, transitions = np.zeros((N, T), "float32"), np.zeros((T, T), "float32")
    for dtype in "int64", "uint8", "int16", "float32", "complex128", "bool", "object":
        lengths = LENGTHS.astype(dtype)
        yield f"lengths of {dtype}", lambda x=lengths: Potentials(unary, transitions, x)
    yield "fractions", lambda: Potentials(unary, transitions, np.array([2.9, 2.9]))
    for dtype in "complex64", "int32", "object", "bool", "longdouble":
        for arrays in (unary.astype(dtype), transitions), (unary, transitions.astype(dtype)):
            yield f"scores of {dtype}", lambda a=arrays: Potentials(*a, LENGTHS)
    for bad in [3, 3, -1], [5, 3_000_000, 2], [2**31 - 1] * 3:
        lengths = np.array(bad, dtype="int32")
        yield f"lengths {bad}", lambda x=lengths: Potentials(unary, transitions, x)
    potentials = Potentials(unary, transitions, LENGTHS)
    for gold in (
        *(np.full(N, T), np.full(N, -2), np.zeros(N - 1, int), np.zeros(N), np.zeros((N, T))),
        *(np.zeros((N, T + 1), bool), np.zeros((N, T), bool), [0] * N, None),
    ):
        for inference in chain.CRF(), chain.BCRF(), chain.MeanField(), chain.SAPO():
            yield f"gold {gold!r}", lambda i=inference, g=gold: i.loss(potentials, g)
    for n in COUNTS[:3]:
        yield f"nbest {n}", lambda n=n: chain.nbest(potentials, n)
        yield f"sample {n}", lambda n=n: chain.sample(potentials, n, np.random.default_rng(0))
        yield f"BCRF {n}", lambda n=n: chain.BCRF(n)
        yield f"MeanField {n}", lambda n=n: chain.MeanField(n)


def main() -> None:
    n = 0
    for attacks in kernel_attacks, chain_attacks:
        for name, call in attacks():
            n += 1
            try:
                call()
            except (ValueError, TypeError) as error:
                if not str(error):
                    sys.exit(f"{name}: the error has no message")
            else:
                sys.exit(f"{name}: no error")
    print(n)


if __name__ == "__main__":
    main()
