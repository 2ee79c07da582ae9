"""Everything that needs a GPU: checks, tests, benchmarks and a training. Writes one report.

    python -m benchmarks.gpu --output gpu-report.md

A call takes --seconds at most and writes after each step. The next call continues with the steps
that are left, until the commit changes. The exit status is 0 if all steps passed, 1 if one failed,
and 2 if steps are left. Without a GPU or a package, the command names what is missing.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from bcrf.io.atomic import write_text
from benchmarks import device_speed
from benchmarks.inputs import SAMPLE
from lab import ROOT
from lab.machine import describe_machine, find_commit

PACKAGES = {"cupy": "cuda12x", "torch": "bench", "torchcrf": "bench", "pytest": "dev"}
"""Modules that the steps import, and the extra with each."""

NOISE = 0.05
"""Largest difference of F between the GPU's and the CPU's model, trained on the sample corpus.

Sums in another order change the last bits of the weights, and 25 epochs amplify them.
"""

FOLDER = ROOT / "training/gpu"
"""Of the trainings."""
PROCESSORS = {"GPU": 0, "CPU": -1}
"""Numbers of processors, as spaCy's option --gpu-id takes them."""
TRAIN = (
    f"spacy train configs/shared_tok2vec.cfg --output {FOLDER}/{{name}} --gpu-id {{gpu}} "
    f"--paths.train {FOLDER}/train.spacy --paths.dev {FOLDER}/dev.spacy "
    '--nlp.pipeline ["tok2vec","ner"] --training.score_weights.tag_acc 0 '
    "--training.score_weights.ents_f 1"
)


class Step(NamedTuple):
    """A command. seconds: about its time on an H100; without so many left, it waits for a call.

    tool: a program of the machine that runs Python.
    """

    title: str
    command: str
    seconds: float = 60
    tool: str = ""


class Outcome(NamedTuple):
    """The outcome of a step. problem: empty, or why the step failed."""

    title: str
    command: str
    seconds: float
    output: str
    problem: str


SANITIZE = "compute-sanitizer --error-exitcode 9 --tool"
CHECK = "tests.kernels.device_check"
STEPS = [
    Step("Kernels on GPU and CPU", CHECK, 200),
    Step("Memcheck", f"{CHECK} --tags 5 17 70 --scales 2", 120, f"{SANITIZE} memcheck"),
    Step("Racecheck", f"{CHECK} --tags 5 17 70 --scales 2", 300, f"{SANITIZE} racecheck"),
    Step("Tests of kernels", "pytest -m gpu -q -n 8 tests/kernels", 300),
    Step("Other tests", "pytest -m gpu -q -n 8 --ignore tests/kernels", 300),
    *(Step(f"Speed: {part}", f"benchmarks.device_speed {part}") for part in device_speed.PARTS),
    Step("Heads", "benchmarks.heads --device cuda --lengths 30 200 --batch 16 64 --seconds 1", 200),
    Step("Tables 2 and 3", "benchmarks.paper_tables --gpu 0 --scale small --rounds 3", 200),
    Step("Memory", "benchmarks.memory --device cuda --lengths 10000 100000 1000000", 90),
    *(
        Step(f"Conversion of {part}", f"spacy bcrf convert {path} {FOLDER}/{part}.spacy -l en", 20)
        for part, path in (("train", SAMPLE), ("dev", SAMPLE.with_stem("dev")))
    ),
    *(
        Step(f"Training on the {name}", TRAIN.format(name=name, gpu=gpu), 120)
        for name, gpu in PROCESSORS.items()
    ),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", "-o", type=Path, default=Path("gpu-report.md"))
    parser.add_argument("--seconds", type=float, default=470, help="of this call")
    args = parser.parse_args()
    if missing := find_missing():
        listed = "\n".join(f"- {m}" for m in missing)
        raise SystemExit(f"make gpu needs a GPU, and runs nothing without one. Missing:\n{listed}")
    known = read(args.output)
    end = time.monotonic() + args.seconds
    for outcome in run_all(STEPS, known, end):
        known.append(outcome)
        write(args.output, known)
    if left := len(STEPS) - len(known):
        print(f"{left} steps are left: run the command again")
        raise SystemExit(2)
    write(args.output, known := [*known, compare_trainings(FOLDER)])
    failed = [outcome.title for outcome in known if outcome.problem]
    print(f"wrote {args.output}: {len(known)} steps, failed: {', '.join(failed) or 'none'}")
    raise SystemExit(1 if failed else 0)


def find_missing() -> list[str]:
    """Return what this machine lacks, with the remedy."""
    missing = [
        f"the package {module}: pip install 'spacy-bcrf[{extra}]'"
        for module, extra in PACKAGES.items()
        if find_spec(module) is None
    ]
    if shutil.which("nvidia-smi") is None:
        missing.append("nvidia-smi, a part of NVIDIA's driver: install the driver")
    if find_spec("cupy") is not None:
        import cupy

        try:
            cupy.zeros(1).get()
        except Exception as error:
            missing.append(f"a GPU that CuPy can use: {error}")
    return missing


def run_all(steps: Sequence[Step], known: Sequence[Outcome], end: float) -> Iterator[Outcome]:
    """Run the steps that no outcome has, until `end` of the monotonic clock."""
    done = {(outcome.title, outcome.command) for outcome in known}
    left = [step for step in steps if (step.title, step.command) not in done]
    for i, step in enumerate(left):
        seconds = end - time.monotonic()
        if i and seconds < step.seconds:
            return
        yield run_step(step, seconds)


def run_step(step: Step, seconds: float) -> Outcome:
    """Run `python -m command` for this time at most."""
    start = time.monotonic()
    try:
        done = subprocess.run(
            [*step.tool.split(), sys.executable, "-m", *step.command.split()],
            cwd=ROOT,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
        )
        output = done.stdout
        problem = f"exit status {done.returncode}" if done.returncode else ""
    except subprocess.TimeoutExpired as expired:
        output = (expired.stdout or b"").decode(errors="replace")
        problem = "stopped: no time was left"
    except FileNotFoundError as error:
        output, problem = "", f"not run: {error.filename} is missing"
    return Outcome(step.title, step.command, time.monotonic() - start, output, problem)


def compare_trainings(folder: Path) -> Outcome:
    """Compare F of entities on dev of the models of the GPU and of the CPU."""
    metas = [folder / name / "model-best/meta.json" for name in PROCESSORS]
    scores = [
        json.loads(meta.read_text())["performance"]["ents_f"] for meta in metas if meta.exists()
    ]
    problem = "" if len(scores) == len(metas) else "a training failed"
    if not problem and abs(scores[0] - scores[1]) > NOISE:
        problem = f"F differs by more than {NOISE}"
    listed = ", ".join(f"{f:.3f}" for f in scores)
    return Outcome("F of entities, GPU and CPU", "", 0, listed, problem)


def read(output: Path) -> list[Outcome]:
    """Return the outcomes of earlier calls at this commit."""
    path = output.with_suffix(".json")
    found = json.loads(path.read_text()) if path.exists() else {}
    return [Outcome(*row) for row in found["steps"]] if found.get("commit") == find_commit() else []


def write(output: Path, outcomes: Sequence[Outcome]) -> None:
    """Write the report, and beside it what the next call reads."""
    found = {"commit": find_commit(), "steps": outcomes}
    write_text(output.with_suffix(".json"), json.dumps(found, indent=1))
    write_text(output, report(outcomes))


def report(steps: Sequence[Outcome]) -> str:
    """Return the report as Markdown."""
    smi = "nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader"
    found = subprocess.run(smi, shell=True, text=True, capture_output=True).stdout.strip()
    lines = ["# GPU report", "", found, "", describe_machine(["numpy", "torch"]), ""]
    lines += ["| step | seconds | result |", "|---|---|---|"]
    lines += [f"| {s.title} | {s.seconds:.0f} | {s.problem or 'passed'} |" for s in steps]
    for step in steps:
        lines += ["", f"## {step.title}", ""]
        if step.command:
            lines += [f"`python -m {step.command}`", ""]
        lines += ["```", step.output.rstrip(), "```"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
