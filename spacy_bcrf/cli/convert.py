"""`python -m spacy bcrf convert`"""

from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from spacy.cli._util import Arg, Opt

from spacy_bcrf.cli.errors import exit_on
from spacy_bcrf.corpora.columns import read_columns
from spacy_bcrf.corpora.conllu import read_conllu
from spacy_bcrf.corpora.convert import convert
from spacy_bcrf.corpora.text import find_file, text_suffix

_FORMATS = {
    ".conllu": "conllu",
    ".conll": "columns",
    ".iob": "columns",
    ".iob2": "columns",
    ".bio": "columns",
    ".tsv": "columns",
    ".txt": "columns",
}


class Format(str, Enum):
    auto = "auto"
    conllu = "conllu"
    columns = "columns"


class Tag(str, Enum):
    upos = "upos"
    xpos = "xpos"


class Scheme(str, Enum):
    auto = "auto"
    bio = "bio"
    iob1 = "iob1"
    biluo = "biluo"
    bies = "bies"


def convert_cli(
    inputs: Annotated[
        list[Path],
        Arg(
            help="Files to convert, plain or .xz, .gz or .bz2, which may be left out of the name",
            metavar="INPUT",
        ),
    ],
    output: Annotated[Path, Arg(help="The .spacy file to write", metavar="OUTPUT.spacy")],
    format: Annotated[
        Format, Opt("--format", "-f", help="Format of the files; auto goes by their extension")
    ] = Format.auto,
    lang: Annotated[
        str,
        Opt("--lang", "-l", help="Says if words have spaces between them where a file does not"),
    ] = "xx",
    n_sents: Annotated[
        int,
        Opt("--n-sents", "-n", help="Sentences per Doc, all of one document (0 for all of it)"),
    ] = 1,
    tag: Annotated[
        Tag, Opt("--tag", "-t", help="CoNLL-U: column for the tag; UPOS is always the pos")
    ] = Tag.upos,
    ent_key: Annotated[
        str, Opt("--ent-key", "-k", help="CoNLL-U: key of the entity tag in MISC")
    ] = "NER",
    word_column: Annotated[
        int, Opt("--word-column", help="Columns: that of the word, from 1; -1 is the last")
    ] = 1,
    tag_column: Annotated[
        int, Opt("--tag-column", help="Columns: that of the part-of-speech tag (0 for none)")
    ] = 0,
    ent_column: Annotated[
        int, Opt("--ent-column", help="Columns: that of the entity or chunk tag (0 for none)")
    ] = -1,
    scheme: Annotated[
        Scheme, Opt("--scheme", "-s", help="Scheme of the entity tags; auto finds out")
    ] = Scheme.auto,
    ent_complete: Annotated[
        bool, Opt("--ent-complete", help="Words without an entity tag are O, not missing")
    ] = False,
    spans_key: Annotated[
        str | None,
        Opt("--spans-key", help="Write entity tags to these spans of the Doc, as for chunks"),
    ] = None,
) -> None:
    """
    Convert files of CoNLL-U or CoNLL columns (one word and its tags a line, as of CoNLL-2000 and
    2003, WNUT, JNLPBA, Universal NER) to spaCy's binary format. bcrf_segmenter learns from the same
    documents: it finds the characters of their words itself. Entity tags that make no valid
    sequence are repaired and counted. A malformed line stops it, and then nothing is written.
    """
    with exit_on(ValueError):
        readers = {
            "conllu": partial(read_conllu, tag=tag.value, ent_key=ent_key),
            "columns": partial(
                read_columns,
                word_column=word_column,
                tag_column=tag_column,
                ent_column=ent_column,
            ),
        }
        counts = convert(
            [(path, readers[_find_format(path, format)]) for path in map(find_file, inputs)],
            output,
            lang=lang,
            n_sents=n_sents,
            scheme=scheme.value,
            ent_complete=ent_complete,
            spans_key=spans_key,
        )
    typer.echo(f"{output}: {counts}")


def _find_format(path: Path, format: Format) -> str:
    if format != Format.auto:
        return format.value
    suffix = text_suffix(path)
    if suffix not in _FORMATS:
        raise ValueError(
            f"{path}: no format known by the extension {suffix!r}; expected --format conllu, "
            f"--format columns or one of {' '.join(_FORMATS)}"
        )
    return _FORMATS[suffix]
