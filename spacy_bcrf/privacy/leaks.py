"""Leaks: what redaction leaves of the gold spans of documents."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc

from bcrf.chain.potentials import counted
from spacy_bcrf.annotation.folding import is_sign
from spacy_bcrf.annotation.misaligned import find_misaligned
from spacy_bcrf.promises.risk import binomial_interval
from spacy_bcrf.result import Result

from .redact import Redacted


class Leak(NamedTuple):
    """What redaction leaves of a label. label: None for all.

    spans, characters, documents: (left, all, low, high), where low and high bound the share with
    confidence 95%, NaN if unknown. A gold span is left if one of its characters is, other than
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
            f"{left:,} of {counted(n, 'document')} with gold spans leak{bound}; found strings "
            f"still stand at {counted(self.leaks[0].strings, 'place')}; "
            f"{100 * self.replaced:.1f}% of the other characters are replaced"
        )

    def rows(self) -> list[tuple[str, ...]]:
        header = "label", "spans left", "characters left", "documents with a leak", "strings"
        rows = [
            (one.label or "all", *map(_show, one[1:4]), f"{one.strings:,}") for one in self.leaks
        ]
        return [header, *rows]


def _show(share: tuple[int, int, float, float]) -> str:
    left, n, low, high = share
    if not n:
        return "none annotated"
    interval = f" ({100 * low:.1f} to {100 * high:.1f}%)"
    return f"{left:,} of {n:,}{interval * (not math.isnan(low))}"


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
    by_doc = [_read_spans(doc, spans_key) for doc in gold]
    of_gold = {label for spans in by_doc for _, _, label in spans}
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
        for start, end, name in spans:
            part = slice(start, end)
            left = int(is_left[part].sum())
            is_other[part] = False
            found = (left > 0, 1, left, int(signs[part].sum()))
            counts[i, [0, rows[name]]] += found
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
                bounds = math.nan, math.nan
                if with_spans.sum() > 1:  # samples of one document are the same
                    found = samples[some, k, at] / samples[some, k, at + 1]
                    bounds = tuple(np.percentile(found, (2.5, 97.5)).tolist())
            shares.append((left, total, *bounds))
        of_spans, of_characters = shares
        documents = _count_documents(with_spans & (with_left | (strings[:, k] > 0)), with_spans)
        leaks.append(Leak(label, of_spans, of_characters, documents, int(strings[:, k].sum())))
    return LeakReport(leaks, len(gold), n_replaced / max(1, n_other))


def _read_spans(doc: Doc, spans_key: str | None) -> list[tuple[int, int, str]]:
    """Return the gold spans of a document in characters, also those that cut its tokens."""
    spans = doc.ents if spans_key is None else doc.spans.get(spans_key, ())
    aligned = [(span.start_char, span.end_char, span.label_) for span in spans]
    return [*aligned, *find_misaligned(doc, spans_key)]


def _count_documents(left: NDArray, every: NDArray) -> tuple[int, int, float, float]:
    n_left, n = int(left.sum()), int(every.sum())
    return (n_left, n, *(binomial_interval(n_left, n) if n else (math.nan, math.nan)))
