"""`spacy-bcrf.BCRF.v1`: head of a Bregman conditional random field."""

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
    hidden_width: int = 0,
    scale: float = 2.0,
) -> Model[InT, OutT]:
    """Head trained as a Bregman conditional random field (Corro et al. 2025).

    n_iter, relaxation, tolerance, inverse_temperature: see `chain.BCRF`.
    scale: factor from scores to potentials; 1 in the paper. The entropy counts the arcs on both
        sides of an inner tag, so marginals without transitions are softmax(w / 2). The factor 2
        offsets this, and training takes fewer steps.
    Other options: see `make_head`.
    """
    objective = chain.BCRF(
        n_iter=n_iter,
        relaxation=relaxation,
        tolerance=tolerance,
        inverse_temperature=inverse_temperature,
    )
    return make_head(
        "bcrf", objective, decoder, nO, nI, transitions, transition_width, hidden_width, scale
    )
