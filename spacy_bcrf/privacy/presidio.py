"""Entities with their exact probabilities for Microsoft Presidio. Needs the extra presidio."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from spacy.language import Language

from bcrf.io.extras import require
from spacy_bcrf.loading import annotate_before
from spacy_bcrf.pipeline.span_recognizers import EntityRecognizer

from .occurrences import Region
from .redact import find_regions

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
    """A Presidio recognizer whose scores are probabilities of a `bcrf_ner`. Calibrate it first."""

    def __init__(
        self,
        nlp: Language,
        pipe: str = "bcrf_ner",
        *,
        threshold: float | Literal["promise"] | None = None,
        entity_types: Mapping[str, str] | None = None,
        supported_language: str | None = None,
        **options: Any,
    ) -> None:
        """nlp: a trained pipeline with the component `pipe`, which gets `annotate: confidence`.

        threshold: None for the predicted entities, with their reported confidences. A number for
        all spans with at least this posterior, which may overlap, of no other component. "promise"
        for the regions of a recall promise, see `privacy.redact`. entity_types: by label.
        supported_language: by default the pipeline's. options: see Presidio. ValueError if `pipe`
        is no `bcrf_ner`, for a threshold not in (0, 1], or without a promise of recall.
        """
        component = dict(nlp.pipeline).get(pipe)
        if not isinstance(component, EntityRecognizer):
            ours = [name for name, x in nlp.pipeline if isinstance(x, EntityRecognizer)]
            raise ValueError(
                f"{pipe!r} is no bcrf_ner of the pipeline; it has {', '.join(ours) or 'none'}"
            )
        if threshold == "promise":
            if component.control is None or component.control.promise != "recall":
                raise ValueError(f"{pipe!r} has no promise of recall: run `control` with --recall")
        elif threshold is not None and not 0 < threshold <= 1:
            raise ValueError(f"threshold must be None, promise or in (0, 1], got {threshold}")
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
        """Return a `RecognizerResult` for each entity of Presidio's types in the text, by start."""
        result, results = _presidio.RecognizerResult, []
        recognizer = {result.RECOGNIZER_NAME_KEY: self.name}
        recognizer[result.RECOGNIZER_IDENTIFIER_KEY] = self.id
        for start, end, label, score, _ in self._find_regions(text):
            entity_type = self.entity_types.get(label)
            if entity_type in entities:
                explanation = _presidio.AnalysisExplanation(
                    recognizer=self.name,
                    original_score=score,
                    textual_explanation=f"Probability of {label} by {self._component.name}",
                )
                results.append(result(entity_type, start, end, score, explanation, {**recognizer}))
        return results

    def _find_regions(self, text: str) -> Iterator[Region]:
        if self.threshold == "promise":
            docs = list(annotate_before(self.nlp, self._component.name, [self.nlp.make_doc(text)]))
            (regions,) = find_regions(self._component, docs)
            yield from regions
            return
        doc = self.nlp(text)
        # An entity of another component has no confidence.
        found = [(ent, ent._.confidence) for ent in doc.ents if ent._.confidence is not None]
        if self.threshold is not None:
            (candidates,) = self._component.entity_candidates([doc], self.threshold)
            found = list(candidates)
        for span, score in found:
            yield Region(span.start_char, span.end_char, span.label_, score)
