"""Add a label to a trained recognizer: what the old labels lose, and what the new one reaches.

    python -m experiments.extend --corpora DIR

A recognizer learns all labels of a corpus but one. Then the same documents annotate the missing
label alone, and the recognizer learns it: a sparse linear chain by `spacy bcrf extend`, spaCy's
`ner` by `add_label` and further training. The further training of `ner` is done twice: on the new
entities alone (all other tokens are O), and on the new entities and the old `ner`'s own predictions
elsewhere. The last row of each system is trained on all labels at once. Scores are entity F on dev.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import spacy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import filter_spans, fix_random_seed, minibatch

from lab.labeling_tasks import TASKS, add_options
from lab.tables import mean_and_deviation, print_table
from spacy_bcrf.annotation.tokenizers import copy_words
from spacy_bcrf.judging.folds import fit_sparse_chain
from spacy_bcrf.pipeline.factories import NER_MODEL
from spacy_bcrf.training.extend import extend

CORPORA = {"wnut17": ("location", None), "jnlpba": ("DNA", 3000)}
"""The new label by task, and the number of training sentences; None for all."""

SPARSE_PASSES = 10


class Scores(NamedTuple):
    """Entity F of the old labels and of the new one, and processor seconds of the last training."""

    old: float
    new: float
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--tasks", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--only", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--passes", type=int, default=5, help="of `extend`")
    parser.add_argument("--rate", type=float, default=None, help="of `extend`")
    parser.add_argument("--epochs", type=int, default=6, help="of each training of spaCy's ner")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--limit", type=int, default=None, help="training sentences")
    args = parser.parse_args()
    header = ("corpus", "label", "system", "training", "old labels", "new label", "seconds")
    table = []
    for task in args.tasks:
        new, limit = CORPORA[task]
        vocab = TASKS[task].make_nlp(None).vocab
        train = TASKS[task].read(args.corpora, "train", args.cache, vocab)[: args.limit or limit]
        dev = TASKS[task].read(args.corpora, "dev", args.cache, vocab)
        for system in args.only:
            rows: dict[str, list[Scores]] = {}
            for seed in range(args.seeds):
                for name, scores in SYSTEMS[system](task, train, dev, new, seed, args).items():
                    rows.setdefault(name, []).append(scores)
            for name, runs in rows.items():
                cells = [mean_and_deviation(column, 1) for column in zip(*runs, strict=True)]
                row = (task, new, system, name, *cells)
                table.append(dict(zip(header, row, strict=True)))
    print_table("New labels", table, "entity F on dev, processor seconds of training")


def keep(docs: Iterable[Doc], labels: Iterable[str]) -> list[Doc]:
    """Return copies with the entities of some labels. All other tokens are O."""
    kept = []
    for doc in docs:
        copy = doc.copy()
        copy.set_ents([ent for ent in doc.ents if ent.label_ in set(labels)])
        kept.append(copy)
    return kept


def evaluate(nlp: Language, docs: Sequence[Doc], new: str, seconds: float) -> Scores:
    """Return the scores of a pipeline, in percent."""
    counts = {True: [0, 0, 0], False: [0, 0, 0]}
    for gold, found in zip(docs, nlp.pipe(copy_words(doc, nlp.vocab) for doc in docs), strict=True):
        for is_new, (right, guessed, true) in counts.items():
            spans = [
                {(e.start, e.end, e.label_) for e in doc.ents if (e.label_ == new) == is_new}
                for doc in (found, gold)
            ]
            counts[is_new] = [
                right + len(spans[0] & spans[1]),
                guessed + len(spans[0]),
                true + len(spans[1]),
            ]
    old, of_new = (
        200 * right / max(1, guessed + true)
        for right, guessed, true in (counts[False], counts[True])
    )
    return Scores(old, of_new, seconds)


def pair(nlp: Language, docs: Sequence[Doc]) -> list[Example]:
    return [Example(copy_words(doc, nlp.vocab), doc) for doc in docs]


def run_sparse(
    task: str, train: Sequence[Doc], dev: Sequence[Doc], new: str, seed: int, args: Any
) -> dict[str, Scores]:
    """Return the scores of sparse linear chains by training."""
    labels = sorted({ent.label_ for doc in train for ent in doc.ents})
    old = [label for label in labels if label != new]
    model = {**NER_MODEL, "templates": TASKS[task].templates}
    pipelines = {}
    scores = {}
    for name, known in (("old labels", old), ("all labels", labels)):
        start = time.process_time()
        nlp = spacy.blank("en")
        pipe: Any = nlp.add_pipe("bcrf_ner", "ner", config={"model": model})
        for label in known:
            pipe.add_label(label)
        fit_sparse_chain(nlp, pair(nlp, keep(train, known)), SPARSE_PASSES)
        scores[name] = evaluate(nlp, dev, new, time.process_time() - start)
        pipelines[name] = nlp
    start = time.process_time()
    nlp = pipelines["old labels"]
    extend(nlp, keep(train, [new]), [new], passes=args.passes, learn_rate=args.rate, seed=seed)
    extended = evaluate(nlp, dev, new, time.process_time() - start)
    return {
        "old labels": scores["old labels"],
        "extend": extended,
        "all labels": scores["all labels"],
    }


def run_spacy(
    task: str, train: Sequence[Doc], dev: Sequence[Doc], new: str, seed: int, args: Any
) -> dict[str, Scores]:
    """Return the scores of spaCy's `ner` by training."""
    labels = sorted({ent.label_ for doc in train for ent in doc.ents})
    old = [label for label in labels if label != new]

    def fit(docs: Sequence[Doc], first: bytes | None = None) -> tuple[Language, float]:
        start = time.process_time()
        fix_random_seed(seed)
        nlp = spacy.blank("en")
        pipe: Any = nlp.add_pipe("ner")
        examples = pair(nlp, docs)
        if first is None:
            sgd = nlp.initialize(lambda: examples)
        else:
            for label in old:
                pipe.add_label(label)
            nlp.initialize(lambda: pair(nlp, keep(train[:100], old)))
            nlp.from_bytes(first)
            pipe.add_label(new)
            sgd = nlp.resume_training()
        rng = random.Random(seed)
        for _ in range(args.epochs):
            rng.shuffle(examples)
            for batch in minibatch(examples, 32):
                nlp.update(batch, sgd=sgd, drop=0.1)
        return nlp, time.process_time() - start

    teacher, seconds = fit(keep(train, old))
    scores = {"old labels": evaluate(teacher, dev, new, seconds)}
    data = teacher.to_bytes()
    nlp, seconds = fit(keep(train, [new]), data)
    scores["add_label, new entities"] = evaluate(nlp, dev, new, seconds)
    own = []
    for doc, found in zip(
        keep(train, [new]), teacher.pipe(copy_words(d, teacher.vocab) for d in train), strict=True
    ):
        predicted = [doc[ent.start : ent.end] for ent in found.ents]
        for span, ent in zip(predicted, found.ents, strict=True):
            span.label_ = ent.label_
        taken = {token.i for ent in doc.ents for token in ent}
        others = [span for span in predicted if not taken.intersection(t.i for t in span)]
        doc.set_ents(filter_spans([*doc.ents, *others]))
        own.append(doc)
    nlp, seconds = fit(own, data)
    scores["add_label, and its own predictions"] = evaluate(nlp, dev, new, seconds)
    nlp, seconds = fit(keep(train, labels))
    scores["all labels"] = evaluate(nlp, dev, new, seconds)
    return scores


SYSTEMS: dict[str, Callable[..., dict[str, Scores]]] = {"sparse": run_sparse, "spacy": run_spacy}


if __name__ == "__main__":
    main()
