"""`python -m spacy bcrf audit`"""

from pathlib import Path
from typing import Annotated, Any

import typer
from spacy.cli._util import Arg, Opt

from bcrf.io.atomic import write_text
from spacy_bcrf.readers.doc_files import check_corpus, read_own_docs

from .errors import spacy_command
from .options import Lang, PipeName, Work
from .paths import check_output_file, keep_parts, write_json_lines


def audit_cli(
    corpus: Annotated[Path, Arg(help="Annotated documents, .spacy", metavar="CORPUS")],
    output: Annotated[Path, Opt("--output", "-o", help="JSON lines to write")],
    source: Annotated[
        str | None,
        Arg(help="Config to train, or a pipeline not trained on it", metavar="CONFIG|MODEL"),
    ] = None,
    page: Annotated[Path | None, Opt(help="HTML page to write")] = None,
    folds: Annotated[int, Opt(help="Number of parts of the corpus", min=2)] = 5,
    work: Work = None,
    lang: Lang = "xx",
    pipe: PipeName = None,
) -> str | None:
    """
    Find label errors: gold annotation that is less likely than another one. Trains on all parts of
    the corpus but one, judges that part, and does so for each part. Writes the most suspicious
    annotation first. Run the same command again to resume after an interruption.
    """
    from spacy_bcrf.judging.audit import audit
    from spacy_bcrf.serve.pages import render

    from .labeler import load_labeler

    inputs = corpus, None if source is None else Path(source)
    check_output_file(output, ".jsonl .json", *inputs)
    check_output_file(page, ".html", *inputs, output)
    check_corpus(corpus)
    docs = list(read_own_docs(corpus))
    judge: Any = source
    if source is not None and not source.endswith(".cfg"):
        judge, pipe, _ = load_labeler(source, pipe)
        typer.echo(
            f"Warning: {source} must not be trained on {corpus}: a pipeline repeats the errors "
            "that it learned",
            err=True,
        )
    options: Any = {"folds": folds, "lang": lang}
    with keep_parts(work, output, "folds") as folder:
        found = audit(docs, judge, pipe, work=folder, corpus=str(corpus), **options)
        if page is not None:
            options = {"script": "rows.js", "title": f"Label suspects of {corpus.name}"}
            write_text(page, render("audit.html", records=found.records, **options))
        write_json_lines(output, found.records)
    typer.echo(f"{output}: {found!r}")
    if not found.records:
        return None
    review = "review", "MODEL", corpus, "--suspects", output, "--output", "page.html"
    return f"{spacy_command('bcrf', *review)}, with any pipeline that has these labels"
