"""`spacy-bcrf.CRF.v1`"""

from thinc.api import Model

from .. import chain
from .head import InT, OutT, make_head


def CRF(
    nO: int | None = None, nI: int | None = None, *, decoder: str = "viterbi"
) -> Model[InT, OutT]:
    """Head trained as a conditional random field (Lafferty et al. 2001).

    nO, nI: tags and width of the token vectors; inferred if None.
    decoder: see `decoding.DECODERS`.
    """
    return make_head("crf", chain.CRF(), decoder, nO, nI)
