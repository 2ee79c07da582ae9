"""`spacy-bcrf.MIRA.v1`: head of MIRA."""

from typing import Literal

from thinc.api import Model

from spacy_bcrf import chain

from .head import InT, OutT, Transitions, make_head


def MIRA(
    nO: int | None = None,
    nI: int | None = None,
    *,
    n: int = 1,
    aggressiveness: float = 1.0,
    search: Literal["astar", "beam"] = "astar",
    beam_width: int = 50,
    decoder: str = "viterbi",
    transitions: Transitions = "shared",
    transition_width: int = 64,
    hidden_width: int = 0,
) -> Model[InT, OutT]:
    """Head trained by the margin-infused relaxed algorithm, MIRA (McDonald et al. 2005).

    An optimizer with `use_averages = true` makes it averaged MIRA. n > 1 is n-best MIRA.

    n, aggressiveness, search, beam_width: see `chain.MIRA`.
    Other options: see `make_head`.
    """
    objective = chain.MIRA(n=n, aggressiveness=aggressiveness, search=search, beam_width=beam_width)
    return make_head(
        "mira", objective, decoder, nO, nI, transitions, transition_width, hidden_width
    )
