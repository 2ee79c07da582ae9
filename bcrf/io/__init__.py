"""Bytes in and out: text, JSON objects, atomic writes."""
