"""Tasks with predictions through a real Label Studio server: import, annotate, export, convert.

`make test-label-studio` installs the server and sets LABEL_STUDIO, the path of its command.
"""

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from itertools import pairwise

import pytest
import spacy
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from spacy_commands import run_spacy
from tiny_training import network, train

from spacy_bcrf.corpora.formats.label_studio import labeling_config

SERVER = os.environ.get("LABEL_STUDIO")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SERVER, reason="needs a server: make test-label-studio"),
]
TOKEN = "0123456789abcdef0123456789abcdef01234567"
# An emoji is one character here and two UTF-16 code units in a browser.
TEXTS = ["😀 Ann saw Rome .", "Bob saw Oslo .", 'Eve saw "Kiel" .']
START_TIMEOUT = 1200  # seconds; the first start makes the database


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    """A function that calls the API of a running server."""
    folder = tmp_path_factory.mktemp("server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = {
        "--data-dir": folder / "data",
        "--internal-host": "127.0.0.1",
        "--port": port,
        "--username": "annotator@example.com",
        "--password": "a-long-password",
        "--user-token": TOKEN,
    }
    command = [SERVER, "start", "--no-browser", "--enable-legacy-api-token"]
    command += [str(part) for option in options.items() for part in option]
    quiet = {"COLLECT_ANALYTICS": "0", "LATEST_VERSION_CHECK": "0", "SENTRY_DSN": ""}
    # The tests' path has packages that the server's environment must not import.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    log = (folder / "server.log").open("wb")
    server = subprocess.Popen(command, env=environment | quiet, stdout=log, stderr=log)

    def call(path, fields=None):
        data = None if fields is None else json.dumps(fields).encode()
        headers = {"Authorization": f"Token {TOKEN}", "Content-Type": "application/json"}
        url = f"http://127.0.0.1:{port}/api/{path}"
        with urllib.request.urlopen(
            urllib.request.Request(url, data, headers), timeout=60
        ) as response:
            return json.load(response)

    try:
        for _ in range(START_TIMEOUT):
            assert server.poll() is None, (folder / "server.log").read_text()[-3000:]
            try:
                call("version")
                break
            except (urllib.error.URLError, OSError):
                time.sleep(1)
        else:
            raise TimeoutError((folder / "server.log").read_text()[-3000:])
        yield call
    finally:
        server.terminate()
        server.wait(60)
        log.close()


def make_doc(nlp, text):
    doc = nlp.make_doc(text)
    names = {"Ann": "PER", "Bob": "PER", "Eve": "PER", "Rome": "LOC", "Oslo": "LOC", "Kiel": "LOC"}
    ents = [f"B-{names[t.text]}" if t.text in names else "O" for t in doc]
    return Doc(nlp.vocab, [t.text for t in doc], [bool(t.whitespace_) for t in doc], ents=ents)


def train_ner(docs, steps):
    nlp = spacy.blank("en")
    nlp.add_pipe("bcrf_ner", "ner", config={"model": network(), "annotate": ["confidence"]})
    train(nlp, [Example(nlp.make_doc(doc.text), doc) for doc in docs], steps=steps)
    return nlp


def test_predictions_become_annotations_and_training_data(api, tmp_path):
    blank = spacy.blank("en")
    nlp = train_ner([make_doc(blank, text) for text in TEXTS], steps=12)
    nlp.get_pipe("ner").temperature = 3.0  # so that alternatives are likely enough
    nlp.to_disk(tmp_path / "model")
    lines = [json.dumps({"text": text, "number": i}) for i, text in enumerate(TEXTS)]
    (tmp_path / "texts.jsonl").write_text("\n".join(lines))
    tasks = tmp_path / "tasks.json"
    run_spacy(
        *("bcrf", "rank", tmp_path / "model", tmp_path / "texts.jsonl"),
        *("--format", "label-studio", "-o", tasks),
    )

    labels = nlp.get_pipe("ner").labels
    project = api("projects", {"title": "test", "label_config": labeling_config(labels)})["id"]
    imported = api(f"projects/{project}/import", json.loads(tasks.read_text()))
    assert imported["task_count"] == 3
    listed = [
        api(f"tasks/{task['id']}") for task in api(f"tasks?project={project}&fields=all")["tasks"]
    ]
    uncertainties = [task["data"]["uncertainty"] for task in listed]
    assert all(a >= b for a, b in pairwise(uncertainties))
    versions = {p["model_version"] for task in listed for p in task["predictions"]}
    assert versions == {"ner", "ner alternatives"}
    for task in listed:
        predicted = next(p for p in task["predictions"] if p["model_version"] == "ner")
        ents = nlp(task["data"]["text"]).ents
        assert len(ents) == 2
        for region, ent in zip(predicted["result"], ents, strict=True):
            assert region["value"]["labels"] == [ent.label_]
            assert region["score"] == pytest.approx(ent._.confidence, abs=1e-4)
        # The annotator accepts all regions but gives the persons another label.
        for region in predicted["result"]:
            if region["value"]["labels"] == ["PER"]:
                region["value"]["labels"] = ["LOC"]
        api(f"tasks/{task['id']}/annotations/", {"result": predicted["result"]})

    exported = api(f"projects/{project}/export?exportType=JSON")
    (tmp_path / "export.json").write_text(json.dumps(exported))
    run_spacy("bcrf", "convert", tmp_path / "export.json", tmp_path / "gold.spacy", "--lang", "en")
    gold = list(DocBin().from_disk(tmp_path / "gold.spacy").get_docs(blank.vocab))
    assert sorted(doc.text for doc in gold) == sorted(TEXTS)
    assert all([ent.label_ for ent in doc.ents] == ["LOC", "LOC"] for doc in gold)
    again = train_ner(gold, steps=12)
    assert [ent.label_ for ent in again(TEXTS[1]).ents] == ["LOC", "LOC"]
