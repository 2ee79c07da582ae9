"""The base of all components: a codec, a model and settings."""

# Without `from __future__ import annotations`: spaCy evaluates the type hints of `initialize`.

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example, validate_examples
from spacy.util import check_lexeme_norms
from spacy.vocab import Vocab
from thinc.api import Model, Optimizer

from bcrf.chain import Potentials
from bcrf.chain.potentials import NotFiniteError, counted
from spacy_bcrf.annotation.display import html_table
from spacy_bcrf.annotation.extensions import set_extensions
from spacy_bcrf.layers.protocol import LabelingModel

from . import training
from .apply_thresholds import write_candidates
from .codecs import Codec
from .gold import Gold, Problems, read_gold
from .load_checks import check_loaded, find_damaged
from .platt_scaling import PlattScaling
from .predict_in_parts import predict_in_parts
from .prediction import Prediction, batches, predict
from .queries import PosteriorQueries
from .settings import Control, Setting, Settings, apply_changes, check_label, record_changes
from .soft_gold import rehearse
from .stream import Stream
from .training import LossTerm

_MODEL: Any = TrainablePipe.model
"""spaCy's attribute, which `SequenceLabeler.model` extends."""


class SequenceLabeler(PosteriorQueries, TrainablePipe):
    """Predict the best label sequence of each document, one of T tags per token.

    The codec says how a Doc stores the tags, the model computes potentials. N tokens, B documents.
    loss_terms: additional losses, added to the objective's loss and to those of the settings.
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
        self.name, self.vocab, self.scorer = name, vocab, scorer
        self._codec = codec
        self._has_new_labels = False
        self.model = model
        self.cfg: dict[str, Any] = {"labels": [], "changed": "{}", **codec.settings, **codec.state}
        self._view = LabelingModel(name, model)
        self.loss_terms: list[LossTerm] = []
        self._has_warned = self._has_learned = False
        # `nlp.resume_training` sets it to a copy of the model.
        self._rehearsal_model: Model[list[Doc], Potentials] | None = None
        self._set_labels()
        self.typed_settings = settings  # without the decoder, which the model has
        settings.check(name, codec)
        self._terms = self._apply(settings)
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
        """Add a label and its tags. RETURNS 0 if the label exists, else 1.

        The next use of the model appends the tags of all new labels. Errors: see `check_label`.
        """
        if label in self.cfg["labels"]:
            return 0
        check_label(self.name, self._codec, label)
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
        codec = self._codec
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
        self.head.attrs["constraints"] = self.codec.constraints

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
            self.typed_settings, self._terms = settings, self._apply(settings)
            self._record_changes()

    def _apply(self, settings: Any) -> list[LossTerm]:
        """Apply the settings of a subclass. RETURNS the losses that they add."""
        return []

    def _record_changes(self) -> None:
        """Record the settings that code has changed, which are saved with the component."""
        self.cfg["changed"] = record_changes(self._configured, self.settings)

    @property
    def decoder(self) -> str:
        """The name of the decoder, one of `layers.decoding.DECODERS`."""
        return self.labeling.decoder

    def set_decoder(self, name: str) -> None:
        """Set the decoder, one of `layers.decoding.DECODERS`."""
        self.labeling.set_decoder(name)
        self._record_changes()

    # Prediction

    def __repr__(self) -> str:
        labels = counted(len(self.labels), "label") if self.labels else "no labels"
        return f"<{type(self).__name__} {self.name!r}: {self.model.name}, {labels}>"

    def _repr_html_(self) -> str:
        shown = {"model": self.model.name, "labels": ", ".join(self.labels) or "none"}
        shown |= {key: str(value) for key, value in self.settings.items()}
        return html_table((type(self).__name__, self.name), shown.items())

    def predict(self, docs: Iterable[Doc], settings: Settings | None = None) -> list[Prediction]:
        """Return tags and user data of each document. settings: by default the component's."""
        return predict(self.codec, self.labeling, list(docs), settings or self.typed_settings)

    def write(self, docs: Sequence[Doc], predictions: Sequence[Prediction]) -> list[Doc]:
        """Write predictions. RETURNS the annotated documents: new ones if the tokens change."""
        if not docs:
            return []
        tags, user_data, candidates, spans = zip(*predictions, strict=True)
        codec = self._codec
        written = codec.write_spans(docs, spans) if codec.may_overlap else codec.write(docs, tags)
        for doc, data, found in zip(written, user_data, candidates, strict=True):
            doc.user_data.update(data)
            if found is not None:
                write_candidates(doc, codec.labels, found)
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
        """Yield the annotated documents. The error handler gets only those that fail alone."""

        def annotate(docs: Sequence[Doc]) -> list[Doc]:
            return self.write(docs, self.predict(docs))

        for docs in batches(self.labeling, stream, batch_size):
            for doc, found in zip(docs, predict_in_parts(annotate, docs), strict=True):
                if isinstance(found, Exception):
                    self.get_error_handler()(self.name, self, [doc], found)
                else:
                    yield found

    def stream(self, tokenizer: Callable[[str], Doc] | None = None, **options: Any) -> Stream:
        """Return a stream, which annotates a text in pieces. tokenizer: None to feed documents."""
        return Stream(self, tokenizer, **options)

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
        """Learn from a batch. A sparse linear chain makes online steps, see `learn_online`."""
        losses = {} if losses is None else losses
        groups, labeling = [list(examples)], self.labeling
        if labeling.hooks.learn is not None:
            losses.setdefault(self.name, 0.0)
            validate_examples(groups[0], f"{type(self).__name__}.update")
            if not any(len(example.predicted) for example in groups[0]):
                return losses
            gold = None if self._loss_terms() else self._read_batch(groups[0])
            loss, groups = training.learn_online(labeling, groups[0], gold)
            losses[self.name] += loss
        for group in groups:
            try:
                super().update(group, drop=drop, sgd=sgd, losses=losses)
            except NotFiniteError as error:
                raise training.diverged(self, [eg.predicted for eg in group], error) from error
        return losses

    def _loss_terms(self) -> list[LossTerm]:
        """Return all additional losses. ValueError if the model cannot learn them."""
        terms = self._terms + self.loss_terms
        if terms:
            training.check_learns_from_gradients(self, training.LOSS_TERMS)
        return terms

    def rehearse(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Learn to predict as at the last `nlp.resume_training`, see `soft_gold.rehearse`."""
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
        examples = list(examples)
        validate_examples(examples, f"{type(self).__name__}.get_loss")
        gold = self._read_batch(examples)
        loss, gradient, has_learned = training.compute_loss(self, scores, gold, self._loss_terms())
        self._has_learned |= has_learned
        return loss, gradient

    def _read_batch(self, examples: Sequence[Example]) -> Gold:
        """Read the gold of a batch. Warn about its problems, once per training."""
        gold = self.read_gold(examples)
        if not self._has_warned:
            problems = Problems()
            problems.add(examples, gold.problems)
            self._has_warned = problems.warn(self.name, "a batch")
        return gold

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        """Set the labels, by default all of the examples, and initialize the model, see `training`.

        It reads the examples once, with `two_pass` twice. ValueError for a config with another
        number of tags, or for losses that a sparse chain cannot learn.
        """
        self._loss_terms()
        check_lexeme_norms(self.vocab, self.name)
        if nlp is not None:
            training.check_pipeline(nlp, self.name, self.model, self._codec)
        known = list(self.labels)

        def set_labels(found: Iterable[str]) -> None:
            self.cfg["labels"] = known[:]
            for label in found:
                self.add_label(label)
            self._has_new_labels = False
            self._set_labels()

        corpus = training.read_corpus(self, get_examples, labels, set_labels)
        training.report_layers(self.name, self._codec, *self.choose_layers(corpus.layers))
        self._resize()
        self.model.initialize(X=corpus.sample)
        training.fit_first_chains(self, get_examples)
        self._has_warned = corpus.problems.warn(self.name, "the training data")

    # Serialization

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "SequenceLabeler":
        """Load the component from bytes. ValueError if it does not fit the config."""
        return self._load(super().from_bytes, bytes_data, exclude)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "SequenceLabeler":
        """Load the component from a folder. ValueError if it does not fit the config."""
        try:
            return self._load(super().from_disk, path, exclude)
        except ValueError as error:
            raise ValueError(f"{find_damaged(path)}: {error}") from error
        except (Exception, MemoryError) as error:  # thinc and msgpack raise any for damaged files
            raise ValueError(
                f"{find_damaged(path)}: [{self.name}] the files are damaged, or of another version "
                f"({type(error).__name__}: {error}); restore them, or train the component again"
            ) from error

    def _load(self, load: Callable, source: Any, exclude: Iterable[str]) -> "SequenceLabeler":
        """Load the component, and change the settings again that code changed before saving."""
        of_tags = {key: self.cfg[key] for key in self._codec.settings}
        self.cfg["changed"] = "{}"  # Version 0.1.0 did not save settings.
        load(source, exclude=exclude)
        labels = self.cfg.get("labels")
        if not (isinstance(labels, list) and all(isinstance(label, str) for label in labels)):
            raise ValueError(f"[{self.name}] cfg is damaged: labels must be a list of strings")
        apply_changes(self.name, self.cfg["changed"], self._configured, self.change_setting)
        self._record_changes()
        self._codec.state = {key: self.cfg[key] for key in self._codec.state}
        self._set_labels()
        check_loaded(self.labeling, self.cfg, of_tags, self.tags)
        return self
