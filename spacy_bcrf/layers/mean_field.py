"""`spacy-bcrf.MeanField.v1`: head of mean-field inference."""

from thinc.api import Model

from spacy_bcrf import chain

from .head import InT, OutT, Transitions, make_head


def MeanField(
    nO: int | None = None,
    nI: int | None = None,
    *,
    n_iter: int = 10,
    decoder: str = "mbr",
    transitions: Transitions = "shared",
    transition_width: int = 64,
    hidden_width: int = 0,
) -> Model[InT, OutT]:
    """Head trained through the updates of mean-field inference (Wang et al. 2020).

    It needs complete gold labelings, see `chain.MeanField`.

    n_iter: number of updates.
    decoder: "mbr" decodes by mean-field inference itself.
    Other options: see `make_head`.
    """
    objective = chain.MeanField(n_iter=n_iter)
    return make_head(
        "mean_field", objective, decoder, nO, nI, transitions, transition_width, hidden_width
    )
