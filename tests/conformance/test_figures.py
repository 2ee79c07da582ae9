"""Our figures against those of seqeval, nervaluate and conlleval."""

import lzma
import os
import re
import subprocess
from itertools import chain, islice
from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from spacy.util import minibatch

from bcrf.io.text import find_file, read_lines
from bcrf.schemes import BIO, Span, read_spans
from spacy_bcrf.corpora.convert import convert
from spacy_bcrf.judging.evaluation import CharSpan, Evaluation, match_spans, score
from spacy_bcrf.judging.report import report

CORPUS = Path(__file__).resolve().parents[2] / "assets/english"
Tags = list[list[str]]


@pytest.fixture(scope="module")
def chunker(corpora, tmp_path_factory):
    """A linear chain trained on sentences of CoNLL-2000, and test sentences: gold and predicted."""
    nlp = spacy.blank("en")
    docs = {}
    for part, n_lines in {"train": 12_000, "test": None}.items():
        path = tmp_path_factory.mktemp("conll2000") / f"{part}.spacy"
        lines = islice(read_lines(find_file(corpora / f"conll2000/{part}.txt")), n_lines)
        source = path.with_suffix(".txt")
        source.write_text("".join(f"{line.text}\n" for line in lines), "utf8")
        columns = {"word_column": 1, "tag_column": 2, "ent_columns": (3,)}
        convert([source], path, spans_key="chunks", **columns)
        docs[part] = list(DocBin().from_disk(path).get_docs(nlp.vocab))
    model = {"@architectures": "spacy-bcrf.LinearChain.v1", "templates": "pos", "objective": "crf"}
    nlp.add_pipe("bcrf_chunker", config={"model": model})
    examples = [Example(_copy(doc), doc) for doc in docs["train"]]
    nlp.initialize(lambda: examples)
    for _ in range(3):
        for batch in minibatch(examples, 50):
            nlp.update(batch)
    # `report` counts each text once.
    test = [*{doc.text: doc for doc in docs["test"]}.values()]
    return nlp, test, [*nlp.pipe(map(_copy, test))]


def _copy(doc: Doc) -> Doc:
    return Doc(doc.vocab, words=[token.text for token in doc])


def write_tags(doc: Doc) -> list[str]:
    spans = [(span.start, span.end, span.label_) for span in doc.spans.get("chunks", ())]
    return BIO.encode(spans, len(doc))


@pytest.fixture(scope="module", params=["random errors", "a model"])
def output(request) -> tuple[Tags, Tags]:
    """Gold tags and predicted tags."""
    if request.param == "random errors":
        return make_errors()
    _, *sides = request.getfixturevalue("chunker")
    gold, found = ([write_tags(doc) for doc in side] for side in sides)
    return gold, found


def make_errors() -> tuple[Tags, Tags]:
    """Return gold tags of a corpus of the package, and tags with all kinds of errors."""
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


def evaluate(gold: Tags, found: Tags) -> tuple[Evaluation, list[str]]:
    def read(tags: list[str]) -> list[CharSpan]:
        return [CharSpan(start, end, label) for start, end, label in read_spans(tags)]

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


def run_nervaluate(gold: Tags, found: Tags, labels: list[str]) -> dict[str, list[float]]:
    """Return its precision, recall and F by our measure."""
    nervaluate = pytest.importorskip("nervaluate")
    overall = nervaluate.Evaluator(gold, found, labels, loader="list").evaluate()["overall"]
    names = {"exact": "strict", "boundaries": "exact", "overlap": "ent_type"}
    results = {measure: overall[name] for measure, name in names.items()}
    return {name: [row.precision, row.recall, row.f1] for name, row in results.items()}


def overlap_at_most_one(gold: list[str], found: list[str]) -> bool:
    """Return whether no span overlaps two of the other side: then there is one pairing."""
    sides = read_spans(gold), read_spans(found)
    shared = [(a, b) for a in sides[0] for b in sides[1] if a[0] < b[1] and b[0] < a[1]]
    return all(len(set(side)) == len(side) for side in zip(*shared, strict=True))


def test_nervaluate(output):
    evaluation, labels = evaluate(*output)
    for measure, expected in run_nervaluate(*output, labels).items():
        ours = figures(evaluation, measure)[0]
        if measure == "overlap":  # it pairs the first spans that overlap, ours equal labels first
            assert (ours >= np.array(expected) - 1e-9).all()
        else:
            assert np.allclose(ours, expected, atol=1e-9), measure
    both = [tags for tags in zip(*output, strict=True) if overlap_at_most_one(*tags)]
    assert len(both) > 100
    output = [[*side] for side in zip(*both, strict=True)]
    evaluation, labels = evaluate(*output)
    for measure, expected in run_nervaluate(*output, labels).items():
        assert np.allclose(figures(evaluation, measure)[0], expected, atol=1e-9), measure


@pytest.fixture
def script(request) -> Path:
    path = Path(os.environ.get("CONLLEVAL", request.config.rootpath / "conlleval.pl"))
    if not path.exists():
        pytest.skip("no conlleval.pl: set CONLLEVAL to its path")
    return path


def run_conlleval(script: Path, gold: Tags, found: Tags) -> tuple[dict[str, list[str]], str]:
    """Return the printed precision, recall and F of each label and of "all", and the accuracy."""
    lines = "".join(
        "".join(f"w {a} {b}\n" for a, b in zip(*tags, strict=True)) + "\n"
        for tags in zip(gold, found, strict=True)
    )
    done = subprocess.run(["perl", script], input=lines, capture_output=True, text=True, check=True)
    pattern = r"(\S+): +(?:\d+\.\d+%; )?precision: +([\d.]+)%; recall: +([\d.]+)%; FB1: +([\d.]+)"
    rows = {label: numbers for label, *numbers in re.findall(pattern, done.stdout)}
    rows["all"] = rows.pop("accuracy")
    return rows, re.search(r"accuracy: +([\d.]+)%", done.stdout)[1]


def test_conlleval(output, script):
    rows, accuracy = run_conlleval(script, *output)
    evaluation, labels = evaluate(*output)
    ours = 100 * np.nan_to_num(figures(evaluation, "exact"))
    assert rows == {
        label: [f"{number:.2f}" for number in numbers]
        for label, numbers in zip(["all", *labels], ours, strict=True)
    }
    # A tag is a span of one token.
    sides = [
        [CharSpan(i, i + 1, tag) for i, tag in enumerate(chain.from_iterable(side))]
        for side in output
    ]
    tags = sorted({span.label for side in sides for span in side})
    right = figures(Evaluation([match_spans(*sides)], tags), "exact")[0, 0]
    assert f"{100 * right:.2f}" == accuracy


def test_conlleval_agrees_with_report_and_evaluate(chunker, script):
    nlp, gold, predicted = chunker
    tags = [[write_tags(doc) for doc in side] for side in (gold, predicted)]
    rows, _ = run_conlleval(script, *tags)
    found = {
        row["label"] or "all": [
            f"{100 * (row[name]['value'] or 0):.2f}" for name in ("precision", "recall", "f")
        ]
        for row in report(nlp, gold, resamples=100).values["scores"]["exact"]
    }
    assert found == {label: ["0.00"] * 3 for label in found} | rows
    scores = nlp.evaluate([Example(_copy(doc), doc) for doc in gold])
    names = [f"spans_chunks_{name}" for name in "prf"]
    assert [f"{100 * scores[name]:.2f}" for name in names] == rows["all"]
    for label, numbers in scores["spans_chunks_per_type"].items():
        assert [f"{100 * numbers[name]:.2f}" for name in "prf"] == rows[label]
