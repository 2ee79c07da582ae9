"""Annotated files: readers for each format, conversion to `.spacy`, inspection and masking."""
