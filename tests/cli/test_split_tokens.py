"""A pipeline of `SplitTokenizer` in a package, behind the server and in processes."""

from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.cli.package import package
from spacy.language import Language
from spacy.training import Example

from spacy_bcrf.corpora.tokenization import make_blank
from spacy_bcrf.judging.folds import fit_sparse_chain

TEXTS = [f"Sexo: {sex}. NHC: nhc-{number}." for number in range(10, 30) for sex in "HM"]
FOUND = [("H", "SEX"), ("10", "ID")]


@pytest.fixture(scope="module")
def nlp() -> Language:
    nlp = make_blank("es", "split")
    nlp.add_pipe("bcrf_ner", name="ner", config={"model": {"templates": "split"}})
    examples = []
    for text in TEXTS:
        doc = nlp.make_doc(text)
        number = text.index("nhc-") + 4
        doc.ents = [doc.char_span(6, 7, "SEX"), doc.char_span(number, len(text) - 1, "ID")]
        examples.append(Example(nlp.make_doc(text), doc))
    fit_sparse_chain(nlp, examples, 5)
    return nlp


def entities(doc: Any) -> list[tuple[str, str]]:
    return [(ent.text, ent.label_) for ent in doc.ents]


def test_a_package(nlp: Language, tmp_path: Path) -> None:
    nlp.to_disk(tmp_path / "model")
    package(tmp_path / "model", tmp_path, name="split", create_sdist=False, create_wheel=False)
    (folder,) = tmp_path.glob("es_split-*")
    assert entities(spacy.load(folder / "es_split" / folder.name)(TEXTS[0])) == FOUND


def test_processes(nlp: Language) -> None:
    assert entities(next(nlp.pipe(TEXTS[:2], n_process=2))) == FOUND


def test_the_server(nlp: Language) -> None:
    pytest.importorskip("fastapi")
    pytest.importorskip("httpx")
    from fastapi.testclient import TestClient

    from spacy_bcrf.serve.app import make_app

    with TestClient(make_app(nlp, ["ner"], page=False)) as client:
        found = client.post("/annotate", json={"text": TEXTS[0]}).json()
    assert [(TEXTS[0][x["start"] : x["end"]], x["label"]) for x in found] == FOUND
