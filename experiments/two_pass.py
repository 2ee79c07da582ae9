"""Compare a sparse chain with one of two passes on whole documents, several orders.

    python -m experiments.two_pass uner --corpora DIR --seeds 3

Documents begin at `-DOCSTART-` or `# newdoc`. A corpus without such lines has one sentence a Doc.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from spacy.tokens import Doc
from spacy.vocab import Vocab

from experiments.corpora import add_corpora_option
from experiments.labeling_tasks import TASKS
from experiments.report import markdown_table, mean_and_deviation
from spacy_bcrf.analysis.cross_fitting import fit_sparse_chain
from spacy_bcrf.io.text import find_file, read_lines

MODEL = {"@architectures": "spacy-bcrf.LinearChain.v1", "objective": "crf"}


def files_of(pattern: str, names: str) -> tuple[str, ...]:
    """Return the names of the files of train, dev and test."""
    return tuple(pattern % name for name in names.split())


class Columns(NamedTuple):
    """Files of train, dev and test, columns of the word and the tag, and the share of train.

    With a share, train and dev are documents of the first file, in random order.
    """

    files: tuple[str, ...]
    word: int
    tag: int
    share: float = 1.0


CORPORA = {
    "uner": Columns(files_of("uner-english-ewt/en_ewt-ud-%s.iob2", "dev dev test"), 1, 2, 0.7),
    "jnlpba": Columns(files_of("jnlpba/%s.tsv", "train devel test"), 0, 1),
    "wnut17": Columns(
        files_of("wnut17/%s", "wnut17train.conll emerging.dev.conll emerging.test.annotated"), 0, 1
    ),
    "ewt-pos": Columns(files_of("ud-english-ewt/en_ewt-ud-%s.conllu", "train dev test"), 1, 3),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tasks", nargs="+", choices=CORPORA)
    add_corpora_option(parser)
    parser.add_argument("--passes", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=1, help="orders of the training documents")
    parser.add_argument("--part", choices=["dev", "test"], default="dev", help="part to measure")
    args = parser.parse_args()
    rows = [("corpus", "two_pass", args.part, "seconds of training")]
    for name in args.tasks:
        task = TASKS[name]
        for two_pass in (False, True):
            scores, seconds = [], []
            for seed in range(args.seeds):
                nlp = task.make_nlp({**MODEL, "templates": task.templates, "two_pass": two_pass})
                train, dev, test = read(args.corpora, CORPORA[name], nlp.vocab, name == "ewt-pos")
                random.Random(seed).shuffle(train)
                start = time.process_time()
                fit_sparse_chain(nlp, task.examples(nlp, train), args.passes)
                seconds.append(time.process_time() - start)
                part = dev if args.part == "dev" else test
                scores.append(100 * nlp.evaluate(task.examples(nlp, part))[task.score])
            cells = mean_and_deviation(scores, 2), mean_and_deviation(seconds, 1)
            rows.append((name, str(two_pass), *cells))
    print(markdown_table(rows))


def read(corpora: Path, columns: Columns, vocab: Vocab, is_pos: bool) -> list[list[Doc]]:
    """Read the documents of train, dev and test."""
    parts = [
        [make_doc(rows, vocab, is_pos) for rows in read_documents(corpora / file, columns)]
        for file in columns.files
    ]
    if columns.share < 1:
        docs = parts[0]
        random.Random(0).shuffle(docs)
        cut = int(columns.share * len(docs))
        parts[:2] = docs[:cut], docs[cut:]
    return parts


def read_documents(path: Path, columns: Columns) -> Iterator[list[tuple[str, str]]]:
    """Yield words and tags of each document."""
    lines = [line.text for line in read_lines(find_file(path))]
    marks = [line.startswith(("-DOCSTART-", "# newdoc")) for line in lines]
    rows: list[tuple[str, str]] = []
    for line, is_mark in zip(lines, marks, strict=True):
        if rows and (is_mark or not (line.strip() or any(marks))):
            yield rows
            rows = []
        fields = line.split("\t")
        if len(fields) > columns.tag and not is_mark and (columns.word == 0 or fields[0].isdigit()):
            rows.append((fields[columns.word], fields[columns.tag]))
    if rows:
        yield rows


def make_doc(rows: list[tuple[str, str]], vocab: Vocab, is_pos: bool) -> Doc:
    """Make a gold document. Tags are IOB2, or universal tags."""
    words, tags = zip(*rows, strict=True)
    options: dict[str, Any] = {"pos" if is_pos else "ents": list(tags)}
    return Doc(vocab, words=list(words), **options)


if __name__ == "__main__":
    main()
