"""Surrogates for Microsoft Presidio's anonymizer. Needs the extra presidio."""

from typing import Any

from bcrf.io.extras import require

from .replacer import STYLES, Replacer

_operators = require("presidio_anonymizer.operators", "presidio")
_Base: Any = _operators.Operator


class BCRFReplace(_Base):
    """The operator "bcrf_replace" for `AnonymizerEngine.add_anonymizer`, see `privacy.redact`.

    Parameters: `style`, and a `key` for surrogates, equal for equal words and keys in all texts.
    """

    def operate(self, text: str, params: dict[str, Any] | None = None) -> str:
        given = params or {}
        replacer = Replacer(given.get("style", "surrogate"), str(given.get("key", "")).encode())
        return replacer.replace(text, given.get("entity_type", ""))

    def validate(self, params: dict[str, Any] | None = None) -> None:
        """Raise ValueError for an unknown style, or for surrogates without a key."""
        style, key = ((params or {}).get(name) for name in ("style", "key"))
        if style not in (None, *STYLES):
            raise ValueError(f"style must be one of {', '.join(STYLES)}, got {style!r}")
        if style == "numbered":
            raise ValueError("style numbered is one of `redact`: an operator knows no document")
        if style in (None, "surrogate", "shifted") and not key:
            raise ValueError("key is missing: surrogates need a secret text")

    def operator_name(self) -> str:
        return "bcrf_replace"

    def operator_type(self) -> Any:
        return _operators.OperatorType.Anonymize
