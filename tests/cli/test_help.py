"""The help of the command group."""

import re

import pytest
from spacy_commands import run_spacy
from typer.testing import CliRunner

from spacy_bcrf.cli import PANELS, app
from spacy_bcrf.cli.annotate_cli import FAILED_DOCUMENTS, UNREAD_INPUT
from spacy_bcrf.cli.monitor_cli import DRIFT


def test_the_help_lists_every_command_once_by_topic():
    output = run_spacy("bcrf", "--help")
    shown = re.findall(r"^  (\w+) +\S", output.partition("Commands")[2] or output, re.MULTILINE)
    commands = [command.name for command in app.registered_commands if not command.hidden]
    order = [name for names in PANELS.values() for name in names if name in commands]
    assert sorted(order) == sorted(commands)
    assert [name for name in shown if name in commands] == order
    topics = re.findall(r"^(\w+):$", output, re.MULTILINE)
    assert [topic for topic in topics if topic in PANELS] == [
        topic for topic, names in PANELS.items() if set(names) & set(commands)
    ]


def test_the_help_has_the_exit_codes():
    codes = re.findall(r"(?:codes:|,) (\d+)", " ".join(run_spacy("bcrf", "--help").split()))
    assert sorted(map(int, codes)) == sorted({1, 2, 130, FAILED_DOCUMENTS, UNREAD_INPUT, DRIFT})


@pytest.mark.parametrize("option", ["--style foo", "--threshold foo"])
def test_wrong_options_have_no_prefix_of_the_library_that_checks_them(option):
    result = CliRunner().invoke(app, ["redact", "model", *option.split()])
    assert result.exit_code == 2 and f"'{option.split()[0]}': " in result.output
    assert "error," not in result.output
