"""Calibration, promises and reports of pipelines whose only knowledge is a foreign tagger."""

import json

import numpy as np
import pytest
import spacy
from catalogue import REGISTRY
from commands import command
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from spacy.util import registry

WORDS = ["Ann", "saw", "Bob", "and", "Eve"]


class TooSure:
    """A source that is sure of each capital. Every fourth one is no name."""

    labels = ("O", "B-PER")
    identity = "1"

    def load(self):
        pass

    def __call__(self, docs):
        return [np.log([[0.02, 0.98] if t.is_title else [0.99, 0.01] for t in d]) for d in docs]


@pytest.fixture(autouse=True)
def source():
    registry.misc.register("tests.TooSure.v1", func=TooSure)
    yield
    REGISTRY.pop(("spacy", "misc", "tests.TooSure.v1"))


def make_docs(nlp, start):
    """Return 200 documents. Each capital is a name with probability 0.75."""
    rng = np.random.default_rng(start)
    tags = ["B-PER", "O", "B-PER", "O", "B-PER", "O"]
    return [
        Doc(nlp.vocab, [*WORDS, str(i)], ents=[t if rng.random() < 0.75 else "O" for t in tags])
        for i in range(start, start + 200)
    ]


@pytest.fixture(params=["ScoreHead", "LinearChain"])
def model(request, tmp_path):
    nlp = spacy.blank("xx")
    config = {"@architectures": f"spacy-bcrf.{request.param}.v1"}
    config["scores"] = [{"name": "sure", "@misc": "tests.TooSure.v1"}]
    if request.param == "LinearChain":
        config |= {"templates": ["shape[0]"], "objective": "crf"}
    nlp.add_pipe("bcrf_ner", config={"model": config})
    docs = make_docs(nlp, 0)
    nlp.initialize(lambda: [Example(nlp.make_doc(doc.text), doc) for doc in docs])
    nlp.to_disk(tmp_path / "model")
    DocBin(docs=docs).to_disk(tmp_path / "dev.spacy")
    DocBin(docs=make_docs(nlp, 200)).to_disk(tmp_path / "new.spacy")
    return tmp_path / "model"


def test_tools_work_on_scores(model, tmp_path):
    dev, new, texts = (tmp_path / name for name in ("dev.spacy", "new.spacy", "texts.txt"))
    texts.write_text(" ".join(WORDS) + "\n")
    assert [e.text for e in spacy.load(model)(" ".join(WORDS)).ents] == ["Ann", "Bob", "Eve"]

    calibrated = tmp_path / "calibrated"
    command("calibrate")(model, dev, "-o", calibrated)
    nlp = spacy.load(calibrated)
    # The source has 0.98.
    confidences = [ent._.confidence for ent in nlp(" ".join(WORDS)).ents]
    assert confidences == pytest.approx([0.75] * 3, abs=0.08)

    promised = tmp_path / "promised"
    command("control")(calibrated, new, "-o", promised, "--recall", 0.9)
    watched = command("monitor")(promised, texts, "--reference", new)
    assert json.loads(watched.stdout)["alarm"] is False
    command("redact")(promised, texts, "-o", tmp_path / "redacted.jsonl")
    record = json.loads((tmp_path / "redacted.jsonl").read_text())
    assert record["text"] == "[PER] saw [PER] and [PER]\n"

    page, output = tmp_path / "review.html", tmp_path / "report.json"
    command("review")(promised, texts, "-o", page)
    assert "Ann" in page.read_text(encoding="utf8")
    command("report")(promised, new, "-o", output)
    found = json.loads(output.read_text())["sources"]
    assert {(row["source"], row["how"]) for row in found} == {
        ("sure", "argmax"),
        ("sure", "decoded"),
    }
    assert all(row["recall"] == 1 and 0.7 < row["precision"] < 0.8 for row in found)
