"""The report of `make gpu`, without its long steps."""

import sys
import time

import on_gpu
import pytest

from benchmarks import gpu


@pytest.mark.skipif(not on_gpu.why_not(), reason="there is a GPU")
def test_names_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["gpu", "--output", str(tmp_path / "report.md")])
    message = r"make gpu needs a GPU, and runs nothing without one. Missing:\n- .*cupy"
    with pytest.raises(SystemExit, match=message) as caught:
        gpu.main()
    assert str(caught.value.code).count("\n") >= 1
    assert not list(tmp_path.iterdir())


def test_the_training_names_files_that_exist():
    paths = [word for word in gpu.TRAIN.split() if "/" in word]
    assert paths and all((gpu.ROOT / path).is_file() for path in paths)


@pytest.mark.slow
def test_the_training_runs(tmp_path, monkeypatch):
    """On a CPU, for two steps: spaCy accepts all settings of the command."""
    monkeypatch.setattr(gpu, "TRAIN", f"{gpu.TRAIN} --training.max_steps 2")
    steps = gpu.compare_trainings(tmp_path, time.monotonic() + 300, {"CPU": -1})
    assert [(step.title, step.problem) for step in steps[:-1]] == [
        *[("Conversion", "")] * 2,
        ("Training on the CPU", ""),
    ]


def test_the_report_has_every_step_and_its_problem():
    end = time.monotonic() + 60
    steps = [
        gpu.run_step("Good", "platform", end),
        gpu.run_step("Bad", "no_such_module", end),
        gpu.run_step("Long", "http.server 0", time.monotonic() + 1),
        gpu.run_step("Late", "platform", time.monotonic()),
    ]
    assert [step.problem for step in steps] == [
        "",
        "exit status 1",
        "stopped: no time was left",
        "not run: no time is left",
    ]
    text = gpu.report(steps)
    for step in steps:
        assert f"## {step.title}" in text and f"| {step.problem or 'passed'} |" in text
    assert "No module named no_such_module" in text
