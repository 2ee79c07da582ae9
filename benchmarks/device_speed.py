"""Speed on a GPU: calls of losses, `bcrf.torch` against pytorch-crf, and pipelines.

    python -m benchmarks.device_speed calls torch pipelines

--device cpu runs the same without a GPU, and without a CUDA graph.
"""

import argparse
import time
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
import spacy
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example
from thinc.api import Optimizer

from bcrf.chain import BCRF, CRF, Inference, MeanField, Potentials
from benchmarks.inputs import NETWORK, random_potentials
from benchmarks.scaling import array_library, waited
from benchmarks.timing import interleave
from lab.machine import describe_machine
from lab.options import add_csv_option, need
from lab.tables import print_table

HEADS: dict[str, Inference] = {"CRF": CRF(), "BCRF": BCRF(10), "mean field": MeanField(10)}
SIZES = [(64, 30, 17), (64, 30, 69), (64, 200, 17), (512, 100, 50), (64, 30, 500), (4096, 30, 17)]
"""Sequences, tokens of each, and tags."""
TORCH_SIZES = [
    (64, 30, 9),
    (64, 30, 17),
    (64, 200, 17),
    (512, 30, 17),
    (64, 30, 50),
    (512, 100, 50),
]
WORDS, DOC = 60_000, 25
"""Words of the texts of a pipeline, and of each document."""
COMPONENTS = {
    "spaCy ner": ("", ""),
    "CRF": ("CRF", "spacy.HashEmbedCNN.v2"),
    "BCRF": ("BCRF", "spacy.HashEmbedCNN.v2"),
    "CRF, our CNN": ("CRF", "spacy-bcrf.HashEmbedCNN.v1"),
}
"""Head and encoder of each component; spaCy's own has neither."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="+", choices=PARTS)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--rounds", type=int, default=20)
    add_csv_option(parser)
    args = parser.parse_args()
    notes = f"{describe_machine(['numpy', 'cupy-cuda12x', 'torch', 'spacy'])}\n"
    notes += f"medians of {args.rounds} rounds; a batch is sequences x tokens x tags; times in us"
    for part in args.parts:
        print_table(part, PARTS[part](args.device, args.rounds), notes, args.csv)


def time_calls(device: str, rounds: int) -> list[dict[str, object]]:
    """Return a row for each head and size: a loss until the device is done, and Python's part."""
    xp, wait = array_library(device)
    rows: list[dict[str, object]] = []
    for size, length, tags in SIZES:
        rng = np.random.default_rng(0)
        drawn = random_potentials(tags, np.full(size, length, "int32"), rng)
        potentials = Potentials(*map(xp.asarray, drawn.arrays))
        gold = xp.asarray(rng.integers(tags, size=size * length, dtype="int32"))
        runs: dict[str, Callable[[], object]] = {
            name: partial(head.loss, potentials, gold) for name, head in HEADS.items()
        }
        runs["mean field, marginals"] = partial(HEADS["mean field"].marginals, potentials)
        calls = interleave({name: partial(waited, run, wait) for name, run in runs.items()}, rounds)
        for name, run in runs.items():
            wait()
            start = time.perf_counter()
            for _ in range(rounds):
                run()
            python = (time.perf_counter() - start) / rounds
            row: dict[str, object] = {"head": name, "batch": f"{size} x {length} x {tags}"}
            row |= {"call": f"{1e6 * calls[name]:,.0f}", "Python": f"{1e6 * python:,.0f}"}
            graph = replay(xp, run, rounds) if device == "cuda" else ""
            rows.append(row | {"graph": graph, "tokens/s": f"{size * length / calls[name]:,.0f}"})
    return rows


def replay(cupy: Any, run: Callable[[], object], rounds: int) -> str:
    """Return the time of a replay of the call's launches, empty if a graph cannot capture them."""
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream, suppress(cupy.cuda.runtime.CUDARuntimeError, RuntimeError):
        run()
        stream.begin_capture()
        try:
            run()
        finally:
            graph = stream.end_capture()
        graph.launch(stream)
        stream.synchronize()
        start = time.perf_counter()
        for _ in range(rounds):
            graph.launch(stream)
        stream.synchronize()
        return f"{1e6 * (time.perf_counter() - start) / rounds:,.0f}"
    return ""


def time_torch(device: str, rounds: int) -> list[dict[str, object]]:
    """Return a row for each size: a training step and decoding, and how often pytorch-crf's."""
    torch, theirs = need("torch"), need("torchcrf")
    from bcrf import torch as ours

    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    rows: list[dict[str, object]] = []
    for size, length, tags in TORCH_SIZES:
        torch.manual_seed(0)
        of = {"pytorch-crf": theirs.CRF(tags, batch_first=True)}
        of |= {"CRF": ours.CRF(tags, batch_first=True), "BCRF": ours.BCRF(tags, batch_first=True)}
        x = torch.randn(size, length, tags, device=device, requires_grad=True)
        gold = torch.randint(tags, (size, length), device=device)
        mask = torch.arange(length, device=device) < torch.randint(
            1, length + 1, (size, 1), device=device
        )

        def step(head: Any, x: Any = x, gold: Any = gold, mask: Any = mask) -> None:
            x.grad = None
            head.zero_grad()
            (-head(x, gold, mask)).backward()

        runs: dict[str, Callable[[], object]] = {}
        for name, head in of.items():
            runs[f"{name} step"] = partial(waited, partial(step, head.to(device)), wait)
            if name != "BCRF":
                runs[f"{name} decode"] = partial(waited, partial(head.decode, x, mask), wait)
        seconds = interleave(runs, rounds)
        row: dict[str, object] = {"batch": f"{size} x {length} x {tags}"}
        row |= {name: f"{1e6 * each:,.0f}" for name, each in seconds.items()}
        for task in "step", "decode":
            ratio = seconds[f"pytorch-crf {task}"] / seconds[f"CRF {task}"]
            row[f"x {task}"] = f"{ratio:.1f}"
        rows.append(row)
    return rows


def time_pipelines(device: str, rounds: int) -> list[dict[str, object]]:
    """Return a row for each component: thousand words a second in training and prediction.

    The rounds of all components take turns: a process with many objects is slower.
    """
    if device == "cuda":
        spacy.require_gpu()
    _, wait = array_library(device)
    words = [f"w{n}" for n in np.random.default_rng(0).zipf(1.3, WORDS) % 20_000]
    texts = [words[i : i + DOC] for i in range(0, len(words), DOC)]
    runs: dict[tuple[str, str], Callable[[], object]] = {}
    for title, (head, encoder) in COMPONENTS.items():
        nlp = spacy.blank("en")
        config: dict[str, Any] = {"model": deepcopy(NETWORK)} if head else {}
        if head:
            config["model"]["head"]["@layers"] = f"spacy-bcrf.{head}.v1"
            config["model"]["tok2vec"]["@architectures"] = encoder
        pipe: Any = nlp.add_pipe("bcrf_ner" if head else "ner", config=config)
        for label in ("PER", "LOC", "ORG", "MISC"):
            pipe.add_label(label)
        train = partial(update_all, nlp, nlp.initialize(), [example_of(nlp, t) for t in texts])
        runs[title, "train"] = partial(waited, train, wait)
        runs[title, "predict"] = partial(waited, partial(annotate_all, nlp, texts), wait)
    seconds = interleave(runs, min(rounds, 5))
    return [
        {
            "component": title,
            "network": encoder,
            **{
                part: f"{WORDS / seconds[title, part] / 1000:,.0f}" for part in ("train", "predict")
            },
        }
        for title, (_, encoder) in COMPONENTS.items()
    ]


def update_all(nlp: Language, optimizer: Optimizer, examples: list[Example]) -> None:
    for i in range(0, len(examples), 128):
        nlp.update(examples[i : i + 128], sgd=optimizer)


def annotate_all(nlp: Language, texts: list[list[str]]) -> None:
    list(nlp.pipe([Doc(nlp.vocab, words=text) for text in texts], batch_size=1024))


def example_of(nlp: Any, words: list[str]) -> Example:
    """Return a document with two entities, or none if it is short."""
    gold = Doc(nlp.vocab, words=words)
    if len(words) >= 10:
        gold.ents = [Span(gold, 2, 4, "PER"), Span(gold, 9, 10, "LOC")]
    return Example(Doc(nlp.vocab, words=words), gold)


PARTS = {"calls": time_calls, "torch": time_torch, "pipelines": time_pipelines}

if __name__ == "__main__":
    main()
