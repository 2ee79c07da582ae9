"""Labelings of several layers that have the same spans."""

from collections.abc import Collection, Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray

from bcrf.chain import SpanTags

SlotSpan = tuple[int, int, int]
"""First token, one past the last token, slot."""


def score_span_set(
    unary: NDArray[np.floating],
    transitions: NDArray[np.floating],
    spans: Collection[SlotSpan],
    tags: SpanTags,
) -> float:
    """Return the log of the summed exp(score) of all labelings of L layers with these spans.

    The forward algorithm over joint states: the span of each layer, all spans at a token being in
    one. unary: (L, n, T). transitions: (T, T), or (L, n, T, T) to the next token. tags: of slots.
    """
    n_layers, length = unary.shape[:2]
    if not length:
        return 0.0
    first = list(_states(spans, 0, n_layers))
    scores = {state: _score_token(unary, state, 0, tags) for state in first}
    for token in range(1, length):
        edges = transitions if transitions.ndim == 2 else transitions[:, token - 1]
        new = {}
        for state in _states(spans, token, n_layers):
            came = [
                score + _score_edges(edges, old, state, token, tags)
                for old, score in scores.items()
                if all(map(_may_follow, old, state, [token] * n_layers))
            ]
            total = np.logaddexp.reduce(came) if came else -np.inf
            new[state] = total + _score_token(unary, state, token, tags)
        scores = new
    return float(np.logaddexp.reduce(list(scores.values())))


OpenSpans = tuple[SlotSpan | None, ...]


def _states(spans: Collection[SlotSpan], token: int, n_layers: int) -> Iterator[OpenSpans]:
    here = {span for span in spans if span[0] <= token < span[1]}
    for state in product([None, *here], repeat=n_layers):
        if here <= {*state}:
            yield state


def _may_follow(old: SlotSpan | None, new: SlotSpan | None, token: int) -> bool:
    """Return whether a layer in the span `new` at a token may be in `old` at the one before."""
    goes_on = old is not None and old[1] > token
    began = new is not None and new[0] < token
    return old == new if goes_on or began else True


def _tag(span: SlotSpan | None, token: int, tags: SpanTags) -> int:
    if span is None:
        return 0
    start, end, slot = span
    if end - start == 1:
        return int(tags.single[slot])
    kind = tags.first if token == start else tags.last if token == end - 1 else tags.inside
    return int(kind[slot])


def _score_token(unary: NDArray, state: OpenSpans, token: int, tags: SpanTags) -> float:
    return sum(
        float(unary[layer, token, _tag(span, token, tags)]) for layer, span in enumerate(state)
    )


def _score_edges(
    edges: NDArray, old: OpenSpans, new: OpenSpans, token: int, tags: SpanTags
) -> float:
    pairs = [
        (_tag(a, token - 1, tags), _tag(b, token, tags)) for a, b in zip(old, new, strict=True)
    ]
    by_layer = edges if edges.ndim == 3 else [edges] * len(pairs)
    return sum(float(w[pair]) for w, pair in zip(by_layer, pairs, strict=True))
