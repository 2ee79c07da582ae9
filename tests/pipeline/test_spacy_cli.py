"""spaCy's own commands with the installed package, without --code."""

import json
import subprocess
import sys
from io import StringIO

import pytest
import spacy
from spacy.tokens import Doc, DocBin
from spacy_commands import run_spacy as run
from spacy_commands import train
from tiny_training import LISTENER, RATE, TOK2VEC, network

BASE = """
[nlp]
lang = "xx"
pipeline = ["ner"]

[components]

[components.ner]
factory = "bcrf_ner"

[components.ner.model]
@architectures = "spacy-bcrf.SequenceLabeler.v1"

[components.ner.model.tok2vec]
@architectures = "spacy-bcrf.HashEmbedCNN.v1"
pretrained_vectors = null
width = 32
depth = 1
embed_size = 100
window_size = 1
maxout_pieces = 2
subword_features = true

[components.ner.model.head]
@layers = "spacy-bcrf.BCRF.v1"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the config of two components that share a tok2vec, and a corpus."""
    folder = tmp_path_factory.mktemp("cli")
    nlp = spacy.blank("xx")
    nlp.add_pipe("tok2vec", config={"model": TOK2VEC})
    tagger = {"attribute": "pos", "model": network("BCRF", LISTENER)}
    nlp.add_pipe("bcrf_tagger", config=tagger)
    nlp.add_pipe("bcrf_ner", config={"model": network("CRF", LISTENER)})
    config = nlp.config
    for name in ("train", "dev"):
        config["corpora"][name]["path"] = str(folder / "corpus.spacy")
    config["training"].update(max_steps=20, eval_frequency=10)
    config["training"]["optimizer"]["learn_rate"] = RATE
    config["initialize"]["components"] = {
        name: {
            "labels": {
                "@readers": "spacy.read_labels.v1",
                "path": str(folder / "labels" / f"{name}.json"),
                "require": False,
            }
        }
        for name in ("bcrf_tagger", "bcrf_ner")
    }
    config.to_disk(folder / "config.cfg")
    docs = [
        Doc(
            nlp.vocab,
            words=[person, "saw", "New", place, "."],
            pos=["PROPN", "VERB", "ADJ", "PROPN", "PUNCT"],
            ents=["B-PERSON", "O", "B-LOC", "I-LOC", "O"],
        )
        for person in ("Ann", "Bob", "Eve")
        for place in ("Rome", "Oslo")
    ] * 20  # fewer than 100 documents are an error for `debug data`
    DocBin(docs=docs, store_user_data=True).to_disk(folder / "corpus.spacy")
    return folder


def start(*arguments):
    """Run a command in an interpreter of its own, as a user types it."""
    command = [sys.executable, "-m", "spacy", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_fill_config_fills_in_the_head(tmp_path):
    (tmp_path / "base.cfg").write_text(BASE)
    run("init", "fill-config", tmp_path / "base.cfg", tmp_path / "config.cfg")
    filled = (tmp_path / "config.cfg").read_text()
    for line in ("n_iter = 10", 'decoder = "viterbi"', 'scheme = "BILUO"', "temperature = 1.0"):
        assert line in filled


@pytest.mark.slow
def test_debug_config_and_debug_data(folder):
    run("debug", "config", folder / "config.cfg")
    run("debug", "data", folder / "config.cfg")


@pytest.mark.slow
def test_find_function_names_the_plug_in():
    names = {"spacy-bcrf.BCRF.v1": "layers", "spacy-bcrf.SequenceLabeler.v1": "architectures"}
    for name, registry in names.items():
        assert "spacy_bcrf" in run("find-function", name, "-r", registry)


@pytest.mark.slow
def test_train_evaluate_and_labels(folder):
    config, model = folder / "config.cfg", folder / "out/model-best"
    run("init", "labels", config, folder / "labels")
    assert json.loads((folder / "labels/bcrf_ner.json").read_text()) == ["LOC", "PERSON"]
    output = start("train", config, "--output", folder / "out")
    assert "ENTS_F" in output
    assert "Warning: [" not in output
    run("evaluate", model, folder / "corpus.spacy", "--output", folder / "scores.json")
    scores = json.loads((folder / "scores.json").read_text())
    assert scores["pos_acc"] == scores["ents_f"] == 1.0
    doc = spacy.load(model)("Eve saw New Oslo .")
    assert [(ent.text, ent.label_) for ent in doc.ents] == [("Eve", "PERSON"), ("New Oslo", "LOC")]


@pytest.mark.slow
def test_assemble_apply_and_benchmark(folder):
    run("assemble", folder / "config.cfg", folder / "assembled")
    assert spacy.load(folder / "assembled").pipe_names == ["tok2vec", "bcrf_tagger", "bcrf_ner"]
    train(folder / "config.cfg", folder / "trained", {"training.max_steps": 20}, StringIO())
    model = folder / "trained/model-last"
    (folder / "texts.jsonl").write_text('{"text": "Ann saw New Rome ."}\n{"text": ""}\n')
    run("apply", model, folder / "texts.jsonl", folder / "applied.spacy", "-b", 1)
    found = list(DocBin().from_disk(folder / "applied.spacy").get_docs(spacy.blank("xx").vocab))
    assert [[ent.text for ent in doc.ents] for doc in found] == [["Ann", "New Rome"], []]
    options = ("--batches", 30, "--warmup", 1, "--batch-size", 2)
    assert "words/s" in run("benchmark", "speed", model, folder / "corpus.spacy", *options).lower()
    assert "NER F" in run("benchmark", "accuracy", model, folder / "corpus.spacy")
