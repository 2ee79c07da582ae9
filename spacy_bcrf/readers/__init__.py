"""Corpus readers of `spacy train`, and .spacy files."""
