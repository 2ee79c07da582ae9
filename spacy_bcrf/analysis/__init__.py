"""What one does with trained pipelines: functions that return dataclasses.

Each result has a `repr` and `to_json`; those that people look at have a table in notebooks and
`plot()`, which returns a Matplotlib figure.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# A module is imported at the first use of its function.
_MODULES = {
    "aggregate": "crowd",
    "audit": "suspects",
    "calibrate": "calibration",
    "combine": "combination",
    "control": "promises",
    "distill": "distillation",
    "distill_annotators": "distillation",
    "explain": "weights",
    "extend": "extension",
    "learning_curve": "curve",
    "list_promises": "promises",
    "make_examples": "loading",
    "migrate_config": "migration",
    "measure_leaks": "redaction",
    "monitor": "drift",
    "rank": "ranking",
    "redact": "redaction",
    "report": "reporting",
    "report_config": "gold_report",
    "report_gold": "gold_report",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
