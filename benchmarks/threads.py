"""Several threads against one: losses, decoding, the compiled CNN, whole pipelines.

    python -m benchmarks.threads [--threads 2]

Virtual processors share the cores of a machine with others, so two of them may do the work of 1.2.
Each round therefore measures a task with one thread and with several, and then the machine: matrix
products, one in each of several threads of Python against one after the other. Both ratios are
medians over the rounds. Kernels cannot be expected to exceed the machine's.
"""

import argparse
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bcrf import kernels
from bcrf.kernels import BregmanOptions
from benchmarks.acceleration import make_pipeline, predict, train
from benchmarks.inputs import random_potentials
from benchmarks.timing import time_rounds
from lab.machine import describe_machine
from lab.options import add_csv_option
from lab.processes import in_own_process
from lab.tables import print_table

TAGS = (9, 17, 50)
Ways = tuple[Callable[[], object], Callable[[], object]]
"""The same work in one thread, and in several."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2, metavar="N")
    parser.add_argument("--rounds", type=int, default=41)
    add_csv_option(parser)
    args = parser.parse_args()
    if args.threads < 2:
        parser.error(f"--threads {args.threads}: needs at least 2 threads")
    rows = in_own_process(measure, args.threads, args.rounds)
    notes = (
        f"{describe_machine(['spacy', 'numpy'])}\n"
        f"wall time, medians of {args.rounds} rounds; x: times as fast as with one thread"
    )
    print_table("Threads", rows, notes, args.csv)


def measure(threads: int, rounds: int) -> list[dict[str, object]]:
    """Return a row for each task."""
    machine = products(threads)
    return [
        row_of(name, run, threads, machine, rounds)
        for name, run in (kernel_tasks() | pipeline_tasks()).items()
    ]


def row_of(
    name: str, run: Callable[[], object], threads: int, machine: Ways, rounds: int
) -> dict[str, object]:
    """Time a task with one thread and with several, and the machine."""
    one, several = machine
    ways: dict[str, Callable[[], object]] = {
        "one": partial(with_threads, 1, run),
        "several": partial(with_threads, threads, run),
        "machine, one": one,
        "machine, several": several,
    }
    seconds = {way: np.array(times) for way, times in time_rounds(ways, rounds).items()}
    machine_ratios = seconds["machine, one"] / seconds["machine, several"]
    return {
        "task": name,
        "1 thread, ms": f"{np.median(seconds['one']) * 1e3:.3f}",
        f"{threads} threads, x": f"{np.median(seconds['one'] / seconds['several']):.2f}",
        "machine, x": f"{np.median(machine_ratios):.2f}",
    }


def with_threads(n: int, run: Callable[[], object]) -> None:
    """Call `run` with n threads of the kernels."""
    kernels.set_threads(n)
    run()


def products(threads: int) -> Ways:
    """Return as many matrix products as threads: in one thread, and in a thread each."""
    a = np.ones((256, 256), dtype="float32")
    pool = ThreadPoolExecutor(threads)

    def multiply(_: int) -> NDArray:
        for _ in range(20):
            product = a @ a
        return product

    return (
        lambda: [multiply(i) for i in range(threads)],
        lambda: list(pool.map(multiply, range(threads))),
    )


def kernel_tasks() -> dict[str, Callable[[], object]]:
    """Return the kernels of losses and decoding for 64 sequences of 30 tokens."""
    tasks: dict[str, Callable[[], object]] = {}
    for n_tags in TAGS:
        rng = np.random.default_rng(0)
        potentials = random_potentials(n_tags, np.full(64, 30, dtype="int32"), rng)
        batch = potentials.arrays
        gold = rng.integers(n_tags, size=len(potentials.unary), dtype="int32")
        options = BregmanOptions(10, 1.25, None)
        tasks[f"CRF marginals, {n_tags} tags"] = partial(kernels.sum_product, *batch, edges="sum")
        tasks[f"CRF loss, {n_tags} tags"] = partial(kernels.fused_loss, *batch, gold)
        tasks[f"BCRF loss, {n_tags} tags"] = partial(kernels.fused_loss, *batch, gold, options)
        tasks[f"Viterbi, {n_tags} tags"] = partial(kernels.max_product, *batch)
    return tasks


def pipeline_tasks() -> dict[str, Callable[[], object]]:
    """Return prediction and training of our components, and prediction of the CNN alone."""
    tasks: dict[str, Callable[[], object]] = {}
    for component in ("bcrf_ner", "bcrf_tagger"):
        nlp, examples = make_pipeline(component, False)
        if component == "bcrf_ner":
            docs = [example.predicted for example in examples]
            cnn = nlp.get_pipe(component).model.get_ref("tok2vec")
            tasks["CNN: prediction"] = partial(predict_cnn, cnn, docs)
        tasks[f"{component}: prediction"] = partial(predict, nlp, examples)
        tasks[f"{component}: training"] = partial(
            train, nlp, nlp.create_optimizer(), examples[:200]
        )
    return tasks


def predict_cnn(cnn: Any, docs: list[Any]) -> None:
    for i in range(0, len(docs), 256):
        cnn.predict(docs[i : i + 256])


if __name__ == "__main__":
    main()
