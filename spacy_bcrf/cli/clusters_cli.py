"""`python -m spacy bcrf clusters`"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer
from spacy.cli._util import Arg, Opt
from tqdm import tqdm

from bcrf.io.atomic import write_text
from bcrf.io.text import read_lines

from .errors import spacy_command
from .options import Lang, Seed
from .paths import check_output_file

Kind = Literal["svd", "brown", "clark", "skipgram"]


def clusters_cli(
    output: Annotated[Path, Opt("--output", "-o", help="File to write: word, tab, cluster")],
    texts: Annotated[Path | None, Arg(help="Raw text, one a line, plain or .xz, .gz, .bz2")] = None,
    brown: Annotated[bool, Opt("--brown", help="Clusters of spacy-lookups-data, no TEXTS")] = False,
    kind: Annotated[
        Kind,
        Opt(help="svd: of neighbours' PMI. brown: merges. clark: letters too. skipgram: vectors"),
    ] = "svd",
    vectors: Annotated[Path | None, Opt(help="Of skipgram: file for `spacy init vectors`")] = None,
    threads: Annotated[int, Opt(help="Threads of skipgram", min=1)] = 1,
    lang: Lang = "xx",
    n_clusters: Annotated[int, Opt("--n-clusters", "-k", help="Number of clusters", min=2)] = 256,
    min_freq: Annotated[int, Opt(help="Least frequency of a word", min=1)] = 3,
    dimensions: Annotated[int, Opt(help="Size of the word vectors", min=1)] = 50,
    seed: Seed = 0,
) -> str:
    """
    Cluster the words of raw text by their neighbours, for the attribute cluster.NAME of sparse
    linear chains. The kinds svd and skipgram need the extra clusters.

    A killed command goes on from OUTPUT.state, but svd starts again.

    With --brown, write the Brown clusters of the package spacy-lookups-data for --lang.
    """
    import spacy

    from spacy_bcrf.sparse.brown_clusters import brown_clusters
    from spacy_bcrf.sparse.clark_clusters import clark_clusters
    from spacy_bcrf.sparse.cluster_words import (
        cluster_vectors,
        cluster_words,
        load_brown_clusters,
        train_vectors,
    )
    from spacy_bcrf.sparse.word_counts import Checkpoint, count_words

    if brown == (texts is not None):
        raise ValueError("expected either a file of texts or --brown")
    check_output_file(output, ".tsv .txt", texts)
    check_output_file(vectors, ".txt .vec", texts)
    if vectors is not None and kind != "skipgram":
        raise ValueError(f"--vectors needs --kind skipgram, got {kind}")
    if texts is None:
        paths = load_brown_clusters(lang)
    else:
        tokenizer = spacy.blank(lang).tokenizer

        def read() -> Iterator[list[str]]:
            for line in tqdm(read_lines(texts), "reading", delay=1, unit="texts"):
                yield [token.text for token in tokenizer(line.text) if not token.is_space]

        stat = texts.stat()
        settings = [kind, n_clusters, min_freq, dimensions, seed, lang]
        identity = f"{texts.absolute()} {stat.st_size} {stat.st_mtime_ns} {settings}"
        state = Checkpoint(output.with_name(f"{output.name}.state"), identity)
        if kind == "svd":
            options = {"min_freq": min_freq, "dimensions": dimensions, "seed": seed}
            paths = cluster_words(read, n_clusters, **options)
        elif kind == "skipgram":
            words, found = train_vectors(
                read, dimensions, min_freq=min_freq, threads=threads, seed=seed, state=state
            )
            if vectors is not None:
                lines = (
                    f"{word} {' '.join(f'{x:.5g}' for x in row)}"
                    for word, row in zip(words, found.tolist(), strict=True)
                )
                header = f"{len(words)} {dimensions}"
                write_text(vectors, "\n".join([header, *lines]) + "\n")
            paths = cluster_vectors(words, found, n_clusters, seed)
        elif kind == "brown":
            paths = brown_clusters(count_words(read, n_clusters, min_freq), n_clusters, state)
        else:
            counts = count_words(read, n_clusters, min_freq)
            paths = clark_clusters(counts, n_clusters, seed=seed, state=state)
    write_text(output, "".join(f"{word}\t{path}\n" for word, path in paths.items()))
    typer.echo(f"{output}: {len(paths):,} words in {len(set(paths.values())):,} clusters")
    step = {"output": "config.cfg", "train": "TRAIN", "clusters": output, "lang": lang}
    return spacy_command("bcrf", "init", **step)
