"""Structured sequence labeling for spaCy."""

__version__ = "0.1.0"
