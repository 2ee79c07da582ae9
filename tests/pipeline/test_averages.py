"""Averaged perceptron and averaged MIRA: training with the optimizer's weight averages."""

import numpy as np
import pytest
import spacy
from spacy.lang.xx import MultiLanguage
from spacy.training import Example
from thinc.api import Adam
from tiny_training import network

DATA = [
    ("Ann saw Rome", {"entities": [(0, 3, "PERSON"), (8, 12, "LOC")]}),
    ("Bob left Oslo", {"entities": [(0, 3, "PERSON"), (9, 13, "LOC")]}),
]


def train(head, use_averages):
    """Return a trained pipeline, its head and optimizer, and the weights after each step."""
    nlp = MultiLanguage()
    pipe = nlp.add_pipe("bcrf_ner", config={"model": network(head)})
    examples = [Example.from_dict(nlp.make_doc(text), gold) for text, gold in DATA]
    nlp.initialize(lambda: examples)
    optimizer = Adam(0.01, use_averages=use_averages)
    history = []
    for _ in range(8):
        nlp.update(examples, sgd=optimizer)
        history.append(pipe.head.get_param("W").copy())
    return nlp, pipe.head, optimizer, history


@pytest.mark.parametrize("head", ["Perceptron", "MIRA"])
def test_use_averages_saves_the_average(head, tmp_path):
    nlp, layer, optimizer, history = train(head, use_averages=True)
    average = np.zeros_like(history[0])
    for step, weights in enumerate(history, start=1):
        average += (1 - (1 + step) / (10 + step)) * (weights - average)
    assert not np.allclose(average, history[-1], rtol=0.01)
    # spaCy's training loop scores and saves in this way.
    with nlp.use_params(optimizer.averages):
        np.testing.assert_allclose(layer.get_param("W"), average, rtol=1e-4, atol=1e-7)
        nlp.to_disk(tmp_path)
    np.testing.assert_array_equal(layer.get_param("W"), history[-1])
    loaded = spacy.load(tmp_path).get_pipe("bcrf_ner").head
    np.testing.assert_allclose(loaded.get_param("W"), average, rtol=1e-4, atol=1e-7)


def test_without_use_averages_the_optimizer_keeps_no_average():
    _, _, optimizer, _ = train("Perceptron", use_averages=False)
    assert not optimizer.averages
