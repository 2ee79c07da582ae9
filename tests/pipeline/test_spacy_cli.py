"""spaCy's own commands with the installed package, without --code."""

import json
import subprocess
import sys

import pytest
import spacy
from forked_commands import run_spacy as run
from spacy.tokens import Doc, DocBin

CONFIG = """
[paths]
train = null
dev = null

[nlp]
lang = "en"
pipeline = ["tok2vec", "bcrf_tagger", "bcrf_ner"]

[components]

[components.tok2vec]
factory = "tok2vec"

[components.tok2vec.model]
@architectures = "spacy.HashEmbedCNN.v2"
pretrained_vectors = null
width = 32
depth = 2
embed_size = 500

[components.bcrf_tagger]
factory = "bcrf_tagger"
attribute = "pos"

[components.bcrf_tagger.model]
@architectures = "spacy-bcrf.SequenceLabeler.v1"

[components.bcrf_tagger.model.tok2vec]
@architectures = "spacy.Tok2VecListener.v1"
width = 32

[components.bcrf_tagger.model.head]
@layers = "spacy-bcrf.BCRF.v1"

[components.bcrf_ner]
factory = "bcrf_ner"

[components.bcrf_ner.model]
@architectures = "spacy-bcrf.SequenceLabeler.v1"

[components.bcrf_ner.model.tok2vec]
@architectures = "spacy.Tok2VecListener.v1"
width = 32

[components.bcrf_ner.model.head]
@layers = "spacy-bcrf.CRF.v1"

[corpora]

[corpora.train]
@readers = "spacy.Corpus.v1"
path = ${paths.train}

[corpora.dev]
@readers = "spacy.Corpus.v1"
path = ${paths.dev}

[training]
max_steps = 40
eval_frequency = 20
"""

LABELS = """
[initialize.components.{name}]

[initialize.components.{name}.labels]
@readers = "spacy.read_labels.v1"
path = {path}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a filled config and a corpus."""
    folder = tmp_path_factory.mktemp("cli")
    vocab = spacy.blank("en").vocab
    people, places = ("Ann", "Bob", "Eve"), ("Rome", "Oslo")
    docs = [
        Doc(
            vocab,
            words=[person, "saw", "New", place, "."],
            pos=["PROPN", "VERB", "ADJ", "PROPN", "PUNCT"],
            ents=["B-PERSON", "O", "B-LOC", "I-LOC", "O"],
        )
        for person in people
        for place in places
    ] * 20
    DocBin(docs=docs, store_user_data=True).to_disk(folder / "corpus.spacy")
    (folder / "base.cfg").write_text(CONFIG)
    run("init", "fill-config", folder / "base.cfg", folder / "config.cfg")
    return folder


def start(*arguments):
    """Run a command in an interpreter of its own, as a user types it."""
    command = [sys.executable, "-m", "spacy", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def corpus(folder):
    """Return the options for the corpus."""
    return ("--paths.train", folder / "corpus.spacy", "--paths.dev", folder / "corpus.spacy")


@pytest.mark.slow
def test_fill_config_fills_in_the_head(folder):
    filled = (folder / "config.cfg").read_text()
    for line in ("n_iter = 10", 'decoder = "viterbi"', 'scheme = "BILUO"', "overwrite = false"):
        assert line in filled


@pytest.mark.slow
def test_debug_config_and_debug_data(folder):
    run("debug", "config", folder / "config.cfg", *corpus(folder))
    run("debug", "data", folder / "config.cfg", *corpus(folder))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, registry",
    [
        ("spacy-bcrf.BCRF.v1", "layers"),
        ("spacy-bcrf.SequenceLabeler.v1", "architectures"),
    ],
)
def test_find_function_names_the_plug_in(name, registry):
    assert "spacy_bcrf" in run("find-function", name, "-r", registry)


@pytest.mark.slow
def test_train_evaluate_and_labels(folder):
    run("init", "labels", folder / "config.cfg", folder / "labels", *corpus(folder))
    labels = json.loads((folder / "labels" / "bcrf_ner.json").read_text())
    assert labels == ["LOC", "PERSON"]
    config = (folder / "config.cfg").read_text()
    for name in ("bcrf_tagger", "bcrf_ner"):
        path = json.dumps(str(folder / "labels" / f"{name}.json"))
        config += LABELS.format(name=name, path=path)
    (folder / "labels.cfg").write_text(config)
    output = start("train", folder / "labels.cfg", "--output", folder / "out", *corpus(folder))
    assert "ENTS_F" in output
    assert "Warning: [" not in output
    model = folder / "out" / "model-best"
    run("evaluate", model, folder / "corpus.spacy", "--output", folder / "scores.json")
    scores = json.loads((folder / "scores.json").read_text())
    assert scores["pos_acc"] == scores["ents_f"] == 1.0
    doc = spacy.load(model)("Eve saw New Oslo .")
    assert [(ent.text, ent.label_) for ent in doc.ents] == [("Eve", "PERSON"), ("New Oslo", "LOC")]
