"""Skip-gram vectors of the words of raw text."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from bcrf.io.extras import require

from .word_counts import NO_STATE, Checkpoint, Read

RATES = 0.025, 0.0001
"""gensim's first and last learning rate."""


class _Sentences:
    def __init__(self, read: Read) -> None:
        self._read = read

    def __iter__(self) -> Iterator[Sequence[str]]:
        return (list(sentence) for sentence in self._read())


def train_vectors(
    read: Read,
    dimensions: int = 64,
    *,
    min_freq: int = 3,
    window: int = 3,
    epochs: int = 5,
    threads: int = 1,
    seed: int = 0,
    state: Checkpoint = NO_STATE,
) -> tuple[list[str], NDArray[np.float32]]:
    """Return V words in the order of their frequency, and their vectors (V, dimensions).

    Skip-grams with negative sampling (Mikolov et al. 2013), by gensim. Several threads give another
    result each time. read: called once, and once an epoch. window: most words between a word and
    its neighbour. state: to save after each epoch, and to go on from. ValueError without words.
    """
    word2vec = require("gensim.models.word2vec", "clusters")
    sentences = _Sentences(read)
    model = word2vec.Word2Vec(
        vector_size=dimensions, window=window, sg=1, min_count=min_freq, workers=threads, seed=seed
    )
    model.build_vocab(sentences)
    if not len(model.wv):
        raise ValueError(f"no word occurs at least {min_freq} times")
    saved = state.load()
    if saved:
        model.wv.vectors, model.syn1neg = saved["vectors"], saved["hidden"]
    rates = np.linspace(*RATES, epochs + 1)
    start = int(saved["epochs"]) if saved else 0
    for k in tqdm(range(start, epochs), "epochs", delay=1, leave=False):
        options = {"epochs": 1, "start_alpha": rates[k], "end_alpha": rates[k + 1]}
        model.train(sentences, total_examples=model.corpus_count, **options)
        state.save(vectors=model.wv.vectors, hidden=model.syn1neg, epochs=np.array(k + 1))
    state.remove()
    return list(model.wv.index_to_key), model.wv.vectors
