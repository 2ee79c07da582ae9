"""`python -m spacy bcrf clusters`"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from spacy.cli._util import Arg, Opt
from tqdm import tqdm

from bcrf.io.atomic import write_text
from bcrf.io.text import read_lines
from spacy_bcrf.pipeline.config_errors import naming

from .errors import spacy_command
from .options import Lang
from .paths import check_output_file


def clusters_cli(
    output: Annotated[Path, Opt("--output", "-o", help="File to write: word, tab, cluster")],
    texts: Annotated[Path | None, Arg(help="Raw text, one a line, plain or .xz, .gz, .bz2")] = None,
    lookups: Annotated[bool, Opt("--lookups", help="From spacy-lookups-data, no TEXTS")] = False,
    lang: Lang = "xx",
    n_clusters: Annotated[int, Opt("--n-clusters", "-k", help="Most clusters", min=2)] = 256,
    min_freq: Annotated[int, Opt(help="Least frequency of a word", min=1)] = 3,
) -> str:
    """
    Write Brown clusters of words, for the attribute cluster.NAME of sparse linear chains.

    A killed command goes on from OUTPUT.state.
    """
    import spacy

    from spacy_bcrf.sparse import brown_clusters as brown

    check_output_file(output, ".tsv .txt", texts)
    if (texts is None) != lookups:
        raise ValueError("expected either a file of texts or --lookups")
    if texts is None:
        paths = brown.load_brown_clusters(lang)
    else:
        tokenizer = spacy.blank(lang).tokenizer

        def read() -> Iterator[list[str]]:
            for line in tqdm(read_lines(texts), "reading", delay=1, unit="texts"):
                yield [token.text for token in tokenizer(line.text) if not token.is_space]

        stat = texts.stat()
        settings = [n_clusters, min_freq, lang]
        identity = f"{texts.absolute()} {stat.st_size} {stat.st_mtime_ns} {settings}"
        state = brown.Checkpoint(output.with_name(f"{output.name}.state"), identity)
        with naming(texts):
            counts = brown.count_words(read, min_freq)
        paths = brown.brown_clusters(counts, n_clusters, state)
    write_text(output, "".join(f"{word}\t{path}\n" for word, path in paths.items()))
    typer.echo(f"{output}: {len(paths):,} words in {len(set(paths.values())):,} clusters")
    step = {"output": "config.cfg", "train": "TRAIN", "clusters": output, "lang": lang}
    return spacy_command("bcrf", "init", **step)
