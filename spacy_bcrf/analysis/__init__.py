"""What one does with trained pipelines: functions that return dataclasses.

Each result has a `repr` and `to_json`. Results that people look at have a table in notebooks and
`plot()`, which returns a Matplotlib figure.

A function has the name of its module, and takes the name here: `analysis.audit` is the function.
`from spacy_bcrf.analysis.audit import ..` reaches the module.
"""

from .aggregate import aggregate
from .audit import audit
from .calibrate import calibrate
from .combine import combine
from .control import control
from .control.monitor import monitor
from .control.thresholds import list_promises
from .distill import distill, distill_annotators
from .explain import explain
from .extend import extend
from .gold_report import report_config, report_corpora, report_gold
from .learning_curve import learning_curve
from .loading import make_examples
from .migrate import import_crfsuite, migrate_config
from .rank import rank
from .redact import measure_leaks, redact
from .report import report
from .tune import tune

__all__ = [
    "aggregate",
    "audit",
    "calibrate",
    "combine",
    "control",
    "distill",
    "distill_annotators",
    "explain",
    "extend",
    "import_crfsuite",
    "learning_curve",
    "list_promises",
    "make_examples",
    "measure_leaks",
    "migrate_config",
    "monitor",
    "rank",
    "redact",
    "report",
    "report_config",
    "report_corpora",
    "report_gold",
    "tune",
]
