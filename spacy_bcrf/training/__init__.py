"""Workbench: everything before and around `spacy train`."""
