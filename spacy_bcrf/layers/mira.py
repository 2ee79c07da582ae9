"""`spacy-bcrf.MIRA.v1`"""

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
) -> Model[InT, OutT]:
    """Head trained by the margin-infused relaxed algorithm, 1-best or n-best (McDonald et al.
    2005); averaged if the optimizer has `use_averages = true`.

    nO, nI: tags and width of the token vectors; inferred if None.
    n, aggressiveness, search, beam_width: see `chain.MIRA`.
    decoder: see `decoding.DECODERS`.
    transitions, transition_width: see `make_head`.
    """
    objective = chain.MIRA(n=n, aggressiveness=aggressiveness, search=search, beam_width=beam_width)
    return make_head("mira", objective, decoder, nO, nI, transitions, transition_width)
