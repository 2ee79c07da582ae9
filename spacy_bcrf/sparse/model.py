"""A linear chain over the boolean features of spaCy documents, and its serialization."""

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.language import Language
from spacy.strings import hash_string  # type: ignore[attr-defined]
from spacy.tokens import Doc
from spacy.util import minibatch

from bcrf.chain import Constraints, Potentials
from bcrf.chain.label_resize import extend_chains, extend_rows, extend_square, outside_bias
from bcrf.chain.potentials import check_least
from bcrf.chain.side_by_side import split_chains
from bcrf.linear.learner import OnlineLearner, OnlineSettings
from bcrf.linear.model_bytes import SavedChain, fill_features, pack, unpack
from bcrf.linear.rows import Rows, known_rows
from bcrf.linear.templates import parse_template
from spacy_bcrf.annotation.arrays import DocBatch, doc_lengths
from spacy_bcrf.scores.foreign_tagger import ForeignTagger

from .doc_attributes import POOLED
from .feature_counts import FeatureCounts
from .features import SCORE, Features
from .gazetteers import Gazetteers
from .kept_rows import KeptRows
from .two_pass import TEMPLATES, FirstPass
from .word_tables import WordTables

START = "start"
"""Stands for the start of a sequence in the keys of pairs of tags."""


class SparseChain:
    """Templates, the dictionary from feature keys to rows of weights, and the learner.

    templates: see `bcrf.linear.templates`; TemplateError if one cannot be parsed. settings: of the
    learner. min_freq, gazetteers, feature_dropout, two_pass: see `LinearChain`. With a min_freq of
    1, the chain also adds the features that first occur in training, which templates over the
    annotation of an earlier component need. tables: clusters. taggers: foreign taggers, with
    templates of their scores at a token and its neighbours if `templates` has none. template_set:
    the name of the templates. A saved chain of the same name keeps its own: sets can change.

    n_chains: side by side, which `initialize` reads. full: whether saved weights are float32, not
    float16, and inference is in float64, as for an import. `dictionary` and `learner` exist after
    `initialize` or `from_bytes`.
    """

    dictionary: Any

    def __init__(
        self,
        templates: Sequence[str],
        settings: OnlineSettings,
        min_freq: int = 1,
        gazetteers: Gazetteers | None = None,
        tables: WordTables | None = None,
        *,
        template_set: str | None = None,
        feature_dropout: float = 0.0,
        two_pass: bool = False,
        taggers: Sequence[ForeignTagger] = (),
    ) -> None:
        check_least(1, min_freq=min_freq)
        if not 0 <= feature_dropout < 1:
            raise ValueError(
                f"feature_dropout must be at least 0 and less than 1, got {feature_dropout}"
            )
        self.taggers = list(taggers)
        for tagger in taggers:
            if not any(f"{SCORE}.{tagger.name}[" in text for text in templates):
                templates = [*templates, f"{SCORE}.{tagger.name}[-1..1]"]
        self.first: FirstPass | None = None
        if two_pass:
            own = [text for text in templates if not _is_pooled(text)]
            templates = templates if len(own) < len(templates) else [*templates, *TEMPLATES]
            gazetteers, tables = gazetteers or Gazetteers({}), tables or WordTables({})
            of_first = OnlineSettings("crf", l2=settings.l2)
            # Both chains read the same phrases and tables.
            options = own, of_first, min_freq, gazetteers, tables
            first = SparseChain(*options, template_set=template_set, taggers=taggers)
            self.first = FirstPass(first)
        self.features = Features(templates, gazetteers, tables, self.first, taggers)
        self.settings = settings
        self.min_freq = min_freq
        self.template_set = template_set
        self.feature_dropout = feature_dropout
        self.n_chains = 1
        self.full = False
        self._learner: OnlineLearner | None = None
        self._counts: FeatureCounts | None = None
        self._forget_rows()

    def _forget_rows(self) -> None:
        self._kept_rows = KeptRows()

    @property
    def is_ready(self) -> bool:
        return self._learner is not None

    @property
    def learner(self) -> OnlineLearner:
        """The weights and their online steps. Raises KeyError if there are none yet."""
        if self._learner is None:
            # Thinc raises KeyError for a missing parameter, and spaCy turns it into E109.
            raise KeyError("the linear chain has no weights: initialize or load it first")
        return self._learner

    def set_learner(self, learner: OnlineLearner | None) -> None:
        self._learner = learner

    def fit_first(self, docs: Sequence[Doc], gold: NDArray, tags: Sequence[str]) -> None:
        """Train the first chain of `two_pass`, after `initialize`. See `FirstPass.fit`."""
        assert self.first
        self.first.fit(docs, gold, tags, self.n_chains)
        self._forget_rows()
        pooled = [str(t) for t in self.features.templates if _is_pooled(str(t))]
        lexicons = self.features.gazetteers, self.features.tables
        features = Features(pooled, *lexicons, self.first, self.taggers)
        for batch in minibatch(docs, 256):
            self.dictionary.find(features.keys(batch, held_out=True)[0], True)
        self.learner.resize(len(self.dictionary))

    def start_counting(self, nlp: Language | None = None) -> Callable[[Sequence[Doc]], None]:
        """Forget all features, and read the files of gazetteers and word tables.

        nlp: see `Gazetteers.load`.
        RETURNS the function that counts the features of documents for `initialize`.
        """
        if self.first:
            self.first.reset()
        self.features.load(nlp)
        self._forget_rows()
        self._counts = FeatureCounts(self.features, self.min_freq)
        return self._counts.add

    def initialize(self, docs: Sequence[Doc], n_tags: int) -> None:
        """Set weights of counted features, or of documents, to 0. Warns of missing ones."""
        if self._counts is None:
            self.start_counting()(docs)
        counts, self._counts = self._counts, None
        assert counts is not None
        self.dictionary = counts.finish()
        self._learner = OnlineLearner(
            n_tags, len(self.dictionary), self.settings, counts.n_docs, self.n_chains
        )
        self._add_pairs()

    def _add_pairs(self) -> None:
        """Give a second-order chain a feature for each pair of tags."""
        if self.settings.order == 2:
            pairs = self._find_pairs(self.learner.n_tags)
            self.learner.resize(len(self.dictionary))
            self.learner.set_pairs(pairs)

    def _find_pairs(self, n_tags: int) -> NDArray[np.int32]:
        """Return the rows (T + 1, T) of pairs of tags, `[first, second]`; the last starts."""
        keys = np.array([_keys_after(first, n_tags) for first in (*range(n_tags), START)])
        return self.dictionary.find(keys.ravel(), True).reshape(keys.shape)

    def rows(self, docs: Sequence[Doc], add: bool = False, held_out: bool = False) -> Rows:
        """Look up the features of N tokens. add: rows for new ones. held_out: see `FirstPass`."""
        keys, starts = self.features.keys(docs, held_out=held_out)
        return known_rows(self.dictionary.find(keys, add), starts)

    def _training_rows(self, docs: Sequence[Doc]) -> Rows:
        """Look up the features of N tokens, add new ones if min_freq is 1, and keep their rows."""

        def look_up(docs: Sequence[Doc]) -> Rows:
            return self.rows(docs, add=self.min_freq == 1, held_out=True)

        if any(attribute.name != POOLED for attribute in self.features.listed):
            return look_up(docs)
        return self._kept_rows.find(docs, self.features.attributes, look_up)

    def potentials(self, docs: Sequence[Doc], constraints: Constraints | None = None) -> Potentials:
        """Compute the potentials. constraints: a second-order chain needs them, see `add_pairs`."""
        learner = self.learner
        weights, n_states = learner.weights, learner.n_states
        transitions = weights[:n_states, :n_states]
        unary = self.features.score(
            docs, self.dictionary, weights, learner.n_tags, learner.n_chains
        )
        if self.full:
            unary, transitions = unary.astype("float64"), transitions.astype("float64")
        lengths = docs.lengths if isinstance(docs, DocBatch) else doc_lengths(docs)
        potentials = split_chains(unary, transitions, lengths, learner.n_chains, np)
        potentials = potentials.constrain(constraints)
        return learner.add_pairs(potentials) if learner.settings.order == 2 else potentials

    def step(
        self,
        docs: Sequence[Doc],
        gold: NDArray,
        lattice: NDArray[np.bool_] | None = None,
        constraints: Constraints | None = None,
    ) -> float:
        """Make one online step a document, see `OnlineLearner.step`. RETURNS the loss."""
        learner, rows = self._prepare(docs)
        learner.constrain(constraints)
        return learner.step(self.drop_features(rows), doc_lengths(docs), gold, lattice)

    def begin_update(self, docs: Sequence[Doc]) -> tuple[Potentials, Callable[[Potentials], None]]:
        """Compute the potentials for a gradient step, and return the function that makes it.

        It takes their gradient, see `OnlineLearner.descend`. Kept features count 1 / (1 -
        feature_dropout) times in the potentials, but once in the gradient. ValueError: see there.
        """
        self.learner.check_descends()
        learner, rows = self._prepare(docs)
        lengths = doc_lengths(docs)
        rows = self.drop_features(rows)
        potentials = learner.current_potentials(rows, lengths)
        if self.feature_dropout:
            # Bias, start and end are always there.
            nothing = Rows(rows.rows[:0], np.zeros_like(rows.starts))
            general = learner.current_potentials(nothing, lengths).unary
            unary = general + (potentials.unary - general) / np.float32(1 - self.feature_dropout)
            potentials = potentials.with_scores(unary, potentials.transitions)
        return potentials, lambda gradient: learner.descend(rows, lengths, gradient)

    def drop_features(self, rows: Rows, rng: np.random.Generator | None = None) -> Rows:
        """Return the features without a random share. rng: None for NumPy's own generator."""
        if not self.feature_dropout:
            return rows
        draw = np.random.random if rng is None else rng.random
        dropped = draw(len(rows.rows)) < self.feature_dropout
        return known_rows(np.where(dropped, np.int32(-1), rows.rows), rows.starts)

    def _prepare(self, docs: Sequence[Doc]) -> tuple[OnlineLearner, Rows]:
        """Return the learner, with weights for new features, and the features of N tokens."""
        learner = self.learner
        rows = self._training_rows(docs)
        if len(self.dictionary) > learner.n_features:
            learner.resize(len(self.dictionary))
        return learner, rows

    def change_settings(self, settings: OnlineSettings) -> None:
        """Learn with other settings from now on, from the present weights: averages restart."""
        self.settings = settings
        self.from_bytes(self.to_bytes())

    def resize_tags(self, matching: NDArray[np.int64], n_chains: int = 1) -> None:
        """Append tags whose weights are the mean of the weights of matching old tags.

        matching: (new tags, K), see `chain.label_resize`. n_chains: side by side, with new tags.
        """
        old = self.learner
        n_old, n_tags, n_states = old.n_tags, old.n_tags + len(matching), old.n_states
        by_tag = old.weights[n_states:, :n_old].T
        new = OnlineLearner(n_tags, old.n_features, self.settings, old.n_sequences, n_chains)
        weights = np.zeros((new.n_general + old.n_features, new.stride), dtype="float32")
        transitions = old.weights[:n_states, :n_states]
        if n_chains == 1:
            by_tag = extend_rows(np, by_tag, matching)
            transitions = extend_square(np, transitions, matching)
        else:
            by_tag = extend_chains(np, by_tag, len(matching))
            by_tag[n_old::n_states, 0] = outside_bias(transitions)
        weights[: new.n_states, : new.n_states] = transitions
        weights[new.n_states :, :n_tags] = by_tag.T
        new.weights = weights
        self._learner = new
        if self.settings.order == 2:
            self._extend_pairs(n_old, matching)

    def _extend_pairs(self, n_old: int, matching: NDArray[np.int64]) -> None:
        """Give pairs with new tags the mean weights of the pairs with matching old tags."""
        old = self.learner.weights[self.learner.n_general + self._find_pairs(n_old)]
        self._add_pairs()
        weights = self.learner.weights.copy()
        rows = self.learner.n_general + self.learner.pairs.ravel()
        inner, start = extend_square(np, old[:-1], matching), extend_rows(np, old[-1], matching)
        weights[rows] = np.concatenate([inner, start[None]]).reshape(len(rows), -1)
        self.learner.weights = weights

    def to_bytes(self) -> bytes:
        """Serialize the chain, see `model_bytes`; b"" without weights. Forgets kept rows."""
        self._forget_rows()
        return pack(self.save()) if self.is_ready else b""

    def save(self) -> SavedChain:
        n_tags, n_general = self.learner.n_tags, self.learner.n_general
        weights = self.learner.weights[:, :n_tags]
        features = weights[n_general:]
        # `pack` finds the features of chains side by side that are used.
        one_chain = self.learner.n_chains == 1
        used: Any = np.flatnonzero(features.any(axis=1)) if one_chain else slice(None)
        return SavedChain(
            self.features.texts,
            self.features.gazetteers.phrases,
            self.features.tables.tables,
            self.learner.n_sequences,
            weights[:n_general],
            self.dictionary.keys[used],
            features[used],
            self.template_set,
            self.first.chain.save() if self.first and self.first.chain.is_ready else None,
            self.first.tags if self.first else [],
            self.full,
        )

    def from_bytes(self, data: bytes) -> "SparseChain":
        """Load the bytes that `to_bytes` returned; b"" changes nothing.

        ValueError if the bytes are damaged or lack phrases or tables of the templates, if the
        format version or the templates differ, and if only the bytes have order 2. The chain then
        stays unchanged. Templates of two versions of the same `template_set` may differ.
        """
        if data:
            self.load(unpack(data))
        return self

    def load(self, saved: SavedChain) -> None:
        """Take all of a saved chain, or nothing if it is a ValueError, see `from_bytes`."""
        from bcrf.kernels.sparse import Dictionary

        features = self.features
        if saved.templates != features.texts:
            is_set = self.template_set is not None and saved.template_set == self.template_set
            if not is_set or any(map(_is_pooled, saved.templates)) != bool(self.first):
                self.check_templates(saved)
            features = Features(
                saved.templates, features.gazetteers, features.tables, self.first, self.taggers
            )
        features.check_saved(saved.gazetteers, saved.tables)
        if self.settings.order == 1:
            check_first_order(saved)
        n_general, n_tags = saved.general.shape
        dictionary = Dictionary()
        dictionary.keys = saved.keys
        n_chains = n_tags // (n_general - 3)
        learner = OnlineLearner(n_tags, len(saved.keys), self.settings, saved.n_sequences, n_chains)

        def make_weights() -> NDArray[np.float32]:
            weights = np.zeros((n_general + len(saved.keys), learner.stride), dtype="float32")
            weights[:n_general, :n_tags] = saved.general
            fill_features(saved, weights[n_general:])
            return weights

        learner.set_later(make_weights)
        if self.first and saved.first:
            self.first.load(saved.first, saved.first_tags)
        self.features = features
        self.features.restore(saved.gazetteers, saved.tables)
        self.dictionary = dictionary
        self._forget_rows()
        self._learner = learner
        self.full = saved.full
        self._add_pairs()

    def check_templates(self, saved: SavedChain) -> None:
        """Raise ValueError if a saved chain has other templates."""
        if saved.templates == self.features.texts:
            return

        def show(templates: list[str], name: str | None) -> str:
            return f"{templates} of the set {name!r}" if name else f"{templates}"

        raise ValueError(
            f"the config has the templates {show(self.features.texts, self.template_set)}, but the "
            f"saved linear chain was trained with {show(saved.templates, saved.template_set)}"
        )

    def __deepcopy__(self, memo: dict) -> "SparseChain":
        restore, arguments = self.__reduce__()
        return restore(*arguments)

    def __reduce__(self) -> tuple:
        options = {
            "templates": self.features.texts,
            "settings": self.settings,
            "min_freq": self.min_freq,
            "gazetteers": self.features.gazetteers,
            "tables": self.features.tables,
            "template_set": self.template_set,
            "feature_dropout": self.feature_dropout,
            "two_pass": self.first is not None,
            "taggers": self.taggers,
        }
        return _restore, (options, self.to_bytes())


def _is_pooled(text: str) -> bool:
    """Return whether a template reads the first chain."""
    parts = (part for template in parse_template(text) for part in template.parts)
    return any(part.attribute.name == POOLED for part in parts)


def _keys_after(first: int | str, n_tags: int) -> NDArray[np.uint64]:
    keys = [hash_string(f"tags[-2..-1]={first}|{second}") for second in range(n_tags)]
    return np.array(keys, dtype="uint64")


def check_first_order(saved: SavedChain) -> None:
    """Raise ValueError for a saved chain of order 2."""
    # Sorting the few keys is faster than sorting the keys of all features.
    first = np.sort(_keys_after(START, saved.general.shape[1]))
    if (first[first.searchsorted(saved.keys).clip(max=len(first) - 1)] == saved.keys).any():
        raise ValueError(
            "the linear chain was trained with order = 2, but order = 1 is expected here"
        )


def _restore(options: dict[str, Any], data: bytes) -> "SparseChain":
    # Initialization of a copy must not change the tables of the original.
    lexicons = {name: copy(options[name]) for name in ("gazetteers", "tables")}
    lexicons["tables"].tables = dict(lexicons["tables"].tables)
    return SparseChain(**options | lexicons).from_bytes(data)
