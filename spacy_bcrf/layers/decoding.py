"""Decoders by name: functions from potentials to tag ids."""

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
"""Potentials to tag ids, int32 (N,). A decoder never emits a labeling that -inf forbids."""

DECODERS = {
    "viterbi": "the labeling with the highest score",
    "argmax": "the tag with the highest score at each token, without transitions",
    "mbr": "minimum Bayes risk: the labeling with the largest expected number of correct tags "
    "under the marginals of the head's own inference, or of a CRF if the head has none",
    "bcrf(N)": "minimum Bayes risk under the marginals of BCRF(n_iter=N) on sharpened potentials",
    "mf(N)": "minimum Bayes risk under the marginals of MeanField(n_iter=N)",
}
"""Result of each decoder. If a result violates the hard constraints, the allowed labeling with the
largest expected number of correct tags replaces it."""


def get_decoder(name: str, objective: object) -> Decoder:
    """Return a decoder by name, see DECODERS.

    objective: the head's training objective; "mbr" decodes with it if it is an `Inference`.

    Raises ValueError listing the known names.
    """
    if name == "viterbi":
        return _viterbi
    if name == "argmax":
        return Unstructured().decode
    if name == "mbr":
        return _MinimumRisk(objective if isinstance(objective, Inference) else CRF())
    match = re.fullmatch(r"(bcrf|mf)\((\d+)\)", name)
    if not match or int(match[2]) < 1:
        raise ValueError(
            f"unknown decoder {name!r}; expected one of {', '.join(DECODERS)}, "
            "where N is a number of iterations of at least 1, as in bcrf(10)"
        )
    n_iter = int(match[2])
    return _MinimumRisk(BCRF(n_iter) if match[1] == "bcrf" else MeanField(n_iter))


def _viterbi(potentials: Potentials) -> Array:
    return viterbi(potentials)[0]


class _MinimumRisk:
    """Minimum Bayes risk decoder under the marginals of an inference."""

    def __init__(self, inference: Inference) -> None:
        self.inference = inference

    def __call__(self, potentials: Potentials) -> Array:
        # A Bregman CRF decodes with the marginals of sharpened potentials.
        sharpness = getattr(self.inference, "inverse_temperature", 1.0)
        scaled = potentials if sharpness == 1 else potentials.scale(sharpness)
        return minimum_risk(potentials, self.inference.marginals(scaled).unary)
