"""Speed and accuracy of `bcrf_ner` and `bcrf_tagger` against spaCy's `ner` and `tagger`.

    python -m benchmarks.pipeline --task wnut --corpora DIR
    python -m benchmarks.pipeline --task wnut --corpora DIR --profile

All contenders share corpus, tok2vec, batches, optimizer and steps. --out keeps models and
measurements, so the command can be interrupted and resumed.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median

from bcrf.io.atomic import write_text
from benchmarks import contender
from benchmarks.tasks import CONTENDERS, TASKS
from lab import ROOT
from lab.machine import describe_machine
from lab.options import add_options
from lab.processes import in_own_process
from lab.tables import mean_and_deviation, print_table

Numbers = dict[str, float]


class Runs:
    """Trained pipelines of a task and their measurements, by contender and seed."""

    def __init__(
        self, name: str, source: Path, output: Path, steps: int | None, accelerated: bool = False
    ) -> None:
        self.task = TASKS[name]
        self.accelerated = accelerated
        self.steps = steps or self.task.steps
        self.folder = output / name / str(self.steps)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.corpora = self.task.corpora(source, output / name)

    def scores(self, name: str, seed: int) -> Numbers:
        """Train if there is no model yet, and return the scores."""

        def train() -> Numbers:
            config = self.folder / f"{name}-{seed}.cfg"
            made = self.task.config(name, self.corpora, self.steps, seed, self.accelerated)
            made.to_disk(config)
            in_own_process(contender.train, config, self._run(name, seed))
            return {"steps": self.steps}

        self._load(f"{name}-{seed}-trained", train)
        return self._measure(contender.score, name, seed, "scores", self.task.score)

    def calibration(self, name: str, seed: int) -> Numbers:
        """Return the calibration errors and the shares of correct predictions."""
        return self._measure(contender.calibrate, name, seed, "reliability", self.task.component)

    def speed(self, name: str, seed: int, time: int) -> Numbers:
        """Return the speeds of one round of timing."""
        return self._measure(contender.measure_speed, name, seed, f"speed-{time}", self.steps)

    def profile(self, name: str, seed: int) -> Numbers:
        """Return the times of the steps of prediction."""
        return self._measure(contender.profile, name, seed, "profile", self.task.component)

    def confidence_cost(self, name: str, seed: int) -> Numbers:
        """Return the times of prediction with and without confidence and entropy."""
        component = self.task.component
        return self._measure(contender.confidence_cost, name, seed, "confidence", component)

    def _run(self, name: str, seed: int) -> Path:
        return self.folder / f"{name}-{seed}"

    def _measure(
        self, measure: Callable[..., Numbers], name: str, seed: int, what: str, setting: object
    ) -> Numbers:
        """Load a measurement, or make it in a fresh process."""
        run = self._run(name, seed)
        return self._load(
            f"{run.name}-{what}", lambda: in_own_process(measure, run, self.corpora, setting)
        )

    def _load(self, key: str, make: Callable[[], Numbers]) -> Numbers:
        """Load numbers, or make and store them."""
        path = self.folder / f"{key}.json"
        if not path.exists():
            print(f"{self.folder}: {key} ...", file=sys.stderr, flush=True)
            write_text(path, json.dumps(make()))
        return json.loads(path.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, needs_corpora=True)
    parser.add_argument("--task", choices=TASKS, required=True)
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=CONTENDERS)
    parser.add_argument("--steps", type=int, help="training steps (default: the task's)")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="seeds 0 to N - 1")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds of timing")
    parser.add_argument("--out", type=Path, default=ROOT / "training/benchmarks", metavar="DIR")
    parser.add_argument("--profile", action="store_true", help="time each step of prediction")
    args = parser.parse_args()
    runs = Runs(args.task, args.corpora, args.out, args.steps)
    scores = {
        name: [runs.scores(name, seed) for seed in range(args.seeds)] for name in args.contenders
    }
    if args.profile:
        rows = [profile_row(runs, name) for name in args.contenders]
        what = "us/word of prediction on dev; share of time that each option of `annotate` adds"
    else:
        speeds: dict[str, list[Numbers]] = {name: [] for name in args.contenders}
        for time in range(args.rounds):
            for name in args.contenders:
                speeds[name].append(runs.speed(name, 0, time))
        rows = compare(scores, speeds)
        what = f"words/s: median of {args.rounds} interleaved rounds, processor time of one thread"
    notes = (
        f"{describe_machine(['spacy', 'thinc', 'numpy'])}\n"
        f"{runs.steps} steps of spaCy's stock CPU config, {args.seeds} seed(s), {runs.task.score} "
        f"in percent (mean ± deviation); best: model-best; dev and test: last step\n{what}; seed 0"
    )
    print_table(f"{args.task}: {runs.task.component}", rows, notes, args.csv)


def compare(
    scores: dict[str, list[Numbers]], speeds: dict[str, list[Numbers]]
) -> list[dict[str, object]]:
    """Return a row for each contender; x is the speed relative to the first."""
    rows: list[dict[str, object]] = []
    first: Numbers = {}
    for name in scores:
        row: dict[str, object] = {"contender": name}
        for part in scores[name][0]:
            row[part] = mean_and_deviation([score[part] for score in scores[name]])
        for task in ("predict", "train"):
            speed = median(numbers[task] for numbers in speeds[name])
            row[f"{task} words/s"] = f"{speed:,.0f}"
            row[f"x {task}"] = f"{speed / first.setdefault(task, speed):.2f}"
        rows.append(row)
    return rows


def profile_row(runs: Runs, name: str) -> dict[str, object]:
    """Return the time of each step of prediction, and the cost of confidence and entropy."""
    numbers = runs.profile(name, 0)
    own = sum(numbers[part] for part in ("scores", "decoding", "writing"))
    row: dict[str, object] = {"contender": name}
    row |= {part: f"{value:.2f}" for part, value in numbers.items()}
    row["after the vectors"] = f"{own:.2f}"
    # spaCy's components have no `annotate`.
    seconds = {} if name == "spacy" else runs.confidence_cost(name, 0)
    for option in ("confidence", "entropy"):
        row[option] = f"{seconds[option] / seconds['nothing'] - 1:+.1%}" if seconds else "-"
    return row


if __name__ == "__main__":
    main()
