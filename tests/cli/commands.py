"""Commands of `python -m spacy bcrf` in the process of the tests."""

from collections.abc import Callable
from dataclasses import dataclass

from typer.testing import CliRunner

from spacy_bcrf.cli import app


@dataclass
class Ended:
    """A command that ended.

    output: standard output and error as a terminal shows them, stderr: without the next step, which
    is in `step` alone. exception: of the exit, or an unexpected one.
    """

    exit_code: int
    output: str
    stdout: str
    stderr: str
    step: str | None
    exception: BaseException | None


def command(name: str) -> Callable[..., Ended]:
    """Return a function that runs a command with arguments.

    The function raises AssertionError with the output if the exit status is not `exit_code`. stdin:
    the standard input of the command.
    """

    def run(*arguments: object, exit_code: int = 0, stdin: bytes = b"") -> Ended:
        result = CliRunner().invoke(app, [name, *map(str, arguments)], input=stdin)
        assert result.exit_code == exit_code, result.output
        *_, last = ["", *result.stderr.splitlines()]
        line = f"{last}\n" if last.startswith("next: ") else ""
        return Ended(
            result.exit_code,
            result.output.removesuffix(line),
            result.stdout,
            result.stderr.removesuffix(line),
            last.removeprefix("next: ") if line else None,
            result.exception,
        )

    return run
