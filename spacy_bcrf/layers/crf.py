"""`spacy-bcrf.CRF.v1`: head of a conditional random field."""

from thinc.api import Model

from spacy_bcrf import chain

from .head import InT, OutT, Transitions, make_head


def CRF(
    nO: int | None = None,
    nI: int | None = None,
    *,
    decoder: str = "viterbi",
    transitions: Transitions = "shared",
    transition_width: int = 64,
    hidden_width: int = 0,
) -> Model[InT, OutT]:
    """Head trained as a conditional random field (Lafferty et al. 2001).

    Options: see `make_head`.
    """
    return make_head(
        "crf", chain.CRF(), decoder, nO, nI, transitions, transition_width, hidden_width
    )
