"""Custom attributes of the plug-in: their registration and their keys in `Doc.user_data`.

spaCy's key is `("._.", name, start, end)`, in characters: start and end of a span, the start of a
token and None, both None for a document.
"""

from typing import Any

from spacy.tokens import Doc, Span, Token

ANNOTATED_LABELS = "annotated_labels"
ALLOWED_TAGS = "allowed_tags"
ALLOWED_LABELS = "allowed_labels"
CONFIDENCE = "confidence"
TAG_CONFIDENCE = "tag_confidence"
SEQUENCE_ENTROPY = "sequence_entropy"
ENTROPY_PER_TOKEN = "entropy_per_token"
SEQUENCE_PROBABILITY = "sequence_probability"
CRFSUITE = "crfsuite"

EXTENSIONS: dict[type, dict[str, Any]] = {
    Doc: {
        ANNOTATED_LABELS: None,
        SEQUENCE_ENTROPY: None,
        ENTROPY_PER_TOKEN: None,
        SEQUENCE_PROBABILITY: None,
    },
    Span: {CONFIDENCE: None},
    Token: {ALLOWED_TAGS: None, ALLOWED_LABELS: None, TAG_CONFIDENCE: None, CRFSUITE: ()},
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


def doc_key(name: str) -> Key:
    return "._.", name, None, None


def token_key(name: str, offset: int) -> Key:
    return "._.", name, offset, None


def span_key(name: str, start: int, end: int) -> Key:
    return "._.", name, start, end
