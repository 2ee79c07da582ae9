"""The networks of the SAPO paper, BiLSTM and BiLSTM-CRF, built from spaCy's layers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import spacy
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import fix_random_seed, minibatch
from thinc.api import Adam

from experiments.sapo.tasks import Task
from experiments.sapo.training import Pass
from spacy_bcrf.corpora.sentence import Sentence
from spacy_bcrf.sparse.features import Features
from spacy_bcrf.sparse.template_sets import get_templates

# As in the paper, embeddings have 50 dimensions and Adam is the optimizer. Unlike in the paper,
# subword features are spaCy's, and batches replace single sentences, which take hours on a CPU.
# The networks embed part-of-speech tags if the templates of the linear chains read them.
BATCH_SIZE = 16
RATE = 0.001
NETWORKS = ("BiLSTM", "BiLSTM-CRF")


def reads_tags(task: Task) -> bool:
    """Return whether the templates of a task read part-of-speech tags."""
    return any(a.name == "tag" for a in Features(get_templates(task.templates)).columns)


def network(name: str, task: Task) -> tuple[str, dict[str, Any]]:
    """Return the factory and the config of the model of a network."""
    rows = {"NORM": 5000, "PREFIX": 1000, "SUFFIX": 2500, "SHAPE": 2500}
    if reads_tags(task):
        rows["TAG"] = 500
    tok2vec = {
        "@architectures": "spacy.Tok2Vec.v2",
        "embed": {
            "@architectures": "spacy.MultiHashEmbed.v2",
            "width": 50,
            "attrs": list(rows),
            "rows": list(rows.values()),
            "include_static_vectors": False,
        },
        "encode": {
            "@architectures": "spacy.TorchBiLSTMEncoder.v1",
            "width": 50,
            "depth": 1,
            "dropout": 0.2,
        },
    }
    if name == "BiLSTM":
        return "tagger", {"@architectures": "spacy.Tagger.v2", "tok2vec": tok2vec}
    head = {"@layers": "spacy-bcrf.CRF.v1"}
    return "bcrf_tagger", {
        "@architectures": "spacy-bcrf.SequenceLabeler.v1",
        "tok2vec": tok2vec,
        "head": head,
    }


def settings(name: str, task: Task) -> str:
    """Describe the settings of a network. `run` repeats a run that had other settings."""
    return f"batches of {BATCH_SIZE}, Adam {RATE}, {network(name, task)}"


def learn(
    name: str, task: Task, train: list, test: list, n_passes: int, seed: int = 0
) -> Iterator[Pass]:
    """Train a network, and yield the measurements of each pass."""
    import torch

    # The linear chains use one thread too.
    torch.set_num_threads(1)
    fix_random_seed(seed)
    factory, model = network(name, task)
    nlp = spacy.blank("en")
    # The predicted tags replace the part-of-speech tags of the input.
    pipe: Any = nlp.add_pipe(factory, config={"model": model, "overwrite": True})
    has_tags = reads_tags(task)

    def make_doc(sentence: Sentence) -> Doc:
        tags = [tag or "" for tag in sentence.tags] if has_tags else None
        return Doc(nlp.vocab, words=sentence.words, tags=tags)

    learned = []
    for sentence in train:
        gold = Doc(nlp.vocab, words=sentence.words, tags=task.labels(sentence))
        learned.append(Example(make_doc(sentence), gold))
    nlp.initialize(lambda: learned)
    optimizer = Adam(RATE)
    order = np.random.default_rng(seed)
    expected = [task.labels(sentence) for sentence in test]
    for _ in range(n_passes):
        start = time.process_time()
        shuffled = [learned[i] for i in order.permutation(len(learned))]
        for batch in minibatch(shuffled, BATCH_SIZE):
            nlp.update(batch, sgd=optimizer, drop=0.1)
        seconds = time.process_time() - start
        docs = nlp.pipe(map(make_doc, test), batch_size=64)
        found = [[token.tag_ for token in doc] for doc in docs]
        yield Pass(task.score(expected, found), *measure_parameters(pipe.model), seconds)


def measure_parameters(model: Any) -> tuple[float, float]:
    """Return the mean absolute parameter of a model, and the percentage that is not 0."""
    total, nonzero, size = 0.0, 0, 0
    for node in model.walk():
        arrays = [node.get_param(name) for name in node.param_names if node.has_param(name)]
        for shim in node.shims:
            arrays += [p.detach().cpu().numpy() for p in shim._model.parameters()]
        for array in arrays:
            total += float(np.abs(array).sum())
            nonzero += int(np.count_nonzero(array))
            size += array.size
    return total / max(size, 1), 100 * nonzero / max(size, 1)
