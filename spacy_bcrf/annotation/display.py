"""Predicted spans with probabilities, as a picture or a pandas frame, and tables for notebooks."""

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib import import_module
from typing import Any

from spacy.tokens import Doc, Span

from bcrf.io.extras import require

from .extensions import UserData, make_key, set_extensions

COLUMNS = ("doc", "text", "label", "start", "end", "start_char", "end_char", "probability")


def displacy(
    doc: Doc, spans_key: str | None = None, *, options: dict[str, Any] | None = None, **render: Any
) -> str:
    """Draw the spans of a document with their probabilities, by `spacy.displacy`.

    A component writes them with `annotate = ["confidence"]`. Other spans have the label alone.

    spans_key: None for `doc.ents`, else a group of `doc.spans`, such as "chunks" or "candidates".
    options: options of displaCy, such as `{"colors": {"PERSON": "#aaf"}}`.
    render: other arguments of `spacy.displacy.render`, such as `page=True` or `jupyter=False`.
    RETURNS: HTML. In Jupyter, displaCy shows it. ValueError for a document without the group.

    >>> import spacy, spacy_bcrf
    >>> from spacy.tokens import Span
    >>> doc = spacy.blank("en")("Ada lived in London")
    >>> doc.ents = [Span(doc, 0, 1, "PERSON")]
    >>> "PERSON" in spacy_bcrf.displacy(doc, jupyter=False)
    True
    """
    from spacy.displacy.render import EntityRenderer
    from spacy.displacy.templates import TPL_ENT, TPL_ENT_RTL

    options = dict(options or {})
    found = list(find_shown_spans(doc, spans_key))
    shown = {id(span): "" if p is None else f" {p:.2f}" for span, p in found}
    settings = {"lang": doc.lang_, "direction": doc.vocab.writing_system.get("direction", "ltr")}
    parsed: dict[str, Any] = {"text": doc.text, "title": None, "settings": settings}
    if spans_key is None:
        template = TPL_ENT_RTL if settings["direction"] == "rtl" else TPL_ENT
        options.setdefault("template", template.replace("{label}", "{label}{probability}"))
        bounds = [{"start": x.start_char, "end": x.end_char, "label": x.label_} for x, _ in found]
        # displaCy escapes texts, but no labels.
        params = [{"label": escape(x.label_), "probability": shown[id(x)]} for x, _ in found]
        parsed["ents"] = [{**b, "params": p} for b, p in zip(bounds, params, strict=True)]
        return _render(parsed, "ent", options, **render)
    # The renderer of spans has no other place for the number. A label keeps its color.
    renderer = EntityRenderer(options)
    parsed |= {"tokens": [token.text for token in doc], "spans": []}
    options["colors"] = dict(options.get("colors", {}))
    for span, _ in found:
        label = escape(span.label_) + shown[id(span)]
        color = renderer.colors.get(span.label_.upper(), renderer.default_color)
        options["colors"][label] = color
        parsed["spans"].append({"start_token": span.start, "end_token": span.end, "label": label})
    return _render(parsed, "span", options, **render)


_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def _render(
    parsed: dict[str, Any],
    style: str,
    options: dict[str, Any],
    jupyter: bool | None = None,
    **render: Any,
) -> Any:
    """Render as displaCy does. Long words wrap, and no script runs in a page."""
    from spacy import displacy as pictures
    from spacy.util import is_in_jupyter

    html = pictures.render(
        parsed, style=style, manual=True, options=options, jupyter=False, **render
    )
    policy = f'<head><meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    html = html.replace("<head>", policy, 1)
    html = re.sub(r'(class="(entities|spans)" style=")', r"\1overflow-wrap: anywhere; ", html)
    if not (jupyter or (jupyter is None and is_in_jupyter())):
        return html
    notebook = import_module("IPython.display")
    return notebook.display(notebook.HTML(f'<span class="tex2jax_ignore">{html}</span>'))


def to_frame(docs: Iterable[Doc], spans_key: str | None = None) -> Any:
    """Return a pandas frame with one row for each predicted span, and its probability.

    docs: a Doc or several. The column `doc` is the index of a span's document.
    spans_key: None for `doc.ents`, else a group of `doc.spans`.
    RETURNS: a `pandas.DataFrame` with `COLUMNS`. `start` and `end` count tokens. The probability is
        missing (NaN) without `annotate = ["confidence"]`.
    ImportError without pandas. ValueError for a document without the group.

    >>> import spacy, spacy_bcrf
    >>> from spacy.tokens import Span
    >>> doc = spacy.blank("en")("Ada lived in London")
    >>> doc.ents = [Span(doc, 0, 1, "PERSON"), Span(doc, 3, 4, "LOC")]
    >>> spacy_bcrf.to_frame([doc])["text"].tolist()  # doctest: +SKIP
    ['Ada', 'London']
    """
    pandas = require("pandas", "pandas")
    docs = [docs] if isinstance(docs, Doc) else docs
    rows = []
    for i, doc in enumerate(docs):
        if not isinstance(doc, Doc):
            raise TypeError(f"expected documents, got {type(doc).__name__}; nlp(text) makes one")
        for span, probability in find_shown_spans(doc, spans_key):
            places = (span.start, span.end, span.start_char, span.end_char)
            rows.append((i, span.text, span.label_, *places, probability))
    return pandas.DataFrame(rows, columns=list(COLUMNS)).astype({"probability": float})


def find_shown_spans(doc: Doc, spans_key: str | None) -> Iterator[tuple[Span, float | None]]:
    """Yield spans and their written probabilities, None without. ValueError without the group."""
    set_extensions()
    if spans_key is None:
        scores: list[float] = []
        spans = list(doc.ents)
    elif spans_key not in doc.spans:
        expected = ", ".join(doc.spans) or "none"
        raise ValueError(f"doc.spans has no group {spans_key!r}; the document has {expected}")
    else:
        # `control` writes the posteriors of candidates, which may have equal boundaries.
        scores = list(doc.spans[spans_key].attrs.get("scores", ()))
        spans = list(doc.spans[spans_key])
    written: UserData = doc.user_data
    for i, span in enumerate(spans):
        key = make_key("confidence", span.start_char, span.end_char)
        yield span, float(scores[i]) if len(scores) == len(spans) else written.get(key)


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table for a notebook. Texts are escaped."""
    lines = [("th", header), *(("td", row) for row in rows)]
    body = "".join(
        "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row) + "</tr>"
        for tag, row in lines
    )
    return f"<table>{body}</table>"
