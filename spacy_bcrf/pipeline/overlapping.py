"""`bcrf_spans`: spans that may overlap, in `Doc.spans`."""

from .queries import SpanQueries
from .sequence_labeler import SequenceLabeler


class OverlappingSpanRecognizer(SpanQueries, SequenceLabeler):
    """Predict the spans of a span group. They may overlap, also within a label.

    `Doc.spans[spans_key].attrs["scores"]` has their exact posterior probabilities.

    >>> import spacy, spacy_bcrf
    >>> component = spacy.blank("xx").add_pipe("bcrf_spans")
    >>> isinstance(component, spacy_bcrf.OverlappingSpanRecognizer)
    True
    """
