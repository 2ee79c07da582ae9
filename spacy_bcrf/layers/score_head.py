"""`spacy-bcrf.ScoreHead.v1`: the scores of foreign taggers as emissions of a chain."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats2d

from bcrf.chain import Potentials
from spacy_bcrf.scores.biases import read_biases, spread_biases
from spacy_bcrf.scores.foreign_labels import OUTSIDE, find_names, match_tags, split_label
from spacy_bcrf.scores.token_scores import Scorer, make_scorers

from .heads import CRF
from .network import SequenceLabeler

_AGAINST_SPLITS = -1e-3
_UNKNOWN = -10.0
"""Score of a tag that the source does not have. Learning can raise it."""


def ScoreHead(
    scores: list[dict[str, Any]],
    *,
    biases: str | None = None,
    operating_point: str = "default",
    decoder: str = "viterbi",
) -> Model[list[Doc], Potentials]:
    """Build a chain over the log-probabilities of foreign taggers.

    Without training it decodes the best valid labeling of the source: tags of the scheme BILUO
    express the labels of any other. With several sources, that of the mean log-probability of the
    sources that are not silent; without any, O. Training moves the scores of all labels for each
    tag, and the transitions.

    scores: the sources, see `scores.token_scores`.
    biases: file of transition biases, see `scores.biases`. operating_point: of this file.
    decoder: see `decoding.DECODERS`.
    """
    scorers = make_scorers(scores)
    if not scorers:
        raise ValueError("spacy-bcrf.ScoreHead.v1 needs a source in scores, got none")
    vectors: Model[list[Doc], list[Floats2d]] = Model(
        "scores", _forward, attrs={"scorers": scorers}
    )
    head = CRF(decoder=decoder)
    model = SequenceLabeler(vectors, head)
    start = None if biases is None else read_biases(Path(biases), operating_point)
    model.init = partial(_init, model.init, scorers, start)
    return model


def _forward(
    model: Model[list[Doc], list[Floats2d]], docs: list[Doc], is_train: bool
) -> tuple[list[Floats2d], Callable]:
    """Return vectors (n, L + 1) of each source side by side: weight times scores, and weight.

    At each token, a silent source has the weight 0, and the S others have 1 / S.
    """
    ops: Any = model.ops
    by_source = [scorer.find(docs) for scorer in model.attrs["scorers"]]
    vectors = []
    for of_doc in zip(*by_source, strict=True):
        speaks = np.array([~of.silent for of in of_doc])
        weights = (speaks / speaks.sum(axis=0).clip(1))[:, :, None]
        pairs = zip(weights, of_doc, strict=True)
        parts = [x for w, of in pairs for x in (w * np.nan_to_num(of.values), w)]
        vectors.append(ops.asarray2f(np.hstack(parts)))
    return vectors, lambda d_vectors: []


def _init(
    init_layers: Callable,
    scorers: list[Scorer],
    biases: dict[str, float] | None,
    model: Model[list[Doc], Potentials],
    X: list[Doc] | None = None,
    Y: Any = None,
) -> None:
    """Start from the decoding of the sources. ValueError if they score none of the tags."""
    init_layers(model, X, Y)
    head = model.get_ref("output_layer")
    tags: list[str] = head.attrs["tags"]
    W = np.zeros(head.get_param("W").shape, dtype="float32")
    if len(W) != len(tags) or head.get_param("transitions").shape != (len(tags),) * 2:
        raise ValueError("spacy-bcrf.ScoreHead.v1 scores one chain of tags: take bcrf_ner")
    transitions = np.zeros((len(tags),) * 2, dtype="float32")
    outside = np.array([tag == OUTSIDE for tag in tags])
    b = outside.astype("float32")  # the weights of sources take it away
    column = 0
    for scorer in scorers:
        scorer.keeps = True
        labels = match_tags(scorer.labels, tags)
        if not any(labels[i] >= 0 for i, tag in enumerate(tags) if tag != OUTSIDE):
            raise ValueError(
                f"scores {scorer.name!r}: none of its labels "
                f"{', '.join(find_names(scorer.labels)[:12])} is one of "
                f"{', '.join(find_names(tags)[:12])}. Name ours in the key labels of the source"
            )
        known = np.flatnonzero(labels >= 0)
        W[known, column + labels[known]] = 1
        column += len(scorer.labels) + 1
        W[:, column - 1] = _UNKNOWN * (labels < 0) - outside
        pairs = set(map(split_label, scorer.labels))
        plain = {name for _, name in pairs} - {name for prefix, name in pairs if prefix not in "I"}
        for i, old in enumerate(tags):
            for j, new in enumerate(tags):
                # Without prefixes, nothing says whether two tokens are one entity: they are.
                same = split_label(old)[1] == split_label(new)[1] in plain
                if same and split_label(new)[0] in ("B", "U", "S"):
                    transitions[i, j] = _AGAINST_SPLITS
    if biases is not None:
        transitions = spread_biases(biases, tags)
    ops: Any = model.ops
    head.set_param("W", ops.asarray2f(W))
    head.set_param("b", ops.asarray1f(b))
    head.set_param("transitions", ops.asarray2f(transitions))
