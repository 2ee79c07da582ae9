"""The base of all components: a codec, a model and settings."""

# Without `from __future__ import annotations`: spaCy evaluates the type hints of `initialize`.

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example, validate_examples
from spacy.util import check_lexeme_norms, logger, minibatch
from spacy.vocab import Vocab
from thinc.api import Model, Optimizer

from spacy_bcrf.annotation.extensions import set_extensions
from spacy_bcrf.annotation.html_table import html_table
from spacy_bcrf.chain import Inference, Potentials
from spacy_bcrf.chain.potentials import NotFiniteError
from spacy_bcrf.layers.protocol import LabelingModel

from . import training
from .codecs import Codec
from .gold import Gold, Problems, read_gold
from .platt_scaling import PlattScaling
from .prediction import Prediction, annotate_each, find_potentials, predict
from .settings import (
    Control,
    Setting,
    Settings,
    apply_changes,
    check_label,
    check_labels,
    check_loaded,
    check_spans_key,
    check_vectors,
    check_weights,
    record_changes,
)
from .soft_gold import rehearse
from .thresholds import write_candidates
from .training import LossTerm

GRADIENT_BATCH = 8
"""Most documents of a gradient step of a sparse linear chain."""
LOSS_TERMS = "an additional loss such as entity_ratio or label_smoothing"

_MODEL: Any = TrainablePipe.model
"""spaCy's attribute, which `SequenceLabeler.model` extends."""


class SequenceLabeler(TrainablePipe):
    """Predict the best label sequence of each document, one tag per token.

    The codec defines the tags and how a Doc stores them. The model computes their potentials.
    Shapes: B documents have N tokens in all; T is the number of tags.
    """

    annotate = Setting[tuple[str, ...]]()
    temperature = Setting[float]()
    calibration = Setting[PlattScaling | None]()
    threshold = Setting[float | dict[str, float]]()
    control = Setting[Control | None]()
    calibrated_on = Setting[tuple[str, ...]]()

    def __init__(
        self,
        vocab: Vocab,
        model: Model[list[Doc], Potentials],
        name: str,
        codec: Codec,
        settings: Settings,
        *,
        scorer: Callable | None = None,
    ) -> None:
        """model: an architecture such as `spacy-bcrf.SequenceLabeler.v1`."""
        set_extensions()
        self.name = name
        self.vocab = vocab
        self._codec = codec
        self._has_new_labels = False
        self.model = model
        self.scorer = scorer
        self.cfg: dict[str, Any] = {"labels": [], "changed": "{}", **codec.settings, **codec.state}
        self._view = LabelingModel(name, model)
        self.loss_terms: list[LossTerm] = []
        """Additional losses, added to the objective's loss and to those of the settings."""
        self._has_warned = False
        self._has_learned = False
        # `nlp.resume_training` sets it to a copy of the model.
        self._rehearsal_model: Model[list[Doc], Potentials] | None = None
        self._set_labels()
        self.typed_settings = settings
        """All settings but the decoder, which the model has."""
        settings.check(name, codec)
        self._terms = self._find_terms(settings)
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
    def labeling(self) -> LabelingModel:
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
        return self.labeling.output_layer

    def add_label(self, label: str) -> int:
        """Add a label and append its tags. RETURNS 0 if the label exists, else 1.

        The next use of the model appends the tags of all new labels at once. ValueError for a label
        that is no string, is blank, or that the annotation cannot store.
        """
        if label in self.cfg["labels"]:
            return 0
        try:
            check_label(label)
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
            if self.labeling.is_ready:
                self._resize()

    def _resize(self) -> None:
        codec = self.codec
        self.labeling.resize(codec.tags, codec.tags_per_label, codec.n_chains)

    def choose_layers(self, counts: Counter[tuple[str, int]]) -> tuple[str, str]:
        """Choose the layers from counts of the training data. RETURNS `Codec.describe`."""
        self.codec.choose_layers(counts)
        self.cfg.update(self.codec.state)
        self._set_labels()
        return self.codec.describe(counts)

    def _set_labels(self) -> None:
        """Update codec and constraints after a change of the labels."""
        self.codec.set_labels(self.labels, self.vocab.strings)
        self.labeling.constraints = self.codec.constraints

    # Settings

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that code may change, as JSON values. They are saved with the component."""
        return {**self.typed_settings.model_dump(mode="json"), "decoder": self.decoder}

    def change_setting(self, name: str, value: Any) -> None:
        """Change one of `settings`, given as a JSON value. ValueError for a wrong value."""
        if name == "decoder":
            self.set_decoder(value)
        else:
            settings = self.typed_settings.change(self.name, {name: value})
            settings.check(self.name, self._codec)
            self.typed_settings, self._terms = settings, self._find_terms(settings)

    def _find_terms(self, settings: Any) -> list[LossTerm]:
        """Return the additional losses of the settings."""
        return []

    def configure(self, name: str, value: Any) -> None:
        """Change one of `settings` together with the config: saving records no change by code."""
        self.change_setting(name, value)
        self._configured = {**self._configured, name: self.settings[name]}

    @property
    def decoder(self) -> str:
        """The name of the decoder, one of `layers.decoding.DECODERS`."""
        return self.labeling.decoder

    def set_decoder(self, name: str) -> None:
        """Set the decoder, one of `layers.decoding.DECODERS`."""
        self.labeling.set_decoder(name)

    # Prediction

    def __repr__(self) -> str:
        labels = f"{len(self.labels)} labels" if self.labels else "no labels"
        return f"<{type(self).__name__} {self.name!r}: {self.model.name}, {labels}>"

    def _repr_html_(self) -> str:
        shown = {"model": self.model.name, "labels": ", ".join(self.labels) or "none"}
        shown |= {key: str(value) for key, value in self.settings.items()}
        return html_table((type(self).__name__, self.name), shown.items())

    def find_potentials(self, docs: Sequence[Doc], ignore_annotation: bool = False) -> Potentials:
        """Return the potentials of the tags, with -inf outside of each document's lattice.

        ignore_annotation: ignore preset annotation of the component's own kind. TypeError for other
        objects than documents, ValueError for scores that are not finite.
        """
        return find_potentials(self.labeling, self.codec, docs, ignore_annotation)

    @property
    def inference(self) -> Inference:
        """The inference of all probabilities: the head's objective, or a CRF if that has none."""
        return self.labeling.inference

    def posterior(self, potentials: Potentials, temperature: float | None = None) -> Potentials:
        """Return the chain of all probabilities. temperature: by default the component's."""
        t = self.temperature if temperature is None else temperature
        return self.inference.to_crf(potentials if t == 1 else potentials.scale(1 / t))

    def decode(self, potentials: Potentials) -> NDArray[np.int32]:
        """Return the tags (N,) of the best labelings, by the decoder of the head."""
        return self.labeling.decode(potentials)

    def predict(self, docs: Iterable[Doc]) -> list[Prediction]:
        """Return the tags of each document, and the user data of `annotate`."""
        return predict(self.labeling, self.codec, self.typed_settings, list(docs))

    def write(self, docs: Sequence[Doc], predictions: Sequence[Prediction]) -> list[Doc]:
        """Write predictions. RETURNS the annotated documents: new ones if the tokens change."""
        if not docs:
            return []
        tags, user_data, candidates, scores = zip(*predictions, strict=True)
        written = self._codec.write(docs, tags, user_data)
        for doc, found, p in zip(written, candidates, scores, strict=True):
            if found is not None:
                write_candidates(doc, self.labels, found)
            if p is not None:
                self._codec.write_scores(doc, p)
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
                written = annotate_each(self, docs)
            yield from written

    # Training

    def read_gold(self, examples: Sequence[Example]) -> Gold:
        """Return what the examples teach, and why some teach nothing."""
        try:
            return read_gold(self.codec, examples, self.labeling)
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

        It makes an online step a document. With incorrect spans of several tokens, a document
        learns from the gradient of its likelihood, and with additional losses, groups of
        `GRADIENT_BATCH` documents do. Larger groups would add up many steps in one direction.
        """
        losses = {} if losses is None else losses
        examples = list(examples)
        learn = self.labeling.hooks.learn
        if learn is None:
            return self._descend(examples, drop=drop, sgd=sgd, losses=losses)
        losses.setdefault(self.name, 0.0)
        validate_examples(examples, f"{type(self).__name__}.update")
        if not any(len(example.predicted) for example in examples):
            return losses
        if self._terms or self.loss_terms:
            training.check_learns_from_gradients(self, LOSS_TERMS)
            groups = list(minibatch(examples, GRADIENT_BATCH))
        else:
            gold = self._read_batch(examples)
            docs = [example.predicted for example in examples]
            # Online steps know no other losses than the chain's objective.
            groups = [[examples[i]] for i in gold.leave_out_rejections(docs)]
            losses[self.name] += learn(self.model, docs, gold.tags, gold.lattice)
        for group in groups:
            self._descend(group, drop=drop, sgd=sgd, losses=losses)
        return losses

    def _descend(self, examples: list[Example], **options: Any) -> dict[str, float]:
        """Learn from the gradient of the loss of a batch."""
        try:
            return super().update(examples, **options)
        except NotFiniteError as error:
            raise training.diverged(self, [eg.predicted for eg in examples], error) from error

    def rehearse(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Learn to predict as the model did at the last `nlp.resume_training`.

        It ignores the references of the examples. See `soft_gold.rehearse`.
        """
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        examples = list(examples)
        validate_examples(examples, f"{type(self).__name__}.rehearse")
        docs = [example.predicted for example in examples]
        losses[self.name] += rehearse(self, self._rehearsal_model, docs, drop=drop, sgd=sgd)
        return losses

    def finish_update(self, sgd: Optimizer) -> None:
        """Update the weights, unless nothing was learned: a step would still decay them."""
        if self._has_learned:
            self._has_learned = False
            super().finish_update(sgd)

    def get_loss(self, examples: Iterable[Example], scores: Potentials) -> tuple[float, Potentials]:
        """Return the sum of the documents' losses, and its gradient."""
        # A sum, as in spaCy's tagger and ner, so that components on a shared tok2vec weigh alike.
        # In short trials the mean over tokens did better on JNLPBA, worse on EWT, mixed on WNUT17.
        examples = list(examples)
        validate_examples(examples, f"{type(self).__name__}.get_loss")
        gold = self._read_batch(examples)
        if gold.lattice is not None:
            scores = scores.restrict(self.labeling.asarray(gold.lattice))
        loss, gradient, has_learned = training.compute_loss(
            self, scores, gold, self._terms + self.loss_terms
        )
        self._has_learned |= has_learned
        return loss, gradient

    def _read_batch(self, examples: Sequence[Example]) -> Gold:
        """Read the gold of a batch. Warn about its problems, once per training."""
        gold = self.read_gold(examples)
        if not self._has_warned:
            self._has_warned = Problems.of(examples, gold).warn(self.name, "a batch")
        return gold

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        """Set the labels, by default all labels of the examples, and initialize the model.

        Reads the examples once and keeps none of them, see `training.read_corpus`. A chain with
        `two_pass` reads them once more, and keeps them until its first chain is trained. ValueError
        for a config with another number of tags, or for losses that a sparse chain cannot learn.
        """
        if self._terms or self.loss_terms:
            training.check_learns_from_gradients(self, LOSS_TERMS)
        check_lexeme_norms(self.vocab, self.name)
        if nlp is not None:
            check_spans_key(nlp, self.name, self._codec.settings.get("spans_key"))
            check_vectors(nlp, self.name, self.model)
        known = list(self.labels)

        def set_labels(found: Iterable[str]) -> None:
            self.cfg["labels"] = known[:]
            for label in found:
                self.add_label(label)
            self._has_new_labels = False
            self._set_labels()

        corpus = training.read_corpus(self, get_examples, labels, set_labels)
        chosen, lost = self.choose_layers(corpus.layers)
        if chosen:
            logger.info("[%s] %s", self.name, chosen)
        if lost:
            warnings.warn(f"[{self.name}] {lost}", stacklevel=2)
        self._resize()
        self.model.initialize(X=corpus.sample)
        training.fit_first_chains(self, get_examples)
        self._has_warned = corpus.problems.warn(self.name, "the training data")

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
        self.cfg["changed"] = record_changes(self._configured, self.settings)

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
        """Load the component, and change the settings again that code changed before saving.

        ValueError if tags or weights do not fit the config.
        """
        of_tags = {key: self.cfg[key] for key in self._codec.settings}
        # Version 0.1.0 did not save settings.
        self.cfg["changed"] = "{}"
        load(source, exclude=exclude)
        check_labels(self.name, self.cfg.get("labels"))
        apply_changes(self.name, self.cfg["changed"], self._configured, self.change_setting)
        self._codec.state = {key: self.cfg[key] for key in self._codec.state}
        self._set_labels()
        check_loaded(self.name, self.cfg, of_tags, self.labeling.tags, self.tags)
        if self.labeling.is_ready:
            check_weights(self.name, self.model)
        return self
