"""The experiments of the SAPO paper (Sun, Ma, Zhang and Ren) on one task.

    python -m experiments.sapo.run chunking --corpora DIR --output metrics/sapo/chunking.csv

The output has a row for each method, seed and pass: test score, mean absolute weight, share of
non-zero weights, and seconds. It is written after each method and seed. A run with the same
settings is not repeated.
"""

from __future__ import annotations

import argparse
import csv
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from bcrf.io.extras import require
from bcrf.linear.learner import OnlineSettings
from experiments.sapo import bilstm
from experiments.sapo.tasks import TASKS, Task
from experiments.sapo.training import learn
from lab.dataset import Dataset
from lab.tables import write_csv
from spacy_bcrf.sparse.template_sets import get_templates

COLUMNS = (
    *("task", "method", "seed", "pass", "score", "complexity", "nonzero", "seconds"),
    "settings",
)
Row = dict[str, str]


def methods(task: Task, n: int) -> dict[str, OnlineSettings]:
    """Return the settings of each method. CRF and SAPO share lambda and rate, as in the paper.

    n: length of SAPO's n-best list. The cap of MIRA's step, its C, is 0.1 and almost never binds.
    """
    gradient = OnlineSettings("crf", averaged=False, rate=task.rate, decay=task.decay, l2=task.l2)
    sapo = replace(gradient, objective="sapo", n=n)
    perceptron = OnlineSettings("perceptron", averaged=False, rate=1)
    mira = OnlineSettings("mira", n=1, averaged=False)
    return {
        "CRF": gradient,
        "SAPO": sapo,
        "SAPO, beam": replace(sapo, search="beam"),
        "perceptron": perceptron,
        "averaged perceptron": replace(perceptron, averaged=True),
        "MIRA": mira,
        "averaged MIRA": replace(mira, averaged=True),
        "n-best MIRA": replace(mira, n=5),
        "averaged n-best MIRA": replace(mira, n=5, averaged=True),
        # These are not in the paper.
        "averaged CRF": replace(gradient, averaged=True),
        "averaged SAPO": replace(sapo, averaged=True),
        "SAPO, L1": replace(sapo, l2=0, l1=task.l1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("--corpora", type=Path, required=True, metavar="DIR")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE.csv")
    parser.add_argument("--passes", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=5, help="number of sentence orders")
    parser.add_argument("--methods", nargs="*", help="run only these methods")
    parser.add_argument("--n", type=int, default=10, help="length of SAPO's n-best list")
    parser.add_argument("--l2", type=float, help="lambda of CRF and SAPO; default: see `Task`")
    parser.add_argument(
        "--decay", type=float, help="decay of the rate of CRF and SAPO; 0 for a fixed rate"
    )
    parser.add_argument(
        "--bilstm-passes", type=int, default=8, help="passes of the networks; 0 skips them"
    )
    parser.add_argument(
        "--limit", type=int, default=0, help="number of training sentences; 0 for all"
    )
    args = parser.parse_args()
    given = {name: getattr(args, name) for name in ("l2", "decay")}
    task = replace(TASKS[args.task], **{k: v for k, v in given.items() if v is not None})
    # The figures need these packages; fail before training.
    require("scipy", "bench")
    if args.bilstm_passes:
        require("torch", "bench")
    if args.seeds < 2:
        parser.error("--seeds must be at least 2, for the significance test")
    chains = methods(task, args.n)
    networks = list(bilstm.NETWORKS) if args.bilstm_passes else []
    if unknown := set(args.methods or ()) - {*chains, *networks}:
        parser.error(f"unknown methods {', '.join(unknown)}; expected {', '.join(chains)}")
    rows = read_rows(args.output)
    wanted = [
        (name, seed)
        for name in (*networks, *chains)
        for seed in range(1 if name in networks else args.seeds)
        if not args.methods or name in args.methods
    ]
    used = {**chains, **{name: bilstm.settings(name, task) for name in networks}}
    settings = {name: f"{used[name]}, limit = {args.limit}" for name, _ in wanted}
    n_passes = {name: args.bilstm_passes if name in networks else args.passes for name, _ in wanted}
    todo = [
        (name, seed)
        for name, seed in wanted
        if n_done(rows, name, seed, settings[name]) != n_passes[name]
    ]
    if not todo:
        print(f"{args.output}: complete")
        return
    train, test = task.load(args.corpora, args.limit)
    data = Dataset(train, get_templates(task.templates), task.labels)
    with tqdm(total=sum(n_passes[name] for name, _ in todo), unit="pass") as bar:
        for name, seed in todo:
            bar.set_description(f"{task.name}, {name}, seed {seed}")
            if name in networks:
                results = bilstm.learn(name, task, train, test, n_passes[name])
            else:
                results = learn(replace(chains[name], seed=seed), task, data, test, n_passes[name])
            new = []
            for number, measured in enumerate(results, start=1):
                values = (task.name, name, seed, number, *measured, settings[name])
                new.append(dict(zip(COLUMNS, map(str, values), strict=True)))
                bar.update()
            rows = [row for row in rows if (row["method"], row["seed"]) != (name, str(seed))] + new
            write_csv(args.output, [COLUMNS, *([row[c] for c in COLUMNS] for row in rows)])


def n_done(rows: list[Row], name: str, seed: int, settings: str) -> int:
    """Count the passes of a method and seed that were run with these settings."""
    wanted = name, str(seed), settings
    return sum((row["method"], row["seed"], row["settings"]) == wanted for row in rows)


def read_rows(path: Path) -> list[Row]:
    """Read the rows of earlier runs, if there are any with the same columns."""
    if not path.exists():
        return []
    with path.open(encoding="utf8", newline="") as file:
        reader = csv.DictReader(file)
        return list(reader) if tuple(reader.fieldnames or ()) == COLUMNS else []


if __name__ == "__main__":
    main()
