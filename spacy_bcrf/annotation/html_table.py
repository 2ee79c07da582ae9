"""Tables for notebooks."""

from collections.abc import Iterable, Sequence
from html import escape


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table. Texts are escaped."""
    lines = [("th", header), *(("td", row) for row in rows)]
    body = "".join(
        "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row) + "</tr>"
        for tag, row in lines
    )
    return f"<table>{body}</table>"
