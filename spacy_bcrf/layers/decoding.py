"""From the name of a decoder to a function that turns potentials into tags."""

from collections.abc import Callable
from functools import partial

from ..chain import Inference, Potentials, minimum_risk, viterbi
from ..kernels import Array, array_module

Decoder = Callable[[Potentials], Array]
"""Potentials to tag ids, int32 (N,). Never a labeling that the potentials forbid by -inf."""


def get_decoder(name: str, inference: Inference) -> Decoder:
    """The decoder of that name, one of DECODERS, for a head that infers with `inference`.

    "viterbi" is the best-scored labeling; "mbr" (minimum Bayes risk) the one with the largest
    expected number of right tags by the marginals of `inference`.
    Raises ValueError listing the names there are.
    """
    if name not in DECODERS:
        raise ValueError(f"unknown decoder {name!r}; expected one of {', '.join(DECODERS)}")
    return partial(DECODERS[name], inference)


def _viterbi(_: Inference, potentials: Potentials) -> Array:
    return viterbi(potentials)[0]


def _minimum_bayes_risk(inference: Inference, potentials: Potentials) -> Array:
    # A Bregman CRF finds its best labeling by the marginals of sharpened potentials.
    sharpness = getattr(inference, "inverse_temperature", 1.0)
    scaled = potentials if sharpness == 1 else potentials.scale(sharpness)
    marginals = inference.marginals(scaled).unary
    xp = array_module(marginals)
    if xp.isneginf(potentials.transitions).any():
        return minimum_risk(potentials, marginals)
    return marginals.argmax(axis=1).astype("int32")


DECODERS: dict[str, Callable[[Inference, Potentials], Array]] = {
    "viterbi": _viterbi,
    "mbr": _minimum_bayes_risk,
}
