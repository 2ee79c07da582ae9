"""The server of docs/serving.md."""

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import spacy

PAGE = Path(__file__).resolve().parents[2] / "docs/serving.md"
TEXTS = ["Ann saw Rome .", "Why on earth not ?", "Bob saw Oslo ."]


@pytest.fixture
def client(pipeline, monkeypatch):
    """A client of the server, in this process."""
    pytest.importorskip("fastapi")
    pytest.importorskip("httpx")
    from fastapi.testclient import TestClient

    monkeypatch.setenv("MODEL", str(pipeline / "model"))
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    # FastAPI evaluates the type hints of the server in its module.
    module = type(sys)("server")
    monkeypatch.setitem(sys.modules, "server", module)
    exec(code, module.__dict__)
    with TestClient(module.app, raise_server_exceptions=False) as client:
        client.module = module
        yield client


def test_requests_are_answered_in_batches(client, pipeline):
    sizes = []
    annotate = client.module.annotate
    client.module.annotate = lambda texts: sizes.append(len(texts)) or annotate(texts)
    config = {"components": {"ner": {"annotate": ["confidence"]}}}
    nlp = spacy.load(pipeline / "model", config=config)
    with ThreadPoolExecutor(16) as pool:
        answers = list(
            pool.map(lambda text: client.post("/entities", json={"text": text}), TEXTS * 20)
        )
    for answer, text in zip(answers, TEXTS * 20, strict=True):
        doc = nlp(text)  # `ent._` needs the document
        expected = [[e.start_char, e.end_char, e.label_] for e in doc.ents]
        assert answer.status_code == 200
        assert [entity[:3] for entity in answer.json()] == expected
        p = [entity[3] for entity in answer.json()]
        assert p == pytest.approx([e._.confidence for e in doc.ents], abs=1e-5)
    assert sum(sizes) == 60 and max(sizes) > 1


def test_errors_have_a_status_and_the_server_goes_on(client):
    assert client.post("/entities", json={"txt": "x"}).status_code == 422
    assert client.post("/entities", json={"text": "x" * 100_001}).status_code == 422
    annotate = client.module.annotate

    def fail(texts):
        raise RuntimeError("out of order")

    client.module.annotate = fail
    assert client.post("/entities", json={"text": "x"}).status_code == 500
    client.module.annotate = annotate
    assert client.post("/entities", json={"text": TEXTS[0]}).status_code == 200
