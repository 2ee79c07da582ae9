"""`bcrf_chunker`: flat chunks in `Doc.spans`, as in CoNLL-2000."""

from .queries import SpanQueries
from .sequence_labeler import SequenceLabeler


class Chunker(SpanQueries, SequenceLabeler):
    """Predict the spans of a span group. They do not overlap.

    >>> import spacy, spacy_bcrf
    >>> component = spacy.blank("xx").add_pipe("bcrf_chunker")
    >>> isinstance(component, spacy_bcrf.Chunker)
    True
    """
