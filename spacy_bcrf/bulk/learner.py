"""A learner of a sparse chain: a pipeline in one process, with a share of a corpus."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, NamedTuple

from spacy.language import Language
from spacy.training import Example
from spacy.util import fix_random_seed, minibatch

from spacy_bcrf.analysis.loading import copy_words, load_pipeline
from spacy_bcrf.corpora.doc_files import read_shuffled
from spacy_bcrf.layers.linear_chain import is_chain_alone, sparse_chain
from spacy_bcrf.sparse.model import SparseChain

BUFFER = 5000
"""Documents in the buffer that shuffles a share of the corpus."""
BATCH = 128


class Share(NamedTuple):
    """What one learner gets. pipeline: folder. name: component. files: of the corpus."""

    pipeline: Path
    name: str
    files: list[Path]


class Learned(NamedTuple):
    """The outcome of a pass: the chain's bytes, the number of documents and the loss."""

    chain: bytes
    n_docs: int
    loss: float


class Learner:
    """Make passes over a share of a corpus. A pass depends only on its arguments."""

    def __init__(self, share: Share) -> None:
        self.share = share
        self.nlp = load_pipeline(share.pipeline)
        self.chain = find_chain(self.nlp, share.name)
        self._before = self.nlp.pipe_names[: self.nlp.pipe_names.index(share.name)]
        self._others = [pipe for pipe in self.nlp.pipe_names if pipe != share.name]

    def learn(self, chain: bytes, seed: int) -> Learned:
        """Make one pass that starts from the weights of a chain."""
        fix_random_seed(seed % 2**32)  # feature_dropout draws from NumPy's global generator
        self.chain.from_bytes(chain)
        docs = read_shuffled(self.share.files, self.nlp.vocab, random.Random(seed), BUFFER)
        losses: dict[str, float] = {}
        n_docs = 0
        for batch in minibatch(docs, BATCH):
            examples = [Example(copy_words(doc, self.nlp), doc) for doc in batch]
            self.nlp.update(examples, exclude=self._others, annotates=self._before, losses=losses)
            n_docs += len(batch)
        return Learned(self.chain.to_bytes(), n_docs, losses.get(self.share.name, 0.0))


def find_chain(nlp: Language, name: str) -> SparseChain:
    """Return the chain of a component whose model is a chain alone. ValueError otherwise."""
    pipe: Any = nlp.get_pipe(name)
    chain = sparse_chain(pipe.model)
    if chain is None or not is_chain_alone(pipe.model):
        raise ValueError(
            f"{name} has no sparse chain alone; expected a component with the model "
            "spacy-bcrf.LinearChain.v1"
        )
    if chain.first:
        raise ValueError(f"{name} has two_pass = true, which needs one process: use spacy train")
    return chain


def raise_error(result: Learned | ValueError) -> Learned:
    """Raise the error of a learner in this process."""
    if isinstance(result, ValueError):
        raise result
    return result
