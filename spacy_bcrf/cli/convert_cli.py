"""`python -m spacy bcrf convert`"""

from pathlib import Path
from typing import Annotated, Literal

import typer
from spacy.cli._util import Arg, Opt

from spacy_bcrf.corpora.convert import convert

from .errors import spacy_command
from .options import CutSpans, Lang, Tokenizer, parse_labels
from .paths import check_output_file, report_above_bars

Format = Literal[
    "auto",
    "conllu",
    "conll2012",
    "columns",
    "csv",
    "jsonl",
    "prodigy",
    "label-studio",
    "brat",
    "webanno",
    "iob",
]
Tag = Literal["upos", "xpos"]
Scheme = Literal["auto", "bio", "iob1", "biluo", "bies"]


def convert_cli(
    inputs: Annotated[
        list[Path], Arg(help="Files, also .xz, .gz or .bz2, and folders of brat", metavar="INPUT")
    ],
    output: Annotated[Path, Arg(help="File to write; folder with --shard", metavar="OUTPUT.spacy")],
    format: Annotated[Format, Opt("--format", "-f", help="auto: by name and content")] = "auto",
    lang: Lang = "xx",
    tokenizer: Tokenizer = "language",
    shard: Annotated[int, Opt(help="Number of documents in a file (0 for one file)", min=0)] = 0,
    labels: Annotated[
        str | None, Opt(help="JSON: valid labels A,B or a file; of ids, all tags in their order")
    ] = None,
    skip_malformed: Annotated[
        bool | None,
        Opt(
            "--skip-malformed/--strict",
            help="Skip all malformed records, or none (default: a tenth of JSON and brat)",
        ),
    ] = None,
    drop_words: Annotated[
        bool, Opt("--drop-words", help="Columns: leave out malformed lines, not their sentences")
    ] = False,
    n_sents: Annotated[int, Opt("--n-sents", "-n", help="Sentences in a Doc (0: documents)")] = 1,
    tag: Annotated[Tag, Opt("--tag", "-t", help="CoNLL-U: column of the tag")] = "upos",
    ent_key: Annotated[
        str | None, Opt("--ent-key", "-k", help="CoNLL-U: key in MISC (default: by content)")
    ] = None,
    word_column: Annotated[
        int | None, Opt(help="Columns: word column, from 1; -1 is the last (default: by content)")
    ] = None,
    tag_column: Annotated[int, Opt(help="Columns: number of the tag column (0 for none)")] = 0,
    ent_columns: Annotated[
        list[int] | None,
        Opt("--ent-column", help="Columns: of entity tags, 0 for none. Repeatable for overlaps"),
    ] = None,
    scheme: Annotated[Scheme, Opt("--scheme", "-s", help="Scheme of the entity tags")] = "auto",
    ent_complete: Annotated[bool, Opt("--ent-complete", help="Words without a tag are O")] = False,
    spans_key: Annotated[str | None, Opt(help="Span group for entities, as overlaps need")] = None,
    align: CutSpans = "strict",
    timeout: Annotated[float, Opt(help="Seconds until a text is left out (0: none)", min=0)] = 60.0,
) -> str:
    """
    Convert annotated files to spaCy's binary format: CoNLL-U, CoNLL columns (one word and its tags
    a line, as in CoNLL-2000 and 2003, WNUT, JNLPBA, Universal NER, GermEval), JSON lines, exports
    of Prodigy, Label Studio, doccano, Hugging Face and spaCy, and brat (.ann beside .txt). Repairs
    and counts invalid sequences of entity tags. Text without annotation stays missing, not O.
    """
    # Folders of brat may have the output in them.
    if not shard:
        check_output_file(output, ".spacy", *(path for path in inputs if not path.is_dir()))
    counts = convert(
        inputs,
        output,
        format=format,
        lang=lang,
        tokenizer=tokenizer,
        labels=parse_labels(labels),
        spans_key=spans_key,
        align=align,
        n_sents=n_sents,
        tag=tag,
        ent_key=ent_key,
        word_column=word_column,
        tag_column=tag_column,
        ent_columns=ent_columns,
        drop_words=drop_words,
        scheme=scheme,
        ent_complete=ent_complete,
        shard=shard,
        skip_malformed=skip_malformed,
        timeout=timeout,
        report=report_above_bars,
    )
    if counts.fit.chosen == counts.tokenizer != "language":
        typer.echo(counts.fit.describe(lang))
    typer.echo(f"{output}: {counts}")
    return spacy_command("bcrf", "debug", output)
