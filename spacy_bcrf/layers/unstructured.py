"""`spacy-bcrf.Unstructured.v1`"""

from thinc.api import Model

from spacy_bcrf import chain

from .head import InT, OutT, Transitions, make_head


def Unstructured(
    nO: int | None = None,
    nI: int | None = None,
    *,
    decoder: str = "argmax",
    transitions: Transitions = "shared",
    transition_width: int = 64,
) -> Model[InT, OutT]:
    """Head trained as a softmax over the tags of each token; its transitions stay zero.

    What a scheme forbids is kept all the same: see `chain.Unstructured.decode`.

    nO, nI: tags and width of the token vectors; inferred if None.
    decoder: see `decoding.DECODERS`.
    transitions, transition_width: see `make_head`.
    """
    objective = chain.Unstructured()
    return make_head("unstructured", objective, decoder, nO, nI, transitions, transition_width)
