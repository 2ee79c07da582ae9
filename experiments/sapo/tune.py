"""Choice of l2 and l1 on development data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import mean

from tqdm import tqdm

from bcrf.linear.learner import OnlineSettings
from experiments.sapo.tasks import Task
from experiments.sapo.training import learn
from lab.dataset import Dataset
from lab.tables import markdown_table
from spacy_bcrf.sparse.template_sets import get_templates

# Pairs of l2 and l1.
GRID = (
    *((l2, 0.0) for l2 in (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)),
    *((0.0, l1) for l1 in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)),
)
COLUMNS = ("l2", "l1", "CRF", "SAPO", "mean", "non-zero weights of SAPO, %")


def tune(task: Task, corpora: Path, n: int, passes: int, seeds: int, limit: int = 0) -> str:
    """Return the grid as a Markdown table, with the best value of l2 and of l1.

    The score is that of the development sentences after the last pass, the mean over the seeds. CRF
    and SAPO share both coefficients, as in the paper, so the mean of their scores decides.

    n: length of SAPO's n-best list. limit: see `Task.load`.
    """
    train, dev = task.load_dev(corpora, limit)
    data = Dataset(train, get_templates(task.templates), task.labels)
    plain = OnlineSettings("crf", n=n, averaged=False, rate=task.rate, decay=task.decay)
    rows: list[tuple[float, float, float, float, float, float]] = []
    with tqdm(total=2 * seeds * len(GRID), desc=task.name) as bar:

        def measure(settings: OnlineSettings) -> tuple[float, float]:
            """Return the mean score and share of non-zero weights over the seeds."""
            runs = []
            for seed in range(seeds):
                *_, last = learn(replace(settings, seed=seed), task, data, dev, passes)
                runs.append(last)
                bar.update()
            return mean(run.score for run in runs), mean(run.nonzero for run in runs)

        for l2, l1 in GRID:
            crf, _ = measure(replace(plain, l2=l2, l1=l1))
            sapo, nonzero = measure(replace(plain, objective="sapo", l2=l2, l1=l1))
            rows.append((l2, l1, crf, sapo, (crf + sapo) / 2, nonzero))
    lines = [[f"{l2:g}", f"{l1:g}", *(f"{x:.2f}" for x in rest)] for l2, l1, *rest in rows]
    best_l2, best_l1 = (
        max((row for row in rows if (row[1] > 0) == is_l1), key=lambda row: row[4])
        for is_l1 in (False, True)
    )
    return (
        f"{task.title} on the {len(dev)} development sentences, {passes} passes, {seeds} orders, "
        f"n = {n}\n\n{markdown_table([COLUMNS, *lines])}\n"
        f"best: l2 = {best_l2[0]:g}, l1 = {best_l1[1]:g}"
    )
