"""Suspects of label errors: gold annotation that the posterior finds less likely than another one.

A component that was not trained on the documents gives the probabilities. A suspect compares the
gold annotation of a region with its best alternative:

- type: another label within the same boundaries;
- boundary: an overlapping span with other boundaries;
- spurious: no span in the place of the gold span;
- missing: a span where gold has none.

The score is the log-odds of an error under a noisy channel, as in spelling correction (Kernighan
et al. 1990): log p(alternative) + log p(gold | alternative) - log p(gold). `Noise` is the channel.
The first and the last term are exact posteriors, see `chain.span_posteriors`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from spacy.training import Example
from spacy.util import minibatch

from bcrf.chain import CRF, Potentials
from bcrf.chain.side_by_side import rows_by_chain
from spacy_bcrf.annotation.arrays import UNKNOWN, doc_bounds, doc_lengths
from spacy_bcrf.pipeline.codecs import Codec
from spacy_bcrf.pipeline.codecs.partial_gold import read_partial
from spacy_bcrf.pipeline.codecs.span_tagging import OUTSIDE_TAG
from spacy_bcrf.pipeline.prediction import BATCH_SIZE
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler

KINDS = ("type", "boundary", "missing", "spurious")

TINY = 1e-30
"""The least probability of gold. It keeps the score of impossible gold finite."""

THRESHOLD = 0.01
"""The least probability of an alternative span."""

Bounds = tuple[int, int, str]
"""First token, one past the last token, label."""


def error_kind(found: Sequence[Any] | None, right: Sequence[Any] | None) -> str:
    """Return one of KINDS. found, right: (start, end, ...) of both spans, None for no span."""
    if found is None:
        return "missing"
    if right is None:
        return "spurious"
    return "type" if tuple(found[:2]) == tuple(right[:2]) else "boundary"


class Noise(NamedTuple):
    """The noisy channel: log-probabilities of an erroneous gold span, given the right annotation.

    A wrong label is one of the K - 1 others. A boundary moves by one token in one of 4 ways; each
    further token costs as much again. A spurious span has one of K labels and starts at a random
    token; each token of it halves its probability. A missing span has probability 1.
    """

    label: float
    spurious: float

    def of_span(self, gold: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the log-probabilities (M,) of a gold span (3,) in the place of others (M, 3)."""
        moved = np.abs(others[:, :2] - gold[:2]).sum(axis=1)
        return np.where(others[:, 2] != gold[2], self.label, 0.0) - moved * np.log(4)

    def of_spurious(self, gold: NDArray[np.int64]) -> float:
        """Return the log-probability of a gold span (3,) where there is none."""
        return self.spurious - float(gold[1] - gold[0]) * float(np.log(2))


def estimate_noise(n_spans: int, n_tokens: int, n_labels: int) -> Noise:
    """Return the channel in which a spurious span is as frequent as any other kind of error."""
    rate = max(1, n_spans) / max(1, n_tokens)
    return Noise(-float(np.log(max(1, n_labels - 1))), float(np.log(rate / n_labels)))


class Suspect(NamedTuple):
    """A possible label error of one document.

    gold: the annotated span, None if it may be missing. suggestion: the best alternative, None if
    gold may be spurious. p_gold, p_suggestion: probabilities of the two. score: in nats.
    """

    gold: Bounds | None
    suggestion: Bounds | None
    p_gold: float
    p_suggestion: float
    score: float

    @property
    def kind(self) -> str:
        """One of KINDS."""
        return error_kind(self.gold, self.suggestion)


def find_suspects(pipe: SequenceLabeler, examples: Sequence[Example]) -> list[list[Suspect]]:
    """Return the suspects of each example, in order of the text.

    All earlier components must have annotated the predicted documents, which need the tokens of
    the references. Every gold span gives one suspect; its score is negative if gold is more likely.
    A missing span has no gold span and no unannotated token within its boundaries. A gold tag gives
    a suspect of the kind "type". ValueError for a component that predicts words.
    """
    codec = pipe.codec
    if codec.unit == "word":
        raise ValueError(
            f"[{pipe.name}] predicts {codec.what}; expected a component that predicts entities, "
            "chunks or tags"
        )
    references = [example.reference for example in examples]
    n_spans = sum(len(codec.find_spans(doc)) for doc in references)
    noise = estimate_noise(n_spans, sum(map(len, references)), len(pipe.labels))
    found: list[list[Suspect]] = []
    for batch in minibatch(examples, BATCH_SIZE):
        docs = [example.predicted for example in batch]
        potentials = pipe.find_potentials(docs, True)
        posterior = pipe.posterior(potentials).astype("float64")
        if codec.spans is None:
            found += _find_tags(pipe, batch, posterior)
        else:
            found += _find_spans(pipe, batch, posterior, noise)
    return found


def _find_tags(
    pipe: SequenceLabeler, examples: Sequence[Example], posterior: Potentials
) -> list[list[Suspect]]:
    codec = pipe.codec
    docs = [example.predicted for example in examples]
    values, _ = codec.align_gold(examples)
    gold, _ = codec.encode(values, doc_lengths(docs))
    marginals = pipe.model.ops.to_numpy(CRF().marginals(posterior).unary).clip(0, 1)
    others = marginals.copy()
    others[np.arange(len(gold)), gold] = -1
    best = others.argmax(axis=1)
    found: list[list[Suspect]] = []
    for start, end in doc_bounds(docs):
        found.append([])
        for i in range(start, end):
            if gold[i] not in (UNKNOWN, best[i]):
                labels = codec.labels[gold[i]], codec.labels[best[i]]
                one, other = ((i - start, i - start + 1, label) for label in labels)
                p_gold, p_best = marginals[i, [gold[i], best[i]]]
                found[-1].append(_suspect(one, other, p_gold, p_best, 0.0))
    return found


def _find_spans(
    pipe: SequenceLabeler, examples: Sequence[Example], posterior: Potentials, noise: Noise
) -> list[list[Suspect]]:
    codec, tagging, ops = pipe.codec, cast(Any, pipe.codec.spans), cast(Any, pipe.model.ops)
    docs = [example.predicted for example in examples]
    labels = {label: i for i, label in enumerate(codec.labels)}
    gold = [
        (shift + span.start, shift + span.end, labels[span.label_])
        for example, (shift, _) in zip(examples, doc_bounds(docs), strict=True)
        for span in codec.find_spans(example.reference)
        if span.label_ in labels
    ]
    gold_spans = np.array(gold, dtype="int64").reshape(-1, 3)
    *columns, p = codec.candidates(posterior, THRESHOLD, ops)
    candidates = np.stack(columns, axis=1).astype("int64")

    def p_none(spans: NDArray[np.int64]) -> NDArray[np.float64]:
        return tagging.outside_posteriors(posterior, (*spans.T,), ops).astype("float64")

    p_gold = codec.confidences(posterior, (*gold_spans.T,), ops)
    none_at_gold, none_at_candidate = p_none(gold_spans), p_none(candidates)
    is_free = _is_outside(codec, examples)
    n_taken = np.vstack([np.zeros(is_free.shape[1], int), (~is_free).cumsum(axis=0)])
    by_doc: list[list[Suspect]] = [[] for _ in docs]
    ends_of_docs = doc_lengths(docs).cumsum()

    def add(gold: Any, other: Any, p_of_gold: float, p_of_other: float, channel: float) -> None:
        start = (other if gold is None else gold)[0]
        doc = int(ends_of_docs.searchsorted(start, side="right"))
        shift = int(ends_of_docs[doc]) - len(docs[doc])
        span, suggestion = (
            None if x is None else (int(x[0]) - shift, int(x[1]) - shift, codec.labels[x[2]])
            for x in (gold, other)
        )
        by_doc[doc].append(_suspect(span, suggestion, p_of_gold, p_of_other, channel))

    starts = candidates[:, 0]
    longest = int((candidates[:, 1] - starts).max(initial=0))
    for i, span in enumerate(gold_spans):
        # The candidates are sorted by their starts.
        first, stop = starts.searchsorted([span[0] - longest, span[1]])
        near = candidates[first:stop]
        is_other = (near[:, 1] > span[0]) & (near != span).any(axis=1)
        if codec.n_chains > 1:
            # A span of another label is no other reading, unless it has the same boundaries.
            is_other &= (near[:, 2] == span[2]) | (near[:, :2] == span[:2]).all(axis=1)
        near, p_near = near[is_other], p[first:stop][is_other]
        channels = noise.of_span(span, near)
        odds = np.log(p_near) + channels
        of_none = noise.of_spurious(span)
        if len(odds) and odds.max() > np.log(max(none_at_gold[i], TINY)) + of_none:
            best = int(odds.argmax())
            add(span, near[best], p_gold[i], p_near[best], channels[best])
        else:
            add(span, None, p_gold[i], none_at_gold[i], of_none)
    taken = np.zeros_like(is_free)
    for i in np.argsort(-p, kind="stable").tolist():
        start, end, label = candidates[i]
        chain = tagging.find_places(np.array([label]))[1][0]
        if n_taken[start, chain] == n_taken[end, chain] and not taken[start:end, chain].any():
            taken[start:end, chain] = True
            add(None, candidates[i], none_at_candidate[i], p[i], 0.0)
    return [
        sorted(suspects, key=lambda suspect: (suspect.gold or suspect.suggestion or ())[:2])
        for suspects in by_doc
    ]


def _is_outside(codec: Codec, examples: Sequence[Example]) -> NDArray[np.bool_]:
    """Return a mask (N, C) of tokens outside of a chain's gold spans, False in partial gold."""
    lengths = doc_lengths([example.predicted for example in examples])
    values, problems = codec.align_gold(examples)
    gold, unknown_label = codec.encode(values, lengths)
    ids = gold if gold.dtype != bool else np.where(gold.sum(axis=1) == 1, gold.argmax(axis=1), -1)
    rows = rows_by_chain(lengths, codec.n_chains)
    is_outside = np.empty((len(unknown_label), codec.n_chains), dtype=bool)
    is_outside.ravel()[rows] = ids == OUTSIDE_TAG
    is_outside &= ~unknown_label[:, None]
    partial, unreadable = read_partial(codec.partial, examples)
    for i in {*problems, *partial, *unreadable}:
        stop = int(lengths[: i + 1].sum())
        is_outside[stop - int(lengths[i]) : stop] = False
    return is_outside


def _suspect(
    gold: Bounds | None, suggestion: Bounds | None, p_gold: float, p_suggestion: float, noise: float
) -> Suspect:
    """Return a suspect. noise: the log-probability of gold given the suggestion."""
    score = np.log(max(p_suggestion, TINY)) + noise - np.log(max(p_gold, TINY))
    return Suspect(gold, suggestion, float(p_gold), float(p_suggestion), float(score))
