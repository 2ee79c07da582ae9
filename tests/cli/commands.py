"""Commands of `python -m spacy bcrf` in the process of the tests."""

from collections.abc import Callable

from click.testing import Result
from typer.testing import CliRunner

from spacy_bcrf.cli import app


def command(name: str) -> Callable[..., Result]:
    """Return a function that runs a command with arguments.

    The function raises AssertionError with the output if the exit status is not `exit_code`.
    """

    def run(*arguments: object, exit_code: int = 0) -> Result:
        result = CliRunner().invoke(app, [name, *map(str, arguments)])
        assert result.exit_code == exit_code, result.output
        return result

    return run
