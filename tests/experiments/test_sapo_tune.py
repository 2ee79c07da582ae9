"""The choice of l2 and l1, and the input of the networks."""

import sys

import pytest

from experiments.sapo import run
from experiments.sapo.bilstm import learn, network
from experiments.sapo.tasks import TASKS, Task
from spacy_bcrf.corpora.sentence import Sentence

WORDS = "New\tB-LOC\nYork\tI-LOC\n\nyes\tO\n\n" * 3


def test_tuning_reads_the_development_sentences_only(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "jnlpba"
    folder.mkdir()
    (folder / "train.tsv").write_text(WORDS)
    (folder / "devel.tsv").write_text(WORDS)
    arguments = ["run", "bioner", "--corpora", str(tmp_path), "--tune"]
    monkeypatch.setattr(sys, "argv", [*arguments, "--passes", "4", "--seeds", "1"])
    run.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        "JNLPBA entities (F) on the 6 development sentences, 4 passes, 1 orders, n = 10"
    )
    rows = [[float(cell) for cell in line.strip("| ").split(" | ")] for line in lines[4:-2]]
    assert rows[0] == [0, 0, 100, 100, 100, 100]
    assert rows[-1][:2] == [0, 1] and rows[-1][5] < 50
    assert lines[-1] == "best: l2 = 0, l1 = 0.01"
    assert not (folder / "test.tsv").exists()


def test_the_last_training_sentences_are_for_development(tmp_path):
    folder = tmp_path / "conll2000"
    folder.mkdir()
    (folder / "train.txt").write_text("He PRP B-NP\n\n" * 936 + "ran VBD B-VP\n\n" * 2)
    train, dev = TASKS["chunking"].load_dev(tmp_path)
    assert [len(train), len(dev), dev[-1].words] == [2, 936, ["ran"]]
    (folder / "train.txt").write_text("He PRP B-NP\n\n" * 936)
    with pytest.raises(ValueError, match="936 sentences, expected more than the 936 development"):
        TASKS["chunking"].load_dev(tmp_path)


@pytest.mark.parametrize("name", ["BiLSTM", "BiLSTM-CRF"])
def test_networks_read_tags_where_the_templates_do(name):
    read = {
        task: "TAG" in network(name, TASKS[task])[1]["tok2vec"]["embed"]["attrs"] for task in TASKS
    }
    assert read == {"chunking": True, "bioner": False, "pos": False}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["BiLSTM", "BiLSTM-CRF"])
def test_networks_replace_the_tags_of_their_input(name):
    pytest.importorskip("torch", reason="BiLSTM")
    found = []

    def score(expected, predicted):
        found.append(predicted)
        return 0.0

    task = Task(**{**vars(TASKS["chunking"]), "score": score})
    sentences = [Sentence(words=["He", "ran"], tags=["PRP", "VBD"], entities=["B-NP", "B-VP"])]
    (measured,) = learn(name, task, sentences, sentences, 1)
    assert {tag for tags in found[0] for tag in tags} <= {"B-NP", "B-VP"}
    assert 0 < measured.nonzero <= 100
