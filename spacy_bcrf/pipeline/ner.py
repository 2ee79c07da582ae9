"""`bcrf_ner`: named entities as tags of a scheme, under its hard constraints."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from spacy.pipeline.ner import ner_score  # type: ignore[import-not-found]
from spacy.tokens import Doc
from spacy.vocab import Vocab
from thinc.api import Model

from spacy_bcrf.annotation.partial import AMBIGUOUS, INCORRECT
from spacy_bcrf.chain import ExpectedEntityRatio, Potentials

from .codecs import EntityCodec
from .control import Control
from .gold import Gold
from .platt_scaling import PlattScaling
from .queries import PosteriorQueries, SpanQueries
from .sequence_labeler import SequenceLabeler, add_gradient


class EntityRecognizer(PosteriorQueries, SpanQueries, SequenceLabeler):
    """Predict `Doc.ents`.

    Entities do not cross sentence starts, have no whitespace at an edge, and keep preset entities.
    A preset entity with an unknown label is outside of all predicted entities.

    >>> import spacy, spacy_bcrf
    >>> component = spacy.blank("xx").add_pipe("bcrf_ner")
    >>> isinstance(component, spacy_bcrf.EntityRecognizer)
    True
    """

    def __init__(
        self,
        vocab: Vocab,
        model: Model[list[Doc], Potentials],
        name: str = "bcrf_ner",
        *,
        scheme: str = "BILUO",
        scorer: Callable | None = ner_score,
        incorrect_spans_key: str | None = INCORRECT,
        ambiguous_spans_key: str | None = AMBIGUOUS,
        entity_ratio: ExpectedEntityRatio | None = None,
        annotate: Sequence[str] = (),
        temperature: float = 1.0,
        calibration: PlattScaling | None = None,
        threshold: float = 0.0,
        control: Control | None = None,
    ) -> None:
        """scheme: BILUO, BIO or BIES.
        incorrect_spans_key, ambiguous_spans_key: span groups of gold documents with incorrect and
        ambiguous spans, see `annotation.partial`; None to ignore them.
        entity_ratio: the expected share of tokens in entities, as a loss on each batch.
        scorer, annotate, temperature, calibration, threshold, control: see `SequenceLabeler`.
        """
        # `settings` needs it before the base has the list of losses.
        self._entity_ratio = entity_ratio
        super().__init__(
            vocab,
            model,
            name,
            EntityCodec(scheme, incorrect_spans_key, ambiguous_spans_key),
            scorer=scorer,
            annotate=annotate,
            temperature=temperature,
            calibration=calibration,
            threshold=threshold,
            control=control,
        )
        self.entity_ratio = entity_ratio

    @property
    def entity_ratio(self) -> ExpectedEntityRatio | None:
        """The expected share of tokens in entities, as a loss on each batch."""
        return self._entity_ratio

    @entity_ratio.setter
    def entity_ratio(self, entity_ratio: ExpectedEntityRatio | None) -> None:
        self._entity_ratio = entity_ratio
        self._set_loss_term(self._entity_ratio_loss, entity_ratio is not None)

    @property
    def settings(self) -> dict[str, Any]:
        """See `SequenceLabeler.settings`."""
        options = None if self._entity_ratio is None else asdict(self._entity_ratio)
        return {**super().settings, "entity_ratio": options}

    def change_setting(self, name: str, value: Any) -> None:
        """See `SequenceLabeler.change_setting`."""
        if name == "entity_ratio" and value is not None:
            value = ExpectedEntityRatio.from_options(value)
        super().change_setting(name, value)

    def _entity_ratio_loss(self, potentials: Potentials, gold: Gold, gradient: Potentials) -> float:
        """Return the loss of the batch's entity ratio, times the number of documents."""
        assert self._entity_ratio is not None
        is_entity = potentials.xp.arange(len(self.tags)) > 0
        loss, more = self._entity_ratio.loss(self.inference, potentials, is_entity)
        n_docs = len(potentials.lengths)
        add_gradient(gradient, more, times=n_docs)
        return n_docs * loss
