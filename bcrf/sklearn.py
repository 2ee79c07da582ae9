"""sklearn-crfsuite's `CRF` over the sparse linear chain. Does not import spaCy.

>>> from bcrf.sklearn import CRF
>>> X = [[{"word": "Ann", "upper": True}, {"word": "left", "upper": False}]]
>>> crf = CRF(algorithm="lbfgs", c1=0.1, c2=0.1).fit(X, [["B-PER", "O"]])
>>> crf.predict(X).tolist()
[['B-PER', 'O']]
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bcrf.chain import CRF as Chain
from bcrf.chain import Constraints, Potentials, viterbi
from bcrf.io.atomic import replacing
from bcrf.linear.corpus_loss import CorpusLoss
from bcrf.linear.crfsuite_attributes import Attributes, count_features
from bcrf.linear.crfsuite_options import read_settings
from bcrf.linear.labeled_chain import LabeledChain, read_chain
from bcrf.linear.lbfgs import LBFGSSettings, minimize
from bcrf.linear.learn_online import learn_online
from bcrf.linear.learner import OnlineSettings
from bcrf.schemes import get_scheme

try:
    from sklearn.base import BaseEstimator
    from sklearn.exceptions import NotFittedError
except ImportError:
    NotFittedError = ValueError

    class BaseEstimator:  # type: ignore[no-redef]
        """Stands for the class of scikit-learn, which is not installed."""


PASSES = 10
"""Number of passes of online steps over the training data, without max_iterations."""
STEPS = 2000
"""Least number of steps: one a sequence. Small data get more passes."""

_BLOCK = 1000  # sequences that are predicted at a time


class CRF(BaseEstimator):
    """A linear-chain CRF with the interface of sklearn_crfsuite.CRF.

    X: sequences of tokens. A token has a dict from names to str, bool, number, or a list, set or
        dict of these, as in CRFsuite; or a list of str. `spacy_bcrf.corpora.formats.crfsuite` makes
        sequences of spaCy documents.
    y: labels, a list of str for each sequence. None stands for an unknown label: the loss is then
        the likelihood of the known ones. With `scheme`, y has a list of spans (start, end, label)
        for each sequence, and so has the result of `predict`.

    algorithm: "lbfgs" and "l2sgd", the likelihood of a CRF with regularizers, minimized by L-BFGS,
        or OWL-QN if c1 > 0; "ap", the averaged perceptron; "pa", MIRA. None is "lbfgs" if an
        argument of it is given, max_iterations aside. Else it is the likelihood alone, learned
        online by AdaGrad (Duchi et al. 2011): the mean of the weights over all steps generalizes
        well by itself, in a fraction of the time. Online learning takes one step a sequence, in
        at most `max_iterations` passes; features with values other than 1, small batches. `fit`
        raises ValueError for "arow", which has no counterpart.
    min_freq: least number of occurrences. As in CRFsuite, a pair of an attribute and a label counts
        by the sum of the attribute's values, a pair of labels by its occurrences. The weights of
        rarer pairs are 0. None learns all pairs that occur; CRFsuite's 0 leaves out pairs whose
        values sum to a negative number. Online learning leaves out the attributes whose pairs are
        all rarer.
    c1, c2: "lbfgs" minimizes c1 |w|_1 + c2 |w|^2 + the loss of all sequences, over all weights;
        "l2sgd" has no c1. As in CRFsuite, c1 = 0 and c2 = 1 by default.
    max_iterations, num_memories, epsilon, period, delta, max_linesearch: of L-BFGS, with the
        meanings and defaults of CRFsuite.
    c, pa_type, error_sensitive, averaging: of "pa". Only pa_type = 1 and error_sensitive = True
        have a counterpart.
    model_filename: file of the model. `fit` writes it; without `fit`, it is read: a file of ours or
        of CRFsuite.
    scheme: BIO, BILUO or BIES; None if y has labels.
    learner: `bcrf.linear.OnlineSettings` of online learning, in place of algorithm and its
        arguments. Its objective is "crf", "sapo", "perceptron" or "mira", and its order 1.

    There is a weight for all pairs of an attribute and a label and all pairs of labels, whatever
    `all_possible_states` and `all_possible_transitions` say, and weights of each label for all
    tokens, the first and the last one. linesearch and calibration_* change nothing. `fit` raises
    ValueError for parameters of another algorithm.
    """

    _model: LabeledChain | None = None

    def __init__(
        self,
        algorithm: str | None = None,
        min_freq: float | None = None,
        all_possible_states: bool | None = None,
        all_possible_transitions: bool | None = None,
        c1: float | None = None,
        c2: float | None = None,
        max_iterations: int | None = None,
        num_memories: int | None = None,
        epsilon: float | None = None,
        period: int | None = None,
        delta: float | None = None,
        linesearch: str | None = None,
        max_linesearch: int | None = None,
        calibration_eta: float | None = None,
        calibration_rate: float | None = None,
        calibration_samples: int | None = None,
        calibration_candidates: int | None = None,
        calibration_max_trials: int | None = None,
        pa_type: int | None = None,
        c: float | None = None,
        error_sensitive: bool | None = None,
        averaging: bool | None = None,
        variance: float | None = None,
        gamma: float | None = None,
        verbose: bool = False,
        model_filename: str | None = None,
        keep_tempfiles: bool = False,
        trainer_cls: type | None = None,
        scheme: str | None = None,
        learner: OnlineSettings | None = None,
    ) -> None:
        for name, value in list(locals().items()):
            if name not in ("self", "__class__"):
                setattr(self, name, value)

    def fit(self, X: Any, y: Any, X_dev: Any = None, y_dev: Any = None) -> CRF:
        """Learn from sequences. With `verbose`, print the loss and the score on X_dev by iteration.

        ValueError for empty data, X and y of other lengths, a parameter without a counterpart.
        """
        if (X_dev is None) != (y_dev is None):
            raise ValueError("X_dev and y_dev go together: pass both or none")
        return self._learn(X, y, LabeledChain.empty(), dev=(X_dev, y_dev))

    def partial_fit(self, X: Any, y: Any, classes: Iterable[str] | None = None) -> CRF:
        """Go on learning online with further sequences: `max_iterations` passes over them, or 10.

        The weights of the model, also of `model_filename`, are the start; it is all that a call
        knows of earlier ones, so a saved model goes on as the same one in memory. classes: further
        labels of later calls, of spans with `scheme`. Labels and attributes of X and y that are
        new start with weights of 0. ValueError as from `fit`, for an algorithm without online
        steps, and for min_freq.
        """
        if isinstance(read_settings(vars(self)), LBFGSSettings) or self.min_freq:
            raise ValueError(
                "partial_fit learns online and keeps all attributes: expected no min_freq, and "
                f"algorithm None, ap or pa, got {self.algorithm!r} and {self.min_freq!r}"
            )
        model = self._loaded or LabeledChain.empty()
        # An exception leaves the attributes of the model.
        model = model._replace(attributes=Attributes(model.attributes.names))
        classes = [] if classes is None else _list("classes", classes)
        if not all(isinstance(label, str) for label in classes):
            raise ValueError(f"classes: expected a list of labels, each a str, got {classes!r:.80}")
        return self._learn(X, y, model, classes, PASSES)

    def _learn(
        self,
        X: Any,
        y: Any,
        model: LabeledChain,
        classes: Sequence[str] = (),
        passes: int | None = None,
        dev: tuple[Any, Any] = (None, None),
    ) -> CRF:
        """Learn from the weights of a model on. passes: by default at least STEPS steps."""
        settings = read_settings(vars(self))
        attributes = model.attributes
        batch = attributes.read(_list("X", X), add=True)
        y = self._tags(_list("y", y), batch.lengths)
        labels = self._join_labels(model.labels, classes, y)
        ids: dict[Any, int] = {None: -1} | {label: i for i, label in enumerate(labels)}
        gold = np.fromiter((ids[label] for tags in y for label in tags), "int32")
        kept = None
        if self.min_freq:
            sizes = len(labels), len(attributes.names)
            kept = count_features(batch, gold, sizes) >= self.min_freq
            used = kept[len(labels) :].any(axis=1)
            attributes, batch = attributes.keep(batch, used)
            general = np.ones((3, len(labels)), dtype=bool)
            kept = np.concatenate([kept[: len(labels)], general, kept[len(labels) :][used]])

        def report(n: int, loss: float, weights: NDArray) -> None:
            if self.verbose:
                self._model = LabeledChain(labels, attributes, weights)
                score = "" if dev[0] is None else f", dev accuracy {self.score(*dev):.4f}"
                print(f"pass {n}: loss {loss / len(batch.lengths):.4f}{score}")

        sizes = len(labels), len(attributes.names)
        constraints = self._constraints(labels)
        if isinstance(settings, LBFGSSettings):
            loss = CorpusLoss(batch, gold, sizes, constraints, kept)
            weights = minimize(loss, loss.zeros(), settings, report)
        else:
            passes = passes or max(PASSES, math.ceil(STEPS / max(len(batch.lengths), 1)))
            passes = min(passes, self.max_iterations or passes)
            start = model.extend(sizes)
            weights = learn_online(settings, start, sizes, constraints, batch, gold, passes, report)
        self._model = LabeledChain(labels, attributes, weights)
        if self.model_filename:
            with replacing(Path(self.model_filename)) as part:
                part.write_bytes(self._model.to_bytes())
        return self

    def _join_labels(
        self, known: list[str], classes: Sequence[str], y: list[list[str | None]]
    ) -> list[str]:
        """Return the labels of a model and then new ones; all tags of the scheme, if there is one.

        ValueError without labels, and if the model's labels are no tags of the scheme.
        """
        found = [tag for tags in y for tag in tags if tag is not None]
        if not (known or classes or found):
            raise ValueError(
                "there is no label to learn: X and y are empty, or all labels are None"
            )
        if not self.scheme:
            return list(dict.fromkeys([*known, *classes, *found]))
        names = [tag[2:] for tag in known if tag != "O"]
        names += [*classes, *(tag[2:] for tag in found if tag != "O")]
        tags = get_scheme(self.scheme).tags(list(dict.fromkeys(names)))
        if tags[: len(known)] != known:
            raise ValueError(f"the labels of the model are no tags of {self.scheme}: {known!r:.80}")
        return tags

    def _tags(self, y: list[Any], lengths: NDArray[np.int32]) -> list[list[str | None]]:
        """Return labels, one a token. Raises ValueError for another number, and for no str."""
        if len(y) != len(lengths):
            raise ValueError(f"X has {len(lengths)} sequences, y has {len(y)}")
        found = []
        for n, (labels, length) in enumerate(zip(y, lengths.tolist(), strict=True)):
            if isinstance(labels, (str, bytes)) or not isinstance(labels, Iterable):
                raise ValueError(f"y[{n}]: expected a list of labels, got {labels!r:.80}")
            tags = list(labels)
            if self.scheme:
                try:
                    tags = get_scheme(self.scheme).encode(tags, length)
                except (ValueError, TypeError) as error:
                    raise ValueError(f"y[{n}]: {error}") from None
            if len(tags) != length:
                raise ValueError(f"sequence {n}: X has {length} tokens, y has {len(tags)} labels")
            for i, tag in enumerate(tags):
                if not (tag is None or isinstance(tag, str)):
                    raise ValueError(f"y[{n}][{i}]: expected a str or None, got {tag!r:.60}")
            found.append(tags)
        return found

    def predict(self, X: Any) -> NDArray:
        """Return the best labels of each sequence, an array of lists of str, or of spans."""
        found = self._predict(X)
        if self.scheme:  # lists of tuples, also where all sequences have as many spans
            return np.fromiter(found, dtype=object)
        return np.array(list(found), dtype=object)

    def predict_single(self, xseq: Any) -> list[Any]:
        """Return the best labels of a sequence, or its spans."""
        return next(self._predict([xseq]))

    def _predict(self, X: Any) -> Iterator[list[Any]]:
        from bcrf.kernels.native import name_labels

        names = self.labels()
        for potentials in self._potentials(X):
            tags, _ = viterbi(potentials)
            found = name_labels(names, tags, potentials.lengths)
            yield from map(get_scheme(self.scheme).spans, found) if self.scheme else found

    def predict_marginals(self, X: Any) -> NDArray:
        """Return the probability of each label by token: an array of lists of dicts."""
        return np.array(list(self._predict_marginals(X)), dtype=object)

    def predict_marginals_single(self, xseq: Any) -> list[dict[str, float]]:
        """Return the probability of each label, for each token of a sequence."""
        return next(self._predict_marginals([xseq]))

    def _predict_marginals(self, X: Any) -> Iterator[list[dict[str, float]]]:
        names = self.labels()
        for potentials in self._potentials(X):
            rows = Chain().marginals(potentials).unary.tolist()
            found = [dict(zip(names, row, strict=True)) for row in rows]
            end = 0
            for length in potentials.lengths.tolist():
                start, end = end, end + length
                yield found[start:end]

    def score(self, X: Any, y: Any) -> float:
        """Return the share of tokens with the right label. Tokens labeled None do not count."""
        X = _list("X", X)
        lengths = np.array([len(sequence) for sequence in X], dtype="int32")
        gold = chain.from_iterable(self._tags(_list("y", y), lengths))
        found = chain.from_iterable(self._tags(list(self._predict(X)), lengths))
        right = [a == b for a, b in zip(gold, found, strict=True) if a is not None]
        if not right:
            raise ValueError("there is no labeled token to score")
        return sum(right) / len(right)

    def _potentials(self, X: Any) -> Iterator[Potentials]:
        """Yield the potentials of a number of sequences at a time, float64."""
        from bcrf.kernels.sparse import score_values

        labels, attributes, weights = self._fitted()
        n_tags, constraints = len(labels), self._constraints(labels)
        X = _list("X", X)
        for first in range(0, len(X), _BLOCK):
            batch = attributes.read(X[first : first + _BLOCK])
            unary = score_values(weights, n_tags, *batch)
            transitions = np.ascontiguousarray(weights[:n_tags, :n_tags], "float64")
            # The weights are finite, but values can be too large.
            make = Potentials.unchecked if batch.values is None else Potentials
            yield make(unary, transitions, batch.lengths).constrain(constraints)

    def _constraints(self, tags: list[str]) -> Constraints | None:
        if not self.scheme:
            return None
        scheme = get_scheme(self.scheme)
        labels = [tag[2:] for tag in tags[1 :: len(scheme.prefixes)]]
        return scheme.constraints(labels)

    def labels(self) -> list[str]:
        """Return the labels. Raises ValueError before `fit`."""
        return self._fitted().labels

    def _fitted(self) -> LabeledChain:
        model = self._loaded
        if model is None:
            raise NotFittedError("this CRF is not fitted: call fit, or set model_filename")
        return model

    def __sklearn_is_fitted__(self) -> bool:
        return self._loaded is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # X has sequences, y their labels
        tags.target_tags.required = tags.no_validation = True
        return tags

    @property
    def _loaded(self) -> LabeledChain | None:
        """The model, from its file if need be; None before `fit`."""
        if self._model is None and self.model_filename and Path(self.model_filename).exists():
            self._model = read_chain(Path(self.model_filename))
        return self._model

    @property
    def classes_(self) -> list[str] | None:
        """The labels in the order of the training data; None before `fit`."""
        model = self._loaded
        return None if model is None else model.labels

    @property
    def tagger_(self) -> CRF | None:
        """The CRF itself, or None before `fit`."""
        return None if self._loaded is None else self

    @property
    def size_(self) -> int | None:
        """Size of the model's file in bytes."""
        model = self._loaded
        return None if model is None else len(model.to_bytes())

    @property
    def attributes_(self) -> list[str] | None:
        """The attributes with a weight other than 0."""
        features = self.state_features_
        return None if features is None else list(dict.fromkeys(name for name, _ in features))

    @property
    def num_attributes_(self) -> int | None:
        """Number of attributes with a weight other than 0."""
        attributes = self.attributes_
        return None if attributes is None else len(attributes)

    @property
    def state_features_(self) -> dict[tuple[str, str], float] | None:
        """The weights other than 0 by attribute and label."""
        model = self._loaded
        if model is None:
            return None
        weights = model.weights[len(model.labels) + 3 :]
        return _name_weights(weights, model.attributes.names, model.labels)

    @property
    def transition_features_(self) -> dict[tuple[str, str], float] | None:
        """The weights other than 0 by pair of labels."""
        model = self._loaded
        if model is None:
            return None
        return _name_weights(model.weights[: len(model.labels)], model.labels, model.labels)


def _list(name: str, X: Any) -> list[Any]:
    if isinstance(X, (str, bytes, dict)) or not isinstance(X, Iterable):
        raise ValueError(f"{name}: expected a list of sequences, got {X!r:.80}")
    sequences = list(X)
    for n, sequence in enumerate(sequences):
        if hasattr(sequence, "vocab"):  # a document of spaCy, or a token of one
            raise ValueError(
                f"{name}[{n}]: expected a list of tokens, got spaCy's {type(sequence).__name__}; "
                "spacy_bcrf.corpora.formats.crfsuite.crfsuite_tokens(docs) makes lists of documents"
            )
    return sequences


def _name_weights(
    weights: NDArray, rows: Sequence[str], columns: Sequence[str]
) -> dict[tuple[str, str], float]:
    found = zip(*(part.tolist() for part in weights.nonzero()), strict=True)
    return {(rows[i], columns[j]): float(weights[i, j]) for i, j in found}
