"""Labeling tasks for templates and accuracy: a corpus, its parts, a component and a score."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import spacy
from spacy.language import Language
from spacy.tokens import Doc, Token
from spacy.training import Example
from spacy.vocab import Vocab

from lab.corpora import FIRST_AND_LAST, PARTS, Corpus
from lab.options import add_corpora_option
from lab.paper import EXPERIMENTS
from spacy_bcrf.annotation.extensions import set_extensions
from spacy_bcrf.corpora.convert import convert
from spacy_bcrf.readers.doc_files import read_docs

CHUNKS = "chunks"
"""Key of the span group with the chunks of a Doc."""

Token.set_extension("predicted_entities", default=(), force=True)


@dataclass(frozen=True)
class Part:
    """A part of a corpus: sentences [start:stop] of a file, relative to the folder of corpora."""

    file: str
    start: int | None = None
    stop: int | None = None


@dataclass(frozen=True)
class LabelingTask:
    """A component to train on a corpus, one sentence a Doc.

    lang: language of the pipeline.
    factory: factory of the component.
    score: key of spaCy's scorer.
    templates: name of the template set.
    parts: "train", "dev" and "test".
    columns: options of `convert` for the files.
    settings: settings of the component.
    reads_tags: whether the documents have part-of-speech tags before the component.
    has_predictions: whether `experiments.word_resources` predicts tags and entities of its words.
    learns_dev: whether dev is cut from the official training part. A test of the final model
        then trains on both.
    """

    lang: str
    factory: str
    score: str
    templates: str
    parts: dict[str, Part]
    columns: dict[str, Any]
    settings: dict[str, Any]
    reads_tags: bool = False
    has_predictions: bool = False
    learns_dev: bool = False

    def read(self, corpora: Path, part: str, cache: Path, vocab: Vocab) -> list[Doc]:
        """Read the sentences of a part.

        cache: folder of the converted files. Raises CorpusError or FileNotFoundError naming the
        file that cannot be read.
        """
        where = self.parts[part]
        path = cache / f"{where.file.replace('/', '-')}.spacy"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            spans_key = CHUNKS if self.factory == "bcrf_chunker" else None
            source = corpora / where.file
            convert([source], path, lang=self.lang, spans_key=spans_key, **self.columns)
        set_extensions()
        return list(read_docs(path, vocab))[where.start : where.stop]

    def add_predictions(self, docs: list[Doc], resources: Path) -> None:
        """Set predicted tags and entities of sentences. KeyError if a file lacks a sentence."""
        if self.has_predictions:
            tags, entities = (
                dict(line.split("\t", 1) for line in file.read_text("utf8").splitlines())
                for file in (resources / "jnlpba-tags.tsv", resources / "jnlpba-entities.tsv")
            )
            for doc in docs:
                words = " ".join(token.text for token in doc)
                found = zip(
                    *(column.split(" ") for column in entities[words].split("\t")), strict=True
                )
                for token, tag, values in zip(doc, tags[words].split(" "), found, strict=True):
                    token.tag_ = tag
                    token._.predicted_entities = values

    def make_nlp(self, model: dict[str, Any] | None, vocab: Vocab | bool = True) -> Language:
        """Make a pipeline with the component. model: its architecture, None for the default."""
        if self.factory == "bcrf_segmenter":
            tokenizer = {"@tokenizers": "spacy-bcrf.CharTokenizer.v1"}
            nlp = spacy.blank("xx", vocab=vocab, config={"nlp": {"tokenizer": tokenizer}})
        else:
            nlp = spacy.blank(self.lang, vocab=vocab)
        config = self.settings if model is None else {**self.settings, "model": model}
        nlp.add_pipe(self.factory, config=config)
        return nlp

    def examples(self, nlp: Language, docs: list[Doc]) -> list[Example]:
        """Pair the annotated documents with documents that have the component's input."""
        make: Callable[[Doc], Doc] = self._copy
        if self.factory == "bcrf_segmenter":
            make = lambda doc: nlp.make_doc(doc.text)  # noqa: E731
        return [Example(make(doc), doc) for doc in docs]

    def _copy(self, doc: Doc) -> Doc:
        tags = [token.tag_ for token in doc] if self.reads_tags else None
        spaces = [bool(token.whitespace_) for token in doc]
        return Doc(doc.vocab, words=[token.text for token in doc], spaces=spaces, tags=tags)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the folders of the corpora and of the converted files."""
    add_corpora_option(parser)
    parser.add_argument("--cache", type=Path, default=Path("training/labeling-tasks"))


def _whole(corpus: Corpus) -> dict[str, Part]:
    return {part: Part(file) for part, file in zip(PARTS, corpus.files, strict=True)}


def _entities(name: str, templates: str, **more: Any) -> LabelingTask:
    corpus = EXPERIMENTS["ner"].corpora[name]
    return LabelingTask(
        "en", "bcrf_ner", "ents_f", templates, _whole(corpus), FIRST_AND_LAST, {}, **more
    )


def _words(lang: str) -> LabelingTask:
    corpus = EXPERIMENTS["seg"].corpora[lang]
    return LabelingTask(
        lang,
        "bcrf_segmenter",
        "tagged_token_f",
        "segmentation",
        _whole(corpus),
        {"format": "conllu"},
        {"attribute": "pos"},
    )


_EWT = EXPERIMENTS["pos"].corpora["en"]

TASKS = {
    "conll2000": LabelingTask(
        "en",
        "bcrf_chunker",
        "spans_chunks_f",
        "chunking",
        {
            "train": Part("conll2000/train.txt", 0, 8000),
            "dev": Part("conll2000/train.txt", 8000),
            "test": Part("conll2000/test.txt"),
        },
        FIRST_AND_LAST | {"tag_column": 2},
        {},
        reads_tags=True,
        learns_dev=True,
    ),
    "ewt-pos": LabelingTask(
        "en",
        "bcrf_tagger",
        "pos_acc",
        "pos",
        _whole(_EWT),
        {"format": "conllu"},
        {"attribute": "pos"},
    ),
    "jnlpba": _entities("jnlpba", "biomedical", has_predictions=True, learns_dev=True),
    "wnut17": _entities("wnut", "social"),
    "uner": LabelingTask(
        "en",
        "bcrf_ner",
        "ents_f",
        "ner",
        {
            "train": Part("uner-english-ewt/en_ewt-ud-dev.iob2", 0, 1600),
            "dev": Part("uner-english-ewt/en_ewt-ud-dev.iob2", 1600),
            "test": Part("uner-english-ewt/en_ewt-ud-test.iob2"),
        },
        {"format": "columns", "word_column": 2, "ent_columns": (3,)},
        {},
    ),
    "zh": _words("zh"),
    "ja": _words("ja"),
}
"""Tasks by the name of their corpus. Universal NER's training part is not in the stored copy of the
corpus, so "uner" trains on the first 1,600 sentences of its dev part."""
