"""The base of all components: a codec, a model and settings."""

# Without `from __future__ import annotations`: spaCy evaluates the type hints of `initialize`.

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

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
from spacy_bcrf.layers.decoding import F
from spacy_bcrf.layers.model_taggers import find_taggers
from spacy_bcrf.layers.protocol import LabelingModel

from . import training
from .apply_thresholds import write_candidates
from .calibration import measure_written
from .codecs import Codec
from .gold import Gold, GoldProblems, make_gold
from .held_out import HeldOut
from .platt_scaling import PlattScaling
from .predict_in_parts import predict_in_parts
from .prediction import Prediction, batches, predict
from .saving import SavedComponent
from .scorers import note_scorer
from .settings import (
    Control,
    FittedSetting,
    Setting,
    Settings,
    check_label,
    find_configured,
    record_changes,
)
from .soft_gold import rehearse
from .span_decoder import check_decoder
from .training import LossTerm

if TYPE_CHECKING:
    from .stream import Stream

_MODEL: Any = TrainablePipe.model
"""spaCy's attribute, which `SequenceLabeler.model` extends."""


class SequenceLabeler(SavedComponent):
    """Predict the best label sequence of each document, one of T tags per token.

    The codec says how a Doc stores the tags, the model computes potentials. N tokens, B documents.
    loss_terms: additional losses, added to the objective's loss and the losses of the settings.
    """

    annotate = Setting[tuple[str, ...]]()
    temperature = FittedSetting[float]()
    calibration = Setting[PlattScaling | None]()
    threshold = FittedSetting[float | dict[str, float]]()
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
        self._held_out = HeldOut()
        self._set_labels()
        self.settings = settings
        settings.check(name, codec)
        check_decoder(name, codec, self._view.decoder)
        self._terms = self._apply(settings)

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
        model = self.model
        if self._view.model is not model or self._view.name != self.name:
            self._view = LabelingModel(self.name, model)
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

    def settings_as_json(self) -> dict[str, Any]:
        """Return the settings that code may change, and the decoder, which the model has."""
        return {**self.settings.model_dump(mode="json"), "decoder": self.decoder}

    def change_setting(self, name: str, value: Any) -> None:
        """Change one of `settings_as_json`, given as a JSON value. ValueError for a wrong value."""
        before = self.settings_as_json()
        if name == "decoder":
            check_decoder(self.name, self._codec, value)
            self.labeling.set_decoder(value)
        else:
            settings = self.settings.change(self.name, {name: value})
            settings.check(self.name, self._codec)
            self.settings, self._terms = settings, self._apply(settings)
        # They are saved with the component.
        self.cfg["changed"] = record_changes(self.cfg["changed"], before, self.settings_as_json())

    def end_fit(self) -> None:
        """Fit the settings that training fits, if the component has learned since, and no more."""
        self._held_out.end_fit(self)

    def _apply(self, settings: Any) -> list[LossTerm]:
        """Apply the settings of a subclass. RETURNS the losses that they add."""
        return []

    @property
    def decoder(self) -> str:
        """The name of the decoder, one of `layers.decoding.DECODERS`."""
        return self.labeling.decoder

    def set_decoder(self, name: str) -> None:
        """Set the decoder, one of `layers.decoding.DECODERS`. A fitted threshold goes with "f"."""
        if self.decoder == F != name:
            configured = find_configured(self.cfg["changed"], self.settings_as_json())
            self.change_setting("threshold", configured["threshold"])
        self.change_setting("decoder", name)

    # Prediction

    def __repr__(self) -> str:
        labels = counted(len(self.labels), "label") if self.labels else "no labels"
        return f"<{type(self).__name__} {self.name!r}: {self.model.name}, {labels}>"

    def _repr_html_(self) -> str:
        shown = {"model": self.model.name, "labels": ", ".join(self.labels) or "none"}
        shown |= {key: str(value) for key, value in self.settings_as_json().items()}
        return html_table((type(self).__name__, self.name), shown.items())

    def predict(self, docs: Iterable[Doc], settings: Settings | None = None) -> list[Prediction]:
        """Return tags and user data of each document. settings: by default the component's."""
        if self._held_out.is_stale:
            self._held_out.calibrate_before(self)
        labeling = self.labeling
        return predict(self._codec, labeling, list(docs), settings or self.settings)

    def write(self, docs: Sequence[Doc], predictions: Sequence[Prediction]) -> list[Doc]:
        """Write predictions. RETURNS the annotated documents: new ones if the tokens change."""
        if not docs:
            return []
        tags, user_data, candidates, spans = zip(*predictions, strict=True)
        codec = self._codec
        written = codec.write(docs, tags, spans)
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
        """Yield the annotated documents. The error handler gets only documents that fail alone."""

        def annotate(docs: Sequence[Doc]) -> list[Doc]:
            return self.write(docs, self.predict(docs))

        for docs in batches(self.labeling, stream, batch_size):
            for doc, found in zip(docs, predict_in_parts(annotate, docs), strict=True):
                if isinstance(found, Exception):
                    self.get_error_handler()(self.name, self, [doc], found)
                else:
                    yield found

    def stream(self, tokenizer: Callable[[str], Doc] | None = None, **options: Any) -> "Stream":
        """Return a stream, which annotates a text in pieces. tokenizer: None to feed documents."""
        from .stream import Stream  # few pipelines stream, and the import takes a while

        return Stream(self, tokenizer, **options)

    # Training

    def read_gold(self, examples: Sequence[Example]) -> Gold:
        """Return what the examples teach, and why some teach nothing."""
        labeling = self.labeling
        try:
            return make_gold(self._codec, examples, labeling)
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
        if self._held_out.examples:
            self._held_out.note_learned()
        if labeling.hooks.learn is not None:
            losses.setdefault(self.name, 0.0)
            validate_examples(groups[0], f"{type(self).__name__}.update")
            if self._held_out.examples:
                groups[0] = self._held_out.leave_out(groups[0])
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

    def score(self, examples: Iterable[Example], **settings: Any) -> dict[str, Any]:
        """Return the scores of the scorer, and the calibration error if probabilities are written.

        Warns of gold spans that a scorer of others lacks.
        """
        examples = list(examples)
        self._held_out.note_scored()
        found: dict[str, Any] = super().score(examples, **settings)
        if self.annotate and (error := measure_written(self.codec, examples)) is not None:
            found[f"{self.name}_ece"] = error
        n = sum(len(self.codec.find_misaligned(example.reference)) for example in examples)
        for note in note_scorer(self.name, self.scorer, n):
            warnings.warn(note, stacklevel=2)
        return found

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
            problems = GoldProblems()
            problems.add(examples, gold.problems)
            self._has_warned = problems.warn(self.name, "a batch")
        docs = [example.predicted for example in examples]
        found = self._held_out.find(examples) if self._held_out.examples else []
        return gold.leave_out(docs, found) if found else gold

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        labels: Sequence[str] | None = None,
        hold_out: bool = True,
    ) -> None:
        """Set the labels, by default all of the examples, and initialize the model, see `training`.

        hold_out: learn all but some of the examples, see `held_out.Blocks`, and fit the temperature
        on them whenever the weights have changed. It reads the examples once, with `two_pass`
        twice. ValueError for a config with another number of tags, or for losses that a sparse
        chain cannot learn.
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

        corpus = training.scan_corpus(self, get_examples, labels, set_labels, nlp)
        if nlp is not None:
            training.check_output(nlp, self.name, self._codec, [doc.text for doc in corpus.sample])
        training.report_layers(self.name, self._codec, *self.choose_layers(corpus.layers))
        self._resize()
        self.model.initialize(X=corpus.sample)
        held_out = corpus.blocks.choose() if hold_out else []
        fits = not find_configured(self.cfg["changed"], self.settings_as_json())["threshold"]
        self._held_out = HeldOut(held_out, corpus.n_docs, nlp, fits_threshold=fits)
        training.fit_first_chains(self, get_examples, self._held_out)
        if taggers := find_taggers(self.model):
            self.cfg["scores"] = {tagger.name: tagger.merge.extended for tagger in taggers}
        self._has_warned = corpus.problems.warn(self.name, "the training data")
