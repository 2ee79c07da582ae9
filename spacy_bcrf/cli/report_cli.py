"""`python -m spacy bcrf report`"""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from spacy.cli._util import Opt

from spacy_bcrf.readers.doc_files import check_corpus

from .errors import spacy_command
from .options import GoldCorpus, GpuId, Model, PipeName
from .paths import check_output_file, print_notes, write_report


def report_cli(
    model: Model,
    test: GoldCorpus,
    output: Annotated[list[Path], Opt("--output", "-o", help=".html, .md or .json. Repeatable")],
    against: Annotated[str | None, Opt(help="Another pipeline with this annotation")] = None,
    pipe: PipeName = None,
    gpu_id: GpuId = -1,
) -> str:
    """
    Judge a component on gold documents: precision, recall and F by label with bootstrap intervals,
    kinds of errors, calibration, confusions with examples, the most and the least certain errors.
    With --against, the differences from another pipeline and their significance. Writes one HTML
    page that needs no network, JSON, or Markdown for a model card.
    """
    from spacy_bcrf.judging.report import report
    from spacy_bcrf.loading import load_pipeline, read_gold_docs
    from spacy_bcrf.promises.seen import note_trained
    from spacy_bcrf.serve.pages.report_page import report_markdown, report_page

    from .labeler import load_labeler

    for path in output:
        check_output_file(path, ".html .md .json", test)
    check_corpus(test)
    nlp, name, _ = load_labeler(model, pipe, gpu_id)
    other = None if against is None else load_pipeline(against)
    names = model, str(against), str(test)
    gold = read_gold_docs(nlp, test)
    found = report(nlp, gold, name, against=other, names=names)
    pages = {".html": partial(report_page, found.values)}
    pages[".md"] = partial(report_markdown, found.values)
    for path in output:
        write_report(path, pages, found.to_json())
        typer.echo(f"{path}: {found!r}")
    print_notes([*found.values["notes"], *note_trained(nlp, gold, str(test))])
    page = next((path for path in output if path.suffix.lower() == ".html"), output[0])
    step = spacy_command("bcrf", "review", model, "TEXTS", output="page.html", pipe=pipe)
    return f"open {page}. To correct texts: {step}"
