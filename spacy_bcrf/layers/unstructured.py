"""`spacy-bcrf.Unstructured.v1`: head without structure."""

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
    hidden_width: int = 0,
) -> Model[InT, OutT]:
    """Head trained as a softmax over the tags of each token. Transition scores stay zero.

    Hard constraints still apply, see `chain.Unstructured.decode`.

    Options: see `make_head`.
    """
    objective = chain.Unstructured()
    return make_head(
        "unstructured", objective, decoder, nO, nI, transitions, transition_width, hidden_width
    )
