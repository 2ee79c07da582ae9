"""Exact posterior probabilities of spans: these boundaries and this label.

A span is one way through its tokens' tags. The posterior of a chain is a Markov chain, so the
span's probability is that of its first tag, times that of each next tag given the one before; and,
where no tag says that a span ends, times that of not going on. The posterior is the CRF's.
"""

from __future__ import annotations

from typing import NamedTuple

from spacy_bcrf import kernels
from spacy_bcrf.kernels import Array, array_module

from .gold import raise_infeasible
from .potentials import Potentials
from .search import feasible


class SpanTags(NamedTuple):
    """int32 (K,) tag ids of the spans of K labels: of the first, inner and last of several tokens,
    and of a single one. Where last and inside are the same, as in BIO, single is also first."""

    first: Array
    inside: Array
    last: Array
    single: Array


class Spans(NamedTuple):
    """M spans of a flat batch: first tokens, one past the last ones, label indices, and
    probabilities; each (M,)."""

    starts: Array
    ends: Array
    labels: Array
    probabilities: Array


def span_posteriors(
    potentials: Potentials, tags: SpanTags, starts: Array, ends: Array, labels: Array
) -> Array:
    """(M,) probabilities of given spans, see `Spans`; none of them empty or across sequences.

    O(N T^2 + N K + M longest).
    Raises ValueError naming the first sequence without an allowed labeling.
    """
    posterior = _Posterior(potentials, tags)
    xp = array_module(potentials.unary)
    n = ends - starts
    p = posterior.tag(xp.where(n == 1, tags.single[labels], tags.first[labels]), starts)
    for i in range(int(n.max()) - 1 if len(n) else 0):
        at = xp.flatnonzero(n > i + 1)
        p[at] *= posterior.step(i == 0, n[at] == i + 2, starts[at] + i, labels[at])
    return (p * posterior.stop(n == 1, ends - 1, labels)).clip(max=1)


def span_candidates(potentials: Potentials, tags: SpanTags, threshold: float) -> Spans:
    """Every span with at least that posterior probability, by start, end and label.

    Found by lengthening spans for as long as they begin with that probability, which more tokens
    cannot raise; at any token at most 1 / threshold are under way, so this takes
    O(N T^2 + N longest / threshold).
    Raises ValueError for a threshold outside (0, 1], or naming the first sequence without an
    allowed labeling.
    """
    if not 0 < threshold <= 1:
        raise ValueError(f"threshold must be in (0, 1], got {threshold}")
    posterior = _Posterior(potentials, tags)
    xp = array_module(potentials.unary)
    found = []

    def keep(p: Array, starts: Array, ends: Array, labels: Array) -> None:
        likely = p >= threshold
        found.append(Spans(starts[likely], ends[likely], labels[likely], p[likely]))

    starts, labels = xp.nonzero(posterior.node[:, tags.single] >= threshold)
    p = posterior.tag(tags.single[labels], starts)
    keep(p * posterior.stop(True, starts, labels), starts, starts + 1, labels)
    starts, labels = xp.nonzero(posterior.node[:, tags.first] >= threshold)
    p = posterior.tag(tags.first[labels], starts)
    i = 0
    while len(starts):
        last = p * posterior.step(i == 0, True, starts + i, labels)
        # Of the last token of a sequence `step` is 0, so nothing goes on past it.
        likely = xp.flatnonzero(last >= threshold)
        ends = starts[likely] + i + 2
        stop = posterior.stop(False, ends - 1, labels[likely])
        keep(last[likely] * stop, starts[likely], ends, labels[likely])
        p = p * posterior.step(i == 0, False, starts + i, labels)
        likely = p >= threshold
        starts, labels, p = starts[likely], labels[likely], p[likely]
        i += 1
    spans = Spans(*(xp.concatenate(parts) for parts in zip(*found, strict=True)))
    order = xp.lexsort(xp.stack([spans.labels, spans.ends, spans.starts]))
    return Spans(*(part[order] for part in spans))


class _Posterior:
    """The Markov chain that the posterior is, for the tags of spans. Tokens are flat, arguments
    `labels` are indices; all arrays (M,)."""

    def __init__(self, potentials: Potentials, tags: SpanTags) -> None:
        self._xp = xp = array_module(potentials.unary)
        # In the order of `step`'s arguments.
        heads = xp.concatenate([tags.inside, tags.inside, tags.first, tags.first])
        tails = xp.concatenate([tags.inside, tags.last, tags.inside, tags.last])
        self._heads = heads.astype("int32")
        self.node, self._pairs = kernels.pair_marginals(
            potentials.unary,
            potentials.transitions,
            potentials.lengths,
            self._heads,
            tails.astype("int32"),
        )
        self._n_labels = len(tags.first)
        self._has_open_end = bool((tags.last == tags.inside).any())
        if not (self.node.sum(axis=1) > 0).all():
            raise_infeasible(xp.where(feasible(potentials), 0, -float("inf")), "allowed")

    def tag(self, tags: Array, tokens: Array) -> Array:
        """Probability of these tags at the tokens."""
        return self.node[tokens, tags]

    def step(self, is_first: Array, is_to_last: Array, tokens: Array, labels: Array) -> Array:
        """Probability that a span which has its first or an inner tag at a token has its last or
        an inner tag at the next one."""
        kind = 2 * self._xp.asarray(is_first, dtype="int64") + is_to_last
        pair = kind * self._n_labels + labels
        heads = self.node[tokens, self._heads[pair]]
        tiny = self._xp.finfo(heads.dtype).tiny
        return self._pairs[tokens, pair] / self._xp.maximum(heads, tiny)

    def stop(self, is_single: Array, tokens: Array, labels: Array) -> Array:
        """Probability that a span ends at a token, given that it has its single or last tag there;
        it is open only where that is also a tag inside."""
        if not self._has_open_end:
            return 1
        return (1 - self.step(is_single, False, tokens, labels)).clip(min=0)
