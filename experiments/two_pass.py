"""Compare chains of one pass, without and with dropout, and of two passes, on whole documents.

    python -m experiments.two_pass uner jnlpba --corpora DIR --seeds 3
    python -m experiments.two_pass conll2002-nl --corpora DIR

Documents begin at `-DOCSTART-` or `# newdoc`. A corpus without such lines has one sentence a Doc.
The Dutch news of CoNLL-2002 is not in the folder of corpora: NLTK's data has it, in
packages/corpora/conll2002.zip.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from spacy.tokens import Doc
from spacy.vocab import Vocab

from bcrf.io.text import find_file, read_lines
from lab.labeling_tasks import TASKS, LabelingTask
from lab.options import add_corpora_option
from lab.tables import markdown_table, mean_and_deviation
from spacy_bcrf.judging.folds import fit_sparse_chain
from spacy_bcrf.training.first_config import FACTORIES, MODELS, RATE_OF_DOCUMENTS

VARIANTS: dict[str, dict[str, Any]] = {
    "one pass, no dropout": {"feature_dropout": 0.0},
    "one pass": {},
    "two passes": {"two_pass": True},
}
"""Changes of the model that `python -m spacy bcrf init` chooses for large corpora of documents."""


def files_of(pattern: str, names: str) -> tuple[str, ...]:
    """Return the names of the files of train, dev and test."""
    return tuple(pattern % name for name in names.split())


class Columns(NamedTuple):
    """Files of train, dev and test, columns of the word and the tag, and what separates them.

    task: the task that the corpus has as sentences, or one with the same component.
    share: below 1, train and dev are documents of the first file, in random order.
    """

    task: LabelingTask
    files: tuple[str, ...]
    word: int
    tag: int
    share: float = 1.0
    separator: str = "\t"


CORPORA = {
    "uner": Columns(
        TASKS["uner"],
        files_of("uner-english-ewt/en_ewt-ud-%s.iob2", "dev dev test"),
        1,
        2,
        share=0.7,
    ),
    "jnlpba": Columns(TASKS["jnlpba"], files_of("jnlpba/%s.tsv", "train devel test"), 0, 1),
    "wnut17": Columns(
        TASKS["wnut17"],
        files_of("wnut17/%s", "wnut17train.conll emerging.dev.conll emerging.test.annotated"),
        0,
        1,
    ),
    "conll2002-nl": Columns(
        replace(TASKS["uner"], lang="nl"),
        files_of("conll2002/ned.%s", "train testa testb"),
        0,
        2,
        separator=" ",
    ),
    "ewt-pos": Columns(
        TASKS["ewt-pos"],
        files_of("ud-english-ewt/en_ewt-ud-%s.conllu", "train dev test"),
        1,
        3,
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", nargs="+", choices=CORPORA)
    add_corpora_option(parser)
    parser.add_argument("--passes", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=1, help="orders of the training documents")
    parser.add_argument("--part", choices=["dev", "test"], default="dev", help="part to measure")
    args = parser.parse_args()
    rows = [("corpus", "model", args.part, "seconds of training")]
    for name in args.corpus:
        columns = CORPORA[name]
        task = columns.task
        is_tagger = task.factory == FACTORIES["tagger"]
        for variant, changes in VARIANTS.items():
            if is_tagger and variant == "one pass, no dropout":
                continue  # as "one pass"
            of_task = {} if is_tagger else {"rate": RATE_OF_DOCUMENTS}
            model = {**MODELS["tagger" if is_tagger else "ner"], **of_task, **changes}
            scores, seconds = [], []
            for seed in range(args.seeds):
                nlp = task.make_nlp(model)
                train, dev, test = read(args.corpora, columns, nlp.vocab)
                random.Random(seed).shuffle(train)
                start = time.process_time()
                fit_sparse_chain(nlp, task.examples(nlp, train), args.passes)
                seconds.append(time.process_time() - start)
                part = dev if args.part == "dev" else test
                scores.append(100 * nlp.evaluate(task.examples(nlp, part))[task.score])
            cells = mean_and_deviation(scores, 2), mean_and_deviation(seconds, 1)
            rows.append((name, variant, *cells))
            print(*rows[-1], sep="  ", flush=True)
    print(markdown_table(rows))


def read(corpora: Path, columns: Columns, vocab: Vocab) -> list[list[Doc]]:
    """Read the documents of train, dev and test."""
    is_tagger = columns.task.factory == FACTORIES["tagger"]
    parts = [
        [
            Doc(
                vocab,
                words=words,
                pos=tags if is_tagger else None,
                ents=None if is_tagger else tags,
            )
            for words, tags in read_documents(corpora / file, columns)
        ]
        for file in columns.files
    ]
    if columns.share < 1:
        docs = parts[0]
        random.Random(0).shuffle(docs)
        cut = int(columns.share * len(docs))
        parts[:2] = docs[:cut], docs[cut:]
    return parts


def read_documents(path: Path, columns: Columns) -> Iterator[tuple[list[str], list[str]]]:
    """Yield words and tags of each document. Tags are IOB2, or universal tags."""
    lines = [line.text for line in read_lines(find_file(path))]
    marks = [line.startswith(("-DOCSTART-", "# newdoc")) for line in lines]
    has_marks = any(marks)
    words: list[str] = []
    tags: list[str] = []
    for line, is_mark in zip([*lines, ""], [*marks, True], strict=True):
        fields = line.split(columns.separator)
        is_row = len(fields) > columns.tag and fields[columns.word] and not is_mark
        if is_row and (columns.word == 0 or fields[0].isdigit()):
            words.append(fields[columns.word])
            tags.append(fields[columns.tag])
        elif words and (is_mark or not (is_row or has_marks)):
            yield words, tags
            words, tags = [], []


if __name__ == "__main__":
    main()
