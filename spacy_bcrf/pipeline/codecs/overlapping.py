"""The codec of spans that may overlap, in a span group `Doc.spans[key]`."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import ORTH  # type: ignore[import-not-found]
from spacy.strings import StringStore
from spacy.tokens import Doc, Span, SpanGroup
from spacy.training import Example

from bcrf.chain import Potentials, span_candidates, span_posteriors
from bcrf.chain.side_by_side import rows_by_chain
from spacy_bcrf.annotation.arrays import Bools, DocBatch, Values, align_values
from spacy_bcrf.annotation.partial import (
    AMBIGUOUS,
    INCORRECT,
    find_partial_labels,
)

from .codec_types import Floats, Ops, PredictedSpans, ScoredSpans, SpanArrays, Tags
from .partial_gold import PartialLayers
from .span_group import SpanGroupCodec, align_spans, check_span, has_space_edge
from .span_layers import SpanLayers, choose_layers
from .span_tagging import LayeredTagging
from .spans import PartialSpanCodec

UNKNOWN_LABEL = 2**32
"""Added to the first value of a token in a span whose label is unknown."""


class OverlappingCodec(PartialSpanCodec, SpanGroupCodec):
    """Spans that may overlap, as chains of a scheme's tags side by side.

    `SpanLayers` assigns spans to chains. The chains of a document are independent given the
    text, so a span is in one of its layers with probability 1 - prod (1 - p). Values (N, C) are 0
    without annotation, else 1 + the tag.
    """

    spans: LayeredTagging
    layered: LayeredTagging

    def __init__(
        self,
        scheme: str,
        spans_key: str,
        layers: int | None = None,
        exclusive: Sequence[Sequence[str]] = (),
        incorrect_spans_key: str | None = INCORRECT,
        ambiguous_spans_key: str | None = AMBIGUOUS,
    ) -> None:
        """layers: number by label; None to choose. exclusive: one label of each group per token."""
        self._layers = SpanLayers(layers, exclusive)
        super().__init__(scheme, spans_key, "the layers, ", **self._layers.settings)
        self.set_keys(incorrect_spans_key, ambiguous_spans_key)
        self.state = {"layers_by_label": {}}
        self.predictions = self._predictions

    def set_labels(self, labels: Sequence[str], strings: StringStore) -> None:
        layers = self._layers
        layers.set_labels(labels, strings, self.state["layers_by_label"])
        super().set_labels([str(slot) for slot in range(layers.n_slots)], strings)
        self.labels, self.n_chains = tuple(labels), layers.n_chains
        self.tags_per_label = len(self.tags)
        self.tags = layers.name_tags(self.tags)
        # Chains of fewer labels than the largest group have slots that nothing may use.
        is_open = np.repeat(layers.labels >= 0, len(self.scheme.prefixes), axis=1)
        self._open = np.column_stack([np.ones(self.n_chains, bool), is_open])
        self.spans = self.layered = LayeredTagging(self.entities, layers)
        self.partial = PartialLayers(self.entities, self._keys, self.labels, layers)

    def find_missing(self) -> Collection[str]:
        return self._layers.find_missing(self.labels)

    def count_layers(self, example: Example) -> Counter[tuple[str, int]]:
        return self._layers.count(example.predicted, example.reference.spans.get(self._key, ()))

    def choose_layers(self, counts: Mapping[tuple[str, int], int]) -> None:
        self.state = {"layers_by_label": choose_layers(counts, self.state["layers_by_label"])}

    def describe(self, counts: Mapping[tuple[str, int], int]) -> tuple[str, str]:
        return self._layers.describe(self.labels, counts)

    # Gold

    def find_used_labels(self, doc: Doc) -> set[str]:
        return SpanGroupCodec.find_labels(self, doc) | find_partial_labels(doc, self._keys)

    def probabilities(self, doc: Doc, spans: Sequence[Span]) -> list[float | None]:
        """Return the scores of the group, by boundaries and label."""
        group = doc.spans.get(self._key, ())
        scores = getattr(group, "attrs", {}).get("scores", ())
        pairs = zip(group, scores, strict=False)
        found = {(span.start, span.end, span.label): float(p) for span, p in pairs}
        return [found.get((span.start, span.end, span.label)) for span in spans]

    def align_gold(self, examples: Sequence[Example]) -> tuple[Values, dict[int, str]]:
        """Return gold tags, values (N, C), and problems by example."""
        return align_values(examples, self.n_chains, lambda example: self._read_layers(example)[0])

    def find_lost(self, example: Example) -> list[str]:
        try:
            return self._read_layers(example)[1]
        except ValueError:
            return []

    def _read_layers(self, example: Example) -> tuple[Values, list[str]]:
        predicted, reference = example.predicted, example.reference
        values = np.zeros((len(predicted), self.n_chains), dtype="uint64")
        if self._key not in reference.spans:
            return values, []
        spans = list(reference.spans[self._key])
        for span in spans:
            check_span(span)
        if not np.array_equal(predicted.to_array(ORTH), reference.to_array(ORTH)):
            spans = align_spans(example, spans)
        values[:] = 1
        return values, self._encode(predicted, spans, values) if spans else []

    def _encode(self, doc: Doc, spans: Iterable[Span], values: Values) -> list[str]:
        """Write spans into values that are all O. RETURNS descriptions of the others."""
        first, inside, last, single = (
            1 + tags.astype("uint64") for tags in self.entities.span_tags
        )
        lost = []
        unknown = np.zeros(len(values), dtype=bool)
        for start, end, label, layer, why in self._layers.place(doc, spans):
            if label not in self._layers.places:
                unknown[start:end] = True
                continue
            chains, slot = self._layers.places[label]
            if not 0 < layer <= len(chains):
                why = why or f"is in layer {layer}, but the label has {len(chains)}"
                name = doc.vocab.strings[label]
                lost.append(f"{name} {doc[start:end].text!r} (tokens {start}:{end}) {why}")
                continue
            chain = chains[layer - 1]
            if end - start == 1:
                values[start, chain] = single[slot]
            else:
                values[start, chain], values[end - 1, chain] = first[slot], last[slot]
                values[start + 1 : end - 1, chain] = inside[slot]
        values[unknown, 0] += UNKNOWN_LABEL
        return lost

    def encode(self, values: Values, lengths: Tags) -> tuple[NDArray, Bools]:
        """Return gold tags (C N,), and a mask (N,) of tokens with unknown labels."""
        unknown = np.any(values >= UNKNOWN_LABEL, axis=1)
        ids = (values % UNKNOWN_LABEL).astype("int32") - 1
        return ids.ravel()[rows_by_chain(lengths, self.n_chains)], unknown

    def open_tags(
        self, batch: DocBatch, ignore_annotation: bool = False
    ) -> tuple[Bools | None, Bools | None]:
        """Return the tags (C N, T) that sentence starts, whitespace, groups and presets allow."""
        allowed, _ = SpanGroupCodec.open_tags(self, batch)
        is_space = batch.values[:, 1] == 1
        docs: Sequence[Doc] = () if ignore_annotation else batch
        presets = {i: found for i, doc in enumerate(docs) if (found := self._presets(doc))}
        if allowed is None and self._open.all() and not presets:
            return None, None
        tokens, chains = np.divmod(rows_by_chain(batch.lengths, self.n_chains), self.n_chains)
        lattice = self._open[chains]
        if allowed is not None:
            lattice &= allowed[tokens]
        starts = self.n_chains * (batch.lengths.cumsum(dtype="int64") - batch.lengths)
        for i, spans in presets.items():
            values = np.ones((len(batch[i]), self.n_chains), dtype="uint64")
            # Presets do not change, so no chain has the ones that gold would trim.
            self._encode(batch[i], [s for s in spans if not has_space_edge(s)], values)
            ids = (values.T.ravel() % UNKNOWN_LABEL).astype("int64") - 1
            pinned = starts[i] + np.flatnonzero(ids)
            lattice[pinned] = np.arange(lattice.shape[1]) == ids[ids > 0][:, None]
        return lattice, is_space[tokens]

    def _presets(self, doc: Doc) -> list[Span]:
        """Return the spans that the group has before prediction. Predicted spans have scores."""
        # `SpanGroups.get` costs five times as much.
        group = doc.spans.data.get(self._key)
        return [] if group is None or "scores" in group.attrs else list(group)

    # Predictions

    def locate(self, tags: Tags, lengths: Tags) -> tuple[PredictedSpans, NDArray, NDArray]:
        stops = np.repeat(lengths, self.n_chains).cumsum()
        # Most tags are O. A run of others is decoded as a sequence of its own.
        used = np.flatnonzero(tags)
        sequences = stops.searchsorted(used, side="right")
        is_new = (np.diff(used, prepend=-2) > 1) | (np.diff(sequences, prepend=-1) > 0)
        runs = np.diff(np.append(np.flatnonzero(is_new), len(used)))
        starts, ends, slots = self.scheme.decode_ids(np.asarray(tags)[used], runs)
        sequences = sequences[starts]
        starts, ends = used[starts], used[ends - 1] + 1
        spans = self._in_text(lengths, sequences, starts, ends, slots)
        order = np.lexsort(spans.T[::-1])
        first, stop, label = spans[order].T
        return (first, stop, label), starts[order], ends[order]

    def _in_text(
        self, lengths: Tags, sequences: NDArray, starts: NDArray, ends: NDArray, slots: NDArray
    ) -> NDArray[np.int64]:
        """Return tokens and labels (M, 3) of spans in rows of sequences, a document in a chain."""
        docs, chains = sequences // self.n_chains, sequences % self.n_chains
        lengths = np.asarray(lengths, dtype="int64")
        firsts = lengths.cumsum() - lengths
        shift = (self.n_chains - 1) * firsts[docs] + chains * lengths[docs]
        return np.column_stack([starts - shift, ends - shift, self._layers.labels[chains, slots]])

    def _predictions(self, tags: Tags, lengths: Tags) -> PredictedSpans:
        """Return the spans of all layers in order of the text, each once."""
        return _distinct(np.column_stack(self.locate(tags, lengths)[0]))

    def confidences(self, posterior: Potentials, predictions: PredictedSpans, ops: Ops) -> Floats:
        """Return the probabilities (M,) that spans are in one of their layers."""
        if not len(predictions[0]):
            return np.zeros(0)
        span, taken, starts, ends = self.layered.find_in_chains(posterior, predictions, ops)
        slots = self._layers.slots[np.asarray(predictions[2])[span]]
        given = map(ops.asarray, (starts, ends, slots))
        p = ops.to_numpy(span_posteriors(taken, self._tags_on(ops), *given))
        absent = np.ones(len(predictions[0]))
        np.multiply.at(absent, span, 1 - p.astype("float64"))
        return 1 - absent

    def candidates(self, posterior: Potentials, threshold: float, ops: Ops) -> SpanArrays:
        lengths = ops.to_numpy(posterior.lengths)
        # A span in k layers reaches the threshold only if it has a k-th of it in one of them.
        least = threshold / self.layered.most
        found = span_candidates(posterior, self._tags_on(ops), least)
        starts, ends, slots, _ = map(ops.to_numpy, found)
        sequences = lengths.cumsum().searchsorted(starts, side="right")
        spans = self._in_text(lengths[:: self.n_chains], sequences, starts, ends, slots)
        starts, ends, labels = _distinct(spans[np.lexsort(spans.T[::-1])])
        p = self.confidences(posterior, (starts, ends, labels), ops)
        likely = p >= threshold
        return starts[likely], ends[likely], labels[likely], p[likely]

    def compare_with_gold(
        self, tags: Tags, values: Values, lengths: Tags
    ) -> tuple[PredictedSpans, Bools, Bools]:
        """See `Codec.compare_with_gold`. All tokens of an annotated span have gold of its label."""
        starts, ends, labels = found = self._predictions(tags, lengths)
        gold, unknown_label = self.encode(values, lengths)
        right = set(zip(*self._predictions(np.where(gold < 0, 0, gold), lengths), strict=True))
        missing = (values == 0) & ~unknown_label[:, None]
        n_missing = np.vstack([np.zeros(self.n_chains, int), missing.cumsum(axis=0)])
        chains = self._layers.chains[labels, 0] if len(labels) else labels
        known = n_missing[starts, chains] == n_missing[ends, chains]
        correct = np.array([span in right for span in zip(*found, strict=True)], dtype=bool)
        return found, correct & known, known

    def write(
        self, docs: Sequence[Doc], tags: Sequence[Tags], spans: Sequence[ScoredSpans | None]
    ) -> list[Doc]:
        """Replace the span group of each document. Presets that no layer holds come last."""
        for doc, of_doc in zip(docs, spans, strict=True):
            assert of_doc is not None
            found, scores = of_doc
            made = [self.make_span(doc, *span) for span in found]
            if presets := self._presets(doc):
                known = {(span.start, span.end, span.label) for span in made}
                made += [s for s in presets if (s.start, s.end, s.label) not in known]
                scores = np.pad(scores, (0, len(made) - len(scores)), constant_values=1)
            attrs = {"scores": scores}
            doc.spans[self._key] = SpanGroup(doc, name=self._key, attrs=attrs, spans=made)
        return list(docs)


def _distinct(spans: NDArray[np.integer]) -> PredictedSpans:
    is_new = np.ones(len(spans), dtype=bool)
    is_new[1:] = (spans[1:] != spans[:-1]).any(axis=1)
    starts, ends, labels = spans[is_new].T
    return starts, ends, labels
