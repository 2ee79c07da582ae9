"""The experiments of the SAPO paper (Sun, Ma, Zhang and Ren): one task, all methods, pass by pass.

    python -m experiments.sapo.run chunking --corpora DIR --output metrics/sapo/chunking.csv

The file has a row for each pass: what is predicted after it, how large the weights are and how long
it took. It is written after each method; what is there already is not done again.
"""

from __future__ import annotations

import argparse
import csv
import io
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from tqdm import tqdm

from experiments.sapo import bilstm
from experiments.sapo.dataset import Dataset
from experiments.sapo.evaluate import span_f
from experiments.sapo.tasks import TASKS, Task
from spacy_bcrf.chain import viterbi
from spacy_bcrf.io.atomic import write_text
from spacy_bcrf.io.extras import require
from spacy_bcrf.sparse.learner import OnlineLearner, OnlineSettings
from spacy_bcrf.sparse.template_sets import get_templates

COLUMNS = ("task", "method", "seed", "pass", "score", "complexity", "seconds", "settings")
Row = dict[str, str]


def methods(task: Task) -> dict[str, OnlineSettings]:
    """CRF and SAPO with the same lambda and rate, as in the paper; n = 5."""
    gradient = OnlineSettings("crf", averaged=False, rate=task.rate, decay=task.decay, l2=task.l2)
    perceptron = OnlineSettings("perceptron", averaged=False, rate=1)
    mira = OnlineSettings("mira", n=1, averaged=False)
    return {
        "CRF": gradient,
        "SAPO": replace(gradient, objective="sapo"),
        "perceptron": perceptron,
        "averaged perceptron": replace(perceptron, averaged=True),
        "MIRA": mira,
        "averaged MIRA": replace(mira, averaged=True),
        "n-best MIRA": replace(mira, n=5),
        "averaged n-best MIRA": replace(mira, n=5, averaged=True),
        # Not in the paper: what averaging does for the others, it does for these.
        "averaged CRF": replace(gradient, averaged=True),
        "averaged SAPO": replace(gradient, objective="sapo", averaged=True),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--corpora", type=Path, required=True, metavar="DIR")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE.csv")
    parser.add_argument("--passes", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=3, help="orders of the sentences")
    parser.add_argument("--methods", nargs="*", help="only these")
    parser.add_argument(
        "--decay", type=float, help="of the rate of CRF and SAPO; 0 for a fixed one"
    )
    parser.add_argument("--bilstm-passes", type=int, default=3, help="0 for no networks")
    parser.add_argument("--limit", type=int, default=0, help="of training sentences, 0 for all")
    args = parser.parse_args()
    # What the figures need, before anything is trained for them.
    require("scipy", "bench")
    if args.bilstm_passes:
        require("torch", "bench")
    if args.seeds < 2:
        parser.error("--seeds must be at least 2, for the significance test")
    task = TASKS[args.task]
    if args.decay is not None:
        task = replace(task, decay=args.decay)
    online = methods(task)
    networks = list(bilstm.NETWORKS) if args.bilstm_passes else []
    if unknown := set(args.methods or ()) - {*online, *networks}:
        parser.error(f"unknown methods {', '.join(unknown)}; expected {', '.join(online)}")
    rows = read(args.output)
    wanted = [
        (name, seed)
        for name in (*networks, *online)
        for seed in range(1 if name in networks else args.seeds)
        if not args.methods or name in args.methods
    ]
    settings = {
        name: f"{online[name] if name in online else bilstm.settings(name)}, limit = {args.limit}"
        for name, _ in wanted
    }
    n_passes = {name: args.bilstm_passes if name in networks else args.passes for name, _ in wanted}
    todo = [
        (name, seed)
        for name, seed in wanted
        if n_done(rows, name, seed, settings[name]) != n_passes[name]
    ]
    if not todo:
        print(f"{args.output}: nothing left to do")
        return
    train, test = task.load(args.corpora, args.limit)
    data = Dataset(train, get_templates(task.templates), task.labels)
    with tqdm(total=sum(n_passes[name] for name, _ in todo), unit="pass") as bar:
        for name, seed in todo:
            bar.set_description(f"{task.name}, {name}, seed {seed}")
            if name in networks:
                results = bilstm.learn(name, task, train, test, n_passes[name])
            else:
                results = learn(replace(online[name], seed=seed), task, data, test, n_passes[name])
            new = []
            for number, (score, complexity, seconds) in enumerate(results, start=1):
                values = (task.name, name, seed, number, score, complexity, seconds, settings[name])
                new.append(dict(zip(COLUMNS, map(str, values), strict=True)))
                bar.update()
            rows = [row for row in rows if (row["method"], row["seed"]) != (name, str(seed))] + new
            write(args.output, rows)


def n_done(rows: list[Row], name: str, seed: int, settings: str) -> int:
    """How many passes are there with these settings."""
    wanted = name, str(seed), settings
    return sum((row["method"], row["seed"], row["settings"]) == wanted for row in rows)


def learn(
    settings: OnlineSettings, task: Task, data: Dataset, test: list, n_passes: int
) -> Iterator[tuple[float, float, float]]:
    """After each pass: test score in percent, mean absolute weight, seconds of processor time."""
    rows, lengths = data.read(test)
    # Tags that the training data lacks can only be missed: each has an id that nothing predicts.
    tags = sorted({tag for sentence in test for tag in task.labels(sentence)} - set(data.tags))
    ids = {tag: i for i, tag in enumerate([*data.tags, *tags])}
    gold = np.array([ids[tag] for sentence in test for tag in task.labels(sentence)])
    model = OnlineLearner(len(data.tags), len(data.dictionary), settings, len(data.lengths))
    for _ in range(n_passes):
        start = time.process_time()
        model.fit(data.rows, data.lengths, data.gold, 1)
        seconds = time.process_time() - start
        found, _ = viterbi(model.potentials(rows, lengths))
        if task.is_spans:
            score = span_f(list(ids), gold, found, lengths)
        else:
            score = 100 * float((gold == found).mean())
        yield score, model.complexity, seconds


def read(path: Path) -> list[Row]:
    if not path.exists():
        return []
    with path.open(encoding="utf8", newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, rows: list[Row]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())


if __name__ == "__main__":
    main()
