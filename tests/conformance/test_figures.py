"""Our figures against those of seqeval, nervaluate and conlleval."""

import lzma
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from spacy_bcrf.analysis.evaluation import Annotation, Evaluation, match_spans, score
from spacy_bcrf.annotation.schemes import BIO, Span, read_spans

CORPUS = Path(__file__).resolve().parents[2] / "assets/english"


@pytest.fixture(scope="module")
def output() -> tuple[list[list[str]], list[list[str]]]:
    """Gold tags of a corpus of the package, and tags with all kinds of errors."""
    with lzma.open(CORPUS / "dev.conllu.xz", "rt", encoding="utf8") as file:
        texts = file.read().split("\n\n")
    gold = [re.findall(r"NER=(\S+)$", text, re.MULTILINE) for text in texts]
    labels = sorted({tag[2:] for tags in gold for tag in tags if tag != "O"})
    random = np.random.default_rng(0)
    found = []
    for tags in gold:
        spans: list[Span] = []
        for start, end, label in read_spans(tags):
            change = random.choice(["right", "missing", "label", "longer"], p=[0.7, 0.1, 0.1, 0.1])
            wrong = labels[random.integers(len(labels))] if change == "label" else label
            longer = change == "longer" and end < len(tags) and tags[end] == "O"
            if change != "missing":
                spans.append((start, end + longer, wrong))
        encoded = BIO.encode(spans, len(tags))
        if encoded and encoded[0] == tags[0] == "O" and random.random() < 0.05:
            encoded[0] = f"B-{labels[0]}"
        found.append(encoded)
    return gold, found


def evaluate(gold: list[list[str]], found: list[list[str]]) -> tuple[Evaluation, list[str]]:
    def read(tags: list[str]) -> list[Annotation]:
        return [Annotation(start, end, label) for start, end, label in read_spans(tags)]

    pairs = [match_spans(read(a), read(b)) for a, b in zip(gold, found, strict=True)]
    labels = sorted({tag[2:] for tags in (*gold, *found) for tag in tags if tag != "O"})
    return Evaluation(pairs, labels), labels


def figures(evaluation: Evaluation, measure: str) -> np.ndarray:
    """Precision, recall and F (1 + L, 3): all labels together, then each label."""
    return score(evaluation.count(measure).sum(axis=0))


def test_seqeval(output):
    metrics = pytest.importorskip("seqeval.metrics")
    evaluation, labels = evaluate(*output)
    found = figures(evaluation, "exact")
    report = metrics.classification_report(*output, output_dict=True, zero_division=0)
    for row, label in zip(found, ["micro avg", *labels], strict=True):
        if label in report:
            theirs = [report[label][name] for name in ("precision", "recall", "f1-score")]
            assert np.allclose(np.nan_to_num(row), theirs), label
    assert 0.1 < found[0, 2] < 0.99  # there are errors


def test_nervaluate(output):
    evaluator = pytest.importorskip("nervaluate").Evaluator
    evaluation, labels = evaluate(*output)
    theirs = evaluator(*output, tags=labels, loader="list").evaluate()["overall"]
    for measure, name in {"exact": "strict", "boundaries": "exact", "overlap": "ent_type"}.items():
        result = theirs[name]
        expected = result.precision, result.recall, result.f1
        assert np.allclose(figures(evaluation, measure)[0], expected, atol=1e-9), measure


def test_conlleval(output, request):
    script = os.environ.get("CONLLEVAL") or request.config.rootpath / "conlleval.pl"
    if not Path(script).exists():
        pytest.skip("no conlleval.pl: set CONLLEVAL to its path")
    lines = "".join(
        "".join(f"w {a} {b}\n" for a, b in zip(gold, found, strict=True)) + "\n"
        for gold, found in zip(*output, strict=True)
    )
    done = subprocess.run(["perl", script], input=lines, capture_output=True, text=True, check=True)
    evaluation, labels = evaluate(*output)
    found = dict(zip(labels, figures(evaluation, "exact")[1:], strict=True))
    pattern = r"^ +(\S+): precision: +([\d.]+)%; recall: +([\d.]+)%; FB1: +([\d.]+)"
    rows = re.findall(pattern, done.stdout, re.MULTILINE)
    assert {row[0] for row in rows} == set(labels)
    for label, *numbers in rows:
        expected = [float(number) for number in numbers]
        assert np.allclose(100 * np.nan_to_num(found[label]), expected, atol=0.006)
