"""Components that predict spans: `bcrf_ner`, `bcrf_chunker` and `bcrf_spans`."""

from bcrf.chain import Potentials
from bcrf.chain.expected_entity_ratio import ExpectedEntityRatio

from .gold import Gold
from .queries import SpanQueries
from .sequence_labeler import SequenceLabeler
from .settings import EntitySettings, Setting
from .training import LossTerm, add_gradient


class EntityRecognizer(SpanQueries, SequenceLabeler):
    """Predict `Doc.ents`, which neither cross sentence starts nor have whitespace at an edge.

    Preset entities stay; with an unknown label they are outside of all predicted entities.

    >>> import spacy, spacy_bcrf
    >>> component = spacy.blank("xx").add_pipe("bcrf_ner")
    >>> isinstance(component, spacy_bcrf.EntityRecognizer)
    True
    """

    entity_ratio = Setting[ExpectedEntityRatio | None]()

    def _apply(self, settings: EntitySettings) -> list[LossTerm]:
        return [] if settings.entity_ratio is None else [self._entity_ratio_loss]

    def _entity_ratio_loss(self, potentials: Potentials, gold: Gold, gradient: Potentials) -> float:
        """Return the loss of the batch's entity ratio, times the number of documents."""
        assert self.entity_ratio is not None
        is_entity = potentials.xp.arange(len(self.tags)) > 0
        loss, more = self.entity_ratio.loss(self.inference, potentials, is_entity)
        n_docs = len(potentials.lengths)
        add_gradient(gradient, more, times=n_docs)
        return n_docs * loss


class Chunker(SpanQueries, SequenceLabeler):
    """Predict the spans of a span group. They do not overlap.

    >>> import spacy, spacy_bcrf
    >>> component = spacy.blank("xx").add_pipe("bcrf_chunker")
    >>> isinstance(component, spacy_bcrf.Chunker)
    True
    """


class OverlappingSpanRecognizer(SpanQueries, SequenceLabeler):
    """Predict the spans of a span group, with their exact posteriors in its `attrs["scores"]`.

    They may overlap, also within a label.

    >>> import spacy, spacy_bcrf
    >>> component = spacy.blank("xx").add_pipe("bcrf_spans")
    >>> isinstance(component, spacy_bcrf.OverlappingSpanRecognizer)
    True
    """
