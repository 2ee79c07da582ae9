"""The tasks of the SAPO experiments: corpora, features, and what is learned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from spacy_bcrf.corpora.formats.columns import read_columns
from spacy_bcrf.corpora.formats.conllu import read_conllu
from spacy_bcrf.corpora.sentence import Sentence
from spacy_bcrf.io.text import CorpusError, find_file, read_lines


def spans(sentence: Sentence) -> list[str]:
    return [tag or "O" for tag in sentence.entities]


def tags(sentence: Sentence) -> list[str]:
    return [tag or "" for tag in sentence.tags]


@dataclass(frozen=True)
class Task:
    """l2: lambda of the paper. rate, decay: of CRF and SAPO alike, chosen on development data (for
    chunking, the last 936 training sentences)."""

    name: str
    title: str
    train: str
    test: str
    read: Callable
    labels: Callable[[Sentence], list[str]]
    templates: str
    l2: float
    rate: float
    decay: float

    @property
    def is_spans(self) -> bool:
        """Whether F of spans is the score, rather than accuracy."""
        return self.labels is spans

    def load(self, corpora: Path, limit: int = 0) -> tuple[list[Sentence], list[Sentence]]:
        """Training and test sentences; of the former only the first if there is a limit."""
        parts = []
        for name in (self.train, self.test):
            path = find_file(corpora / name)
            parts.append(list(self.read(read_lines(path))))
            if not parts[-1]:
                raise CorpusError(f"{path}: no sentences")
        return parts[0][: limit or None], parts[1]


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
            templates="crfsuite-chunking",
            l2=1,
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
            templates="biomedical",
            l2=5,
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
            templates="pos",
            l2=2,
            rate=0.1,
            decay=1,
        ),
    )
}
