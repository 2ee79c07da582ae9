"""Annotated text files: readers for CoNLL-U and CoNLL columns, and conversion to `.spacy`."""
