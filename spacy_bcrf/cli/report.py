"""`python -m spacy bcrf report`"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from spacy.cli._util import Arg, Opt, setup_gpu

from spacy_bcrf.io.atomic import write_text

from .errors import exit_on
from .options import GpuId, PipeName
from .paths import check_corpus, check_output_file

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc
    from spacy.training import Example

    from spacy_bcrf.pipeline.codecs import Codec
    from spacy_bcrf.pipeline.evaluation import Annotation
    from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler

SUFFIXES = (".html", ".json")


def report_cli(
    model: Annotated[str, Arg(help="Trained pipeline: a folder, or the name of a package")],
    test: Annotated[Path, Arg(help="Annotated documents outside of the training data, .spacy")],
    output: Annotated[
        list[Path],
        Opt("--output", "-o", help="File to write, .html or .json. Repeatable"),
    ],
    against: Annotated[
        str | None, Opt("--against", help="Another pipeline that predicts the same annotation")
    ] = None,
    pipe: PipeName = None,
    resamples: Annotated[
        int, Opt("--resamples", help="Number of bootstrap samples and of random swaps", min=100)
    ] = 2000,
    seed: Annotated[int, Opt("--seed", help="Seed of samples and swaps", min=0)] = 0,
    gpu_id: GpuId = -1,
) -> None:
    """
    Judge a component on gold documents: precision, recall and F by label with bootstrap intervals,
    kinds of errors, calibration, confusions with examples, the most and the least certain errors.
    With --against, the differences from another pipeline and their significance. Writes one HTML
    page without scripts, or JSON.
    """
    from .report_page import report_page

    with exit_on(ValueError, ImportError, OSError):
        for path in output:
            if path.suffix not in SUFFIXES:
                raise ValueError(f"{path}: expected a file with the suffix .html or .json")
            check_output_file(path, test)
        check_corpus(test)
        setup_gpu(gpu_id, silent=True)
        report = make_report(model, test, against, pipe, resamples, seed)
        texts = [
            report_page(report) if path.suffix == ".html" else to_json(report) for path in output
        ]
        for path, text in zip(output, texts, strict=True):
            write_text(path, text)
    for note in report["notes"]:
        typer.echo(f"Note: {note}", err=True)
    for path in output:
        typer.echo(f"{path}: {summarize(report)}")


def make_report(
    model: str, test: Path, against: str | None, name: str | None, n: int, seed: int
) -> dict[str, Any]:
    """Return the report as JSON values. ValueError for documents that cannot be judged."""
    from spacy_bcrf.pipeline.evaluation import evaluate, read_gold_spans

    from .labeler import load_labeler, read_examples
    from .report_values import compare, describe

    nlp, name, labeler = load_labeler(model, name)
    codec = labeler.codec
    other_nlp = None if against is None else load_other(against, codec)
    examples = read_examples(nlp, name, test)
    references = [example.reference for example in examples]
    gold = [read_gold_spans(codec, doc) for doc in references]
    gold_labels = {span.label for of_doc in gold for span in of_doc}
    who = f"{name} of {model}"
    check_gold(test, references, gold_labels, labeler, who)
    with_posteriors = gold
    if codec.unit == "span":
        with_posteriors = add_posteriors(labeler, examples, gold)
    predicted = predict(labeler, examples)
    others = None
    if other_nlp is not None:
        others = predict_by_other(other_nlp, test, codec)
        check_other(str(against), test, others, gold_labels, codec.what)
    labels = order_labels(labeler.labels, gold, predicted, others or ())
    one = evaluate(codec, references, with_posteriors, predicted, labels)
    evaluations = [one]
    texts = [doc.text for doc in references]
    notes = list(describe_labels(who, gold_labels, set(labeler.labels)))
    if len(examples) == 1:
        notes.append("One document: intervals and p-values need several.")
    report: dict[str, Any] = {
        "model": model,
        "component": name,
        "corpus": str(test),
        "predicts": codec.what,
        "unit": codec.unit,
        "documents": len(examples),
        "labels": labels,
        "resamples": n,
        "seed": seed,
        "notes": notes,
        **describe(one, texts, n, seed),
    }
    if others is not None:
        other = evaluate(codec, references, gold, others, labels)
        evaluations.append(other)
        found_labels = {span.label for spans in others for span in spans}
        notes += describe_labels(str(against), gold_labels, found_labels, "does not predict")
        if not len(other.predictions()[0]):
            notes.append(f"{against} gives no probabilities: calibration is of {who} only.")
        report["against"] = {
            "model": against,
            **describe(other, texts, n, seed),
            **compare(one, other, texts, n, seed),
        }
    for system, evaluation in zip((who, str(against)), evaluations, strict=False):
        if n_left_out := evaluation.n_left_out:
            notes.append(
                f"{n_left_out:,} predictions of {system} are left out: gold has no annotation "
                "there."
            )
    return report


def order_labels(
    known: Sequence[str],
    gold: Sequence[Sequence[Annotation]],
    *found: Sequence[Sequence[Annotation]],
) -> list[str]:
    """Return all labels, the most frequent in gold first."""
    counts = Counter(span.label for of_doc in gold for span in of_doc)
    others = {span.label for docs in found for of_doc in docs for span in of_doc}
    return sorted({*known, *counts, *others}, key=lambda label: (-counts[label], label))


def check_gold(
    test: Path, docs: Sequence[Doc], labels: set[str], labeler: SequenceLabeler, who: str
) -> None:
    """Raise ValueError without gold annotation, or without a label that the component knows."""
    if not labels:
        raise ValueError(
            f"{test}: none of the {len(docs):,} documents has {labeler.codec.what}, which {who} "
            "predicts"
        )
    if labels.isdisjoint(labeler.labels):
        raise ValueError(
            f"{test}: the documents have the labels {', '.join(sorted(labels))}, but {who} has "
            f"{', '.join(labeler.labels) or 'none'}: no label in common"
        )


def check_other(
    against: str, test: Path, found: Sequence[Sequence[Annotation]], labels: set[str], what: str
) -> None:
    """Raise ValueError if another pipeline predicts nothing, or no gold label."""
    others = {span.label for spans in found for span in spans}
    if not others:
        raise ValueError(
            f"{against}: predicts no {what} on {test}; expected a pipeline with a component for "
            "them"
        )
    if others.isdisjoint(labels):
        raise ValueError(
            f"{against}: predicts the labels {', '.join(sorted(others))} on {test}, whose "
            f"documents have {', '.join(sorted(labels))}: no label in common"
        )


def describe_labels(
    who: str, gold: set[str], known: set[str], verb: str = "does not have"
) -> list[str]:
    """Return a note about the gold labels that a pipeline does not know."""
    if missing := sorted(gold - known):
        return [f"{who} {verb} the labels {', '.join(missing)}: all their gold spans are errors."]
    return []


def add_posteriors(
    labeler: SequenceLabeler, examples: Sequence[Example], gold: Sequence[Sequence[Annotation]]
) -> list[list[Annotation]]:
    """Return gold spans with their probabilities, None for a label unknown to the component."""
    from spacy_bcrf.pipeline.control import Evidence

    p = iter(Evidence(labeler, examples, "recall").units.posteriors.tolist())
    found = []
    for example, spans in zip(examples, gold, strict=True):
        of_doc = {
            (span.start_char, span.end_char, span.label_): next(p)
            for span in labeler.codec.find_spans(example.reference)
            if span.label_ in labeler.labels
        }
        found.append([span._replace(probability=of_doc.get(span[:3])) for span in spans])
    return found


def predict(labeler: SequenceLabeler, examples: Sequence[Example]) -> list[list[Annotation]]:
    """Return what a component writes, with probabilities. It annotates the predicted documents."""
    from tqdm import tqdm

    from spacy_bcrf.pipeline.evaluation import read_annotations

    labeler.annotate = sorted({*labeler.annotate, "confidence"})
    docs = labeler.pipe(example.predicted for example in examples)
    shown = tqdm(docs, "predicting", len(examples), unit="docs", delay=1, disable=None)
    return [read_annotations(labeler.codec, doc) for doc in shown]


def load_other(against: str, codec: Codec) -> Language:
    """Load another pipeline. Components for the same annotation write their probabilities."""
    from spacy_bcrf.pipeline.loading import load_pipeline
    from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler

    nlp = load_pipeline(against)
    for _, pipe in nlp.pipeline:
        if isinstance(pipe, SequenceLabeler) and pipe.codec.what == codec.what:
            pipe.annotate = sorted({*pipe.annotate, "confidence"})
    return nlp


def predict_by_other(nlp: Language, test: Path, codec: Codec) -> list[list[Annotation]]:
    """Return what a whole pipeline writes, with probabilities if a component gives them."""
    from spacy.training import Corpus
    from tqdm import tqdm

    from spacy_bcrf.pipeline.evaluation import read_annotations

    docs = [example.predicted for example in Corpus(test)(nlp)]
    shown = tqdm(nlp.pipe(docs), "predicting", len(docs), unit="docs", delay=1, disable=None)
    return [read_annotations(codec, doc) for doc in shown]


def to_json(report: dict[str, Any]) -> str:
    """Return the JSON text of a report."""
    return json.dumps(report, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def summarize(report: dict[str, Any]) -> str:
    """Return the F of all labels, and the difference from another pipeline, in one line."""
    f = report["scores"]["exact"][0]["f"]
    line = f"{report['documents']:,} documents, F {100 * f['value']:.2f}"
    if f["low"] is not None:
        line += f" ({100 * f['low']:.2f} to {100 * f['high']:.2f})"
    if "against" in report:
        difference = report["against"]["differences"][0]["f"]
        line += f", {100 * difference['value']:+.2f} against {report['against']['model']}"
        if difference["p"] is not None:
            line += f" (p = {difference['p']:.4f})"
    return line
