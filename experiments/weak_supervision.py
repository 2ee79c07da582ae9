"""F of the merged votes of 17 rules on NCBI disease, by iterations and constants of the model.

    python -m experiments.weak_supervision --corpora DIR

DIR/chmm-ncbi/valid.json.xz has words, gold and votes, of the benchmark of Li et al. (2022),
github.com/Yinghao-Li/CHMM-ALT.
"""

from __future__ import annotations

import argparse
import json
import lzma
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from bcrf.chain import Constraints, viterbi
from bcrf.chain import annotators as model
from bcrf.schemes import BILUO
from lab.tables import Row, print_table

LABELS = ["Disease"]
CONSTRAINTS = Constraints(BILUO.transitions(LABELS), BILUO.starts(LABELS), BILUO.ends(LABELS))
TAGS = BILUO.span_tags(LABELS)
VARIANTS = {
    "SILENCE": (0.3, 0.6, 0.8, 1.0),
    "PRECISION": (0.7, 0.8, 0.9, 0.95),
    "SHARED": (5.0, 20.0, 80.0),
    "NEAR_COPY": (0.3, 0.5, 0.7, 2.0),
}

Span = tuple[int, int, int]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpora", type=Path, required=True)
    args = parser.parse_args()
    with lzma.open(args.corpora / "chmm-ncbi/valid.json.xz", "rt", encoding="utf8") as file:
        records = list(json.load(file).values())
    lengths = np.array([len(record["data"]["text"]) for record in records], "int32")
    gold = join([record["label"] for record in records], lengths)
    looked = np.ones(lengths.sum(), dtype=bool)
    votes = [
        model.Votes.of(sorted(join(spans, lengths)), looked, [[True]])
        for spans in zip(*(record["weak_labels"] for record in records), strict=True)
    ]

    def measure(n_iter: int = 20) -> str:
        fitted = model.fit_votes(votes, lengths, TAGS, CONSTRAINTS, n_iter=n_iter)
        tags, _ = viterbi(fitted.posterior(votes, lengths))
        found = set(zip(*(x.tolist() for x in BILUO.decode_ids(tags, lengths)), strict=True))
        return f"{200 * len(found & gold) / (len(found) + len(gold)):.1f}"

    rows: list[Row] = [{"model": f"{n} iterations", "F": measure(n)} for n in (1, 5, 20, 100)]
    for name, values in VARIANTS.items():
        for value in values:
            with patch.object(model, name, value):
                rows.append({"model": f"{name} = {value}", "F": measure()})
    print_table("Merged votes", rows, f"NCBI disease, {len(records)} validation documents")


def join(spans: Sequence[Sequence[tuple[int, int, str]]], lengths: NDArray) -> set[Span]:
    """Return the spans of documents as flat tokens and the number of the label."""
    firsts = (lengths.cumsum() - lengths).tolist()
    return {
        (first + start, first + end, 0)
        for first, of_document in zip(firsts, spans, strict=True)
        for start, end, _ in of_document
    }


if __name__ == "__main__":
    main()
