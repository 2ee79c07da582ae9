"""`python -m spacy bcrf aggregate`"""

from itertools import chain
from pathlib import Path
from typing import Annotated

import spacy
import typer
from spacy.cli._util import Arg, Opt

from bcrf.chain.potentials import counted
from bcrf.io.atomic import check_new_folder, replacing_folder
from bcrf.io.hashes import hash_files
from bcrf.io.text import text_suffix
from spacy_bcrf import __version__
from spacy_bcrf.corpora.doc_files import read_docs
from spacy_bcrf.corpora.identity import hash_identity
from spacy_bcrf.corpora.texts import find_inputs

from .errors import spacy_command
from .options import Lang, NewFolder, Seed
from .paths import check_corpus, keep_parts, print_notes, write_json


def aggregate_cli(
    texts: Annotated[
        Path,
        Arg(
            help="Raw texts: .txt, JSON lines, tables or a folder; or .spacy, whose span groups "
            "can be sources"
        ),
    ],
    sources: Annotated[Path, Opt("--sources", "-s", help="Config of the sources, .cfg")],
    output: NewFolder,
    gold: Annotated[
        Path | None, Opt(help="Documents with known entities, .spacy, which improve the estimates")
    ] = None,
    shard: Annotated[int, Opt(help="Documents in a shard", min=1)] = 1000,
    work: Annotated[
        Path | None,
        Opt(help="Folder that keeps the votes (default: .OUTPUT.votes, removed at the end)"),
    ] = None,
    lang: Lang = "xx",
    seed: Seed = 0,
) -> str:
    """
    Merge the entities that rules, gazetteers, pipelines, people and language models propose.
    Estimates the precision and recall of each source from where they agree and differ, without
    gold annotation. OUTPUT gets documents with entities (.spacy), soft gold for `distill` (.npz),
    and a page of the sources. Run the same command again to resume after an interruption.
    """
    from spacy_bcrf.analysis.aggregate import aggregate
    from spacy_bcrf.analysis.sources import read_sources

    from .pages import render
    from .text_docs import read_texts

    check_new_folder(output)
    nlp = spacy.blank(lang)
    labels, found = read_sources(sources, nlp)
    if gold is not None:
        check_corpus(gold)
    files, _ = find_inputs([str(texts)])
    others = [file for file in files if text_suffix(file) != ".spacy"]
    if 0 < len(others) < len(files):
        raise ValueError(
            f"{texts}: has .spacy files and {len(others):,} others, such as {others[0]}; expected "
            "one folder of .spacy files, and another one of texts"
        )
    annotated = chain.from_iterable(read_docs(file, nlp.vocab) for file in files)
    docs = read_texts(texts, nlp) if others else annotated
    identity = {
        "version": __version__,
        "sources": hash_files(sources),
        "files": {source.name: hash_files(source.path) for source in found if source.path},
        "texts": hash_files(texts),
        "language": lang,
        "documents in a shard": shard,
    }
    with keep_parts(work, output, "votes") as kept, replacing_folder(output) as part:
        result = aggregate(
            docs,
            found,
            labels,
            part,
            gold=[] if gold is None else list(read_docs(gold, nlp.vocab)),
            folder=work or kept / hash_identity(identity),
            identity=identity,
            shard_size=shard,
            seed=seed,
            corpus=str(texts),
        )
        write_json(part / "sources.json", result.to_json())
        page = render("sources.html", title=f"Sources of {texts}", found=result)
        (part / "sources.html").write_text(page, "utf8")
    print_notes(result.notes)
    if result.n_reused:
        typer.echo(f"{kept}: has votes of {counted(result.n_reused, 'shard')} already")
    typer.echo("\n".join(result.lines()))
    typer.echo(f"{output}: {result!r}; {output / 'sources.html'} is the page of the sources")
    return spacy_command("bcrf", "distill", output, output="student", lang=lang)
