"""Tasks of the SAPO experiments: corpora, templates, labels and settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bcrf.io.text import CorpusError, find_file, read_lines
from lab.dataset import spans, tags
from lab.scores import accuracy, span_f
from spacy_bcrf.corpora.formats.columns import read_columns
from spacy_bcrf.corpora.formats.conllu import read_conllu
from spacy_bcrf.corpora.sentence import Sentence


@dataclass(frozen=True)
class Task:
    """A corpus and the settings of its experiments.

    read: reads sentences from lines.
    labels: returns the gold tags of a sentence.
    score: computes the test score in percent from gold and predicted tags.
    l2, l1, rate, decay: the same for CRF and SAPO, chosen on development sentences.
    """

    name: str
    title: str
    train: str
    test: str
    read: Callable
    labels: Callable[[Sentence], list[str]]
    score: Callable[[list[list[str]], list[list[str]]], float]
    templates: str
    l2: float
    l1: float
    rate: float
    decay: float

    def load(self, corpora: Path, limit: int = 0) -> tuple[list[Sentence], list[Sentence]]:
        """Read the training and the test sentences.

        limit: maximum number of training sentences; 0 for all.

        Raises CorpusError if a part has no sentences.
        """
        return self._read(corpora, self.train)[: limit or None], self._read(corpora, self.test)

    def _read(self, corpora: Path, name: str) -> list[Sentence]:
        path = find_file(corpora / name)
        sentences = list(self.read(read_lines(path)))
        if not sentences:
            raise CorpusError(f"{path}: no sentences")
        return sentences


TASKS = {
    task.name: task
    for task in (
        Task(
            name="chunking",
            title="CoNLL-2000 chunking (F)",
            train="conll2000/train.txt",
            test="conll2000/test.txt",
            read=partial(read_columns, tag_column=2),
            labels=spans,
            score=span_f,
            templates="crfsuite-chunking",
            l2=0.1,
            l1=0.2,
            rate=0.2,
            decay=1,
        ),
        Task(
            name="bioner",
            title="JNLPBA entities (F)",
            train="jnlpba/train.tsv",
            test="jnlpba/test.tsv",
            read=read_columns,
            labels=spans,
            score=span_f,
            templates="sapo-biomedical",
            l2=5,
            l1=0.2,
            rate=0.02,
            decay=1,
        ),
        Task(
            name="pos",
            title="EWT XPOS (accuracy)",
            train="ud-english-ewt/en_ewt-ud-train.conllu",
            test="ud-english-ewt/en_ewt-ud-test.conllu",
            read=partial(read_conllu, tag="xpos"),
            labels=tags,
            score=accuracy,
            templates="pos",
            l2=0,
            l1=0.01,
            rate=0.1,
            decay=1,
        ),
    )
}
