"""A linear chain over the boolean features of spaCy documents, and its serialization."""

import warnings
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import pairwise
from sys import getsizeof
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.strings import hash_string  # type: ignore[attr-defined]
from spacy.tokens import Doc
from spacy.util import minibatch

from bcrf.chain import Constraints, Potentials
from bcrf.chain.label_resize import extend_chains, extend_rows, extend_square, outside_bias
from bcrf.chain.potentials import check_least
from bcrf.chain.side_by_side import split_chains
from bcrf.linear.features import TemplateFeatures, Tokens
from bcrf.linear.learner import OnlineLearner, OnlineSettings
from bcrf.linear.model_bytes import SavedChain, fill_features, pack, unpack
from bcrf.linear.rows import Rows, known_rows
from bcrf.linear.templates import Attribute, parse_template, parse_templates
from bcrf.linear.word_cache import Bags
from spacy_bcrf.annotation.arrays import DocBatch, doc_lengths
from spacy_bcrf.scores.foreign_labels import match_tags
from spacy_bcrf.scores.levels import EDGES, find_line
from spacy_bcrf.scores.token_scores import Scorer

from .doc_attributes import POOLED
from .features import SCORE, Features, hash_steps
from .gazetteers import Gazetteers
from .two_pass import TEMPLATES, FirstPass
from .word_tables import FREQUENCY, WordTables

CACHED = 200_000_000
"""Largest size in bytes of the rows and signatures that `SparseChain` keeps for the next passes."""
START = "start"
"""Stands for the start of a sequence in the keys of pairs of tags."""


@dataclass
class _Counts:
    """Counts of features. missing: attributes without any value. kept: documents to count later."""

    dictionary: Any
    missing: set[Attribute]
    n_docs: int = 0
    kept: list[Doc] = field(default_factory=list)


class SparseChain:
    """Templates, the dictionary from feature keys to rows of weights, and the learner.

    templates: see `bcrf.linear.templates`; TemplateError if one cannot be parsed. settings: of the
    learner. min_freq, gazetteers, feature_dropout, two_pass: see `LinearChain`. With a min_freq of
    1, the chain also adds the features that first occur in training, which templates over the
    annotation of an earlier component need. tables: clusters. scorers: foreign taggers, with
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
        scorers: Sequence[Scorer] = (),
    ) -> None:
        check_least(1, min_freq=min_freq)
        if not 0 <= feature_dropout < 1:
            raise ValueError(
                f"feature_dropout must be at least 0 and less than 1, got {feature_dropout}"
            )
        self.scorers = list(scorers)
        for scorer in scorers:
            if not any(f"{SCORE}.{scorer.name}[" in text for text in templates):
                templates = [*templates, f"{SCORE}.{scorer.name}[-1..1]"]
        self.first: FirstPass | None = None
        if two_pass:
            own = [text for text in templates if not _is_pooled(text)]
            templates = templates if len(own) < len(templates) else [*templates, *TEMPLATES]
            gazetteers, tables = gazetteers or Gazetteers({}), tables or WordTables({})
            of_first = OnlineSettings("crf", l2=settings.l2)
            # Both chains read the same phrases and tables.
            options = own, of_first, min_freq, gazetteers, tables
            first = SparseChain(*options, template_set=template_set, scorers=scorers)
            self.first = FirstPass(first)
        self.features = Features(templates, gazetteers, tables, self.first, scorers)
        self.settings = settings
        self.min_freq = min_freq
        self.template_set = template_set
        self.feature_dropout = feature_dropout
        self.n_chains = 1
        self.full = False
        self._learner: OnlineLearner | None = None
        self._counts: _Counts | None = None
        self._forget_rows()

    def _forget_rows(self) -> None:
        # By signature of a document: its rows, and the number of rows of each token. Oldest first.
        self._cache: dict[bytes, tuple[NDArray[np.int32], NDArray[np.int64]]] = {}
        self._cached = 0  # bytes

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
        features = Features(pooled, *lexicons, self.first, self.scorers)
        for batch in minibatch(docs, 256):
            self.dictionary.find(features.keys(batch, held_out=True)[0], True)
        self.learner.resize(len(self.dictionary))

    def start_counting(self) -> None:
        """Forget all features, and read the files of gazetteers and word tables."""
        from bcrf.kernels.sparse import Dictionary

        if self.first:
            self.first.reset()
        self.features.load()
        self._counts = _Counts(Dictionary(), self.features.may_miss)
        self._forget_rows()

    def count(self, docs: Sequence[Doc]) -> None:
        """Count features after `start_counting`. A template of `frequency` keeps the documents."""
        counts = self._counts
        assert counts is not None
        counts.n_docs += len(docs)
        if self.features.needs_frequencies:
            counts.kept += docs
        else:
            self._count(counts, docs)

    def _count(self, counts: _Counts, docs: Sequence[Doc]) -> None:
        for batch in minibatch(docs, 256):
            self.features.measure(batch[0].vocab)
            counts.dictionary.count(self.features.keys(batch)[0])
            if self.min_freq > 1:
                counts.missing = self.features.still_missing(counts.missing, batch)

    def initialize(self, docs: Sequence[Doc], n_tags: int) -> None:
        """Set weights to 0, of counted features or those of documents. Warns of missing ones."""
        for scorer in self.scorers:
            scorer.keeps = True
        if self._counts is None:
            self.start_counting()
            self.count(docs)
        counts, self._counts = self._counts, None
        assert counts is not None
        self.features.count_words(counts.kept)
        self._count(counts, counts.kept)
        self.dictionary = counts.dictionary
        self.dictionary.keep(self.min_freq)
        missing = self.features.templates_of(counts.missing) if self.min_freq > 1 else []
        if missing:
            warnings.warn(
                f"with min_freq = {self.min_freq} in the {counts.n_docs} documents of the "
                f"initialization, there are no features for {', '.join(missing)}: the chain cannot "
                "learn from these templates. If another component sets the values in training "
                "(training.annotating_components), set min_freq = 1",
                stacklevel=2,
            )
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

    def start_from_scores(self, tags: Sequence[str]) -> None:
        """Set the weights of foreign labels after `initialize`, to start from sources' decoding.

        tags: of all chains. Several sources add up, so that a silent one changes nothing.
        """
        learner = self.learner
        for scorer in self.scorers:
            (template,) = parse_templates([f"{SCORE}.{scorer.name}[0]"])
            if template not in self.features.templates:
                continue
            hashes = hash_steps(tuple(scorer.merge.extended))[:-1]
            features = TemplateFeatures(
                [template], [], {}, [part.attribute for part in template.parts], hash_string
            )
            n = len(hashes)
            values = Bags(np.arange(n + 1), hashes)
            no_words = np.zeros(n, "uint64"), np.zeros((n, 0), "uint64"), np.ones(n, "int32")
            keys, _ = features.extract(Tokens(*no_words, str, [values]))
            rows = self.dictionary.find(keys, True).reshape(-1, len(EDGES))
            learner.resize(len(self.dictionary))
            weights = learner.weights.copy()
            labels = match_tags(scorer.merge.labels, tags)
            # A chain of one label, or a source without O: log-odds compare a label with O.
            line = find_line(odds=labels[0] < 0)
            for tag in np.flatnonzero(labels >= 0):
                row = rows[scorer.merge.columns[labels[tag]]]
                weights[learner.n_general + row, tag] = np.diff(line)
                weights[learner.n_states, tag] += line[0] * (labels[0] < 0)
            learner.weights = weights

    def rows(self, docs: Sequence[Doc], add: bool = False, held_out: bool = False) -> Rows:
        """Look up the features of N tokens. add: rows for new ones. held_out: see `FirstPass`."""
        keys, starts = self.features.keys(docs, held_out=held_out)
        return known_rows(self.dictionary.find(keys, add), starts)

    def _training_rows(self, docs: Sequence[Doc]) -> Rows:
        """Look up the features of N tokens, add new ones if min_freq is 1, and keep their rows."""
        add = self.min_freq == 1
        if any(attribute.name != POOLED for attribute in self.features.listed):
            return self.rows(docs, add, held_out=True)
        keys = self.features.signatures(docs)
        new = {key: doc for key, doc in zip(keys, docs, strict=True) if key not in self._cache}
        if new:
            found = self.rows(list(new.values()), add, held_out=True)
            bounds = np.cumsum([0, *(len(doc) for doc in new.values())]).tolist()
            for key, (first, last) in zip(new, pairwise(bounds), strict=True):
                starts = found.starts[first : last + 1]
                # A copy, because a view would keep the rows of the whole batch.
                self._cache[key] = found.rows[starts[0] : starts[-1]].copy(), np.diff(starts)
                self._cached += _size(key, *self._cache[key])
        rows, counts = zip(*(self._cache[key] for key in keys), strict=True)
        while self._cached > CACHED:
            oldest = next(iter(self._cache))
            self._cached -= _size(oldest, *self._cache.pop(oldest))
        starts = np.concatenate([[0], np.concatenate(counts).cumsum(dtype="int64")])
        return Rows(np.concatenate(rows), starts)

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
        return self.load(unpack(data)) if data else self

    def load(self, saved: SavedChain) -> "SparseChain":
        from bcrf.kernels.sparse import Dictionary

        features = self.features
        if saved.templates != features.texts:
            is_set = self.template_set is not None and saved.template_set == self.template_set
            if not is_set or any(map(_is_pooled, saved.templates)) != bool(self.first):
                raise self._other_templates(saved)
            features = Features(
                saved.templates, features.gazetteers, features.tables, self.first, self.scorers
            )
        features.check_saved(saved.gazetteers, saved.tables)
        if self.settings.order == 1:
            _check_order(saved)
        if self.first and saved.first:
            self.first.load(saved.first, saved.first_tags)
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
        self.features = features
        self.features.restore(saved.gazetteers, saved.tables)
        self.dictionary = dictionary
        self._forget_rows()
        self._learner = learner
        self.full = saved.full
        self._add_pairs()
        return self

    def add_weights(self, data: bytes) -> None:
        """Take the weights of a trained chain with the same tags and templates, by feature.

        data: of its `to_bytes`. All else stays. ValueError, which changes nothing, if the bytes are
        damaged, untrained or of order 2, and if templates, clusters or number of tags differ.
        """
        learner = self.learner
        saved = unpack(data) if data else None
        if saved is None or not (len(saved.keys) or saved.general.any()):
            raise ValueError("the linear chain has no weights; expected a trained one")
        if saved.templates != self.features.texts:
            raise self._other_templates(saved)
        _check_order(saved)
        n_tags = learner.n_tags
        if saved.general.shape != (learner.n_general, n_tags):
            raise ValueError(f"there are {n_tags} tags, but {saved.general.shape[1]} in the bytes")
        tables = self.features.tables.tables
        for name in tables.keys() & saved.tables.keys() - {FREQUENCY}:
            if tables[name] != saved.tables[name]:
                raise ValueError(f"the saved linear chain was trained with another table {name}")
        rows = learner.n_general + self.dictionary.find(saved.keys, True)
        learner.resize(len(self.dictionary))
        weights = learner.weights.copy()
        weights[: learner.n_general, :n_tags] = saved.general
        features = np.zeros((len(saved.keys), learner.stride), dtype="float32")
        fill_features(saved, features)
        weights[rows] = features
        learner.weights = weights

    def _other_templates(self, saved: SavedChain) -> ValueError:
        def show(templates: list[str], name: str | None) -> str:
            return f"{templates} of the set {name!r}" if name else f"{templates}"

        return ValueError(
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
            "scorers": self.scorers,
        }
        return _restore, (options, self.to_bytes())


def _is_pooled(text: str) -> bool:
    """Return whether a template reads the first chain."""
    parts = (part for template in parse_template(text) for part in template.parts)
    return any(part.attribute.name == POOLED for part in parts)


def _keys_after(first: int | str, n_tags: int) -> NDArray[np.uint64]:
    keys = [hash_string(f"tags[-2..-1]={first}|{second}") for second in range(n_tags)]
    return np.array(keys, dtype="uint64")


def _check_order(saved: SavedChain) -> None:
    # Sorting the few keys is faster than sorting those of all features.
    first = np.sort(_keys_after(START, saved.general.shape[1]))
    if (first[first.searchsorted(saved.keys).clip(max=len(first) - 1)] == saved.keys).any():
        raise ValueError(
            "the linear chain was trained with order = 2, but order = 1 is expected here"
        )


def _size(*parts: bytes | NDArray) -> int:
    return sum(map(getsizeof, parts))


def _restore(options: dict[str, Any], data: bytes) -> "SparseChain":
    # Initialization of a copy must not change the tables of the original.
    lexicons = {name: copy(options[name]) for name in ("gazetteers", "tables")}
    lexicons["tables"].tables = dict(lexicons["tables"].tables)
    return SparseChain(**options | lexicons).from_bytes(data)
