"""Tests of `serve`: batches, errors by status, health, metrics and the page."""

import asyncio
import json
import re
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import spacy
from typer.testing import CliRunner

from spacy_bcrf.cli import app

TEXTS = ["Ann saw Rome .", "Why on earth not ?", "Bob saw Oslo ."]


@pytest.fixture
def client(pipeline):
    """A client of the server, in this process."""
    pytest.importorskip("fastapi")
    pytest.importorskip("httpx")
    from fastapi.testclient import TestClient

    from spacy_bcrf.serve.app import make_app

    app = make_app(spacy.load(pipeline / "model"), ["ner"])
    with TestClient(app, raise_server_exceptions=False) as client:
        client.server = app.state.server
        yield client


def test_requests_are_answered_in_batches(client, pipeline):
    sizes = []
    annotate = client.server.annotate
    client.server.annotate = lambda texts: sizes.append(len(texts)) or annotate(texts)
    config = {"components": {"ner": {"annotate": ["confidence"]}}}
    nlp = spacy.load(pipeline / "model", config=config)
    with ThreadPoolExecutor(16) as pool:
        answers = list(
            pool.map(lambda text: client.post("/annotate", json={"text": text}), TEXTS * 20)
        )
    for answer, text in zip(answers, TEXTS * 20, strict=True):
        doc = nlp(text)  # `ent._` needs the document
        found = answer.json()
        assert answer.status_code == 200 and {span["pipe"] for span in found} <= {"ner"}
        expected = [(e.start_char, e.end_char, e.label_) for e in doc.ents]
        assert [(span["start"], span["end"], span["label"]) for span in found] == expected
        p = [span["probability"] for span in found]
        assert p == pytest.approx([e._.confidence for e in doc.ents], abs=1e-5)
    assert sum(sizes) == 60 and max(sizes) > 1


def test_errors_have_a_status_and_the_server_goes_on(client):
    assert client.post("/annotate", json={"txt": "x"}).status_code == 422
    assert client.post("/annotate", json={"text": "x" * 100_001}).status_code == 422
    annotate = client.server.annotate

    def fail(texts):
        raise RuntimeError("out of order")

    client.server.annotate = fail
    assert client.post("/annotate", json={"text": "x"}).status_code == 500
    client.server.annotate = annotate
    assert client.post("/annotate", json={"text": TEXTS[0]}).status_code == 200


def test_every_page_has_a_policy_without_inline_handlers(client):
    pages = {}
    for route in client.app.routes:
        answer = client.get(route.path)
        if answer.headers["content-type"].startswith("text/html"):
            pages[route.path] = answer
    assert set(pages) == {"/", "/docs"}
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)', pages["/"].text)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "script-src-attr 'none'" in pages["/docs"].headers["Content-Security-Policy"]
    for page in pages.values():
        assert not re.search(r"<[^>]*\son\w+\s*=", page.text)


def test_a_missing_extra_is_named_before_the_model_loads(monkeypatch):
    for name, other in (("uvicorn", "fastapi"), ("fastapi", "uvicorn")):
        with monkeypatch.context() as without:
            without.setitem(sys.modules, "uvicorn", object())
            without.setitem(sys.modules, name, None)
            without.setitem(sys.modules, other, ModuleType(other))
            result = CliRunner().invoke(app, ["serve", "no-model"])
        assert result.exit_code == 1 and f"{name} is not installed" in result.output


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
    answer = client.post("/annotate", content=body)
    assert answer.status_code == 422 and "text" in answer.json()["detail"]


def test_a_text_that_takes_too_long_and_one_that_fails_harm_no_other(client):
    client.server.limits = replace(client.server.limits, seconds=0.2)
    predict = client.server._predict

    def fail(docs):
        if any("earth" in doc.text for doc in docs):
            raise RuntimeError("no earth")
        if len(docs) > 2:
            raise MemoryError
        return predict(docs)

    client.server._predict = fail
    texts = [TEXTS[0], "(" * 30_000, TEXTS[2], TEXTS[1], TEXTS[0], TEXTS[2]]
    with pytest.warns(UserWarning, match=r"a batch of \d texts failed: .* Its halves follow"):
        found = client.server.annotate(texts)
    assert [isinstance(each, Exception) for each in found] == [0, 1, 0, 1, 0, 0]
    codes = [client.post("/annotate", json={"text": text}).status_code for text in texts]
    assert codes == [200, 503, 200, 500, 200, 200]
    client.server._predict = fail_for_memory
    assert client.post("/annotate", json={"text": TEXTS[0]}).status_code == 503


def fail_for_memory(docs):
    raise MemoryError


def test_a_request_beyond_those_that_wait_is_refused(client):
    client.server.limits = replace(client.server.limits, waiting=0)
    answer = client.post("/annotate", json={"text": TEXTS[0]})
    assert answer.status_code == 503 and "0 texts wait already" in answer.json()["detail"]


def test_only_so_many_texts_wait():
    from spacy_bcrf.serve.server import BusyError, Limits, Server

    async def ask():
        server = Server(spacy.blank("xx"), [], Limits(waiting=3))
        server.annotate = lambda texts: [[text] for text in texts]
        return await asyncio.gather(
            *(server.answer(str(i)) for i in range(5)), return_exceptions=True
        )

    found = asyncio.run(ask())
    assert found[:3] == [["0"], ["1"], ["2"]]
    assert all(isinstance(each, BusyError) for each in found[3:])


def test_a_client_that_leaves_takes_no_other_with_it():
    from spacy_bcrf.serve.server import Limits, Server

    async def leave(n):
        server = Server(spacy.blank("xx"), [], Limits(batch=2))
        server.annotate = lambda texts: time.sleep(0.05) or [[text] for text in texts]
        tasks = [asyncio.create_task(server.answer(str(i))) for i in range(8)]
        await asyncio.sleep(0.01)
        for task in tasks[:n]:
            task.cancel()
        others = await asyncio.wait_for(asyncio.gather(*tasks[n:]), 5)
        return [text for (text,) in others]

    for n in (1, 5):
        assert asyncio.run(leave(n)) == [str(i) for i in range(n, 8)]


def test_strings_of_texts_stay_only_during_the_warm_up(client, monkeypatch):
    from spacy_bcrf.serve import server

    texts = ["Ann saw Rome .", "Eve saw Kiel .", "Max left Lima .", "Zoe left Bonn ."]
    strings = client.server.nlp.vocab.strings
    expected = [client.post("/annotate", json={"text": text}).json() for text in texts]
    monkeypatch.setattr(server, "WARM_UP", client.server._n_characters + 30)
    sizes = []
    for word in "abcdefgh":
        answer = client.post("/annotate", json={"text": f"{word * 19} ."})
        assert answer.status_code == 200
        sizes.append(len(strings))
    assert sizes[0] < sizes[1] or "a" * 19 in strings
    assert sizes[2:] == [sizes[1]] * 6 and "c" * 19 not in strings
    found = [client.post("/annotate", json={"text": text}).json() for text in texts]
    assert found == expected
    assert client.get("/", params={"text": "never seen"}).status_code == 200
    assert len(strings) == sizes[1]


def test_health_metrics_and_the_description(client):
    assert client.get("/healthz").json() == {"status": "ok"}
    for text in TEXTS:
        client.post("/annotate", json={"text": text})
    client.post("/annotate", content=b"{")
    lines = client.get("/metrics").text.splitlines()
    assert f"spacy_bcrf_characters_total {sum(map(len, TEXTS))}" in lines
    assert "spacy_bcrf_texts_total 3" in lines and "spacy_bcrf_answers_422_total 1" in lines
    paths = client.get("/openapi.json").json()["paths"]
    body = paths["/annotate"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    (answer,) = paths["/annotate"]["post"]["responses"]["200"]["content"].values()
    assert answer["schema"]["type"] == "array"
    assert body["required"] == ["text"] and {"/healthz", "/metrics"} <= paths.keys()


def test_a_large_body_is_refused(client):
    client.server.limits = replace(client.server.limits, body_bytes=100)
    answer = client.post("/annotate", content=b'{"text": "' + b"x" * 200 + b'"}')
    assert answer.status_code == 413


def test_the_page_shows_what_the_pipeline_knows(client, pipeline):
    empty = client.get("/").text
    assert "<textarea" in empty and "Marginals" not in empty
    text = f"{TEXTS[0]} <script>alert(1)</script>"
    page = client.get("/", params={"text": text}).text
    assert "<script>" not in page and "&lt;script&gt;" in page
    config = {"components": {"ner": {"annotate": ["confidence"]}}}
    doc = spacy.load(pipeline / "model", config=config)(TEXTS[0])
    page = client.get("/", params={"text": TEXTS[0]}).text
    assert "Marginals" in page and "The most probable labelings" in page
    for ent in doc.ents:
        assert f"<td>{ent.text}</td><td>{ent.label_}</td>" in page
    answer = client.get("/", params={"text": "x" * 5_001})
    assert answer.status_code == 422 and "5000 characters" in answer.json()["detail"]
    client.server.limits = replace(client.server.limits, seconds=0.1)
    answer = client.get("/", params={"text": "(" * 5_000})
    assert answer.status_code == 503 and "took longer than 0.1 s" in answer.json()["detail"]


def test_texts_wait_for_one_page_at_most():
    from spacy_bcrf.serve.server import BusyError, Server

    async def ask():
        server = Server(spacy.blank("xx"), [])
        server.annotate = lambda texts: [[text] for text in texts]
        ended = []

        def page(text):
            time.sleep(0.2)
            ended.append(text)
            return text

        pages = [asyncio.create_task(server.show(page, str(i))) for i in range(60)]
        await asyncio.sleep(0)
        assert await server.answer("a") == ["a"] and len(ended) <= 1
        found = await asyncio.gather(*pages, return_exceptions=True)
        assert [str(one) for one in found if not isinstance(one, BusyError)] == ["0"]
        # A page that nobody waits for any more still ends before the next work.
        left = asyncio.create_task(server.show(page, "left"))
        await asyncio.sleep(0.05)
        left.cancel()
        assert await server.answer("b") == ["b"] and ended[-1] == "left"
        return await server.show(page, "next")

    assert asyncio.run(ask()) == "next"


def test_a_page_is_refused_while_too_many_texts_wait(client):
    client.server.limits = replace(client.server.limits, waiting=0)
    assert client.get("/", params={"text": TEXTS[0]}).status_code == 503
    assert client.get("/").status_code == 200


def test_no_page(pipeline):
    pytest.importorskip("fastapi")
    pytest.importorskip("httpx")
    from fastapi.testclient import TestClient

    from spacy_bcrf.serve.app import make_app

    app = make_app(spacy.load(pipeline / "model"), ["ner"], page=False)
    with TestClient(app) as client:
        assert client.get("/", params={"text": TEXTS[0]}).status_code == 404
        assert client.post("/annotate", json={"text": TEXTS[0]}).status_code == 200


@pytest.mark.parametrize(
    "headers, has_text, is_allowed",
    [
        ({}, True, True),
        ({"host": "localhost:8000"}, True, True),
        ({"host": "127.0.0.1"}, True, True),
        ({"host": "[::1]:8000"}, True, True),
        ({"host": "10.0.0.7:8000"}, True, True),
        ({"host": "BCRF.example:80"}, True, True),
        ({"host": "evil.example"}, True, False),
        ({"host": "evil.example"}, False, False),
        ({"host": "bcrf.example.evil.example"}, True, False),
        ({"host": "127.0.0.1.evil.example"}, True, False),
        ({"host": ""}, True, False),
        ({"sec-fetch-site": "cross-site"}, True, False),
        ({"sec-fetch-site": "cross-site"}, False, True),  # a link to the page
        ({"sec-fetch-site": "same-origin"}, True, True),
        ({"sec-fetch-site": "none"}, True, True),
    ],
)
def test_requests_from_pages_of_other_sites_are_refused(headers, has_text, is_allowed):
    pytest.importorskip("fastapi")
    from spacy_bcrf.serve.app import find_intruder

    reason = find_intruder(headers, has_text, {"bcrf.example"})
    assert (reason is None) == is_allowed
    assert find_intruder({"host": "evil.example"}, True, None) is None


def test_the_command_checks_hosts(pipeline, monkeypatch):
    pytest.importorskip("fastapi")
    pytest.importorskip("httpx")
    uvicorn = pytest.importorskip("uvicorn")
    from fastapi.testclient import TestClient

    apps = []
    monkeypatch.setattr(uvicorn, "run", lambda app, **options: apps.append(app))
    options = ["serve", str(pipeline / "model"), "--host", "0.0.0.0", "--allowed-host", "Bcrf"]
    assert CliRunner().invoke(app, options).exit_code == 0
    with TestClient(apps[0]) as client:
        found = {
            host: client.get("/", params={"text": "Ann"}, headers={"Host": host}).status_code
            for host in ("bcrf:8000", "0.0.0.0", "localhost", "evil.example")
        }
        assert [*found.values()] == [200, 200, 200, 403]
        hostile = {"Host": "localhost", "Sec-Fetch-Site": "cross-site"}
        body = {"text": "Ann"}
        assert client.post("/annotate", json=body, headers=hostile).status_code == 403


def test_an_unknown_component_is_named_with_the_pipeline(pipeline):
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    model = str(pipeline / "model")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    result = CliRunner().invoke(app, ["serve", model, "--pipe", "nerr", "--port", str(port)])
    assert result.exit_code == 1
    assert f"{model}: no component 'nerr' of spacy-bcrf" in result.stderr


def test_the_image_starts_the_command():
    lines = (Path(__file__).resolve().parents[2] / "Dockerfile").read_text().splitlines()
    assert len(lines) <= 25
    command = json.loads(lines[-1].removeprefix("CMD "))
    assert command[:4] == ["python", "-m", "spacy", "bcrf"]
    result = CliRunner().invoke(app, [*command[4:5], "--help"])
    assert result.exit_code == 0 and "--host" in command and "--host" in result.output


def test_redacted_events():
    """A text is redacted as it arrives, and a wrong one ends in an error."""
    pytest.importorskip("httpx")
    testclient = pytest.importorskip("fastapi.testclient")
    from sentences import make_docs

    from spacy_bcrf.judging.folds import train_sparse_chain
    from spacy_bcrf.pipeline.settings import Control
    from spacy_bcrf.serve.app import make_app
    from spacy_bcrf.serve.server import Limits

    nlp = train_sparse_chain(make_docs(spacy.blank("xx").vocab) * 8, ["PERSON", "LOC"])

    notes = []

    def post(*parts, limits=None, kind=None):
        headers = {"Content-Type": kind} if kind else {}
        with testclient.TestClient(
            make_app(nlp, (), limits, page=False, report=notes.append)
        ) as client:
            answer = client.post("/redact", content=iter(parts), headers=headers)
        if answer.status_code in (415, 501):
            return answer.json()["detail"]
        if answer.status_code != 200:
            return answer.status_code
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = [event.split("\n") for event in answer.text.strip().split("\n\n")]
        return [(name[7:], json.loads(data[6:])) for name, data in events]

    assert "[ner] has no promise of recall" in post(b"Ann saw")
    assert not notes
    nlp.add_pipe("bcrf_tagger", first=True).add_label("X")
    nlp.get_pipe("ner").control = Control("recall", ("PERSON", "LOC"), (0.5, 0.5))
    *texts, (last, report) = post(b"An", b"n saw Ro", b"me .\n", b"Bob saw Kiel .")
    assert {name for name, _ in texts} == {"text"}
    assert (
        "".join(data["text"] for _, data in texts) == "[PERSON] saw [LOC] .\n[PERSON] saw [LOC] ."
    )
    assert (last, report) == ("end", {"replacements": 4, "left": 0, "late": 0})
    assert post(b"Ann", kind="text/plain; charset=utf-8")[-1][0] == "end"
    for kind in ("application/json", "multipart/form-data; boundary=x"):
        detail = post(b'{"text": "Ann saw Rome"}', kind=kind)
        assert detail == f"expected plain text as the body, got {kind}"
    wrong = {"detail": "the body is not UTF-8: byte 0xff at 8"}
    assert post("Ä saw ".encode(), b"B\xff")[-1] == ("error", wrong)
    with pytest.MonkeyPatch.context() as patch:  # after the warm-up, strings do not stay
        patch.setattr("spacy_bcrf.serve.server.WARM_UP", 0)
        assert post(b"Ann saw newword17 in Ro", b"me and newword18 .")[-1][0] == "end"
    assert "newword17" not in nlp.vocab.strings and "newword18" not in nlp.vocab.strings
    assert "more than 100000 characters" in post(b"Ann " * 30_000)[-1][1]["detail"]
    # One feed or close of a text of prefixes takes long in spaCy's tokenizer.
    for end in (b" a ", b""):
        slow = post(b"(" * 8_000 + end, limits=Limits(seconds=0.1))
        assert slow == [("error", {"detail": "took longer than 0.1 s"})]
    limits = Limits(stream_seconds=0.0)
    assert "more than 0 s of work" in post(b"Ann saw ", b"Rome", limits=limits)[-1][1]["detail"]
    nlp.add_pipe("entity_ruler", first=True)
    reason = post(b"Ann saw")  # a promise, but no stream
    assert reason.startswith("[ner] cannot redact a stream: entity_ruler before")
    note = "no POST /redact: [ner] cannot redact a stream: entity_ruler before it may find"
    assert note in notes[0]


def test_a_vault_undoes_what_the_server_redacts(tmp_path):
    pytest.importorskip("httpx")
    testclient = pytest.importorskip("fastapi.testclient")
    from sentences import make_docs

    from spacy_bcrf.judging.folds import train_sparse_chain
    from spacy_bcrf.pipeline.settings import Control
    from spacy_bcrf.privacy.vault import OpenVault, Vault
    from spacy_bcrf.serve.app import make_app

    nlp = train_sparse_chain(make_docs(spacy.blank("xx").vocab) * 8, ["PERSON", "LOC"])
    nlp.get_pipe("ner").control = Control("recall", ("PERSON", "LOC"), (0.5, 0.5))

    def post(client, path, *parts):
        events = client.post(path, content=iter(parts)).text.strip().split("\n\n")
        values = [json.loads(event.split("data: ")[1]) for event in events]
        return "".join(value.get("text", "") for value in values), values[-1]

    file = tmp_path / "vault.json"
    app = make_app(nlp, page=False, opened=OpenVault(file, None))
    with testclient.TestClient(app) as client:
        new, _ = post(client, "/redact", b"Ann saw Ro", b"me . Bob saw Kiel .")
        assert new == "[PERSON_1] saw [LOC_1] . [PERSON_2] saw [LOC_2] ."
        assert repr(Vault.load(file)).endswith(" of 2 LOC, 2 PERSON")
        back, counts = post(client, "/restore", b"Dear pers", b"on_2, [LOC_1], [LOC_9]")
        assert back == "Dear Bob, Rome, [LOC_9]"
        assert counts == {"restored": 2, "unknown": 1}
    with testclient.TestClient(make_app(nlp, page=False)) as client:
        answer = client.post("/restore", content="[LOC_1]")
        assert answer.status_code == 501 and "no vault: `serve --vault`" in answer.json()["detail"]


def test_a_taken_port_is_named_before_the_pipeline_loads(monkeypatch):
    for name in ("uvicorn", "fastapi"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = CliRunner().invoke(app, ["serve", "no-model", "--port", str(port)])
    assert result.exit_code == 1 and "expected another port or host" in result.output
    assert str(port) in result.output and "next:" not in result.output
    monkeypatch.undo()
    pytest.importorskip("fastapi", reason="needs the extra serve")
    result = CliRunner().invoke(app, ["serve", "no-model", "--port", str(port)])
    assert result.exit_code == 1 and "no-model" in result.output
