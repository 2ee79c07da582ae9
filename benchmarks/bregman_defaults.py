"""Accuracy of a Bregman CRF by iterations, over-relaxation and scale, on three tasks.

    python -m benchmarks.bregman_defaults --corpora DIR

Short trainings of a small CNN: part-of-speech tags (EWT), entities (JNLPBA), and joint
segmentation and tagging of characters (Chinese). --out keeps the converted corpora. stderr shows
the rows so far.
"""

import argparse
import random
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import spacy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import Adam, fix_random_seed

from lab.corpora import convert_parts, read_corpus
from lab.machine import describe_machine
from lab.options import add_options
from lab.paper import EXPERIMENTS
from lab.tables import print_table

TASKS = {"EWT": ("pos", "en"), "JNLPBA": ("ner", "jnlpba"), "Chinese": ("seg", "zh")}
"""Experiment and corpus by name, see `lab.paper`."""

CRF = {"@layers": "spacy-bcrf.CRF.v1"}

Setting = tuple[int, float, float]
"""n_iter, relaxation and scale."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser, needs_corpora=True)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--n-iter", type=int, nargs="+", default=[5, 10, 20])
    parser.add_argument("--relaxation", type=float, nargs="+", default=[1.0, 1.25])
    parser.add_argument("--scale", type=float, nargs="+", default=[2.0])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--words", type=int, default=500, help="tokens in a batch")
    parser.add_argument("--train", type=int, default=10_000, help="training documents")
    parser.add_argument("--dev", type=int, default=500, help="dev documents")
    parser.add_argument("--width", type=int, default=64, help="width of the CNN")
    parser.add_argument("--out", type=Path, default=Path("training/bregman"), metavar="DIR")
    args = parser.parse_args()
    settings: list[Setting | None] = [
        None,
        *product(args.n_iter, args.relaxation, args.scale),
    ]
    rows: list[dict[str, object]] = [
        {"head": "CRF"}
        if x is None
        else dict(zip(("n_iter", "relaxation", "scale"), x, strict=True))
        for x in settings
    ]
    for task in args.tasks:
        corpus = Task(task, args)
        for setting, row in zip(settings, rows, strict=True):
            half, full = corpus.train(setting)
            row[f"{task}, half"], row[task] = f"{half:.2f}", f"{full:.2f}"
            print(task, row, file=sys.stderr, flush=True)
    names = ["head", "n_iter", "relaxation", "scale", *(key for key in rows[0] if key != "head")]
    notes = (
        f"{describe_machine(['spacy', 'thinc', 'numpy'])}\n"
        f"dev scores after half of {args.steps} steps and after all, of {args.words} tokens each; "
        f"CNN of width {args.width} and depth 2; Viterbi; one seed; "
        f"the first {args.train} training and {args.dev} dev documents"
    )
    table = [
        {name: row.get(name, "BCRF" if name == "head" else "") for name in names} for row in rows
    ]
    print_table("Bregman CRF", table, notes, args.csv)


class Task:
    """A corpus and a component to train on it."""

    def __init__(self, name: str, args: argparse.Namespace) -> None:
        experiment, corpus_name = TASKS[name]
        self.experiment = EXPERIMENTS[experiment]
        self.args = args
        corpus = self.experiment.corpora[corpus_name]
        prefix = f"{args.out}/{corpus_name}-"
        paths = convert_parts(args.corpora, corpus, prefix)
        self.is_segmenter = experiment == "seg"
        self.train_docs = read_corpus(paths["train"])[: args.train]
        self.dev_docs = read_corpus(paths["dev"])[: args.dev]

    def train(self, setting: Setting | None) -> tuple[float, float]:
        """Return the dev scores in percent after half of the training and after all."""
        fix_random_seed(0)
        nlp = spacy.blank("xx")
        if self.is_segmenter:
            nlp.tokenizer = spacy.registry.tokenizers.get("spacy-bcrf.CharTokenizer.v1")()(nlp)
        head: dict[str, Any] = CRF
        if setting is not None:
            n_iter, relaxation, scale = setting
            head = {
                "@layers": "spacy-bcrf.BCRF.v1",
                **{"n_iter": n_iter, "relaxation": relaxation, "scale": scale},
            }
        nlp.add_pipe(self.experiment.component, config={"model": self._model(head)})
        train, dev = (list(self._examples(nlp, docs)) for docs in (self.train_docs, self.dev_docs))
        nlp.initialize(lambda: train)
        optimizer = Adam(2e-3, L2=0.01, L2_is_weight_decay=True, grad_clip=1.0)
        scores = []
        batches = self._batches(train)
        for step in range(1, self.args.steps + 1):
            nlp.update(next(batches), sgd=optimizer, drop=0.1)
            if step in (self.args.steps // 2, self.args.steps):
                scores.append(100 * nlp.evaluate(dev)[self.experiment.score])
        return scores[0], scores[-1]

    def _model(self, head: dict[str, Any]) -> dict[str, Any]:
        return {
            "@architectures": "spacy-bcrf.SequenceLabeler.v1",
            "head": head,
            "tok2vec": {
                "@architectures": "spacy.HashEmbedCNN.v2",
                **{"width": self.args.width, "depth": 2, "embed_size": 2000, "window_size": 1},
                **{"maxout_pieces": 2, "subword_features": not self.is_segmenter},
                "pretrained_vectors": None,
            },
        }

    def _examples(self, nlp: Language, docs: list[Doc]) -> Iterator[Example]:
        for doc in docs:
            if self.is_segmenter:
                yield Example(nlp.make_doc(doc.text), doc)
            else:
                words, spaces = [t.text for t in doc], [bool(t.whitespace_) for t in doc]
                yield Example(Doc(nlp.vocab, words=words, spaces=spaces), doc)

    def _batches(self, examples: list[Example]) -> Iterator[list[Example]]:
        order = random.Random(0)
        batch: list[Example] = []
        while True:
            order.shuffle(examples)
            for example in examples:
                batch.append(example)
                if sum(len(eg.predicted) for eg in batch) >= self.args.words:
                    yield batch
                    batch = []


if __name__ == "__main__":
    main()
