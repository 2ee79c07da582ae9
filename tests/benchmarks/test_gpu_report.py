"""The report of `make gpu`, without its long steps."""

import shutil
import sys
from importlib.util import find_spec

import on_gpu
import pytest

from benchmarks import device_speed, gpu
from lab import tables
from tests.kernels import device_check


@pytest.mark.skipif(not on_gpu.why_not(), reason="there is a GPU")
def test_names_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["gpu", "--output", str(tmp_path / "report.md")])
    message = r"make gpu needs a GPU, and runs nothing without one. Missing:\n- .*cupy"
    with pytest.raises(SystemExit, match=message) as caught:
        gpu.main()
    assert str(caught.value.code).count("\n") >= 1
    assert not list(tmp_path.iterdir())


def test_the_steps_name_files_and_modules_that_exist():
    for step in gpu.STEPS:
        module, *words = step.command.split()
        assert find_spec(module), step
        paths = [word for word in words if "/" in word and str(gpu.FOLDER) not in word]
        assert all((gpu.ROOT / path).exists() for path in paths), step


@pytest.mark.slow
def test_the_training_runs(tmp_path):
    """On a CPU, for two steps: spaCy accepts all settings of the command."""
    for title in "Conversion of train", "Conversion of dev", "Training on the CPU":
        step = next(step for step in gpu.STEPS if step.title == title)
        command = step.command.replace(str(gpu.FOLDER), str(tmp_path))
        if "Training" in title:
            command += " --training.max_steps 2"
        assert gpu.run_step(step._replace(command=command), 300).problem == ""
    assert gpu.compare_trainings(tmp_path).problem == "a training failed"
    (tmp_path / "CPU").rename(tmp_path / "GPU")
    shutil.copytree(tmp_path / "GPU", tmp_path / "CPU")
    assert gpu.compare_trainings(tmp_path).problem == ""


def test_a_call_continues_the_last_one_and_writes_after_each_step(tmp_path, monkeypatch, capsys):
    steps = [
        gpu.Step("Good", "platform", 1),
        gpu.Step("Bad", "no_such_module", 1),
        gpu.Step("Tool", "platform", 1, "no-such-tool --option"),
        gpu.Step("Long", "http.server 0", 1),
        gpu.Step("Last", "platform", 1000),
    ]
    monkeypatch.setattr(gpu, "STEPS", steps)
    monkeypatch.setattr(gpu, "find_missing", lambda: [])
    monkeypatch.setattr(gpu, "FOLDER", tmp_path)
    output = tmp_path / "report.md"
    monkeypatch.setattr(sys, "argv", ["gpu", "--output", str(output), "--seconds", "5"])
    with pytest.raises(SystemExit) as stopped:
        gpu.main()
    assert stopped.value.code == 2 and "1 steps are left" in capsys.readouterr().out
    problems = [
        "",
        "exit status 1",
        "not run: no-such-tool is missing",
        "stopped: no time was left",
    ]
    assert [outcome.problem for outcome in gpu.read(output)] == problems
    monkeypatch.setattr(gpu, "run_step", lambda step, _: gpu.Outcome(*step[:2], 0, "", ""))
    with pytest.raises(SystemExit) as stopped:
        gpu.main()
    assert stopped.value.code == 1
    text = output.read_text()
    for outcome in gpu.read(output):
        assert f"## {outcome.title}" in text and f"| {outcome.problem or 'passed'} |" in text
    assert "No module named no_such_module" in text
    monkeypatch.setattr(gpu, "find_commit", lambda: "0000000")
    assert gpu.read(output) == []


def test_the_check_and_the_speeds_run_without_a_gpu(monkeypatch, capsys, tmp_path):
    """The commands of `make gpu`, with the CPU in place of the GPU."""
    pytest.importorskip("torchcrf")
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    for name, sizes in (("SIZES", [(2, 5, 4)]), ("TORCH_SIZES", [(2, 5, 4)]), ("WORDS", 400)):
        monkeypatch.setattr(device_speed, name, sizes)
    arguments = [*device_speed.PARTS, "--device", "cpu", "--rounds", "2"]
    monkeypatch.setattr(sys, "argv", ["device_speed", *arguments])
    device_speed.main()
    shown = capsys.readouterr().out
    for row in *device_speed.HEADS, "2 x 5 x 4", "x decode", *device_speed.COMPONENTS:
        assert row in shown
    check = ["device_check", "--device", "cpu", "--tags", "2", "5", "--scales", "2"]
    monkeypatch.setattr(sys, "argv", check)
    with pytest.raises(SystemExit) as stopped:
        device_check.main()
    assert stopped.value.code == 0
    assert "216 results compared, 0 differ" in capsys.readouterr().out
