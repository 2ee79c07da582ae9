"""The result of `aggregate`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bcrf.chain.potentials import counted
from bcrf.chain.votes import PRIORS
from spacy_bcrf.result import Result

from .copies import MIN_SPANS
from .figures import TELLS, Figures, Share, estimate_share
from .judge import Judge

COARSE = 0.7
"""A source has a note if others confirm less than this share of its votes for alternatives."""
UNCONFIRMED = 0.5
"""A source has a note if less than this share of its spans is confirmed, and of that of others."""


class Baseline(NamedTuple):
    """Votes without a model. n: entities. same: the share of them in the result. f: on
    gold documents, None without."""

    name: str
    n: int
    same: float
    f: float | None


@dataclass(repr=False)
class Aggregated(Result):
    """What sources tell of documents.

    n_entities: number of entities in the best labelings, by label. figures: of each source, by
    label. weights: of each source, 1 for one that is nobody's copy; those of a group of copies sum
    to 1. agreement: (S, S), of the spans of a row's source, the share that the column's source has
    too. copies: pairs of copies, and the share of the smaller one's spans that overlap the other
    one's; pairs of near-copies, and their correlation.
    conflicts: places where sources differ, the most uncertain first. unsure: documents whose gold
    annotation would tell most. baselines: the result beside the votes without a model.
    n_reused: number of shards with votes of an earlier call.
    """

    n_docs: int
    n_entities: dict[str, int]
    figures: dict[str, list[Figures]]
    weights: dict[str, float]
    agreement: NDArray[np.float64]
    copies: list[tuple[str, str, float]]
    conflicts: list[dict[str, Any]]
    unsure: list[dict[str, Any]]
    notes: list[str]
    baselines: list[Baseline]
    n_reused: int = 0

    def __repr__(self) -> str:
        entities = counted(sum(self.n_entities.values()), "entity")
        return f"{entities} in {counted(self.n_docs, 'document')}"

    def rows(self) -> list[tuple[str, ...]]:
        rows = [
            (name, one.label, f"{one.precision.n:,.0f}", _show(one.precision), _show(one.recall))
            for name, of_source in self.figures.items()
            for one in of_source
            if one.precision.n
        ]
        return [("source", "label", "spans", "precision", "recall"), *rows]


def _show(share: Share) -> str:
    return "-" if share.value is None else f"{share.value:.3f}"


def summarize(
    judge: Judge, unmatched: Mapping[str, Mapping[bytes, str]], n_reused: int
) -> Aggregated:
    """Return the result of all shards. unmatched, n_reused: see `VoteShards`."""
    names, model = [source.name for source in judge.sources], judge.merger.model
    figures, n_proposers = {}, judge.proposed.sum(axis=0)
    # Only gold tells the recall of a source that alone proposes a label.
    is_told = np.stack((np.ones_like(n_proposers), n_proposers != 1)).astype(bool)
    for s, name in enumerate(names):
        values = np.stack((judge.sums, judge.guessed, judge.true))[:, :, s]
        figures[name] = [
            Figures(
                label,
                *(estimate_share(n, is_told[i, k], *values[:, i, k]) for i, n in enumerate(TELLS)),
            )
            for k, label in enumerate(judge.labels)
        ]
    n_spans = judge.sums[0, :, :, 0].sum(axis=1)
    groups, of_source = judge.merger.groups, judge.merger.of_source
    sizes = np.bincount(of_source)
    # Groups share the correlations of their merged votes.
    alike = model.correlations[np.ix_(of_source, of_source)]
    alike[:-1, :-1] = np.where(groups.agreement > 0, groups.agreement, alike[:-1, :-1])
    copies = [
        (names[a], names[b], float(alike[a, b]))
        for a in range(len(names))
        for b in range(a)
        if of_source[a] == of_source[b] or alike[a, b] >= PRIORS.near_copy
    ]
    notes = [
        f"{name}: {len(places):,} of its texts are no documents here, and left out, such as "
        f"{next(iter(places.values()))}"
        for name, places in unmatched.items()
        if places
    ]
    notes += _note_left_out(judge, n_spans)
    notes += [
        f"{', '.join(names[i] for i in sorted(group))} are copies: together they have one vote"
        for group in groups.members
        if len(group) > 1
    ]
    notes += [
        f"{a} and {b} are near-copies: they count for less"
        for a, b, _ in copies
        if of_source[names.index(a)] != of_source[names.index(b)]
    ]
    notes += _note_unconfirmed(names, judge)
    if judge.tells[:-1].sum() == 1:
        notes.append("only one source votes: nothing tells how precise it is")
    else:
        has_gold = judge.true[1, :, :, 0].any(axis=0)
        notes += [
            f"{judge.labels[k]}: only one source proposes it: nothing tells its recall, and little "
            "its precision"
            for k in np.flatnonzero((n_proposers == 1) & ~has_gold).tolist()
        ]
    notes += [
        f"{label}: no source proposes it"
        for label, n in zip(judge.labels, n_proposers, strict=True)
        if not n
    ]
    return Aggregated(
        judge.n_docs,
        dict(zip(judge.labels, judge.n_entities.tolist(), strict=True)),
        figures,
        dict(zip(names, (model.weights / sizes)[of_source].tolist(), strict=True)),
        judge.same / n_spans.clip(min=1)[:, None],
        copies,
        judge.conflicts,
        judge.unsure,
        notes,
        [
            Baseline(
                name,
                int(n),
                float(same / max(n, 1)),
                float(2 * right / (found + all_)) if all_ else None,
            )
            for name, (n, same, right, found, all_) in judge.baselines.items()
        ],
        n_reused,
    )


def _note_left_out(judge: Judge, n_spans: NDArray) -> list[str]:
    """Describe the sources without spans (n_spans: (S,)), and the spans that are left out."""
    notes = []
    for source, n, (n_overlaps, n_dropped) in zip(
        judge.sources, n_spans, judge.left_out, strict=False
    ):
        name = source.name
        if not n:
            notes.append(f"{name}: no span, it {'denies' if source.denies else 'abstains'}")
        if n_dropped:
            notes.append(f"{name}: its map drops {counted(n_dropped, 'span')}")
        if n_overlaps:
            notes.append(
                f"{name}: {n_overlaps:,} spans overlap another one of it; the one with the "
                "largest weight stays, then the longest"
            )
    return notes


def _note_unconfirmed(names: Sequence[str], judge: Judge) -> list[str]:
    """Return a note for each source that others hardly confirm, if they confirm each other."""
    n, confirmed = judge.confirmed.T
    shares = confirmed / n.clip(min=1)
    notes = []
    for i, name in enumerate(names[:-1] if judge.merger.places is None else ()):
        coarse = judge.merger.precisions(i)[judge.merger.is_coarse(i)]
        if (coarse < COARSE).any():
            notes.append(
                f"{name}: others confirm {100 * coarse.min():.0f}% of its votes for one of several "
                "labels; they count for less"
            )
    for i in np.flatnonzero((n >= MIN_SPANS) & (shares < UNCONFIRMED)).tolist():
        others = np.flatnonzero((n >= MIN_SPANS) & (np.arange(len(n)) != i))
        usual = float(np.median(shares[others])) if len(others) else 0.0
        if shares[i] < UNCONFIRMED * usual:
            notes.append(
                f"{names[i]}: {n[i]:,} spans, {100 * shares[i]:.0f}% confirmed where others looked "
                f"(other sources: {100 * usual:.0f}%); it is imprecise, or finds what others cannot"
            )
    return notes
