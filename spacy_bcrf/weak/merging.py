"""Models of the votes of sources, with the repeats of what they find as a further source."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bcrf.chain import CRF, Potentials, span_posteriors, viterbi
from bcrf.chain.place_model import PlaceModel, fit_places
from bcrf.chain.votes import PRIORS, VoteModel, Votes, find_coarse, fit_votes
from spacy_bcrf.annotation.arrays import UNKNOWN

from .baselines import Spans, take_plurality
from .copies import Groups, find_groups
from .repeats import Repeats
from .vote_shards import SCHEME, VoteShard, VoteShards, find_voted

MAX_FIT = 300_000
"""Number of tokens that the model is fitted on, about: of all documents, or of some by the hash of
their texts, so that the size of shards makes no difference."""


@dataclass
class Merger:
    """A model of the votes of the groups of sources, the repeats of what it finds, and a model of
    both. The repeats are the last source, and the last group.

    places: the model of independent sources, which decides if the groups are independent. best: the
    group with the largest expected F. by_votes: whether the spans with most votes are the entities.
    """

    groups: Groups
    of_sources: VoteModel
    places: PlaceModel | None
    repeats: Repeats
    labels: Sequence[str]
    model: VoteModel
    best: int = 0
    by_votes: bool = False

    @property
    def of_source(self) -> NDArray[np.int64]:
        """The group of each source, and of the repeats (S + 1,)."""
        return np.append(self.groups.of_source, len(self.groups.members))

    def precisions(self, source: int) -> NDArray[np.float64]:
        """Return the precision of spans that no vote confirms or denies, by symbol (K,)."""
        symbols = [*self.groups.symbols, np.arange(len(self.labels))]
        return self.model.precisions[self.of_source[source]][symbols[source]]

    def is_coarse(self, source: int) -> NDArray[np.bool_]:
        """Return which symbols of a source (K,) mean one of several labels."""
        means = self.groups.means[self.of_source[source]]
        return find_coarse(means[self.groups.symbols[source]])

    def posterior(self, votes: Sequence[Votes], lengths: NDArray[np.int32]) -> Potentials:
        """Return the chain of all labelings, given the votes of groups, with or without repeats."""
        without = len(votes) == len(self.groups.members)
        return (self.places or (self.of_sources if without else self.model)).posterior(
            votes, lengths
        )

    def decode(self, votes: Sequence[Votes], chain: Potentials) -> NDArray[np.int32]:
        """Return the best labelings (N,). chain: `posterior` of the votes."""
        if self.by_votes:
            return encode_spans(take_plurality(votes), len(chain.unary), len(self.labels))
        return viterbi(chain)[0] if self.places is None else self.places.decode(chain)

    def choose(self, votes: Sequence[Votes], lengths: NDArray[np.int32]) -> None:
        """Set `best`, and `by_votes` for two independent groups: no vote tells which is better."""
        chain, tags = self.posterior(votes, lengths), SCHEME.span_tags(self.labels)
        n_true = CRF().marginals(chain).unary[:, [*tags.first, *tags.single]].sum()
        expected = []
        for of_group in votes:
            found = take_plurality([of_group])
            at = np.array(sorted(found), dtype="int64").reshape(-1, 3).T
            right = span_posteriors(chain, tags, *at).sum()
            expected.append(float(2 * right / max(len(found) + n_true, 1)))
        self.best = int(np.argmax(expected))
        self.by_votes = self.places is not None and len(votes) == 2

    def find_voted(self, shard: VoteShard, merged: Sequence[Votes]) -> NDArray[np.bool_]:
        """Return a mask (N,) of the tokens with a vote that counts, or a known tag."""
        counts = [votes for votes, w in zip(merged, self.of_sources.weights, strict=True) if w]
        known: NDArray[np.bool_] = shard.tags != UNKNOWN
        return known | find_voted(counts) if counts else known

    def add_repeats(self, shard: VoteShard) -> tuple[list[Votes], list[Votes]]:
        """Return the votes of sources, and of groups, with the repeats as a further source."""
        merged = self.groups.merge(shard.votes)
        tags = self.decode(merged, self.posterior(merged, shard.lengths))
        voted = self.find_voted(shard, merged)
        found = self.repeats.find(shard.docs, find_spans(tags, shard.lengths), tags, voted)
        missed = np.zeros(len(tags), dtype=bool)
        for start, end, _ in found:
            missed[start:end] = True
        # That no source found it is no evidence against a repeat.
        repeats = Votes.of(found, np.ones_like(missed), np.eye(len(self.labels)))
        of_sources, of_groups = (
            [*(each._replace(looked=each.looked & ~missed) for each in votes), repeats]
            for votes in (shard.votes, merged)
        )
        return of_sources, of_groups


def find_spans(tags: NDArray[np.int32], lengths: NDArray[np.int32]) -> list[tuple[int, int, int]]:
    """Return the spans (first token, one past the last, number of the label) of tags (N,)."""
    columns = SCHEME.decode_ids(tags, lengths)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def encode_spans(spans: Spans, n_tokens: int, n_labels: int) -> NDArray[np.int32]:
    """Return the tags (N,) of spans, see `find_spans`."""
    tags, of = np.zeros(n_tokens, dtype="int32"), SCHEME.span_tags([""] * n_labels)
    for start, end, k in spans:
        tags[start:end] = of.inside[k]
        tags[start], tags[end - 1] = of.first[k], of.last[k]
        if end - start == 1:
            tags[start] = of.single[k]
    return tags


def fit_merger(shards: VoteShards, labels: Sequence[str]) -> Merger:
    """Fit the models on gold documents, and on about `MAX_FIT` tokens of the others.

    ValueError without any span.
    """
    parts = [*([] if shards.gold is None else [shards.gold]), *shards.sample(MAX_FIT)]
    lengths = np.concatenate([part.lengths for part in parts])
    if not any(len(of_source.starts) for part in parts for of_source in part.votes):
        names = ", ".join(source.name for source in shards.sources)
        n_dropped = sum(int(part.left_out[:, 1].sum()) for part in parts)
        raise ValueError(
            f"no source proposes a span in {len(lengths):,} documents ({names}); their maps drop "
            f"{n_dropped:,} spans; nothing can be learned"
        )
    known = np.concatenate([part.tags for part in parts])
    tags, constraints = SCHEME.span_tags(labels), SCHEME.constraints(labels)

    def join(by_part: Iterable[Sequence[Votes]]) -> list[Votes]:
        return [Votes.join(of_source) for of_source in zip(*by_part, strict=True)]

    def fit(votes: Sequence[Votes]) -> VoteModel:
        return fit_votes(votes, lengths, tags, constraints, known)

    groups = find_groups(join(part.votes for part in parts))
    merged = [groups.merge(part.votes) for part in parts]
    of_groups = join(merged)
    model = fit(of_groups)
    # Near-copies meet more often than independent sources, wherever they do.
    alike = model.correlations - np.eye(len(of_groups)) >= PRIORS.near_copy
    words = np.concatenate([doc.to_array("ORTH") for part in parts for doc in part.docs])
    # The chain judges votes for one of several labels: they are guesses, no draws.
    may_fit = not (alike.any() or any(one.has_coarse for one in of_groups))
    places = fit_places(of_groups, tags, constraints, known, words) if may_fit else None
    merger = Merger(groups, model, places, Repeats(), labels, model)
    merger.choose(of_groups, lengths)
    best = [
        merger.decode(votes, merger.posterior(votes, part.lengths))
        for part, votes in zip(parts, merged, strict=True)
    ]
    # Two passes: whether a phrase is an entity in most places does not depend on their order.
    for part, found in zip(parts, best, strict=True):
        merger.repeats.learn(part.docs, find_spans(found, part.lengths))
    for part, votes, found in zip(parts, merged, best, strict=True):
        merger.repeats.learn_misses(part.docs, found, merger.find_voted(part, votes))
    merger.model = fit(join(merger.add_repeats(part)[1] for part in parts))
    return merger
