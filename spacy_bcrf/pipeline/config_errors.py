"""Errors of an input in one line, with hints for wrong names of registered functions."""

import re
from collections.abc import Iterator
from configparser import Error as InterpolationError
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from bcrf.io.text import CorpusError


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Raise ValueError that names an input for an error in it. CorpusError names a file already."""
    try:
        yield
    except CorpusError:
        raise
    except (ValueError, InterpolationError) as error:
        raise ValueError(f"{path}: {explain_name(error)}") from None


def explain_name(error: Exception) -> str:
    """Return the message of an error in one line, with a hint for a wrong name or file."""
    from spacy.util import registry

    if isinstance(error, UnicodeDecodeError):
        return "is not UTF-8 text; expected a training config (.cfg)"
    message = " ".join(str(error).split())
    if errors := getattr(error, "errors", None):  # spaCy's has all values of the block too
        return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in errors)
    if any(x in message for x in ("section headers", "parsing errors", "[E985]")):
        line = re.search(r"line:? (\d+)", message)
        where = f"line {line[1]} is no section and no setting" if line else "it has no block [nlp]"
        return f"is no training config (.cfg): {where}"
    found = re.search(r"'(spacy-bcrf\.[^']*)' in function registry '(\w+)'", message)
    if not found:
        return message
    name, kind = found.groups()
    layers: Any = registry.layers
    if kind == "architectures" and name in layers.get_all():
        return (
            f"{name} is a head, which is a layer and no architecture. Set @architectures = "
            f'"spacy-bcrf.SequenceLabeler.v1" in the block [components.NAME.model], and @layers = '
            f'"{name}" in the block [components.NAME.model.head]'
        )
    known = [key for key in getattr(registry, kind).get_all() if key.startswith("spacy-bcrf.")]
    (close,) = get_close_matches(name, known, n=1) or [""]
    hint = f"Did you mean {close}? " if close else ""
    return f"@{kind} = {name!r} is unknown. {hint}spacy-bcrf has {', '.join(sorted(known))}"
