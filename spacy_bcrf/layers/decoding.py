"""From the name of a decoder to a function that turns potentials into tags."""

import re
from collections.abc import Callable

from spacy_bcrf.chain import (
    BCRF,
    CRF,
    Inference,
    MeanField,
    Potentials,
    Unstructured,
    minimum_risk,
    viterbi,
)
from spacy_bcrf.kernels import Array

Decoder = Callable[[Potentials], Array]
"""Potentials to tag ids, int32 (N,). Never a labeling that the potentials forbid by -inf."""

DECODERS = {
    "viterbi": "the labeling of highest score",
    "argmax": "the tag of highest score at each token, transitions ignored",
    "mbr": "minimum Bayes risk: the labeling with the largest expected number of right tags, by "
    "the marginals of the head's own inference (those of a CRF if it has none)",
    "bcrf(N)": "the same by the marginals of N Bregman projections of the sharpened potentials",
    "mf(N)": "the same by the marginals of N mean-field updates",
}
"""What each finds. Where it would use what the potentials forbid, the labeling with the largest
expected number of right tags among the allowed ones takes its place."""


def get_decoder(name: str, objective: object) -> Decoder:
    """The decoder of that name, see DECODERS, for a head that learns by `objective`.

    Raises ValueError listing the names there are.
    """
    if name == "viterbi":
        return _viterbi
    if name == "argmax":
        return Unstructured().decode
    if name == "mbr":
        return _Mbr(objective if isinstance(objective, Inference) else CRF())
    match = re.fullmatch(r"(bcrf|mf)\((\d+)\)", name)
    if not match or int(match[2]) < 1:
        raise ValueError(
            f"unknown decoder {name!r}; expected one of {', '.join(DECODERS)}, "
            "with N a number of iterations, as in bcrf(10)"
        )
    n_iter = int(match[2])
    return _Mbr(BCRF(n_iter) if match[1] == "bcrf" else MeanField(n_iter))


def _viterbi(potentials: Potentials) -> Array:
    return viterbi(potentials)[0]


class _Mbr:
    """Minimum Bayes risk by the marginals of an inference."""

    def __init__(self, inference: Inference) -> None:
        self.inference = inference

    def __call__(self, potentials: Potentials) -> Array:
        # A Bregman CRF finds its best labeling by the marginals of sharpened potentials.
        sharpness = getattr(self.inference, "inverse_temperature", 1.0)
        scaled = potentials if sharpness == 1 else potentials.scale(sharpness)
        return minimum_risk(potentials, self.inference.marginals(scaled).unary)
