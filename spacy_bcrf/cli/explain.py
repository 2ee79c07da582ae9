"""`python -m spacy bcrf explain`"""

from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import groupby
from operator import getitem
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from spacy.cli._util import Arg, Opt
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Corpus
from spacy.util import registry
from tqdm import tqdm

from spacy_bcrf.io.atomic import write_text
from spacy_bcrf.layers.linear_chain import sparse_chain
from spacy_bcrf.layers.potential_sum import sparse_weight
from spacy_bcrf.sparse.explain import (
    Weight,
    feature_weights,
    general_weights,
    name_features,
    strongest,
)

from .errors import exit_on
from .labeler import annotate_before, load_labeler
from .options import PipeName
from .pages.lattice import lattice_page
from .paths import check_output_file


def explain_cli(
    model: Annotated[
        str, Arg(help="Trained pipeline: a folder, or the name of a package", metavar="MODEL")
    ],
    text: Annotated[
        str | None, Opt("--text", "-t", help="Explain the tags of this text on an HTML page")
    ] = None,
    pipe_name: PipeName = None,
    output: Annotated[
        Path | None,
        Opt(
            "--output",
            "-o",
            help="Write all weights to this .tsv file; with --text, the HTML page to this file "
            "(default: explain.html)",
        ),
    ] = None,
    corpus: Annotated[
        Path | None,
        Opt(
            "--corpus", help="A .spacy file with the features (default: the config's train corpus)"
        ),
    ] = None,
    n: Annotated[
        int, Opt("--n", "-n", min=1, help="Number of features and transitions of each tag")
    ] = 10,
) -> None:
    """
    Show the strongest features and transitions of each tag, for a component with a linear chain.
    With --text, show the marginals of each token and its decisive features.
    """
    with exit_on(ValueError, OSError):
        if output is not None:
            check_output_file(output, corpus)
        nlp, name, pipe = load_labeler(model, pipe_name)
        if text is not None:
            page = Path("explain.html") if output is None else output
            doc = next(annotate_before(nlp, name, [nlp.make_doc(text)]))
            if not len(doc):
                raise ValueError("the text has no tokens")
            write_text(page, lattice_page(pipe, doc))
            typer.echo(f"{page}: {len(doc)} tokens, {len(pipe.tags)} tags")
            return
        sparse, weight = sparse_chain(pipe.model), sparse_weight(pipe.model)
        if sparse is None:
            raise ValueError(
                f"{name}: only the architectures spacy-bcrf.LinearChain.v1, spacy-bcrf.Hybrid.v1 "
                "and spacy-bcrf.Sum.v1 with one of them as a part have features with names; "
                "expected --text for others"
            )
        rows = strongest(sparse, n) if output is None else None
        wanted = np.arange(sparse.learner.n_features) if rows is None else rows.ravel()
        names = name_features(sparse, _read_corpus(nlp, name, corpus), wanted)
        # Pairs of tags have names without a corpus.
        missing = len(np.setdiff1d(wanted, sparse.learner.pairs)) - len(names)
        general = general_weights(sparse, pipe.tags, weight)
        if output is not None:
            weights = [*general, *feature_weights(sparse, pipe.tags, names, weight=weight)]
            lines = [
                "tag\tfeature\tweight",
                *(f"{w.tag}\t{w.feature}\t{w.weight:.6g}" for w in weights),
            ]
            write_text(output, "\n".join(lines) + "\n")
            typer.echo(f"{output}: {len(weights):,} weights")
        else:
            features = feature_weights(sparse, pipe.tags, names, rows, weight)
            _print(pipe.tags, general, features, n)
        if missing:
            typer.secho(
                f"{missing:,} features are shown by their keys, because the corpus does not have "
                "them; expected the training corpus as --corpus",
                err=True,
            )


def _read_corpus(nlp: Language, component: str, path: Path | None) -> Iterable[Doc]:
    """Yield the corpus as the component sees it, nothing if the config's corpus cannot be read."""
    config = nlp.config.interpolate()
    try:
        if path is not None:
            examples = Corpus(path)(nlp)
        else:
            # Resolve only this block: others may have paths that are not set.
            block = reduce(getitem, config["training"]["train_corpus"].split("."), config)
            examples = registry.resolve({"reader": block})["reader"](nlp)
        docs = (example.predicted for example in tqdm(examples, "reading", delay=2, leave=False))
        yield from annotate_before(nlp, component, docs)
    except (ValueError, OSError) as err:
        if path is not None:
            raise
        typer.secho(f"the train corpus of the config cannot be read: {err}", err=True)


def _print(
    tags: Sequence[str], general: Sequence[Weight], features: Sequence[Weight], n: int
) -> None:
    """Print the strongest transitions and features of each tag."""
    into = {tag: list(group) for tag, group in groupby(general, key=lambda weight: weight.tag)}
    own = {tag: list(group) for tag, group in groupby(features, key=lambda weight: weight.tag)}
    for tag in tags:
        typer.echo(f"\n{tag}")
        top = sorted(into.get(tag, []), key=lambda weight: -abs(weight.weight))[:n]
        for weight in [*top, *own.get(tag, [])]:
            typer.echo(f"  {weight.weight:+9.3f}  {weight.feature}")
