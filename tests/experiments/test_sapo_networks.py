"""The input of the networks of the SAPO experiments."""

import pytest

from experiments.sapo.bilstm import learn, network
from experiments.sapo.tasks import TASKS, Task
from spacy_bcrf.corpora.sentence import Sentence


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
