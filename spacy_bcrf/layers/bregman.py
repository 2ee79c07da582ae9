"""`spacy-bcrf.BCRF.v1`"""

from typing import Literal

from thinc.api import Model

from spacy_bcrf import chain

from .head import InT, OutT, Transitions, make_head


def BCRF(
    nO: int | None = None,
    nI: int | None = None,
    *,
    n_iter: int = 10,
    relaxation: float | Literal["auto"] = 1.25,
    tolerance: float | None = None,
    inverse_temperature: float = 10.0,
    decoder: str = "viterbi",
    transitions: Transitions = "shared",
    transition_width: int = 64,
    scale: float = 2.0,
) -> Model[InT, OutT]:
    """Head trained as a Bregman conditional random field (Corro et al. 2025).

    nO, nI: tags and width of the token vectors; inferred if None.
    n_iter, relaxation, tolerance, inverse_temperature: of the inference, see `chain.BCRF`.
    decoder: see `decoding.DECODERS`.
    transitions, transition_width: see `make_head`.
    scale: the potentials are the scores times this. Inside a sequence each tag has an arc on both
        sides, and the entropy of both counts: without transitions its marginals are softmax(w / 2).
        Twice the scores make up for that, and fewer steps of training do. 1 is the paper's.
    """
    objective = chain.BCRF(
        n_iter=n_iter,
        relaxation=relaxation,
        tolerance=tolerance,
        inverse_temperature=inverse_temperature,
    )
    return make_head("bcrf", objective, decoder, nO, nI, transitions, transition_width, scale)
