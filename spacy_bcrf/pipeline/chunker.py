"""`bcrf_chunker`: flat chunks in `Doc.spans`, as in CoNLL-2000."""

from collections.abc import Callable, Sequence

from spacy.tokens import Doc
from spacy.vocab import Vocab
from thinc.api import Model

from spacy_bcrf.chain import Potentials

from .codecs import SpanGroupCodec
from .control import Control
from .platt_scaling import PlattScaling
from .queries import PosteriorQueries, SpanQueries
from .sequence_labeler import SequenceLabeler


class Chunker(PosteriorQueries, SpanQueries, SequenceLabeler):
    """Predict the spans of a span group. They do not overlap.

    >>> import spacy, spacy_bcrf
    >>> component = spacy.blank("xx").add_pipe("bcrf_chunker")
    >>> isinstance(component, spacy_bcrf.Chunker)
    True
    """

    def __init__(
        self,
        vocab: Vocab,
        model: Model[list[Doc], Potentials],
        name: str = "bcrf_chunker",
        *,
        scheme: str = "BIO",
        spans_key: str = "chunks",
        scorer: Callable | None = None,
        annotate: Sequence[str] = (),
        temperature: float = 1.0,
        calibration: PlattScaling | None = None,
        threshold: float = 0.0,
        control: Control | None = None,
    ) -> None:
        """scheme: BILUO, BIO or BIES. spans_key: the name of the group.
        scorer, annotate, temperature, calibration, threshold, control: see `SequenceLabeler`.
        """
        super().__init__(
            vocab,
            model,
            name,
            SpanGroupCodec(scheme, spans_key),
            scorer=scorer,
            annotate=annotate,
            temperature=temperature,
            calibration=calibration,
            threshold=threshold,
            control=control,
        )
