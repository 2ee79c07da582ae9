"""Files of a release: what PyPI, conda, GitHub and spaCy's universe read."""

import configparser
import importlib.metadata
import json
import os
import re
import runpy
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import srsly
from setuptools import Distribution
from setuptools.errors import PlatformError

import spacy_bcrf

ROOT = Path(__file__).resolve().parent.parent


def test_the_example_of_the_universe_prints_its_output(capsys):
    (entry,) = json.loads((ROOT / "universe.json").read_text())["resources"]
    code = "\n".join(entry["code_example"])
    exec(code, {})
    assert capsys.readouterr().out == code.rpartition("# ")[2] + "\n"


def test_versions_agree():
    citation = srsly.read_yaml(ROOT / "CITATION.cff")
    recipe = srsly.read_yaml(ROOT / "conda/recipe.yaml")
    assert citation["version"] == recipe["context"]["version"] == spacy_bcrf.__version__


def test_requirements_agree():
    metadata = configparser.ConfigParser()
    metadata.read(ROOT / "setup.cfg")
    lines = metadata["options"]["install_requires"].split("\n")
    required = {line.replace(">=", " >=", 1) for line in lines if line and line[0] != "#"}
    recipe = srsly.read_yaml(ROOT / "conda/recipe.yaml")
    assert set(recipe["requirements"]["run"]) - {"python >=3.10"} == required


def test_readme_has_no_relative_links_on_pypi():
    description = importlib.metadata.metadata("spacy-bcrf").get_payload()
    assert "## Entities with probabilities" in description
    assert re.findall(r"\]\((?!https?:|#)[^)]*\)", description) == []


def test_links_of_readme_become_absolute():
    absolute_links = runpy.run_path(str(ROOT / "setup.py"))["absolute_links"]
    rest = "[a site](https://b.org), [here](#part)"
    text = f"![a picture](docs/a.svg) of [a *page*](docs/a.md#part), {rest}"
    of_tag = "https://host/x/{}/v1.0/docs/"
    assert absolute_links(text, "https://host/x/", "1.0") == (
        f"![a picture]({of_tag.format('raw')}a.svg) of "
        f"[a *page*]({of_tag.format('blob')}a.md#part), {rest}"
    )
    assert absolute_links(text, None, "1.0") == f" of a *page*, {rest}"


def test_windows_wheels_are_built_by_the_clang_of_visual_studio(tmp_path, monkeypatch):
    find_clang_cl = runpy.run_path(str(ROOT / "setup.py"))["find_clang_cl"]
    tools = tmp_path / "VC/Tools"
    msvc = str(tools / "MSVC/14.44/bin/HostX86/x64/cl.exe")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(PlatformError, match="there is no compiler clang-cl"):
        find_clang_cl(msvc)
    compiler = tools / "Llvm/x64/bin/clang-cl"
    compiler.parent.mkdir(parents=True)
    compiler.touch(mode=0o755)
    assert find_clang_cl(msvc) == str(compiler)


def test_the_workflow_builds_each_platform_and_publishes_tags():
    workflow = srsly.read_yaml(ROOT / ".github/workflows/wheels.yml")
    systems = {
        job["os"].split("-")[0]
        for job in workflow["jobs"]["wheels"]["strategy"]["matrix"]["include"]
    }
    assert systems == {"ubuntu", "macos", "windows"}
    publish = workflow["jobs"]["publish"]
    assert {*publish["needs"]} == workflow["jobs"].keys() - {"publish"}
    # The last step of the clean container has neither a network nor the sources to compile.
    *_, step = workflow["jobs"]["offline"]["steps"]
    assert "--network none" in step["run"] and "--no-index --find-links" in step["run"]
    assert publish["permissions"] == {"id-token": "write"} and "refs/tags/v" in publish["if"]


def test_actions_and_images_are_pinned_by_digest_and_tools_by_version():
    for path in (ROOT / ".github/workflows").glob("*.yml"):
        text = path.read_text()
        for action in re.findall(r"uses: (?!\./)(.*)", text):
            assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), (path, action)
        for tools in re.findall(r"run: pip install (.*)", text):
            assert all("==" in tool for tool in tools.split()), (path, tools)
    images = re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert len(images) == 2
    assert all(re.fullmatch(r"python:3\.12-slim@sha256:[0-9a-f]{64}", image) for image in images)


def test_each_week_an_audit_reads_the_requirements_of_all_extras_that_users_install():
    workflow = srsly.read_yaml(ROOT / ".github/workflows/audit.yml")
    assert workflow["on"]["schedule"]
    audited = workflow["jobs"]["requirements"]["strategy"]["matrix"]["extras"]
    metadata = configparser.ConfigParser()
    metadata.read(ROOT / "setup.cfg")
    of_developers = {"bench", "browser", "dev", "docs", "label-studio", "models"}
    of_developers |= {"remote-test", "tables-test", "tokenizers-test", "torch-test"}
    of_gpus = {"cuda12x", "cuda13x", "nvrtc"}
    extras = {*metadata["options.extras_require"]} - of_developers - of_gpus
    assert {name for names in audited for name in names.split(",")} == extras


def test_ci_begins_with_the_two_commands_of_the_readme():
    commands = re.findall(r"^make .*", (ROOT / "README.md").read_text(), re.MULTILINE)
    typed = [command.partition("#")[0].strip() for command in commands]
    assert typed == ["make quickstart", "make test"]
    assert re.findall(r"^make .*", (ROOT / ".ci/run").read_text(), re.MULTILINE)[:2] == typed


def test_the_check_of_wheels_runs(capsys):
    sys.path.insert(0, str(ROOT / "tests"))
    from wheel_check import main

    main()
    assert "Ada Lovelace" in capsys.readouterr().out


@pytest.mark.slow
def test_without_a_compiler_the_error_says_what_to_install(tmp_path):
    if not (ROOT / "bcrf/kernels/native.pyx").exists():
        pytest.skip("the sources lie elsewhere: the tests run against a wheel")
    command = [sys.executable, "setup.py", "-q", "build_ext", "--force"]
    command += ["--build-temp", str(tmp_path), "--build-lib", str(tmp_path)]
    env = os.environ | {"CC": "no-compiler", "CXX": "no-compiler"}
    env.pop("BCRF_OBJECTS", None)
    run = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert run.returncode != 0
    assert "no-compiler" in run.stderr and "apt-get install g++" in run.stderr


def test_an_archive_has_equal_bytes_from_files_of_any_time_owner_and_mask(tmp_path, monkeypatch):
    command = runpy.run_path(str(ROOT / "setup.py"))["ReproducibleArchive"](Distribution())
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    found = []
    for i, modes in enumerate([(0o644, 0o755), (0o600, 0o700)]):
        folder = tmp_path / str(i) / "a-1.0"
        folder.mkdir(parents=True)
        for name, mode in zip(("a.py", "run"), modes, strict=True):
            (folder / name).write_text(name)
            (folder / name).chmod(mode)
            os.utime(folder / name, (i, i))
        path = Path(
            command.make_archive(str(tmp_path / f"{i}/out"), "gztar", folder.parent, "a-1.0")
        )
        found.append(path.read_bytes())
    assert found[0] == found[1]
    with tarfile.open(path) as archive:
        members = {each.name: (each.mode, each.mtime) for each in archive}
    modes = {"a-1.0": 0o755, "a-1.0/a.py": 0o644, "a-1.0/run": 0o755}
    assert members == {name: (mode, 1_700_000_000) for name, mode in modes.items()}
