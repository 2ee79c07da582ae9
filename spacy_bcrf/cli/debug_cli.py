"""`python -m spacy bcrf debug`"""

import json
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer
from spacy.cli._util import Arg, Opt, import_code, parse_config_overrides

from .errors import spacy_command
from .options import Code, parse_labels


def debug_cli(
    inputs: Annotated[list[str], Arg(help="Training config with overrides, or .spacy files")],
    code: Code = None,
    labels: Annotated[str | None, Opt(help="Expected labels of .spacy files, or a file")] = None,
    strict: Annotated[bool, Opt("--strict", help="Exit code 1 for forbidden annotation")] = False,
    as_json: Annotated[bool, Opt("--json", help="Print JSON in place of tables")] = False,
) -> str:
    """
    Count the gold annotation of the training config's corpora, for each component of spacy-bcrf:
    labels, partial and missing annotation, forbidden annotation with the reason, lengths of
    spans, overlaps, and spans with whitespace at an edge. Overrides as in `spacy train`:
    --paths.train train.spacy.

    Or count the annotation of .spacy files, for the components that `init` would choose. With two
    files, the second is the dev part.
    """
    from spacy_bcrf.training.debug import debug, is_corpus

    path, *rest = inputs
    import_code(code)
    if is_corpus(Path(path)):
        if options := [name for name in inputs if name.startswith("-")]:
            raise ValueError(f"{options[0]}: only a training config has overrides")
        found = debug(*inputs, labels=parse_labels(labels) or ())
        flags = ("--train", "--dev") if len(inputs) == 2 else ("--train",) * len(inputs)
        files = chain(*zip(flags, inputs, strict=True))
        step = spacy_command("bcrf", "init", *files, output="model/config.cfg")
    else:
        if labels is not None:
            raise ValueError(f"{path}: a config sets labels itself; set them there")
        found = debug(path, overrides=parse_config_overrides(rest))
        step = spacy_command("train", path, "--output", "out", *rest, code=code)
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2, ensure_ascii=False))
    else:
        for line in found.lines():
            typer.echo(line)
    for note in found.notes:
        typer.echo(f"Warning: {note}", err=as_json)
    if strict and found.has_infeasible:
        raise typer.Exit(1)
    return step
