"""`python -m spacy bcrf explain`"""

from pathlib import Path
from typing import Annotated

import typer
from spacy.cli._util import Opt

from bcrf.chain.potentials import counted
from bcrf.io.atomic import write_text

from .errors import spacy_command
from .options import Model, PipeName
from .paths import check_output_file


def explain_cli(
    model: Model,
    text: Annotated[str | None, Opt("--text", "-t", help="Explain the tags of this text")] = None,
    pipe_name: PipeName = None,
    output: Annotated[
        Path | None, Opt("--output", "-o", help="All weights, .tsv; or the HTML page of --text")
    ] = None,
    corpus: Annotated[Path | None, Opt(help="Corpus of the features (default: train)")] = None,
    n: Annotated[int, Opt("--n", "-n", min=1, help="Features and transitions of a tag")] = 10,
) -> str:
    """
    Show the strongest features and transitions of each tag, for a component with a linear chain.
    With --text, show the marginals of each token and its decisive features.
    """
    from spacy_bcrf.judging.explain import explain
    from spacy_bcrf.loading import annotate_before
    from spacy_bcrf.serve.pages.lattice_page import lattice_page

    from .labeler import load_labeler

    if output is None and text is not None:
        output = Path("explain.html")
    check_output_file(output, ".tsv" if text is None else ".html", corpus)
    nlp, name, pipe = load_labeler(model, pipe_name)
    if text is not None and output is not None:
        doc = next(annotate_before(nlp, name, [nlp.make_doc(text)]))
        if not len(doc):
            raise ValueError("the text has no tokens")
        write_text(output, lattice_page(pipe, doc))
        typer.echo(f"{output}: {counted(len(doc), 'token')}, {counted(len(pipe.tags), 'tag')}")
        return f"open {output}"
    found = explain(nlp, name, n=n if output is None else None, corpus=corpus)
    if found.problem:
        typer.secho(found.problem, err=True)
    if output is not None:
        weights = [*found.general, *found.features]
        lines = (f"{w.tag}\t{w.feature}\t{w.weight:.6g}\n" for w in weights)
        write_text(output, "".join(["tag\tfeature\tweight\n", *lines]))
        typer.echo(f"{output}: {len(weights):,} weights")
    else:
        typer.echo(found)
    if found.n_unnamed:
        why = "" if found.problem else ", because the corpus does not have them"
        keys = f"{found.n_unnamed:,} features are shown by their keys{why}"
        typer.secho(f"{keys}; expected the training corpus as --corpus", err=True)
    return spacy_command("bcrf", "explain", model, text="TEXT", pipe=pipe_name)
