"""`spacy-bcrf.SAPO.v1`: head of SAPO."""

from typing import Literal

from thinc.api import Model

from spacy_bcrf import chain

from .head import InT, OutT, Transitions, make_head


def SAPO(
    nO: int | None = None,
    nI: int | None = None,
    *,
    n: int = 5,
    search: Literal["astar", "beam"] = "astar",
    beam_width: int = 50,
    decoder: str = "viterbi",
    transitions: Transitions = "shared",
    transition_width: int = 64,
    hidden_width: int = 0,
) -> Model[InT, OutT]:
    """Head trained by search-based probabilistic online learning (SAPO, Sun et al.).

    n, search, beam_width: see `chain.SAPO`.
    Other options: see `make_head`.
    """
    objective = chain.SAPO(n=n, search=search, beam_width=beam_width)
    return make_head(
        "sapo", objective, decoder, nO, nI, transitions, transition_width, hidden_width
    )
