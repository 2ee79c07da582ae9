"""Counts of the features of a corpus, from which a sparse chain is initialized."""

import warnings
from collections.abc import Sequence
from typing import Any

from spacy.tokens import Doc
from spacy.util import minibatch

from .features import Features


class FeatureCounts:
    """Counts the features of documents, a batch at a time.

    n_docs: number of documents so far. A template of `frequency` keeps the documents: the table
    of frequencies comes first.
    """

    def __init__(self, features: Features, min_freq: int) -> None:
        """min_freq: least number of occurrences of a feature in the dictionary."""
        from bcrf.kernels.sparse import Dictionary

        self.n_docs = 0
        self._features, self._min_freq = features, min_freq
        self._dictionary: Any = Dictionary()
        self._missing = features.may_miss
        self._kept: list[Doc] = []

    def add(self, docs: Sequence[Doc]) -> None:
        self.n_docs += len(docs)
        if self._features.needs_frequencies:
            self._kept += docs
        else:
            self._count(docs)

    def _count(self, docs: Sequence[Doc]) -> None:
        for batch in minibatch(docs, 256):
            self._features.measure(batch[0].vocab)
            self._dictionary.count(self._features.keys(batch)[0])
            if self._min_freq > 1:
                self._missing = self._features.still_missing(self._missing, batch)

    def finish(self) -> Any:
        """Return the dictionary of the features. Warns of attributes without any value."""
        self._features.count_words(self._kept)
        self._count(self._kept)
        self._dictionary.keep(self._min_freq)
        missing = self._features.templates_of(self._missing) if self._min_freq > 1 else []
        if missing:
            warnings.warn(
                f"with min_freq = {self._min_freq} in the {self.n_docs} documents of the "
                f"initialization, there are no features for {', '.join(missing)}: the chain cannot "
                "learn from these templates. If another component sets the values in training "
                "(training.annotating_components), set min_freq = 1",
                stacklevel=3,
            )
        return self._dictionary
