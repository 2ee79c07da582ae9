"""spaCy's commands in the process of the tests.

A new interpreter imports spaCy and PyTorch for seconds.
"""

from io import StringIO
from pathlib import Path
from typing import Any

from spacy.cli._util import app
from spacy.training.initialize import init_nlp
from spacy.training.loop import train as training_loop
from spacy.util import load_config, registry
from typer.testing import CliRunner


def run_spacy(*arguments: object) -> str:
    """Run `python -m spacy *arguments` and return its output. AssertionError if it fails."""
    registry.cli.get_all()  # adds the command `bcrf`
    result = CliRunner().invoke(app, [*map(str, arguments)])
    assert result.exit_code == 0, f"{result.output}\n{result.exception}"
    return result.output


def train(config: Path, output: Path, overrides: dict[str, Any], log: StringIO) -> None:
    """Train with a config as `spacy train` does. The log gets the table of scores."""
    output.mkdir()
    nlp = init_nlp(load_config(config, overrides, interpolate=False))
    training_loop(nlp, output, stdout=log, stderr=log)
