"""The registered heads: an objective each, with the options of `make_head`."""

from collections.abc import Callable
from functools import wraps
from inspect import Signature, signature
from typing import Any, Literal

from thinc.api import Model

from bcrf import chain
from bcrf.kernels import RELAXATION

from .head import InT, OutT, make_head
from .protocol import Objective


def _register(name: str, **defaults: Any) -> Callable[[Callable[..., Objective]], Callable]:
    """Make a head of a function that returns an objective. The head has the options of both.

    defaults: of options of `make_head`; with one, a head has the option `scale`.
    """
    nO, nI, *common = (
        option.replace(default=defaults.get(option.name, option.default))
        for option in signature(make_head).parameters.values()
        if option.name not in ("name", "objective", "scale") or option.name in defaults
    )

    def decorate(make_objective: Callable[..., Objective]) -> Callable[..., Model[InT, OutT]]:
        own = signature(make_objective).parameters
        # Configs read the names and types of the options from the signature.
        parameters = [nO, nI, *own.values(), *common]
        options = Signature(parameters, return_annotation=Model[InT, OutT])

        @wraps(make_objective)
        def head(*args: Any, **kwargs: Any) -> Model[InT, OutT]:
            given = options.bind(*args, **kwargs).arguments
            objective = make_objective(**{k: given.pop(k) for k in own if k in given})
            return make_head(name, objective, **{**defaults, **given})

        head.__signature__ = options  # type: ignore[attr-defined]
        return head

    return decorate


@_register("crf")
def CRF() -> chain.CRF:
    """Head trained as a conditional random field (Lafferty et al. 2001), see `make_head`."""
    return chain.CRF()


@_register("bcrf", scale=2.0)
def BCRF(
    *,
    n_iter: int = 10,
    relaxation: float | Literal["auto"] = RELAXATION,
    tolerance: float | None = None,
    inverse_temperature: float = 10.0,
) -> chain.BCRF:
    """Head trained as a Bregman conditional random field (Corro et al. 2025).

    n_iter, relaxation, tolerance, inverse_temperature: see `chain.BCRF`. Others: see `make_head`.
    scale: 1 in the paper. The entropy counts the arcs on both sides of an inner tag, so marginals
    without transitions are softmax(w / 2). The default, 2, offsets this: training is faster.
    """
    return chain.BCRF(n_iter, relaxation, tolerance, inverse_temperature)


@_register("mean_field", decoder="mbr")
def MeanField(*, n_iter: int = 10) -> chain.MeanField:
    """Head trained through the updates of mean-field inference (Wang et al. 2020).

    It needs complete gold labelings, see `chain.MeanField`. Options: see `make_head`.
    """
    return chain.MeanField(n_iter)


@_register("unstructured", decoder="argmax")
def Unstructured() -> chain.Unstructured:
    """Head trained as a softmax over the tags of each token. Transition scores stay zero.

    Hard constraints still apply, see `chain.Unstructured.decode`. Options: see `make_head`.
    """
    return chain.Unstructured()


@_register("sapo")
def SAPO(
    *, n: int = 5, search: Literal["astar", "beam"] = "astar", beam_width: int = 50
) -> chain.SAPO:
    """Head trained by search-based probabilistic online learning (SAPO, Sun et al.).

    n, search, beam_width: see `chain.SAPO`. Other options: see `make_head`.
    """
    return chain.SAPO(n=n, search=search, beam_width=beam_width)


@_register("perceptron")
def Perceptron() -> chain.Perceptron:
    """Head trained as a structured perceptron (Collins 2002). Options: see `make_head`.

    An optimizer with `use_averages = true` makes it the averaged perceptron.
    """
    return chain.Perceptron()


@_register("mira")
def MIRA(
    *,
    n: int = 1,
    aggressiveness: float = 1.0,
    search: Literal["astar", "beam"] = "astar",
    beam_width: int = 50,
) -> chain.MIRA:
    """Head trained by the margin-infused relaxed algorithm, MIRA (McDonald et al. 2005).

    An optimizer with `use_averages = true` makes it averaged MIRA. n > 1 is n-best MIRA. n,
    aggressiveness, search, beam_width: see `chain.MIRA`. Other options: see `make_head`.
    """
    return chain.MIRA(n=n, aggressiveness=aggressiveness, search=search, beam_width=beam_width)
