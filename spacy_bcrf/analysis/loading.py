"""Trained pipelines: loading, the choice of a component, and gold examples for it."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import spacy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import registry
from spacy.vocab import Vocab

from spacy_bcrf.annotation.tokenizers import copy_words
from spacy_bcrf.corpora.doc_files import find_files, load_docs, naming_damaged, read_docs
from spacy_bcrf.corpora.time_limit import SECONDS, TookTooLongError, time_limit
from spacy_bcrf.pipeline.load_checks import find_damaged
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler


def load_pipeline(model: str | Path) -> Language:
    """Load a pipeline from a folder or a package. ValueError names it, or its damaged file."""
    try:
        return spacy.load(model)
    except (OSError, ValueError) as error:
        if str(error).startswith(str(model)):
            raise  # a component names its files
        best = Path(model, "model-best")
        hint = f"; {best} is a pipeline of `spacy train`" if best.is_dir() else ""
        raise ValueError(
            f"{find_damaged(model)}: the pipeline cannot be loaded: {error}{hint}"
        ) from None


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
            f"{where}: no component {unknown[0]!r} of spacy-bcrf; expected --pipe to be one of "
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
    """Return name and component. name: None for the only one. check(name, component) rejects it."""
    able, reasons = [], []
    for key, pipe in find_labelers(nlp, [] if name is None else [name], where).items():
        try:
            able.append((key, pipe, check and check(key, pipe)))
        except ValueError as error:
            reasons.append(str(error))
    if len(able) > 1:
        names = ", ".join(key for key, *_ in able)
        raise ValueError(f"{where}: --pipe is missing; expected --pipe to be one of {names}")
    if not able:
        raise ValueError("; ".join(reasons))
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


def note_shared(gold: Iterable[Doc], train: Iterable[Doc], where: str, source: str) -> list[str]:
    """Return a note if gold documents are training documents too. where, source: their names."""
    known = {hash(doc.text) for doc in train}
    found = Counter(hash(doc.text) in known for doc in gold)
    note = (
        f"{found[True]:,} of {found.total():,} documents of {where} are in {source} too: scores on "
        "them are too good"
    )
    return [note] if found[True] else []


def note_trained(nlp: Language, gold: Iterable[Doc], where: str) -> list[str]:
    """Return a note if gold documents are in the training corpus of a pipeline's config.

    where: the name of the gold documents. A corpus that is not on this machine gives no note.
    """
    try:
        path = Path(find_reader(nlp, "train")[1]["path"])
        return note_shared(gold, read_docs(path, Vocab()), where, str(path))
    except (KeyError, TypeError, ValueError, OSError):
        return []


N_HASHES = 32
"""Number of hashes of texts that a component keeps of the documents of its calibration."""


def hash_texts(docs: Iterable[Doc]) -> tuple[str, ...]:
    """Return the N_HASHES smallest hashes of texts, a random sample of them."""
    return tuple(sorted(_hash_all(docs))[:N_HASHES])


def share_seen(seen: Sequence[str], docs: Iterable[Doc]) -> float:
    """Return the share of documents, known by the hashes of `hash_texts`, that are among others."""
    return len(_hash_all(docs).intersection(seen)) / max(1, len(seen))


def _hash_all(docs: Iterable[Doc]) -> set[str]:
    texts = {doc.text.encode() for doc in docs}
    return {hashlib.blake2b(text, digest_size=8).hexdigest() for text in texts}


def note_left_out(n: int, who: str) -> list[str]:
    """Return a note about n predictions of a component that gold cannot judge."""
    why = "gold has no annotation or other tokens there, or is open."
    return [f"{n:,} predictions of {who} are left out: {why}"] if n else []


def note_fitted(labeler: SequenceLabeler, gold: Sequence[Doc]) -> list[str]:
    """Return a note if gold documents gave the component its promise."""
    share = share_seen(labeler.control.fitted_on, gold) if labeler.control is not None else 0
    what = f"{100 * share:.0f}% of the documents that `control` was fitted on"
    return [f"{what} are among these: what they reach is too good"] if share else []


def check_unseen(labeler: SequenceLabeler, gold: Sequence[Doc]) -> list[str]:
    """Return a note if gold documents were used to calibrate the component.

    ValueError if at least half of the documents of `calibrate` are among them.
    """
    share = share_seen(labeler.calibrated_on, gold)
    what = f"{100 * share:.0f}% of the documents that `calibrate` was fitted on"
    if share >= 0.5:
        raise ValueError(
            f"[{labeler.name}] the gold documents have {what}. A promise needs documents that "
            "neither training nor `calibrate` has seen"
        )
    return [f"the gold documents have about {what}: leave them out"] if share else []
