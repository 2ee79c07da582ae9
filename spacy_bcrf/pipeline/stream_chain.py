"""The chain of a stream: its labelings so far, and the tags of its spans."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import IS_SPACE, SENT_START  # type: ignore[import-not-found]

from bcrf.chain import CRF, SpanTags
from spacy_bcrf.annotation.arrays import DocBatch
from spacy_bcrf.layers.decoding import F
from spacy_bcrf.layers.linear_chain import is_chain_alone, sparse_chain
from spacy_bcrf.layers.model_taggers import find_taggers
from spacy_bcrf.sparse.model import SparseChain

from .codecs import Codec
from .codecs.span_tagging import OUTSIDE_TAG
from .prediction import Component

Bounds = tuple[int, int, int]
"""Start, end and label of a span."""

_KNOWN: WeakKeyDictionary[Any, tuple[Any, ...]] = WeakKeyDictionary()
"""Of word caches: weights, constraints of a codec, temperature, and what streams know of these."""


class TagsOfSpans:
    """The tags of the spans of a codec, and their probabilities in a stream.

    labels: labels of the first tags of spans, by chain.
    """

    def __init__(self, codec: Codec) -> None:
        n_labels, spans = len(codec.labels), codec.spans
        self._most = codec.layered.most if codec.layered else 1
        self._tags: SpanTags | None = None
        self._places: list[list[tuple[int, int]]]
        if spans is None:
            self._places = [[(0, label)] for label in range(n_labels)]
            self.labels = [{label: label for label in range(n_labels)}]
            return
        self._places = [[] for _ in range(n_labels)]
        found = (part.tolist() for part in spans.find_places(np.arange(n_labels)))
        for label, chain, slot in zip(*found, strict=True):
            self._places[label].append((chain, slot))
        self._tags = tags = SpanTags(*(part.tolist() for part in spans.tags))
        chains, slots = np.mgrid[: codec.n_chains, : len(tags.single)]
        self._slots = spans.label_of(chains, slots)
        self._columns = np.stack(spans.tags)
        self.labels = [
            dict(zip(tags.first, labels, strict=True)) | dict(zip(tags.single, labels, strict=True))
            for labels in self._slots.tolist()
        ]

    def path(self, slot: int, n: int) -> tuple[list[int], int]:
        """Return the tags of a span of n tokens, and one that continues it, -1 for none."""
        if self._tags is None:
            return [slot], -1
        first, inside, last, single = (tags[slot] for tags in self._tags)
        tags = [single] if n == 1 else [first, *[inside] * (n - 2), last]
        return tags, inside if inside == last else -1

    def name(self, codec: Codec, span: Bounds) -> list[str]:
        """Return the tags of a span in the first chain."""
        start, end, label = span
        return [codec.tags[tag] for tag in self.path(self._places[label][0][1], end - start)[0]]

    def bound(self, stream: Any, span: Bounds) -> tuple[float, float]:
        """Return the least and the largest probability of a span, of an open one for any end."""
        start, end, label = span
        without = without_most = 1.0
        for chain, slot in self._places[label]:
            if end > stream.length:
                tags, inside = self.path(slot, end - start)[0][:-1], -1
                least, most = 0.0, stream.bound(chain, start, tags, inside)[1]
            else:
                least, most = stream.bound(chain, start, *self.path(slot, end - start))
            without *= 1 - least
            without_most *= 1 - most
        return 1 - without, 1 - without_most

    def find_least(self, likely: NDArray) -> NDArray[np.float64]:
        """Return `least` of `find_candidates` for least probabilities of labels."""
        # A span in k layers reaches one only if it has a k-th of it in a layer.
        return likely[self._slots] / self._most * 0.999

    def find_candidates(self, stream: Any, first: int, least: NDArray) -> list[Bounds]:
        """Return the spans from a token on that may reach `least` in a chain, in order of the text.

        An open one, whose last tokens are still to come, ends behind `length`.
        """
        found = stream.candidates(first, least, self._columns)
        slots = self._slots
        return sorted({(i, k, int(slots[chain, slot])) for chain, i, k, slot in found})


def make_stream_chain(
    pipe: Component, chain: SparseChain, temperature: float
) -> tuple[Any, TagsOfSpans]:
    """Return the stream of a component's tags, and the tags of its spans.

    temperature: temperature of the posterior, 0 without one.
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
    starts: Any = np.ones(T, bool)
    goes_on, outside = np.zeros(T, bool), -1
    if codec.spans is not None:
        entities = codec.spans.entities
        starts, outside = entities.may_start, OUTSIDE_TAG
        goes_on = (entities.transitions & ~starts).any(axis=1)
    return edges, closed, starts, goes_on, outside


def find_streaming_chain(pipe: Component) -> SparseChain:
    """Return the chain of a component. ValueError with the reason if it cannot stream."""
    model, chain = pipe.model, sparse_chain(pipe.model)
    if taggers := {tagger.name for tagger in find_taggers(model)}:
        names = ", ".join(sorted(taggers))
        why = f"its scores {names} are other taggers', which need the whole text"
    elif chain is None or not is_chain_alone(model):
        why = (
            "a network may read the whole text. A stream needs spacy-bcrf.LinearChain.v1 alone, "
            "which reads a few words ahead"
        )
    elif chain.first is not None:
        why = "two_pass reads the whole document before it tags a word. Train without two_pass"
    elif others := [x for x in chain.features.listed if x not in chain.features.phrases]:
        names = ", ".join(map(str, others))
        why = f"its features {names} may read the whole document. Train without these templates"
    elif chain.settings.order == 2:
        why = "order = 2 chooses tags by the posterior of the whole text. Train with order = 1"
    elif pipe.labeling.decoder not in ("viterbi", F):
        why = f"its decoder is {pipe.labeling.decoder}. Set the decoder viterbi"
    elif not isinstance(pipe.labeling.inference, CRF):
        why = f"its objective is {chain.settings.objective}, whose posterior needs the whole text"
    else:
        return chain
    raise ValueError(f"[{pipe.name}] cannot stream: {why}")
