"""Probabilities of spans from independent sources."""

import numpy as np
import pytest

from bcrf.chain import CRF, place_model, span_posteriors, viterbi
from bcrf.chain.place_model import fit_places
from bcrf.chain.vote_places import compress, find_places
from bcrf.chain.votes import Votes
from bcrf.schemes import BILUO
from experiments.simulated_sources import N_WORDS, SETTINGS, calibration_error, simulate

LABELS = ["A", "B"]
TAGS, CONSTRAINTS = BILUO.span_tags(LABELS), BILUO.constraints(LABELS)


def draw(sources, n_docs=200, seed=0, n_deny=0):
    spans, gold = simulate(np.random.default_rng(seed), sources, n_docs)
    looked, lengths = np.ones(n_docs * N_WORDS, bool), np.full(n_docs, N_WORDS, "int32")
    votes = [
        Votes.of(sorted(own), looked, np.eye(2), denies=i < n_deny) for i, own in enumerate(spans)
    ]
    return votes, lengths, gold


def proposed(votes):
    return np.array(sorted({row for v in votes for row in zip(*v[:3], strict=True)}))


@pytest.mark.parametrize(
    "name", ["two rules", "three annotators", "five crowd workers", "eight noisy ones"]
)
def test_probabilities_are_calibrated(name):
    """Once, the chain was too sure in all settings (audit 5, J3)."""
    votes, lengths, gold = draw(*SETTINGS[name][:1], n_docs=300, n_deny=SETTINGS[name][1])
    model = fit_places(votes, TAGS, CONSTRAINTS)
    spans = proposed(votes)
    p = span_posteriors(model.posterior(votes, lengths), TAGS, *spans.T)
    right = np.array([tuple(span) in gold for span in spans.tolist()])
    assert calibration_error(p, right) <= 0.05


def test_the_chain_has_the_probabilities_of_the_places():
    votes, lengths, _ = draw(SETTINGS["five rules"][0])
    model = fit_places(votes, TAGS, CONSTRAINTS)
    places = find_places(votes)
    p = model.probabilities(places)
    rows, labels = np.nonzero(p > 1e-3)
    chain = model.posterior(votes, lengths)
    found = span_posteriors(chain, TAGS, places.starts[rows], places.ends[rows], labels)
    gaps = np.abs(found - p[rows, labels])
    # Bounds that cross may share scores of tags.
    assert np.mean(gaps < 1e-3) > 0.95 and gaps.mean() < 0.005
    assert CRF().marginals(chain).unary.sum(axis=1) == pytest.approx(1)


def test_the_order_of_documents_makes_no_difference():
    votes, *_ = draw(SETTINGS["five rules"][0], 60)
    order = np.random.default_rng(1).permutation(60)
    moved = []
    for v in votes:
        doc = v.starts // N_WORDS
        shift = N_WORDS * (np.argsort(order)[doc] - doc)
        rows = np.column_stack([v.starts + shift, v.ends + shift, v.symbols])
        moved.append(Votes.of(rows[rows[:, 0].argsort()], v.looked, v.means))
    one, other = (fit_places(each, TAGS, CONSTRAINTS) for each in (votes, moved))
    assert one.threshold == other.threshold
    assert one.weights.tolist() == other.weights.tolist()


def test_rules_for_different_things_are_not_independent():
    """Capture and recapture takes the spans of a rule that never meets others for wrong."""
    votes, _, gold = draw(SETTINGS["three annotators"][0])
    apart = {k: sorted(s for s in gold if s[2] == k) for k in (0, 1)}
    rules = [Votes.of(apart[0], votes[0].looked, np.eye(2)) for _ in range(2)]
    rules.append(Votes.of(apart[1], votes[0].looked, np.eye(2)))
    one_label = [v._replace(symbols=0 * v.symbols) for v in rules]
    assert fit_places(one_label, TAGS, CONSTRAINTS) is None
    assert fit_places(votes, TAGS, CONSTRAINTS) is not None


def test_lists_of_phrases_are_not_independent():
    """Once, an entity that one of 16 lists has was taken for wrong: F 49.9, by votes 66.9."""
    rng = np.random.default_rng(0)
    phrases, looked = rng.integers(0, 200, 1000), np.ones(2000, bool)
    lists = [rng.random(200) < share for share in (0.2, 0.3, 0.4, 0.3)]
    votes = [
        Votes.of([(2 * i, 2 * i + 1, 0) for i in np.flatnonzero(own[phrases])], looked, np.eye(2))
        for own in lists
    ]
    same, other = np.arange(2000, dtype="uint64"), np.arange(2000, dtype="uint64")
    same[::2] = 5000 + phrases
    assert fit_places(votes, TAGS, CONSTRAINTS, words=other) is not None
    assert fit_places(votes, TAGS, CONSTRAINTS, words=same) is None
    # A pipeline that misses entities by chance votes for places of the same phrases.
    mask = [rng.random(1000) < 0.6 for _ in range(4)]
    drawn = [
        Votes.of([(2 * i, 2 * i + 1, 0) for i in np.flatnonzero(own)], looked, np.eye(2))
        for own in mask
    ]
    assert fit_places(drawn, TAGS, CONSTRAINTS, words=same) is not None


def test_more_steps_of_estimation_move_nothing(monkeypatch):
    """Once, sources covered more with each step, and entities were fewer."""
    votes, *_ = draw(SETTINGS["eight noisy ones"][0])
    counts = []
    for n_steps in (60, 400):
        monkeypatch.setattr(place_model, "N_STEPS", n_steps)
        fit = place_model._Fit(votes, compress(find_places(votes)), place_model.PLACE_PRIORS)
        counts.append(fit.run(0.6)[0].n_true.sum())
    assert counts[1] == pytest.approx(counts[0], rel=0.05)


def test_the_threshold_raises_expected_f():
    """Where most spans are wrong, entities of less than one half are worth it."""
    votes, lengths, gold = draw(SETTINGS["eight noisy ones"][0])
    model = fit_places(votes, TAGS, CONSTRAINTS)
    assert model.threshold < 0.35
    chain = model.posterior(votes, lengths)
    scores = []
    for tags in (model.decode(chain), viterbi(chain)[0]):
        found = set(zip(*(x.tolist() for x in BILUO.decode_ids(tags, lengths)), strict=True))
        scores.append(2 * len(found & gold) / (len(found) + len(gold)))
    assert scores[0] > scores[1] + 0.01


def test_known_tags_tell_precision():
    """Two sources of equal errors look right until gold tells."""
    votes, lengths, gold = draw([(0.8, 0.95, 1, 1)] * 2)
    wrong = [(20 * i + 15, 20 * i + 16, 0) for i in range(0, 200, 2)]
    votes = [
        Votes.of(
            sorted({*zip(*(x.tolist() for x in v[:3]), strict=True), *wrong}), v.looked, v.means
        )
        for v in votes
    ]
    known = np.full(int(lengths.sum()), -1, "int32")
    known[: 100 * N_WORDS] = 0
    for start, end, k in gold:
        if end <= 100 * N_WORDS:
            known[start:end] = TAGS.inside[k]
            known[start], known[end - 1] = TAGS.first[k], TAGS.last[k]
            if end - start == 1:
                known[start] = TAGS.single[k]
    at = np.array([s for s in wrong if s[0] >= 100 * N_WORDS]).T
    before, after = (
        span_posteriors(
            fit_places(votes, TAGS, CONSTRAINTS, tags).posterior(votes, lengths), TAGS, *at
        ).mean()
        for tags in (None, known)
    )
    assert after < before - 0.05
