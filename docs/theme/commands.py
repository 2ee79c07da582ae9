"""Write docs/commands.md, the reference of `python -m spacy bcrf`, from the commands' help.

    python docs/theme/commands.py > docs/commands.md

The site's build has no compiled modules, so the page is stored. `tests/test_docs.py` compares it.
"""

import inspect
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from types import NoneType
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from typer import Context
from typer.models import ArgumentInfo

from spacy_bcrf.cli import PANELS, app

EXIT_CODES = app.info.help.partition("pipeline. ")[2]
HEAD = f"""The `--help` of `python -m spacy bcrf`. `--option=value` shows a default. {EXIT_CODES}
Most commands print a possible next command on standard error, after `next:`. An output file has the
suffix of its format; a new one may omit it. An output folder must be new or empty. No command
replaces its input or a file of a pipeline, and a config only with `--force`. If a command replaces
another file, a note names it."""


class Parameter(NamedTuple):
    """An argument or option. kind: its choices, VALUE for any value, empty for a flag."""

    names: str
    kind: str
    help: str
    default: str
    is_argument: bool


def main() -> None:
    print("\n".join(lines()))


def lines() -> Iterator[str]:
    """Yield the lines of the page. Shared parameters come first, once."""
    functions = {command.name: command.callback for command in app.registered_commands}
    counts = Counter(each for function in functions.values() for each in parameters(function))
    common = [each for each, count in counts.items() if count > 1]
    yield f"# Reference: commands\n\n{fill(HEAD)}\n\n## Shared options\n"
    yield from items(common)
    for panel, names in PANELS.items():
        yield f"## {panel}\n"
        for name in names:
            yield from describe(name, functions[name], common)


def describe(name: str, function: Callable[..., Any], common: list[Parameter]) -> Iterator[str]:
    """Yield heading, call, first sentence and parameters of a command."""
    found = list(parameters(function))
    call = [name]
    for each in found:
        if each.is_argument:
            call.append(each.names if each.default == "required" else f"[{each.names}]")
        elif each.default == "required":
            call.append(f"{each.names.split(',')[0]} {each.kind}")
    yield f"### {name}\n\n`{' '.join(call)} [OPTIONS]`\n"
    first, _, _ = " ".join((inspect.getdoc(function) or "").split()).partition(". ")
    yield fill(f"{first.removesuffix('.')}.") + "\n"
    yield from items([each for each in found if each not in common])
    if shared := [f"`{each.names}`" for each in found if each in common]:
        yield f"[Shared](#shared-options): {', '.join(shared)}.\n"


def items(found: list[Parameter]) -> Iterator[str]:
    """Yield a list of parameters. The call says which ones are required, `=` the default."""
    for names, kind, text, default, is_argument in found:
        value = "" if is_argument or kind in ("", "VALUE") else f" {kind}"
        given = f"={default}" if default not in ("", "required") else ""
        yield f"- `{names}{given}{value}`: {escape(text)}"
    yield ""


def fill(text: str) -> str:
    """Wrap a paragraph at the width of the other pages."""
    return textwrap.fill(" ".join(text.split()), 130, break_on_hyphens=False)


def parameters(function: Any) -> Iterator[Parameter]:
    """Yield the arguments and options in their order."""
    hints = get_type_hints(inspect.unwrap(function), include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        annotation, *infos = get_args(hints[name]) or (hints[name],)
        if annotation is Context:
            continue
        (info,) = infos
        is_argument = isinstance(info, ArgumentInfo)
        # In Annotated, Typer takes the first name of an option for its default.
        given = (info.default, *(info.param_decls or ()))
        names = [each for each in given if isinstance(each, str) and each.startswith("--")]
        shown = ", ".join(names or [f"--{name.replace('_', '-')}"])
        if is_argument:
            shown = name.upper() + "..." * (get_origin(annotation) is list)
        yield Parameter(
            shown,
            kind_of(annotation),
            info.help or "",
            default_of(parameter.default),
            is_argument,
        )


def kind_of(annotation: Any) -> str:
    """Return the choices of a value, VALUE for any, or nothing for a flag."""
    kind = annotation
    while inner := [each for each in get_args(kind) if each is not NoneType]:
        if get_origin(kind) is Literal:
            return ", ".join(inner)
        kind = inner[0]  # of T | None, list[T]
    return "" if kind is bool else "VALUE"


def default_of(value: Any) -> str:
    """Return a default as a reader types it."""
    if value is inspect.Parameter.empty:
        return "required"
    if value is None or value is False or value == "":
        return ""
    return str(value)


def escape(text: str) -> str:
    """Escape the characters that start a tag or emphasis."""
    return re.sub(r"([<*_])", r"\\\1", " ".join(text.split()))


if __name__ == "__main__":
    main()
