"""Folds of training documents. A pipeline judges the fold that it did not learn."""

from collections.abc import Sequence
from pathlib import Path

from spacy.tokens import Doc

from spacy_bcrf.judging.folds import assign_folds
from spacy_bcrf.readers.doc_files import write_all


def write_folds(
    docs: Sequence[Doc],
    n_folds: int,
    output: Path,
    numbers: Sequence[int] | None = None,
    first: int = 0,
) -> list[list[Doc]]:
    """Write random folds of equal sizes as output/fold*.spacy, and return them.

    numbers: from 0, documents with equal ones share a fold. first: the number of the first fold.
    """
    numbers = range(len(docs)) if numbers is None else numbers
    folds = assign_folds(max(numbers) + 1, n_folds)[list(numbers)]
    by_fold = [[doc for doc, n in zip(docs, folds, strict=True) if n == i] for i in range(n_folds)]
    for i, of_fold in enumerate(by_fold):
        write_all(of_fold, output / f"fold{first + i}.spacy")
    return by_fold
