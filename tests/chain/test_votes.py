"""True spans, and sources, from the votes of sources."""

from collections import Counter, defaultdict

import numpy as np
import pytest

from bcrf.chain import CRF, viterbi
from bcrf.chain.votes import Votes, fit_votes
from bcrf.schemes import BILUO

LABELS = ["A", "B"]
CONSTRAINTS = BILUO.constraints(LABELS)
TAGS = BILUO.span_tags(LABELS)
SOURCES = [(0.5, 0.95, 1.0), (0.4, 0.9, 1.0), (0.3, 0.95, 0.6), (0.3, 0.6, 1.0)]
"""Share of entities that a source finds, its share of right labels, and of right boundaries."""
N_WORDS = 20


def draw(n_docs=300, sources=SOURCES, seed=0):
    """Return true spans (start, end, label), lengths, and votes by source."""
    rng = np.random.default_rng(seed)
    true, found = [], [[] for _ in sources]
    for first in range(0, n_docs * N_WORDS, N_WORDS):
        for at in (2, 8, 14)[: rng.integers(0, 4)]:
            size, label = int(rng.integers(1, 5)), int(rng.integers(0, 2))
            true.append((first + at, first + at + size, label))
            for spans, (coverage, right, exact) in zip(found, sources, strict=True):
                if rng.random() < coverage:
                    own = label if rng.random() < right else 1 - label
                    end = at + size if rng.random() < exact else at + max(1, size - 1)
                    spans.append((first + at, first + end, own))
    looked = np.ones(n_docs * N_WORDS, bool)
    return (
        true,
        np.full(n_docs, N_WORDS, "int32"),
        [Votes.of(spans, looked, np.eye(2)) for spans in found],
    )


def merge(votes, lengths, known=None):
    model = fit_votes(votes, lengths, TAGS, CONSTRAINTS, known)
    tags, scores = viterbi(model.posterior(votes, lengths))
    assert np.isfinite(scores).all()
    return set(zip(*(x.tolist() for x in BILUO.decode_ids(tags, lengths)), strict=True))


def f_score(found, true):
    return 2 * len(found & set(true)) / (len(found) + len(true))


def encode(spans, n):
    tags = np.zeros(n, "int32")
    for start, end, label in spans:
        tags[start:end] = TAGS.inside[label]
        tags[start], tags[end - 1] = TAGS.first[label], TAGS.last[label]
        if end - start == 1:
            tags[start] = TAGS.single[label]
    return tags


def majority(votes):
    """Return the spans with most votes of those that start at the same token."""
    by_start = defaultdict(Counter)
    for of_source in votes:
        for span in zip(*(x.tolist() for x in of_source[:3]), strict=True):
            by_start[span[0]][span] += 1
    return {spans.most_common(1)[0][0] for spans in by_start.values()}


def test_silent_sources_abstain_and_the_merge_is_above_the_majority_of_voters():
    true, lengths, votes = draw()
    found = merge(votes, lengths)
    union = {start for of_source in votes for start in of_source.starts.tolist()}
    # Nearly all entities that somebody found are there, though most sources are silent on each.
    assert len(found) > 0.97 * len(union)
    assert f_score(found, true) > f_score(majority(votes), true) + 0.01


def test_an_entity_has_a_vote_on_each_of_its_tokens():
    """One source cuts the last token of each entity, and sometimes the other one is silent."""
    _, lengths, votes = draw(sources=[(0.8, 1.0, 1.0), (0.95, 1.0, 0.0)])
    spans = [span for v in votes for span in zip(v.starts.tolist(), v.ends.tolist(), strict=True)]
    voted = {i for start, end in spans for i in range(start, end)}
    assert all(voted.issuperset(range(start, end)) for start, end, _ in merge(votes, lengths))


def test_a_source_that_denies_removes_what_an_imprecise_one_invents():
    _, lengths, (source, *_) = draw(sources=[(0.9, 1.0, 1.0)])
    invented = [(10 + N_WORDS * i, 12 + N_WORDS * i, 0) for i in range(0, 300, 3)]
    free = [
        s
        for s in invented
        if not any(s[0] < e and b < s[1] for b, e in zip(*source[:2], strict=True))
    ]
    wrong = Votes.of(free, source.looked, np.eye(2))
    assert set(free) <= merge([source, wrong], lengths)
    _, _, sources = draw(sources=[(0.9, 1.0, 1.0)] * 3)
    denies = [each._replace(denies=True) for each in sources]
    assert len(merge([*denies, wrong], lengths) & set(free)) < len(free) / 2


def test_a_coarse_vote_is_an_alternative():
    spans = [(1 + 5 * i, 3 + 5 * i) for i in range(40)]
    lengths, looked = np.full(40, 5, "int32"), np.ones(200, bool)
    fine = Votes.of([(*span, i % 2) for i, span in enumerate(spans)], looked, np.eye(2))
    coarse = Votes.of([(*span, 2) for span in spans], looked, [[1, 0], [0, 1], [1, 1]])
    found = merge([coarse, coarse, fine], lengths)
    assert found == {(*span, i % 2) for i, span in enumerate(spans)}


def test_a_source_that_resolves_a_coarse_vote_is_confirmed():
    """Once, each vote for alternatives contradicted a half of it."""
    spans = [(1 + 5 * i, 2 + 5 * i) for i in range(40)]
    lengths, looked = np.full(40, 5, "int32"), np.ones(200, bool)
    coarse = Votes.of([(*span, 2) for span in spans], looked, [[1, 0], [0, 1], [1, 1]])
    fine = Votes.of([(*span, 1) for span in spans[::2]], looked, np.eye(2))
    model = fit_votes([coarse, fine], lengths, TAGS, CONSTRAINTS)
    p = CRF().marginals(model.posterior([coarse, fine], lengths)).unary
    assert p[[start for start, _ in spans[::2]], TAGS.single[1]].min() > 0.5


@pytest.mark.parametrize("denies", [False, True])
def test_an_imprecise_coarse_vote_changes_nothing(denies):
    """Once, a rule of precision 40% for one of two labels cost 10 F (newcomer 5, finding 4)."""
    true, lengths, votes = draw()
    votes = [votes[0]._replace(denies=denies), *votes[1:]]
    rng = np.random.default_rng(1)
    free = [a + i for a in range(0, len(votes[0].looked), N_WORDS) for i in (0, 7, 13)]
    rows = [(a, b, 2) for a, b, _ in true if rng.random() < 0.7] + [(a, a + 1, 2) for a in free]
    means = np.array([[1, 0], [0, 1], [1, 1]], bool)
    coarse = Votes.of(sorted(rows), votes[0].looked, means)
    fine = [v._replace(means=means) for v in votes]
    model = fit_votes([*fine, coarse], lengths, TAGS, CONSTRAINTS)
    assert model.precisions[-1][2] < 0.5 and model.weights[-1] == 0
    with_it, without = merge([*fine, coarse], lengths), merge(fine, lengths)
    assert f_score(with_it, true) > f_score(without, true) - 0.005
    # One that others confirm has its vote.
    good = Votes.of([(a, b, 2) for a, b, _ in true], votes[0].looked, means)
    assert fit_votes([*fine, good], lengths, TAGS, CONSTRAINTS).weights[-1] > 0.5


def test_coarse_votes_alone_that_nothing_confirms_are_no_entities():
    looked, lengths = np.ones(60, bool), np.array([60], "int32")
    votes = [
        Votes.of([(i, i + 1, 0) for i in range(first, 60, 4)], looked, [[True, True]])
        for first in (0, 2)
    ]
    assert not fit_votes(votes, lengths, TAGS, CONSTRAINTS).weights.any()
    assert merge(votes, lengths) == set()


def test_tokens_that_a_source_did_not_see_and_uncertain_votes():
    _, lengths, votes = draw(50)
    unseen = votes[0]._replace(looked=np.zeros_like(votes[0].looked))
    model = fit_votes(votes, lengths, TAGS, CONSTRAINTS)
    some, none = (
        votes[1:],
        [
            v._replace(
                starts=v.starts[:0],
                ends=v.ends[:0],
                symbols=v.symbols[:0],
                weights=v.weights[:0],
                looked=np.zeros_like(v.looked),
            )
            for v in votes
        ],
    )
    assert not viterbi(model.posterior(none, lengths))[0].any()
    doubtful = [v._replace(weights=np.full(len(v.starts), 0.3)) for v in votes]
    certain, less = (model.posterior(v, lengths) for v in (votes, doubtful))
    at = votes[0].starts
    assert (
        less.unary[at].max(axis=1) - less.unary[at, 0]
        < certain.unary[at].max(axis=1) - certain.unary[at, 0]
    ).mean() > 0.9
    assert len(merge([unseen, *some], lengths))


def test_gold_improves_the_estimate():
    true, lengths, votes = draw()
    wrong = Votes.of(
        [(18 + N_WORDS * i, 20 + N_WORDS * i, 0) for i in range(300)], votes[0].looked, np.eye(2)
    )
    n = int(lengths.sum())
    known = np.full(n, -1, "int32")
    known[: 50 * N_WORDS] = encode([s for s in true if s[1] <= 50 * N_WORDS], n)[: 50 * N_WORDS]
    assert (
        f_score(merge([*votes, wrong], lengths, known), true)
        > f_score(merge([*votes, wrong], lengths), true) + 0.1
    )


def test_no_votes():
    with pytest.raises(ValueError, match="a span of a source or more, got none"):
        fit_votes(
            [Votes.of([], np.ones(3, bool), np.eye(2))], np.array([3], "int32"), TAGS, CONSTRAINTS
        )


def test_copies_count_once():
    true, lengths, (good, *others) = draw(
        sources=[(0.7, 0.95, 1.0), (0.7, 0.95, 1.0), (0.7, 0.6, 1.0)]
    )
    bad = others[-1]
    model = fit_votes([good, others[0], bad, bad, bad], lengths, TAGS, CONSTRAINTS)
    assert model.weights[:2].tolist() == [1, 1]
    np.testing.assert_allclose(model.weights[2:], 1 / 3, atol=0.05)
    assert (model.correlations[2, 3:] > 0.8).all() and model.correlations[0, 1] < 0.2
    once = f_score(merge([good, others[0], bad], lengths), true)
    assert abs(f_score(merge([good, others[0], bad, bad, bad], lengths), true) - once) < 0.02


def test_a_span_of_one_near_copy_alone_stays():
    rng = np.random.default_rng(0)
    true, found = [], [[] for _ in range(4)]
    for start in range(2, 600 * N_WORDS, N_WORDS // 2):
        true.append((start, start + 2, 0))
        kind = rng.random()
        copies = range(3) if kind < 0.6 else [int(rng.integers(0, 3))] if kind < 0.75 else []
        others = [3] if not copies or rng.random() < 0.3 else []
        for i in (*copies, *others):
            found[i].append(true[-1])
    votes = [Votes.of(spans, np.ones(600 * N_WORDS, bool), np.eye(2)) for spans in found]
    lengths = np.full(600, N_WORDS, "int32")
    assert (fit_votes(votes, lengths, TAGS, CONSTRAINTS).weights[:3] < 0.5).all()
    assert f_score(merge(votes, lengths), true) > 0.99


def test_a_document_without_votes_has_no_entities():
    _, lengths, votes = draw(5)
    empty = [Votes.of([], np.ones(N_WORDS, bool), np.eye(2)) for _ in votes]
    model = fit_votes(votes, lengths, TAGS, CONSTRAINTS)
    tags, _ = viterbi(model.posterior(empty, np.array([N_WORDS], "int32")))
    assert not tags.any()


def test_a_document_says_nothing_of_another_one():
    _, lengths, votes = draw()
    model = fit_votes(votes, lengths, TAGS, CONSTRAINTS)

    def posterior(first, others, sizes):
        looked = np.ones(sum(sizes), bool)
        votes = [Votes.of(rows, looked, np.eye(2)) for rows in (first, *[others] * 3)]
        return model.posterior(votes, np.array(sizes, "int32")).unary

    # The first source has a span at the very first token, and none in the second document.
    both, last = posterior([(0, 2, 0)], [(7, 8, 1)], [4, 4]), posterior([], [(3, 4, 1)], [4])
    np.testing.assert_array_equal(both[4:], last)


def test_of_two_labels_the_one_that_other_sources_confirm_wins():
    at = np.arange(160) * N_WORDS
    towns, others, alone, both = np.split(at, [60, 120, 140])
    spans = [
        [(i, i + 1, label) for i in np.concatenate(places)]
        for label, places in ((0, (towns, both)), (0, (towns, others)), (1, (alone, both)))
    ]
    looked = np.ones(160 * N_WORDS, bool)
    votes = [Votes.of(of_source, looked, np.eye(2)) for of_source in spans]
    found = merge(votes, np.full(160, N_WORDS, "int32"))
    assert {(i, i + 1, 0) for i in both} <= found
    assert {(i, i + 1, 1) for i in alone} <= found
