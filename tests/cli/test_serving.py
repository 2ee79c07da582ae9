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


BAD_BODIES = [
    b"",
    b"{",
    b"[]",
    b"7",
    b'"text"',
    b'{"text": null}',
    b'{"text": NaN}',
    b'{"text": ["a"]}',
    rb'{"text": "\ud800"}',
    b'{"text": "\xff"}',
    b"[" * 100_000,
    b'{"text": "' + b"x" * 100_001 + b'"}',
]


@pytest.mark.parametrize("body", BAD_BODIES, ids=range(len(BAD_BODIES)))
def test_a_bad_body_is_named(client, body):
    answer = client.post("/entities", content=body)
    assert answer.status_code == 422 and "text" in answer.json()["detail"]


def test_a_text_that_takes_too_long_and_one_that_fails_harm_no_other(client):
    client.module.SECONDS = 0.2
    predict = client.module.predict

    def fail(docs):
        if any("earth" in doc.text for doc in docs):
            raise RuntimeError("no earth")
        if len(docs) > 2:
            raise MemoryError
        return predict(docs)

    client.module.predict = fail
    texts = [TEXTS[0], "(" * 30_000, TEXTS[2], TEXTS[1], TEXTS[0], TEXTS[2]]
    with pytest.warns(UserWarning, match=r"a batch of \d texts failed: .* Its halves follow"):
        found = client.module.annotate(texts)
    assert [isinstance(each, Exception) for each in found] == [0, 1, 0, 1, 0, 0]
    codes = [client.post("/entities", json={"text": text}).status_code for text in texts]
    assert codes == [200, 503, 200, 500, 200, 200]
    client.module.predict = fail_for_memory
    assert client.post("/entities", json={"text": TEXTS[0]}).status_code == 503


def fail_for_memory(docs):
    raise MemoryError
