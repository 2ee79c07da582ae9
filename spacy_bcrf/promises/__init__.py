"""Calibration, guarantees of precision or recall, and drift."""
