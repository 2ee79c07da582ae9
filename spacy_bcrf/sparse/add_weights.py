"""Weights of a trained chain in another one, by feature."""

import numpy as np

from bcrf.linear.model_bytes import fill_features, unpack

from .model import SparseChain, check_first_order
from .word_tables import FREQUENCY


def add_weights(chain: SparseChain, data: bytes) -> None:
    """Take the weights of a trained chain with the same tags and templates, by feature.

    data: of `SparseChain.to_bytes`. All else stays. ValueError, which changes nothing, if the bytes
    are damaged, untrained or of order 2, and if templates, clusters or number of tags differ.
    """
    learner = chain.learner
    saved = unpack(data) if data else None
    if saved is None or not (len(saved.keys) or saved.general.any()):
        raise ValueError("the linear chain has no weights; expected a trained one")
    chain.check_templates(saved)
    check_first_order(saved)
    n_tags = learner.n_tags
    if saved.general.shape != (learner.n_general, n_tags):
        raise ValueError(f"there are {n_tags} tags, but {saved.general.shape[1]} in the bytes")
    tables = chain.features.tables.tables
    for name in tables.keys() & saved.tables.keys() - {FREQUENCY}:
        if tables[name] != saved.tables[name]:
            raise ValueError(f"the saved linear chain was trained with another table {name}")
    rows = learner.n_general + chain.dictionary.find(saved.keys, True)
    learner.resize(len(chain.dictionary))
    weights = learner.weights.copy()
    weights[: learner.n_general, :n_tags] = saved.general
    features = np.zeros((len(saved.keys), learner.stride), dtype="float32")
    fill_features(saved, features)
    weights[rows] = features
    learner.weights = weights
