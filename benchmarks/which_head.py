"""Which head when: accuracy, time and calibration of all heads on three tasks, in one table.

    python -m benchmarks.which_head --corpora DIR

Trains each head on each task, with spaCy's stock CPU config, and keeps what is done in --out, so
that it can be stopped and started again.
"""

import argparse
from pathlib import Path
from statistics import median

from pipeline import Runs

from benchmarks.common import ROOT, add_options, describe_machine, print_table
from benchmarks.tasks import AVERAGED, HEADS

# Of training. WNUT 2017 has 3,400 sentences: after these steps it is known by heart.
STEPS = {"ewt": 3000, "jnlpba": 3000, "wnut": 2000}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--heads", nargs="+", choices=HEADS, default=list(HEADS))
    parser.add_argument("--tasks", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--steps", type=int, help="of training, for all tasks")
    parser.add_argument("--rounds", type=int, default=3, help="of timing, interleaved")
    parser.add_argument("--out", type=Path, default=ROOT / "training/which-head", metavar="DIR")
    args = parser.parse_args()
    if args.corpora is None:
        parser.error("needs --corpora DIR or the environment's BCRF_CORPORA")
    rows: dict[str, dict[str, object]] = {head: {"head": head} for head in args.heads}
    for task in args.tasks:
        runs = Runs(task, args.corpora, args.out, args.steps or STEPS[task])
        for head, row in rows.items():
            scores = runs.scores(head, 0)
            row[f"{task} dev"] = f"{scores['best dev']:.2f}"
            row[f"{task} test"] = f"{scores['best test']:.2f}"
            errors = runs.calibration(head, 0)
            row[f"{task} ECE"] = f"{errors['raw']:.3f}"
            row[f"{task} fitted"] = f"{errors['fitted']:.3f}"
        speeds = {head: [runs.speed(head, 0, time) for time in range(args.rounds)] for head in rows}
        for head, row in rows.items():
            for what in ("train", "predict"):
                speed = median(numbers[what] for numbers in speeds[head])
                row[f"{task} {what}"] = f"{speed:,.0f}"
    print_table("which head when", list(rows.values()), describe(args), args.csv)


def describe(args: argparse.Namespace) -> str:
    steps = ", ".join(f"{task} {args.steps or STEPS[task]}" for task in args.tasks)
    return (
        f"{describe_machine(['spacy', 'thinc', 'numpy'])}\n"
        f"steps: {steps}; seed 0; the weights of {', '.join(AVERAGED)} averaged\n"
        "dev, test: tag accuracy or entity F of the step that was best on dev, in percent\n"
        "ECE: expected calibration error on test, of tags or entities, after the last step; "
        "fitted: at the one temperature fitted on dev\n"
        f"train, predict: words/s, median of {args.rounds} rounds, processor time of one thread"
    )


if __name__ == "__main__":
    main()
