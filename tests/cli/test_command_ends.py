"""Paths and ends of commands: none replaces its input, or mixes its output with other files."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest
import typer
from commands import command
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab
from typer.testing import CliRunner

import bcrf
from spacy_bcrf.cli import app
from spacy_bcrf.cli.errors import make_command, spacy_command
from spacy_bcrf.cli.paths import check_output_file, write_report

CALLS = [
    ("audit", "input", "-o", "input"),
    ("audit", "input", "-o", "link"),
    ("audit", "folder", "-o", "folder/part"),
    ("audit", "other", "-o", "out.jsonl", "--page", "other"),
    ("clusters", "input", "-o", "input"),
    ("explain", "model", "--corpus", "input", "-o", "input"),
    ("migrate", "input", "-o", "input"),
    ("rank", "model", "input", "-o", "./input"),
    ("review", "model", "input", "-o", "folder/../input"),
]
OF_ANOTHER_KIND = [
    ("audit", "data.spacy", "-o", "notes"),
    ("audit", "data.spacy", "-o", "new.jsonl", "--page", "notes"),
    ("calibrate", "model", "data.spacy", "-o", "new", "--plot", "notes"),
    ("clusters", "data.spacy", "-o", "notes"),
    ("control", "model", "data.spacy", "--plot", "notes"),
    ("convert", "data.spacy", "notes"),
    ("curve", "data.spacy", "data.spacy", "-o", "notes"),
    ("curve", "data.spacy", "data.spacy", "--plot", "notes"),
    ("explain", "model", "-o", "notes"),
    ("explain", "model", "--text", "Ann", "-o", "all.tsv"),
    ("init", "-t", "data.spacy", "-o", "notes", "--force"),
    ("migrate", "data.spacy", "-o", "notes"),
    ("monitor", "model", "data.spacy", "--state", "notes"),
    ("monitor", "model", "data.spacy", "--page", "notes"),
    ("rank", "model", "data.spacy", "-o", "model/config.cfg"),
    ("redact", "model", "data.spacy", "-o", "model/config.cfg"),
    ("review", "model", "data.spacy", "-o", "model/config.cfg"),
    ("tune", "data.spacy", "-o", "notes"),
]
OF_A_PIPELINE = [
    ("init", "-t", "data.spacy", "-o", "model/config.cfg", "--force"),
    ("migrate", "data.spacy", "-o", "model/config.cfg"),
    ("redact", "model", "data.spacy", "-o", "new.jsonl", "--report", "model/meta.json"),
    ("report", "model", "data.spacy", "-o", "model/meta.json"),
    ("tune", "data.spacy", "-o", "model/config.cfg"),
]


@pytest.fixture
def folder(here):
    (here / "folder").mkdir()
    for name in ("input", "other", "folder/part"):
        (here / name).write_text("precious")
    (here / "link").symlink_to("input")
    return here


@pytest.mark.parametrize("name, arguments", [(name, rest) for name, *rest in CALLS])
def test_an_input_is_not_replaced(folder, name, arguments):
    result = command(name)(*arguments, exit_code=1)
    assert "would replace the input" in result.output
    assert {path.read_text() for path in folder.rglob("*") if path.is_file()} == {"precious"}


@pytest.mark.parametrize("name, arguments", [(name, rest) for name, *rest in OF_ANOTHER_KIND])
def test_only_a_file_of_the_kind_is_written(here, name, arguments):
    for path in ("notes", "notes.pdf"):  # an old file and a new one
        given = [path if argument == "notes" else argument for argument in arguments]
        ended, texts = run_among_files(here, name, given)
        assert ": expected a file with the suffix ." in ended.stderr
        assert texts == {"precious"}


@pytest.mark.parametrize("name, arguments", [(name, rest) for name, *rest in OF_A_PIPELINE])
def test_the_files_of_a_pipeline_are_not_replaced(here, name, arguments):
    ended, texts = run_among_files(here, name, arguments)
    assert "is a file of a pipeline; expected a file in another folder" in ended.stderr
    assert texts == {"precious"}


OLD_FILES = [
    ("audit", "data.spacy", "-o", "old.jsonl"),
    ("audit", "data.spacy", "-o", "new.jsonl", "--page", "old.html"),
    ("calibrate", "model", "data.spacy", "-o", "new", "--plot", "old.png"),
    ("clusters", "none.txt", "-o", "old.tsv"),
    ("control", "model", "data.spacy", "--plot", "old.png"),
    ("convert", "none.conll", "old.spacy"),
    ("curve", "data.spacy", "data.spacy", "-o", "old.json"),
    ("explain", "model", "-o", "old.tsv"),
    ("explain", "model", "--text", "Ann", "-o", "old.html"),
    ("monitor", "model", "data.spacy", "--page", "old.html"),
    ("rank", "model", "data.spacy", "-o", "old.jsonl"),
    ("redact", "model", "data.spacy", "-o", "old.jsonl"),
    ("redact", "model", "data.spacy", "-o", "new.jsonl", "--report", "old.html"),
    ("report", "model", "data.spacy", "-o", "old.html"),
    ("review", "model", "data.spacy", "-o", "old.html"),
]


@pytest.mark.parametrize("name, arguments", [(name, rest) for name, *rest in OLD_FILES])
def test_a_note_names_a_file_that_is_replaced_before_the_work_begins(here, name, arguments):
    old = next(argument for argument in arguments if argument.startswith("old"))
    command(name)(*arguments, exit_code=1)
    (here / old).write_text("precious")
    ended, texts = run_among_files(here, name, arguments)
    assert ended.stderr.startswith(f"Note: {old} will be replaced\n")
    assert texts == {"precious"}


@pytest.mark.parametrize(
    "name, arguments",
    [(name, rest) for name, *rest in (*OLD_FILES, ("annotate", "model", "all.tsv", "-o", "old"))],
)
def test_an_output_that_links_to_itself_is_named(here, name, arguments):
    old = next(argument for argument in arguments if argument.startswith("old"))
    for link, target in ((old, old), (old, "next"), ("next", old)):
        (here / link).unlink(missing_ok=True)
        (here / link).symlink_to(target)
    ended, _ = run_among_files(here, name, arguments)
    assert f"{old}: is a link that leads to itself" in ended.stderr
    assert (here / old).is_symlink()


@pytest.mark.parametrize(
    "name, arguments",
    [("init", ("-t", "data.spacy")), ("migrate", ("data.spacy",)), ("tune", ("data.spacy",))],
)
def test_a_config_is_replaced_by_force_alone(here, name, arguments):
    (here / "old.cfg").write_text("precious")
    problem = "old.cfg exists; expected another --output, or --force"
    for options, is_kept in ([], True), (["--force"], False):
        ended, texts = run_among_files(here, name, (*arguments, "-o", "old.cfg", *options))
        assert (problem in ended.stderr) == is_kept
        assert texts == {"precious"}  # also by force: no input can be read


def run_among_files(here, name, arguments):
    (here / "model").mkdir(exist_ok=True)
    for file in ("data.spacy", "notes", "all.tsv", "model/config.cfg", "model/meta.json"):
        (here / file).write_text("precious")
    ended = command(name)(*arguments, exit_code=1)
    return ended, {path.read_text() for path in here.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["out.tsv.xz", "out.gz.gz", "out.jsonl.bz2"])
def test_an_output_is_not_compressed(folder, name):
    result = command("rank")("model", "input", "-o", name, exit_code=1)
    assert f"{name}: expected a file with the suffix .jsonl or .json" in result.output
    assert not (folder / name).exists()


def test_suffixes_in_capitals(here):
    for path in (Path("OUT.JSONL"), here / "new.Json", Path(os.devnull)):
        check_output_file(path, ".jsonl .json")
    write_report(here / "REPORT.HTML", {".html": lambda: "a page"}, {})
    assert (here / "REPORT.HTML").read_text() == "a page"


@pytest.mark.parametrize("name", ["calibrate", "control"])
def test_a_pipeline_is_not_saved_among_other_files(folder, name):
    (folder / "dev.spacy").touch()
    promise = ["--recall", 0.9] if name == "control" else []
    result = command(name)("model", "dev.spacy", "-o", "folder", *promise, exit_code=1)
    assert "folder: expected a new or empty folder" in result.output


def test_ctrl_c_is_reported(capsys):
    def stop():
        raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as raised:
        make_command("audit", stop)()
    assert raised.value.exit_code == 130
    assert capsys.readouterr().err == "Stopped. The same command goes on from here\n"


def test_errors_of_the_system_name_the_file_first(capsys):
    with pytest.raises(typer.Exit):
        make_command("audit", lambda: Path("missing").read_text())()
    assert capsys.readouterr().err == f"missing: {os.strerror(2)}\n"


def test_a_missing_config_of_sources_is_named(here):
    (here / "raw.txt").write_text("Ann left\n")
    ended = command("aggregate")("raw.txt", "-s", "none.cfg", "-o", "out", exit_code=1)
    assert ended.stderr == f"none.cfg: {os.strerror(2)}\n"


def test_ctrl_c_while_the_commands_are_imported_shows_no_traceback():
    code = """
import importlib, spacy.cli
def stop(*_): raise KeyboardInterrupt
importlib.import_module = stop
import spacy_bcrf.cli"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "")


def test_commands_return_their_next_step():
    """`serve` prints its own before it waits for requests. `audit` may find no suspects.

    To standard output there is none.
    """
    returned = {
        command.name: get_type_hints(command.callback)["return"]
        for command in app.registered_commands
        if not command.hidden
    }
    others = {name: each for name, each in returned.items() if each is not str}
    none = type(None)
    ends = dict.fromkeys(("serve", "export", "restore", "verify"), none)
    assert others == ends | dict.fromkeys(("audit", "rank", "redact"), str | None)


def test_the_next_step_is_quoted_for_the_shell(here):
    (here / "my data").mkdir()
    corpus = here / "my data" / "train $1.iob"
    corpus.write_text("Ann|B-PER left|O\n" * 20)
    step = command("init")("-o", "round 2/config.cfg", "-t", corpus).step
    assert shlex.split(step)[-3:] == ["round 2/config.cfg", "--output", "round 2/out"]
    step = command("convert")(corpus, "a b.spacy").step
    assert shlex.split(step)[-2:] == ["debug", "a b.spacy"]


def test_the_next_step_has_the_options_of_this_one():
    assert spacy_command("train", "a b", pipe=None, code=Path("x.py")) == (
        "python -m spacy train 'a b' --code x.py"
    )
    assert spacy_command("x", lang="en").endswith("x --lang en")
    assert spacy_command("x", lang="xx").endswith("x")  # the default


LANGUAGE_COMMANDS = [
    command
    for command in app.registered_commands
    if get_type_hints(command.callback).get("lang") is str
]


@pytest.mark.parametrize("name", [each.name for each in LANGUAGE_COMMANDS])
def test_an_unknown_language_is_an_error_before_the_work_begins(here, name):
    required = {"audit": ("x",), "curve": ("x", "y"), "aggregate": ("x", "-s", "y")}
    required |= {"convert": ("x", "o.spacy"), "distill": ("x",)}
    output = () if name == "convert" else ("-o", "o")
    result = command(name)(*required.get(name, ()), *output, "--lang", "qq", exit_code=2)
    said = " ".join(result.stderr.replace("│", " ").split())
    assert "'--lang' / '-l': unknown language 'qq'; expected a code of spaCy, or xx" in said
    assert not [*here.glob("o*")]


def test_every_command_with_a_language_is_checked():
    assert {each.name for each in LANGUAGE_COMMANDS} == {
        *("aggregate", "audit", "clusters", "convert", "curve", "distill", "init")
    }


def test_the_version():
    assert CliRunner().invoke(app, ["--version"]).output == f"{bcrf.__version__}\n"


@pytest.mark.parametrize("name", ["calibrate", "combine", "control", "redact"])
def test_errors_name_the_input(here, pipeline, name):
    model, bare, empty = pipeline / "model", here / "bare.spacy", here / "empty.jsonl"
    DocBin(docs=[Doc(Vocab(), words=["Ann"])] * 3).to_disk(bare)
    empty.write_text("")
    arguments = {
        "calibrate": (model, bare),
        "combine": (model, model, "--dev", bare),
        "control": (model, bare, "--recall", "0.5"),
        "redact": (model, empty, "--threshold", "0.5"),
    }[name]
    given = next(path for path in arguments if path in (bare, empty))
    ended = command(name)(*arguments, "-p", "ner", "-o", here / "new.jsonl", exit_code=1)
    assert str(given) in ended.stderr and len(ended.stderr.splitlines()) == 1
    assert not (here / "new.jsonl").exists()
