"""Posterior queries of a component: n-best, marginals, uncertainty and span candidates."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.pipeline.tok2vec import Tok2VecListener
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import minibatch

from bcrf.chain import CRF, Potentials, SpanTags, nbest, span_candidates
from bcrf.chain.side_by_side import nbest_side_by_side
from spacy_bcrf.annotation.arrays import Values, doc_bounds, doc_lengths, split_spans
from spacy_bcrf.annotation.display import html_table
from spacy_bcrf.annotation.misaligned import find_touched
from spacy_bcrf.pipeline.codecs.codec import Codec
from spacy_bcrf.pipeline.codecs.codec_types import PredictedSpans
from spacy_bcrf.pipeline.codecs.partial_gold import read_partial

from .confidence import by_document
from .prediction import BATCH_SIZE, Component
from .uncertainty import MEASURES, MIN_CANDIDATE, UNITS, measure_entities, measure_labelings

MORE = 4
"""`nbest` of L layers reads L n labelings; labelings with the same spans count once."""


class Alternative(NamedTuple):
    """One labeling, its tags or spans, and the probability of the whole labeling."""

    annotation: list[Any]
    probability: float

    def __repr__(self) -> str:
        return f"Alternative({self.probability:.3f}: {self.shown})"

    @property
    def shown(self) -> str:
        shown = [f"{x.label_} {x.text!r}" if isinstance(x, Span) else str(x) for x in self[0]]
        return ", ".join(shown) or "no spans"


class Alternatives(list[Alternative]):
    """The n best labelings of a document, the best first. A notebook shows a table."""

    def _repr_html_(self) -> str:
        rows = [(f"{x.probability:.3f}", x.shown) for x in self]
        return html_table(("probability", "labeling"), rows)


class Candidate(NamedTuple):
    """A possible span, and the probability of these boundaries and this label."""

    span: Span
    probability: float

    def __repr__(self) -> str:
        span = self.span
        return f"Candidate({self.probability:.3f}: {span.label_} {span.text!r})"


class Candidates(list[Candidate]):
    """The possible spans of a document, in order of the text. A notebook shows a table."""

    def _repr_html_(self) -> str:
        rows = [(f"{p:.3f}", x.label_, x.text, str(x.start), str(x.end)) for x, p in self]
        return html_table(("probability", "label", "text", "start", "end"), rows)


class PosteriorQueries(Component):
    """Posterior queries of every component. Earlier components have annotated the documents.

    `ignore_annotation`: ignore annotation of the component's kind. Without it, presets stay.
    """

    def nbest(
        self, docs: Iterable[Doc], n: int = 5, *, ignore_annotation: bool = True
    ) -> list[Alternatives]:
        """Return up to n labelings of each document, the best first, with exact probabilities."""
        ops, codec = self.model.ops, self.codec
        has_layers = codec.layered is not None and codec.layered.most > 1
        found = []
        for batch, posterior in _posteriors(self, docs, ignore_annotation):
            log_z = by_document(ops.to_numpy(CRF().log_partition(posterior)), codec)
            n_labelings = MORE * n if has_layers else n
            lists = [tuple(map(ops.to_numpy, best)) for best in nbest(posterior, n_labelings)]
            by_doc = minibatch(lists, codec.n_chains)
            for i, (doc, of_doc, z) in enumerate(zip(batch, by_doc, log_z, strict=True)):
                if codec.layered and has_layers:
                    chains = np.arange(i * codec.n_chains, (i + 1) * codec.n_chains)
                    of_doc = codec.layered.merge_labelings(
                        posterior.take(chains), of_doc, n_labelings, ops
                    )
                tags, scores = nbest_side_by_side(of_doc, n)
                p = np.exp(scores - z).clip(max=1).tolist()
                labelings = (codec.interpret(doc, ids) for ids in tags)
                pairs = zip(labelings, p, strict=True)
                found.append(Alternatives(Alternative(*pair) for pair in pairs))
        return found

    def token_marginals(
        self, docs: Iterable[Doc], *, ignore_annotation: bool = True
    ) -> list[NDArray[np.floating]]:
        """Return the marginals (n, T) of each document, in the order of `tags`."""
        found = []
        n_chains = self.codec.n_chains
        for batch, posterior in _posteriors(self, docs, ignore_annotation):
            # Rounding may take a probability over 1.
            marginals = self.model.ops.to_numpy(CRF().marginals(posterior).unary).clip(max=1)
            found += [
                np.hstack(np.split(marginals[n_chains * start : n_chains * end], n_chains))
                for start, end in doc_bounds(batch)
            ]
        return found

    def uncertainty(
        self,
        docs: Iterable[Doc],
        by: str = "entropy",
        *,
        per: str = "token",
        ignore_annotation: bool = True,
    ) -> NDArray[np.float64]:
        """Return the uncertainty (B,) of each document, for active learning.

        by: "entropy", "confidence" or "margin". per: "token" or "document", see
        `measure_labelings`; "entity", the mean over possible entities, see `measure_entities`.
        ValueError for other names, and for "entity" without spans.
        """
        for what, given, known in (("by", by, MEASURES), ("per", per, UNITS)):
            if given not in known:
                names = ", ".join(known)
                raise ValueError(f"[{self.name}] {what} must be one of {names}, got {given!r}")
        codec, ops = self.codec, self.model.ops
        if per == "entity" and codec.spans is None:
            raise ValueError(
                f"[{self.name}] uncertainty per entity needs spans, but the component predicts "
                f"{codec.what}; expected per token or document"
            )
        has_layers = codec.layered is not None and codec.layered.most > 1
        found = [np.zeros(0)]
        for batch, posterior in _posteriors(self, docs, ignore_annotation):
            is_of_best = by == "confidence" or (by == "margin" and per == "document")
            if has_layers and is_of_best and per != "entity":
                # Different labelings can have the same spans.
                best = self.nbest(batch, 2, ignore_annotation=ignore_annotation)
                p = np.array([[*(one.probability for one in each), 0.0][:2] for each in best])
                p **= 1 / doc_lengths(batch)[:, None].clip(min=1) if per == "token" else 1
                found.append(1 - p[:, 0] if by == "confidence" else 1 - (p[:, 0] - p[:, 1]))
            elif per == "entity":
                assert codec.spans is not None
                tags = SpanTags(*map(ops.asarray, codec.spans.tags))
                spans = span_candidates(posterior, tags, MIN_CANDIDATE)
                sequences = [doc for doc in batch for _ in range(codec.n_chains)]
                by_sequence = split_spans(sequences, *map(ops.to_numpy, spans))
                found.append(measure_entities(by_sequence, by, codec.n_chains))
            else:
                found.append(ops.to_numpy(measure_labelings(posterior, by, per, codec.n_chains)))
        return np.concatenate(found)

    def compare_with_gold(
        self, examples: Sequence[Example], *, ignore_annotation: bool = True
    ) -> tuple[Potentials, PredictedSpans, NDArray[np.bool_], int]:
        """Return potentials, M predictions, which are correct (M,), and the number of others."""
        docs = [example.predicted for example in examples]
        potentials = self.find_potentials(docs, ignore_annotation)
        return potentials, *self.judge(examples, self.decode(potentials))

    def judge(
        self, examples: Sequence[Example], tags: NDArray[np.int32]
    ) -> tuple[PredictedSpans, NDArray[np.bool_], int]:
        """Return M predictions of tags (C N,), which are correct (M,), and the number of others."""
        codec, lengths = self.codec, doc_lengths([example.predicted for example in examples])
        values, _ = codec.align_gold(examples)
        predictions, correct, judged = codec.compare_with_gold(tags, values, lengths)
        _judge(codec, examples, values, predictions, correct, judged)
        kept: Any = tuple(part[judged] for part in predictions)
        return kept, correct[judged], int((~judged).sum())

    def confidences(
        self, posterior: Potentials, predictions: PredictedSpans
    ) -> NDArray[np.floating]:
        """Return the probabilities (M,) of predictions, see `compare_with_gold`."""
        return self.codec.confidences(posterior, predictions, self.model.ops)


class SpanQueries(Component):
    """Posterior queries of components that predict spans."""

    def span_probabilities(
        self, spans: Sequence[Span], *, ignore_annotation: bool = True
    ) -> list[float]:
        """Return the probabilities of any spans of one document. ValueError for unknown labels."""
        if not spans:
            return []
        labels, doc = self.codec.labels, spans[0].doc
        if any(span.doc is not doc for span in spans):
            raise ValueError(f"[{self.name}] expected spans of one document")
        if unknown := sorted({span.label_ for span in spans} - {*labels}):
            raise ValueError(f"[{self.name}] has no label {', '.join(unknown)}")
        rows = [(span.start, span.end, labels.index(span.label_)) for span in spans]
        ((_, posterior),) = _posteriors(self, [doc], ignore_annotation)
        starts, ends, ids = np.array(rows, dtype="int64").T
        return self.codec.confidences(posterior, (starts, ends, ids), self.model.ops).tolist()

    def entity_candidates(
        self,
        docs: Iterable[Doc],
        threshold: float = 0.05,
        *,
        ignore_annotation: bool = True,
    ) -> list[Candidates]:
        """Return all spans of at least this probability, in order of the text. They may overlap."""
        codec, ops = self.codec, self.model.ops
        found = []
        for batch, posterior in _posteriors(self, docs, ignore_annotation):
            spans = codec.candidates(posterior, threshold, ops)
            for doc, candidates in zip(batch, split_spans(batch, *spans), strict=True):
                spans_found = (Candidate(codec.make_span(doc, *s), p) for *s, p in candidates)
                found.append(Candidates(spans_found))
        return found


def _judge(
    codec: Codec,
    examples: Sequence[Example],
    values: Values,
    predictions: PredictedSpans,
    correct: NDArray[np.bool_],
    judged: NDArray[np.bool_],
) -> None:
    """Judge predictions (M,) by partial annotation and by gold spans that cut tokens, in place.

    values: aligned gold of the tokens.
    """
    docs = [example.predicted for example in examples]
    bounds = doc_bounds(docs)
    partial, _ = read_partial(codec.partial, examples)
    misaligned = {i: codec.find_misaligned(eg.reference) for i, eg in enumerate(examples)}
    misaligned = {i: spans for i, spans in misaligned.items() if spans}
    is_open = (values == 0).all(axis=1) if misaligned else np.zeros(0, bool)
    for i, spans in misaligned.items():
        touched = find_touched(docs[i], spans)
        is_open[[bounds[i][0] + token for token in touched]] = False
        if i in partial:
            partial[i] = partial[i].close(touched)
    n_open = np.append(0, is_open.cumsum())
    of_doc = np.array([end for _, end in bounds]).searchsorted(predictions[0], side="right")
    for k in np.flatnonzero(~correct & np.isin(of_doc, [*partial, *misaligned])).tolist():
        i = int(of_doc[k])
        start, end, label = (int(part[k]) for part in predictions)
        first, name = bounds[i][0], codec.labels[label]
        start, end = start - first, end - first
        if i in misaligned:
            span = docs[i][start:end]
            correct[k] = (span.start_char, span.end_char, name) in misaligned[i]
            judged[k] = correct[k] or n_open[first + start] == n_open[first + end]
        if i in partial and not correct[k]:
            assert codec.partial is not None
            judged[k] = codec.partial.excludes(partial[i], start, end, name, judged[k])


def _posteriors(
    component: Component, docs: Iterable[Doc], ignore_annotation: bool
) -> Iterator[tuple[list[Doc], Potentials]]:
    if not isinstance(docs, Iterable):
        raise TypeError(f"[{component.name}] expected documents, got {docs!r:.40}: pass [doc]")
    hears = any(isinstance(layer, Tok2VecListener) for layer in component.model.walk())
    for batch in minibatch(docs, BATCH_SIZE):
        potentials = component.find_potentials(batch, ignore_annotation)
        # spaCy's listener would take zeros.
        if hears and any(len(doc) and not doc.tensor.size for doc in batch):
            raise ValueError(
                f"[{component.name}] a document has no vectors of the tok2vec component that "
                f"{component.name} listens to: pass nlp(text), not nlp.make_doc(text)"
            )
        yield batch, component.posterior(potentials)
