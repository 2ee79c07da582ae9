"""Exact inference and learning for linear-chain sequence labeling, over NumPy and CuPy arrays.

>>> import numpy as np
>>> import bcrf
>>> w = bcrf.Potentials(np.zeros((3, 2)), np.zeros((2, 2)), np.array([3], dtype="int32"))
>>> bcrf.CRF().log_partition(w).round(3)  # log of 8 labelings
array([2.079])

`bcrf.torch` has layers for PyTorch, `bcrf.sklearn` the interface of sklearn-crfsuite, and
`bcrf.linear` chains over sparse features. The package needs NumPy alone.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bcrf.chain import *  # noqa: F403

__version__ = "0.3.0"


# spaCy imports the package at each start, for its entry points. So `chain` waits for its first use.
def __getattr__(name: str) -> Any:
    if name == "__all__":
        return [*import_module("bcrf.chain").__all__, "__version__"]
    if not name.startswith("_") and name in (chain := import_module("bcrf.chain")).__all__:
        return getattr(chain, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__getattr__("__all__"))
