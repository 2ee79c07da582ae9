"""Scores of foreign taggers at the tokens of documents."""
