"""Merged votes of simulated sources: calibration, and F beside that of votes without a model.

python -m experiments.simulated_sources
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc, DocBin, Span
from spacy.vocab import Vocab

from bcrf.chain import Potentials, span_posteriors
from bcrf.chain.votes import Votes
from bcrf.schemes import BILUO
from lab.tables import Row, print_table
from spacy_bcrf.weak.aggregate import aggregate
from spacy_bcrf.weak.baselines import take_plurality
from spacy_bcrf.weak.sources import Source, read_groups

LABELS = ["A", "B"]
N_DOCS, N_MANY, N_WORDS, RATE = 400, 1600, 20, 0.6
"""Documents (many for calibration errors, which have noise of few spans), their words, and the
share of the five places of a document that have an entity."""
N_SEEDS = 2
N_RANDOM = 200
MIN_SPANS = 20
COPIES: dict[str, Callable[..., tuple | None]] = {
    "equal": lambda rng, a, b, k: (a, b, k),
    "abstain": lambda rng, a, b, k: (a, b, k) if rng.random() < 0.6 else None,
    "other ends": lambda rng, a, b, k: (a, b + int(rng.random() < 0.3), k),
    "other labels": lambda rng, a, b, k: (a, b, k if rng.random() < 0.7 else 1 - k),
}
"""Of 60% of the spans; with other ends, and with other labels, in 30%."""
GOOD, RULE, NOISY = (0.85, 0.9, 0.9, 0.9), (0.4, 0.8, 0.9, 0.9), (0.4, 0.6, 0.7, 0.7)
SETTINGS: dict[str, tuple[list[tuple], int]] = {
    "one rule": ([(0.6, 0.85, 1, 1)], 0),
    "two rules": ([(0.6, 0.9, 0.9, 0.9), (0.6, 0.8, 0.9, 0.9)], 0),
    "three exact rules": ([(0.5, precision, 1, 1) for precision in (0.95, 0.85, 0.7)], 0),
    "five rules": (
        [
            RULE,
            (0.3, 0.9, 0.9, 0.9),
            (0.5, 0.8, 0.9, 0.9),
            (0.3, 0.9, 0.95, 0.8),
            (0.2, 0.95, 1, 1),
        ],
        0,
    ),
    "three annotators": ([(0.9, 0.9, 0.95, 0.95), (0.9, 0.95, 0.9, 0.9), (0.8, 0.8, 0.9, 0.9)], 3),
    "five crowd workers": ([(0.8, 0.75, 0.8, 0.8)] * 5, 5),
    "two language models": ([(0.85, 0.8, 0.9, 0.85), (0.8, 0.85, 0.9, 0.9)], 2),
    "two language models, three rules": (
        [
            (0.85, 0.8, 0.9, 0.85),
            (0.8, 0.85, 0.9, 0.9),
            RULE,
            (0.3, 0.9, 0.95, 0.9),
            (0.2, 0.95, 1, 1),
        ],
        2,
    ),
    "one language model, three rules": (
        [(0.8, 0.8, 0.9, 0.85), (0.3, 0.9, 0.95, 0.9), RULE, (0.2, 0.95, 1, 1)],
        1,
    ),
    "a bad one beside two good ones": ([(0.7, 0.7, 0.6, 0.7), GOOD, GOOD], 3),
    "eight noisy ones": ([NOISY] * 8, 0),
    "eight noisy ones that deny": ([NOISY] * 8, 8),
    "wrong boundaries": ([(0.8, 0.9, 1, exact) for exact in (0.6, 0.7, 0.8)], 3),
}
"""Of each source: coverage, precision, share of right labels, of right ends; how many deny."""


def main() -> None:
    rows: list[Row] = []
    errors = []
    for name, (sources, n_deny) in SETTINGS.items():
        runs = [
            measure(*simulate(np.random.default_rng(seed), sources, N_MANY), n_deny, N_MANY)
            for seed in range(N_SEEDS)
        ]
        means = {key: float(np.mean([getattr(one, key) for one in runs])) for key in NAMES}
        errors.append(means["error"])
        rows.append({"sources": name} | {NAMES[key]: f"{x:.3f}" for key, x in means.items()})
    notes = f"median error {np.median(errors):.3f}, largest {max(errors):.3f}"
    print_table(f"Merged votes of {N_MANY} documents, mean of {N_SEEDS} seeds", rows, notes)
    measure_random()
    measure_copies()


class Measured(NamedTuple):
    """error: of the posteriors of all proposed spans. noise: the same error, if spans were right
    as often as their posteriors say. f, plurality, best: F of the result, of the spans with most
    votes, and of the best source. precisions: by source and label with `MIN_SPANS` spans, the true
    precision, and the interval."""

    error: float
    noise: float
    f: float
    plurality: float
    best: float
    precisions: list[tuple[float, float, float]]


NAMES = {"error": "error", "noise": "noise", "f": "F", "plurality": "votes", "best": "best source"}


def measure_random() -> None:
    """Print the results of random settings, by the number of sources."""
    found: dict[str, list[Measured]] = {"2": [], "3": [], "4 to 8": []}
    for seed in range(N_RANDOM):
        rng = np.random.default_rng(1000 + seed)
        sources, n_deny = draw_sources(rng)
        key = str(len(sources)) if len(sources) < 4 else "4 to 8"
        found[key].append(measure(*simulate(rng, sources, N_DOCS), n_deny))
    rows: list[Row] = []
    for key, runs in {**found, "all": [one for each in found.values() for one in each]}.items():
        rows.append(
            {"sources": key, "settings": len(runs)}
            | {NAMES[k]: f"{np.mean([getattr(one, k) for one in runs]):.3f}" for k in NAMES}
            | {
                "below most votes by .005": sum(one.f < one.plurality - 0.005 for one in runs),
                "below the best source by .01": sum(one.f < one.best - 0.01 for one in runs),
            }
        )
    true, low, high = np.array([row for each in runs for row in each.precisions]).T
    inside = (low <= true) & (true <= high)
    by_tenth = np.bincount((10 * true).astype(int), inside), np.bincount((10 * true).astype(int))
    shares = [f"{x:.0f} of {n}" for x, n in zip(*by_tenth, strict=True) if n]
    notes = f"true precisions in their 95% intervals, from the lowest tenth on: {', '.join(shares)}"
    print_table(f"{N_RANDOM} random settings", rows, notes)


def measure_copies() -> None:
    """Print how copies of a source change F."""
    rows: list[Row] = []
    changes: dict[str, list[float]] = {kind: [] for kind in COPIES}
    for seed in range(N_RANDOM):
        rng = np.random.default_rng(2000 + seed)
        sources, n_deny = draw_sources(rng)
        spans, gold = simulate(rng, sources, N_DOCS)
        kind = list(COPIES)[seed % len(COPIES)]
        original = int(rng.integers(len(spans)))
        denies = [i < n_deny for i in range(len(spans))]
        n = 5 if seed % 8 < 4 else 10
        changed = [[COPIES[kind](rng, *span) for span in spans[original]] for _ in range(n)]
        copies = [sorted(filter(None, one)) for one in changed]
        alone = measure(spans, gold, n_deny)
        denies += [denies[original] and kind != "abstain"] * n
        changes[kind].append(measure([*spans, *copies], gold, denies).f - alone.f)
    for kind, of_kind in changes.items():
        rows.append(
            {
                "copies": kind,
                "settings": len(of_kind),
                "F changes by more than .01": sum(abs(x) > 0.01 for x in of_kind),
                "largest change": f"{max(of_kind, key=abs):+.3f}",
            }
        )
    print_table(f"5 or 10 copies of a source in {N_RANDOM} random settings", rows, "")


def draw_sources(rng: np.random.Generator) -> tuple[list[tuple], int]:
    """Return 2 to 8 random sources, and how many of them deny: none in half of the cases."""
    sources: list[tuple] = []
    n = int(rng.integers(2, 9))
    while len(sources) < n:
        one = (*rng.uniform([0.2, 0.3, 0.7, 0.6], [0.9, 0.97, 1, 1]).tolist(),)
        if false_rate(*one[:2]) <= 1:
            sources.append(one)
    return sources, 0 if rng.random() < 0.5 else int(rng.integers(1, n + 1))


def false_rate(coverage: float, precision: float) -> float:
    """Return the share of places without an entity where a source has a span."""
    return RATE * coverage * (1 - precision) / precision / (1 - RATE)


def measure(
    spans: list[list[tuple]], gold: set[tuple], denies: int | Sequence[bool], n_docs: int = N_DOCS
) -> Measured:
    """Merge the spans of sources. denies: whether each source denies, or how many of them do."""
    if isinstance(denies, int):
        denies = [i < denies for i in range(len(spans))]
    docs = make_docs(spans, n_docs)
    kept = [
        Source(str(i), read_groups(str(i)), denies=of_source) for i, of_source in enumerate(denies)
    ]
    with TemporaryDirectory() as folder:
        result = aggregate(docs, kept, LABELS, Path(folder), shard_size=n_docs)
        (path,) = Path(folder).glob("*.spacy")
        merged = {
            (N_WORDS * i + e.start, N_WORDS * i + e.end, LABELS.index(e.label_))
            for i, doc in enumerate(DocBin().from_disk(path).get_docs(docs[0].vocab))
            for e in doc.ents
        }
        with np.load(path.with_suffix(".npz")) as arrays:
            unary, moves = arrays["unary"].astype("float64"), arrays["transitions"]
    chain = Potentials(unary, moves, np.full(n_docs, N_WORDS, "int32"))
    proposed = np.array(sorted({span for own in spans for span in own}))
    right = np.array([tuple(span) in gold for span in proposed.tolist()])
    p = span_posteriors(chain, BILUO.span_tags(LABELS), *proposed.T)
    votes = [Votes.of(sorted(own), np.ones(len(unary), bool), np.eye(2)) for own in spans]
    precisions = []
    for i, own in enumerate(spans):
        for k, figures in enumerate(result.figures[str(i)]):
            of_label = [span in gold for span in own if span[2] == k]
            if len(of_label) >= MIN_SPANS:
                one = figures.precision
                precisions.append((float(np.mean(of_label)), one.low or 0.0, one.high or 1.0))
    return Measured(
        calibration_error(p, right),
        calibration_error(p, np.random.default_rng(0).random(len(p)) < p),
        f_score(merged, gold),
        f_score(take_plurality(votes), gold),
        max(f_score(set(own), gold) for own in spans),
        precisions,
    )


def calibration_error(p: NDArray, right: NDArray) -> float:
    """Return the mean distance of probabilities and frequencies in ten bins."""
    tenth = np.minimum((10 * p).astype(int), 9)
    gaps = np.abs(np.bincount(tenth, p, 10) - np.bincount(tenth, right, 10))
    return float(gaps.sum() / len(p))


def f_score(found: set[tuple], gold: set[tuple]) -> float:
    return 2 * len(found & gold) / (len(found) + len(gold))


def make_docs(spans: list[list[tuple]], n_docs: int) -> list[Doc]:
    """Return documents of different words with the spans of each source in a group."""
    vocab = Vocab()
    docs = [Doc(vocab, words=[f"w{i}x{j}" for j in range(N_WORDS)]) for i in range(n_docs)]
    for name, own in enumerate(spans):
        for doc in docs:
            doc.spans[str(name)] = []
        for start, end, k in own:
            doc, first = docs[start // N_WORDS], start - start % N_WORDS
            doc.spans[str(name)].append(Span(doc, start - first, end - first, LABELS[k]))
    return docs


def simulate(
    rng: np.random.Generator, sources: list[tuple], n_docs: int
) -> tuple[list[list[tuple]], set[tuple]]:
    """Return the spans (start, end, label) of each source, and gold."""
    spans: list[list[tuple]] = [[] for _ in sources]
    gold: set[tuple] = set()
    for first in range(0, n_docs * N_WORDS, N_WORDS):
        for at in (1, 5, 9, 13, 17):
            size = min(int(rng.integers(1, 4)), 19 - at)
            start, end = first + at, first + at + size
            is_entity, label = rng.random() < RATE, int(rng.integers(2))
            if is_entity:
                gold.add((start, end, label))
            for own, (coverage, precision, right, exact) in zip(spans, sources, strict=True):
                false = false_rate(coverage, precision)
                if is_entity and rng.random() < coverage:
                    moved = end if rng.random() < exact else end - 1 if size > 1 else end + 1
                    own.append((start, moved, label if rng.random() < right else 1 - label))
                elif not is_entity and rng.random() < false:
                    own.append((start, end, int(rng.integers(2))))
    return spans, gold


if __name__ == "__main__":
    main()
