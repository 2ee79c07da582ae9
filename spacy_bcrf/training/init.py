"""`init`: the first training config for a corpus, and the files that it reads."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from spacy.language import Language
from thinc.api import Config
from tqdm import tqdm

from bcrf.io.atomic import replacing, replacing_folder
from bcrf.io.text import text_suffix
from spacy_bcrf.corpora.inspection import Inspection
from spacy_bcrf.corpora.make_doc import Align
from spacy_bcrf.corpora.tokenization import (
    MOST_TEXTS,
    TokenizerChoice,
    TokenizerName,
    compare_tokens,
    make_blank,
)
from spacy_bcrf.judging.compare_sources import make_decoder
from spacy_bcrf.promises.seen import note_shared
from spacy_bcrf.readers.doc_files import read_own_docs
from spacy_bcrf.scores.find_sources import guess_source
from spacy_bcrf.scores.foreign_labels import find_names
from spacy_bcrf.scores.foreign_tagger import ForeignTagger
from spacy_bcrf.sparse.gazetteers import read_phrases
from spacy_bcrf.sparse.word_tables import read_clusters

from .clusters import clusters as write_clusters
from .first_config import check_choices, make_first_config
from .step_time import estimate_minutes
from .train_dev import TrainDev


class Initialized(NamedTuple):
    """A first training config.

    reasons: files that `init` wrote, and why the config has its settings. notes: problems of the
    corpora.
    """

    config: Config
    reasons: list[str]
    notes: list[str]


def init(
    output: Path,
    train: Sequence[Path] = (),
    dev: Path | None = None,
    *,
    names: Sequence[tuple[str, Path]] = (),
    lang: str = "xx",
    pipes: Sequence[str] = (),
    encoder: str = "sparse",
    clusters: str | Path | None = None,
    transformer: str | None = None,
    scores: str | None = None,
    labels: Mapping[str, str] | None = None,
    force: bool = False,
    tokenizer: TokenizerChoice = "auto",
    align: Align = "strict",
    report: Callable[[str], object] = lambda message: None,
) -> Initialized:
    """Look at a corpus, and write a training config that fits it.

    Without `train`, `scores` alone: write a pipeline to a new folder that decodes the scores of a
    foreign tagger validly, without learning.

    output: the config. Converted and split corpora are written beside it.
    train: corpora, .spacy or for `convert`, whose texts replace equal texts of .spacy corpora. With
        `names`, files or folders of texts.
    dev: the dev corpus; None holds out a tenth of `train`.
    names: labels and files of phrases, which annotate the texts.
    pipes, encoder, transformer: see `make_first_config`.
    clusters: a file of `clusters`, or "brown" for clusters of the texts, or of a text file beside
        the corpus, or of spacy-lookups-data.
    scores, labels: see `guess_source`. force: replace an earlier config and .spacy files.
    tokenizer, align: of texts, see `convert`. "auto" takes the tokenizer of .spacy files, or else
        the one that fits the annotated characters.
    report: receives problems of corpora.

    ValueError names the wrong option or corpus. FileExistsError without `force`.
    """
    _check_given(train, dev, names, scores, labels)
    if scores is not None and not train:
        return _init_decoder(output, scores, labels, lang)
    source = None if scores is None else guess_source(scores, labels=labels)
    if source is not None:
        source["cache"] = str(output.parent / "scores.sqlite")
    phrases = _read_names(names)
    raw = train[0] if names and text_suffix(train[0]) == ".txt" else _find_raw_text(train)
    choices: Any = {"encoder": encoder, "transformer": transformer, "scores": source}
    check_choices(pipes, clusters=clusters, **choices)
    spans_key = "sc" if "spans" in pipes else None
    if "segmenter" in pipes:
        tokenizer = "language"  # of the words, which characters become
    parts = TrainDev(output.parent, train, dev, lang, spans_key, force, report, align, tokenizer)
    with parts:
        if clusters is not None and clusters != "brown":
            _check_clusters(Path(clusters))
        paths = parts.prepare(phrases)
        found = {name: _inspect(path) for name, path in paths.items()}
        if "ner" in pipes and not found["train"].labels:
            raise ValueError(
                f"{paths['train']}: none of the {found['train'].docs:,} documents has entities, "
                "which `ner` learns"
            )
        if not pipes or "ner" in pipes:
            _check_labels(found, paths)
        choices["paths"] = {name: str(path) for name, path in paths.items()}
        choices["tokenizer"] = "language" if parts.tokenizer == "auto" else parts.tokenizer
        if clusters == "brown":
            clusters = output.parent / "clusters.tsv"
            parts.written.append(_make_clusters(clusters, raw, lang, choices["tokenizer"]))
        choices["clusters"] = None if clusters is None else Path(clusters)
        config, reasons = make_first_config(
            found["train"], lang, dev=found["dev"], pipes=pipes, **choices
        )
        if transformer is not None and Path(transformer).is_dir():
            reasons.append(_estimate_time(config, paths["train"]))
        if parts.fit.chosen != "language":
            reasons.insert(0, f"tokenizer: {parts.fit.describe(lang)}, which the config has")
        with replacing(output) as part:
            config.to_disk(part, interpolate=False)
    if clusters is None and encoder == "sparse" and raw is not None:
        reasons.append(f"{raw} may be raw text: brown clusters of its words would raise F")
    notes = list(_note_parts(found, paths))
    if "segmenter" not in pipes:
        notes += _note_tokens(paths, make_blank(lang, choices["tokenizer"]))
    return Initialized(config, [*parts.written, *reasons], notes)


def _check_given(
    train: Sequence[Path],
    dev: Path | None,
    names: Sequence[tuple[str, Path]],
    scores: str | None,
    labels: Mapping[str, str] | None,
) -> None:
    if labels and scores is None:
        raise ValueError("`labels` names the labels of `scores`, which is not given")
    if not train and (scores is None or names):
        raise ValueError("expected `train`, or `scores` alone")
    if names and dev is None:
        raise ValueError("names need a dev corpus: documents with all of their entities")


def _read_names(names: Sequence[tuple[str, Path]]) -> dict[str, list[str]]:
    phrases: dict[str, list[str]] = {}
    for label, file in names:
        phrases.setdefault(label, []).extend(read_phrases(file))
    return phrases


def _estimate_time(config: Config, corpus: Path) -> str:
    try:
        minutes = estimate_minutes(config, corpus)
    except ValueError as error:
        return f"the time of a step was not measured: {error}"
    return f"a step on this processor: all steps take about {max(1, round(minutes)):,} min"


def _note_tokens(paths: Mapping[str, Path], nlp: Language) -> Iterator[str]:
    """Yield notes about corpora that keep other tokens than the config's tokenizer makes."""
    for path in paths.values():
        docs = islice(read_own_docs(path), MOST_TEXTS)
        yield from compare_tokens(docs, nlp).note(str(path))


def _init_decoder(
    output: Path, scores: str, labels: Mapping[str, str] | None, lang: str
) -> Initialized:
    source = guess_source(scores, labels=labels)
    with replacing_folder(output) as part:
        names = find_names(ForeignTagger(source).merge.labels)
        nlp = make_decoder(lang, source, names)
        nlp.to_disk(part)
    reason = (
        f"{output}: decodes valid entities {', '.join(names)} from the scores of {scores}. Nothing "
        "was learned: no corpus was given"
    )
    return Initialized(nlp.config, [reason], [])


def _inspect(corpus: Path) -> Inspection:
    found = Inspection()
    for doc in tqdm(read_own_docs(corpus), "inspecting", unit="docs", delay=1, disable=None):
        found.add(doc)
    if not found.docs:
        raise ValueError(f"{corpus}: has no documents")
    return found


def _check_labels(found: Mapping[str, Inspection], paths: Mapping[str, Path]) -> None:
    own, gold = (sorted(found[part].labels) for part in ("train", "dev"))
    if own and gold and set(own).isdisjoint(gold):
        raise ValueError(
            f"{paths['dev']} has the labels {', '.join(gold)}, but {paths['train']} has "
            f"{', '.join(own)}, so no entity can be right; expected equal labels"
        )


def _note_parts(found: Mapping[str, Inspection], paths: Mapping[str, Path]) -> Iterator[str]:
    """Yield notes about documents of both parts, and about labels of one part only."""
    dev_docs, train_docs = read_own_docs(paths["dev"]), read_own_docs(paths["train"])
    yield from note_shared(dev_docs, train_docs, str(paths["dev"]), str(paths["train"]))
    for name, other, so in (
        ("dev", "train", "F says nothing about them"),
        ("train", "dev", "all of them in the dev part count as missed"),
    ):
        if only := sorted(found[other].labels - found[name].labels):
            yield f"{paths[name]} has no {', '.join(only)}, so {so}"


def _check_clusters(path: Path) -> None:
    if not path.is_file():
        raise ValueError(f"clusters {path}: no such file; expected a file, or brown")
    read_clusters(path)  # training would find out what is wrong with it


def _make_clusters(path: Path, raw: Path | None, lang: str, tokenizer: TokenizerName) -> str:
    """Write clusters of the words of texts, unless the file exists. RETURNS what it has."""
    if path.exists():
        return f"{path}: taken as it is"
    found = write_clusters(path, raw, lang=lang, tokenizer=tokenizer)
    return f"{path}: {len(found):,} words in {len(set(found.values())):,} clusters"


def _find_raw_text(corpora: Sequence[Path]) -> Path | None:
    """Return a .txt file beside the corpus that is larger than the corpus. None for folders."""
    if not all(path.is_file() for path in corpora):
        return None
    texts = [path for path in corpora[0].parent.glob("*.txt") if path not in corpora]
    size = sum(path.stat().st_size for path in corpora)
    return next((path for path in sorted(texts) if path.stat().st_size > size), None)
