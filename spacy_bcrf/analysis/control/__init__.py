"""Promises of precision or recall: their evidence, their thresholds, and a watch on drift."""
