"""Evaluation: reports, label errors, explanations, rankings."""
