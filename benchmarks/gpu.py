"""Everything that needs a GPU, in one command: tests, benchmarks and a training. Writes one report.

    python -m benchmarks.gpu --output gpu-report.md

A step that fails, or that would end after --seconds, is in the report, and the exit status is 1.
Without a GPU or a package, the command ends at once and names what is missing.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from bcrf.io.atomic import write_text
from lab import ROOT
from lab.machine import describe_machine

PACKAGES = {"cupy": "cuda12x", "torch": "bench", "torchcrf": "bench", "pytest": "dev"}
"""Modules that the steps import, and the extra with each."""

NOISE = 0.05
"""Largest difference of F between the GPU's and the CPU's model, trained on the sample corpus.

Sums in another order change the last bits of the weights, and 25 epochs amplify them.
"""

BENCHMARKS = {
    "Heads": (
        "benchmarks.heads --device cuda --lengths 30 200 --batch 16 64 --tags 9 17 50 --seconds 2"
    ),
    "Tables 2 and 3 of the paper": "benchmarks.paper_tables --gpu 0 --scale small --rounds 3",
    "Memory": "benchmarks.memory --device cuda --lengths 10000 100000 1000000",
}
TRAIN = (
    "spacy train configs/shared_tok2vec.cfg --output {output} --gpu-id {gpu} --paths.train {train} "
    '--paths.dev {dev} --nlp.pipeline ["tok2vec","ner"] --training.score_weights.tag_acc 0 '
    "--training.score_weights.ents_f 1"
)


class Step(NamedTuple):
    """The outcome of one command. problem: empty, or why the step failed."""

    title: str
    command: str
    seconds: float
    output: str
    problem: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", "-o", type=Path, default=Path("gpu-report.md"))
    parser.add_argument("--seconds", type=float, default=470, help="for all steps together")
    args = parser.parse_args()
    if missing := find_missing():
        listed = "\n".join(f"- {m}" for m in missing)
        raise SystemExit(f"make gpu needs a GPU, and runs nothing without one. Missing:\n{listed}")
    steps = run_all(time.monotonic() + args.seconds)
    write_text(args.output, report(steps))
    failed = [step.title for step in steps if step.problem]
    print(f"wrote {args.output}: {len(steps)} steps, failed: {', '.join(failed) or 'none'}")
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


def run_all(end: float) -> list[Step]:
    """Run all steps, the tests first."""
    steps = [run_step("Tests", "pytest -m gpu -q", end)]
    steps += [run_step(title, command, end) for title, command in BENCHMARKS.items()]
    with TemporaryDirectory() as folder:
        return steps + compare_trainings(Path(folder), end)


def run_step(title: str, command: str, end: float) -> Step:
    """Run `python -m command` until `end` of the monotonic clock."""
    start = time.monotonic()
    if start >= end:
        return Step(title, command, 0, "", "not run: no time is left")
    try:
        done = subprocess.run(
            [sys.executable, "-m", *command.split()],
            cwd=ROOT,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=end - start,
        )
        output = done.stdout
        problem = f"exit status {done.returncode}" if done.returncode else ""
    except subprocess.TimeoutExpired as expired:
        output = (expired.stdout or b"").decode(errors="replace")
        problem = "stopped: no time was left"
    return Step(title, command, time.monotonic() - start, output, problem)


PROCESSORS = {"GPU": 0, "CPU": -1}
"""Numbers of processors, as spaCy's option --gpu-id takes them."""


def compare_trainings(
    folder: Path, end: float, processors: Mapping[str, int] = PROCESSORS
) -> list[Step]:
    """Train on the sample corpus on the GPU and on the CPU, and compare F of entities on dev."""
    data = {part: folder / f"{part}.spacy" for part in ("train", "dev")}
    steps = [
        run_step("Conversion", f"spacy bcrf convert assets/sample/{part}.conllu {path} -l en", end)
        for part, path in data.items()
    ]
    scores = []
    for name, gpu in processors.items():
        output = folder / name
        command = TRAIN.format(output=output, gpu=gpu, **data)
        step = run_step(f"Training on the {name}", command, end)
        steps.append(step)
        meta = output / "model-best/meta.json"
        if not step.problem and meta.exists():
            scores.append(json.loads(meta.read_text())["performance"]["ents_f"])
    problem = "" if len(scores) == 2 else "a training failed"
    if not problem and abs(scores[0] - scores[1]) > NOISE:
        problem = f"F differs by more than {NOISE}"
    listed = ", ".join(f"{f:.3f}" for f in scores)
    steps.append(Step("F of entities, GPU and CPU", "", 0, listed, problem))
    return steps


def report(steps: Sequence[Step]) -> str:
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
