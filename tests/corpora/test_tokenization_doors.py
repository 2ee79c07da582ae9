"""Annotated characters of ten languages, in each format that has a text.

BCRF_CORPORA=DIR python -m pytest -rP tests/corpora/test_tokenization_doors.py prints the table of
docs/annotation-tools.md.
"""

import json
import re
import tarfile
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest
import spacy
from spacy.tokens import Doc
from spacy.vocab import Vocab

from bcrf.io.text import CorpusError
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
    lines = []
    for i, (start, end) in enumerate(spans):
        found = [x.span() for x in re.compile(".+").finditer(text, start, end)]
        fragments = ";".join(f"{a} {b}" for a, b in found)
        lines.append(f"T{i}\tX {fragments}\t{' '.join(text[a:b] for a, b in found)}\n")
    return {"x.ann": "".join(lines), "x.txt": text}


def webanno(text: str, spans: list[Span]) -> dict[str, str]:
    lines = ["#FORMAT=WebAnno TSV 3.3", "#T_SP=webanno.custom.NamedEntity|value"]
    text = text.replace("\n", " ")  # as long as before
    lines += ["", f"#Text={text}"]
    for i, word in enumerate(re.finditer(r"\S+", text), 1):
        lines.append(f"1-{i}\t{word.start()}-{word.end()}\t{word[0]}\t_\t")
        for k, (a, b) in enumerate(spans):
            start, end = max(a, word.start()), min(b, word.end())
            if start < end:
                lines.append(f"1-{i}.{k + 1}\t{start}-{end}\t{text[start:end]}\tX[{k + 1}]\t")
    return {"x.tsv": "\n".join(lines) + "\n"}


def test_a_text_of_webanno_begins_at_its_words(tmp_path: Path) -> None:
    text, spans = read_markup("  nhc-[12]")
    (tmp_path / "x.tsv").write_text(webanno(text, spans)["x.tsv"])
    convert([tmp_path / "x.tsv"], tmp_path / "out.spacy", lang="es", tokenizer="auto")
    (doc,) = read_docs(tmp_path / "out.spacy", Vocab())
    assert [ent.text for ent in doc.ents] == ["12"]


def test_parts_of_words_need_their_text(tmp_path: Path) -> None:
    content = webanno(*read_markup("nhc-[12]"))["x.tsv"].replace("#Text=nhc", "#Text=cip")
    (tmp_path / "x.tsv").write_text(content)
    with pytest.raises(CorpusError, match=r"x\.tsv:5: #Text='cip-12' does not have the tokens"):
        convert([tmp_path / "x.tsv"], tmp_path / "out.spacy")


Door = Callable[[str, list[Span]], dict[str, str]]
DOORS = [json_lines, doccano, spacy_entities, prodigy, label_studio, brat, webanno]


def write_texts(door: Door, texts: list[tuple[str, list[Span]]], folder: Path) -> list[Path]:
    """Write texts in a format. RETURNS the files: one of JSON lines, or one for each text."""
    contents: dict[Path, list[str]] = {}
    for i, (text, spans) in enumerate(texts):
        for file, content in door(text, spans).items():
            name = f"{door.__name__}{i * (file != 'x.jsonl')}{file}"
            contents.setdefault(folder / name, []).append(content)
    for path, parts in contents.items():
        path.write_text("\n".join(parts), "utf8", newline="")
    return [path for path in contents if path.suffix != ".txt"]


@pytest.mark.parametrize("lang", DOCS)
def test_no_span_cuts_tokens(tmp_path: Path, lang: str) -> None:
    text, spans = read_markup(DOCS[lang])
    files = [file for door in DOORS for file in write_texts(door, [(text, spans)], tmp_path)]
    counts = convert(files, tmp_path / "out.spacy", lang=lang, tokenizer="auto")
    docs = list(read_docs(tmp_path / "out.spacy", Vocab()))
    assert len(docs) == len(DOORS) and counts.fit.cut
    for doc in docs:
        assert [(ent.start_char, ent.end_char) for ent in doc.ents] == spans
        assert doc.text == text and not find_misaligned(doc)


CORPORA = [
    ("es", "meddocan/dev.tar.xz", "split"),
    ("en", "pii/lifebench/dev.jsonl.gz", "split"),
    ("en", "pii/panorama-151/all.jsonl.gz", "capitals"),
    ("de", "ud-german-gsd/de_gsd-ud-dev.conllu", "split"),
    ("da", "pii/dab-da/all.jsonl.gz", "language"),
    ("fr", "ud-french-sequoia/fr_sequoia-ud-train.conllu.xz", "language"),
    ("nl", "ud-dutch-lassysmall/nl_lassysmall-ud-dev.conllu.xz", "language"),
    ("zh", "ud-chinese-gsd/zh_gsd-ud-dev.conllu.xz", "language"),
    ("ja", "ud-japanese-gsd/ja_gsd-ud-dev.conllu.xz", "language"),
    # From github.com/UniversalNER.
    ("hr", "uner/hr_set-ud-dev.iob2", "language"),
    ("pt", "uner/pt_bosque-ud-dev.iob2", "language"),
    ("sv", "uner/sv_talbanken-ud-dev.iob2", "language"),
]
MOST = 40
"""Documents that are written in each format."""


def find_spans(doc: Doc) -> list[Span]:
    """Return the entities of a document. In a treebank, these are runs of names and of numbers."""
    if not doc.has_annotation("ENT_IOB") and doc.has_annotation("POS"):
        runs = [list(run) for _, run in groupby(doc, lambda token: token.pos_)]
        names = [doc[x[0].i : x[-1].i + 1] for x in runs if x[0].pos_ in ("PROPN", "NUM")]
        return [(name.start_char, name.end_char) for name in names]
    ents = [(ent.start_char, ent.end_char) for ent in doc.ents]
    return sorted([*ents, *(span[:2] for span in find_misaligned(doc))])


def read_spans(file: Path, folder: Path) -> list[tuple[str, list[Span]]]:
    """Return the texts of a corpus with their spans."""
    if file.name.endswith(".tar.xz"):
        with tarfile.open(file) as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(folder / "notes")
        file = folder / "notes"
    convert([file], folder / "read.spacy", tokenizer="split", skip_malformed=True)
    docs = list(read_docs(folder / "read.spacy", Vocab()))
    return [(doc.text, find_spans(doc)) for doc in docs]


@pytest.mark.parametrize(("lang", "name", "chosen"), CORPORA)
def test_spans_of_corpora(corpora: Path, tmp_path: Path, lang: str, name: str, chosen: str) -> None:
    """At most 0.2% of the spans cut tokens where `convert` chooses the tokenizer that fits."""
    if not (corpora / name).exists():
        pytest.skip(f"{name} is not in BCRF_CORPORA")
    try:
        spacy.blank(lang)
    except ImportError as error:
        pytest.skip(str(error))
    texts = read_spans(corpora / name, tmp_path)
    doors = DOORS[:1] if chosen == "language" else DOORS
    found = {convert_texts(door, texts[:MOST], tmp_path, lang) for door in doors}
    assert len(found) == 1, "a format changes how many spans cut tokens"
    spans, cut, still_cut, tokenizer = convert_texts(json_lines, texts, tmp_path, lang)
    assert (spans, tokenizer) == (sum(len(spans) for _, spans in texts), chosen)
    assert still_cut <= 0.002 * spans or chosen == "language"
    print(
        f"| {lang} | {name} | {spans:,} | {cut / spans:.1%} | {still_cut / spans:.2%} | {chosen} |"
    )


def convert_texts(
    door: Door, texts: list[tuple[str, list[Span]]], folder: Path, lang: str
) -> tuple[int, int, int, str]:
    """Return numbers of spans, and of those that cut tokens of two tokenizers, and the choice."""
    files = write_texts(door, texts, folder)
    counts = convert(files, folder / "out.spacy", lang=lang, tokenizer="auto")
    fit = counts.fit
    still_cut = fit.cut - fit.kept - fit.capitals * (counts.tokenizer == "capitals")
    return fit.spans, fit.cut, still_cut, counts.tokenizer
