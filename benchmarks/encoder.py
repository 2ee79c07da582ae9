"""Time of the compiled CNN against spaCy's layers with the same weights, by shape and by part.

    python -m benchmarks.encoder [--corpora DIR] [--threads 1] [--shapes 96,4,3,1 300,8,2,2]

Both run on one thread, unless --threads says otherwise. Times of one thread are processor times.
`of peak` is the share of the processor's multiply-adds, which a loop without memory measures: the
work of plain products alone, without pads. The kernels need two thirds of it, so the share may
exceed 1.
"""

import argparse
import ctypes
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.inputs import sentence_lengths
from benchmarks.timing import clock_of, interleave
from lab.machine import describe_machine
from lab.options import add_options
from lab.tables import print_table

Shape = tuple[int, int, int, int]
"""(width, depth, pieces, window)"""

SHAPES: list[Shape] = [
    (96, 4, 3, 1),
    (64, 4, 3, 1),
    (128, 4, 3, 1),
    (300, 4, 3, 1),
    (96, 1, 3, 1),
    (96, 8, 3, 1),
    (96, 4, 2, 1),
    (96, 4, 3, 2),
    (300, 8, 2, 2),
]

ARCHITECTURES = {"spaCy": "spacy.HashEmbedCNN.v2", "ours": "spacy-bcrf.HashEmbedCNN.v1"}

PEAK = """
#include <chrono>
typedef float Vector __attribute__((vector_size(BYTES)));
extern "C" double flops() {
    Vector sums[12], x = Vector{} + 0.999f, y = Vector{} + 0.1f;
    for (auto& sum : sums) sum = y;
    double best = 0;
    for (int round = 0; round < 20; ++round) {
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < 200000; ++i)
#pragma GCC unroll 12
            for (int j = 0; j < 12; ++j) sums[j] = sums[j] * x + y;
        const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
        const double rate = 200000.0 * 12 * 2 * (BYTES / 4) / seconds.count();
        best = rate > best ? rate : best;
    }
    float total = 0;
    for (auto& sum : sums) total += sum[0];
    return total > 0 ? best : 0;
}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--shapes",
        nargs="+",
        type=parse_shape,
        default=SHAPES,
        metavar="WIDTH,DEPTH,PIECES,WINDOW",
        help="the shapes to measure (default: all of the docs' table)",
    )
    parser.add_argument("--documents", type=int, default=1024, help="number of documents")
    args = parser.parse_args()
    # Thinc's products read these when NumPy and BLIS are imported.
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS"):
        os.environ[variable] = str(args.threads)
    from bcrf import kernels

    kernels.set_threads(args.threads)
    docs, words, source = make_docs(args.corpora, args.documents)
    rows: list[dict[str, Any]] = []
    clock = clock_of(args.threads)
    # The frequency of the processor changes, so it is measured again and again.
    peaks = [measure_peak()]
    for shape in args.shapes:
        rows += measure_shape(shape, docs, words, args.rounds, clock)
        peaks.append(measure_peak())
    peak = max(peaks) * args.threads
    for row in rows:
        row["of peak"] = f"{row['of peak'] / peak:.2f}" if row["of peak"] else ""
    notes = (
        f"{describe_machine(['numpy', 'thinc', 'spacy'])}\n{source}; {words} words in batches of "
        f"256 documents, dropout 0.1 in training; us/word, median of {args.rounds} interleaved "
        f"rounds; {args.threads} thread(s), {kernels.instruction_set()}, "
        f"peak {peak / 1e9:.0f} GFLOP/s"
    )
    print_table("Encoder", rows, notes, args.csv)


def parse_shape(text: str) -> Shape:
    """Read a shape from the command line. ValueError for other text than four numbers."""
    width, depth, pieces, window = map(int, text.split(","))
    return width, depth, pieces, window


def make_docs(corpora: Path | None, n: int) -> tuple[list[Any], int, str]:
    """Return batches of n documents with the lengths of a corpus and words of Zipf's law."""
    import numpy as np
    from spacy.lang.en import English
    from spacy.tokens import Doc

    lengths, source = sentence_lengths(corpora)
    rng = np.random.default_rng(0)
    vocab = English().vocab
    docs = []
    for length in lengths[lengths > 0][:n].tolist():
        words = [f"w{i}" for i in (rng.zipf(1.3, length) % 20000).tolist()]
        docs.append(Doc(vocab, words=words))
    batches = [docs[i : i + 256] for i in range(0, len(docs), 256)]
    return batches, sum(len(doc) for doc in docs), source


def measure_shape(
    shape: Shape,
    batches: list[Any],
    words: int,
    rounds: int,
    clock: Callable[[], float],
) -> list[dict[str, Any]]:
    """Return the rows of one shape: embedding, encoding and training."""
    from spacy import registry
    from thinc.api import set_dropout_rate

    width, depth, pieces, window = shape
    models = {}
    for name, architecture in ARCHITECTURES.items():
        models[name] = registry.architectures.get(architecture)(
            width=width,
            depth=depth,
            embed_size=2000,
            window_size=window,
            maxout_pieces=pieces,
            subword_features=True,
            pretrained_vectors=None,
        )
        models[name].initialize(X=batches[0][:5])
    models["ours"].from_bytes(models["spaCy"].to_bytes())
    embedded = [models["spaCy"].get_ref("embed").predict(batch) for batch in batches]
    tasks: dict[str, dict[str, Callable[[], object]]] = {}
    for task, part, data in (("embed", "embed", batches), ("encode", "encode", embedded)):
        tasks[task] = {
            name: partial(predict_all, model.get_ref(part), data) for name, model in models.items()
        }
    tasks["predict"] = {
        name: partial(predict_all, model, batches) for name, model in models.items()
    }
    for model in models.values():
        set_dropout_rate(model, 0.1)
    tasks["train"] = {name: partial(train, model, batches[0]) for name, model in models.items()}
    rows: list[dict[str, Any]] = []
    for task, contenders in tasks.items():
        seconds = interleave(contenders, rounds, clock)
        n = sum(len(doc) for doc in batches[0]) if task == "train" else words
        flops = 2 * depth * (2 * window + 1) * width * width * pieces * n / seconds["ours"]
        rows.append(
            {
                "width, depth, pieces, window": ", ".join(map(str, shape)),
                "task": task,
                "spaCy": f"{seconds['spaCy'] / n * 1e6:.2f}",
                "ours": f"{seconds['ours'] / n * 1e6:.2f}",
                "x": f"{seconds['spaCy'] / seconds['ours']:.1f}",
                "of peak": flops if task == "encode" else "",
            }
        )
    return rows


def predict_all(model: Any, batches: list[Any]) -> None:
    for batch in batches:
        model.predict(batch)


def train(model: Any, docs: list[Any]) -> None:
    ys, backprop = model.begin_update(docs)
    backprop(ys)


def measure_peak() -> float:
    """Return the multiply-adds of one core, in FLOP/s, counted as two. 0 without a compiler."""
    from bcrf import kernels

    options = {
        "avx512": ["-mavx512f", "-mfma", "-DBYTES=64"],
        "avx2": ["-mavx2", "-mfma", "-DBYTES=32"],
        "baseline": ["-DBYTES=16"],
    }[kernels.instruction_set()]
    compiler = shutil.which("g++")
    if compiler is None:
        return float("nan")
    with TemporaryDirectory() as folder:
        library = Path(folder) / "peak.so"
        command = [compiler, "-O3", "-std=c++17", "-shared", "-fPIC", *options, "-x", "c++", "-"]
        subprocess.run([*command, "-o", str(library)], input=PEAK, text=True, check=True)
        flops = ctypes.CDLL(str(library)).flops
        flops.restype = ctypes.c_double
        time.sleep(0.1)
        return float(flops())


if __name__ == "__main__":
    main()
