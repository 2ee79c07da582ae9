"""The training parameters of CRFsuite, as settings of our learners."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from bcrf.chain.potentials import check_least, check_positive

from .lbfgs import LBFGSSettings
from .learner import OnlineSettings

OBJECTIVES = {"online": "crf", "ap": "perceptron", "pa": "mira"}
"""The objective of `OnlineSettings` for each algorithm with online steps."""
RATE = 0.3
"""Learning rate of AdaGrad for "online"."""

_PARAMETERS = {
    "online": {"max_iterations"},
    "lbfgs": {
        *("c1", "c2", "max_iterations", "num_memories", "epsilon", "period", "delta"),
        *("linesearch", "max_linesearch"),
    },
    "l2sgd": {
        *("c2", "max_iterations", "period", "delta", "calibration_eta", "calibration_rate"),
        *("calibration_samples", "calibration_candidates", "calibration_max_trials"),
    },
    "ap": {"max_iterations", "epsilon"},
    "pa": {"max_iterations", "epsilon", "pa_type", "c", "error_sensitive", "averaging"},
    "arow": {"max_iterations", "epsilon", "variance", "gamma"},
}
_ALL = set().union(*_PARAMETERS.values())


def read_settings(parameters: Mapping[str, Any]) -> OnlineSettings | LBFGSSettings:
    """Return the settings of the learner or of the optimizer.

    parameters: arguments of `bcrf.sklearn.CRF`, by name; None stands for the default. Raises
    ValueError for a parameter without a counterpart, and for one of another algorithm.
    """
    given = {name for name in _ALL if parameters[name] is not None}
    algorithm = parameters["algorithm"]
    if parameters["learner"] is not None:
        others = given | {"algorithm"} if algorithm else given
        return _check_learner(parameters["learner"], others)
    if algorithm is None:
        algorithm = "online" if given <= _PARAMETERS["online"] else "lbfgs"
    if algorithm not in _PARAMETERS or algorithm == "arow":
        raise ValueError(
            f"algorithm={algorithm!r} has no counterpart; use one of lbfgs, l2sgd, ap, pa"
        )
    taken = _PARAMETERS[algorithm]
    for name in sorted(given - taken):
        raise ValueError(
            f"{name} is no parameter of algorithm={algorithm!r}; it has {', '.join(sorted(taken))}"
        )
    kept = {"pa_type": (None, 1), "error_sensitive": (None, True), "trainer_cls": (None,)}
    for name, values in kept.items():
        if parameters[name] not in values:
            raise ValueError(
                f"{name}={parameters[name]!r} has no counterpart; expected {values[-1]!r}"
            )
    if parameters["max_iterations"] is not None:
        check_least(1, max_iterations=parameters["max_iterations"])
    if algorithm not in OBJECTIVES:
        known = given & {field.name for field in fields(LBFGSSettings)}
        return LBFGSSettings(**{name: parameters[name] for name in known})
    objective: Any = OBJECTIVES[algorithm]
    c = 1.0 if parameters["c"] is None else parameters["c"]
    check_positive(c=c)
    return OnlineSettings(
        objective,
        n=1,
        optimizer="adagrad" if objective == "crf" else "sgd",
        rate={"crf": RATE, "perceptron": 1.0}.get(objective, c),
        averaged=parameters["averaging"] is not False,
    )


def _check_learner(learner: OnlineSettings, given: set[str]) -> OnlineSettings:
    if given - {"max_iterations"}:
        names = ", ".join(sorted(given - {"max_iterations"}))
        raise ValueError(f"learner takes the place of {names}: give one or the other")
    if not isinstance(learner, OnlineSettings):
        raise ValueError(f"learner must be bcrf.linear.OnlineSettings, got {learner!r}")
    if learner.order != 1 or learner.objective in ("bcrf", "mean_field"):
        raise ValueError(
            f"learner has the objective {learner.objective} and order {learner.order}; expected "
            "crf, sapo, perceptron or mira, and order 1"
        )
    return learner
