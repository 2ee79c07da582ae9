"""HTML page of label suspects."""

from collections.abc import Sequence
from html import escape
from typing import Any

MAX_SHOWN = 2000
"""Largest number of suspects on a page."""

CONTEXT = 80
"""Number of characters shown on each side."""

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ font: 14px system-ui, sans-serif; margin: 2em; color: #222; overflow-wrap: anywhere }}
table {{ border-collapse: collapse }}
td, th {{ border-top: 1px solid #ddd; padding: 4px 10px 4px 0; text-align: left;
  vertical-align: top }}
mark {{ background: #fde3a7; padding: 1px 2px }}
.number {{ text-align: right; white-space: nowrap }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{n} suspects, the most suspicious first{shown}. The score is the log-odds of an error. The
annotated span is marked; if an entity may be missing, its place is.</p>
<table>
<tr><th>score</th><th>kind</th><th>document</th><th>text</th><th>gold</th><th>suggestion</th></tr>
{rows}
</table>
</body>
</html>
"""


def audit_page(name: str, records: Sequence[dict[str, Any]]) -> str:
    """Return the page of the records of `audit`. name: of the corpus."""
    shown = records[:MAX_SHOWN]
    return _PAGE.format(
        title=escape(f"Label suspects of {name}"),
        n=f"{len(records):,}",
        shown=f"; the first {len(shown):,} are shown" if len(shown) < len(records) else "",
        rows="\n".join(map(_row, shown)),
    )


def _row(record: dict[str, Any]) -> str:
    text, start, end = record["text"], record["start"], record["end"]
    before, after = text[max(0, start - CONTEXT) : start], text[end : end + CONTEXT]
    marked = f"{escape(before)}<mark>{escape(text[start:end])}</mark>{escape(after)}"
    gold = "no span" if record["label"] is None else record["label"]
    other = record["suggestion"]
    suggestion = "no span" if other is None else other["label"]
    if record["kind"] == "boundary":
        suggestion = f"{suggestion}: {text[other['start'] : other['end']]}"
    cells = [
        f'<td class="number">{record["score"]:.2f}</td>',
        f"<td>{escape(record['kind'])}</td>",
        f'<td class="number">{record["doc"]}</td>',
        f"<td>{marked}</td>",
        f"<td>{escape(gold)} ({record['p_gold']:.2g})</td>",
        f"<td>{escape(suggestion)} ({record['p_suggestion']:.2g})</td>",
    ]
    return f"<tr>{''.join(cells)}</tr>"
