"""Find label errors that were put into two corpora, next to cleanlab.

    python -m experiments.audit --corpora DIR

Needs the extra bench. One share of the entities is corrupted: another label, a boundary moved by
one token, a removed entity, a random entity added. Five-fold cross-fitted sparse chains give the
same probabilities to both methods. cleanlab ranks tokens by the quality of their tags
(`cleanlab.token_classification`, with the tags of the scheme as classes).

A hit is the first suspect that touches a corrupted region. Further suspects of a region that was
counted already, hit or not, count as nothing. For cleanlab, the region of a token is its gold
entity, or the tokens beside it that the model tags as an entity. So several tokens of one entity
count once.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc, Span
from spacy.training import Example

from bcrf.io.extras import require
from lab.labeling_tasks import TASKS, add_options
from lab.tables import mean_and_deviation, print_table
from spacy_bcrf.annotation.tokenizers import copy_words
from spacy_bcrf.judging.folds import assign_folds, train_sparse_chain
from spacy_bcrf.judging.label_errors import KINDS, Suspect, find_suspects

CORPORA = {"wnut17": None, "jnlpba": 3000}
"""Tasks, and the number of their training sentences; None for all."""

Region = tuple[int, int, int]
"""Index of a document, first token, one past the last token."""


class Judged(NamedTuple):
    """One document after cross-fitting.

    suspects: of `find_suspects`. marginals: (n, T) of the tags. gold: (n,) tag ids.
    """

    suspects: list[Suspect]
    marginals: NDArray[np.floating]
    gold: NDArray[np.integer]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--tasks", nargs="+", choices=CORPORA, default=list(CORPORA))
    parser.add_argument("--share", type=float, default=0.05, help="of entities to corrupt")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    require("cleanlab", "bench")
    header = ("corpus", "method", "average precision", "precision at 100", *KINDS, "seconds")
    table = []
    for task in args.tasks:
        measured: dict[str, list[list[float]]] = {"audit": [], "cleanlab": []}
        seconds = []
        for seed in range(args.seeds):
            docs = TASKS[task].read(
                args.corpora, "train", args.cache, TASKS[task].make_nlp(None).vocab
            )
            docs, errors = corrupt(docs[: CORPORA[task]], args.share, seed)
            start = time.process_time()
            judged = cross_fit(docs, args.folds)
            seconds.append(time.process_time() - start)
            rankings = {"audit": rank_suspects(judged), "cleanlab": rank_tokens(judged)}
            for method, ranking in rankings.items():
                measured[method].append(evaluate(ranking, errors))
        for method, rows in measured.items():
            cells = [mean_and_deviation(column) for column in zip(*rows, strict=True)]
            time_taken = f"{np.mean(seconds):.0f}" if method == "audit" else ""
            row = (task, method, *cells, time_taken)
            table.append(dict(zip(header, row, strict=True)))
    print_table("Label errors", table, f"{args.share:.0%} of the entities corrupted")


def corrupt(docs: Sequence[Doc], share: float, seed: int) -> tuple[list[Doc], dict[Region, str]]:
    """Return copies of documents with corrupted entities, and the kind of each corrupted region.

    The kinds take turns. A region is the union of the old and the new span, if there are both.
    """
    rng = random.Random(seed)
    labels = sorted({ent.label_ for doc in docs for ent in doc.ents})
    spans = [(i, ent.start, ent.end, ent.label_) for i, doc in enumerate(docs) for ent in doc.ents]
    by_doc = [{(ent.start, ent.end): ent.label_ for ent in doc.ents} for doc in docs]
    errors: dict[Region, str] = {}
    wanted = round(share * len(spans))
    rng.shuffle(spans)
    for i, start, end, label in spans:
        if len(errors) == wanted:
            break
        kind = KINDS[len(errors) % len(KINDS)]
        ents, n = by_doc[i], len(docs[i])
        new: tuple[int, int] | None = start, end
        if kind == "type":
            label = rng.choice([other for other in labels if other != label])
        elif kind == "boundary":
            new = rng.choice(
                [(start - 1, end), (start, end + 1), (start + 1, end), (start, end - 1)]
            )
        elif kind == "missing":
            new = None
        else:
            # The place of a spurious entity is independent of the entity that it counts for.
            i = rng.randrange(len(docs))
            ents, n = by_doc[i], len(docs[i])
            start = rng.randrange(n)
            end = start + rng.choice([1, 1, 2, 3])
            new = start, end
        others = [span for span in ents if span != (start, end)]
        if new is not None and not (
            0 <= new[0] < new[1] <= n and all(b <= new[0] or new[1] <= a for a, b in others)
        ):
            continue
        region = (i, min(start, new[0]), max(end, new[1])) if new else (i, start, end)
        is_taken = any(r[0] == i and r[1] < region[2] and region[1] < r[2] for r in errors)
        if is_taken or (kind == "spurious" and (start, end) in ents):
            continue
        ents.pop((start, end), None)
        if new is not None:
            ents[new] = label
        errors[region] = kind
    corrupted = [doc.copy() for doc in docs]
    for doc, ents in zip(corrupted, by_doc, strict=True):
        doc.set_ents([Span(doc, a, b, label=label) for (a, b), label in ents.items()])
    return corrupted, errors


def cross_fit(docs: Sequence[Doc], n_folds: int) -> list[Judged]:
    """Return each document as judged by a sparse chain that was trained on the other folds."""
    labels = sorted({ent.label_ for doc in docs for ent in doc.ents})
    folds = assign_folds(len(docs), n_folds)
    judged: list[Any] = [None] * len(docs)
    for fold in range(n_folds):
        nlp = train_sparse_chain(
            [doc for doc, k in zip(docs, folds, strict=True) if k != fold], labels
        )
        pipe: Any = nlp.get_pipe("ner")
        held_out = np.flatnonzero(folds == fold).tolist()
        examples = [Example(copy_words(docs[i], nlp.vocab), docs[i]) for i in held_out]
        suspects = find_suspects(pipe, examples)
        marginals = pipe.token_marginals([example.predicted for example in examples])
        gold = pipe.read_gold(examples).tags
        gold = np.split(gold, np.cumsum([len(example) for example in examples])[:-1])
        for i, *values in zip(held_out, suspects, marginals, gold, strict=True):
            judged[i] = Judged(*values)
    return judged


def rank_suspects(judged: Sequence[Judged]) -> list[Region]:
    """Return the regions of all suspects, the most suspicious first."""
    scored = []
    for i, doc in enumerate(judged):
        for suspect in doc.suspects:
            spans = [span for span in (suspect.gold, suspect.suggestion) if span]
            region = i, min(span[0] for span in spans), max(span[1] for span in spans)
            scored.append((-suspect.score, region))
    return [region for _, region in sorted(scored)]


def rank_tokens(judged: Sequence[Judged]) -> list[Region]:
    """Return the regions of all tokens, the lowest label quality of cleanlab first."""
    from cleanlab.token_classification.rank import get_label_quality_scores

    gold = [doc.gold.tolist() for doc in judged]
    probabilities = [doc.marginals / doc.marginals.sum(axis=1, keepdims=True) for doc in judged]
    _, by_token = get_label_quality_scores(gold, probabilities)
    scored = []
    for i, (doc, scores) in enumerate(zip(judged, by_token, strict=True)):
        predicted = doc.marginals.argmax(axis=1) > 0
        regions = [
            *_runs((doc.gold == 0) & predicted),
            *((s.gold[:2]) for s in doc.suspects if s.gold),
        ]
        of_token = {token: region for region in regions for token in range(*region)}
        for token, score in enumerate(np.asarray(scores).tolist()):
            scored.append((score, (i, *of_token.get(token, (token, token + 1)))))
    return [region for _, region in sorted(scored)]


def _runs(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(mask.astype(int), prepend=0, append=0)).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


def evaluate(ranking: Iterable[Region], errors: dict[Region, str]) -> list[float]:
    """Return average precision, precision at 100, and the share of each kind in the first 2 E.

    E: the number of errors. Precision counts distinct regions, see the module.
    """
    at = {(i, token): region for region in errors for i, a, b in [region] for token in range(a, b)}
    found: set[Region] = set()
    counted: set[tuple[int, int]] = set()
    hits: list[bool] = []
    early: list[str] = []
    for i, start, end in ranking:
        touched = {at[i, token] for token in range(start, end) if (i, token) in at}
        new = touched - found
        if not new and (touched or any((i, token) in counted for token in range(start, end))):
            continue
        counted.update((i, token) for token in range(start, end))
        hits.append(bool(new))
        found |= new
        if len(hits) <= 2 * len(errors):
            early += [errors[region] for region in new]
    precisions = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    average = float(precisions[np.array(hits, dtype=bool)].sum() / len(errors))
    kinds = list(errors.values())
    shares = [early.count(kind) / max(1, kinds.count(kind)) for kind in KINDS]
    return [average, float(np.mean(hits[:100])), *shares]


if __name__ == "__main__":
    main()
