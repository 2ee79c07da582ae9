"""Readers of annotated files, one format a module."""
