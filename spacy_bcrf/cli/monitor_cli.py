"""`python -m spacy bcrf monitor`"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from spacy.cli._util import Arg, Opt
from spacy.tokens import Doc

from bcrf.io.atomic import write_text

from .errors import spacy_command
from .options import GpuId, PipeName
from .paths import Existing, check_output_file, print_note

DRIFT = 3
"""Exit code of a run that finds drift."""


def monitor_cli(
    model: Annotated[str, Arg(help="Trained pipeline with a promise")],
    new: Annotated[list[Path], Arg(help="New texts, in the order of time: files as for `rank`")],
    reference: Annotated[Path | None, Opt(help="Documents of `control`, .spacy or texts")] = None,
    state: Annotated[Path | None, Opt(help="Watch, .json: the next call goes on")] = None,
    page: Annotated[Path | None, Opt(help="HTML page to write")] = None,
    pipe: PipeName = None,
    gpu_id: GpuId = -1,
) -> str:
    """
    Watch whether new texts are like the documents of a promise.
    Prints one JSON line for each file. It may run daily: with --state, all calls together raise a
    false alarm with probability 0.05 at most. The file keeps counts, and no text.
    Exit code 3: drift. It says how many labeled documents `control` needs to promise anew.
    """
    from spacy_bcrf.corpora.text_docs import read_text_docs
    from spacy_bcrf.promises.monitor import Watch, monitor
    from spacy_bcrf.serve.pages import render

    from .labeler import load_labeler

    check_output_file(state, ".json", reference, *new, existing=Existing.REPLACE)
    check_output_file(page, ".html", reference, *new)
    goes_on = state is not None and state.exists()
    if goes_on and reference is not None:
        raise ValueError(f"{state} goes on with its own reference; leave out --reference")
    nlp, name, _ = load_labeler(model, pipe, gpu_id)
    since: Watch | Iterable[Doc]
    if reference is not None:
        since = read_text_docs(reference, nlp, print_note)
    elif state is not None and goes_on:
        try:
            since = Watch.from_json(json.loads(state.read_text(encoding="utf8")))
        except (ValueError, RecursionError):  # also of `json` and of the decoder
            problem = "is no file of `monitor`; expected one that it wrote, or a new name and"
            raise ValueError(f"{state}: {problem} --reference") from None
    else:
        raise ValueError("a new watch needs --reference, the documents of `control`")
    lines = []
    for path in new:
        found = monitor(nlp, read_text_docs(path, nlp, print_note), since, name)
        if not found.n_docs:
            raise ValueError(f"{path}: has no texts; expected new documents")
        since = found.watch
        lines.append(json.dumps({"file": str(path), **found.to_json()}, ensure_ascii=False))
    if state is not None:
        write_text(state, json.dumps(found.watch.to_json()))
    if page is not None:
        title = f"Drift of {name} of {model}"
        write_text(page, render("drift.html", title=title, found=found))
    for line in lines:
        typer.echo(line)
    typer.echo(found.message, err=True)
    if found.alarm:
        raise typer.Exit(DRIFT)
    if state is None:
        return "the same command with --state watch.json, to go on with these counts"
    return spacy_command("bcrf", "monitor", model, "NEW", state=state, pipe=pipe)
