"""A pipeline of `SplitTokenizer` in a wheel, a server and processes, and after `accelerate`."""

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.cli.package import package
from spacy.language import Language
from spacy.training import Example
from typer.testing import CliRunner

from spacy_bcrf import accelerate
from spacy_bcrf.cli import app
from spacy_bcrf.corpora.convert import convert
from spacy_bcrf.corpora.tokenization import make_blank
from spacy_bcrf.judging.folds import fit_sparse_chain
from spacy_bcrf.readers.doc_files import read_docs

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


def test_a_wheel(nlp: Language, tmp_path: Path) -> None:
    nlp.to_disk(tmp_path / "model")
    package(tmp_path / "model", tmp_path, name="split", create_sdist=False, create_wheel=False)
    (folder,) = tmp_path.glob("es_split-*")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", str(folder)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = folder.glob("dist/*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    loaded = spacy.load(tmp_path / "installed" / "es_split" / folder.name)
    assert entities(loaded(TEXTS[0])) == FOUND


def test_accelerated(nlp: Language) -> None:
    nlp = make_blank("es", "split")
    nlp.add_pipe("ner")
    example = Example.from_dict(nlp.make_doc(TEXTS[0]), {"entities": [(6, 7, "SEX")]})
    optimizer = nlp.initialize(lambda: [example])
    for _ in range(20):
        nlp.update([example], sgd=optimizer)
    before = list(map(entities, nlp.pipe(TEXTS)))
    assert before[0] == FOUND[:1]
    assert accelerate(nlp).swapped
    assert list(map(entities, nlp.pipe(TEXTS))) == before


def test_a_file_with_other_tokens_is_named(nlp: Language, tmp_path: Path) -> None:
    """Neither `debug` nor training drops annotation that the tokens of a file cut in silence."""
    source, old = tmp_path / "x.jsonl", str(tmp_path / "old.spacy")
    records = [{"text": text, "label": [[6, 7, "SEX"], [0, 4, "KEY"]]} for text in TEXTS]
    source.write_text("".join(json.dumps(record) + "\n" for record in records))
    convert([source], Path(old), lang="es")
    nlp.to_disk(tmp_path / "model")
    config = tmp_path / "model/config.cfg"
    other = "40 of 40 texts have other tokens than the pipeline, such as 'H.' for 'H', '.'"
    cut = "40 spans cut tokens. Training leaves them out, and scores count them as missed. See"
    paths = ["--paths.train", old, "--paths.dev", old]
    for inputs in ([str(config), *paths], [old]):
        result = CliRunner().invoke(app, ["debug", *inputs])
        assert result.exit_code == 0 and cut in result.stdout
        assert (other in result.stdout) == (len(inputs) > 1)
    convert([source], tmp_path / "new.spacy", lang="es", tokenizer="split")
    result = CliRunner().invoke(app, ["debug", str(tmp_path / "new.spacy"), old])
    assert f"Warning: {tmp_path / 'new.spacy'}: has the tokens of spacy-bcrf.Split" in result.stdout
    examples = [Example(nlp.make_doc(doc.text), doc) for doc in read_docs(Path(old), nlp.vocab)]
    with pytest.warns(UserWarning, match=re.escape(f"[ner] the training data: {other}")):
        spacy.load(tmp_path / "model").initialize(lambda: examples)


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
