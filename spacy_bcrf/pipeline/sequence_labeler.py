"""The base of all components: a codec and a model."""

# Without `from __future__ import annotations`: spaCy evaluates the type hints of `initialize`.

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from spacy.errors import Errors
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc, Token
from spacy.training import Example, validate_examples
from spacy.util import check_lexeme_norms, minibatch
from spacy.vocab import Vocab
from thinc.api import Model, Optimizer
from tqdm import tqdm

from spacy_bcrf.annotation.arrays import UNKNOWN, DocBatch, doc_lengths
from spacy_bcrf.annotation.extensions import UserData, set_extensions
from spacy_bcrf.chain import (
    Inference,
    NotFiniteError,
    Potentials,
    raise_deferred,
    unlikelihood_loss,
)
from spacy_bcrf.layers.protocol import LabelingModel

from . import confidence
from .codecs import Codec
from .control import (
    CandidateSpan,
    Control,
    drop_uncertain,
    find_candidates,
    is_number,
    write_candidates,
)
from .gold import Gold, GoldReader, warn_of_problems
from .options import ConfigOption
from .platt_scaling import PlattScaling
from .soft_gold import check_learns_from_gradients, rehearse

GRADIENT_BATCH = 8
"""Most documents of a gradient step of a sparse linear chain."""
LOSS_TERMS = "an additional loss such as entity_ratio or label_smoothing"

_MODEL: Any = TrainablePipe.model
"""spaCy's attribute, which `SequenceLabeler.model` extends."""

NESTED_OPTIONS: dict[str, type[ConfigOption]] = {
    kind.option: kind for kind in (Control, PlattScaling)
}
"""Options of a component that are blocks in its config, by name."""

LossTerm = Callable[[Potentials, Gold, Potentials], float]
"""Returns an additional loss of a batch and adds its gradient to the last argument, in place."""


class Prediction(NamedTuple):
    """The prediction of one document.

    tags: int32 (n,). user_data: new entries of `Doc.user_data`. candidates: the spans of a recall
    promise, None without one.
    """

    tags: NDArray[np.int32]
    user_data: UserData
    candidates: list[CandidateSpan] | None = None


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
        calibration: PlattScaling | None = None,
        threshold: float = 0.0,
        control: Control | None = None,
    ) -> None:
        """model: an architecture such as `spacy-bcrf.SequenceLabeler.v1`.
        annotate: the custom attributes to write, see `confidence.ANNOTATIONS`.
        temperature: divides all scores before probabilities are computed from them.
        calibration: maps the confidences that `annotate` reports, after the temperature.
        threshold: predictions with a smaller posterior are dropped.
        control: thresholds by label that keep a promise.
        """
        self.name = name
        self.annotate = annotate
        self.temperature = temperature
        set_extensions()
        self.vocab = vocab
        self._codec = codec
        self.calibration = calibration
        self.threshold = threshold
        self.control = control
        self._has_new_labels = False
        self.model = model
        self.scorer = scorer
        self.cfg: dict[str, Any] = {"labels": [], "changed": "{}", **codec.settings}
        self._view = LabelingModel(name, model)
        self._gold = GoldReader(codec)
        self.loss_terms: list[LossTerm] = []
        """Additional losses, added to the objective's loss."""
        self._has_warned = False
        self._has_learned = False
        # `nlp.resume_training` sets it to a copy of the model.
        self._rehearsal_model: Model[list[Doc], Potentials] | None = None
        self._set_labels()
        self._configured = self.settings

    @property
    def model(self) -> Model[list[Doc], Potentials]:
        """The model, with the tags of all labels."""
        self._apply_labels()
        return _MODEL.__get__(self)

    @model.setter
    def model(self, model: Model[list[Doc], Potentials]) -> None:
        _MODEL.__set__(self, model)

    @property
    def codec(self) -> Codec:
        """Defines the tags of all labels, and how a Doc stores them."""
        self._apply_labels()
        return self._codec

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
        """Add a label and append its tags. RETURNS 0 if the label exists, else 1.

        The next use of the model appends the tags of all new labels at once. ValueError for a label
        that is no string, is blank, or that the annotation cannot store.
        """
        if not isinstance(label, str):
            raise ValueError(f"[{self.name}] a label must be a string, got {label!r}")
        if label in self.cfg["labels"]:
            return 0
        if not label.strip():
            raise ValueError(
                f"[{self.name}] a label cannot be blank, got {label!r}. No label means missing "
                "annotation"
            )
        try:
            self._codec.check_label(label)
        except ValueError as error:
            raise ValueError(f"[{self.name}] {error}") from None
        self._allow_extra_label()
        self.cfg["labels"].append(label)
        self.vocab.strings.add(label)
        self._has_new_labels = True
        return 1

    def _apply_labels(self) -> None:
        """Append the tags of new labels to codec and model. O(T^2), for any number of labels."""
        if self._has_new_labels:
            self._has_new_labels = False
            self._set_labels()
            if self._labeling.is_ready:
                self._labeling.resize(self.tags, self.codec.tags_per_label)

    def _set_labels(self) -> None:
        """Update codec, constraints and gold checks after a change of the labels."""
        self.codec.set_labels(self.labels, self.vocab.strings)
        self._labeling.constraints = self.codec.constraints
        self._gold.forget()

    # Settings

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that code may change, as JSON values. They are saved with the component."""
        return {
            "annotate": list(self.annotate),
            "decoder": self.decoder,
            "temperature": self.temperature,
            "calibration": None if self.calibration is None else self.calibration.options,
            "threshold": self.threshold,
            "control": None if self.control is None else self.control.options,
        }

    def change_setting(self, name: str, value: Any) -> None:
        """Change one of `settings`, given as a JSON value."""
        if name == "decoder":
            self.set_decoder(value)
        elif name in NESTED_OPTIONS and value is not None:
            setattr(self, name, NESTED_OPTIONS[name].from_options(value))
        else:
            setattr(self, name, value)

    def configure(self, name: str, value: Any) -> None:
        """Change one of `settings` together with the config: saving records no change by code."""
        self.change_setting(name, value)
        self._configured = {**self._configured, name: self.settings[name]}

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

    @property
    def calibration(self) -> PlattScaling | None:
        """Maps the confidences that `annotate` reports, after the temperature.

        Decoding, thresholds and all other queries use the exact posteriors.
        """
        return self._calibration

    @calibration.setter
    def calibration(self, value: PlattScaling | None) -> None:
        if value is not None:
            self.check_grouping(value.by)
        self._calibration = value

    def check_grouping(self, by: str) -> None:
        """Raise ValueError if predictions have no such group: a tag has no length."""
        if by == "length" and self._codec.confidence_units["confidence"] == "token":
            raise ValueError(
                f"[{self.name}] calibration by length needs spans, but the component predicts "
                f"{self._codec.what}. Calibrate by label"
            )

    @property
    def threshold(self) -> float:
        """Predictions with a smaller posterior are dropped, in [0, 1].

        A dropped span is outside of all spans, a dropped tag is empty. Preset annotation stays.
        """
        return self._threshold

    @threshold.setter
    def threshold(self, threshold: float) -> None:
        if not is_number(threshold, 0, 1):
            raise ValueError(
                f"[{self.name}] threshold must be a number from 0 to 1, got {threshold!r}"
            )
        if threshold:
            self.check_promise("precision")
        self._threshold = threshold

    @property
    def control(self) -> Control | None:
        """Thresholds by label that keep a promise. They replace `threshold` for their labels."""
        return self._control

    @control.setter
    def control(self, value: Control | None) -> None:
        if value is not None:
            self.check_promise(value.promise)
        self._control = value

    def check_promise(self, promise: str) -> None:
        """Raise ValueError if the annotation cannot hold a promise of precision or recall."""
        unit = self._codec.confidence_units["confidence"]
        if unit == "word":
            raise ValueError(
                f"[{self.name}] words cannot be left out: thresholds need entities, chunks or tags"
            )
        if unit == "token" and promise == "recall":
            raise ValueError(
                f"[{self.name}] a recall promise writes candidate spans, but the component "
                f"predicts {self._codec.what}. Promise precision"
            )

    @property
    def decoder(self) -> str:
        """The name of the decoder, one of `layers.decoding.DECODERS`."""
        return self._labeling.decoder

    def set_decoder(self, name: str) -> None:
        """Set the decoder, one of `layers.decoding.DECODERS`."""
        self._labeling.set_decoder(name)

    # Prediction

    def find_potentials(self, docs: Sequence[Doc], ignore_annotation: bool = False) -> Potentials:
        """Return the potentials of the tags, with -inf outside of each document's lattice.

        ignore_annotation: ignore preset annotation of the component's own kind. TypeError for other
        objects than documents, ValueError for scores that are not finite.
        """
        self._check_docs(docs)
        if not any(len(doc) for doc in docs):
            nothing = np.ones((0, max(1, len(self.tags))), dtype=bool)
            return self._labeling.zero_potentials(doc_lengths(docs), nothing)
        labeling = self._labeling
        docs = list(docs)
        if self._codec.attributes:
            docs = DocBatch(docs, (*self._codec.attributes, *labeling.columns))
        try:
            potentials = labeling.model.predict(docs)
        except NotFiniteError as error:
            raise ValueError(
                f"[{self.name}] the scores of {_describe(docs, error)} are NaN or infinite. The "
                "weights of the pipeline or its vectors have such values: repair the vectors, or "
                "train again"
            ) from error
        return self._codec.restrict(potentials, docs, labeling.model.ops, ignore_annotation)

    def _check_docs(self, docs: Sequence[Doc]) -> None:
        """Raise TypeError for another object than a document."""
        for doc in docs:
            if not isinstance(doc, Doc):
                if isinstance(doc, Token):
                    raise TypeError(f"[{self.name}] expected documents, got a Doc: pass [doc]")
                raise TypeError(
                    f"[{self.name}] expected documents, got {type(doc).__name__} {doc!r:.40}. "
                    "nlp(text) makes one; a segmenter takes nlp.make_doc(text)"
                )

    @property
    def inference(self) -> Inference:
        """The inference of all probabilities: the head's objective, or a CRF if that has none."""
        return self._labeling.inference

    def posterior(self, potentials: Potentials, temperature: float | None = None) -> Potentials:
        """Return the chain of all probabilities: `Inference.to_crf` after temperature.

        temperature: by default the component's.
        """
        divisor = self._temperature if temperature is None else temperature
        return self.inference.to_crf(potentials if divisor == 1 else potentials.scale(1 / divisor))

    def decode(self, potentials: Potentials) -> NDArray[np.int32]:
        """Return the tags (N,) of the best labelings, by the decoder of the head."""
        model = self._labeling.model
        ops: Any = model.ops
        return ops.to_numpy(model.get_ref("output_layer").attrs["decoder"].decode(potentials))

    def predict(self, docs: Iterable[Doc]) -> list[Prediction]:
        """Return the tags of each document, and the user data of `annotate`."""
        docs = list(docs)
        if not docs:
            return []
        potentials = self.find_potentials(docs)
        tags = self.decode(potentials)
        user_data: list[UserData] = [{} for _ in docs]
        candidates: Sequence[list[CandidateSpan] | None] = [None] * len(docs)
        ops = self.model.ops
        lengths = ops.to_numpy(potentials.lengths)
        if self._annotate or self._threshold or self._control:
            posterior = self.posterior(potentials)
            predicted = confidence.Predicted(
                docs, lengths, posterior, tags, self._codec, ops, self._calibration
            )
            if self._threshold or self._control:
                self._check_temperature()
                tags = drop_uncertain(predicted, self._control, self._threshold)
                predicted = predicted._replace(tags=tags)
            if self._control and self._control.promise == "recall":
                candidates = find_candidates(predicted, self._control)
            user_data = confidence.annotate_predictions(self._annotate, predicted)
        # np.split costs four times as much for many short documents.
        bounds = pairwise([0, *lengths.cumsum().tolist()])
        by_doc = [tags[start:stop] for start, stop in bounds]
        return [Prediction(*parts) for parts in zip(by_doc, user_data, candidates, strict=True)]

    def _check_temperature(self) -> None:
        """Raise ValueError if the temperature has changed since `control` was fitted."""
        if self._control and self._control.temperature != self._temperature:
            raise ValueError(
                f"[{self.name}] control has thresholds for the temperature "
                f"{self._control.temperature:g}, but the temperature is {self._temperature:g}. "
                "Run `python -m spacy bcrf control` again, or set control to None"
            )

    def write(self, docs: Sequence[Doc], predictions: Sequence[Prediction]) -> list[Doc]:
        """Write predictions. RETURNS the annotated documents: new ones if the tokens change."""
        if not docs:
            return []
        tags, user_data, candidates = zip(*predictions, strict=True)
        written = self._codec.write(docs, tags, user_data)
        for doc, found in zip(written, candidates, strict=True):
            if found is not None:
                write_candidates(doc, self.labels, found)
        return written

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
        """Yield the annotated documents.

        If a batch fails, each of its documents is annotated alone. So the error handler gets only
        the documents that fail, and the others are yielded.
        """
        for docs in minibatch(stream, size=batch_size):
            try:
                written: Iterable[Doc] = self.write(docs, self.predict(docs))
            except Exception:
                written = self._annotate_each(docs)
            yield from written

    def _annotate_each(self, docs: Sequence[Doc]) -> Iterator[Doc]:
        """Yield the annotated documents. Report those that fail to the error handler."""
        for doc in docs:
            try:
                written = self.write([doc], self.predict([doc]))
            except Exception as error:
                self.get_error_handler()(self.name, self, [doc], error)
            else:
                yield from written

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
            lattice = self._codec.lattice([example.predicted for example in examples])
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
        """Learn from a batch. A sparse linear chain does not use the optimizer.

        It makes an online step a document. Online steps know no other losses than the chain's
        objective. So a document with an incorrect span of several tokens learns from the gradient
        of its likelihood, and with `loss_terms`, groups of `GRADIENT_BATCH` documents do. Each
        token then makes an AdaGrad step. Larger groups would add up many steps in one direction.
        """
        losses = {} if losses is None else losses
        examples = list(examples)
        learn = self._labeling.hooks.learn
        if learn is None:
            return self._descend(examples, drop, sgd, losses)
        losses.setdefault(self.name, 0.0)
        validate_examples(examples, f"{type(self).__name__}.update")
        docs = [example.predicted for example in examples]
        if not any(map(len, docs)):
            return losses
        if self.loss_terms:
            check_learns_from_gradients(self, LOSS_TERMS)
            for group in minibatch(examples, GRADIENT_BATCH):
                self._descend(group, drop, sgd, losses)
            return losses
        gold, lattice = self._read_gold(examples)
        self._warn("a batch", examples, gold.problems)
        rejected = gold.leave_out_rejections(docs)
        losses[self.name] += learn(self.model, docs, gold.tags, lattice)
        for i in rejected:
            self._descend([examples[i]], drop, sgd, losses)
        return losses

    def _descend(
        self,
        examples: list[Example],
        drop: float,
        sgd: Optimizer | None,
        losses: dict[str, float],
    ) -> dict[str, float]:
        """Learn from the gradient of the loss of a batch."""
        try:
            return super().update(examples, drop=drop, sgd=sgd, losses=losses)
        except NotFiniteError as error:
            docs = [example.predicted for example in examples]
            is_chain = self._labeling.hooks.learn is not None
            remedy = (
                "Lower the rate of the sparse linear chain"
                if is_chain
                else "Lower training.optimizer.learn_rate, or set training.optimizer.grad_clip. "
                "If the first step fails, check the vectors"
            )
            raise ValueError(
                f"[{self.name}] training diverged: the scores of {_describe(docs, error)} are "
                f"NaN or infinite. {remedy}"
            ) from error

    def rehearse(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Learn to predict as the model did at the last `nlp.resume_training`.

        Without `nlp.resume_training`, it warns and learns nothing. The loss is the cross-entropy
        against the marginals of the earlier model, see `soft_gold.rehearse`. It ignores the
        references of the examples.
        """
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        examples = list(examples)
        validate_examples(examples, f"{type(self).__name__}.rehearse")
        if self._rehearsal_model is None:
            warnings.warn(
                f"[{self.name}] rehearsal needs a copy of the trained model: call "
                "nlp.resume_training before the first update",
                stacklevel=2,
            )
            return losses
        docs = [example.predicted for example in examples]
        losses[self.name] += rehearse(self, self._rehearsal_model, docs, drop=drop, sgd=sgd)
        return losses

    def finish_update(self, sgd: Optimizer) -> None:
        """Update the weights, unless no gradient was computed since the last update.

        Without gold annotation nothing was learned. A step would still decay the weights.
        """
        if self._has_learned:
            self._has_learned = False
            super().finish_update(sgd)

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

    def _set_loss_term(self, term: LossTerm, is_used: bool) -> None:
        """Add a loss term, or remove it. Code may have added terms of its own."""
        if term in self.loss_terms:
            self.loss_terms.remove(term)
        if is_used:
            self.loss_terms.append(term)

    def _compute_loss(self, potentials: Potentials, gold: Gold) -> tuple[float, Potentials]:
        losses, gradient = self._labeling.objective.loss(potentials, gold.tags)
        loss = float(losses.sum())
        if type(losses) is not np.ndarray:
            raise_deferred(losses)
        more_loss = 0.0
        if gold.rejections:
            allowed = potentials.restrict(gold.tags)
            losses, more = unlikelihood_loss(self.inference, allowed, gold.rejections)
            more_loss += float(losses.sum())
            add_gradient(gradient, more)
        more_loss += sum(term(potentials, gold, gradient) for term in self.loss_terms)
        tags = gold.tags
        is_annotated = not tags.all() if tags.dtype == bool else (tags != UNKNOWN).any()
        if is_annotated or more_loss:
            self._has_learned = True
        return loss + more_loss, gradient

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        """Set the labels, by default all labels of the examples, and initialize the model.

        ValueError without any label, for examples with labels outside of `labels`, for a config
        with another number of tags, or for loss terms that a sparse chain cannot learn. A warning
        if labels are given but no example has one.
        """
        if isinstance(labels, str):
            raise ValueError(f"[{self.name}] labels must be a list of strings, got {labels!r}")
        if self.loss_terms:
            check_learns_from_gradients(self, LOSS_TERMS)
        method = f"{type(self).__name__}.initialize"
        # spaCy's validate_get_examples would read the corpus once more.
        if not callable(get_examples):
            raise TypeError(Errors.E930.format(method=method, obj=type(get_examples)))
        check_lexeme_norms(self.vocab, self.name)
        what = f"[{self.name}] reading"
        examples = list(tqdm(get_examples(), what, delay=5, leave=False, unit="docs", disable=None))
        validate_examples(examples, method)
        if not examples:
            raise ValueError(Errors.E923.format(name=self.name))
        found = sorted(set().union(*(self.codec.find_labels(eg.reference) for eg in examples)))
        for label in found if labels is None else labels:
            self.add_label(label)
        if not self.labels:
            raise ValueError(
                f"[{self.name}] no labels: none of the {len(examples)} training documents has "
                f"{self._codec.what}. {self._codec.where_lost}Annotate the documents, call "
                f"add_label, or set initialize.components.{self.name}.labels"
            )
        # Without a corpus, nlp.initialize passes one document without annotation.
        if not found and len(examples) > 1:
            warnings.warn(
                f"[{self.name}] none of the {len(examples)} training documents has "
                f"{self._codec.what}. Training cannot learn the labels",
                stacklevel=2,
            )
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

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return the component as bytes, with its settings."""
        self._record_settings()
        return super().to_bytes(exclude=exclude)

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the component to a folder, with its settings."""
        self._record_settings()
        super().to_disk(path, exclude=exclude)

    def _record_settings(self) -> None:
        """Record the settings that code has changed, each as (value in the config, value)."""
        self._apply_labels()
        changed = {
            name: (self._configured[name], value)
            for name, value in self.settings.items()
            if value != self._configured[name]
        }
        # spaCy's own JSON reader changes the last digit of some numbers.
        self.cfg["changed"] = json.dumps(changed)

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "SequenceLabeler":
        """Load the component from bytes. ValueError if it does not fit the config."""
        return self._load(super().from_bytes, bytes_data, exclude)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "SequenceLabeler":
        """Load the component from a folder. ValueError if it does not fit the config."""
        try:
            return self._load(super().from_disk, path, exclude)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        except (Exception, MemoryError) as error:  # thinc and msgpack raise any for damaged files
            raise ValueError(
                f"{path}: [{self.name}] the files are damaged, or of another version "
                f"({type(error).__name__}: {error}); restore them, or train the component again"
            ) from error

    def _load(self, load: Callable, source: Any, exclude: Iterable[str]) -> "SequenceLabeler":
        """Load the component.

        A setting that code changed before saving is changed again, unless the config sets another
        value than the config of the saved component. ValueError if the settings of the tags differ
        from the config, or if the weights belong to other tags.
        """
        of_tags = {key: self.cfg[key] for key in self._codec.settings}
        # Version 0.1.0 did not save settings.
        self.cfg["changed"] = "{}"
        load(source, exclude=exclude)
        labels = self.cfg.get("labels")
        if not (isinstance(labels, list) and all(isinstance(label, str) for label in labels)):
            raise ValueError(f"[{self.name}] cfg is damaged: labels must be a list of strings")
        for name, (configured, value) in json.loads(self.cfg["changed"]).items():
            if name not in self._configured:
                raise ValueError(
                    f"[{self.name}] the saved component has the unknown setting {name!r}; expected "
                    f"one of {', '.join(self._configured)}"
                )
            if self._configured[name] == configured:
                self.change_setting(name, value)
        for key, value in of_tags.items():
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
        if self._labeling.is_ready:
            for node in self.model.walk():
                if missing := [name for name in node.param_names if not node.has_param(name)]:
                    raise ValueError(
                        f"[{self.name}] the model is damaged: its layer {node.name} has no "
                        f"{', '.join(missing)}; restore it, or train the component again"
                    )
        return self


def _describe(docs: Sequence[Doc], error: NotFiniteError) -> str:
    """Name the document of an error by its index and the start of its text."""
    if error.sequence is None:
        return "all documents"
    return f"document {error.sequence}, {docs[error.sequence].text[:40]!r},"


def add_gradient(gradient: Potentials, more: Potentials, times: float = 1) -> None:
    """Add a gradient to another in place, in the precision of the first."""
    dtype = gradient.unary.dtype
    gradient.unary[...] += (times * more.unary).astype(dtype)
    gradient.transitions[...] += (times * more.transitions).astype(dtype)
