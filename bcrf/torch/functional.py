"""Differentiable functions of padded scores. The package's docstring has the shapes."""

import torch
from torch import Tensor

from bcrf import chain

from .batch import Batch, Scores
from .operators import describe, query


def widen(scores: Tensor) -> Tensor:
    """Return scores, at least as float32. TorchScript."""
    if scores.dtype == torch.float16 or scores.dtype == torch.bfloat16:
        return scores.float()
    return scores


def _widen_all(
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor | None,
    end: Tensor | None,
    mask: Tensor | None,
) -> Scores:
    first, last = (x if x is None else widen(x) for x in (start, end))
    return Scores(widen(emissions), widen(transitions), first, last, mask)


def log_likelihood(
    emissions: Tensor,
    tags: Tensor,
    transitions: Tensor,
    start: Tensor | None = None,
    end: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    reduction: str = "sum",
    inference: chain.Inference = chain.CRF(),  # noqa: B008
    batch_first: bool = False,
) -> Tensor:
    """Return the log-likelihood of tags, the negative loss of an inference.

    With unknown tags, it is the log-probability of all labelings that the tags allow. reduction:
    none, (B,); sum; mean over sequences; token_mean. The rest is (), 0 for no sequence. Raises
    ValueError naming the first wrong tag, the first sequence with NaN, or without a labeling that
    scores and tags allow.
    """
    scores = _widen_all(emissions, transitions, start, end, mask)
    return query(scores, tags, reduction, describe(inference), batch_first)


def log_partition(
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor | None = None,
    end: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    inference: chain.Inference = chain.CRF(),  # noqa: B008
    batch_first: bool = False,
) -> Tensor:
    """Return the log-partition of each sequence, (B,); of a BCRF, B(w)."""
    scores = _widen_all(emissions, transitions, start, end, mask)
    return query(scores, None, "log_partition", describe(inference), batch_first)


def entropy(
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor | None = None,
    end: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    inference: chain.Inference = chain.CRF(),  # noqa: B008
    batch_first: bool = False,
) -> Tensor:
    """Return the entropy of each sequence's distribution over labelings, (B,), in nats."""
    scores = _widen_all(emissions, transitions, start, end, mask)
    return query(scores, None, "entropy", describe(inference), batch_first)


def marginals(
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor | None = None,
    end: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    inference: chain.Inference = chain.CRF(),  # noqa: B008
    batch_first: bool = False,
) -> Tensor:
    """Return the marginal of each tag, in the shape of the emissions; 0 for padding."""
    scores = _widen_all(emissions, transitions, start, end, mask)
    return query(scores, None, "marginals", describe(inference), batch_first)


def potentials(
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor | None = None,
    end: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    batch_first: bool = False,
) -> chain.Potentials:
    """Return the scores without padding, for all functions of `bcrf.chain`."""
    return Batch(_widen_all(emissions, transitions, start, end, mask), batch_first).potentials
