"""`python -m spacy bcrf distill`"""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from spacy.cli._util import Arg, Opt
from tqdm import tqdm

from bcrf.io.atomic import check_new_folder
from bcrf.io.hashes import hash_files
from bcrf.io.text import text_suffix
from spacy_bcrf import __version__
from spacy_bcrf.corpora.formats.votes import read_votes
from spacy_bcrf.corpora.identity import hash_identity
from spacy_bcrf.corpora.tokenization import make_blank

from .errors import spacy_command
from .options import GpuId, Lang, Passes, PipeName, TextTokenizer, Work
from .paths import keep_parts, print_note

JSON = (".jsonl", ".ndjson", ".json")


def distill_cli(
    teacher: Annotated[
        str,
        Arg(help="Pipeline; what `aggregate` wrote; JSON lines of votes"),
    ],
    texts: Annotated[Path | None, Arg(help="Texts for the teacher to label, as for `rank`")] = None,
    output: Annotated[Path | None, Opt("--output", "-o", help="Folder of the new pipeline")] = None,
    pipe: PipeName = None,
    templates: Annotated[str | None, Opt(help="Template set (default: of the teacher)")] = None,
    passes: Passes = 5,
    shard: Annotated[int, Opt(help="Documents in a shard", min=1)] = 2000,
    work: Work = None,
    lang: Lang = "xx",
    tokenizer: TextTokenizer = "language",
    gpu_id: GpuId = -1,
) -> str:
    """
    Train a small sparse linear chain on the soft labels of a teacher: the marginals of a trained
    pipeline on raw texts, the result of `aggregate`, or the votes of people and tools, weighted by
    their estimated precision. Run the same command again to resume after an interruption.
    """
    from spacy_bcrf.corpora.text_docs import read_text_docs
    from spacy_bcrf.training.distill import distill, distill_aggregated, distill_votes

    from .labeler import load_labeler, store

    if output is None:
        raise ValueError("expected --output, a new folder to save the pipeline to")
    check_new_folder(output)
    options: dict[str, Any] = {"passes": passes}
    aggregated = Path(teacher, "sources.json")
    if text_suffix(Path(teacher)) in JSON or aggregated.is_file():
        if texts is not None:
            raise ValueError(f"expected a pipeline to label {texts}, got {teacher}")
        base = make_blank(lang, tokenizer)
        options["templates"] = templates or "ner"
    with keep_parts(work, output, "shards") as kept:
        if aggregated.is_file():
            labels = list(json.loads(aggregated.read_text("utf8"))["n_entities"])
            found = distill_aggregated(Path(teacher), base, labels, **options)
        elif text_suffix(Path(teacher)) in JSON:
            reading = tqdm(read_votes(Path(teacher), base), "reading", delay=1, unit="docs")
            found = distill_votes(list(reading), base, corpus=teacher, **options)
        else:
            if texts is None:
                if not Path(teacher).exists():
                    raise ValueError(f"{teacher}: there is no such file or folder")
                raise ValueError(
                    f"expected texts for the pipeline {teacher} to label, or JSON lines with "
                    "annotation in its place"
                )
            base, name, labeler = load_labeler(teacher, pipe, gpu_id)
            assert base.path is not None
            identity = {
                "version": __version__,
                "teacher": hash_files(Path(base.path)),
                "component": name,
                "texts": hash_files(texts),
                "labels": list(labeler.labels),
                "documents in a shard": shard,
            }
            found = distill(
                base,
                read_text_docs(texts, base, print_note),
                name,
                templates=templates,
                shard_size=shard,
                folder=work or kept / hash_identity(identity),
                identity=identity,
                corpus=str(texts),
                **options,
            )
        store(found.nlp, output)
    if found.n_reused:
        typer.echo(f"{kept}: {found.n_reused:,} of {found.n_shards:,} shards are labeled already")
    typer.echo("\n".join(found.lines()))
    return spacy_command("bcrf", "report", output, "TEST.spacy", "--output", "report.html")
