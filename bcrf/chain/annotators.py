"""True tags and annotator reliability from the annotation of several annotators.

>>> import numpy as np
>>> from bcrf.chain import annotators
>>> tokens = np.arange(4)
>>> careful, careless = np.eye(2)[[0, 1, 1, 0]], np.eye(2)[[0, 1, 0, 0]]
>>> given = [annotators.Annotation(tokens, tags) for tags in (careful, careful, careless)]
>>> anything = np.ones((2, 2), bool), np.ones(2, bool), np.ones(2, bool)
>>> found = annotators.estimate_truth(given, np.array([4], "int32"), *anything)
>>> found.chain.unary.argmax(axis=1).tolist()
[0, 1, 1, 0]
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .crf import CRF
from .inference import Marginals
from .potentials import Potentials

Floats = NDArray[np.float64]

RIGHT = 4.0
"""Prior pseudo-count of the right tag, in each row of a confusion matrix."""
WRONG = 1.0
"""Prior pseudo-count of all wrong tags together."""


class Annotation(NamedTuple):
    """The annotation of one annotator.

    tokens: (M,) flat indices of the annotated tokens, each once. tags: (M, T), the probability of
    each tag by the annotator: one 1 in each row for an annotator who is certain.
    """

    tokens: NDArray[np.int64]
    tags: Floats


class Estimate(NamedTuple):
    """What `estimate_truth` finds.

    chain: potentials of the posterior of the true tags, float64. confusions: by annotator, (T, T),
    the probability of the annotator's tag (column) for a true tag (row). log_posteriors: the
    objective after each iteration.
    """

    chain: Potentials
    confusions: list[Floats]
    log_posteriors: list[float]


def estimate_truth(
    annotations: list[Annotation],
    lengths: NDArray[np.int32],
    transitions: NDArray[np.bool_],
    start: NDArray[np.bool_],
    end: NDArray[np.bool_],
    n_iter: int = 100,
    tolerance: float = 1e-5,
) -> Estimate:
    """Estimate the true tags and the confusion matrix of each annotator by EM.

    The model is that of Dawid and Skene (1979), tokens as items and tags as classes, with a
    first-order Markov chain over the true tags in place of independent ones. It is the hidden
    Markov model of Nguyen et al. (2017) with full confusion matrices. An annotator's tag depends on
    the true tag of its token alone. An uncertain annotation (p of several tags) counts as p
    annotations of each.

    The E-step computes the marginals of the chain, so the true tags are valid under the
    constraints. The M-step sets all probabilities to expected counts plus the pseudo-counts of
    Dirichlet priors: `RIGHT` and `WRONG` for confusions, 1 in all for each row of the transitions
    and for the first tags. So the log-posterior never decreases. EM starts from the annotators'
    mean and ends when the log-posterior per token grows by less than `tolerance`.

    annotations: by annotator. lengths: (B,) of the sequences, with N tokens in all.
    transitions, start, end: allowed transitions `[from, to]` (T, T), first and last tags (T,).

    O(N T^2) time an iteration and O(N T + A T^2) memory for A annotators. Raises ValueError without
    annotators or with a tag of another number, and if no labeling is allowed.
    """
    if not annotations:
        raise ValueError("expected the annotation of at least one annotator, got none")
    n_tags, n_tokens = len(start), int(lengths.sum())
    for tokens, tags in annotations:
        if tags.shape != (len(tokens), n_tags):
            raise ValueError(f"tags must be {(len(tokens), n_tags)}, got {tags.shape}")
    prior = np.full((n_tags, n_tags), WRONG / max(n_tags - 1, 1))
    np.fill_diagonal(prior, RIGHT)
    moves = transitions / transitions.sum(axis=1, keepdims=True).clip(min=1)
    first = start / max(start.sum(), 1)
    empty = Potentials(np.zeros((n_tokens, n_tags)), np.zeros((n_tags, n_tags)), lengths)

    def maximize(unary: Floats, counts: Floats) -> tuple[list[Floats], Potentials, float]:
        """Return confusions, chain and log-prior from expected tags (N, T) and transitions."""
        confusions = [_normalize(prior + unary[tokens].T @ tags) for tokens, tags in annotations]
        starts = np.where(start, unary[empty.starts].sum(axis=0), 0)
        log_moves, log_first = (
            _log(_normalize(counted)) for counted in (counts + moves, (starts + first)[None])
        )
        scores = np.zeros_like(empty.unary)
        for confusion, (tokens, tags) in zip(confusions, annotations, strict=True):
            scores[tokens] += tags @ np.log(confusion).T
        scores[empty.starts] += log_first[0]
        scores[np.ix_(empty.ends, ~end)] = -np.inf
        log_prior = sum(float((prior * np.log(confusion)).sum()) for confusion in confusions)
        log_prior += _expected(moves, log_moves) + _expected(first[None], log_first)
        chain = empty.with_scores(scores, log_moves)
        return confusions, chain, log_prior

    votes = np.full((n_tokens, n_tags), 1e-2 / n_tags)
    for tokens, tags in annotations:
        votes[tokens] += tags
    votes = _normalize(votes)
    inner = empty.inner_edges
    counts = np.where(transitions, votes[inner].T @ votes[inner + 1], 0)
    confusions, chain, log_prior = maximize(votes, counts)
    values: list[float] = []
    for _ in range(n_iter):
        found = CRF().infer(chain, "sum")
        if not (found.value > -np.inf).all():
            raise ValueError("the constraints allow no labeling of a sequence")
        values.append(float(found.value.sum()) + log_prior)
        if len(values) > 1 and values[-1] - values[-2] < tolerance * max(n_tokens, 1):
            break
        assert found.unary is not None and found.edges is not None
        confusions, chain, log_prior = maximize(found.unary, found.edges)
    return Estimate(chain, confusions, values)


def agreement(marginals: Marginals, annotation: Annotation) -> tuple[float, float]:
    """Return expected recall and precision of an annotator on tokens with other tags than tag 0.

    marginals: of the true tags (N, T). 1 without such tokens.
    """
    true, own = marginals.unary[annotation.tokens, 1:], annotation.tags[:, 1:]
    right = float((true * own).sum())
    recall, precision = (
        right / total if total > 0 else 1.0 for total in (float(true.sum()), float(own.sum()))
    )
    return recall, precision


def _normalize(counts: Floats) -> Floats:
    return counts / counts.sum(axis=-1, keepdims=True).clip(min=1e-300)


def _log(probabilities: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.log(probabilities)


def _expected(counts: Floats, logs: Floats) -> float:
    """Sum counts * logs over positive counts."""
    return float((counts[counts > 0] * logs[counts > 0]).sum())
