"""Folds of training documents, each of which a pipeline that did not learn it judges."""

from collections.abc import Sequence
from pathlib import Path

from spacy.tokens import Doc

from spacy_bcrf.analysis.cross_fitting import assign_folds
from spacy_bcrf.corpora.doc_files import write_all


def write_folds(docs: Sequence[Doc], n_folds: int, output: Path) -> None:
    """Write random folds of equal sizes as output/fold*.spacy."""
    folds = assign_folds(len(docs), n_folds)
    for i in range(n_folds):
        of_fold = [doc for doc, fold in zip(docs, folds, strict=True) if fold == i]
        write_all(of_fold, output / f"fold{i}.spacy")
