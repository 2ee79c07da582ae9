"""True spans, and the precision and coverage of sources, from the votes of these sources.

>>> import numpy as np
>>> from bcrf.chain import Constraints, SpanTags, viterbi
>>> from bcrf.chain.votes import Votes, fit_votes
>>> zero, looked = np.zeros(1, int), np.ones(4, bool)
>>> careful, careless = (Votes.of([(1, end, 0)], looked, [[True]]) for end in (3, 2))
>>> tags = SpanTags(*(np.array([tag]) for tag in (1, 2, 2, 1)))  # BIO
>>> allowed = np.array([[1, 1, 0], [1, 1, 1], [1, 1, 1]], bool)
>>> votes, lengths = [careful, careful, careless], np.array([4], "int32")
>>> model = fit_votes(votes, lengths, tags, Constraints(allowed, allowed[0], allowed[1]))
>>> viterbi(model.posterior(votes, lengths))[0].tolist()
[0, 1, 2, 0]
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .potentials import Constraints, Potentials, join_ranges
from .span_posteriors import SpanTags

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NOT_LOOKED, SILENT, BESIDE = -1, 0, 1
"""The vote of a source on a token: nothing, no span here, no span beside its own span. From 2 on,
the tags of its spans."""


@dataclass(frozen=True)
class Priors:
    """What the model believes before any vote. Validation parts chose the values.

    precision: prior precision of a source's label: the share of its tokens, in spans, that are of
    an entity of any label.
    spans: the number of such tokens that `precision` counts for; of spans, where figures are of
    spans.
    right, wrong: pseudo-counts of a vote on an entity token: the true tag, and all others together.
    shared: the habits of a source at all labels count for this number of tokens of each label.
    silence: exponent of the probability of silence. Entities that one source finds, others find
    too: below 1, silent sources are not taken for as many independent witnesses.
    entity: log-odds added to each entity that no source denies, less with known tags, and in
    proportion to the log-odds of a precision below the prior. Silent sources and weights of
    near-copies take too much from a span of one source: one half of CoNLL-2003's is below its
    majority without.
    trust: exponent of the share of others' votes that confirm a label of a source: its weight where
    sources differ about label or boundaries.
    temperature: of the chain of all labelings: the tokens of a span are no independent witnesses,
    and sources share errors. At 1, a span of one source alone has 0.98 to 0.996, not its prior
    precision. Chosen in simulations, where 3 is better, and on the validation part of NCBI
    disease, where 2 is.
    known: the number of tokens that a token with a known tag counts for.
    near_copy: smallest correlation of the votes of two sources, given true tags, that counts as a
    copy.
    """

    precision: float = 0.85
    spans: float = 20.0
    right: float = 4.0
    wrong: float = 1.0
    shared: float = 20.0
    silence: float = 0.6
    entity: float = 2.5
    trust: float = 3.0
    temperature: float = 2.5
    known: float = 10.0
    near_copy: float = 0.5


PRIORS = Priors()


def find_coarse(means: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which symbols (K,) mean one of several labels. means: (K, L)."""
    coarse: NDArray[np.bool_] = means.sum(axis=1) > 1
    return coarse


class Votes(NamedTuple):
    """Votes of a source: M spans that do not overlap.

    starts, ends: (M,) flat tokens. symbols: (M,) the labels of the source. looked: (N,) the tokens
    that it has seen. means: (K, L), the labels that a symbol means; several are alternatives.
    denies: whether its silence is a vote against all labels; else it abstains. weights: (M,) its
    own probabilities of the spans.
    """

    starts: Ints
    ends: Ints
    symbols: Ints
    weights: Floats
    looked: NDArray[np.bool_]
    means: NDArray[np.bool_]
    denies: bool = False

    @classmethod
    def of(
        cls,
        spans: ArrayLike,
        looked: NDArray[np.bool_],
        means: ArrayLike,
        denies: bool = False,
        weights: ArrayLike | None = None,
    ) -> "Votes":
        """Make votes of rows (start, end, symbol)."""
        starts, ends, symbols = np.asarray(spans, dtype="int64").reshape(-1, 3).T
        own = np.ones(len(starts)) if weights is None else np.asarray(weights, dtype="float64")
        return cls(starts, ends, symbols, own, looked, np.asarray(means, dtype=bool), denies)

    @property
    def has_coarse(self) -> bool:
        """Whether a span means one of several labels."""
        return bool(find_coarse(self.means)[self.symbols].any())

    @staticmethod
    def join(parts: Sequence["Votes"]) -> "Votes":
        """Return the votes of one source on several batches as one batch."""
        shifts = np.cumsum([0, *(len(part.looked) for part in parts[:-1])])
        moved = [
            (part.starts + shift, part.ends + shift, *part[2:5])
            for part, shift in zip(parts, shifts.tolist(), strict=True)
        ]
        s, e, k, w, looked = (np.concatenate(column) for column in zip(*moved, strict=True))
        return Votes(s, e, k, w, looked, parts[0].means, parts[0].denies)


class _Said(NamedTuple):
    """The vote of a source on each token (N,), and its probability of it (N,)."""

    symbols: NDArray[np.int32]
    weights: Floats


def _encode(votes: Votes, lengths: NDArray[np.int32], tags: SpanTags) -> _Said:
    """Return the votes of a source on tokens, with the prefixes of the first label's tags."""
    first, inside, last, single = (int(of_label[0]) - 1 for of_label in tags)
    n_prefixes = max(first, inside, last, single) + 1
    said = np.where(votes.looked, SILENT, NOT_LOOKED).astype("int32")
    ends = np.repeat(lengths.cumsum(), lengths)
    before = votes.starts[np.append(False, ends[1:] == ends[:-1])[votes.starts]] - 1
    after = votes.ends[votes.ends < ends[votes.starts]]
    said[before] = said[after] = BESIDE
    offsets = 2 + n_prefixes * votes.symbols
    sizes = votes.ends - votes.starts
    tokens = join_ranges(votes.starts, sizes)
    said[tokens] = np.repeat(offsets + inside, sizes)
    said[votes.ends - 1] = offsets + last
    said[votes.starts] = offsets + first
    alone = sizes == 1
    said[votes.starts[alone]] = offsets[alone] + single
    weights = np.ones(len(said))
    weights[tokens] = np.repeat(votes.weights, sizes)
    return _Said(said, weights)


def _find_voted(said: Sequence[_Said]) -> NDArray[np.bool_]:
    return np.any([symbols > BESIDE for symbols, _ in said], axis=0)


@dataclass(frozen=True)
class VoteModel:
    """A chain over true tags, and the votes of each source given the true tag.

    emissions: by source, (T, 2 + K P), the logarithms, weighted. precisions: by source, of spans
    that no vote confirms or denies, by symbol (K,), see `Priors`. log_moves, log_first: of
    the chain (T, T) and (T,). ends: tags that may end a sequence (T,). weights: of the sources
    (S,), below 1 for near-copies. correlations: (S, S) of the votes of two sources, given the true
    tags. bonus: by source, the log-odds added to an entity with this symbol (K,) that no source
    denies. temperature: see `Priors`.
    """

    tags: SpanTags
    emissions: list[Floats]
    precisions: list[Floats]
    log_moves: Floats
    log_first: Floats
    ends: NDArray[np.bool_]
    weights: Floats
    correlations: Floats
    bonus: list[Floats]
    temperature: float

    @property
    def n_prefixes(self) -> int:
        """Number of tags of a label."""
        return (len(self.log_first) - 1) // len(self.tags.first)

    def posterior(self, votes: Sequence[Votes], lengths: NDArray[np.int32]) -> Potentials:
        """Return the chain of the true tags of sequences, given votes. lengths: (B,).

        The temperature changes no best labeling.
        """
        said = [_encode(of_source, lengths, self.tags) for of_source in votes]
        n = int(lengths.sum())
        unary = np.zeros((n, len(self.log_first)))
        for table, (symbols, weights) in zip(self.emissions, said, strict=True):
            # The last row is of NOT_LOOKED.
            rows = np.append(table.T, np.zeros((1, len(unary.T))), axis=0)
            unary += rows[symbols]
            at = np.flatnonzero(weights < 1)
            unary[at] += (1 - weights[at, None]) * (rows[SILENT] - rows[symbols[at]])
        # An entity needs a vote on each of its tokens.
        counts = [
            (symbols > BESIDE) & (weight > 0)
            for (symbols, _), weight in zip(said, self.weights, strict=True)
        ]
        unary[~np.any(counts, axis=0), 1:] = -np.inf
        denied = [
            v.denies & (symbols == SILENT) for v, (symbols, _) in zip(votes, said, strict=True)
        ]
        begins = np.union1d(self.tags.first, self.tags.single)
        bonus = np.zeros(n)
        for of_symbol, (symbols, _) in zip(self.bonus, said, strict=True):
            says = np.flatnonzero(symbols > BESIDE)
            np.maximum.at(bonus, says, of_symbol[(symbols[says] - 2) // self.n_prefixes])
        unary[:, begins] += (bonus * ~np.any(denied, axis=0))[:, None]
        empty = Potentials(unary, self.log_moves / self.temperature, lengths)
        unary[empty.starts] += self.log_first
        unary[np.ix_(empty.ends, ~self.ends)] = -np.inf
        unary /= self.temperature
        return empty


def fit_votes(
    votes: Sequence[Votes],
    lengths: NDArray[np.int32],
    tags: SpanTags,
    constraints: Constraints,
    known: NDArray[np.int32] | None = None,
    priors: Priors = PRIORS,
) -> VoteModel:
    """Estimate sources, and a chain over true tags, from votes.

    A hidden Markov model with few effective parameters a source. For each label and prefix, the
    coverage: whether the source says anything of a token. Given that it does: the true tag, another
    prefix, another label, or a token beside its span; labels share these habits. For O, as many
    false spans as its prior precision says.

    The estimates are one M-step from the mean of the voters. A full model (Dawid and Skene
    1979; Nguyen et al. 2017 on chains; Lison et al. 2020 on sources) needs EM, whose optimum
    explains rare and precise sources by few entities: no vote tells whether a span that one source
    proposes exists. Li et al. (2022) show that few parameters estimate sources better.

    votes: by source. lengths: (B,) of the sequences with N tokens in all. tags: of the labels.
    known: true tags (N,), -1 where unknown. O(N S T). ValueError for no votes.
    """
    if not any(len(of_source.starts) for of_source in votes):
        raise ValueError("expected a span of a source or more, got none")
    fit = _Fit(votes, lengths, tags, constraints, known, priors)
    precisions, of_coarse = fit.judge_coarse()
    of_copies, correlations = fit.find_copies()
    weights = of_copies * of_coarse
    mean = fit.average(fit.compare(weights))
    inner, first = fit.empty.inner_edges, mean[fit.empty.starts].sum(axis=0)
    may_follow, may_start = constraints.transitions, constraints.start
    moves = np.where(may_follow, mean[inner].T @ mean[inner + 1], 0)
    prior = may_follow / may_follow.sum(axis=1, keepdims=True).clip(min=1)
    n_known = fit.is_known[_find_voted(fit.said)].sum()
    usual = priors.entity * priors.spans / (priors.spans + n_known)
    return VoteModel(
        tags,
        [
            weight * fit.emit(counts, of_source, prior)
            for weight, counts, of_source, prior in zip(
                weights, fit.count(mean), votes, precisions, strict=True
            )
        ],
        precisions,
        _log(_normalize(moves + prior)),
        _log(_normalize(may_start * first + may_start / may_start.sum())),
        constraints.end,
        weights,
        correlations,
        [usual * fit.compare_prior(p) for p in precisions],
        priors.temperature,
    )


class _Fit:
    """Means, counts and parameters of `fit_votes`."""

    def __init__(
        self,
        votes: Sequence[Votes],
        lengths: NDArray[np.int32],
        tags: SpanTags,
        constraints: Constraints,
        known: NDArray[np.int32] | None,
        priors: Priors,
    ) -> None:
        self.votes, self.priors = votes, priors
        self.said = [_encode(of_source, lengths, tags) for of_source in votes]
        self.n_tags, self.n_labels = len(constraints.start), len(tags.first)
        self.n_prefixes = (self.n_tags - 1) // self.n_labels
        n_tokens = int(lengths.sum())
        self.empty = Potentials(
            np.zeros((n_tokens, self.n_tags)), np.zeros((self.n_tags,) * 2), lengths
        )
        self.known = np.full(n_tokens, -1, "int32") if known is None else known
        self.is_known = self.known >= 0
        self.tables = []
        for each in votes:
            shares = each.means / each.means.sum(axis=1, keepdims=True).clip(min=1)
            table = np.zeros((2 + len(shares) * self.n_prefixes, self.n_tags))
            table[2:, 1:] = np.kron(shares, np.eye(self.n_prefixes))
            self.tables.append(table)
        # A vote for alternatives confirms each of them.
        self.allows = [np.sign(table) for table in self.tables]

    def find_copies(self) -> tuple[Floats, Floats]:
        """Return the weights of sources (S,), and the correlations of their votes (S, S).

        Two sources that err and are silent apart have correlation 0 given the true tags, copies 1.
        """
        mean = self.average(self.add_votes([1.0] * len(self.said)))
        residuals = np.zeros((len(self.said), len(mean)), dtype="float32")
        for row, (symbols, _), counts in zip(residuals, self.said, self.count(mean), strict=True):
            share = counts[:, 2:].sum(axis=1) / counts.sum(axis=1).clip(min=1e-9)
            row[:] = np.where(symbols == NOT_LOOKED, 0, (symbols > BESIDE) - mean @ share)
        # Residuals of sources that are nearly always right tell nothing.
        n_spans = [(symbols > BESIDE).sum() for symbols, _ in self.said]
        size = np.sqrt((residuals**2).sum(axis=1) + 0.05 * np.array(n_spans)).clip(min=1e-9)
        correlations = residuals @ residuals.T / np.outer(size, size)
        near = np.where(correlations >= self.priors.near_copy, correlations, 0)
        np.fill_diagonal(near, 0)
        return 1 / (1 + near.sum(axis=1)), correlations

    def add_votes(
        self, weights: Iterable[float | Floats], tables: Iterable[Floats] | None = None
    ) -> Floats:
        """Return the sums of votes by tag (N, T). weights: by source, one or by symbol (K,).

        tables: of what symbols count for (2 + K P, T), by default shares of alternatives.
        """
        sums = np.zeros((len(self.known), self.n_tags))
        for weight, (symbols, own), table, votes in zip(
            weights, self.said, tables or self.tables, self.votes, strict=True
        ):
            of_symbol = np.broadcast_to(weight, len(votes.means)).repeat(self.n_prefixes)
            scaled = np.append([0, 0], of_symbol)[:, None] * table
            says = np.flatnonzero(symbols > BESIDE)
            sums[says] += own[says, None] * scaled[symbols[says]]
            denied = (symbols == BESIDE) | (votes.denies & (symbols == SILENT))
            sums[:, 0] += np.mean(weight) * denied
        return sums

    def judge_coarse(self) -> tuple[list[Floats], Floats]:
        """Return the precisions of symbols (K,), by source, and the weights of sources (S,).

        A vote for alternatives is a guess that others resolve. Only where they confirm one of them,
        it is right. It counts for as much of an entity, the rest of it for O. A source that is
        wrong more often than right has no weight.
        """
        allowed = self.add_votes(np.ones(len(self.votes)), self.allows)
        n_looked = np.sum([each.looked for each in self.votes if len(each.starts)], axis=0)
        precisions, weights = [], np.ones(len(self.votes))
        for i, ((symbols, own), allow, table, votes) in enumerate(
            zip(self.said, self.allows, self.tables, self.votes, strict=True)
        ):
            at = np.flatnonzero((symbols > BESIDE) & (n_looked > 1))
            of_symbol = (symbols[at] - 2) // self.n_prefixes
            others = allowed[at] - own[at, None] * allow[symbols[at]]
            confirmed = (others * allow[symbols[at]]).sum(axis=1) > 1e-9
            coarse: Any = find_coarse(votes.means)
            n, n_confirmed = (
                coarse * np.bincount(of_symbol, x, len(coarse)) for x in (None, confirmed)
            )
            precisions.append(self.find_precisions(i, n, n_confirmed))
            share = np.where(coarse, self.compare_prior(precisions[-1]), 1)
            weights[i] = share[of_symbol].mean() if len(at) else 1.0
            counts = np.where(coarse, precisions[-1], 1).repeat(self.n_prefixes)
            table[2:] *= counts[:, None]
            table[2:, 0] = 1 - counts
        return precisions, weights

    def compare(self, weights: Floats) -> Floats:
        """Return the sums of votes by tag (N, T), where sources that others confirm count for more.

        The share of an entity stays. Such sources decide its label and boundaries. weights: (S,).
        """
        sums = self.add_votes(weights)
        allowed = self.add_votes(weights, self.allows)
        trusted = []
        for weight, (symbols, own), table, allow, votes in zip(
            weights, self.said, self.tables, self.allows, self.votes, strict=True
        ):
            says = np.flatnonzero(symbols > BESIDE)
            row, of_symbol = symbols[says], (symbols[says] - 2) // self.n_prefixes
            mine = weight * own[says, None]
            size = (sums[says] - mine * table[row])[:, 1:].sum(axis=1)
            judged = size > 1e-9
            confirm = ((allowed[says] - mine * allow[row]) * allow[row]).sum(axis=1)
            agree = np.minimum(confirm[judged] / size[judged], 1)
            n_agree, n = (
                np.bincount(of_symbol[judged], x, len(votes.means)) for x in (agree, None)
            )
            trusted.append(
                weight * ((n_agree + self.priors.precision) / (n + 1)) ** self.priors.trust
            )
        among = _normalize(self.add_votes(trusted)[:, 1:])
        sums[:, 1:] = sums[:, 1:].sum(axis=1, keepdims=True) * among
        return sums

    def average(self, sums: Floats) -> Floats:
        """Return the tags (N, T): known ones, else the mean of the voters."""
        sums[~sums[:, 1:].any(axis=1), 0] = 1
        sums[self.is_known] = self.known[self.is_known, None] == np.arange(self.n_tags)
        return _normalize(sums)

    def count(self, mean: Floats) -> list[Floats]:
        """Return the counts of the votes of each source (T, 2 + K P), by true tag."""
        importance = np.where(self.is_known, self.priors.known, 1.0)
        counts: list[Floats] = []
        for (symbols, weights), votes in zip(self.said, self.votes, strict=True):
            n_symbols = 2 + len(votes.means) * self.n_prefixes
            looked = symbols > NOT_LOOKED
            own = importance[looked] * weights[looked]
            of_tags = [
                np.bincount(symbols[looked], column[looked] * own, n_symbols) for column in mean.T
            ]
            counts.append(np.array(of_tags))
        return counts

    def emit(self, counts: Floats, votes: Votes, precisions: Floats) -> Floats:
        """Return the log-probabilities of the votes of a source (T, 2 + K P), by true tag."""
        n_labels, n_prefixes, priors = self.n_labels, self.n_prefixes, self.priors
        k = len(votes.means)
        spans = counts[:, 2:].sum(axis=0).reshape(k, n_prefixes)
        by_prefix = counts[1:].reshape(n_labels, n_prefixes, -1)
        means = votes.means.T[:, None, :, None]
        by_tag = by_prefix[..., 2:].reshape(n_labels, n_prefixes, k, n_prefixes)
        right = np.where(means, by_tag, 0).sum(axis=2)
        wrong = np.where(means, 0, by_tag).sum(axis=(2, 3))
        # Its vote on a token, given that it is not silent: beside, the prefixes, wrong.
        habits = np.concatenate([by_prefix[..., [BESIDE]], right, wrong[..., None]], axis=2)
        prior = np.full((n_prefixes, n_prefixes + 2), priors.wrong / (n_prefixes + 1))
        prior[np.arange(n_prefixes), np.arange(n_prefixes) + 1] += priors.right
        habits = _normalize(habits + priors.shared * _normalize(habits.sum(axis=0) + prior))
        said_any, n = by_prefix[..., BESIDE:].sum(axis=2), by_prefix.sum(axis=2)
        of_label = (said_any.sum(axis=1) + 0.5) / (n.sum(axis=1) + 1)
        shared = 2.5 * priors.shared
        coverage = (said_any + shared * of_label[:, None]) / (n + shared)
        found = np.zeros((n_labels, n_prefixes, k, n_prefixes))
        for is_right, mass in ((True, habits[..., 1:-1]), (False, habits[..., -1:])):
            chosen = np.where(is_right == votes.means.T, (spans + 0.1).sum(axis=1), 0)
            found += _normalize(chosen)[:, None, :, None] * mass[:, :, None]
        # The coverage counts all spans as right: the odds of a false one make up for it.
        odds = (1 / precisions - 1)[:, None]
        n_o = counts[0].sum().clip(min=1)
        false = (_normalize(spans + 0.1) * (spans.sum(axis=1, keepdims=True) + 0.5) * odds) / n_o
        table = np.empty((self.n_tags, counts.shape[1]))
        exponent = 1.0 if votes.denies else priors.silence
        table[1:, SILENT] = (1 - coverage).ravel() ** exponent
        table[1:, BESIDE] = (coverage * habits[..., 0]).ravel()
        table[1:, 2:] = (coverage[..., None, None] * found).reshape(self.n_tags - 1, -1)
        table[0, BESIDE] = max(counts[0, BESIDE], 1) / n_o
        table[0, 2:] = false.ravel()
        # Where its spans are decides which tokens are beside them.
        table[0, SILENT] = (1 - min(false.sum(), 0.5)) ** exponent
        return _log(table)

    def find_precisions(self, i: int, n: Floats, right: Floats) -> Floats:
        """Return the precision of each symbol (K,) of a source, see `Priors`.

        It says how many votes fall on O; `emit` counts other labels and boundaries by their habits.
        n, right: tokens that tell it (K,), beside those with known tags.
        """
        symbols = self.said[i].symbols[self.is_known]
        says = symbols > BESIDE
        of_symbol = (symbols[says] - 2) // self.n_prefixes
        is_entity = self.known[self.is_known][says] > 0
        n, right = (
            told + np.bincount(of_symbol, x, len(n)) for told, x in ((n, None), (right, is_entity))
        )
        spans, precision = self.priors.spans, self.priors.precision
        return (right + spans * precision) / (n + spans)

    def compare_prior(self, precisions: Floats) -> Floats:
        """Return log-odds of precisions, divided by the prior's, limited to 0 to 1."""
        odds = precisions / (1 - precisions)
        prior = self.priors.precision / (1 - self.priors.precision)
        return (np.log(odds) / np.log(prior)).clip(0, 1)


def _normalize(counts: Floats) -> Floats:
    return counts / counts.sum(axis=-1, keepdims=True).clip(min=1e-300)


def _log(probabilities: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.log(probabilities)
