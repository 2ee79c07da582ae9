"""Tests of the tasks of template ablation and of the benchmark of accuracy."""

from dataclasses import replace

import pytest
import spacy

from experiments.template_ablation import MODEL
from lab.labeling_tasks import TASKS, Part
from spacy_bcrf.judging.folds import fit_sparse_chain

SENTENCES = ["the DT B-NP\ndog NN I-NP\nbarks VBZ O\n", "a DT B-NP\ncat NN I-NP\nsees VBZ O\n"]


@pytest.fixture
def task(tmp_path):
    (tmp_path / "train.txt").write_text("\n".join(SENTENCES * 3))
    parts = {"train": Part("train.txt", 0, 4), "dev": Part("train.txt", 4)}
    return replace(TASKS["conll2000"], parts=parts)


def test_parts_split_a_file_and_examples_keep_only_the_input(task, tmp_path):
    vocab = spacy.blank("en").vocab
    train, dev = (task.read(tmp_path, part, tmp_path / "cache", vocab) for part in task.parts)
    assert [len(train), len(dev)] == [4, 2]
    nlp = task.make_nlp({**MODEL, "templates": ["p[0]"]}, vocab)
    for example in task.examples(nlp, dev):
        assert [token.tag_ for token in example.predicted] == ["DT", "NN", "VBZ"]
        assert not example.predicted.spans
        assert [span.label_ for span in example.reference.spans["chunks"]] == ["NP"]


def test_fit_sparse_chain_learns_what_updates_learn(task, tmp_path):
    vocab = spacy.blank("en").vocab
    train, dev = (task.read(tmp_path, part, tmp_path / "cache", vocab) for part in task.parts)
    nlp = task.make_nlp({**MODEL, "templates": ["p[0]", "w[0]"], "rate": 0.5}, vocab)
    # Tags and words of the training part.
    assert fit_sparse_chain(nlp, task.examples(nlp, train), 5) == 3 + 6
    assert nlp.evaluate(task.examples(nlp, dev))[task.score] == 1
