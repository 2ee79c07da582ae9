"""Choice of l2 and l1 on development data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import mean

from tqdm import tqdm

from experiments.report import markdown_table
from experiments.sapo.dataset import Dataset
from experiments.sapo.tasks import Task
from experiments.sapo.training import learn
from spacy_bcrf.sparse.learner import OnlineSettings
from spacy_bcrf.sparse.template_sets import get_templates

GRID = {
    "l2": (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0),
    "l1": (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0),
}


def tune(task: Task, corpora: Path, n: int, passes: int, seeds: int, limit: int = 0) -> str:
    """Return the grid as a Markdown table, with the best value of l2 and of l1.

    The score is that of the development sentences after the last pass, the mean over the seeds. CRF
    and SAPO share both coefficients, as in the paper, so the mean of their scores decides.

    n: length of SAPO's n-best list. limit: see `Task.load`.
    """
    train, dev = task.load_dev(corpora, limit)
    data = Dataset(train, get_templates(task.templates), task.labels)
    plain = OnlineSettings("crf", n=n, averaged=False, rate=task.rate, decay=task.decay)
    rows: list[tuple[str, float, float, float, float, float]] = []
    with tqdm(total=2 * seeds * sum(map(len, GRID.values())), desc=task.name) as bar:
        for name, values in GRID.items():
            for value in values:
                scores, nonzero = [], []
                for objective in ("crf", "sapo"):
                    setting = {"objective": objective, name: value}
                    runs = []
                    for seed in range(seeds):
                        settings = replace(plain, seed=seed, **setting)
                        *_, last = learn(settings, task, data, dev, passes)
                        runs.append(last)
                        bar.update()
                    scores.append(mean(run.score for run in runs))
                    nonzero.append(mean(run.nonzero for run in runs))
                rows.append((name, value, *scores, mean(scores), nonzero[1]))
    columns = ("", "value", "CRF", "SAPO", "mean", "non-zero weights of SAPO, %")
    lines = [[name, f"{value:g}", *(f"{x:.2f}" for x in rest)] for name, value, *rest in rows]
    best = (max((row for row in rows if row[0] == name), key=lambda row: row[4]) for name in GRID)
    return (
        f"{task.title} on the {len(dev)} development sentences, {passes} passes, {seeds} orders, "
        f"n = {n}\n\n{markdown_table([columns, *lines])}\n"
        f"best: {', '.join(f'{row[0]} = {row[1]:g}' for row in best)}"
    )
