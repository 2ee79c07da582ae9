"""De-identification: replaced spans of a recall promise, and what of the gold spans is left."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import minibatch

from spacy_bcrf.pipeline.prediction import BATCH_SIZE
from spacy_bcrf.pipeline.settings import Control, check_promise

from .control.risk import binomial_interval
from .folding import Folded, fold, fold_name, is_sign
from .loading import annotate_before, find_labeler
from .replacer import Replacer
from .result import Result

MIN_POOLED = 0.1
"""Smallest pooled posterior of a string whose occurrences are all replaced."""


class Region(NamedTuple):
    """A part of a text to replace. start, end: characters. score: the posterior of its span.

    repeated: whether it is only another occurrence of a found string, with the pooled posterior.
    """

    start: int
    end: int
    label: str
    score: float
    repeated: bool = False


class Redacted(NamedTuple):
    """A redacted text. spans: the replacements, in its characters. regions: in the old ones.

    left: the places in it where a found string, or one of its words, still stands.
    """

    text: str
    spans: list[Region]
    regions: list[Region]
    left: list[Region]

    def to_json(self) -> dict[str, Any]:
        """Return text and spans as JSON values, without anything of the old text."""
        return {"text": self.text, "spans": [span._asdict() for span in self.spans]}


def redact(
    nlp: Language,
    docs: Iterable[Doc],
    pipe: str | None = None,
    *,
    style: str = "label",
    threshold: float | None = None,
    key: bytes = b"",
) -> Iterator[Redacted]:
    """Yield the redacted texts of documents without annotation.

    It replaces the spans of the component's recall promise, the entities of earlier components, and
    all further occurrences in the document of the found strings and their words, whose pooled
    posterior is at least MIN_POOLED: the mean over the occurrences of the probability to be in a
    span. Strings are compared by `Folded`, without possessives. Then it looks for them in its own
    output: `Redacted.left`.

    style: "label", "surrogate" (other words of the same form) or "mask". threshold: of posteriors,
    None for the promise. key: a secret for surrogates. ValueError without a promise or threshold.
    """
    replacer = Replacer(style, key)
    name, labeler = find_labeler(nlp, pipe, check=partial(find_promise, threshold=threshold))
    promise = find_promise(name, labeler, threshold)
    for batch in minibatch(docs, BATCH_SIZE):
        annotated = list(annotate_before(nlp, name, batch))
        found = find_spans(labeler, annotated, promise)
        for doc, (spans, inside) in zip(annotated, found, strict=True):
            yield replace_spans(doc, spans, inside, replacer)


def find_promise(name: str, labeler: Any, threshold: float | None) -> Control:
    """Return a component's promise of recall, or that of a threshold. ValueError without both."""
    check_promise(name, labeler.codec, "recall")
    promise: Control | None = labeler.control
    if threshold is not None:
        thresholds = (threshold,) * len(labeler.labels)
        return Control("recall", labeler.labels, thresholds, labeler.temperature)
    if promise is None or promise.promise != "recall":
        raise ValueError(
            f"[{name}] has no promise of recall: run `control` with --recall and --covered, set "
            '`control` to "covered" of a shipped `nlp.meta["promises"]`, or give --threshold'
        )
    return promise


def find_regions(labeler: Any, batch: list[Doc]) -> Iterator[list[Region]]:
    """Yield the regions to replace, by the promise of recall. batch: annotated before it."""
    found = find_spans(labeler, batch, labeler.control)
    for doc, (spans, inside) in zip(batch, found, strict=True):
        yield merge_repeats(Words.of(doc), spans, inside)[0]


def find_spans(
    labeler: Any, batch: list[Doc], promise: Control
) -> Iterator[tuple[list[Region], NDArray]]:
    """Yield the found spans of documents, and the probabilities (n,) of tokens to be in a span."""
    marginals = labeler.token_marginals(batch, ignore_annotation=False)
    settings = labeler.typed_settings.change(labeler.name, {"control": promise})
    predictions = labeler.predict(batch, settings)
    for doc, prediction, of_doc in zip(batch, predictions, marginals, strict=True):
        assert prediction.candidates is not None, "the promise is of recall"
        found = [
            Region(doc[start].idx, doc[end - 1].idx + len(doc[end - 1]), labeler.labels[label], p)
            for start, end, label, p in prediction.candidates
        ]
        found += [Region(ent.start_char, ent.end_char, ent.label_, 1.0) for ent in doc.ents]
        codec = labeler.codec
        # The chains side by side are independent: a token is O in all, or inside.
        inside = 1 - of_doc[:, codec.outside :: codec.n_tags].prod(axis=1)
        yield found, inside


def replace_spans(doc: Doc, spans: list[Region], inside: NDArray, replacer: Replacer) -> Redacted:
    """Return a document without found spans and repeats. inside: (n,), see `find_spans`."""
    text = doc.text
    if not spans:
        return Redacted(text, [], [], [])
    regions, strings = merge_repeats(Words.of(doc), spans, inside)
    new, replaced = replace_regions(text, regions, replacer)
    left = list(find_left(text, regions, new, replaced, strings))
    return Redacted(new, replaced, regions, left)


class Words(NamedTuple):
    """The tokens of a text. starts: their first characters."""

    text: str
    words: list[str]
    starts: list[int]

    @classmethod
    def of(cls, doc: Doc) -> "Words":
        return cls(doc.text, [token.text for token in doc], [token.idx for token in doc])


class String(NamedTuple):
    """A folded string to replace. is_word: only of a found string, so not in lower case."""

    text: str
    label: str
    is_word: bool

    def find(self, text: str, folded: Folded) -> list[tuple[int, int]]:
        """Return start and end of each occurrence in a text."""
        return [
            place
            for place in folded.find(self.text)
            if not (self.is_word and text[slice(*place)].islower())
        ]


def find_strings(words: Words, spans: Sequence[Region]) -> list[String]:
    """Return the found strings and their words, each with the label of the highest score.

    A string that is found itself is no word of another one. A word in lower case, such as "of", is
    no string of its own, and one in upper case does not occur in lower case.
    """
    found: dict[str, String] = {}
    parts: dict[str, String] = {}
    text, tokens, starts = words
    for start, end, label, *_ in sorted(spans, key=lambda span: span.score):
        if name := fold_name(text[start:end]):
            found[name] = String(name, label, False)
        for i in range(bisect_left(starts, start), bisect_left(starts, end)):
            token = tokens[i]
            word = "" if token.islower() else fold_name(token)
            if len(word) > 1 and sum(map(str.isalnum, word)) > 1:
                parts[word] = String(word, label, True)
    return list({**parts, **found}.values())


def merge_repeats(
    words: Words, spans: Sequence[Region], inside: NDArray
) -> tuple[list[Region], list[String]]:
    """Return spans and repeats, merged, and the strings.

    Repeats are all occurrences of strings whose pooled posterior is large enough. inside: (n,) the
    probability that a token is in a span.
    """
    text, _, starts = words
    strings, repeats = find_strings(words, spans), []
    folded, p = Folded(text), inside.tolist()
    for string in strings:
        places = string.find(text, folded)
        of_places = [
            min(p[bisect_right(starts, start) - 1 : bisect_left(starts, end)])
            for start, end in places
        ]
        pooled = sum(of_places) / max(1, len(places))
        if pooled >= MIN_POOLED:
            repeats += [Region(*place, string.label, pooled, True) for place in places]
    return merge([*spans, *repeats]), strings


def merge(regions: Iterable[Region]) -> list[Region]:
    """Return regions without overlaps: their unions, with the label of the highest score."""
    merged: list[Region] = []
    for region in sorted(regions):
        if merged and region.start < merged[-1].end:
            best = max(merged[-1], region, key=lambda one: (not one.repeated, one.score))
            end = max(merged[-1].end, region.end)
            merged[-1] = best._replace(start=merged[-1].start, end=end)
        else:
            merged.append(region)
    return merged


def replace_regions(
    text: str, regions: list[Region], replacer: Replacer
) -> tuple[str, list[Region]]:
    """Return the new text, and the regions in its characters."""
    parts, spans, at, length = [], [], 0, 0
    for region in regions:
        new = replacer.replace(text[region.start : region.end], region.label)
        length += region.start - at
        spans.append(region._replace(start=length, end=length + len(new)))
        parts += [text[at : region.start], new]
        at, length = region.end, length + len(new)
    return "".join([*parts, text[at:]]), spans


def find_left(
    old: str, regions: list[Region], new: str, spans: list[Region], strings: list[String]
) -> Iterator[Region]:
    """Yield occurrences of strings in a new text, but those that a replacement has by chance."""
    folded = Folded(new)
    ends = [span.end for span in spans]
    for string in strings:
        for start, end in string.find(new, folded):
            k = bisect_left(ends, end)
            if k < len(spans) and spans[k].start <= start:
                region, span = regions[k], spans[k]
                is_label = new[span.start : span.end] == f"[{span.label}]"
                if is_label or string.text not in fold(old[region.start : region.end]):
                    continue
            yield Region(start, end, string.label, 0.0, True)


# Leaks


class Leak(NamedTuple):
    """What redaction leaves of a label. label: None for all.

    spans, characters, documents: (left, all, low, high), where low and high bound the share with
    confidence 95%, NaN without any. A gold span is left if one of its characters is, other than
    blanks and punctuation. A document with gold spans is left if one is, or a found string.
    strings: the number of places in the output where a found string still stands.
    """

    label: str | None
    spans: tuple[int, int, float, float]
    characters: tuple[int, int, float, float]
    documents: tuple[int, int, float, float]
    strings: int


@dataclass(repr=False)
class LeakReport(Result):
    """The leaks by label, all labels first. replaced: the share of other characters replaced."""

    leaks: list[Leak]
    n_docs: int
    replaced: float

    def __repr__(self) -> str:
        left, n, _, high = self.leaks[0].documents
        bound = "" if math.isnan(high) else f", at most {100 * high:.1f}%"
        return (
            f"{left:,} of {n:,} documents with gold spans leak{bound}; found strings still stand "
            f"at {self.leaks[0].strings:,} places; "
            f"{100 * self.replaced:.1f}% of the other characters are replaced"
        )

    def rows(self) -> list[tuple[str, ...]]:
        header = "label", "spans left", "characters left", "documents with a leak", "strings left"
        rows = [
            (one.label or "all", *map(_show, one[1:4]), f"{one.strings:,}") for one in self.leaks
        ]
        return [header, *rows]


def _show(share: tuple[int, int, float, float]) -> str:
    left, n, low, high = share
    if not n:
        return "none annotated"
    return f"{left:,} of {n:,}, {100 * left / n:.1f}% ({100 * low:.1f} to {100 * high:.1f})"


def measure_leaks(
    gold: Sequence[Doc], redacted: Sequence[Redacted], *, spans_key: str | None = None
) -> LeakReport:
    """Measure what redacted texts have of the spans of gold documents and of the found strings.

    spans_key: None for `doc.ents`, else a group of `doc.spans`.

    Intervals of spans and characters are percentiles of 1,000 bootstrap samples of the documents.
    If all or nothing is left, and for documents, they are exact (Clopper and Pearson 1934).
    ValueError without documents.
    """
    if not gold:
        raise ValueError("expected gold documents, got none")
    by_doc = [doc.ents if spans_key is None else list(doc.spans.get(spans_key, ())) for doc in gold]
    of_gold = {span.label_ for spans in by_doc for span in spans}
    labels = sorted(of_gold.union(place.label for one in redacted for place in one.left))
    rows = {label: 1 + i for i, label in enumerate(labels)}
    counts = np.zeros((len(gold), 1 + len(rows), 4))
    strings = np.zeros((len(gold), 1 + len(rows)), dtype=int)
    n_other = n_replaced = 0
    for i, (doc, spans, one) in enumerate(zip(gold, by_doc, redacted, strict=True)):
        signs = np.array([is_sign(x) for x in doc.text], dtype=bool)
        is_left, is_other = signs.copy(), signs.copy()
        for region in one.regions:
            is_left[region.start : region.end] = False
        for span in spans:
            part = slice(span.start_char, span.end_char)
            left = int(is_left[part].sum())
            is_other[part] = False
            found = (left > 0, 1, left, int(signs[part].sum()))
            counts[i, [0, rows[span.label_]]] += found
        for place in one.left:
            strings[i, [0, rows[place.label]]] += 1
        n_other += int(is_other.sum())
        n_replaced += int((is_other & ~is_left).sum())
    rng = np.random.default_rng(0)
    n, equal = len(gold), np.full(len(gold), 1 / len(gold))
    samples = np.array([np.tensordot(rng.multinomial(n, equal), counts, 1) for _ in range(1000)])
    leaks = []
    for k, label in enumerate([None, *labels]):
        with_left, with_spans = counts[:, k, 0] > 0, counts[:, k, 1] > 0
        exact = _count_documents(with_left, with_spans)[2:]
        shares: list[Any] = []
        for at in (0, 2):
            left, total = counts[:, k, at : at + 2].sum(0).astype(int).tolist()
            some = samples[:, k, at + 1] > 0
            bounds = exact
            if 0 < left < total:
                found = samples[some, k, at] / samples[some, k, at + 1]
                bounds = tuple(np.percentile(found, (2.5, 97.5)).tolist())
            shares.append((left, total, *bounds))
        of_spans, of_characters = shares
        documents = _count_documents(with_spans & (with_left | (strings[:, k] > 0)), with_spans)
        leaks.append(Leak(label, of_spans, of_characters, documents, int(strings[:, k].sum())))
    return LeakReport(leaks, len(gold), n_replaced / max(1, n_other))


def _count_documents(left: NDArray, every: NDArray) -> tuple[int, int, float, float]:
    n_left, n = int(left.sum()), int(every.sum())
    return (n_left, n, *(binomial_interval(n_left, n) if n else (math.nan, math.nan)))
