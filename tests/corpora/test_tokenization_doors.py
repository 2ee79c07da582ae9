"""Annotated characters of ten languages, in each format that has a text."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from spacy.vocab import Vocab

from spacy_bcrf.annotation.misaligned import find_misaligned
from spacy_bcrf.corpora.convert import convert
from spacy_bcrf.readers.doc_files import read_docs

# Brackets mark the spans. spaCy's tokenizer of each language cuts some of them.
DOCS = {
    "da": "Køn: [K]. Cpr.nr.[010170]-1234, tlf.[55512345]/fru [Ida Holm].",
    "de": "Geschl.: [M]. Akte-[150679], Tel.[030]-[55512]; Dr.[Huber]/[Köln].",
    "el": "Φύλο: [θ]. αμκα-[150679], τηλ.[210]-[55512] κ.[Άννα]/[Αθήνα].",
    "en": "Sex: [M]. MRN-[150679], tel.[555]-[0199]; Mr.[Smith]'s GP in [Leeds]/UK.",
    "es": "Sexo: [H]. nhc-[150679], tel.[600]-[55512]; Dr.[Ruiz]/[Lugo]. Edad:[52]a.",
    "fr": "Sexe : [F]. NIP-[150679], tél.[01]-[55512] ; M.[Dupont]/[Lyon] l'[Ain].",
    "it": "Sesso: [M]. CF-[150679], tel.[06]-[55512]; Dott.[Rossi]/[Roma] dell'[Urbe].",
    "nl": "Geslacht: [V]. BSN-[150679], tel.[020]-[55512]; dhr.[Bakker]/[Ede].",
    "pl": "Płeć: [K]. PESEL[150679], tel.[22]-[55512]; dr.[Anna]/[Łódź].",
    "pt": "Sexo: [M]. NIF-[150679], tel.[21]-[55512]; Sr.[Silva]/[Faro].",
}
Span = tuple[int, int]


def read_markup(text: str) -> tuple[str, list[Span]]:
    spans, plain = [], ""
    for part in re.split(r"(\[.*?\])", text):
        content = part.strip("[]")
        if part != content:
            spans.append((len(plain), len(plain) + len(content)))
        plain += content
    return plain, spans


def as_objects(spans: list[Span]) -> list[dict[str, object]]:
    return [{"start": start, "end": end, "label": "X"} for start, end in spans]


def json_lines(text: str, spans: list[Span]) -> dict[str, str]:
    return {"x.jsonl": json.dumps({"text": text, "spans": as_objects(spans)})}


def doccano(text: str, spans: list[Span]) -> dict[str, str]:
    return {"x.jsonl": json.dumps({"id": 1, "text": text, "label": [[*s, "X"] for s in spans]})}


def spacy_entities(text: str, spans: list[Span]) -> dict[str, str]:
    return {"x.jsonl": json.dumps({"text": text, "entities": [[*s, "X"] for s in spans]})}


def prodigy(text: str, spans: list[Span]) -> dict[str, str]:
    task = {"text": text, "spans": as_objects(spans), "_view_id": "ner_manual", "answer": "accept"}
    return {"x.jsonl": json.dumps(task)}


def label_studio(text: str, spans: list[Span]) -> dict[str, str]:
    result = [
        {"type": "labels", "value": {"start": a, "end": b, "text": text[a:b], "labels": ["X"]}}
        for a, b in spans
    ]
    task = {"id": 1, "data": {"text": text}, "annotations": [{"result": result}]}
    return {"x.json": json.dumps([task])}


def brat(text: str, spans: list[Span]) -> dict[str, str]:
    lines = [f"T{i}\tX {a} {b}\t{text[a:b]}\n" for i, (a, b) in enumerate(spans)]
    return {"x.ann": "".join(lines), "x.txt": text}


def webanno(text: str, spans: list[Span]) -> dict[str, str]:
    lines = ["#FORMAT=WebAnno TSV 3.3", "#T_SP=webanno.custom.NamedEntity|value"]
    lines += ["", f"#Text={text}"]
    for i, word in enumerate(re.finditer(r"\S+", text), 1):
        lines.append(f"1-{i}\t{word.start()}-{word.end()}\t{word[0]}\t_\t")
        for k, (a, b) in enumerate(spans):
            start, end = max(a, word.start()), min(b, word.end())
            if start < end:
                lines.append(f"1-{i}.{k + 1}\t{start}-{end}\t{text[start:end]}\tX[{k + 1}]\t")
    return {"x.tsv": "\n".join(lines) + "\n"}


Door = Callable[[str, list[Span]], dict[str, str]]
DOORS = [json_lines, doccano, spacy_entities, prodigy, label_studio, brat, webanno]


@pytest.mark.parametrize("lang", DOCS)
@pytest.mark.parametrize("door", DOORS)
def test_no_span_cuts_tokens(tmp_path: Path, lang: str, door: Door) -> None:
    text, spans = read_markup(DOCS[lang])
    for name, content in door(text, spans).items():
        (tmp_path / name).write_text(content, "utf8", newline="")
    output = tmp_path / "out.spacy"
    file = tmp_path / next(iter(door(text, spans)))
    counts = convert([file], output, lang=lang, tokenizer="auto")
    (doc,) = read_docs(output, Vocab())
    assert [(ent.start_char, ent.end_char) for ent in doc.ents] == spans
    assert counts.fit.cut and not find_misaligned(doc)
    assert doc.text == text
