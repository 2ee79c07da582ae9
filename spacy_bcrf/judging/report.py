"""`report`: scores with intervals, kinds of errors, calibration, and a paired comparison."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from tqdm import tqdm

from bcrf.chain.potentials import counted
from spacy_bcrf import loading
from spacy_bcrf.pipeline.codecs import Codec
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler
from spacy_bcrf.promises.control import measure_promises
from spacy_bcrf.promises.evidence import Evidence
from spacy_bcrf.promises.seen import drop_copies, note_fitted, note_left_out
from spacy_bcrf.result import Result, as_json, make_axes, plot_reliability

from .compare_sources import compare_sources
from .evaluation import CharSpan, evaluate, read_annotations, read_gold_spans
from .report_values import compare, describe_pipeline, list_scores


@dataclass(repr=False)
class Report(Result):
    """What gold documents say about a component. values: JSON values, see `report_values`."""

    values: dict[str, Any]

    def __repr__(self) -> str:
        f = self.values["scores"]["exact"][0]["f"]
        line = f"{counted(self.values['documents'], 'document')}, F {100 * f['value']:.2f}"
        if f["low"] is not None:
            line += f" ({100 * f['low']:.2f} to {100 * f['high']:.2f})"
        if "against" in self.values:
            difference = self.values["against"]["differences"][0]["f"]
            line += f", {100 * difference['value']:+.2f} against {self.values['against']['model']}"
            if difference["p"] is not None:
                line += f" (p = {difference['p']:.4f})"
        for row in self.values["calibration"][:1]:
            line += f", calibration error {row['error']:.3f}, of perfectly calibrated "
            line += f"probabilities {row['expected_error']:.3f}"
        for row in self.values["promises"]:
            reached = "-" if row["reached"] is None else f"{row['reached']:.3f}"
            line += f", {row['promise']} promised, {reached} reached"
        return line

    def to_json(self) -> dict[str, Any]:
        return self.values

    def rows(self) -> list[tuple[str, ...]]:
        return list_scores(self.values["scores"]["exact"])

    def plot(self) -> Any:
        """Return a Matplotlib figure: F by label with its interval, and reliability."""
        figure, (left, right) = make_axes(1, 2, width=9, height=4)
        for row in self.values["scores"]["exact"]:
            if at := sorted(x for x in row["f"].values() if x is not None):
                name = row["label"] or "all"
                left.plot(at, [name] * len(at), "C0o-", markevery=[len(at) // 2])
        left.set_xlabel("F")
        for table in self.values["calibration"][:1]:
            confidence, accuracy, counts = table["confidence"], table["accuracy"], table["counts"]
            plot_reliability(right, confidence, accuracy, counts, self.values["component"])
        return figure


def report(
    nlp: Language,
    gold: Sequence[Doc],
    pipe: str | None = None,
    *,
    against: Language | None = None,
    resamples: int = 2000,
    seed: int = 0,
    names: tuple[str, str, str] = ("the pipeline", "the other pipeline", "the corpus"),
) -> Report:
    """Judge a component on gold documents, or compare it with another pipeline on them.

    Documents with equal texts count once.

    pipe: name of the component, None for the only one. against: a pipeline that predicts the same
    annotation; its components for it write probabilities from then on. resamples: number of
    bootstrap samples and of random swaps. names: of both pipelines and the corpus.

    ValueError for documents without annotation, or without a label that a pipeline knows.
    """
    model, other_name, corpus = names
    name, labeler = loading.find_labeler(nlp, pipe, model)
    codec = labeler.codec
    gold, notes = drop_copies(gold)
    examples = loading.make_examples(nlp, name, gold)
    references = [example.reference for example in examples]
    right = [read_gold_spans(codec, doc) for doc in references]
    counts = Counter(span.label for of_doc in right for span in of_doc)
    gold_labels, who = set(counts), f"{name} of {model}"
    if not counts:
        what = f"{codec.what}, which {who} predicts"
        raise ValueError(f"{corpus}: none of the {len(references):,} documents has {what}")
    loading.check_common(labeler, examples)
    with_posteriors = _add_posteriors(labeler, examples, right) if codec.unit == "span" else right
    # Before `pipe`: entities that a document has are certain.
    promises = measure_promises(labeler, examples)
    gold_spans = [{span[:3] for span in of_doc} for of_doc in right]
    predicted_docs = [example.predicted for example in examples]
    sources = compare_sources(labeler, nlp.lang or "xx", predicted_docs, gold_spans)
    labeler.annotate = (*dict.fromkeys((*labeler.annotate, "confidence")),)
    predicted = _read(labeler.pipe(eg.predicted for eg in examples), codec, len(examples))
    others = None
    if against is not None:
        others = _read_other(against, codec, references)
        other_labels = {span.label for spans in others for span in spans}
        _check_other(other_name, corpus, other_labels, gold_labels, codec.what)
    shown = {span.label for of_doc in (*predicted, *(others or ())) for span in of_doc}
    labels = sorted({*labeler.labels, *counts, *shown}, key=lambda each: (-counts[each], each))
    one = evaluate(codec, references, with_posteriors, predicted, labels)
    texts = [doc.text for doc in references]
    notes += describe_labels(who, gold_labels - {*labeler.labels, *shown})
    notes += note_fitted(labeler.control, references) if promises else []
    notes += [*_note_examples(examples, codec, model, corpus), *note_left_out(one.n_left_out, who)]
    values: dict[str, Any] = {
        "model": model,
        "component": name,
        "corpus": corpus,
        "predicts": codec.what,
        "unit": codec.unit,
        "documents": len(examples),
        "labels": labels,
        "resamples": resamples,
        "seed": seed,
        "notes": notes,
        "promises": promises,
        "sources": sources,
        **describe_pipeline(one, texts, resamples, seed),
    }
    if others is not None:
        other = evaluate(codec, references, right, others, labels)
        notes += describe_labels(other_name, gold_labels - other_labels, "does not predict")
        if not len(other.predictions()[0]):
            notes.append(f"{other_name} gives no probabilities: calibration is of {who} only.")
        values["against"] = {
            "model": other_name,
            **describe_pipeline(other, texts, resamples, seed),
            **compare(one, other, texts, resamples, seed),
        }
        notes += note_left_out(other.n_left_out, other_name)
    return Report(as_json(values))


def _read(docs: Any, codec: Codec, n: int) -> list[list[CharSpan]]:
    shown = tqdm(docs, "predicting", n, unit="docs", delay=1, disable=None)
    return [read_annotations(codec, doc) for doc in shown]


def _read_other(other: Language, codec: Codec, docs: Sequence[Doc]) -> list[list[CharSpan]]:
    """Return the predictions of another pipeline. Its components write probabilities from now."""
    for _, component in other.pipeline:
        if isinstance(component, SequenceLabeler) and component.codec.what == codec.what:
            component.annotate = (*dict.fromkeys((*component.annotate, "confidence")),)
    inputs = [loading.make_input(other, doc) for doc in docs]
    return _read(other.pipe(inputs), codec, len(inputs))


def _note_examples(
    examples: Sequence[Example], codec: Codec, model: str, corpus: str
) -> Iterator[str]:
    """Yield notes about documents with other tokens in the corpus, and about a single document."""
    pairs = [(eg.predicted, eg.reference) for eg in examples if codec.unit != "word"]
    if n_other := sum([t.idx for t in own] != [t.idx for t in given] for own, given in pairs):
        yield (
            f"{counted(n_other, 'document')} {'has' if n_other == 1 else 'have'} other tokens in "
            f"{corpus}. This report predicts on the tokens of {model}, as `spacy evaluate` does; "
            f"`review` and `annotate` keep the tokens of {corpus}, so their counts can differ."
        )
    if len(examples) == 1:
        yield "One document: intervals and p-values need several."


def _check_other(against: str, corpus: str, others: set[str], labels: set[str], what: str) -> None:
    if not others:
        raise ValueError(
            f"{against}: predicts no {what} on {corpus}; expected a pipeline with a component for "
            "them"
        )
    if others.isdisjoint(labels):
        raise ValueError(
            f"{against}: predicts the labels {', '.join(sorted(others))} on {corpus}, whose "
            f"documents have {', '.join(sorted(labels))}: no label in common"
        )


def describe_labels(who: str, unknown: set[str], verb: str = "does not have") -> list[str]:
    """Return a note about the gold labels that a pipeline does not know."""
    names = ", ".join(sorted(unknown))
    return [f"{who} {verb} the labels {names}: all their gold spans are errors."] if names else []


def _add_posteriors(
    labeler: SequenceLabeler, examples: Sequence[Example], gold: Sequence[Sequence[CharSpan]]
) -> list[list[CharSpan]]:
    """Return gold spans with their probabilities, None for a label unknown to the component."""
    p = iter(Evidence(labeler, examples, "recall").units.posteriors.tolist())
    found = []
    for example, spans in zip(examples, gold, strict=True):
        aligned = labeler.codec.find_spans(example.reference)
        gold_spans = [(span.start_char, span.end_char, span.label_) for span in aligned]
        gold_spans += labeler.codec.find_misaligned(example.reference)
        of_doc = {span: next(p) for span in gold_spans if span[-1] in labeler.labels}
        found.append([span._replace(probability=of_doc.get(span[:3])) for span in spans])
    return found
