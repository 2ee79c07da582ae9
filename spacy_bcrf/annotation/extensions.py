"""Custom attributes of the plug-in: their registration and their keys in `Doc.user_data`."""

from typing import Any

from spacy.tokens import Doc, Span, Token

EXTENSIONS: dict[type, dict[str, Any]] = {
    Doc: dict.fromkeys(
        ("annotated_labels", "sequence_entropy", "entropy_per_token", "sequence_probability")
    ),
    Span: {"confidence": None},
    Token: {"allowed_tags": None, "allowed_labels": None, "tag_confidence": None, "crfsuite": ()},
}
"""Default values of the custom attributes by the class that holds them."""

UserData = dict[Any, Any]
"""Entries for `Doc.user_data`."""

Key = tuple[str, str, int | None, int | None]


def set_extensions() -> None:
    """Register all custom attributes that are not registered yet.

    >>> import spacy, spacy_bcrf
    >>> spacy_bcrf.set_extensions()
    >>> doc = spacy.blank("xx")("Ada left")
    >>> doc._.annotated_labels = ["PERSON"]
    """
    for holder, defaults in EXTENSIONS.items():
        for name, default in defaults.items():
            if not holder.has_extension(name):  # type: ignore[attr-defined]
                holder.set_extension(name, default=default)  # type: ignore[attr-defined]


def make_key(name: str, start: int | None = None, end: int | None = None) -> Key:
    """Return spaCy's key of an attribute. start: character of a span or token. end: of a span."""
    return "._.", name, start, end
