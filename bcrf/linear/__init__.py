"""Linear chains over sparse boolean features: their learner, templates over arrays, and files.

>>> import numpy as np
>>> from bcrf.linear import OnlineLearner, OnlineSettings, Rows
>>> rows = Rows(np.array([0, 1], "int32"), np.array([0, 1, 2]))  # one feature a token
>>> learner = OnlineLearner(n_tags=2, n_features=2, settings=OnlineSettings("crf", rate=1.0))
>>> lengths, gold = np.array([2], "int32"), np.array([0, 1], "int32")
>>> learner.fit(rows, lengths, gold, passes=10)
>>> learner.potentials(rows, lengths).unary.argmax(axis=1).tolist()
[0, 1]
"""

from typing import TYPE_CHECKING, Any

from .crfsuite_model import CRFsuiteModel, read_crfsuite_model
from .features import TemplateFeatures, Tokens, hash_text
from .learner import DivergedError, OnlineLearner, OnlineSettings
from .model_bytes import SavedChain, pack, unpack
from .rows import Rows, known_rows
from .templates import Attribute, TemplateError, parse_templates

if TYPE_CHECKING:
    from bcrf.kernels.sparse import Dictionary

__all__ = [
    "Attribute",
    "CRFsuiteModel",
    "Dictionary",
    "DivergedError",
    "OnlineLearner",
    "OnlineSettings",
    "Rows",
    "SavedChain",
    "TemplateError",
    "TemplateFeatures",
    "Tokens",
    "hash_text",
    "known_rows",
    "pack",
    "parse_templates",
    "read_crfsuite_model",
    "unpack",
]


def __getattr__(name: str) -> Any:
    # At first use: the compiled learner takes longer to load than the rest.
    if name == "Dictionary":
        from bcrf.kernels.sparse import Dictionary

        return Dictionary
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
