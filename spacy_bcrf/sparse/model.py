"""A linear chain over the features of spaCy documents, and its file."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import srsly
from numpy.typing import NDArray
from spacy.tokens import Doc

from spacy_bcrf.annotation.arrays import doc_lengths
from spacy_bcrf.annotation.label_resize import extend_rows, extend_square
from spacy_bcrf.chain import Potentials

from .features import Features, Rows, to_rows
from .gazetteers import Gazetteers
from .learner import OnlineLearner, OnlineSettings

VERSION = 1


class SparseChain:
    """Templates, the dictionary of their features, and the weights, once `initialize` was called.

    min_freq: how often a feature has to occur in the documents that it is initialized with. With 1,
    features that turn up later in training are added: only then those of what components before it
    annotate.
    """

    def __init__(
        self,
        templates: Sequence[str],
        settings: OnlineSettings,
        min_freq: int = 1,
        gazetteers: Gazetteers | None = None,
    ) -> None:
        if min_freq < 1:
            raise ValueError(f"min_freq must be at least 1, got {min_freq}")
        self.features = Features(templates, gazetteers)
        self.settings = settings
        self.min_freq = min_freq
        self._dictionary: Any = None
        self._learner: OnlineLearner | None = None

    @property
    def is_ready(self) -> bool:
        return self._learner is not None

    @property
    def learner(self) -> OnlineLearner:
        if self._learner is None:
            # What a Thinc model raises for a missing parameter, and spaCy explains.
            raise KeyError("the linear chain has no weights: it is neither initialized nor loaded")
        return self._learner

    @property
    def dictionary(self) -> Any:
        return self._dictionary

    def initialize(self, docs: Sequence[Doc], n_tags: int) -> None:
        """Count the documents' features, and start with weights of 0. UserWarning naming templates
        that cannot have any."""
        from spacy_bcrf.kernels.sparse import Dictionary

        self.features.gazetteers.load()
        self._dictionary = Dictionary()
        for start in range(0, len(docs), 256):
            self._dictionary.count(self.features.keys(docs[start : start + 256])[0])
        self._dictionary.keep(self.min_freq)
        missing = self.features.find_missing(docs) if self.min_freq > 1 else []
        if missing:
            warnings.warn(
                f"features are counted for min_freq = {self.min_freq} in the {len(docs)} documents "
                f"of the initialization, which have no values for {', '.join(missing)}: nothing "
                "will be learned of these templates. Values that another component sets during "
                "training (training.annotating_components) need min_freq = 1",
                stacklevel=2,
            )
        self._learner = OnlineLearner(n_tags, len(self._dictionary), self.settings, len(docs))

    def rows(self, docs: Sequence[Doc], add: bool = False) -> Rows:
        """The features of N tokens, without unknown ones, or with new rows for those."""
        keys, starts, _ = self.features.keys(docs)
        return to_rows(self._dictionary.find(keys, add), starts)

    def potentials(self, docs: Sequence[Doc]) -> Potentials:
        """Potentials of the documents, without constraints."""
        return self.learner.potentials(self.rows(docs), doc_lengths(docs))

    def step(
        self, docs: Sequence[Doc], gold: NDArray, lattice: NDArray[np.bool_] | None = None
    ) -> float:
        """Make one online step a document and return the sum of the losses.

        gold, lattice, errors: see `OnlineLearner.step`. With min_freq = 1, new features get rows.
        """
        learner = self.learner
        rows = self.rows(docs, add=self.min_freq == 1)
        learner.resize(len(self._dictionary))
        return learner.step(rows, doc_lengths(docs), gold, lattice)

    def resize_tags(self, matching: NDArray[np.int64]) -> None:
        """Append tags that start from the mean weights of their matching old tags.

        matching: (new tags, K), see `annotation.label_resize`.
        """
        old = self.learner
        n_old, n_tags = old.n_tags, old.n_tags + len(matching)
        by_tag = extend_rows(np, old.weights[n_old:, :n_old].T, matching)
        self._learner = OnlineLearner(n_tags, old.n_features, self.settings, old.n_sequences)
        weights = np.zeros((n_tags + 3 + old.n_features, self._learner.stride), dtype="float32")
        weights[:n_tags, :n_tags] = extend_square(np, old.weights[:n_old, :n_old], matching)
        weights[n_tags:, :n_tags] = by_tag.T
        self._learner.weights = weights

    def to_bytes(self) -> bytes:
        """The weights of tags as float16, of which rows that are all zero are left out, and the
        keys they belong to; compressed. b"" before `initialize`."""
        if self._learner is None:
            return b""
        n_tags = self._learner.n_tags
        weights = self._learner.weights[:, :n_tags]
        general, features = weights[: n_tags + 3], weights[n_tags + 3 :]
        limit = float(np.finfo("float16").max)
        # Scores may all be divided by one number: 65504 is where float16 ends.
        scale = max(1.0, float(np.abs(features).max(initial=0)) / limit)
        # Rows by key, so that keys can be stored by their differences.
        used = np.flatnonzero(features.any(axis=1))
        keys = self._dictionary.keys[used]
        packed = (features[used] / scale).astype("float16")
        data = {
            "version": VERSION,
            "templates": self.features.texts,
            "gazetteers": self.features.gazetteers.phrases,
            "n_tags": n_tags,
            "n_sequences": self._learner.n_sequences,
            "scale": scale,
            "general": np.ascontiguousarray(general).tobytes(),
            "keys": keys.tobytes(),
            # Tag by tag: where one tag's weights are zero, so are mostly those of its neighbours.
            "features": zlib.compress(np.ascontiguousarray(packed.T).tobytes(), 1),
        }
        return srsly.msgpack_dumps(data)

    def from_bytes(self, data: bytes) -> SparseChain:
        """ValueError if the templates are not those of the config, or the version is another."""
        from spacy_bcrf.kernels.sparse import Dictionary

        if not data:
            return self
        msg = srsly.msgpack_loads(data)
        if msg["version"] != VERSION:
            raise ValueError(
                f"linear chain saved in format {msg['version']}; this version reads {VERSION}"
            )
        if msg["templates"] != self.features.texts:
            raise ValueError(
                f"the config has the templates {self.features.texts}, but what is loaded was "
                f"trained with {msg['templates']}"
            )
        self.features.gazetteers.restore(msg["gazetteers"])
        n_tags = msg["n_tags"]
        keys = np.frombuffer(msg["keys"], dtype="uint64")
        packed = np.frombuffer(zlib.decompress(msg["features"]), dtype="float16")
        self._dictionary = Dictionary()
        self._dictionary.keys = keys
        self._learner = OnlineLearner(n_tags, len(keys), self.settings, msg["n_sequences"])
        weights = np.zeros((n_tags + 3 + len(keys), self._learner.stride), dtype="float32")
        general = np.frombuffer(msg["general"], dtype="float32")
        weights[: n_tags + 3, :n_tags] = general.reshape(n_tags + 3, n_tags)
        by_tag, features = packed.reshape(n_tags, len(keys)), weights[n_tags + 3 :]
        # In parts that stay in the cache while they are turned over.
        for start in range(0, len(keys), 2048):
            features[start : start + 2048, :n_tags] = by_tag[:, start : start + 2048].T
        if msg["scale"] != 1:
            weights[n_tags + 3 :] *= msg["scale"]
        self._learner.weights = weights
        return self

    def __deepcopy__(self, memo: dict) -> SparseChain:
        restore, arguments = self.__reduce__()
        return restore(*arguments)

    def __reduce__(self) -> tuple:
        arguments = self.features.texts, self.settings, self.min_freq, self.features.gazetteers
        return _restore, (*arguments, self.to_bytes())


def _restore(
    templates: list[str],
    settings: OnlineSettings,
    min_freq: int,
    gazetteers: Gazetteers,
    data: bytes,
) -> SparseChain:
    return SparseChain(templates, settings, min_freq, gazetteers.copy()).from_bytes(data)
