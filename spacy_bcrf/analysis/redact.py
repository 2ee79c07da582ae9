"""De-identification: replaced spans of a recall promise, and what of the gold spans is left."""

from __future__ import annotations

import hmac
import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import minibatch

from spacy_bcrf.pipeline.prediction import BATCH_SIZE
from spacy_bcrf.pipeline.settings import Control, check_promise

from .control.risk import binomial_interval
from .loading import annotate_before, find_labeler
from .result import Result, make_axes, plot_interval

STYLES = ("label", "surrogate", "mask")

MIN_POOLED = 0.1
"""Smallest pooled posterior of a string whose occurrences are all replaced."""

_POSSESSIVE = re.compile("['\u2019]s?$", re.IGNORECASE)
_CLASSES = ("aeiou", "bcdfghjklmnpqrstvwxyz", "0123456789")


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
    """A redacted text. spans: the replacements, in its characters. regions: in the old ones."""

    text: str
    spans: list[Region]
    regions: list[Region]

    def to_json(self) -> dict[str, Any]:
        """Return text and spans as JSON values, without anything of the old text."""
        return {"text": self.text, "spans": [span._asdict() for span in self.spans]}


class Replacer:
    """Replacements of one style. key: of surrogates, which are equal for equal words and keys."""

    def __init__(self, style: str, key: bytes) -> None:
        if style not in STYLES:
            raise ValueError(f"style must be one of {', '.join(STYLES)}, got {style!r}")
        self.style, self.key = style, key

    def replace(self, text: str, label: str) -> str:
        """Return the replacement. Surrogates and masks keep length, case, digits and signs."""
        if self.style == "label":
            return f"[{label}]"
        return re.sub(r"[^\W_]+", self._replace_word, unicodedata.normalize("NFC", text))

    def _replace_word(self, word: re.Match) -> str:
        digest = hmac.digest(self.key, word[0].casefold().encode(), "sha256")
        found = [self._replace_character(x, digest[i % len(digest)]) for i, x in enumerate(word[0])]
        return "".join(found)

    def _replace_character(self, character: str, n: int) -> str:
        plain = unicodedata.normalize("NFKD", character)[0].lower()
        if self.style == "mask":
            new = "#" if character.isnumeric() else "x"
        else:
            of_kind = next((kind for kind in _CLASSES if plain in kind), "")
            if of_kind:  # never the same character
                place = of_kind.index(plain) + 1 + n % (len(of_kind) - 1)
                new = of_kind[place % len(of_kind)]
            else:
                new = chr((ord(plain) & ~31) | (n & 31))
                new = new if new.isalpha() and new.lower() != plain else "x"
        return new.upper() if character.isupper() else new


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
    span. Case and possessives do not matter.

    style: "label", "surrogate" (other words of the same form) or "mask". threshold: of posteriors,
    None for the promise. key: a secret for surrogates. ValueError without a promise or threshold.
    """
    replacer = Replacer(style, key)
    name, labeler = find_labeler(nlp, pipe)
    check_promise(name, labeler.codec, "recall")
    promise = labeler.control
    if threshold is not None:
        labels = labeler.labels
        thresholds = (threshold,) * len(labels)
        promise = Control("recall", labels, thresholds, labeler.temperature)
    elif promise is None or promise.promise != "recall":
        raise ValueError(
            f"[{name}] has no promise of recall: run `control` with --recall, or give a threshold"
        )
    for batch in minibatch(docs, BATCH_SIZE):
        # Between two documents, the pipeline is as it was.
        annotated, before = list(annotate_before(nlp, name, batch)), labeler.control
        labeler.control = promise
        try:
            found = list(find_regions(labeler, annotated))
        finally:
            labeler.control = before
        for doc, regions in zip(annotated, found, strict=True):
            yield _replace_regions(doc.text, regions, replacer)


def find_regions(labeler: Any, batch: list[Doc]) -> Iterator[list[Region]]:
    """Yield the regions of documents that `redact` replaces, by the component's promise of recall.

    batch: documents that all earlier components have annotated.
    """
    marginals = labeler.token_marginals(batch, ignore_annotation=False)
    for doc, prediction, of_doc in zip(batch, labeler.predict(batch), marginals, strict=True):
        found = [
            Region(doc[start].idx, doc[end - 1].idx + len(doc[end - 1]), labeler.labels[label], p)
            for start, end, label, p in prediction.candidates
        ]
        found += [Region(ent.start_char, ent.end_char, ent.label_, 1.0) for ent in doc.ents]
        codec = labeler.codec
        # The chains side by side are independent: a token is O in all, or inside.
        inside = 1 - of_doc[:, codec.outside :: codec.n_tags].prod(axis=1)
        yield _merge([*found, *_find_repeats(doc, found, inside)])


def _find_repeats(doc: Doc, found: Sequence[Region], inside: NDArray) -> Iterator[Region]:
    """Yield the further occurrences of found strings and of their words.

    inside: (n,) the probability that a token is in a span. A word in lower case, such as "of", is
    no string of its own, and one in upper case does not occur in lower case.
    """
    stems = [_POSSESSIVE.sub("", token.text) or token.text for token in doc]
    keys = [stem.casefold() for stem in stems]
    places: dict[str, list[int]] = defaultdict(list)
    for i, word in enumerate(keys):
        places[word].append(i)
    strings: dict[tuple[str, ...], Region] = {}
    at_start = {token.idx: token.i for token in doc}
    for region in sorted(found, key=lambda region: region.score):
        first = at_start[region.start]
        last = next(i for i in range(first, len(doc)) if _end(doc, i) >= region.end)
        strings[tuple(keys[first : last + 1])] = region
        for i in range(first, last + 1):
            if len(stems[i]) > 1 and stems[i].isalnum() and not stems[i].islower():
                strings[(keys[i],)] = region
    for string, region in strings.items():
        n = len(string)
        is_word = n == 1 and _end(doc, at_start[region.start]) < region.end
        starts = [
            i
            for i in places[string[0]]
            if tuple(keys[i : i + n]) == string and not (is_word and stems[i].islower())
        ]
        pooled = float(np.mean([inside[i : i + n].min() for i in starts])) if starts else 0.0
        if len(starts) > 1 and pooled >= MIN_POOLED:
            for i in starts:
                end = doc[i + n - 1].idx + len(stems[i + n - 1])
                yield Region(doc[i].idx, end, region.label, pooled, True)


def _end(doc: Doc, i: int) -> int:
    return doc[i].idx + len(doc[i])


def _merge(regions: Iterable[Region]) -> list[Region]:
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


def _replace_regions(text: str, regions: list[Region], replacer: Replacer) -> Redacted:
    parts, spans, at, length = [], [], 0, 0
    for region in regions:
        new = replacer.replace(text[region.start : region.end], region.label)
        length += region.start - at
        spans.append(region._replace(start=length, end=length + len(new)))
        parts += [text[at : region.start], new]
        at, length = region.end, length + len(new)
    return Redacted("".join([*parts, text[at:]]), spans, regions)


# Leaks


class Leak(NamedTuple):
    """The gold spans of a label that redaction leaves. label: None for all.

    spans, characters, documents: (left, all, low, high), where low and high bound the share with
    confidence 95%, NaN without any. A span or a document is left if a letter or a digit of it is.
    """

    label: str | None
    spans: tuple[int, int, float, float]
    characters: tuple[int, int, float, float]
    documents: tuple[int, int, float, float]


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
            f"{left:,} of {n:,} documents with gold spans leak{bound}; "
            f"{100 * self.replaced:.1f}% of the other characters are replaced"
        )

    def rows(self) -> list[tuple[str, ...]]:
        """Return the cells of a table, with a header."""
        rows: list[tuple[str, ...]] = [
            ("label", "spans left", "characters left", "documents with a leak")
        ]
        for label, *shares in self.leaks:
            rows.append((label or "all", *(_show(*share) for share in shares)))
        return rows

    def plot(self) -> Any:
        """Return a Matplotlib figure: the share of documents with a leak by label."""
        figure, axes = make_axes()
        for leak in self.leaks[::-1]:
            left, n, *bounds = leak.documents
            if n:
                plot_interval(axes, leak.label or "all", left / n, *bounds)
        axes.set_xlabel("documents with a leak")
        return figure


def _show(left: int, n: int, low: float, high: float) -> str:
    if not n:
        return "none annotated"
    return f"{left:,} of {n:,}, {100 * left / n:.1f}% ({100 * low:.1f} to {100 * high:.1f})"


def measure_leaks(
    gold: Sequence[Doc], regions: Sequence[Sequence[Region]], *, spans_key: str | None = None
) -> LeakReport:
    """Compare the spans of gold documents with the replaced regions of the same texts.

    spans_key: None for `doc.ents`, else a group of `doc.spans`.

    Intervals of spans and characters are percentiles of 1,000 bootstrap samples of the documents.
    If all or nothing is left, and for documents, they are exact (Clopper and Pearson 1934).
    ValueError without documents.
    """
    if not gold:
        raise ValueError("expected gold documents, got none")
    by_doc = [doc.ents if spans_key is None else list(doc.spans.get(spans_key, ())) for doc in gold]
    labels = sorted({span.label_ for spans in by_doc for span in spans})
    counts = np.zeros((len(gold), len(labels) + 1, 4))
    n_other = n_replaced = 0
    for i, (doc, spans, of_doc) in enumerate(zip(gold, by_doc, regions, strict=True)):
        is_sign = np.array([x.isalnum() for x in doc.text], dtype=bool)
        is_left, is_other = is_sign.copy(), is_sign.copy()
        for region in of_doc:
            is_left[region.start : region.end] = False
        for span in spans:
            part = slice(span.start_char, span.end_char)
            left = int(is_left[part].sum())
            is_other[part] = False
            found = (left > 0, 1, left, int(is_sign[part].sum()))
            counts[i, [0, labels.index(span.label_) + 1]] += found
        n_other += int(is_other.sum())
        n_replaced += int((is_other & ~is_left).sum())
    rng = np.random.default_rng(0)
    n, equal = len(gold), np.full(len(gold), 1 / len(gold))
    samples = np.array([np.tensordot(rng.multinomial(n, equal), counts, 1) for _ in range(1000)])
    leaks = []
    for k, label in enumerate([None, *labels]):
        with_spans = counts[:, k, 1] > 0
        n_docs, n_left = int(with_spans.sum()), int((counts[:, k, 0] > 0).sum())
        exact = binomial_interval(n_left, n_docs) if n_docs else (math.nan, math.nan)
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
        leaks.append(Leak(label, of_spans, of_characters, (n_left, n_docs, *exact)))
    return LeakReport(leaks, len(gold), n_replaced / max(1, n_other))
