"""A network, sentence lengths and potentials that several benchmarks measure."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bcrf.chain import Potentials
from bcrf.io.text import find_file, read_lines
from lab import ROOT
from spacy_bcrf.corpora.formats.conllu import read_conllu

EWT = Path("ud-english-ewt/en_ewt-ud-train.conllu")
SAMPLE = ROOT / "assets/sample/train.conllu"

NETWORK = {
    "@architectures": "spacy-bcrf.SequenceLabeler.v1",
    "tok2vec": {
        "@architectures": "spacy-bcrf.HashEmbedCNN.v1",
        "pretrained_vectors": None,
        "width": 96,
        "depth": 4,
        "embed_size": 2000,
        "window_size": 1,
        "maxout_pieces": 3,
        "subword_features": True,
    },
    "head": {"@layers": "spacy-bcrf.BCRF.v1"},
}
"""spaCy's default CNN with a Bregman CRF: the network of taggers, recognizers and chunkers."""


def sentence_lengths(corpora: Path | None) -> tuple[NDArray[np.int32], str]:
    """Return the lengths of English sentences, and a description of their source."""
    path = find_file(corpora / EWT) if corpora else SAMPLE
    lengths = [len(sentence.words) for sentence in read_conllu(read_lines(path))]
    source = "UD English EWT, train" if corpora else "the sample corpus (no --corpora given)"
    return np.array(lengths, dtype="int32"), f"sentence lengths of {source}"


def random_potentials(
    n_tags: int,
    lengths: NDArray[np.int32],
    rng: np.random.Generator,
    unary_scale: float = 2.0,
    transition_scale: float = 1.0,
) -> Potentials:
    """Draw normal potentials in float32 with shared transitions; scales: standard deviations."""
    unary = rng.standard_normal((int(lengths.sum()), n_tags), dtype="float32")
    transitions = rng.standard_normal((n_tags, n_tags), dtype="float32")
    return Potentials(unary_scale * unary, transition_scale * transitions, lengths)
