"""Outputs of Python that the JavaScript of `js/` must repeat."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from spacy.language import Language

from spacy_bcrf.pipeline.codecs import TagCodec
from spacy_bcrf.pipeline.identifier_recognizer import IdentifierRecognizer
from spacy_bcrf.privacy.redact import redact


def make_golden(nlp: Language, texts: Iterable[str]) -> Iterator[str]:
    """Yield a JSON object for each text: tokens, tags, spans and candidates."""
    for _, pipe in nlp.pipeline:
        pipe.annotate = ["confidence"]
    name, last = nlp.pipeline[-1]
    has_identifiers = "identifiers" in nlp.pipe_names
    has_promise = last.control and last.control.promise == "recall"
    for doc in nlp.pipe(texts):
        tokens = [[token.text, token.idx, bool(token.whitespace_)] for token in doc]
        found: dict[str, Any] = {"text": doc.text, "tokens": tokens}
        fixed = nlp.get_pipe("identifiers")(nlp.make_doc(doc.text)).ents if has_identifiers else ()
        found["components"] = {name: _read(doc, pipe, fixed) for name, pipe in nlp.pipeline}
        if has_promise:
            found["redacted"] = {s: _redact(nlp, name, doc, s) for s in ("label", "mask")}
        yield json.dumps(found)


def _redact(nlp: Language, name: str, doc: Any, style: str) -> list[Any]:
    (found,) = redact(nlp, [nlp.make_doc(doc.text)], name, style=style)
    places = found.regions, found.left
    return [found.text, *([[x.start, x.end, x.label, x.repeated] for x in of] for of in places)]


def _read(doc: Any, pipe: Any, fixed: Any) -> dict[str, Any]:
    """fixed: the entities of identifiers."""
    if isinstance(pipe, IdentifierRecognizer):
        return {"spans": _show(fixed, [None] * len(fixed))}
    codec = pipe.codec
    if isinstance(codec, TagCodec):
        name = codec.settings["attribute"]
        tags = [getattr(token, f"{name}_") for token in doc]
        return {"tags": tags, "probabilities": [token._.tag_confidence for token in doc]}
    places = [(ent.start, ent.end) for ent in fixed]
    own = [ent for ent in doc.ents if (ent.start, ent.end) not in places]
    group = own if codec.what == "entities" else doc.spans[codec.settings["spans_key"]]
    p = group.attrs["scores"].tolist() if codec.layered else [s._.confidence for s in group]
    found = {"spans": _show(group, p)}
    if pipe.control and pipe.control.promise == "recall":
        candidates = doc.spans["candidates"]
        found["candidates"] = _show(candidates, candidates.attrs["scores"].tolist())
    return found


def _show(spans: Any, p: Any) -> list[list[Any]]:
    return [
        [span.start, span.end, span.label_, span.start_char, span.end_char, value]
        for span, value in zip(spans, p, strict=True)
    ]
