"""spaCy's `ner` and `tagger` against `bcrf_ner` and `bcrf_tagger`: speed and accuracy.

    python -m benchmarks.pipeline --task wnut --corpora DIR
    python -m benchmarks.pipeline --task wnut --corpora DIR --profile

Same corpus, tok2vec, batches, optimizer and steps. What is done is kept in --out, so that it can
be stopped and started again.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median

from benchmarks import contender
from benchmarks.common import ROOT, add_options, describe_machine, in_own_process, print_table
from benchmarks.tasks import CONTENDERS, TASKS

Numbers = dict[str, float]


class Runs:
    """The trained pipelines of a task and what was measured of them, by contender and seed."""

    def __init__(self, name: str, source: Path, output: Path, steps: int | None) -> None:
        self.task = TASKS[name]
        self.steps = steps or self.task.steps
        self.folder = output / name / str(self.steps)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.corpora = self.task.corpora(source, output / name)

    def scores(self, name: str, seed: int) -> Numbers:
        """Trains where that was not done yet."""

        def train() -> Numbers:
            config = self.folder / f"{name}-{seed}.cfg"
            self.task.config(name, self.corpora, self.steps, seed).to_disk(config)
            in_own_process(contender.train, config, self._run(name, seed))
            return {"steps": self.steps}

        self._kept(f"{name}-{seed}-trained", train)
        return self._kept(
            f"{name}-{seed}-scores",
            lambda: in_own_process(
                contender.score, self._run(name, seed), self.corpora, self.task.score
            ),
        )

    def calibration(self, name: str, seed: int) -> Numbers:
        return self._kept(
            f"{name}-{seed}-calibration",
            lambda: in_own_process(
                contender.calibrate, self._run(name, seed), self.corpora, self.task.component
            ),
        )

    def confidence_cost(self, name: str, seed: int) -> Numbers:
        return self._kept(
            f"{name}-{seed}-confidence",
            lambda: in_own_process(
                contender.confidence_cost, self._run(name, seed), self.corpora, self.task.component
            ),
        )

    def speed(self, name: str, seed: int, time: int) -> Numbers:
        """Of the given round."""
        return self._kept(
            f"{name}-{seed}-speed-{time}",
            lambda: in_own_process(
                contender.measure_speed, self._run(name, seed), self.corpora, self.steps
            ),
        )

    def profile(self, name: str, seed: int) -> Numbers:
        component = self.task.component
        return in_own_process(contender.profile, self._run(name, seed), self.corpora, component)

    def _run(self, name: str, seed: int) -> Path:
        return self.folder / f"{name}-{seed}"

    def _kept(self, key: str, make: Callable[[], Numbers]) -> Numbers:
        path = self.folder / f"{key}.json"
        if not path.exists():
            print(f"{self.folder}: {key} ...", file=sys.stderr, flush=True)
            numbers, beside = make(), path.with_suffix(".part")
            beside.write_text(json.dumps(numbers))
            beside.rename(path)
        return json.loads(path.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--task", choices=TASKS, required=True)
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=CONTENDERS)
    parser.add_argument("--steps", type=int, help="of training (default: the task's)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--rounds", type=int, default=3, help="of timing, interleaved")
    parser.add_argument("--out", type=Path, default=ROOT / "training/benchmarks", metavar="DIR")
    parser.add_argument("--profile", action="store_true", help="where prediction spends its time")
    args = parser.parse_args()
    if args.corpora is None:
        parser.error("needs --corpora DIR or the environment's BCRF_CORPORA")
    runs = Runs(args.task, args.corpora, args.out, args.steps)
    scores = {name: [runs.scores(name, seed) for seed in args.seeds] for name in args.contenders}
    if args.profile:
        rows = [profile_row(name, runs.profile(name, args.seeds[0])) for name in args.contenders]
        what = "us/word of prediction on dev"
    else:
        speeds: dict[str, list[Numbers]] = {name: [] for name in args.contenders}
        for time in range(args.rounds):
            for name in args.contenders:
                speeds[name].append(runs.speed(name, args.seeds[0], time))
        rows = compare(scores, speeds)
        what = f"words/s: median of {args.rounds} interleaved rounds, processor time of one thread"
    notes = (
        f"{describe_machine(['spacy', 'thinc', 'numpy'])}\n"
        f"{runs.steps} steps of spaCy's stock CPU config, seeds {args.seeds}, {runs.task.score} "
        f"in percent; 'best dev' is of model-best, dev and test of the last step\n{what}"
    )
    print_table(f"{args.task}: {runs.task.component}", rows, notes, args.csv)


def compare(
    scores: dict[str, list[Numbers]], speeds: dict[str, list[Numbers]]
) -> list[dict[str, object]]:
    """A row for each contender; x is times the speed of the first."""
    rows: list[dict[str, object]] = []
    first: Numbers = {}
    for name in scores:
        row: dict[str, object] = {"contender": name}
        for part in scores[name][0]:
            row[part] = f"{mean(score[part] for score in scores[name]):.2f}"
        for task in ("predict", "train"):
            speed = median(numbers[task] for numbers in speeds[name])
            row[f"{task} words/s"] = f"{speed:,.0f}"
            row[f"x {task}"] = f"{speed / first.setdefault(task, speed):.2f}"
        rows.append(row)
    return rows


def profile_row(name: str, numbers: Numbers) -> dict[str, object]:
    own = sum(numbers[part] for part in ("scores", "decoding", "writing"))
    cells = {part: f"{value:.2f}" for part, value in numbers.items()}
    return {"contender": name, **cells, "after the vectors": f"{own:.2f}"}


if __name__ == "__main__":
    main()
