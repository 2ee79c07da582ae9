"""Copies of a source have one vote, and confirm nothing; see audit 5, J1."""

import numpy as np
import pytest

from bcrf.chain.votes import Votes
from spacy_bcrf.weak.copies import find_groups

N = 4000


def make_source(rng, coverage, precision, n_labels=2):
    """Return spans of 1 or 2 tokens at every 5th token: entities are at even places."""
    spans = []
    for place in range(0, N, 5):
        is_entity = place % 10 == 0
        size, label = 1 + place // 10 % 2, place // 20 % n_labels
        if rng.random() < (coverage if is_entity else coverage * (1 - precision) / precision):
            if rng.random() < 0.2:
                size, label = 3 - size, (label + 1) % n_labels
            spans.append((place, place + size, label))
    return spans


def as_votes(spans, denies=False):
    return Votes.of(spans, np.ones(N, dtype=bool), np.eye(2), denies)


def change(rng, spans, how):
    if how == "abstains":
        return [span for span in spans if rng.random() < 0.6]
    if how == "shifts":
        return [(a, b + int(rng.random() < 0.3), k) for a, b, k in spans]
    if how == "renames":
        return [(a, b, 1) for a, b, _ in spans]
    return spans


@pytest.mark.parametrize("denies", [False, True])
@pytest.mark.parametrize("how", ["equals", "abstains", "shifts", "renames"])
@pytest.mark.parametrize("n", [1, 4, 10])
def test_a_group_of_copies_votes_as_its_original(how, n, denies):
    rng = np.random.default_rng(n)
    original = make_source(rng, 0.7, 0.7)
    others = [make_source(rng, 0.85, 0.9) for _ in range(3)]
    copies = [change(rng, original, how) for _ in range(n)]
    votes = [
        *(as_votes(spans, denies) for spans in (original, *others)),
        *(as_votes(spans, denies and how != "abstains") for spans in copies),
    ]
    groups = find_groups(votes)
    assert sorted(map(sorted, groups.members)) == [[0, *range(4, 4 + n)], [1], [2], [3]]
    merged = groups.merge(votes)[groups.of_source[0]]
    found = np.stack((merged.starts, merged.ends), axis=1).tolist()
    assert found == [[a, b] for a, b, _ in original] and merged.denies == denies
    assert (
        groups.means[groups.of_source[0]][merged.symbols].tolist()
        == np.eye(2)[[k for *_, k in original]].tolist()
    )


@pytest.mark.parametrize("seed", range(10))
def test_good_sources_are_no_copies(seed):
    rng = np.random.default_rng(seed)
    votes = [
        as_votes(make_source(rng, rng.uniform(0.3, 0.92), rng.uniform(0.6, 0.95))) for _ in range(6)
    ]
    assert max(map(len, find_groups(votes).members)) == 1


def test_equal_sources_alone_are_copies():
    spans = make_source(np.random.default_rng(0), 0.7, 0.7)
    assert find_groups([as_votes(spans), as_votes(spans)]).members == [[0, 1]]
    assert find_groups([as_votes(spans), as_votes(spans[:200])]).members == [[0], [1]]


def test_a_group_denies_only_where_a_source_that_denies_looked():
    """Once, wherever any of its sources looked."""
    spans = make_source(np.random.default_rng(0), 0.7, 0.7)
    looked = np.arange(N) < N // 2
    here = [span for span in spans if span[1] <= N // 2]
    votes = [Votes.of(here, looked, np.eye(2), True), as_votes(spans)]
    groups = find_groups(votes)
    assert groups.members in ([[0, 1]], [[1, 0]])
    (merged,) = groups.merge(votes)
    assert merged.denies and merged.looked.tolist() == looked.tolist()
    assert merged.starts.tolist() == [start for start, *_ in spans]
