"""`python -m spacy bcrf clusters`"""

from pathlib import Path
from typing import Annotated

import typer
from spacy.cli._util import Arg, Opt

from .errors import spacy_command
from .options import Lang
from .paths import check_output_file


def clusters_cli(
    output: Annotated[Path, Opt("--output", "-o", help="File to write: word, tab, cluster")],
    texts: Annotated[
        Path | None,
        Arg(
            help="Raw text, one text per line, plain or .xz, .gz, .bz2 (default: the clusters of "
            "spacy-lookups-data)"
        ),
    ] = None,
    lang: Lang = "xx",
    n_clusters: Annotated[
        int, Opt("--n-clusters", "-k", help="Largest number of clusters", min=2)
    ] = 256,
) -> str:
    """
    Write Brown clusters of words, for the attribute cluster.NAME of sparse linear chains.

    A killed command resumes from OUTPUT.state.
    """
    from spacy_bcrf.training.clusters import clusters

    check_output_file(output, ".tsv .txt", texts)
    paths = clusters(output, texts, lang=lang, n_clusters=n_clusters)
    typer.echo(f"{output}: {len(paths):,} words in {len(set(paths.values())):,} clusters")
    step = {"output": "config.cfg", "train": "TRAIN", "clusters": output, "lang": lang}
    return spacy_command("bcrf", "init", **step)
