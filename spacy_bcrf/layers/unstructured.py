"""`spacy-bcrf.Unstructured.v1`"""

from thinc.api import Model

from .. import chain
from .head import InT, OutT, make_head


def Unstructured(
    nO: int | None = None, nI: int | None = None, *, decoder: str = "argmax"
) -> Model[InT, OutT]:
    """Head trained as a softmax over the tags of each token; its transitions stay zero.

    What a scheme forbids is kept all the same: see `chain.Unstructured.decode`.

    nO, nI: tags and width of the token vectors; inferred if None.
    decoder: see `decoding.DECODERS`.
    """
    return make_head("unstructured", chain.Unstructured(), decoder, nO, nI)
