"""Our pairs, our figures and our reading of tags in the place of nervaluate's.

Its `Evaluator`, and the sums over documents, stay nervaluate's.
"""

import nervaluate
import numpy as np
from nervaluate import entities, loaders, strategies, utils
from shim_calls import pytest_runtest_call  # noqa: F401

from bcrf.io.text import Line
from bcrf.schemes import read_spans
from spacy_bcrf.corpora.formats.columns import read_columns
from spacy_bcrf.judging.evaluation import CharSpan, Evaluation, match_spans, score

MEASURES = {"Strict": "exact", "Exact": "boundaries", "EntityType": "overlap"}
"""The measure of each strategy. "Partial" takes "boundaries", and half of each other pair."""


def collect_named_entities(tags):
    found = read_spans(tags)
    return [{"label": label, "start": start, "end": end - 1} for start, end, label in found]


def load_list(loader, data):
    return [[entities.Entity(**span) for span in collect_named_entities(tags)] for tags in data]


def load_conll(loader, data):
    lines = [Line("data", i, text) for i, text in enumerate(data.splitlines(), 1)]
    return load_list(loader, [sentence.entities for sentence in read_columns(lines)])


def compute_metrics(result, partial_or_type=False):
    wrong = result.incorrect + result.partial
    result.actual = result.correct + wrong + result.spurious
    result.possible = result.correct + wrong + result.missed
    hits = result.correct + (0.5 * result.partial if partial_or_type else 0)
    counts = np.array([result.possible, result.actual, hits, hits])
    result.precision, result.recall, result.f1 = np.nan_to_num(score(counts))


def evaluate(strategy, true_entities, pred_entities, tags, instance_index=0):
    if strategy.min_overlap_percentage != 1:
        raise NotImplementedError("a least overlap")
    name = type(strategy).__name__.removesuffix("Evaluation")
    gold, predicted = (
        [CharSpan(one.start, one.end + 1, one.label) for one in side]
        for side in (true_entities, pred_entities)
    )
    numbers = {id(span): i for side in (gold, predicted) for i, span in enumerate(side)}
    found = {outcome: [] for outcome in ("correct", "incorrect", "partial", "missed", "spurious")}
    for pair in match_spans(gold, predicted):
        labels = sorted({span.label for span in pair if span})
        counts = Evaluation([[pair]], labels).count(MEASURES.get(name, "boundaries"))
        if None in pair:
            outcome = "missed" if pair.gold else "spurious"
        elif counts[0, 0, 2]:
            outcome = "correct"
        else:
            outcome = "partial" if name == "Partial" else "incorrect"
        found[outcome].append((instance_index, numbers[id(pair.predicted or pair.gold)]))
    result = entities.EvaluationResult(**{outcome: len(some) for outcome, some in found.items()})
    result.compute_metrics(partial_or_type=name in ("Partial", "EntityType"))
    indices = {f"{outcome}_indices": sorted(some) for outcome, some in found.items()}
    return result, entities.EvaluationIndices(**indices)


for name in (*MEASURES, "Partial"):
    getattr(strategies, f"{name}Evaluation").evaluate = evaluate
nervaluate.collect_named_entities = utils.collect_named_entities = collect_named_entities
loaders.ListLoader.load, loaders.ConllLoader.load = load_list, load_conll
entities.EvaluationResult.compute_metrics = compute_metrics
