"""Griffe extension: Markdown from the docstrings of this project.

A line `name: text` becomes an item of a list, and a paragraph of `>>> code` a code block.
"""

import re
from typing import Any

from griffe import Extension, Object

OPTION = re.compile(r"^([*\w]+(?:, [*\w]+)*|Raises \w+): ", re.MULTILINE)


class Docstrings(Extension):
    """Rewrite each docstring before mkdocstrings renders it."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Griffe calls this for each module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value)


def to_markdown(text: str) -> str:
    """Return a docstring as Markdown."""
    return "\n\n".join(map(_convert_paragraph, text.split("\n\n")))


def _convert_paragraph(text: str) -> str:
    if text.startswith(">>> "):
        return f"```pycon\n{text}\n```"
    # A list needs an empty line before it.
    items = OPTION.sub(r"- `\1`: ", text)
    return re.sub(r"\A((?!- `).*?)\n(- `)", r"\1\n\n\2", items, flags=re.DOTALL)
