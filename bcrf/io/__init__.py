"""Bytes in and out: text, DocBin shards, JSON objects, atomic writes."""
