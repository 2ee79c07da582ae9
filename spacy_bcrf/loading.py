"""Trained pipelines: loading, saving, the choice of a component, and gold examples for it."""

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import spacy
import srsly
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import registry

from bcrf.io.atomic import replacing, replacing_folder
from bcrf.io.text import CorpusError
from spacy_bcrf.annotation.tokenizers import copy_words
from spacy_bcrf.corpora.time_limit import SECONDS, TookTooLongError, time_limit
from spacy_bcrf.pipeline.load_checks import find_damaged
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler
from spacy_bcrf.pipeline.settings import UnfitError
from spacy_bcrf.readers.doc_files import find_files, load_docs, naming_damaged, read_docs


def load_pipeline(model: str | Path) -> Language:
    """Load a pipeline from a folder or a package. ValueError names it, or its damaged file."""
    try:
        return spacy.load(model)
    except (OSError, ValueError) as error:
        if str(error).startswith(str(model)):
            raise  # a component names its files
        best = Path(model, "model-best")
        hint = f"; {best} is a pipeline of `spacy train`" if best.is_dir() else ""
        files = [Path(model, name) for name in ("config.cfg", "meta.json")]
        lacks = [file.name for file in files if Path(model).is_dir() and not file.is_file()]
        if lacks:
            raise ValueError(f"{model}: is no pipeline: it has no {lacks[0]}{hint}") from None
        raise ValueError(
            f"{find_damaged(model)}: the pipeline cannot be loaded: {error}{hint}"
        ) from None


def save_pipeline(nlp: Language, folder: Path) -> None:
    """Write a pipeline to a new folder, all of it or nothing."""
    with replacing_folder(folder) as part:
        nlp.to_disk(part)


def save_settings(nlp: Language, name: str, folder: Path) -> None:
    """Write the settings of a component to the folder that its pipeline was loaded from."""
    # The component has all settings that code changes. In a config, spaCy would double each "$"
    # of a label at every save.
    pipe: Any = nlp.get_pipe(name)
    with replacing(folder / name / "cfg") as part:
        srsly.write_json(part, pipe.cfg)


def read_gold_docs(nlp: Language, corpus: Path) -> list[Doc]:
    """Read gold documents with words. CorpusError names the file, also if it has none."""
    docs = [doc for doc in read_docs(corpus, nlp.vocab) if len(doc)]
    if not docs:
        raise CorpusError(f"{corpus}: has no documents")
    return docs


def find_labelers(
    nlp: Language, names: Sequence[str] = (), where: str = "the pipeline"
) -> dict[str, SequenceLabeler]:
    """Return the components of spacy-bcrf by name.

    names: the components to choose, by default all that are enabled. where: the pipeline's name,
    for errors. ValueError lists the components if one of the names, or nothing, fits.
    """
    ours = {key: pipe for key, pipe in nlp.components if isinstance(pipe, SequenceLabeler)}
    if not ours:
        found = ", ".join(nlp.component_names) or "none"
        raise ValueError(
            f"{where}: no component of spacy-bcrf among {found}; expected a pipeline with "
            "bcrf_tagger, bcrf_ner, bcrf_spans, bcrf_chunker or bcrf_segmenter"
        )
    if unknown := [name for name in names if name not in ours]:
        raise ValueError(
            f"{where}: no component {unknown[0]!r} of spacy-bcrf; expected pipe to be one of "
            f"{', '.join(ours)}"
        )
    chosen = {key: pipe for key, pipe in ours.items() if key in (names or nlp.pipe_names)}
    if disabled := [name for name in chosen or ours if name in nlp.disabled]:
        raise ValueError(
            f"{where}: {', '.join(disabled)} is disabled; remove it from disabled in [nlp] of "
            "config.cfg"
        )
    return chosen


def find_labeler(
    nlp: Language, name: str | None = None, where: str = "the pipeline", check: Any = None
) -> tuple[str, SequenceLabeler]:
    """Return name and component. name: None for the only one. check(name, component) rejects it.

    The error names the components that other options would make able, if there are any.
    """
    able, reasons, unfit = [], [], []
    for key, pipe in find_labelers(nlp, [] if name is None else [name], where).items():
        try:
            able.append((key, pipe, check and check(key, pipe)))
        except UnfitError as error:
            unfit.append(str(error))
        except ValueError as error:
            reasons.append(str(error))
    if len(able) > 1:
        names = ", ".join(key for key, *_ in able)
        raise ValueError(f"{where}: pipe is missing; expected pipe to be one of {names}")
    if not able:
        raise ValueError("; ".join(reasons or unfit))
    return able[0][:2]


def check_common(pipe: SequenceLabeler, examples: Sequence[Example]) -> set[str]:
    """Return the labels of gold documents. ValueError if a component knows none of them."""
    found = set[str]().union(*(pipe.codec.find_labels(eg.reference) for eg in examples))
    if found and found.isdisjoint(pipe.labels):
        raise ValueError(
            f"[{pipe.name}] the gold documents have the labels {', '.join(sorted(found))}, but the "
            f"component has {', '.join(pipe.labels) or 'none'}: no label in common"
        )
    return found


def annotate_before(nlp: Language, name: str, docs: Iterable[Doc]) -> Iterator[Doc]:
    """Yield the documents, annotated by all components before `name`."""
    pipes = [pipe for pipe, _ in nlp.pipeline]
    with nlp.select_pipes(enable=pipes[: pipes.index(name)]):
        yield from nlp.pipe(docs)


def find_reader(nlp: Language, part: str) -> tuple[str, dict[str, Any]]:
    """Return name and path, for errors, of the block of the train or dev corpus, and the block."""
    config = nlp.config.interpolate()
    name = config["training"][f"{part}_corpus"]
    try:
        block = reduce(getitem, name.split("."), config)
    except (KeyError, TypeError):
        block = None
    if not isinstance(block, dict):
        raise ValueError(f"[training] {part}_corpus = {name}: there is no such block")
    return f"[{name}]" + (f" path = {block['path']}" if block.get("path") else ""), block


def read_corpus(nlp: Language, part: str) -> Iterator[Example]:
    """Yield the examples of the train or dev corpus of a config. ValueError names the block."""
    where, block = find_reader(nlp, part)
    example = None
    try:
        # Resolve only this block: others may have paths that are not set.
        for example in registry.resolve({"reader": block})["reader"](nlp):
            yield example
        if example is None:
            raise ValueError("has no documents")
    except (ValueError, OSError) as error:
        for file in find_files(Path(block["path"])) if "[E1014]" in str(error) else ():
            with naming_damaged(file):  # says what is wrong with which file
                load_docs(file)
        raise ValueError(f"{where}: {' '.join(str(error).split())}") from None


def make_input(nlp: Language, doc: Doc) -> Doc:
    """Return a document's text as the pipeline tokenizes it. ValueError after SECONDS."""
    if doc.has_unknown_spaces:
        return copy_words(doc, nlp.vocab)
    try:
        with time_limit(SECONDS, by_signal=False):
            return nlp.make_doc(doc.text)
    except TookTooLongError as error:
        raise ValueError(f"{doc.text[:40]!r}: the tokenizer {error}") from None


def make_examples(nlp: Language, name: str, gold: Sequence[Doc]) -> list[Example]:
    """Return examples of gold documents with words, annotated before `name`. ValueError if none."""
    gold = [doc for doc in gold if len(doc)]
    if not gold:
        raise ValueError("has no documents")
    docs = annotate_before(nlp, name, [make_input(nlp, doc) for doc in gold])
    return [Example(doc, reference) for doc, reference in zip(docs, gold, strict=True)]
