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

# As in the paper, embeddings have 50 dimensions and Adam is the optimizer. Unlike in the paper,
# subword features are spaCy's, and batches replace single sentences, which take hours on a CPU.
BATCH_SIZE = 16
RATE = 0.001
TOK2VEC = {
    "@architectures": "spacy.Tok2Vec.v2",
    "embed": {
        "@architectures": "spacy.MultiHashEmbed.v2",
        "width": 50,
        "attrs": ["NORM", "PREFIX", "SUFFIX", "SHAPE"],
        "rows": [5000, 1000, 2500, 2500],
        "include_static_vectors": False,
    },
    "encode": {
        "@architectures": "spacy.TorchBiLSTMEncoder.v1",
        "width": 50,
        "depth": 1,
        "dropout": 0.2,
    },
}
NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "BiLSTM": ("tagger", {"@architectures": "spacy.Tagger.v2", "tok2vec": TOK2VEC}),
    "BiLSTM-CRF": (
        "bcrf_tagger",
        {
            "@architectures": "spacy-bcrf.SequenceLabeler.v1",
            "tok2vec": TOK2VEC,
            "head": {"@layers": "spacy-bcrf.CRF.v1"},
        },
    ),
}


def settings(name: str) -> str:
    """Describe the settings of a network. `run` repeats a run that had other settings."""
    return f"batches of {BATCH_SIZE}, Adam {RATE}, {NETWORKS[name]}"


def learn(
    name: str, task: Task, train: list, test: list, n_passes: int, seed: int = 0
) -> Iterator[tuple[float, float, float]]:
    """Yield test score, mean absolute parameter and seconds after each pass.

    The score is in percent. The seconds are the processor time of the pass.
    """
    import torch

    # The linear chains use one thread too.
    torch.set_num_threads(1)
    fix_random_seed(seed)
    factory, model = NETWORKS[name]
    nlp = spacy.blank("en")
    pipe: Any = nlp.add_pipe(factory, config={"model": model})

    def examples(sentences: list) -> list[Example]:
        made = []
        for sentence in sentences:
            gold = Doc(nlp.vocab, words=sentence.words, tags=task.labels(sentence))
            made.append(Example(Doc(nlp.vocab, words=sentence.words), gold))
        return made

    learned = examples(train)
    nlp.initialize(lambda: learned)
    optimizer = Adam(RATE)
    order = np.random.default_rng(seed)
    gold = [task.labels(sentence) for sentence in test]
    for _ in range(n_passes):
        start = time.process_time()
        shuffled = [learned[i] for i in order.permutation(len(learned))]
        for batch in minibatch(shuffled, BATCH_SIZE):
            nlp.update(batch, sgd=optimizer, drop=0.1)
        seconds = time.process_time() - start
        blank = (Doc(nlp.vocab, words=sentence.words) for sentence in test)
        docs = nlp.pipe(blank, batch_size=64)
        found = [[token.tag_ for token in doc] for doc in docs]
        yield task.score(gold, found), complexity(pipe.model), seconds


def complexity(model: Any) -> float:
    """Return the mean absolute parameter of a model."""
    total, size = 0.0, 0
    for node in model.walk():
        arrays = [node.get_param(name) for name in node.param_names if node.has_param(name)]
        for shim in node.shims:
            arrays += [p.detach().cpu().numpy() for p in shim._model.parameters()]
        for array in arrays:
            total += float(np.abs(array).sum())
            size += array.size
    return total / max(size, 1)
