"""`python -m spacy bcrf clusters`"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from spacy.cli._util import Arg, Opt
from tqdm import tqdm

from spacy_bcrf.io.atomic import write_text
from spacy_bcrf.io.text import read_lines

from .errors import exit_on
from .paths import check_output_file


def clusters_cli(
    output: Annotated[Path, Opt("--output", "-o", help="File to write: word, tab, path of bits")],
    texts: Annotated[
        Path | None, Arg(help="Raw text: a text on each line. .xz, .gz and .bz2 are read")
    ] = None,
    brown: Annotated[
        bool, Opt("--brown", help="Take the Brown clusters of spacy-lookups-data, without texts")
    ] = False,
    lang: Annotated[str, Opt("--lang", "-l", help="Language of the tokenizer")] = "xx",
    n_clusters: Annotated[int, Opt("--n-clusters", "-k", help="Number of clusters", min=2)] = 256,
    min_freq: Annotated[int, Opt("--min-freq", help="Least frequency of a word", min=1)] = 3,
    dimensions: Annotated[int, Opt("--dimensions", help="Size of the word vectors", min=1)] = 50,
    seed: Annotated[int, Opt("--seed", help="Random seed")] = 0,
) -> None:
    """
    Cluster the words of raw text by their neighbours, for the attribute cluster.NAME of sparse
    linear chains. Needs the extra clusters.

    With --brown, write the Brown clusters of the package spacy-lookups-data for --lang.
    """
    import spacy

    from spacy_bcrf.sparse.cluster_words import cluster_words, load_brown_clusters

    with exit_on(ValueError, OSError, ImportError):
        if brown == (texts is not None):
            raise ValueError("expected either a file of texts or --brown")
        check_output_file(output, texts)
        if texts is None:
            paths = load_brown_clusters(lang)
        else:
            tokenizer = spacy.blank(lang).tokenizer

            def read() -> Iterator[list[str]]:
                for line in tqdm(read_lines(texts), "reading", delay=1, unit="texts"):
                    yield [token.text for token in tokenizer(line.text) if not token.is_space]

            paths = cluster_words(
                read, n_clusters, min_freq=min_freq, dimensions=dimensions, seed=seed
            )
        write_text(output, "".join(f"{word}\t{path}\n" for word, path in paths.items()))
    typer.echo(f"{output}: {len(paths):,} words in {len(set(paths.values())):,} clusters")
