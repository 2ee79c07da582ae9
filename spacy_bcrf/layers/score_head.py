"""`spacy-bcrf.ScoreHead.v1`: the scores of foreign taggers as emissions of a chain."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats2d

from bcrf.chain import Potentials
from spacy_bcrf.scores.biases import read_biases, spread_biases
from spacy_bcrf.scores.foreign_labels import OUTSIDE, find_names, match_tags, split_label
from spacy_bcrf.scores.foreign_tagger import ForeignTagger, SourceError, TokenScores, make_taggers

from .heads import CRF
from .network import LabelingNetwork

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

    scores: the sources, see `scores.foreign_tagger`.
    biases: file of transition biases, see `scores.biases`. operating_point: of this file.
    decoder: see `decoding.DECODERS`.
    """
    taggers = make_taggers(scores)
    if not taggers:
        raise SourceError("spacy-bcrf.ScoreHead.v1 needs a source in scores, got none")
    vectors: Model[list[Doc], list[Floats2d]] = Model(
        "scores", _forward, attrs={"taggers": taggers}
    )
    head = CRF(decoder=decoder)
    model = LabelingNetwork(vectors, head)
    start = None if biases is None else read_biases(Path(biases), operating_point)
    model.init = partial(_init, model.init, taggers, start)
    return model


def _forward(
    model: Model[list[Doc], list[Floats2d]], docs: list[Doc], is_train: bool
) -> tuple[list[Floats2d], Callable]:
    """Return vectors (n, L + N + 1) of each source: weight times scores, and weight: 0 or 1 / S.

    Scores are log-probabilities of the L labels, and that no label has each of the N names.
    """
    ops: Any = model.ops
    taggers: list[ForeignTagger] = model.attrs["taggers"]
    by_source = [tagger.find(docs, strict=not is_train) for tagger in taggers]
    vectors = []
    for of_doc in zip(*by_source, strict=True):
        speaks = np.array([~of.silent for of in of_doc])
        weights = (speaks / speaks.sum(axis=0).clip(1))[:, :, None]
        triples = zip(taggers, weights, of_doc, strict=True)
        parts = [x for s, w, of in triples for x in (w * np.nan_to_num(_score(s, of)), w)]
        vectors.append(ops.asarray2f(np.hstack(parts)))
    return vectors, lambda d_vectors: []


def _score(tagger: ForeignTagger, scores: TokenScores) -> NDArray[Any]:
    values = tagger.merge.apply(scores.values)
    pairs = map(split_label, tagger.merge.labels)
    of_name = np.array([[name == n for n in find_names(tagger.merge.labels)] for _, name in pairs])
    return np.hstack([values, np.log((1 - np.exp(values) @ of_name).clip(1e-7))])


def _init(
    init_layers: Callable,
    taggers: list[ForeignTagger],
    biases: dict[str, float] | None,
    model: Model[list[Doc], Potentials],
    X: list[Doc] | None = None,
    Y: Any = None,
) -> None:
    """Start from the decoding of the sources. ValueError if they score none of the tags."""
    init_layers(model, X, Y)
    head = model.get_ref("output_layer")
    tags: list[str] = head.attrs["tags"]
    n_states = len(head.get_param("transitions"))
    if biases is not None and n_states < len(tags):
        raise ValueError("spacy-bcrf.ScoreHead.v1: biases are of one chain of tags; take bcrf_ner")
    W = np.zeros(head.get_param("W").shape, dtype="float32")
    transitions = np.zeros((n_states, n_states), dtype="float32")
    b = np.zeros(len(tags), dtype="float32")
    b[::n_states] = 1  # O; the weights of sources take it away
    column = 0
    for tagger in taggers:
        tagger.check_outside(tags)
        labels, names = tagger.merge.labels, find_names(tagger.merge.labels)
        found = match_tags(labels, tags)
        known = np.flatnonzero(found >= 0)
        if not any(labels[k] != OUTSIDE for k in found[known]):
            ours = find_names([tag for k, tag in enumerate(tags) if k % n_states])
            raise SourceError(
                f"scores {tagger.name!r}: none of its labels {', '.join(names[:12])} is one of "
                f"{', '.join(ours[:12])}. Name ours in the key labels of the source"
            )
        W[known, column + found[known]] = 1
        weight = column + len(labels) + len(names)
        W[:, weight] = _UNKNOWN * (found < 0) - b
        for first in range(0, len(tags), n_states):
            # Of chains side by side, and of a source without O.
            if found[first] < 0:
                of_chain = {split_label(tag)[1] for tag in tags[first : first + n_states]}
                others = [k for k, name in enumerate(names) if name in of_chain]
                W[first, column + len(labels) + np.array(others, dtype="int64")] = 1
                W[first, weight] = -1
        column = weight + 1
        pairs = set(map(split_label, labels))
        plain = {name for _, name in pairs} - {name for prefix, name in pairs if prefix not in "I"}
        for i, old in enumerate(tags[:n_states]):
            for j, new in enumerate(tags[:n_states]):
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
