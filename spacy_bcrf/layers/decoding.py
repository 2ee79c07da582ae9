"""Decoders by name: functions from potentials to tag ids."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from bcrf.chain import BCRF, CRF, Inference, MeanField, Potentials, Unstructured, minimum_risk
from bcrf.kernels import Array

Decoder = Callable[[Potentials], Array]
"""Potentials to tag ids, int32 (N,). A decoder never emits a labeling that -inf forbids."""

F = "f"
"""The decoder that needs spans and thresholds, which a component has."""

DECODERS = {
    "viterbi": "the labeling with the highest score",
    "argmax": "the tag with the highest score at each token, without transitions",
    "mbr": "minimum Bayes risk: the labeling with the largest expected number of correct tags "
    "under the marginals of the head's own inference, or of a CRF if the head has none",
    "bcrf(N)": "minimum Bayes risk under the marginals of BCRF(n_iter=N, relaxation=1) on "
    "sharpened potentials, as Corro et al. (2025) decode. Options, as in "
    "bcrf(10, relaxation=1.25, flow=mean): relaxation, a number or auto; flow, outgoing or mean",
    "mf(N)": "minimum Bayes risk under the marginals of MeanField(n_iter=N)",
    F: "the spans with the largest sum of posterior - threshold, of a component of spans",
}
"""Result of each decoder. If a result violates the hard constraints, the allowed labeling with the
largest expected number of correct tags replaces it."""

_BCRF = re.compile(
    r"bcrf\((?P<n_iter>[1-9]\d*)"
    r"(?:, *relaxation=(?P<relaxation>auto|\d+(?:\.\d+)?))?"
    r"(?:, *flow=(?P<flow>outgoing|mean))?\)"
)


def get_decoder(name: str, objective: object) -> Decoder:
    """Return a decoder of DECODERS, "mbr" by the head's objective. ValueError lists the names."""
    if name in ("viterbi", F):  # a component of spans decodes for F by `pipeline.span_decoder`
        return CRF().decode
    if name == "argmax":
        return Unstructured().decode
    if name == "mbr":
        return partial(_decode, objective if isinstance(objective, Inference) else CRF())
    known = name if isinstance(name, str) else ""
    if match := re.fullmatch(r"mf\(([1-9]\d*)\)", known):
        inference: Inference = MeanField(int(match[1]))
    elif match := _BCRF.fullmatch(known):
        relaxation: Any = match["relaxation"] or 1.0
        relaxation = relaxation if relaxation == "auto" else float(relaxation)
        flow: Any = match["flow"] or "outgoing"
        inference = BCRF(int(match["n_iter"]), relaxation, flow=flow)
    else:
        raise ValueError(
            f"unknown decoder {name!r}; expected one of {', '.join(DECODERS)}, where N is a number "
            "of iterations of at least 1, as in bcrf(10) or bcrf(10, relaxation=1.25)"
        )
    return partial(_decode, inference)


def _decode(inference: Inference, potentials: Potentials) -> Array:
    """Minimum Bayes risk under the marginals of an inference."""
    return minimum_risk(potentials, inference.decoding_marginals(potentials))
