"""Structured sequence labeling for spaCy."""

__version__ = "0.2.0.dev0"
