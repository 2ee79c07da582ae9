"""Accuracy, speed and calibration of all heads on four corpora, in two tables.

    python -m benchmarks.which_head --corpora DIR

Train each head on each corpus with spaCy's stock CPU config. Compiled layers run its encoder. The
second table has more about the calibration: the error at the temperature fitted on test itself, and
the shares of predicted tags or entities that are correct on dev and on test. --out keeps models and
measurements, so the command can be interrupted and resumed.
"""

import argparse
from pathlib import Path
from statistics import median

from benchmarks.pipeline import Runs
from benchmarks.tasks import AVERAGED, HEADS
from lab import ROOT
from lab.machine import describe_machine
from lab.options import add_options
from lab.tables import mean_and_deviation, print_table

# Training steps. By then the model has memorized WNUT 2017's 3,400 sentences.
STEPS = {"ewt": 3000, "french": 2000, "jnlpba": 3000, "wnut": 2000}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, needs_corpora=True)
    parser.add_argument("--heads", nargs="+", choices=HEADS, default=list(HEADS))
    parser.add_argument("--tasks", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--steps", type=int, help="training steps for all tasks")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="seeds 0 to N - 1")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds of timing")
    parser.add_argument("--out", type=Path, default=ROOT / "training/which-head", metavar="DIR")
    args = parser.parse_args()
    rows: dict[str, dict[str, object]] = {head: {"head": head} for head in args.heads}
    calibration: list[dict[str, object]] = []
    for task in args.tasks:
        runs = Runs(task, args.corpora, args.out, args.steps or STEPS[task], accelerated=True)
        for head, row in rows.items():
            scores = [runs.scores(head, seed) for seed in range(args.seeds)]
            for part in ("dev", "test"):
                row[f"{task} {part}"] = mean_and_deviation([one[f"best {part}"] for one in scores])
            errors = [runs.calibration(head, seed) for seed in range(args.seeds)]
            cells = {what: mean_and_deviation([e[what] for e in errors], 3) for what in errors[0]}
            row[f"{task} ECE"], row[f"{task} fitted"] = cells["raw"], cells["fitted"]
            calibration.append({"head": head, "task": task, **cells})
        speeds = {head: [runs.speed(head, 0, time) for time in range(args.rounds)] for head in rows}
        for head, row in rows.items():
            for what in ("train", "predict"):
                speed = median(numbers[what] for numbers in speeds[head])
                row[f"{task} {what}"] = f"{speed:,.0f}"
    print_table("which head when", list(rows.values()), describe(args), args.csv)
    notes = "correct: share of the predicted tags or entities; errors as above, on test"
    print_table("calibration", calibration, notes)


def describe(args: argparse.Namespace) -> str:
    """Return the notes of the table."""
    steps = ", ".join(f"{task} {args.steps or STEPS[task]}" for task in args.tasks)
    return (
        f"{describe_machine(['spacy', 'thinc', 'numpy'])}\n"
        f"steps: {steps}; {args.seeds} seed(s), mean ± deviation; "
        f"averaged weights: {', '.join(AVERAGED)}\n"
        "dev, test: tag accuracy or entity F in percent, of the best step on dev\n"
        "ECE: expected calibration error of tags or entities on test, of the last step; "
        "fitted: at the temperature fitted on dev\n"
        f"train, predict: words/s, median of {args.rounds} rounds, "
        "processor time of one thread, seed 0"
    )


if __name__ == "__main__":
    main()
