"""HTML pages without network: one style, one policy, and templates that escape all texts."""

import base64
import hashlib
import json
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

FOLDER = Path(__file__).parent
MAX_SPAN = 200
"""Largest number of characters of one part of a context."""


@cache
def _environment() -> Environment:
    found = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["number"] = lambda n: f"{n:,}"
    found.filters |= {"probability": show_probability, "split": split_context}
    return found


def render(template: str, style: str = "pages.css", script: str = "", **values: Any) -> str:
    """Return the page of a template.

    style, script: names of files, embedded in the page. Its content security policy admits no other
    style or script.
    """
    css = (FOLDER / "palette.css").read_text("utf8") + (FOLDER / style).read_text("utf8")
    js = (FOLDER / script).read_text("utf8") if script else ""
    policy = f"default-src 'none'; style-src '{_hash(css)}'"
    if js:
        policy += f"; script-src '{_hash(js)}'"
    embedded = {"style": Markup(css), "script": Markup(js), "policy": Markup(policy)}
    return _environment().get_template(template).render(**embedded, **values)


def show_probability(p: float | None) -> str:
    """Return a probability as people read it, such as 0.93 and < 0.001."""
    if p is None:
        return ""
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def split_context(example: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the parts of a context, shortened: "gold", "predicted", both or none, and the text."""
    text, offset = example["context"], example["offset"]
    spans = {
        name: (span["start"] - offset, span["end"] - offset)
        for name in ("gold", "predicted")
        if (span := example[name])
    }
    cuts = sorted({0, len(text), *(cut for span in spans.values() for cut in span)})
    for start, end in pairwise(cuts):
        names = [name for name, span in spans.items() if span[0] <= start and end <= span[1]]
        part = text[start:end]
        if len(part) > MAX_SPAN:
            part = f"{part[: MAX_SPAN // 2]} … {part[-MAX_SPAN // 2 :]}"
        yield " ".join(names), part


def as_script_json(data: Any) -> Markup:
    """Return JSON for a script element. Without "<" no text ends it or starts a comment."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))


def _hash(content: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"
