"""Probabilities of spans, from sources that vote independently on the places of a text.

A place has an entity or none. Sources vote on it apart from each other, with a coverage and habits
of their own where there is an entity, and with a rate of false spans where there is none. This is
capture and recapture: how often sources meet tells their precision. `fit_places` returns no model
where sources meet in another way than it says.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .potentials import Constraints, Potentials, join_ranges
from .search import viterbi
from .span_posteriors import SpanTags
from .vote_places import SILENT, UNSEEN, Places, add_known, compress, count_repeats, find_places
from .votes import PRIORS, Floats, Ints, Votes


@dataclass(frozen=True)
class PlacePriors:
    """What the model of places believes before any vote. Simulations chose the values
    (`experiments.simulated_sources`).

    precisions: the mean precision of sources may be each of these; the model is their mixture.
    mean: parameters of the beta distribution of this precision: 0.8, as of good rules.
    spans: the number of votes that it counts for, at each source and each of its labels.
    finds: coverage of a source that denies, and the number of entities that it counts for.
    places: votes count as if there were this number of places: the model is only nearly right, so
    more places do not make it surer (Miller and Dunson 2019, "coarsening").
    habits: the share of right boundaries and of right labels, where nothing tells.
    start: the same, where estimation starts.
    misfit: how much more or less often sources meet than the model says, in deviations. From here
    on, they are not independent.
    least: smallest share of right spans of an independent source.
    """

    precisions: tuple[float, ...] = (0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
    mean: tuple[float, float] = (6.0, 1.5)
    spans: float = 10.0
    finds: tuple[float, float] = (0.9, 20.0)
    places: float = 150.0
    habits: float = 0.97
    start: float = 0.8
    misfit: float = 2.5
    least: float = 0.15


PLACE_PRIORS = PlacePriors()
N_STEPS = 40
"""Steps of expectation maximization."""
MAX_UNSEEN = 0.9, 0.95
"""Largest estimated share of the entities, and of the false places, without any vote."""


class _Shares(NamedTuple):
    """Posterior probabilities: an entity with a label at a row's bounds (R, L), and at bounds that
    nobody proposes (P, L); none, though it looks like one at a row's bounds (R,), and at others."""

    seen: Floats
    unseen: Floats
    none_seen: Floats
    none_unseen: Floats

    def sum(self, places: Places) -> tuple[Floats, Floats]:
        """Return the probabilities of an entity by label (P, L), and of none (P,)."""
        entity, none = self.unseen.copy(), self.none_unseen.copy()
        np.add.at(entity, places.place, self.seen)
        np.add.at(none, places.place, self.none_seen)
        return entity, none


@dataclass(frozen=True)
class _Parameters:
    """n_true: expected number of entities by label (L,), of them `n_hidden` without votes. n_false:
    of false places. coverage: (S, L). confusion: by source (L, K), a symbol given a label. exact:
    share of right bounds (S,), exact_false: the same of false places. n_bounds: number of wrong
    bounds that are as probable. false: by source (K,), symbols at false places. precisions: (S,).
    """

    n_true: Floats
    n_false: float
    n_hidden: float
    coverage: Floats
    confusion: list[Floats]
    exact: Floats
    exact_false: float
    n_bounds: float
    false: list[Floats]
    precisions: Floats


def _judge(one: _Parameters, places: Places) -> tuple[_Shares, float]:
    """Return posterior probabilities, and the log-likelihood of the votes."""
    n, n_sources = places.symbol.shape
    n_bounds = np.bincount(places.place, minlength=n)
    base, none = np.tile(_log(one.n_true), (n, 1)), np.full(n, _log(one.n_false))
    missed, missed_none = np.zeros(n), np.zeros(n)
    hit, hit_none = np.zeros(len(places.place)), np.zeros(len(places.place))
    for s in range(n_sources):
        symbols = places.symbol[:, s]
        silent, says = np.flatnonzero(symbols == SILENT), np.flatnonzero(symbols >= 0)
        covers, false = one.coverage[s], one.false[s]
        base[silent] += _log(1 - covers)
        none[silent] += _log(1 - false.sum())
        own, k = places.weight[says, s], symbols[says]
        found = (covers[:, None] * one.confusion[s]).T[k]
        base[says] += _log(own[:, None] * found + (1 - own[:, None]) * (1 - covers))
        none[says] += _log(own * false[k] + (1 - own) * (1 - false.sum()))
        for share, miss, gain in (
            (one.exact[s], missed, hit),
            (one.exact_false, missed_none, hit_none),
        ):
            wrong = np.log((1 - share) / one.n_bounds)
            miss[says] += wrong
            np.add.at(gain, places.row[says, s], np.log(share) - wrong)
    others = np.log(np.maximum(one.n_bounds + 1 - n_bounds, 1e-3))
    may_seen, may_unseen, may_none = places.known
    of = places.place
    scores = [
        np.where(may_seen, base[of] + (missed[of] + hit)[:, None], -np.inf),
        np.where(may_unseen, base + (missed + others)[:, None], -np.inf),
        np.where(may_none[of], none[of] + missed_none[of] + hit_none, -np.inf),
        np.where(may_none, none + missed_none + others, -np.inf),
    ]
    top = np.maximum(scores[1].max(axis=1), scores[3])
    np.maximum.at(top, of, np.maximum(scores[0].max(axis=1), scores[2]))
    seen, unseen, none_seen, none_unseen = (
        np.exp(score - (top[of] if i % 2 == 0 else top)[(...,) + (None,) * (score.ndim - 1)])
        for i, score in enumerate(scores)
    )
    total = unseen.sum(axis=1) + none_unseen
    np.add.at(total, of, seen.sum(axis=1) + none_seen)
    loglik = places.n_equal @ (top + np.log(total) - np.log(one.n_bounds + 1))
    shares = _Shares(
        seen / total[of][:, None],
        unseen / total[:, None],
        none_seen / total[of],
        none_unseen / total,
    )
    return shares, float(loglik - (one.n_true.sum() + one.n_false - one.n_hidden))


class _Fit:
    """Expectation maximization for one mean precision of the sources."""

    def __init__(self, votes: Sequence[Votes], places: Places, priors: PlacePriors) -> None:
        self.votes, self.places, self.priors = votes, places, priors
        self.looked = places.symbol > UNSEEN
        self.n_places = float(places.n_equal.sum())
        self.coarse = max(self.n_places / priors.places, 1.0)
        self.n = [
            np.bincount(column[column >= 0], places.n_equal[column >= 0], len(v.means)).astype(
                "float64"
            )
            for column, v in zip(places.symbol.T, votes, strict=True)
        ]
        self.is_proposed = places.voted.any(axis=0)
        # Known places have no hidden ones beside them.
        self.is_open = places.known[2] & places.known[1].all(axis=1)

    def run(self, mean: float) -> tuple[_Parameters, float]:
        """Return the parameters for a mean precision, and their log-probability."""
        one = self._start(mean)
        for _ in range(N_STEPS):
            one = self._maximize(one, _judge(one, self.places)[0], mean)
        loglik = _judge(one, self.places)[1]
        a, b = self.priors.mean
        prior = (a - 1) * np.log(mean) + (b - 1) * np.log(1 - mean)
        return one, float(loglik / self.coarse + prior)

    def _start(self, mean: float) -> _Parameters:
        n_labels = self.places.voted.shape[1]
        n_true, n_false = max(mean * self.n_places, 1.0), max((1 - mean) * self.n_places, 1.0)
        # One source alone never moves from where it starts.
        habits = self.priors.start if len(self.votes) > 1 else self.priors.habits
        coverage, confusion, false = [], [], []
        for v, n in zip(self.votes, self.n, strict=True):
            shares = v.means / v.means.sum(axis=1, keepdims=True).clip(min=1)
            coverage.append((mean * n @ shares * n_labels / n_true).clip(0.01, 0.9))
            spread: Floats = np.where(v.means.T, habits, 1 - habits) * n
            confusion.append(self._confuse(1e4 * spread, v, n))
            false.append(_limit((n + 0.1) * (1 - mean) / n_false, 0.8))
        ones = np.ones(len(self.votes))
        return _Parameters(
            np.where(self.is_proposed, n_true / n_labels, 1e-9), n_false, 0.0,
            np.array(coverage), confusion,
            habits * ones, self.priors.start, 2.0, false, mean * ones,
        )  # fmt: skip

    def _maximize(self, one: _Parameters, shares: _Shares, mean: float) -> _Parameters:
        places, priors, count = self.places, self.priors, self.places.n_equal
        entity, none = shares.sum(places)
        missed = np.exp(self.looked @ np.log(1 - one.coverage)).clip(max=MAX_UNSEEN[0])
        silent = np.array([1 - false.sum() for false in one.false])
        missed_none = np.exp(self.looked @ np.log(silent)).clip(max=MAX_UNSEEN[1])
        entity, none = entity * count[:, None], none * count
        whole = np.where(self.is_open[:, None], entity / (1 - missed), entity)
        whole_none = np.where(self.is_open, none / (1 - missed_none), none)
        n_extra = 0.01 * self.n_places + 1
        weight = priors.spans * self.coarse
        n_votes = np.array([n.sum() for n in self.n])
        n_right = np.array([entity[symbols >= 0].sum() for symbols in places.symbol.T])
        precisions = (n_right + weight * mean) / (n_votes + weight)
        # The prior of precisions moves the entities and false places as well as the votes.
        # Otherwise each step would make sources cover more, and entities fewer.
        whole *= (precisions * n_votes).sum() / n_right.sum().clip(min=1e-9)
        n_false = n_votes - n_right
        whole_none *= ((1 - precisions) * n_votes).sum() / n_false.sum().clip(min=1e-9)
        coverage, confusion, false = [], [], []
        n_exact, n_voted = np.zeros((2, len(self.votes)))
        exact_false = np.zeros(2)
        is_shared = (places.symbol >= 0).sum(axis=1) > 1
        for s, (v, n) in enumerate(zip(self.votes, self.n, strict=True)):
            says = np.flatnonzero(places.symbol[:, s] >= 0)
            k, n_symbols = places.symbol[says, s], len(v.means)
            right = np.bincount(k, entity[says].sum(axis=1), n_symbols)
            precision = (right + weight * precisions[s]) / (n + weight)
            ratio = np.where(n > 0, precision * n / right.clip(min=1e-9), 1)
            counts = np.array([np.bincount(k, column, n_symbols) for column in entity[says].T])
            counts = counts * ratio
            looked = self.looked[:, s]
            n_true, proposed = whole[looked].sum(axis=0), v.means[n > 0].any(axis=0)
            found = counts.sum(axis=1)
            share, n_finds = priors.finds[0], priors.finds[1] * v.denies
            usual = found[proposed].sum() + n_finds * share
            usual /= (n_true[proposed].sum() + n_finds).clip(min=1)
            alike = priors.spans * self.coarse * proposed
            covers = (found + 0.1 + alike * usual) / (n_true + 1 + alike)
            coverage.append(covers.clip(0.001, 0.98))
            confusion.append(self._confuse(counts, v, n))
            n_none = whole_none[looked].sum() + n_extra
            false.append(_limit((n * (1 - precision) + 0.02) / n_none, 0.9))
            rows = places.row[says, s]
            n_exact[s] = (shares.seen[rows].sum(axis=1) * count[says]).sum()
            n_voted[s] = entity[says].sum()
            both = is_shared[says]
            exact_false += (
                (shares.none_seen[rows] * count[says])[both].sum(),
                none[says][both].sum(),
            )
        usual = (n_exact.sum() + 10 * priors.habits) / (n_voted.sum() + 10)
        exact = (n_exact + 20 * usual) / (n_voted + 20)
        return _Parameters(
            np.where(self.is_proposed, whole.sum(axis=0) + 0.5, 1e-9),
            float(whole_none.sum() + n_extra),
            float((whole - entity).sum() + (whole_none - none).sum()),
            np.array(coverage),
            confusion,
            exact.clip(0.05, 0.99),
            float(((exact_false[0] + 8) / (exact_false[1] + 10)).clip(0.05, 0.99)),
            self._count_bounds(shares),
            false,
            precisions,
        )

    def _confuse(self, counts: Floats, votes: Votes, n: Floats) -> Floats:
        """Return the probability of each symbol given the label of an entity (L, K)."""
        means = votes.means.T
        right, wrong = (_normalize(np.where(mask, n + 0.1, 0)) for mask in (means, ~means))
        n_right, n_all = (counts * means).sum(axis=1), counts.sum(axis=1)
        usual = (n_right.sum() + 10 * self.priors.habits) / (n_all.sum() + 10)
        share = ((n_right + 20 * usual) / (n_all + 20))[:, None]
        expected = _normalize(share * right + (1 - share) * wrong + 1e-6)
        return (counts + 20 * expected) / (n_all[:, None] + 20)

    def _count_bounds(self, shares: _Shares) -> float:
        """Return how many wrong bounds are as probable: how seldom two wrong ones are equal."""
        places, n = self.places, len(self.places.n_equal)
        votes = np.bincount(places.row[places.row >= 0], minlength=len(places.place))
        equal = votes * (votes - 1) / 2
        n_votes, n_equal = (np.bincount(places.place, x, n) for x in (votes, equal))
        of = places.place
        seen, unseen = shares.seen.sum(axis=1) * places.n_equal[of], shares.unseen.sum(axis=1)
        unseen = unseen * places.n_equal
        rest = n_votes[of] - votes
        pairs = (seen * rest * (rest - 1) / 2).sum() + (unseen * n_votes * (n_votes - 1) / 2).sum()
        same = (seen * (n_equal[of] - equal)).sum() + (unseen * n_equal).sum()
        return max(float((pairs + 6) / (same + 3)), 1.0)

    def is_independent(self, one: _Parameters) -> bool:
        """Return whether sources meet about as often as the model says.

        Rules for different things never meet. The model takes some of them for wrong then.
        """
        says = (self.places.symbol >= 0).astype("float64")
        count = self.places.n_equal[:, None]
        met, right = says.T @ (says * count), _judge(one, self.places)[0].sum(self.places)[0]
        n_right = says.T @ (right.sum(axis=1) * count[:, 0])
        if (n_right < self.priors.least * met.diagonal()).any():
            return False
        rates = np.array([false.sum() for false in one.false])
        expected = (one.coverage * one.n_true) @ one.coverage.T + one.n_false * np.outer(
            rates, rates
        )
        # Sources that look at other places meet seldom.
        looked = self.looked.astype("float64")
        expected *= looked.T @ (looked * count) / self.n_places
        upper = np.triu_indices(len(met), 1)
        gaps = (met - expected)[upper] ** 2 / expected[upper].clip(min=1)
        return not len(gaps) or float(np.sqrt(gaps.mean())) < self.priors.misfit

    def has_lists(self, one: _Parameters, places: Places, words: NDArray[np.uint64]) -> bool:
        """Return whether a source votes for phrases, as a list or a rule does.

        Its votes at further places of a phrase are more than its coverage says: they are no draws.
        """
        n, shares = count_repeats(places, words)
        usual = one.coverage.max(axis=1)
        gaps = (shares - usual) * np.sqrt(n / (usual * (1 - usual)))
        return bool((gaps > self.priors.misfit).any())


@dataclass(frozen=True)
class PlaceModel:
    """A mixture of parameters with weights. threshold: of probability, from which an entity raises
    the expected F. constraints, tags: of the labels."""

    parameters: list[_Parameters]
    weights: Floats
    tags: SpanTags
    constraints: Constraints
    threshold: float = 0.5

    def probabilities(self, places: Places) -> Floats:
        """Return the probability of an entity with each label at each row's bounds (R, L)."""
        found = np.zeros(places.voted.shape)
        for weight, one in zip(self.weights, self.parameters, strict=True):
            found += weight * _judge(one, places)[0].seen
        return np.where(places.voted, found, 0)

    def posterior(self, votes: Sequence[Votes], lengths: NDArray[np.int32]) -> Potentials:
        """Return a chain of tags whose spans have the probabilities of the model.

        votes: votes of the sources of the model; spans of further ones, which meet no others, have
        the prior precision.
        """
        n = int(lengths.sum())
        unary = np.full((n, len(self.constraints.start)), -np.inf)
        unary[:, 0] = 0
        places = find_places(votes[: len(self.parameters[0].coverage)])
        p = self.probabilities(places)
        no_entity = (1 - np.bincount(places.place, p.sum(axis=1), len(places.n_equal))).clip(
            min=1e-4
        )
        rows, labels = np.nonzero(p > 1e-4)
        odds = np.log(p[rows, labels] / no_entity[places.place[rows]])
        self._add_spans(unary, places.starts[rows], places.ends[rows], labels, odds)
        for further in votes[len(self.parameters[0].coverage) :]:
            own = further.weights.clip(max=1) * PRIORS.precision
            k = further.means[further.symbols].argmax(axis=1)
            self._add_spans(unary, further.starts, further.ends, k, np.log(own / (1 - own)))
        with np.errstate(divide="ignore"):
            moves = np.log(self.constraints.transitions.astype("float64"))
        return Potentials(unary, moves, lengths)

    def decode(self, chain: Potentials) -> NDArray[np.int32]:
        """Return the tags (N,) with the largest expected F: entities from `threshold` on."""
        bonus = np.zeros(len(self.constraints.start))
        begins = np.union1d(self.tags.first, self.tags.single)
        bonus[begins] = np.log((1 - self.threshold) / self.threshold)
        tags: NDArray[np.int32] = viterbi(
            chain.with_scores(chain.unary + bonus, chain.transitions)
        )[0]
        return tags

    def _add_spans(
        self, unary: Floats, starts: Ints, ends: Ints, labels: Ints, odds: Floats
    ) -> None:
        """Add log-odds of spans. Spans with the same first or last token share its score."""
        one = ends - starts == 1
        unary[starts[one], self.tags.single[labels[one]]] = odds[one]
        starts, ends, labels, odds = (x[~one] for x in (starts, ends, labels, odds))
        n_labels = len(self.tags.first)
        begin = np.unique(starts * n_labels + labels, return_inverse=True)
        end = np.unique(ends * n_labels + labels, return_inverse=True)
        of_begin, of_end = begin[1].ravel(), end[1].ravel()
        at_begin, at_end = np.zeros(len(begin[0])), np.zeros(len(end[0]))
        # Exact unless two spans each share both a first and a last token with the same others.
        for _ in range(20):
            for at, of, other, of_other in (
                (at_begin, of_begin, at_end, of_end),
                (at_end, of_end, at_begin, of_begin),
            ):
                at[:] = np.bincount(of, odds - other[of_other], len(at)) / np.bincount(of)
        unary[starts, self.tags.first[labels]] = at_begin[of_begin]
        unary[ends - 1, self.tags.last[labels]] = at_end[of_end]
        inner = join_ranges(starts + 1, ends - starts - 2)
        unary[inner, np.repeat(self.tags.inside[labels], ends - starts - 2)] = 0


def fit_places(
    votes: Sequence[Votes],
    tags: SpanTags,
    constraints: Constraints,
    known: NDArray[np.int32] | None = None,
    words: NDArray[np.uint64] | None = None,
    priors: PlacePriors = PLACE_PRIORS,
) -> PlaceModel | None:
    """Estimate sources that are independent; None where they are not.

    votes, tags, constraints, known: see `fit_votes`. words: hashes of the tokens (N,), which tell
    whether sources vote for phrases instead of places. Each mean precision of `priors` has its own
    estimate; the weights of the mixture are their probabilities.
    """
    places = find_places(votes)
    if known is not None and (known >= 0).any():
        places = add_known(places, known, tags, PRIORS.known)
    fit = _Fit(votes, compress(places), priors)
    # One source alone has its prior precision, 0.85 with right label and bounds.
    found = [fit.run(mean) for mean in (priors.precisions if len(votes) > 1 else (0.9,))]
    scores = np.array([score for _, score in found])
    weights = np.exp(scores - scores.max())
    weights /= weights.sum()
    best = found[int(weights.argmax())][0]
    if not fit.is_independent(best) or (words is not None and fit.has_lists(best, places, words)):
        return None
    kept = np.flatnonzero(weights > 0.02)
    parameters, weights = [found[i][0] for i in kept], weights[kept] / weights[kept].sum()
    n_true = sum(w * one.n_true.sum() for w, one in zip(weights, parameters, strict=True))
    model = PlaceModel(parameters, weights, tags, constraints)
    p = model.probabilities(fit.places)
    return replace(model, threshold=_find_threshold(p, fit.places, float(n_true)))


def _find_threshold(p: Floats, places: Places, n_true: float) -> float:
    """Return half the largest expected F: a span that is as probable raises it (Lipton et al.
    2014)."""
    best = np.zeros(len(places.n_equal))
    np.maximum.at(best, places.place, p.max(axis=1))
    order = np.argsort(-best)
    count = places.n_equal[order]
    f = 2 * (best[order] * count).cumsum() / (count.cumsum() + n_true)
    return float((f.max() / 2).clip(0.05, 0.5))


def _limit(rates: Floats, largest: float) -> Floats:
    return rates / max(rates.sum() / largest, 1)


def _normalize(counts: Floats) -> Floats:
    total: Floats = counts / counts.sum(axis=-1, keepdims=True).clip(min=1e-9)
    return total


def _log(x: Floats | float) -> Floats:
    with np.errstate(divide="ignore"):
        return np.log(x)
