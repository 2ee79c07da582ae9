"""spaCy's commands with sparse linear chains."""

import json
import re
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.tokens import DocBin
from spacy_commands import run_spacy, train

from spacy_bcrf.layers.linear_chain import sparse_chain

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
COLUMNS = "He PRP B-NP\nreckons VBZ B-VP\nthe DT B-NP\ndeficit NN I-NP\n. . O\n\n" * 10
MORE = "They PRP B-NP\nsleep VBP B-VP\nwell RB B-ADVP\n\n" * 3

CRFSUITE = """
[nlp]
lang = "en"
pipeline = ["chunker"]

[components]

[components.chunker]
factory = "bcrf_chunker"

[components.chunker.model]
@architectures = "spacy-bcrf.LinearChain.v1"
templates = ["_.crfsuite[0]"]

[corpora]

[corpora.train]
@readers = "spacy-bcrf.CRFsuiteCorpus.v1"
path = {path}

[corpora.dev]
@readers = "spacy-bcrf.CRFsuiteCorpus.v1"
path = {path}

[training]
max_steps = 20
eval_frequency = 10
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a training corpus, and a development corpus with one more label."""
    folder = tmp_path_factory.mktemp("linear")
    for name, text in (("train", COLUMNS), ("dev", COLUMNS + MORE)):
        (folder / f"{name}.txt").write_text(text)
        options = ("-l", "en", "--tag-column", 2, "--spans-key", "chunks")
        run_spacy("bcrf", "convert", folder / f"{name}.txt", folder / f"{name}.spacy", *options)
    return folder


def train_chunker(folder, output, dev="dev", overrides=None, log=None):
    """Train with the chunking config and return the table of scores."""
    settings = {
        "paths.train": str(folder / "train.spacy"),
        "paths.dev": str(folder / f"{dev}.spacy"),
        "training.max_epochs": 2,
        "training.eval_frequency": 1,
    }
    log = log or StringIO()
    train(CONFIGS / "chunking.cfg", folder / output, settings | (overrides or {}), log)
    return log.getvalue()


@pytest.mark.slow
def test_train_evaluate_and_use(folder):
    assert "SPANS_CHUN" in train_chunker(folder, "out", dev="train")
    model = folder / "out" / "model-best"
    # The training data has no ADVP, so the model finds none.
    run_spacy("evaluate", model, folder / "dev.spacy", "--output", folder / "scores.json")
    scores = json.loads((folder / "scores.json").read_text())
    assert scores["spans_chunks_per_type"]["NP"]["r"] > 0.7
    assert scores["spans_chunks_per_type"]["ADVP"]["r"] == 0
    nlp = spacy.load(model)
    doc = nlp("He reckons the deficit.")
    chunks = [(span.text, span.label_) for span in doc.spans["chunks"]]
    assert chunks == [("He", "NP"), ("reckons", "VP"), ("the deficit", "NP")]
    assert [token.tag_ for token in doc] == ["PRP", "VBZ", "DT", "NN", "."]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_model(folder):
    models = []
    for name in ("one", "two"):
        train_chunker(folder, name, overrides={"system.seed": 7})
        models.append((folder / name / "model-last/chunker/model").read_bytes())
    assert models[0] == models[1]


@pytest.mark.slow
def test_a_rate_too_high_stops_training_and_keeps_the_best_model(folder):
    # One document per batch: spaCy saves the model after the first step, and the second diverges.
    settings = {"components.chunker.model.rate": 1e30, "training.batcher.size": 1}
    log = StringIO()
    with pytest.raises(ValueError, match=re.escape("rate = 1e+30 is too high")):
        train_chunker(folder, "diverged", "train", settings, log)
    assert "Aborting and saving the final best model" in log.getvalue()
    nlp = spacy.load(folder / "diverged/model-best")
    weights = sparse_chain(nlp.get_pipe("chunker").model).learner.weights
    assert np.isfinite(weights).all()


@pytest.mark.slow
def test_an_error_names_a_bad_template(folder):
    settings = {"components.chunker.model.templates": ["w[0]", "wrd[0]"]}
    message = "template 'wrd[0]', position 1: unknown attribute wrd"
    with pytest.raises(ValueError, match=re.escape(message)):
        train_chunker(folder, "bad", overrides=settings)
    assert not (folder / "bad/model-best").exists()


@pytest.mark.slow
def test_training_on_a_crfsuite_corpus(folder):
    text = "".join(
        "\n" if not line else "{2}\tw[0]={0}\tp[0]={1}\n".format(*line.split())
        for line in COLUMNS.splitlines()
    )
    path = folder / "train.crfsuite"
    path.write_text(text)
    (folder / "base.cfg").write_text(CRFSUITE.format(path=json.dumps(str(path))))
    run_spacy("init", "fill-config", folder / "base.cfg", folder / "crfsuite.cfg")
    train(folder / "crfsuite.cfg", folder / "crfsuite", {}, StringIO())
    meta = json.loads((folder / "crfsuite/model-best/meta.json").read_text())
    assert meta["performance"]["spans_chunks_f"] == 1
    # The error names a malformed line before training starts.
    path.write_text(text + "B-NP\tw[0]=x:half\n")
    message = "train.crfsuite:61: feature 'w[0]=x:half' has the value 'half'"
    with pytest.raises(ValueError, match=re.escape(message)):
        train(folder / "crfsuite.cfg", folder / "no", {}, StringIO())
    assert not (folder / "no/model-best").exists()


def test_the_converted_corpus_is_complete(folder):
    docs = list(DocBin().from_disk(folder / "train.spacy").get_docs(spacy.blank("xx").vocab))
    assert len(docs) == 10
    assert all(len(doc.spans["chunks"]) == 3 for doc in docs)
