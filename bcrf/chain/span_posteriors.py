"""Exact posterior probabilities of spans with given boundaries and label.

The posterior of a CRF, or of `Inference.to_crf`, is a Markov chain over tags. A span's probability
is the marginal of its first tag times the conditional probability of each next tag, and, if no tag
marks the end of a span, the probability that it does not continue.
"""

from typing import NamedTuple

from bcrf import kernels
from bcrf.kernels import Array

from .potentials import Potentials, check_numbers
from .search import viterbi


class SpanTags(NamedTuple):
    """Tag ids of the spans of K labels, int32 (K,) each.

    first, inside, last: tags in a span of several tokens. single: tag of a span of one token.

    In a scheme without end tags, such as BIO, `last` equals `inside` and `single` equals `first`.

    >>> import numpy as np
    >>> from bcrf.chain import SpanTags
    >>> tags = SpanTags(*(np.array([tag], dtype="int32") for tag in (1, 2, 2, 1)))  # BIO
    >>> tags.first.tolist(), tags.last.tolist()
    ([1], [2])
    """

    first: Array
    inside: Array
    last: Array
    single: Array


class Spans(NamedTuple):
    """M spans of a flat batch, (M,) each.

    starts: first tokens. ends: one past the last tokens. labels: indices. probabilities.
    """

    starts: Array
    ends: Array
    labels: Array
    probabilities: Array


def span_posteriors(
    potentials: Potentials, tags: SpanTags, starts: Array, ends: Array, labels: Array
) -> Array:
    """Return the probabilities (M,) of given spans. O(N T^2 + N K + M longest span).

    starts, ends, labels: (M,), see `Spans`. A span is not empty and lies within one sequence.

    Raises ValueError naming the first sequence without an allowed labeling, or the first span that
    is empty or not in the batch.

    >>> import numpy as np
    >>> from bcrf.chain import Potentials, SpanTags, span_posteriors
    >>> w = Potentials(np.eye(3), np.zeros((3, 3)), np.array([3], dtype="int32"))
    >>> tags = SpanTags(*(np.array([tag], dtype="int32") for tag in (1, 2, 2, 1)))  # BIO
    >>> one, zero = np.array([1]), np.array([0])
    >>> span_posteriors(w, tags, one, one + 2, zero).round(3).tolist()
    [0.332]
    """
    _check_spans(potentials, starts, ends)
    chain = _TagChain(potentials, tags)
    xp = potentials.xp
    n = ends - starts
    p = chain.tag(xp.where(n == 1, tags.single[labels], tags.first[labels]), starts)
    for i in range(int(n.max()) - 1 if len(n) else 0):
        at = xp.flatnonzero(n > i + 1)
        p[at] *= chain.step(i == 0, n[at] == i + 2, starts[at] + i, labels[at])
    return (p * chain.stop(n == 1, ends - 1, labels)).clip(max=1)


def span_candidates(potentials: Potentials, tags: SpanTags, threshold: float) -> Spans:
    """Return every span whose posterior probability is at least `threshold`.

    The spans are sorted by start, end and label. The search extends a prefix while its probability
    reaches the threshold, since more tokens cannot raise it. At most 1 / threshold prefixes reach
    it at each token, so the search takes O(N T^2 + N longest span / threshold).

    Raises ValueError for a threshold outside (0, 1], and names the first sequence without an
    allowed labeling.

    >>> import numpy as np
    >>> from bcrf.chain import Potentials, SpanTags, span_candidates
    >>> w = Potentials(np.eye(3), np.zeros((3, 3)), np.array([3], dtype="int32"))
    >>> tags = SpanTags(*(np.array([tag], dtype="int32") for tag in (1, 2, 2, 1)))  # BIO
    >>> found = span_candidates(w, tags, 0.2)
    >>> list(zip(found.starts.tolist(), found.ends.tolist(), found.probabilities.round(2).tolist()))
    [(1, 2, 0.24), (1, 3, 0.33), (2, 3, 0.21)]
    """
    check_numbers(threshold=threshold)
    if not 0 < threshold <= 1:
        raise ValueError(f"threshold must be in (0, 1], got {threshold}")
    chain = _TagChain(potentials, tags)
    xp = potentials.xp
    found = []

    def keep(p: Array, starts: Array, ends: Array, labels: Array) -> None:
        likely = p >= threshold
        # Rounding may take a probability over 1.
        most = xp.minimum(p[likely], 1)
        found.append(Spans(starts[likely], ends[likely], labels[likely], most))

    starts, labels = xp.nonzero(chain.unary[:, tags.single] >= threshold)
    p = chain.tag(tags.single[labels], starts)
    keep(p * chain.stop(True, starts, labels), starts, starts + 1, labels)
    starts, labels = xp.nonzero(chain.unary[:, tags.first] >= threshold)
    p = chain.tag(tags.first[labels], starts)
    i = 0
    while len(starts):
        last = p * chain.step(i == 0, True, starts + i, labels)
        # `step` is 0 at the last token of a sequence, so no span crosses the boundary.
        likely = xp.flatnonzero(last >= threshold)
        ends = starts[likely] + i + 2
        stop = chain.stop(False, ends - 1, labels[likely])
        keep(last[likely] * stop, starts[likely], ends, labels[likely])
        p = p * chain.step(i == 0, False, starts + i, labels)
        likely = p >= threshold
        starts, labels, p = starts[likely], labels[likely], p[likely]
        i += 1
    spans = Spans(*(xp.concatenate(parts) for parts in zip(*found, strict=True)))
    order = xp.lexsort(xp.stack([spans.labels, spans.ends, spans.starts]))
    return Spans(*(part[order] for part in spans))


def stretch_posteriors(potentials: Potentials, tag: int, starts: Array, ends: Array) -> Array:
    """Return the log-probabilities (M,) that one tag fills stretches of tokens. O(N T^2 + M).

    tag: the id of the tag; with O, no span touches the stretches. starts, ends: (M,), first tokens
    and one past the last tokens. A stretch is not empty and lies within one sequence. float64, -inf
    for an impossible stretch.
    """
    _check_spans(potentials, starts, ends)
    xp = potentials.xp
    tags = xp.array([tag], dtype="int32")
    unary, pairs = kernels.pair_marginals(*potentials.arrays, tags, tags)
    tiny = xp.finfo(unary.dtype).tiny
    at = xp.maximum(unary[:, tag], tiny).astype("float64")
    # Log-probability of the next token's tag given this token's. An impossible step counts apart:
    # a difference of two sums with -inf would be NaN.
    steps = pairs[:, 0] > tiny
    logs = xp.where(steps, xp.log(xp.where(steps, pairs[:, 0], 1) / at), 0)
    sums, blocked = (xp.append(xp.zeros(1), x.cumsum()) for x in (logs, ~steps))
    found = xp.log(at[starts]) + sums[ends - 1] - sums[starts]
    possible = (unary[starts, tag] > tiny) & (blocked[ends - 1] == blocked[starts])
    return xp.where(possible, xp.minimum(found, 0), -xp.inf)


def _check_spans(potentials: Potentials, starts: Array, ends: Array) -> None:
    wrong = (starts < 0) | (starts >= ends) | (ends > len(potentials.unary))
    if wrong.any():
        i = int(wrong.argmax())
        raise ValueError(
            f"span {i} has the tokens {int(starts[i])}:{int(ends[i])}; expected a span within "
            f"{len(potentials.unary)} tokens"
        )


class _TagChain:
    """The posterior as a Markov chain over span tags, at flat tokens and label indices (M,)."""

    def __init__(self, potentials: Potentials, tags: SpanTags) -> None:
        self._xp = xp = potentials.xp
        is_open = tags.last == tags.inside
        self._has_open_end = bool(is_open.any())
        # `step` computes a pair's index from its arguments in this order. Without end tags, the
        # pairs with the last tag are the pairs with the inner one.
        tails = [tags.inside] if is_open.all() else [tags.inside, tags.last]
        self._n_tails, self._n_labels = len(tails), len(tags.first)
        heads = [head for head in (tags.inside, tags.first) for _ in tails]
        self._heads = xp.concatenate(heads).astype("int32")
        self.unary, self._pairs = kernels.pair_marginals(
            *potentials.arrays, self._heads, xp.concatenate(tails * 2).astype("int32")
        )
        if not (self.unary.sum(axis=1) > 0).all():
            viterbi(potentials)  # raises for infeasible sequences

    def tag(self, tags: Array, tokens: Array) -> Array:
        """Marginals of these tags at the tokens."""
        return self.unary[tokens, tags]

    def step(self, is_first: Array, is_to_last: Array, tokens: Array, labels: Array) -> Array:
        """Conditional probability of a span's next tag, given its tag at these tokens.

        is_first, is_to_last: whether the given, the next tag is not an inner one.
        """
        kind = self._n_tails * self._xp.asarray(is_first, dtype="int64")
        kind = kind + (self._n_tails - 1) * is_to_last
        pair = kind * self._n_labels + labels
        heads = self.unary[tokens, self._heads[pair]]
        tiny = self._xp.finfo(heads.dtype).tiny
        return self._pairs[tokens, pair] / self._xp.maximum(heads, tiny)

    def stop(self, is_single: Array, tokens: Array, labels: Array) -> Array:
        """Probability that a span ends at these tokens, given its last tag; 1 with end tags."""
        if not self._has_open_end:
            return 1
        return (1 - self.step(is_single, False, tokens, labels)).clip(min=0)
