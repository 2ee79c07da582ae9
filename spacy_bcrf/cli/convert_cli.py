"""`python -m spacy bcrf convert`"""

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer
from spacy.cli._util import Arg, Opt
from tqdm import tqdm

from bcrf.io.text import Line, check_text, find_file, text_suffix
from spacy_bcrf.corpora import recognition
from spacy_bcrf.corpora.convert import RECORD_FORMATS, Reader, convert
from spacy_bcrf.corpora.formats.brat import find_annotations
from spacy_bcrf.corpora.formats.columns import read_columns, read_iob_lines
from spacy_bcrf.corpora.formats.conllu import read_conllu
from spacy_bcrf.corpora.formats.other_spans import normalize_tags
from spacy_bcrf.corpora.make_doc import Align
from spacy_bcrf.corpora.sentence import Sentence

from .errors import spacy_command
from .options import Lang, read_labels
from .paths import check_output_file

_ENT_KEY = "NER"
_PREFIXED = ("B-PER",)
"""An example of the tags of CoNLL-U and `.iob` lines, which all need a prefix."""
_FORMATS = {
    ".conllu": "conllu",
    **dict.fromkeys((".conll", ".iob", ".iob2", ".bio", ".tsv", ".txt"), "columns"),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "json"),
    ".ann": "brat",
}

Format = Literal[
    "auto", "conllu", "columns", "jsonl", "prodigy", "label-studio", "brat", "webanno", "iob"
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
    shard: Annotated[int, Opt(help="Number of documents in a file (0 for one file)", min=0)] = 0,
    labels: Annotated[
        str | None, Opt(help="JSON: valid labels A,B or a file; of ids, all tags in their order")
    ] = None,
    skip_malformed: Annotated[
        bool | None,
        Opt(
            "--skip-malformed/--strict",
            help="Skip and count all malformed records, or write nothing if there is one; by "
            "default none of CoNLL, and at most a tenth of JSON and brat",
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
        int | None, Opt(help="Columns: of the word, from 1; -1 is the last (default: by content)")
    ] = None,
    tag_column: Annotated[int, Opt(help="Columns: number of the tag column (0 for none)")] = 0,
    ent_column: Annotated[
        list[int] | None, Opt(help="Columns: of entity tags, 0 for none. Repeatable for overlaps")
    ] = None,
    scheme: Annotated[Scheme, Opt("--scheme", "-s", help="Scheme of the entity tags")] = "auto",
    ent_complete: Annotated[bool, Opt("--ent-complete", help="Words without a tag are O")] = False,
    spans_key: Annotated[
        str | None, Opt(help="Span group for entities, such as sc; they may overlap there")
    ] = None,
    align: Annotated[
        Align,
        Opt(
            help="Spans that cut tokens: strict leaves them out, their tokens are missing, not O; "
            "contract and expand move them to whole tokens; split splits the tokens"
        ),
    ] = "strict",
    timeout: Annotated[float, Opt(help="Seconds until a text is left out (0: none)", min=0)] = 60.0,
) -> str:
    """
    Convert annotated files to spaCy's binary format: CoNLL-U, CoNLL columns (one word and its tags
    a line, as in CoNLL-2000 and 2003, WNUT, JNLPBA, Universal NER, GermEval), JSON lines, exports
    of Prodigy, Label Studio, doccano, Hugging Face and spaCy, and brat (.ann beside .txt). Repairs
    and counts invalid sequences of entity tags. Text without annotation stays missing, not O.
    bcrf_segmenter trains on the same documents.
    """
    report = partial(tqdm.write, file=sys.stderr)
    paths = [file for path in inputs for file in find_annotations(path) or [find_file(path)]]
    if not shard:
        check_output_file(output, ".spacy", *paths)

    def reader(path: Path) -> Reader | str:
        has_columns = bool(word_column or tag_column or ent_column)
        name = _find_format(path, format, has_columns, report)
        if name in RECORD_FORMATS:
            return name
        if name == "conllu":
            key = _choose_key(path, report) if ent_key is None else ent_key
            return partial(_read_tags, read_conllu, _PREFIXED, tag=tag, ent_key=key)
        if name == "iob":
            return partial(_read_tags, read_iob_lines, _PREFIXED)
        word, entities = _choose_columns(path, word_column, ent_column, report)
        if word_column is None and not (tag_column or recognition.has_words(path, word)):
            raise ValueError(
                f"{path}: column {word} has numbers, not words, and no column has entity tags; "
                "expected `convert --word-column`, with --ent-column or --tag-column"
            )
        tags = {tag for column in entities for tag in recognition.column_values(path, column)}
        if ent_column is None and not tags & {"O", "o"}:
            tags |= {*_PREFIXED}  # without an O, words of a text could be labels
        return partial(
            _read_tags,
            read_columns,
            tags,
            word_column=word,
            tag_column=tag_column,
            ent_columns=entities,
            drop_words=drop_words,
        )

    counts = convert(
        [(path, reader(path)) for path in paths],
        output,
        lang=lang,
        labels=read_labels(labels),
        spans_key=spans_key,
        align=align,
        n_sents=n_sents,
        scheme=scheme,
        ent_complete=ent_complete,
        shard=shard,
        skip_malformed=skip_malformed,
        timeout=timeout,
        report=report,
    )
    if ent_key is not None and counts.tokens and not counts.scheme:
        report(f"no word has an entity tag under the key {ent_key!r} (see `convert --ent-key`)")
    typer.echo(f"{output}: {counts}")
    return spacy_command("bcrf", "debug", output, lang=lang)


def _find_format(
    path: Path, format: Format, has_columns: bool, report: Callable[[str], object]
) -> str:
    """Return the format of a file. Content wins over an extension of columns, if not chosen."""
    if path.is_dir():
        inside = Counter(file.suffix for file in path.iterdir() if text_suffix(file) in _FORMATS)
        example = f", for instance {path}/*{inside.most_common(1)[0][0]}" if inside else ""
        raise ValueError(f"{path}: is a folder; expected files{example}")
    suffix = text_suffix(path)
    if suffix == ".spacy":
        raise ValueError(
            f"{path}: is converted already; `spacy bcrf debug {path}` counts its annotation, and "
            f"`spacy bcrf init --train {path}` writes a training config"
        )
    check_text(path)
    if format != "auto":
        return format
    expected = _FORMATS.get(suffix)
    if expected not in (None, "columns") or (expected and has_columns):
        return str(expected)
    found = recognition.recognize_format(path)
    if found is None and suffix == ".txt" and recognition.is_prose(path):
        raise ValueError(
            f"{path}: seems to be raw text, because its lines have no columns of tags; expected "
            "annotation (a format of `convert --format`), or for raw text `init --names LABEL=FILE "
            f"--texts {path}`"
        )
    found = found or expected
    if found == "conllu" and expected and recognition.guess_columns(path) != recognition.Columns():
        found = expected  # ten columns with one of entity tags
    if found is None:
        named = f"{' '.join(_FORMATS)}, or `convert --format` {', '.join(get_args(Format)[1:])}"
        raise ValueError(
            f"{path}: unknown extension {suffix!r}, and content; expected one of {named}"
        )
    if found != expected:
        report(f"{path}: is read as {found}, by its content (see `convert --format`)")
    return found


def _choose_columns(
    path: Path, word: int | None, entities: Sequence[int] | None, report: Callable[[str], object]
) -> tuple[int, Sequence[int]]:
    """Return the columns of word and entity tags: the given ones, else by content."""
    recognition.check_ent_columns(path, entities or ())
    if word is not None and entities is not None:
        return word, entities
    found = recognition.guess_columns(path)
    if found != recognition.Columns():
        listed = " and ".join(map(str, found.entities))
        guessed = [f"words in column {found.word}"] * (word is None)
        guessed += [f"entity tags in column {listed}"] * (entities is None)
        report(f"{path}: {', '.join(guessed)}, by content (`convert --word-column`, --ent-column)")
    return found.word if word is None else word, found.entities if entities is None else entities


def _choose_key(path: Path, report: Callable[[str], object]) -> str:
    found = recognition.guess_ent_keys(path)
    if _ENT_KEY in found or not found:
        return _ENT_KEY
    if len(found) > 1:
        raise ValueError(
            f"{path}: entity tags under {' and '.join(found)}; expected `convert --ent-key`"
        )
    report(f"{path}: entity tags under {found[0] or 'no key'} in MISC (see `convert --ent-key`)")
    return found[0]


def _read_tags(
    read: Callable[..., Iterator[Sentence]],
    known: Collection[str],
    lines: Iterable[Line],
    **options: Any,
) -> Iterator[Sentence]:
    for sentence in read(lines, **options):
        sentence.entities = normalize_tags(sentence.entities, known)
        sentence.layers = [normalize_tags(layer, known) for layer in sentence.layers]
        yield sentence
