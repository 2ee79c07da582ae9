"""Annotation of a Doc as arrays: tags, tagging schemes, partial annotation, custom attributes."""
