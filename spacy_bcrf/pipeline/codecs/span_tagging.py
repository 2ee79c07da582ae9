"""Spans as tags of a scheme: in one chain, or in the layers of several chains side by side."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bcrf.chain import Potentials, SpanTags
from bcrf.chain.side_by_side import nbest_side_by_side
from bcrf.chain.span_posteriors import stretch_posteriors
from spacy_bcrf.annotation.entity_tags import EntityTags

from .codec_types import Floats, Labelings, Ops, PredictedSpans, Tags
from .span_layers import SpanLayers
from .span_sets import score_span_set

OUTSIDE_TAG = 0
"""The id of the tag O in every chain."""


class SpanTagging:
    """The tags of spans in one chain.

    entities: the tags of a scheme. tags: ids of the tags of the spans of each slot, NumPy arrays.
    """

    def __init__(self, entities: EntityTags) -> None:
        self.entities = entities
        self.tags: SpanTags = entities.span_tags

    def find_places(self, labels: NDArray) -> tuple[NDArray, NDArray, NDArray]:
        """Return index, chain and slot (M,) of labels (K,) in all layers, from the outermost on."""
        return np.arange(len(labels)), np.zeros(len(labels), dtype="int64"), labels

    def label_of(self, chains: NDArray, slots: NDArray) -> NDArray:
        """Return the labels (M,) of slots of chains."""
        return slots

    def find_groups(self) -> tuple[NDArray, NDArray]:
        """Return the group of each label, and the spans (G,) of each group that a token can have.

        The spans of a group share chains. Those of different groups can overlap.
        """
        return np.zeros(len(self.tags.first), dtype="int64"), np.ones(1, dtype="int64")

    def encode(self, spans: PredictedSpans, lengths: NDArray) -> Tags:
        """Return the tags (C N,) of spans that fit into the chains. lengths: (B,) of documents."""
        return self._encode_rows(*spans, int(lengths.sum()))

    def _encode_rows(self, starts: NDArray, ends: NDArray, slots: NDArray, n: int) -> Tags:
        found = np.full(n, OUTSIDE_TAG, dtype="int32")
        counts = ends - starts
        firsts = np.repeat(starts - (counts.cumsum() - counts), counts)
        found[firsts + np.arange(len(firsts))] = np.repeat(self.tags.inside[slots], counts)
        found[ends - 1] = self.tags.last[slots]
        found[starts] = np.where(counts == 1, self.tags.single[slots], self.tags.first[slots])
        return found

    def outside_posteriors(self, posterior: Potentials, spans: PredictedSpans, ops: Ops) -> Floats:
        """Return the probabilities (M,) that no span of the same chain touches spans."""
        starts, ends, _ = (ops.asarray(part) for part in spans)
        return np.exp(ops.to_numpy(stretch_posteriors(posterior, OUTSIDE_TAG, starts, ends)))


class LayeredTagging(SpanTagging):
    """The tags of spans that can overlap. layers: of each label, see `SpanLayers`.

    most: the layers of the label with most. Labelings of several layers can have the same spans.
    """

    def __init__(self, entities: EntityTags, layers: SpanLayers) -> None:
        super().__init__(entities)
        self.layers, self.most = layers, layers.chains.shape[1]

    def find_places(self, labels: NDArray) -> tuple[NDArray, NDArray, NDArray]:
        """See `SpanTagging.find_places`."""
        chains = self.layers.chains
        index, layer = np.nonzero(chains[labels] >= 0)
        return index, chains[labels[index], layer], self.layers.slots[labels[index]]

    def label_of(self, chains: NDArray, slots: NDArray) -> NDArray:
        """See `SpanTagging.label_of`."""
        return self.layers.labels[chains, slots]

    def find_groups(self) -> tuple[NDArray, NDArray]:
        """See `SpanTagging.find_groups`. A group has as many spans at a token as it has layers."""
        chains = self.layers.chains
        _, index, groups = np.unique(chains[:, 0], return_index=True, return_inverse=True)
        return groups, (chains >= 0).sum(axis=1)[index]

    def encode(self, spans: PredictedSpans, lengths: NDArray) -> Tags:
        """See `SpanTagging.encode`. A span is in the first layer that is free at its start."""
        starts, ends, labels = (np.asarray(part) for part in spans)
        layers = np.zeros(len(starts), dtype="int64")
        groups, _ = self.find_groups()
        filled: dict[tuple[int, int], int] = {}
        for i in np.lexsort((-ends, starts)).tolist() if self.most > 1 else ():
            group = int(groups[labels[i]])
            while filled.get((group, int(layers[i])), 0) > starts[i]:
                layers[i] += 1
            filled[group, int(layers[i])] = int(ends[i])
        chains, n_chains = self.layers.chains[labels, layers], self.layers.n_chains
        lengths = np.asarray(lengths, dtype="int64")
        stops = lengths.cumsum()
        docs = stops.searchsorted(starts, side="right")
        shift = (n_chains - 1) * (stops - lengths)[docs] + chains * lengths[docs]
        slots = self.layers.slots[labels]
        return self._encode_rows(starts + shift, ends + shift, slots, n_chains * int(lengths.sum()))

    def find_in_chains(
        self, posterior: Potentials, predictions: PredictedSpans, ops: Ops
    ) -> tuple[NDArray, Potentials, NDArray, NDArray]:
        """Return spans (K,) by index in all layers of labels, their potentials, starts, ends."""
        starts, ends, labels = (np.asarray(part) for part in predictions)
        n_chains = self.layers.n_chains
        lengths = ops.to_numpy(posterior.lengths).astype("int64")
        of_docs = lengths[::n_chains]
        docs = of_docs.cumsum().searchsorted(starts, side="right")
        span, chains, _ = self.find_places(labels)
        sequences, of_span = np.unique(docs[span] * n_chains + chains, return_inverse=True)
        counts = lengths[sequences]
        shift = (counts.cumsum() - counts)[of_span] - (of_docs.cumsum() - of_docs)[docs[span]]
        return span, posterior.take(sequences), starts[span] + shift, ends[span] + shift

    def outside_posteriors(self, posterior: Potentials, spans: PredictedSpans, ops: Ops) -> Floats:
        """Return the probabilities (M,) that the tokens are O in all layers of a span's label."""
        span, taken, *places = self.find_in_chains(posterior, spans, ops)
        starts, ends = map(ops.asarray, places)
        found = np.zeros(len(spans[0]))
        logs = ops.to_numpy(stretch_posteriors(taken, OUTSIDE_TAG, starts, ends))
        np.add.at(found, span, logs)
        return np.exp(found)

    def merge_labelings(
        self, posterior: Potentials, lists: Sequence[Labelings], n: int, ops: Ops
    ) -> list[Labelings]:
        """Return the best labelings of one document with different spans, by group of chains.

        posterior, lists: posterior and n-best lists of its chains. n: number of labelings. A
        labeling has the score of all labelings with its spans.
        """
        merged: list[Labelings] = []
        n_chains, span_tags = self.layers.n_chains, self.tags
        unary, transitions = map(ops.to_numpy, (posterior.unary, posterior.transitions))
        unary = unary.reshape(n_chains, -1, unary.shape[1]).astype("float64")
        length = unary.shape[1]
        if transitions.ndim == 3:
            transitions = transitions.reshape(n_chains, length, *transitions.shape[1:])
        for _, group in groupby(range(n_chains), lambda i: self.layers.units[i][0]):
            chains = list(group)
            if len(chains) == 1:
                merged.append(lists[chains[0]])
                continue
            edges = transitions if transitions.ndim == 2 else transitions[chains]
            labelings: dict[frozenset[Any], NDArray] = {}
            for tags in nbest_side_by_side([lists[chain] for chain in chains], n)[0]:
                labelings.setdefault(self._find_spans(tags, len(chains), length), tags)
            scores = [score_span_set(unary[chains], edges, spans, span_tags) for spans in labelings]
            order = np.argsort(-np.array(scores), kind="stable")
            merged.append((np.array([*labelings.values()])[order], np.array(scores)[order]))
        return merged

    def _find_spans(self, tags: NDArray, n_chains: int, length: int) -> frozenset[Any]:
        """Return start, end and slot of the spans of the chains of one document."""
        found = self.entities.scheme.decode_ids(tags, np.full(n_chains, length))
        starts, ends, slots = (part.tolist() for part in found)
        shifts = (start // length * length for start in starts)
        columns = zip(starts, ends, slots, shifts, strict=True)
        return frozenset((start - shift, end - shift, slot) for start, end, slot, shift in columns)
