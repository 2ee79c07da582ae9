"""`python -m spacy bcrf aggregate`"""

from pathlib import Path
from typing import Annotated, Literal

import typer
from spacy.cli._util import Arg, Opt

from bcrf.chain.potentials import counted
from bcrf.io.atomic import check_new_folder, replacing_folder
from bcrf.io.hashes import hash_files
from spacy_bcrf import __version__
from spacy_bcrf.corpora.identity import hash_identity
from spacy_bcrf.corpora.tokenization import make_blank
from spacy_bcrf.readers.doc_files import check_corpus, read_docs

from .errors import spacy_command
from .options import Lang, NewFolder, TextTokenizer
from .paths import keep_parts, print_note, print_notes, write_json

Align = Literal["strict", "contract", "expand"]


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
    align: Annotated[
        Align, Opt(help="Of spans that cut tokens: an error, or contract or expand them to tokens")
    ] = "strict",
    skip_malformed: Annotated[
        bool,
        Opt("--skip-malformed", help="Leave out votes with flaws, and count them"),
    ] = False,
    lang: Lang = "xx",
    tokenizer: TextTokenizer = "language",
) -> str:
    """
    Merge the entities that rules, gazetteers, pipelines, people and language models propose.
    Estimates the precision and recall of each source from where they agree and differ, without
    gold annotation. OUTPUT gets documents with entities (.spacy), soft gold for `distill` (.npz),
    and a page of the sources. Run the same command again to resume after an interruption.
    """
    from spacy_bcrf.corpora.formats.votes import Flaws
    from spacy_bcrf.corpora.text_docs import read_texts_or_docs
    from spacy_bcrf.serve.pages import render
    from spacy_bcrf.weak.aggregate import aggregate
    from spacy_bcrf.weak.sources import read_sources

    check_new_folder(output)
    nlp = make_blank(lang, tokenizer)
    flaws = Flaws(align, skip_malformed)
    labels, found = read_sources(sources, nlp, flaws)
    if gold is not None:
        check_corpus(gold)
    identity = {
        "version": __version__,
        "sources": hash_files(sources),
        "files": {source.name: hash_files(source.path) for source in found if source.path},
        "texts": hash_files(texts),
        "language": lang,
        "tokenizer": tokenizer,
        "documents in a shard": shard,
        "flaws": [align, skip_malformed],
    }
    with keep_parts(work, output, "votes") as kept, replacing_folder(output) as part:
        result = aggregate(
            read_texts_or_docs(texts, nlp, print_note),
            found,
            labels,
            part,
            gold=[] if gold is None else list(read_docs(gold, nlp.vocab)),
            folder=work or kept / hash_identity(identity),
            identity=identity,
            shard_size=shard,
            corpus=str(texts),
        )
        result.notes += flaws.notes()
        write_json(part / "sources.json", result.to_json())
        page = render("sources.html", title=f"Sources of {texts}", found=result)
        (part / "sources.html").write_text(page, "utf8")
    print_notes(result.notes)
    if result.n_reused:
        typer.echo(f"{kept}: has votes of {counted(result.n_reused, 'shard')} already")
    typer.echo("\n".join(result.lines()))
    typer.echo(f"{output}: {result!r}; {output / 'sources.html'} is the page of the sources")
    options = {"lang": lang, "tokenizer": None if tokenizer == "language" else tokenizer}
    return spacy_command("bcrf", "init", train=output, output="config.cfg", **options)
