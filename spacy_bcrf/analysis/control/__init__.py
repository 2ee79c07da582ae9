"""Promises of precision or recall: their evidence, risk and thresholds, and a monitor of drift."""

from . import evidence, monitor, risk, thresholds
from .thresholds import control

# The function takes the name of this folder in spacy_bcrf.analysis. With these attributes,
# `import spacy_bcrf.analysis.control.risk` finds the modules all the same.
vars(control).update(evidence=evidence, monitor=monitor, risk=risk, thresholds=thresholds)
