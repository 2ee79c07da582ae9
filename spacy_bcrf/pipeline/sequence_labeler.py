"""The base of all components: a codec and a model."""

# Without `from __future__ import annotations`: spaCy evaluates the type hints of `initialize`.

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.errors import Errors
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example, validate_examples, validate_get_examples
from spacy.util import check_lexeme_norms, minibatch
from spacy.vocab import Vocab
from thinc.api import Model, Optimizer
from tqdm import tqdm

from spacy_bcrf.annotation.arrays import doc_lengths
from spacy_bcrf.annotation.extensions import UserData, set_extensions
from spacy_bcrf.chain import CRF, Inference, Potentials, unlikelihood_loss
from spacy_bcrf.layers.protocol import LabelingModel

from . import confidence
from .codecs import Codec
from .gold import Gold, GoldReader, warn_of_problems

LossTerm = Callable[[Potentials, Gold, Potentials], float]
"""Returns an additional loss of a batch and adds its gradient to the last argument, in place."""


class Prediction(NamedTuple):
    """The predicted tags int32 (n,) of one document, and its new entries of `Doc.user_data`."""

    tags: NDArray[np.int32]
    user_data: UserData


class SequenceLabeler(TrainablePipe):
    """Predict the best label sequence of each document, one tag per token.

    The codec defines the tags and how a Doc stores them. The model computes their potentials.
    Shapes: B documents have N tokens in all; T is the number of tags.
    """

    def __init__(
        self,
        vocab: Vocab,
        model: Model[list[Doc], Potentials],
        name: str,
        codec: Codec,
        *,
        scorer: Callable | None,
        annotate: Sequence[str] = (),
        temperature: float = 1.0,
    ) -> None:
        """model: an architecture such as `spacy-bcrf.SequenceLabeler.v1`.
        annotate: the custom attributes to write, see `confidence.ANNOTATIONS`.
        temperature: divides all scores before probabilities are computed from them.
        """
        self.name = name
        self.annotate = annotate
        self.temperature = temperature
        set_extensions()
        self.vocab = vocab
        self.model = model
        self.codec = codec
        self.scorer = scorer
        self.cfg: dict[str, Any] = {"labels": [], **codec.settings}
        self._view = LabelingModel(name, model)
        self._gold = GoldReader(codec)
        self.loss_terms: list[LossTerm] = []
        """Additional losses, added to the objective's loss."""
        self._has_warned = False
        self._set_labels()

    @property
    def _labeling(self) -> LabelingModel:
        """The typed view of `model`. spaCy may replace the model and rename the component."""
        if self._view.model is not self.model or self._view.name != self.name:
            self._view = LabelingModel(self.name, self.model)
        return self._view

    # Labels and tags

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels, in the order in which they were added."""
        return tuple(self.cfg["labels"])

    @property
    def label_data(self) -> tuple[str, ...]:
        """The labels, for `spacy init labels`."""
        return self.labels

    @property
    def tags(self) -> list[str]:
        """The T tags in the order of their ids. A new label appends its tags."""
        return self.codec.tags

    @property
    def head(self) -> Model:
        """The output layer of the model."""
        return self._labeling.output_layer

    def add_label(self, label: str) -> int:
        """Add a label and append its tags. RETURNS 0 if the label exists, else 1."""
        if not isinstance(label, str):
            raise ValueError(Errors.E187)
        if label in self.labels:
            return 0
        if not label:
            raise ValueError(
                f"[{self.name}] a label cannot be empty: an empty label means missing annotation"
            )
        try:
            self.codec.check_label(label)
        except ValueError as error:
            raise ValueError(f"[{self.name}] {error}") from None
        self._allow_extra_label()
        self.cfg["labels"].append(label)
        self._set_labels()
        if self._labeling.is_ready:
            self._labeling.resize(self.tags, self.codec.tags_per_label)
        return 1

    def _set_labels(self) -> None:
        """Update codec, constraints and gold checks after a change of the labels."""
        self.codec.set_labels(self.labels, self.vocab.strings)
        self._labeling.constraints = self.codec.constraints
        self._gold.forget()

    # Prediction

    @property
    def annotate(self) -> tuple[str, ...]:
        """The custom attributes that `predict` writes, see `confidence.ANNOTATIONS`."""
        return self._annotate

    @annotate.setter
    def annotate(self, annotate: Sequence[str]) -> None:
        confidence.check_annotate(self.name, annotate)
        self._annotate = tuple(annotate)

    @property
    def temperature(self) -> float:
        """Divides all scores before probabilities are computed from them."""
        return self._temperature

    @temperature.setter
    def temperature(self, temperature: float) -> None:
        confidence.check_temperature(self.name, temperature)
        self._temperature = temperature

    def set_decoder(self, name: str) -> None:
        """Set the decoder, one of `layers.decoding.DECODERS`.

        A saved pipeline keeps the decoder of its config, components.NAME.model.head.decoder.
        """
        self._labeling.set_decoder(name)

    def find_potentials(self, docs: Sequence[Doc], ignore_annotation: bool = False) -> Potentials:
        """Return the potentials of the tags, with -inf outside of each document's lattice.

        ignore_annotation: ignore preset annotation of the component's own kind.
        """
        if not any(len(doc) for doc in docs):
            nothing = np.ones((0, max(1, len(self.tags))), dtype=bool)
            return self._labeling.zero_potentials(doc_lengths(docs), nothing)
        potentials = self.model.predict(list(docs))
        try:
            return self.codec.restrict(potentials, docs, self.model.ops, ignore_annotation)
        except ValueError as error:
            raise ValueError(f"[{self.name}] {error}") from None

    def with_temperature(self, potentials: Potentials) -> Potentials:
        """Return the potentials after temperature, the basis of all probabilities."""
        return potentials if self._temperature == 1 else potentials.scale(1 / self._temperature)

    def decode(self, potentials: Potentials) -> NDArray[np.int32]:
        """Return the tags (N,) of the best labelings, by the decoder of the head."""
        return self._labeling.decode(potentials)

    def predict(self, docs: Iterable[Doc]) -> list[Prediction]:
        """Return the tags of each document, and the user data of `annotate`."""
        docs = list(docs)
        if not docs:
            return []
        potentials = self.find_potentials(docs)
        tags = self.decode(potentials)
        user_data: list[UserData] = [{} for _ in docs]
        lengths = self.model.ops.to_numpy(potentials.lengths)
        if self._annotate:
            posterior = self.with_temperature(potentials)
            predicted = confidence.Predicted(
                docs, lengths, posterior, tags, self.codec, self.model.ops
            )
            user_data = confidence.annotate_predictions(self._annotate, predicted)
        by_doc = np.split(tags, lengths.cumsum()[:-1])
        return [Prediction(*pair) for pair in zip(by_doc, user_data, strict=True)]

    def write(self, docs: Sequence[Doc], predictions: Sequence[Prediction]) -> list[Doc]:
        """Write predictions. RETURNS the annotated documents: new ones if the tokens change."""
        if not docs:
            return []
        tags, user_data = zip(*predictions, strict=True)
        return self.codec.write(docs, tags, user_data)

    def set_annotations(self, docs: Iterable[Doc], predictions: list[Prediction]) -> None:
        """Write predictions in place. TypeError if the annotation needs other tokens."""
        docs = list(docs)
        for doc, written in zip(docs, self.write(docs, predictions), strict=True):
            if written is not doc:
                raise TypeError(
                    f"[{self.name}] the tokens of a Doc cannot change in place. Use the documents "
                    "that the component, its `pipe` and its `write` return"
                )

    def __call__(self, doc: Doc) -> Doc:
        """Return the annotated document."""
        try:
            return self.write([doc], self.predict([doc]))[0]
        except Exception as error:
            self.get_error_handler()(self.name, self, [doc], error)
            return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Yield the annotated documents."""
        for docs in minibatch(stream, size=batch_size):
            try:
                yield from self.write(docs, self.predict(docs))
            except Exception as error:
                self.get_error_handler()(self.name, self, docs, error)

    # Comparison with gold, for calibration

    def compare_with_gold(
        self, examples: Sequence[Example], *, ignore_annotation: bool = True
    ) -> tuple[Potentials, Any, NDArray[np.bool_]]:
        """Return potentials, M predictions for `confidences`, and which are correct (M,).

        Predictions without gold annotation are left out.
        """
        docs = [example.predicted for example in examples]
        potentials = self.find_potentials(docs, ignore_annotation)
        tags = self.decode(potentials)
        values, _ = self.codec.read_gold(examples)
        return potentials, *self.codec.compare_with_gold(tags, values, doc_lengths(docs))

    def confidences(self, posterior: Potentials, predictions: Any) -> NDArray[np.floating]:
        """Return the probabilities (M,) of predictions, see `compare_with_gold`."""
        return self.codec.confidences(posterior, predictions, self.model.ops)

    # Training

    def read_gold(self, examples: Sequence[Example]) -> Gold:
        """Return what the examples teach, and why some teach nothing."""
        return self._read_gold(examples)[0]

    def _read_gold(self, examples: Sequence[Example]) -> tuple[Gold, NDArray[np.bool_] | None]:
        """Return the gold, and the lattice of the predicted documents."""
        labeling = self._labeling
        try:
            lattice = self.codec.lattice([example.predicted for example in examples])
            return self._gold.read(examples, lattice, labeling), lattice
        except ValueError as error:
            raise ValueError(f"[{self.name}] {error}") from None

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Learn from a batch. A sparse linear chain makes online steps without the optimizer."""
        learn = self._labeling.hooks.learn
        if learn is None:
            return super().update(examples, drop=drop, sgd=sgd, losses=losses)
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        examples = list(examples)
        validate_examples(examples, f"{type(self).__name__}.update")
        docs = [example.predicted for example in examples]
        if any(len(doc) for doc in docs):
            gold, lattice = self._read_gold(examples)
            self._warn("a batch", examples, gold.problems)
            losses[self.name] += learn(self.model, docs, gold.tags, lattice)
        return losses

    def get_loss(self, examples: Iterable[Example], scores: Potentials) -> tuple[float, Potentials]:
        """Return the sum of the documents' losses, and its gradient.

        A document with infeasible gold counts as unannotated.
        """
        # A sum, as in spaCy's tagger and ner, so that components on a shared tok2vec weigh alike.
        # In short trials the mean over tokens did better on JNLPBA, worse on EWT, mixed on WNUT17.
        examples = list(examples)
        validate_examples(examples, f"{type(self).__name__}.get_loss")
        gold, lattice = self._read_gold(examples)
        self._warn("a batch", examples, gold.problems)
        if lattice is not None:
            scores = scores.restrict(self._labeling.asarray(lattice))
        return self._compute_loss(scores, gold)

    def _compute_loss(self, potentials: Potentials, gold: Gold) -> tuple[float, Potentials]:
        objective = self._labeling.objective
        losses, gradient = objective.loss(potentials, gold.tags)
        loss = float(losses.sum())
        if gold.rejections:
            inference = objective if isinstance(objective, Inference) else CRF()
            allowed = potentials.restrict(gold.tags)
            losses, more = unlikelihood_loss(inference, allowed, gold.rejections)
            loss += float(losses.sum())
            add_gradient(gradient, more)
        return loss + sum(term(potentials, gold, gradient) for term in self.loss_terms), gradient

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        """Set the labels, by default all labels of the examples, and initialize the model.

        ValueError without any label, for examples with labels outside of `labels`, or for a config
        with another number of tags.
        """
        validate_get_examples(get_examples, f"{type(self).__name__}.initialize")
        check_lexeme_norms(self.vocab, self.name)
        reading = tqdm(get_examples(), f"[{self.name}] reading", delay=5, leave=False, unit="docs")
        examples = list(reading)
        found = sorted(set().union(*(self.codec.find_labels(eg.reference) for eg in examples)))
        for label in found if labels is None else labels:
            self.add_label(label)
        self._require_labels()
        if not examples:
            raise ValueError(Errors.E923.format(name=self.name))
        if unknown := [label for label in found if label not in self.labels]:
            raise ValueError(
                f"[{self.name}] the examples have unknown labels: {', '.join(unknown)}. "
                f"The component has {', '.join(self.labels)}"
            )
        self._labeling.resize(self.tags, self.codec.tags_per_label)
        sample = examples[: self._labeling.hooks.sample_size]
        self.model.initialize(X=[example.predicted for example in sample])
        self._has_warned = False
        if misspelled := self.codec.find_misspelled([example.reference for example in examples]):
            warnings.warn(f"[{self.name}] {misspelled}", stacklevel=2)
        problems: dict[int, str] = {}
        for start in range(0, len(examples), 128):
            found_here = self.read_gold(examples[start : start + 128]).problems
            problems.update((start + i, problem) for i, problem in found_here.items())
        self._warn("the training data", examples, problems)

    def _warn(self, where: str, examples: Sequence[Example], problems: dict[int, str]) -> None:
        """Warn about problems of gold, once per training."""
        if problems and not self._has_warned:
            self._has_warned = True
            warn_of_problems(self.name, where, examples, problems)

    # Serialization

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "SequenceLabeler":
        """Load the component from bytes. ValueError if it does not fit the config."""
        return self._load(super().from_bytes, bytes_data, exclude)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "SequenceLabeler":
        """Load the component from a folder. ValueError if it does not fit the config."""
        try:
            return self._load(super().from_disk, path, exclude)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    def _load(self, load: Callable, source: Any, exclude: Iterable[str]) -> "SequenceLabeler":
        """Load the component.

        ValueError if saved settings differ from the config, or weights belong to other tags.
        """
        settings = {key: value for key, value in self.cfg.items() if key != "labels"}
        load(source, exclude=exclude)
        for key, value in settings.items():
            if self.cfg[key] != value:
                raise ValueError(
                    f"[{self.name}] the config sets {key} = {value!r}, but the saved component has "
                    f"{key} = {self.cfg[key]!r}"
                )
        self._set_labels()
        trained_on = self._labeling.tags
        if self._labeling.is_ready and trained_on != self.tags:
            raise ValueError(
                f"[{self.name}] the model was trained on the tags {trained_on}, but the "
                f"component's, from {self.cfg}, are {self.tags}"
            )
        return self


def add_gradient(gradient: Potentials, more: Potentials, times: float = 1) -> None:
    """Add a gradient to another in place, in the precision of the first."""
    dtype = gradient.unary.dtype
    gradient.unary[...] += (times * more.unary).astype(dtype)
    gradient.transitions[...] += (times * more.transitions).astype(dtype)
