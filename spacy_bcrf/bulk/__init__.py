"""Bulk annotation: shards of documents, annotated by one or many workers, each exactly once."""
