"""The chain of a stream: its labelings so far, and the tags of its spans."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from spacy.attrs import IS_SPACE, SENT_START  # type: ignore[import-not-found]

from bcrf.chain import CRF, SpanTags
from spacy_bcrf.annotation.arrays import DocBatch
from spacy_bcrf.layers.linear_chain import is_chain_alone, sparse_chain, sparse_chains
from spacy_bcrf.sparse.model import SparseChain

from .codecs import Codec
from .prediction import Component

_KNOWN: WeakKeyDictionary[Any, tuple[Any, ...]] = WeakKeyDictionary()
"""Of word caches: weights, constraints of a codec, temperature, and what streams know of these."""


class TagsOfSpans:
    """The tags of the spans of a codec.

    labels: of the first tags of spans, by chain. places: of each label, its chains and slots.
    slots: (C, K) labels.
    """

    def __init__(self, codec: Codec) -> None:
        n_labels = len(codec.labels)
        places = zip(*(part.tolist() for part in codec.place(np.arange(n_labels))), strict=True)
        self.places: list[list[tuple[int, int]]] = [[] for _ in range(n_labels)]
        for label, chain, slot in places:
            self.places[label].append((chain, slot))
        self._tags = None
        if codec.outside is None:
            self.labels = [{label: label for label in range(n_labels)}]
            return
        self._tags = tags = SpanTags(*(part.tolist() for part in codec.span_tags(np)))
        chains, slots = np.mgrid[: codec.n_chains, : len(tags.single)]
        self.slots = codec.label_of(chains, slots)
        self.labels = [
            dict(zip(tags.first, labels, strict=True)) | dict(zip(tags.single, labels, strict=True))
            for labels in self.slots.tolist()
        ]

    def path(self, slot: int, n: int) -> tuple[list[int], int]:
        """Return the tags of a span of n tokens, and one that continues it, -1 for none."""
        if self._tags is None:
            return [slot], -1
        first, inside, last, single = (tags[slot] for tags in self._tags)
        tags = [single] if n == 1 else [first, *[inside] * (n - 2), last]
        return tags, inside if inside == last else -1


def make_chain(pipe: Component, chain: SparseChain, temperature: float) -> tuple[Any, TagsOfSpans]:
    """Return the stream of a component's tags, and the tags of its spans.

    temperature: of the posterior, 0 without one.
    """
    from bcrf.kernels.sparse import Stream, StreamRules

    words, weights, codec = chain.features.compiled.words, chain.learner.weights, pipe.codec
    known = _KNOWN.get(words, (None, None, temperature))
    if known[0] is not weights or known[1] is not codec.constraints or known[2] != temperature:
        rules = StreamRules(*_find_constraints(pipe), temperature=temperature)
        known = _KNOWN[words] = weights, codec.constraints, temperature, rules, TagsOfSpans(codec)
    offsets = [part.offset for template in chain.features.templates for part in template.parts]
    # The scores of a text's first and last token differ.
    before, after = max(1, -min(offsets)), max(1, *offsets, 0)
    return Stream(chain.dictionary, weights, before, after, known[-2]), known[-1]


def _find_constraints(pipe: Component) -> tuple[Any, ...]:
    """Return `transitions` to `outside` of `kernels.sparse.StreamRules`."""
    codec = pipe.codec
    # Three tokens of each kind show what the constraints forbid at the ends and in the middle.
    columns = list(dict.fromkeys((*codec.attributes, *pipe.labeling.columns)))
    kinds, lengths = np.repeat(np.arange(4), 3), np.full(4, 3, "int32")
    values = np.zeros((len(kinds), len(columns)), dtype="uint64")
    for k, column in enumerate(columns):
        if column in (SENT_START, IS_SPACE):
            values[:, k] = (kinds & 1) if column == SENT_START else kinds >> 1
    batch = DocBatch.of_tokens(pipe.vocab.strings, columns, values, lengths)
    potentials = pipe.find_potentials(batch)
    T = codec.n_tags
    closed = np.isneginf(potentials.unary).reshape(4, codec.n_chains, 3, T).transpose(2, 0, 1, 3)
    edges = np.broadcast_to(potentials.transitions, (len(potentials.unary), T, T))
    edges = edges.reshape(4, codec.n_chains, 3, T, T)[:, 0, 0]
    starts, goes_on, outside = np.ones(T, bool), np.zeros(T, bool), -1
    if codec.outside is not None:
        entities = codec.entities  # type: ignore[attr-defined]
        starts, outside = entities.may_start, codec.outside
        goes_on = (entities.transitions & ~starts).any(axis=1)
    return edges, closed, starts, goes_on, outside


def find_streaming_chain(pipe: Component) -> SparseChain:
    """Return the chain of a component. ValueError with the reason if it cannot stream."""
    model, chain = pipe.model, sparse_chain(pipe.model)
    attributes = [node.attrs for node in model.walk()] + [vars(c) for c in sparse_chains(model)]
    scorers = {scorer.name for of_node in attributes for scorer in of_node.get("scorers", ())}
    if scorers:
        names = ", ".join(sorted(scorers))
        why = f"its scores {names} are other taggers', which need the whole text"
    elif chain is None or not is_chain_alone(model):
        why = (
            "a network may read the whole text. A stream needs spacy-bcrf.LinearChain.v1 alone, "
            "which reads a few words ahead"
        )
    elif chain.first is not None:
        why = "two_pass reads the whole document before it tags a word. Train without two_pass"
    elif chain.features.listed:
        names = ", ".join(map(str, chain.features.listed))
        why = f"its features {names} may read the whole document. Train without these templates"
    elif chain.settings.order == 2:
        why = "order = 2 chooses tags by the posterior of the whole text. Train with order = 1"
    elif pipe.labeling.decoder != "viterbi":
        why = f"its decoder is {pipe.labeling.decoder}. Set the decoder viterbi"
    elif not isinstance(pipe.labeling.inference, CRF):
        why = f"its objective is {chain.settings.objective}, whose posterior needs the whole text"
    else:
        return chain
    raise ValueError(f"[{pipe.name}] cannot stream: {why}")
