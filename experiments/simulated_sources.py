"""Merged votes of simulated sources: calibration, and F beside that of votes without a model.

python -m experiments.simulated_sources
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

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
N_DOCS, N_WORDS, RATE = 400, 20, 0.6
"""Documents, their words, and the share of the five places of a document that have an entity."""
N_SEEDS = 2
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
        found = measure(sources, n_deny)
        errors.append(found["error"])
        rows.append({"sources": name, **{key: round(x, 3) for key, x in found.items()}})
    notes = f"median error {np.median(errors):.3f}, largest {max(errors):.3f}"
    print_table(f"Merged votes of {N_DOCS} documents, mean of {N_SEEDS} seeds", rows, notes)


def measure(sources: list[tuple], n_deny: int) -> dict[str, float]:
    """Return the calibration error of the posteriors of all proposed spans, and F: of the result,
    of the spans with most votes, of the best source."""
    found = []
    for seed in range(N_SEEDS):
        spans, gold = simulate(np.random.default_rng(seed), sources, N_DOCS)
        docs = make_docs(spans)
        kept = [Source(str(i), read_groups(str(i)), denies=i < n_deny) for i in range(len(spans))]
        with TemporaryDirectory() as folder:
            aggregate(docs, kept, LABELS, Path(folder))
            (merged,) = [
                [(N_WORDS * i + e.start, N_WORDS * i + e.end, LABELS.index(e.label_))
                 for i, doc in enumerate(DocBin().from_disk(path).get_docs(docs[0].vocab))
                 for e in doc.ents]
                for path in Path(folder).glob("*.spacy")
            ]  # fmt: skip
            with np.load(Path(folder) / "000000.npz") as arrays:
                unary, moves = arrays["unary"].astype("float64"), arrays["transitions"]
        chain = Potentials(unary, moves, np.full(N_DOCS, N_WORDS, "int32"))
        proposed = np.array(sorted({span for own in spans for span in own}))
        right = np.array([tuple(span) in gold for span in proposed.tolist()])
        p = span_posteriors(chain, BILUO.span_tags(LABELS), *proposed.T)
        votes = [Votes.of(sorted(own), np.ones(len(unary), bool), np.eye(2)) for own in spans]
        found.append(
            {
                "error": calibration_error(p, right),
                "F": f_score(set(merged), gold),
                "most votes": f_score(take_plurality(votes), gold),
                "best source": max(f_score(set(own), gold) for own in spans),
            }
        )
    return {key: float(np.mean([one[key] for one in found])) for key in found[0]}


def calibration_error(p: NDArray, right: NDArray) -> float:
    """Return the mean distance of probabilities and frequencies in ten bins."""
    tenth = np.minimum((10 * p).astype(int), 9)
    gaps = np.abs(np.bincount(tenth, p, 10) - np.bincount(tenth, right, 10))
    return float(gaps.sum() / len(p))


def f_score(found: set[tuple], gold: set[tuple]) -> float:
    return 2 * len(found & gold) / (len(found) + len(gold))


def make_docs(spans: list[list[tuple]]) -> list[Doc]:
    """Return documents of different words with the spans of each source in a group."""
    vocab = Vocab()
    docs = [Doc(vocab, words=[f"w{i}x{j}" for j in range(N_WORDS)]) for i in range(N_DOCS)]
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
                false = RATE * coverage * (1 - precision) / precision / (1 - RATE)
                if is_entity and rng.random() < coverage:
                    moved = end if rng.random() < exact else end - 1 if size > 1 else end + 1
                    own.append((start, moved, label if rng.random() < right else 1 - label))
                elif not is_entity and rng.random() < false:
                    own.append((start, end, int(rng.integers(2))))
    return spans, gold


if __name__ == "__main__":
    main()
