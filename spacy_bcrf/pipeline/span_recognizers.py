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

    >>> import spacy
    >>> spacy.blank("xx").add_pipe("bcrf_ner")
    <EntityRecognizer 'bcrf_ner': linear_chain, no labels>
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

    >>> import spacy
    >>> spacy.blank("xx").add_pipe("bcrf_chunker")
    <Chunker 'bcrf_chunker': linear_chain, no labels>
    """


class OverlappingSpanRecognizer(SpanQueries, SequenceLabeler):
    """Predict spans of a group that may overlap, with exact posteriors in its `attrs["scores"]`.

    >>> import spacy
    >>> spacy.blank("xx").add_pipe("bcrf_spans")
    <OverlappingSpanRecognizer 'bcrf_spans': linear_chain, no labels>
    """
