"""`spacy-bcrf.Perceptron.v1`: head of a structured perceptron."""

from thinc.api import Model

from spacy_bcrf import chain

from .head import InT, OutT, Transitions, make_head


def Perceptron(
    nO: int | None = None,
    nI: int | None = None,
    *,
    decoder: str = "viterbi",
    transitions: Transitions = "shared",
    transition_width: int = 64,
    hidden_width: int = 0,
) -> Model[InT, OutT]:
    """Head trained as a structured perceptron (Collins 2002).

    An optimizer with `use_averages = true` makes it the averaged perceptron.

    Options: see `make_head`.
    """
    objective = chain.Perceptron()
    return make_head(
        "perceptron", objective, decoder, nO, nI, transitions, transition_width, hidden_width
    )
