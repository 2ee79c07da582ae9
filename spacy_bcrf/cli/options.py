"""Arguments and options that several commands have."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from spacy.cli._util import Arg, Opt

from bcrf.io.text import explain_encoding
from spacy_bcrf.corpora.convert import check_language
from spacy_bcrf.corpora.make_doc import Align
from spacy_bcrf.corpora.tokenization import TokenizerChoice, TokenizerName


def read_language(lang: str) -> str:
    """Callback of an option: return its language. BadParameter if spaCy does not know it."""
    try:
        return check_language(lang)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


Model = Annotated[str, Arg(help="Trained pipeline: a folder, or the name of a package")]
GoldCorpus = Annotated[Path, Arg(help="Annotated documents outside of the training data, .spacy")]
TrainingConfig = Annotated[Path, Arg(help="Training config", exists=True, dir_okay=False)]
Code = Annotated[Path | None, Opt("--code", "-c", help="Python file with registered functions")]
PipeName = Annotated[str | None, Opt("--pipe", "-p", help="Component (default: the only one)")]
PipeNames = Annotated[
    list[str] | None, Opt("--pipe", "-p", help="Component. Repeatable (default: all of spacy-bcrf)")
]
PromiseName = Annotated[
    str | None, Opt(help="Shipped promise, such as covered (default: the component's)")
]
GpuId = Annotated[int, Opt("--gpu-id", "-g", help="GPU ID or -1 for CPU")]
_LANGUAGE = "Language of tokenizer and of spaces between words"
Lang = Annotated[str, Opt("--lang", "-l", callback=read_language, help=_LANGUAGE)]
TextTokenizer = Annotated[TokenizerName, Opt("--tokenizer", help="Of texts, as for `convert`")]
Tokenizer = Annotated[
    TokenizerChoice,
    Opt(
        help="Of texts: the language's; split: its tokens in letters, digits, single other "
        "characters; capitals: also before capitals; auto: the least that keeps spans whole"
    ),
]
CutSpans = Annotated[
    Align,
    Opt(
        "--align",
        help="Spans that cut tokens: strict leaves them out as missing; contract, expand move "
        "them to whole tokens; split splits tokens",
    ),
]
Work = Annotated[
    Path | None,
    Opt(help="Folder that keeps finished parts (default: beside the output until the end)"),
]
NewFolder = Annotated[
    Path, Opt("--output", "-o", help="New folder to save the pipeline to", show_default=False)
]
TargetFolder = Annotated[Path | None, Opt("--output", "-o", help="Folder to save the pipeline to")]
Inplace = Annotated[bool, Opt("--inplace", help="Change settings in MODEL, in place of --output")]
Plot = Annotated[Path | None, Opt("--plot", help="File of the diagram to draw, .png")]
Force = Annotated[bool, Opt("--force", "-F", help="Replace a config, and .spacy files of `init`")]
Passes = Annotated[int, Opt("--passes", help="Passes over the documents", min=1)]


def parse_labels(option: str | None) -> list[str] | None:
    """Read labels from a list with commas, or a file of lines or JSON. ValueError if none."""
    if option is None:
        return None
    path = Path(option)
    if not path.is_file() and path.suffix in (".txt", ".json"):
        raise ValueError(f"{path}: no such file; expected a list with commas, or a file")
    labels = option.split(",")
    if path.is_file():
        try:
            text = path.read_text(encoding="utf-8-sig")
            labels = json.loads(text) if path.suffix == ".json" else text.splitlines()
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: {explain_encoding(error)}") from None
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}: no JSON: {error}") from None
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            raise ValueError(f"{path}: expected a list of labels")
    labels = [label.strip() for label in labels]
    while labels and not labels[-1]:
        labels.pop()
    if not labels:
        raise ValueError(f"{option}: no labels; expected a list with commas, or a file")
    if len({*labels} - {""}) < len(labels):  # later ids would mean other labels
        i = next(i for i, label in enumerate(labels) if not label or label in labels[:i])
        raise ValueError(f"{option}: label {i + 1}, {labels[i]!r}, is blank or repeated")
    return labels


def read_pairs(option: str, values: Iterable[str], example: str) -> list[tuple[str, str]]:
    """Read values such as `PER=people.txt`. ValueError names a wrong one, and an example."""
    pairs = []
    for value in values:
        name, _, given = (part.strip() for part in value.partition("="))
        if not (name and given):
            raise ValueError(f"{option} {value}: expected a pair such as {example}")
        pairs.append((name, given))
    return pairs
