"""The codec of spans that may overlap, in a span group `Doc.spans[key]`."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import ORTH  # type: ignore[import-not-found]
from spacy.strings import StringStore
from spacy.tokens import Doc, Span, SpanGroup
from spacy.training import Example

from bcrf.chain import Potentials, span_candidates, span_posteriors
from bcrf.chain.side_by_side import nbest_side_by_side, rows_by_chain
from bcrf.chain.span_posteriors import stretch_posteriors
from spacy_bcrf.annotation.arrays import Bools, DocBatch, Values, read_gold
from spacy_bcrf.annotation.entity_tags import BEGIN, MISSING, OUTSIDE
from spacy_bcrf.annotation.partial import AMBIGUOUS, INCORRECT, PartialAnnotation, find_labels

from .codec import Labelings, Ops, Predictions, ScoredSpans, SpanArrays, Tags, Unit
from .layers import Layers, choose_layers
from .span_group import SpanGroupCodec, align_spans, check_span, has_space_edge
from .span_sets import score_span_set
from .spans import PartialSpanCodec

UNKNOWN_LABEL = 2**32
"""Added to the first value of a token in a span whose label is unknown."""


class OverlappingCodec(PartialSpanCodec, SpanGroupCodec):
    """Spans that may overlap, as chains of a scheme's tags side by side.

    `Layers` says which chain has which spans. The chains of a document are independent given the
    text, so a span is in one of its layers with probability 1 - prod (1 - p). Values (N, C) are 0
    without annotation, else 1 + the tag.
    """

    tag_unit: ClassVar[Unit] = "span"
    may_overlap: ClassVar[bool] = True

    def __init__(
        self,
        scheme: str,
        spans_key: str,
        layers: int | None = None,
        exclusive: Sequence[Sequence[str]] = (),
        incorrect_spans_key: str | None = INCORRECT,
        ambiguous_spans_key: str | None = AMBIGUOUS,
    ) -> None:
        """layers: of each label; None to choose. exclusive: a token has one label of each group."""
        self._layers = Layers(layers, exclusive)
        super().__init__(scheme, spans_key, "the layers, ", **self._layers.settings)
        self.set_keys(incorrect_spans_key, ambiguous_spans_key)
        self.state: dict[str, Any] = {"layers_by_label": {}}
        self.predictions = self._predictions

    def set_labels(self, labels: Sequence[str], strings: StringStore) -> None:
        layers = self._layers
        layers.set_labels(labels, strings, self.state["layers_by_label"])
        super().set_labels([str(slot) for slot in range(layers.n_slots)], strings)
        self.labels, self.n_chains = tuple(labels), layers.n_chains
        self.most_layers = layers.chains.shape[1]
        self.tags_per_label = len(self.tags)
        self.tags = layers.name_tags(self.tags)
        # Chains of fewer labels than the largest group have slots that nothing may use.
        is_open = np.repeat(layers.labels >= 0, len(self.scheme.prefixes), axis=1)
        self._open = np.column_stack([np.ones(self.n_chains, bool), is_open])

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
        return SpanGroupCodec.find_labels(self, doc) | find_labels(doc, self._keys)

    def probabilities(self, doc: Doc, spans: Sequence[Span]) -> list[float | None]:
        """Return the scores of the group, by boundaries and label."""
        group = doc.spans.get(self._key, ())
        scores = getattr(group, "attrs", {}).get("scores", ())
        pairs = zip(group, scores, strict=False)
        found = {(span.start, span.end, span.label): float(p) for span, p in pairs}
        return [found.get((span.start, span.end, span.label)) for span in spans]

    def read_gold(self, examples: Sequence[Example]) -> tuple[Values, dict[int, str]]:
        """Return gold tags, values (N, C), and problems by example."""
        return read_gold(examples, self.n_chains, lambda example: self._read_layers(example)[0])

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
        """Write spans into values, all of which are O. RETURNS descriptions of the others."""
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

    def constrain(
        self, example: Example, partial: PartialAnnotation, values: Values, allowed: Bools
    ) -> list[tuple[int, Bools]]:
        """See `Codec.constrain`. A span or token of several labels leaves their chains open."""
        rejected = []
        for chain, tags in enumerate(np.split(allowed, self.n_chains)):
            column = values[:, chain]
            iob = np.where(column > 1, BEGIN, np.where(column == 1, OUTSIDE, MISSING))
            wrong = self.entities.constrain(tags, iob, self._of_chain(partial, chain))
            rejected += [(chain, self.entities.pin(tags, *span)) for span in wrong]
        return rejected

    def _of_chain(self, annotation: PartialAnnotation, chain: int) -> PartialAnnotation:
        """Return the partial annotation of one chain, with its slots in place of labels."""
        slots = {self.labels[x]: str(k) for k, x in enumerate(self._layers.labels[chain]) if x >= 0}
        n_layers = sum(bool((row == chain).any()) * (row >= 0).sum() for row in self._layers.chains)
        is_only = n_layers == len(slots)

        def translate(names: Iterable[str]) -> frozenset[str]:
            if unknown := sorted({*names} - {*self.labels, "", "O"}):
                raise ValueError(f"unknown labels {', '.join(unknown)}")
            if "" in names:
                return frozenset(slots.values())
            return frozenset(slots[name] for name in names if name in slots)

        ambiguous, unknown = {}, set(annotation.unknown)
        for bounds, names in annotation.ambiguous.items():
            found = translate(names)
            if is_only and "" not in names and len(found) == len(names):
                ambiguous[bounds] = found
            elif found:
                unknown.update(range(*bounds))
        allowed = {}
        for token, names in annotation.allowed.items():
            found = translate(names)
            is_sure = "O" not in names and is_only and len(found) == len(names)
            allowed[token] = found if is_sure else found | {"O"}
        labels = annotation.annotated_labels
        wrong = {bounds: translate(names) for bounds, names in annotation.incorrect.items()}
        return PartialAnnotation(
            None if labels is None else translate(labels),
            allowed,
            ambiguous,
            {bounds: found for bounds, found in wrong.items() if found},
            frozenset(unknown),
        )

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
            # Presets stay as they are, so no chain has those that gold would trim.
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

    def locate(self, tags: Tags, lengths: Tags) -> tuple[Predictions, NDArray, NDArray]:
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

    def _predictions(self, tags: Any, lengths: Any) -> Predictions:
        """Return the spans of all layers in order of the text, each once."""
        return _distinct(np.column_stack(self.locate(tags, lengths)[0]))

    def merge_layers(
        self, posterior: Potentials, lists: Sequence[Labelings], n: int, ops: Ops
    ) -> list[Labelings]:
        merged: list[Labelings] = []
        unary, transitions = map(ops.to_numpy, (posterior.unary, posterior.transitions))
        unary = unary.reshape(self.n_chains, -1, unary.shape[1]).astype("float64")
        length = unary.shape[1]
        if transitions.ndim == 3:
            transitions = transitions.reshape(self.n_chains, length, *transitions.shape[1:])
        for _, group in groupby(range(self.n_chains), lambda i: self._layers.units[i][0]):
            chains = list(group)
            if len(chains) == 1:
                merged.append(lists[chains[0]])
                continue
            edges = transitions if transitions.ndim == 2 else transitions[chains]
            labelings: dict[frozenset[Any], NDArray] = {}
            for tags in nbest_side_by_side([lists[chain] for chain in chains], n)[0]:
                found = self.scheme.decode_ids(tags, np.full(len(chains), length))
                starts, ends, slots = (part.tolist() for part in found)
                layers = [start // length for start in starts]
                spans = (
                    (start - layer * length, end - layer * length, slot)
                    for start, end, slot, layer in zip(starts, ends, slots, layers, strict=True)
                )
                labelings.setdefault(frozenset(spans), tags)
            of_spans = self.entities.span_tags
            scores = [score_span_set(unary[chains], edges, spans, of_spans) for spans in labelings]
            order = np.argsort(-np.array(scores), kind="stable")
            merged.append((np.array([*labelings.values()])[order], np.array(scores)[order]))
        return merged

    def place(self, labels: NDArray) -> tuple[NDArray, NDArray, NDArray]:
        index, layer = np.nonzero(self._layers.chains[labels] >= 0)
        return index, self._layers.chains[labels[index], layer], self._layers.slots[labels[index]]

    def label_of(self, chains: NDArray, slots: NDArray) -> NDArray:
        return self._layers.labels[chains, slots]

    def _in_chains(
        self, posterior: Potentials, predictions: Predictions, ops: Ops
    ) -> tuple[NDArray, Potentials, NDArray, NDArray]:
        """Return spans (K,) by index in all layers of labels, their potentials, starts, ends."""
        starts, ends, labels = (np.asarray(part) for part in predictions)
        lengths = ops.to_numpy(posterior.lengths).astype("int64")
        of_docs = lengths[:: self.n_chains]
        docs = of_docs.cumsum().searchsorted(starts, side="right")
        span, chains, _ = self.place(labels)
        sequences, of_span = np.unique(docs[span] * self.n_chains + chains, return_inverse=True)
        counts = lengths[sequences]
        shift = (counts.cumsum() - counts)[of_span] - (of_docs.cumsum() - of_docs)[docs[span]]
        return span, posterior.take(sequences), starts[span] + shift, ends[span] + shift

    def outside_posteriors(
        self, posterior: Potentials, spans: Predictions, ops: Ops
    ) -> NDArray[np.floating]:
        """Return the probabilities (M,) that the tokens are O in all layers, see `Codec`."""
        span, taken, *places = self._in_chains(posterior, spans, ops)
        starts, ends = map(ops.asarray, places)
        found = np.zeros(len(spans[0]))
        np.add.at(found, span, ops.to_numpy(stretch_posteriors(taken, 0, starts, ends)))
        return np.exp(found)

    def confidences(
        self, posterior: Potentials, predictions: Predictions, ops: Ops
    ) -> NDArray[np.floating]:
        """Return the probabilities (M,) that spans are in one of their layers."""
        if not len(predictions[0]):
            return np.zeros(0)
        span, taken, starts, ends = self._in_chains(posterior, predictions, ops)
        slots = self._layers.slots[np.asarray(predictions[2])[span]]
        given = map(ops.asarray, (starts, ends, slots))
        p = ops.to_numpy(span_posteriors(taken, self.span_tags(ops), *given))
        absent = np.ones(len(predictions[0]))
        np.multiply.at(absent, span, 1 - p.astype("float64"))
        return 1 - absent

    def candidates(self, posterior: Potentials, threshold: float, ops: Ops) -> SpanArrays:
        lengths = ops.to_numpy(posterior.lengths)
        # A span in k layers reaches the threshold only if it has a k-th of it in one of them.
        least = threshold / self._layers.chains.shape[1]
        found = span_candidates(posterior, self.span_tags(ops), least)
        starts, ends, slots, _ = map(ops.to_numpy, found)
        sequences = lengths.cumsum().searchsorted(starts, side="right")
        spans = self._in_text(lengths[:: self.n_chains], sequences, starts, ends, slots)
        starts, ends, labels = _distinct(spans[np.lexsort(spans.T[::-1])])
        p = self.confidences(posterior, (starts, ends, labels), ops)
        likely = p >= threshold
        return starts[likely], ends[likely], labels[likely], p[likely]

    def compare_with_gold(
        self, tags: Tags, values: Values, lengths: Tags
    ) -> tuple[Predictions, Bools, Bools]:
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

    def write_spans(self, docs: Sequence[Doc], found: Sequence[ScoredSpans]) -> list[Doc]:
        """Replace the span group of each document. Presets that no layer holds come last."""
        for doc, (spans, scores) in zip(docs, found, strict=True):
            made = [self.make_span(doc, *span) for span in spans]
            if presets := self._presets(doc):
                known = {(span.start, span.end, span.label) for span in made}
                made += [s for s in presets if (s.start, s.end, s.label) not in known]
                scores = np.pad(scores, (0, len(made) - len(scores)), constant_values=1)
            attrs = {"scores": scores}
            doc.spans[self._key] = SpanGroup(doc, name=self._key, attrs=attrs, spans=made)
        return list(docs)


def _distinct(spans: NDArray[np.integer]) -> Predictions:
    is_new = np.ones(len(spans), dtype=bool)
    is_new[1:] = (spans[1:] != spans[:-1]).any(axis=1)
    starts, ends, labels = spans[is_new].T
    return starts, ends, labels
