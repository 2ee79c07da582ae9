"""Entities with their exact probabilities for Microsoft Presidio. Needs the extra presidio."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spacy.language import Language
from spacy.tokens import Span

from spacy_bcrf.io.extras import require
from spacy_bcrf.pipeline.ner import EntityRecognizer

_presidio = require("presidio_analyzer", "presidio")
_Base: Any = _presidio.EntityRecognizer

ENTITY_TYPES = {
    "PER": "PERSON",
    "LOC": "LOCATION",
    "GPE": "LOCATION",
    "ORG": "ORGANIZATION",
    "NORP": "NRP",
    "DATE": "DATE_TIME",
    "TIME": "DATE_TIME",
}
"""Presidio's entity types by label. Other labels are entity types themselves."""


class BCRFRecognizer(_Base):
    """A Presidio recognizer whose scores are the probabilities of a `bcrf_ner`.

    Presidio's own recognizer for spaCy gives all entities the same score. Calibrate the pipeline
    first, since raw confidences are too high.
    """

    def __init__(
        self,
        nlp: Language,
        pipe: str = "bcrf_ner",
        *,
        threshold: float | None = None,
        entity_types: Mapping[str, str] | None = None,
        supported_language: str | None = None,
        **options: Any,
    ) -> None:
        """nlp: a trained pipeline with the component `pipe`, which gets `annotate: confidence`.
        threshold: None for the predicted entities, with their reported confidences. A number for
            all spans with at least this posterior probability, which may overlap: a low threshold
            finds more personal data. It ignores entities of other components.
        entity_types: Presidio's entity types by label, by default `ENTITY_TYPES`.
        supported_language: by default the language of the pipeline.
        options: see `presidio_analyzer.EntityRecognizer`.

        ValueError if `pipe` is no `bcrf_ner`, or if the threshold is not in (0, 1].
        """
        component = dict(nlp.pipeline).get(pipe)
        if not isinstance(component, EntityRecognizer):
            ours = [name for name, x in nlp.pipeline if isinstance(x, EntityRecognizer)]
            raise ValueError(
                f"{pipe!r} is no bcrf_ner of the pipeline; it has {', '.join(ours) or 'none'}"
            )
        if threshold is not None and not 0 < threshold <= 1:
            raise ValueError(f"threshold must be None or in (0, 1], got {threshold}")
        if "confidence" not in component.annotate:
            component.annotate = (*component.annotate, "confidence")
        self.nlp = nlp
        self.threshold = threshold
        self._component = component
        types = ENTITY_TYPES if entity_types is None else entity_types
        self.entity_types = {label: types.get(label, label) for label in component.labels}
        super().__init__(
            supported_entities=sorted(set(self.entity_types.values())),
            supported_language=supported_language or nlp.lang,
            **options,
        )

    def load(self) -> None:
        """Do nothing: the pipeline is loaded."""

    def analyze(self, text: str, entities: Sequence[str], nlp_artifacts: Any = None) -> list[Any]:
        """Return a `RecognizerResult` for each entity of the given types, by start.

        entities: Presidio's entity types. nlp_artifacts: not used, since the pipeline reads the
        text itself.
        """
        results = []
        for span, score in self._find_spans(text):
            entity_type = self.entity_types.get(span.label_)
            if entity_type in entities:
                explanation = _presidio.AnalysisExplanation(
                    recognizer=self.name,
                    original_score=score,
                    textual_explanation=f"Probability of {span.label_} by {self._component.name}",
                )
                results.append(
                    _presidio.RecognizerResult(
                        entity_type,
                        span.start_char,
                        span.end_char,
                        score,
                        explanation,
                        {
                            _presidio.RecognizerResult.RECOGNIZER_NAME_KEY: self.name,
                            _presidio.RecognizerResult.RECOGNIZER_IDENTIFIER_KEY: self.id,
                        },
                    )
                )
        return results

    def _find_spans(self, text: str) -> Iterator[tuple[Span, float]]:
        doc = self.nlp(text)
        if self.threshold is None:
            # An entity of another component has no confidence.
            for ent in doc.ents:
                if ent._.confidence is not None:
                    yield ent, ent._.confidence
        else:
            (candidates,) = self._component.entity_candidates([doc], self.threshold)
            yield from candidates
