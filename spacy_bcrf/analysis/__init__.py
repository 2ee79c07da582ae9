"""What one does with trained pipelines: functions that return dataclasses.

Each result has a `repr` and `to_json`. Results that people look at have a table in notebooks and
`plot()`, which returns a Matplotlib figure.

A function has the name of its module, and takes the name here: `analysis.audit` is the function.
`from spacy_bcrf.analysis.audit import ..` reaches the module.
"""

from .aggregate import aggregate as aggregate
from .audit import audit as audit
from .calibrate import calibrate as calibrate
from .combine import combine as combine
from .control import control as control
from .control.monitor import monitor as monitor
from .control.thresholds import list_promises as list_promises
from .distill import distill as distill
from .distill import distill_aggregated as distill_aggregated
from .distill import distill_annotators as distill_annotators
from .explain import explain as explain
from .extend import extend as extend
from .gold_report import report_config as report_config
from .gold_report import report_corpora as report_corpora
from .learning_curve import learning_curve as learning_curve
from .loading import make_examples as make_examples
from .migrate import import_crfsuite as import_crfsuite
from .migrate import migrate_config as migrate_config
from .rank import rank as rank
from .redact import measure_leaks as measure_leaks
from .redact import redact as redact
from .redact_stream import RedactionStream as RedactionStream
from .redact_stream import StreamReport as StreamReport
from .report import report as report
from .tune import tune as tune
