"""Dev scores of the Bregman CRF paper's experiments by training step.

    python -m experiments.paper.by_step metrics/paper/small/seg

Print the score of each evaluation in training, which `experiments.paper.run` logs, as a mean over
the seeds. Write by_step.md to the folder.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from bcrf.io.atomic import write_text
from lab.tables import markdown_table, mean_and_deviation

# A row of spaCy's log: epoch, step, losses, the score in percent and the weighted score.
_ROW = re.compile(r"\s*\d+\s+(?P<step>\d+)\s.*\s(?P<score>[\d.]+)\s+[\d.]+\s*")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="results of experiments.paper.run")
    folder = parser.parse_args(arguments).folder
    scores: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for result in sorted(folder.glob("*/result.json")):
        name, _, _ = result.parent.name.rpartition("-")
        for step, score in read_scores(result.with_name("train.log")).items():
            scores[name][step].append(score)
    if not scores:
        parser.error(f"{folder}: no completed run; run experiments.paper.run first")
    steps = sorted({step for run in scores.values() for step in run})
    rows = [["corpus, variant, trained", *map(str, steps)]]
    for name, run in scores.items():
        cells = [mean_and_deviation(run[step], 1) if step in run else "" for step in steps]
        rows.append([name.replace("_", " ").replace("-", ", "), *cells])
    table = markdown_table(rows)
    write_text(folder / "by_step.md", table)
    print(table)


def read_scores(log: Path) -> dict[int, float]:
    """Return the dev scores in percent by step from the log of a training."""
    rows = map(_ROW.fullmatch, log.read_text(encoding="utf8").splitlines())
    return {int(row["step"]): float(row["score"]) for row in rows if row}


if __name__ == "__main__":
    main()
