"""Evaluation against gold: matched spans, kinds of errors, precision, recall and F.

Spans are in characters, so pipelines with other tokens can be compared. A tag or a word is a span
of one token. Each gold span has at most one partner among the predicted spans, and the reverse:
first equal spans, then spans with equal boundaries, then overlapping ones. A pair, or a span
without a partner, is correct or has one of the kinds of errors of `label_errors`. So

    gold = correct + type + boundary + missing
    predicted = correct + type + boundary + spurious

Three measures count hits among the pairs, as SemEval-2013 task 9 does (Segura-Bedmar et al. 2013):
"exact" needs equal boundaries and labels, "boundaries" equal boundaries, "overlap" equal labels.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from spacy_bcrf.annotation.misaligned import find_touched
from spacy_bcrf.pipeline.codecs import Codec
from spacy_bcrf.pipeline.codecs.partial_gold import read_partial

from .label_errors import KINDS, error_kind

CORRECT = "correct"
OUTCOMES = (CORRECT, *KINDS)
MEASURES = ("exact", "boundaries", "overlap")
OVERLAPS = ("alone", "nested", "crossing", "same label")
"""How a span overlaps the other spans of its side: not at all, or in one or more of these ways."""

SpanCounts = NDArray[np.float64]
"""Counts (..., 4): gold spans, predicted spans, found gold spans, right predicted spans."""


class CharSpan(NamedTuple):
    """A span of a text in characters. probability: of bounds and label, None without one."""

    start: int
    end: int
    label: str
    probability: float | None = None


class Pair(NamedTuple):
    """A gold span and the predicted span in its place; one of them may be missing."""

    gold: CharSpan | None
    predicted: CharSpan | None

    @property
    def kind(self) -> str:
        """One of OUTCOMES."""
        gold, predicted = self
        if gold and predicted and gold[:3] == predicted[:3]:
            return CORRECT
        return error_kind(predicted, gold)

    @property
    def certainty(self) -> float | None:
        """The probability of the predicted span; 1 - p of a missing gold span; None without one."""
        if self.predicted is not None:
            return self.predicted.probability
        assert self.gold is not None
        return None if self.gold.probability is None else 1 - self.gold.probability


Place = tuple[int, Pair]
"""Index of the document, and a pair of it."""


def match_spans(gold: Sequence[CharSpan], predicted: Sequence[CharSpan]) -> list[Pair]:
    """Pair the gold and the predicted spans of a text, in order of the text.

    Equal spans are paired first, then spans with equal boundaries, with equal labels, and with the
    largest overlap. A span occurs in one pair. O(M log M) for M spans that overlap few others.
    """
    found = []
    by_start = sorted(predicted, key=lambda span: span[:3])
    longest = max((span.end - span.start for span in by_start), default=0)
    starts = [span.start for span in by_start]
    for i, one in enumerate(gold):
        first = bisect_left(starts, one.start - longest)
        for j in range(first, bisect_left(starts, one.end)):
            other = by_start[j]
            shared = min(one.end, other.end) - max(one.start, other.start)
            if shared > 0:
                differs = one[:3] != other[:3], one[:2] != other[:2], one.label != other.label
                found.append((differs, -shared, i, j))
    pairs: list[Pair] = []
    gold_left, predicted_left = dict(enumerate(gold)), dict(enumerate(by_start))
    for *_, i, j in sorted(found):
        if i in gold_left and j in predicted_left:
            pairs.append(Pair(gold_left.pop(i), predicted_left.pop(j)))
    pairs += [Pair(span, None) for span in gold_left.values()]
    pairs += [Pair(None, span) for span in predicted_left.values()]
    return sorted(pairs, key=lambda pair: (pair.gold or pair.predicted or ())[:3])


def find_overlaps(spans: Sequence[CharSpan]) -> list[set[str]]:
    """Return some of OVERLAPS for each span of a text. "nested" are inner and outer spans."""
    found: list[set[str]] = [set() for _ in spans]
    order = sorted(range(len(spans)), key=lambda i: spans[i][:2])
    for n, i in enumerate(order):
        for j in order[n + 1 :]:
            one, other = spans[i], spans[j]
            if other.start >= one.end:
                break
            is_nested = one.start == other.start or other.end <= one.end
            kinds = {"nested" if is_nested else "crossing"}
            if one.label == other.label:
                kinds.add("same label")
            found[i] |= kinds
            found[j] |= kinds
    return [kinds or {"alone"} for kinds in found]


# Reading


def read_annotations(codec: Codec, doc: Doc) -> list[CharSpan]:
    """Return the labeled spans of a document with their probabilities, if a component set them."""
    spans = codec.find_spans(doc)
    return [
        CharSpan(span.start_char, span.end_char, span.label_, p)
        for span, p in zip(spans, codec.probabilities(doc, spans), strict=True)
        if span.label and span.end_char > span.start_char
    ]


def read_gold_spans(codec: Codec, doc: Doc) -> list[CharSpan]:
    """Return the gold spans of a document, also spans that cut its tokens."""
    aligned = [span._replace(probability=None) for span in read_annotations(codec, doc)]
    return aligned + [CharSpan(*span) for span in codec.find_misaligned(doc)]


def find_judged(
    codec: Codec, reference: Doc, gold: Iterable[CharSpan], predicted: Iterable[CharSpan]
) -> list[CharSpan]:
    """Return the predicted spans that gold annotation can judge.

    A span with an unannotated token is left out, as in spaCy's scorer, and so is a span that is no
    gold span, but that partial annotation leaves open. The tokens of gold spans that cut them are
    annotated.
    """
    partial = read_partial(codec.partial, [Example(reference, reference)])[0].get(0)
    unannotated = {*np.flatnonzero(codec.unannotated(reference)).tolist()}
    if touched := find_touched(reference, codec.find_misaligned(reference)):
        unannotated -= touched
        partial = partial and partial.close(touched)
    if partial is None and not unannotated:
        return list(predicted)
    is_open = np.zeros(len(reference.text) + 1, dtype=bool)
    for i in unannotated:
        token = reference[i]
        is_open[token.idx : token.idx + len(token)] = True
    n_open = np.append(0, is_open.cumsum())
    right = {span[:3] for span in gold}

    def is_judged(span: CharSpan) -> bool:
        is_annotated = n_open[span.start] == n_open[span.end]
        if codec.partial is None or partial is None or span[:3] in right:
            return is_annotated
        tokens = reference.char_span(span.start, span.end, alignment_mode="expand")
        assert tokens is not None
        bounds = tokens.start, tokens.end
        return codec.partial.excludes(partial, *bounds, span.label, is_annotated)

    return list(filter(is_judged, predicted))


# Counting


@dataclass(frozen=True)
class Evaluation:
    """The pairs of D documents, and the L labels of the counts, which include the labels of the
    pairs.

    n_left_out: predicted spans that gold cannot judge, which no pair has.
    """

    pairs: list[list[Pair]]
    labels: list[str]
    n_left_out: int = 0

    @property
    def places(self) -> list[Place]:
        return [(i, pair) for i, pairs in enumerate(self.pairs) for pair in pairs]

    def count(self, measure: str) -> SpanCounts:
        """Return the counts (D, 1 + L, 4) of a measure: all labels together, then each label."""
        assert measure in MEASURES
        rows = {label: [0, 1 + i] for i, label in enumerate(self.labels)}
        return self._count(measure, 1 + len(rows), lambda spans: [rows[s.label] for s in spans])

    def count_overlaps(self) -> SpanCounts:
        """Return exact counts (D, 4, 4) by OVERLAPS. Each side has its own kinds."""

        def find_rows(spans: Sequence[CharSpan]) -> list[list[int]]:
            return [[OVERLAPS.index(kind) for kind in kinds] for kinds in find_overlaps(spans)]

        return self._count("exact", len(OVERLAPS), find_rows)

    def _count(
        self, measure: str, n: int, find_rows: Callable[[Sequence[CharSpan]], list[list[int]]]
    ) -> SpanCounts:
        """Return the counts (D, n, 4) of a measure. find_rows: of the spans of a text."""
        counts = np.zeros((len(self.pairs), n, 4))
        for of_doc, pairs in zip(counts, self.pairs, strict=True):
            for side in (0, 1):
                known = [(pair[side], _is_hit(pair, measure)) for pair in pairs]
                spans = [span for span, _ in known if span is not None]
                hits = [is_hit for span, is_hit in known if span is not None]
                for rows, is_hit in zip(find_rows(spans), hits, strict=True):
                    of_doc[rows, side] += 1
                    of_doc[rows, side + 2] += is_hit
        return counts

    def outcomes(self) -> dict[str, dict[str, int]]:
        """Return the numbers of each of OUTCOMES by label: the predicted one of spurious spans."""
        found = {label: dict.fromkeys(OUTCOMES, 0) for label in self.labels}
        for _, pair in self.places:
            some = pair.gold or pair.predicted
            assert some is not None
            found[some.label][pair.kind] += 1
        return found

    def predictions(self, label: str | None = None) -> tuple[NDArray, NDArray[np.bool_]]:
        """Return probabilities (M,) of predicted spans of a label or all, and which are correct."""
        found = [
            (pair.predicted.probability, pair.kind == CORRECT)
            for _, pair in self.places
            if pair.predicted is not None
            and pair.predicted.probability is not None
            and label in (None, pair.predicted.label)
        ]
        p, correct = np.array(found, dtype="float64").reshape(-1, 2).T
        return p, correct.astype(bool)


def _is_hit(pair: Pair, measure: str) -> bool:
    gold, predicted = pair
    if gold is None or predicted is None:
        return False
    if measure == "boundaries":
        return gold[:2] == predicted[:2]
    return gold.label == predicted.label and (measure == "overlap" or pair.kind == CORRECT)


def score(counts: SpanCounts) -> NDArray[np.float64]:
    """Return precision, recall and F (..., 3) of counts (..., 4), NaN where one is undefined."""
    gold, predicted, found, right = np.moveaxis(counts, -1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        precision, recall = right / predicted, found / gold
        p, r = np.nan_to_num(precision), np.nan_to_num(recall)
        f = np.where(p + r > 0, 2 * p * r / (p + r), np.where(gold + predicted > 0, 0.0, np.nan))
    return np.stack([precision, recall, f], axis=-1)


def evaluate(
    codec: Codec,
    references: Sequence[Doc],
    gold: Sequence[Sequence[CharSpan]],
    predicted: Sequence[Sequence[CharSpan]],
    labels: Sequence[str],
) -> Evaluation:
    pairs, n_left_out = [], 0
    for reference, right, found in zip(references, gold, predicted, strict=True):
        judged = find_judged(codec, reference, right, found)
        n_left_out += len(found) - len(judged)
        pairs.append(match_spans(right, judged))
    return Evaluation(pairs, list(labels), n_left_out)


def count_exact(nlp: Language, name: str, examples: Sequence[Example]) -> SpanCounts:
    """Return exact counts (D, 4) of all labels. Earlier components have annotated the examples."""
    pipe: Any = nlp.get_pipe(name)
    references = [example.reference for example in examples]
    gold = [read_gold_spans(pipe.codec, doc) for doc in references]
    docs = pipe.pipe(example.predicted for example in examples)
    predicted = [read_annotations(pipe.codec, doc) for doc in docs]
    labels = sorted({span.label for spans in (*gold, *predicted) for span in spans})
    return evaluate(pipe.codec, references, gold, predicted, labels).count("exact")[:, 0]
