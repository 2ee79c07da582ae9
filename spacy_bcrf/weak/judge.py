"""Figures of sources and documents from votes and model, shard by shard."""

from collections import defaultdict
from collections.abc import Sequence
from heapq import nlargest
from itertools import compress
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bcrf.chain import CRF, Potentials, entropy, span_posteriors
from bcrf.chain.votes import Votes
from spacy_bcrf.annotation.arrays import UNKNOWN

from .baselines import take_majority, take_plurality
from .copies import any_inside, compare_spans
from .merging import Merger, find_spans
from .sources import Source
from .vote_marginals import group_overlaps
from .vote_shards import SCHEME, VoteShard, find_voted

SILENT = 0.02
"""Weight of a token, for `distill`, by source that abstains there; of other tokens 1. Silence says
little: the chain finds entities that no source has. Chosen on the validation parts of four corpora.
"""
N_SHOWN = 50
"""Number of conflicts, and of documents to annotate, that a result lists."""


def _find_told(votes: Votes) -> NDArray[np.bool_]:
    """Return a mask (N,) of the tokens where a source has a span or denies one."""
    return find_voted([votes]) | (votes.denies & votes.looked)


class Judge:
    """Sums of what the sources and the model say, shard by shard."""

    def __init__(
        self,
        merger: Merger,
        sources: Sequence[Source],
        labels: Sequence[str],
        gold: VoteShard | None,
    ) -> None:
        self.merger, self.sources, self.labels = merger, sources, labels
        self.best_source = sources[merger.groups.members[merger.best][0]].name
        s, n_labels = len(sources), len(labels)
        self.n_docs, self.left_out = 0, np.zeros((s - 1, 2), dtype="int64")
        self.n_entities = np.zeros(n_labels, dtype="int64")
        # See `_count`: estimated on all documents, and estimated and true on gold documents.
        self.sums, self.guessed, self.true = np.zeros((3, 2, s, n_labels, 2))
        self.same = np.zeros((s, s))
        # By source, without repeats: spans where another group looked, and those that one overlaps.
        self.confirmed = np.zeros((s - 1, 2), dtype="int64")
        # By name: entities, those that the result has too, and by gold: right, found, all.
        self.baselines: dict[str, NDArray[np.int64]] = defaultdict(lambda: np.zeros(5, "int64"))
        # Which labels a group of copies proposes, and which sources tell something.
        self.proposed = np.zeros((len(merger.groups.members), n_labels), dtype=bool)
        self.tells = np.zeros(s, dtype=bool)
        self.conflicts: list[dict[str, Any]] = []
        self.unsure: list[dict[str, Any]] = []
        if gold is not None:
            (votes, merged), n_tags = merger.add_repeats(gold), 1 + 4 * n_labels
            chain = merger.posterior(merged, gold.lengths)
            self.guessed = self._count(votes, merged, chain)
            best, true = (
                set(find_spans(tags, gold.lengths))
                for tags in (merger.decode(merged, chain), gold.tags.clip(min=0))
            )
            self._count_baselines(gold.lengths, merged, best, true)
            is_known = gold.tags[:, None] == np.arange(n_tags)
            certain = np.where(is_known | (gold.tags == UNKNOWN)[:, None], 0.0, -np.inf)
            exact = chain.with_scores(certain, np.zeros((n_tags, n_tags)))
            self.true = self._count(votes, merged, exact, is_true=True)

    def add(self, shard: VoteShard) -> tuple[NDArray[np.float64], NDArray[np.int32], Potentials]:
        """Count a shard.

        RETURNS what `distill` should learn from tokens (N,), at most 1, the best labelings (N,),
        and the chain of all labelings.
        """
        votes, merged = self.merger.add_repeats(shard)
        chain = self.merger.posterior(merged, shard.lengths)
        tags = self.merger.decode(merged, chain)
        entities = find_spans(tags, shard.lengths)
        self.n_entities += np.bincount([k for *_, k in entities], minlength=len(self.labels))
        self.sums += self._count(votes, merged, chain)
        spans = list(map(self._name_spans, votes))
        self._count_baselines(shard.lengths, merged, set(entities))
        self._count_confirmed(votes, merged)
        self.same += [[compare_spans(a, b).equals.sum() for b in votes] for a in votes]
        self._find_unsure(shard, chain)
        self._find_conflicts(shard, chain, entities, spans)
        self.n_docs += len(shard.docs)
        self.left_out += shard.left_out
        told = np.array(list(map(_find_told, votes)))
        self.tells |= np.any(told, axis=1)
        for group, of_source in zip(self.merger.groups.of_source, votes, strict=False):
            self.proposed[group] |= of_source.means[of_source.symbols].any(axis=0)
        silent = SILENT * np.sum([of_source.looked for of_source in shard.votes], axis=0)
        return np.where(told.any(axis=0), 1.0, silent.clip(max=1)), tags, chain

    def _name_spans(self, votes: Votes) -> set[tuple[int, int, str]]:
        names = [" or ".join(compress(self.labels, row)) for row in votes.means.tolist()]
        return {(a, b, names[k]) for a, b, k in zip(*(x.tolist() for x in votes[:3]), strict=True)}

    def _count(
        self,
        votes: Sequence[Votes],
        merged: Sequence[Votes],
        chain: Potentials,
        is_true: bool = False,
    ) -> NDArray[np.float64]:
        """Return sums (2, S, L, 2), for precision and recall: of all and right ones.

        merged: the votes of groups. Of precision, these are the spans of a source. Another group
        judges a span if it votes on a token of it, or denies it. No vote tells whether another span
        is right: it counts with the prior precision of the source, unless the groups are
        independent. Of recall, these are the entities where the source looked.
        """
        span_tags = SCHEME.span_tags(self.labels)
        unary = CRF().marginals(chain).unary
        opened = unary[:, span_tags.first] + unary[:, span_tags.single]
        is_right = is_true or self.merger.places is not None
        says = list(map(_find_told, merged))
        n_say = np.sum(says, axis=0)
        sums = np.zeros((2, len(votes), len(self.labels), 2))
        for i, of_source in enumerate(votes):
            means = of_source.means[of_source.symbols]
            group = self.merger.of_source[i]
            others = np.append(0, (n_say > says[group]).cumsum())
            judged = others[of_source.starts] < others[of_source.ends]
            p = np.zeros(means.shape)
            for label in range(len(self.labels)):
                may = means[:, label]
                at = of_source.starts[may], of_source.ends[may], np.full(may.sum(), label)
                p[may, label] = span_posteriors(chain, span_tags, *at)
            # A vote for alternatives counts for the most probable one.
            best = (p + 1e-9 * means).argmax(axis=1)
            knows = judged | is_right
            right, prior = p.sum(axis=1), self.merger.precisions(i)[of_source.symbols]
            for k, x in enumerate((None, np.where(knows, right, prior))):
                sums[0, i, :, k] = np.bincount(best, x, len(self.labels))
            n_true = opened[of_source.looked].sum(axis=0)
            sums[1, i] = np.stack((n_true, np.bincount(best, right, len(self.labels))), 1)
        return sums

    def _count_confirmed(self, votes: Sequence[Votes], merged: Sequence[Votes]) -> None:
        looked = np.sum([each.looked for each in merged[:-1]], axis=0)
        has_span = list(map(find_voted, [[each] for each in merged[:-1]]))
        n_spans = np.sum(has_span, axis=0)
        for i, of_source in enumerate(votes[:-1]):
            group = self.merger.of_source[i]
            may = any_inside(looked > merged[group].looked, of_source)
            has = any_inside(n_spans > has_span[group], of_source)
            self.confirmed[i] += may.sum(), (may & has).sum()

    def _count_baselines(
        self,
        lengths: NDArray[np.int32],
        merged: Sequence[Votes],
        entities: set[tuple[int, int, int]],
        gold: set[tuple[int, int, int]] | None = None,
    ) -> None:
        """Count the entities of baselines, and which are in the result. gold: on gold documents."""
        merger = self.merger
        by_name = {
            "aggregate": entities,
            "most votes, by span": take_plurality(merged[:-1]),
            "most votes, by token": take_majority(merged[:-1], lengths, len(self.labels)),
            f"best source, {self.best_source}": take_plurality([merged[merger.best]]),
        }
        for name, found in by_name.items():
            counts = self.baselines[name]
            if gold is None:
                counts[:2] += len(found), len(found & entities)
            else:
                counts[2:] += len(found & gold), len(found), len(gold)

    def _find_unsure(self, shard: VoteShard, chain: Potentials) -> None:
        """Keep the most uncertain documents."""
        found = [
            {"document": self.n_docs + i, "entropy": nats, "text": shard.docs[i].text[:300]}
            for i, nats in nlargest(N_SHOWN, enumerate(entropy(chain).tolist()), itemgetter(1))
        ]
        self.unsure = nlargest(N_SHOWN, [*self.unsure, *found], itemgetter("entropy"))

    def _find_conflicts(
        self,
        shard: VoteShard,
        chain: Potentials,
        entities: Sequence[tuple[int, int, int]],
        spans: Sequence[set[tuple]],
    ) -> None:
        """Keep the most uncertain groups of overlapping spans that differ."""
        unary = CRF().marginals(chain).unary
        doubt = np.append(0, -(unary * np.log(unary.clip(min=1e-12))).sum(axis=1).cumsum())
        names = [source.name for source in self.sources]
        found = []
        for group in group_overlaps((*span, s) for s, of in enumerate(spans) for span in of):
            start, end = group[0][0], max(end for _, end, *_ in group)
            if len({vote[:3] for vote in group}) > 1:
                found.append((float(doubt[end] - doubt[start]), start, end, group))
        bounds = np.append(0, shard.lengths.cumsum())
        for nats, start, end, group in nlargest(N_SHOWN, found, itemgetter(0)):
            i = int(np.searchsorted(bounds, start, side="right")) - 1
            doc, first = shard.docs[i], int(bounds[i])
            around = doc[max(0, start - first - 12) : end - first + 12]
            votes = [(a, b, label, names[s]) for a, b, label, s in group]
            result = [
                (a, b, self.labels[k], "result") for a, b, k in entities if a < end and b > start
            ]
            shown = [
                {"source": name, "text": doc[a - first : b - first].text, "label": label}
                for a, b, label, name in [*votes, *result]
            ]
            self.conflicts.append(
                {"document": self.n_docs + i, "entropy": nats, "text": around.text, "votes": shown}
            )
        self.conflicts = nlargest(N_SHOWN, self.conflicts, itemgetter("entropy"))
