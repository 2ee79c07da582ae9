"""Differentiable functions of padded scores. The package's docstring has the shapes."""

import json
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from typing import Any, NoReturn

import torch
from torch import Tensor

from bcrf import chain
from bcrf.chain.inference import unary_and_edges
from bcrf.kernels import Array
from bcrf.kernels.cuda.memory import to_host
from bcrf.kernels.native import name_labels

from .batch import UNKNOWN, Batch, Scores, as_array, as_tensor, check_shapes, on_stream

REDUCTIONS = ("none", "sum", "mean", "token_mean")


@cache
def describe(inference: chain.Inference) -> str:
    """Return an inference as text, which operators accept."""
    return json.dumps([type(inference).__name__, asdict(inference)])  # type: ignore[call-overload]


@cache
def _inference(text: str) -> chain.Inference:
    name, options = json.loads(text)
    return getattr(chain, name)(**options)


# Operators, which compilers keep as one step. They take and return tensors, numbers and texts.


def _find_loss(*args: Any) -> tuple[Tensor, Batch, Array, Array, float]:
    """Return the log-likelihood, its batch, and its gradient without padding, with a factor.

    The arguments are those of `_log_likelihood`. The gradient is of unary and edges.
    """
    *scores, tags, reduction, inference, batch_first = args
    if reduction not in REDUCTIONS:
        raise ValueError(f"invalid reduction: {reduction}; expected one of {', '.join(REDUCTIONS)}")
    with on_stream(scores[0]):
        batch = Batch(tuple(scores), batch_first, tags)
        losses, gradient = _inference(inference).loss(batch.potentials, batch.gold)
        factor = -1.0
        if reduction in ("mean", "token_mean"):
            over = losses if reduction == "mean" else batch.potentials.unary
            factor /= max(1, len(over))
        if reduction != "none":
            losses = batch.xp.asarray(losses.sum())
        losses *= factor
        return as_tensor(losses), batch, gradient.unary, gradient.transitions, factor


def _log_likelihood(
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor | None,
    end: Tensor | None,
    mask: Tensor | None,
    tags: Tensor,
    reduction: str,
    inference: str,
    batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the log-likelihood and its gradients: emissions, transitions, start and end."""
    value, batch, *gradient = _find_loss(
        emissions, transitions, start, end, mask, tags, reduction, inference, batch_first
    )
    with on_stream(emissions):
        return (value, *batch.gradients(*gradient))


def _weigh(
    weights: Tensor,
    d_emissions: Tensor,
    d_transitions: Tensor,
    d_start: Tensor,
    d_end: Tensor,
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor | None,
    end: Tensor | None,
    mask: Tensor | None,
    tags: Tensor,
    inference: str,
    batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of a weighted sum of the sequences' log-likelihoods.

    weights: (B,). The gradients d_emissions and so on are those of the plain sum.
    """
    if (weights == weights[:1]).all():
        factor = weights[:1].sum()
        return tuple(factor * d for d in (d_emissions, d_transitions, d_start, d_end))
    with on_stream(emissions):
        batch = Batch((emissions, transitions, start, end, mask), batch_first, tags)
        exact = _inference(inference)
        found = batch.weigh(-as_array(weights), lambda w: exact.loss(w, batch.gold)[1])
        return batch.gradients(found.unary, found.transitions)


def find_labelings(*args: Any) -> tuple[Batch, Array]:
    """Return the batch, and the best tags (N,). The arguments are those of `_decode`."""
    *scores, inference, batch_first = args
    with on_stream(scores[0]):
        batch, exact = Batch(tuple(scores), batch_first), _inference(inference)
        # The decoding of a Bregman CRF can use a forbidden transition.
        if isinstance(exact, chain.BCRF):
            w = batch.potentials
            return batch, chain.minimum_risk(w, exact.decoding_marginals(w))
        return batch, exact.decode(batch.potentials)


def _decode(
    emissions: Tensor,
    transitions: Tensor,
    start: Tensor | None,
    end: Tensor | None,
    mask: Tensor | None,
    inference: str,
    batch_first: bool,
) -> tuple[Tensor, Tensor]:
    """Return the tags (B, L), with -100 for padding, and the lengths (B,), as int64."""
    batch, found = find_labelings(emissions, transitions, start, end, mask, inference, batch_first)
    with on_stream(emissions):
        tags = batch.pad(found.astype("int64"), UNKNOWN)
        tags = tags if batch_first else batch.xp.ascontiguousarray(tags.T)
        return as_tensor(tags), as_tensor(batch.lengths.astype("int64"))


_operators = torch.library
log_likelihood_operator = _operators.custom_op(
    "bcrf::log_likelihood", _log_likelihood, mutates_args=()
)
_weigh_operator = _operators.custom_op("bcrf::weigh", _weigh, mutates_args=())
decode_operator = _operators.custom_op("bcrf::decode", _decode, mutates_args=())


@log_likelihood_operator.register_fake
def _(emissions: Tensor, transitions: Tensor, *args: Any) -> tuple[Tensor, ...]:
    *_, reduction, _, batch_first = args
    shape = (emissions.shape[0 if batch_first else 1],) if reduction == "none" else ()
    ends = (emissions.new_empty(emissions.shape[2]) for _ in range(2))
    value = emissions.new_empty(shape)
    return value, torch.empty_like(emissions), torch.empty_like(transitions), *ends


@_weigh_operator.register_fake
def _(weights: Tensor, *args: Any) -> tuple[Tensor, ...]:
    return tuple(map(torch.empty_like, args[:4]))


@decode_operator.register_fake
def _(emissions: Tensor, *args: Any) -> tuple[Tensor, Tensor]:
    first, second = emissions.shape[:2]
    shape = (first, second) if args[-1] else (second, first)
    tags, lengths = (emissions.new_empty(s, dtype=torch.int64) for s in (shape, shape[:1]))
    return tags, lengths


# Derivatives.


def _refuse() -> NoReturn:
    raise RuntimeError(
        "bcrf.torch has no second derivatives and no forward-mode derivatives of "
        "log-likelihoods, log-partitions, entropies and marginals; detach the first ones"
    )


class _Function(torch.autograd.Function):
    """A function that `torch.vmap` calls once for each element."""

    @classmethod
    def vmap(cls, info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Any, Any]:
        """Stack the outputs for each element of the batch."""
        outputs = [
            cls.apply(
                *(
                    x if dim is None else x.select(dim, i)
                    for x, dim in zip(args, in_dims, strict=True)
                )
            )
            for i in range(info.batch_size)
        ]
        if isinstance(outputs[0], tuple):
            stacked = tuple(torch.stack(parts) for parts in zip(*outputs, strict=True))
            return stacked, (0,) * len(stacked)
        return torch.stack(outputs), 0

    @staticmethod
    def jvp(ctx: Any, *_: Tensor) -> Any:
        _refuse()


class _Gradients(_Function):
    """Gradients, which are not differentiable."""

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> Any:
        _refuse()


def _save(ctx: Any, *tensors: Tensor | None) -> None:
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*tensors)


def _for_inputs(ctx: Any, gradients: tuple[Tensor, ...]) -> tuple[Tensor | None, ...]:
    """Return the gradients of the inputs that need one, and None for the rest."""
    wanted, n = ctx.needs_input_grad, len(gradients)
    found = [x if y else None for x, y in zip(gradients, wanted, strict=False)]
    return (*found, *[None] * (len(wanted) - n))


class _Weigh(_Gradients):
    @staticmethod
    def forward(*args: Any) -> tuple[Tensor, ...]:
        *weighed, is_scalar = args
        if is_scalar:
            return tuple(args[0] * x for x in args[1:5])
        return _weigh(*weighed)


class _LogLikelihood(_Function):
    @staticmethod
    def forward(*args: Any) -> tuple[Tensor, ...]:
        # PyTorch inspects the signature at each call, and this one takes the least time.
        return _log_likelihood(*args)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        *tensors, ctx.reduction, ctx.inference, ctx.batch_first = inputs
        _save(ctx, *output[1:], *tensors)

    @staticmethod
    def backward(ctx: Any, weights: Tensor | None, *second: Any) -> tuple[Tensor | None, ...]:
        if any(x is not None for x in second):
            _refuse()
        saved = ctx.saved_tensors
        if weights is None:
            return _for_inputs(ctx, ())
        if ctx.reduction != "none":
            return _for_inputs(ctx, tuple(weights * x for x in saved[:4]))
        args = (weights, *saved, ctx.inference, ctx.batch_first)
        is_compiling = torch.compiler.is_compiling()
        return _for_inputs(
            ctx, _weigh_operator(*args) if is_compiling else _Weigh.apply(*args, False)
        )


log_likelihood_operator.register_autograd(
    _LogLikelihood.backward, setup_context=_LogLikelihood.setup_context
)


class _DirectLogLikelihood(torch.autograd.Function):
    """`_LogLikelihood` outside of `torch.func`, in half of the time."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Tensor:
        value, batch, unary, edges, ctx.factor = _find_loss(*args)
        scores, ctx.options = args[:6], args[6:]
        is_scalar = ctx.options[0] != "none"
        # The gradient of a sum is known, so the scores may change before `backward`. They only lead
        # to the error of second derivatives.
        ctx.scores = scores if is_scalar else ()
        # PyTorch frees saved tensors after `backward`, which needs only the layout of the batch.
        _save(ctx, as_tensor(unary), as_tensor(edges), *(() if is_scalar else scores))
        del batch.potentials, batch.gold
        ctx.batch = batch
        return value

    @staticmethod
    def backward(ctx: Any, weights: Tensor | None) -> tuple[Tensor | None, ...]:
        if weights is None:
            return _for_inputs(ctx, ())
        unary, edges, *scores = ctx.saved_tensors
        found, factor = (as_array(unary), as_array(edges)), ctx.factor
        reduction, *options = ctx.options
        is_scalar = reduction != "none"
        if is_scalar and not weights.is_cuda and not torch.is_grad_enabled():
            number = None
            with suppress(RuntimeError):  # batched weights have no number
                number = float(weights)
            if number is not None:
                return _for_inputs(ctx, ctx.batch.gradients(*found, factor * number))
        with on_stream(weights):
            gradients = ctx.batch.gradients(*found, factor)
        args = (weights, *gradients, *(ctx.scores or scores), *options, is_scalar)
        return _for_inputs(ctx, _Weigh.apply(*args))


class _Query(_Function):
    """`log_partition` and `entropy` (B,), and `marginals` in the shape of the emissions."""

    @staticmethod
    def forward(*args: Any) -> Tensor:
        *scores, kind, inference, batch_first = args
        with on_stream(scores[0]):
            batch, exact = Batch(tuple(scores), batch_first), _inference(inference)
            if kind == "marginals":
                return as_tensor(batch.pad(exact.marginals(batch.potentials).unary))
            if kind == "entropy":
                return as_tensor(chain.entropy(exact.to_crf(batch.potentials)))
            return as_tensor(exact.log_partition(batch.potentials))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, ctx.kind, ctx.inference, ctx.batch_first = inputs
        _save(ctx, *tensors)

    @staticmethod
    def backward(ctx: Any, weights: Tensor) -> tuple[Tensor | None, ...]:
        if weights is None:
            return _for_inputs(ctx, ())
        arguments = (*ctx.saved_tensors, ctx.kind, ctx.inference, ctx.batch_first)
        return _for_inputs(ctx, _QueryGradients.apply(weights, *arguments))


class _QueryGradients(_Gradients):
    @staticmethod
    def forward(weights: Tensor, *args: Any) -> tuple[Tensor, ...]:
        *scores, kind, inference, batch_first = args
        with on_stream(scores[0]):
            batch, exact = Batch(tuple(scores), batch_first), _inference(inference)
            w = batch.potentials
            if kind == "marginals":
                zeros = w.xp.zeros_like(w.transitions)
                direction = w.gradient(batch.take(weights), zeros)
                found = exact.differentiate_marginals(w, direction)
            elif kind == "entropy":
                found = exact.backprop_to_crf(
                    w, _entropy_gradient(exact.to_crf(w), as_array(weights))
                )
            else:
                found = batch.weigh(as_array(weights), lambda v: _value_gradient(exact, v))
            found = found.astype(w.unary.dtype.name)
            return batch.gradients(found.unary, found.transitions)


def _value_gradient(inference: chain.Inference, w: chain.Potentials) -> chain.Potentials:
    found = unary_and_edges(inference.infer(w, "sum" if w.transitions.ndim == 2 else "each"))
    # Independent tags have pairs, but their log-partition does not depend on transitions.
    is_chain = not isinstance(inference, chain.Unstructured)
    return w.gradient(found[0], found[1] * is_chain)


def _entropy_gradient(w: chain.Potentials, weights: Array) -> chain.Potentials:
    """Return the gradient of weighted entropies: H = A(w) - <w, mu>, so dH = -Hessian w."""
    xp, by_token = w.xp, weights[w.segment_ids]
    shape = (*w.unary.shape, w.unary.shape[1])
    each = chain.Potentials(w.unary, xp.broadcast_to(w.transitions, shape), w.lengths)
    # A forbidden tag has probability 0, whatever its score.
    unary, edges = (xp.where(xp.isneginf(x), 0, x) for x in (each.unary, each.transitions))
    direction = w.gradient(unary * -by_token[:, None], edges * -by_token[:, None, None])
    return chain.CRF().differentiate_marginals(each, direction)


def query(kind: str, scores: Scores, inference: chain.Inference, batch_first: bool) -> Tensor:
    """Return the log-partition or entropy of sequences, or marginals; see the public functions."""
    return _Query.apply(*scores, kind, describe(inference), batch_first)


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
    return widen(emissions), widen(transitions), first, last, mask


# Public functions.


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

    With unknown tags, it is the log-probability of all labelings that the tags allow.

    reduction: none, (B,); sum; mean over sequences; token_mean. The rest is (), 0 for no sequence.

    Raises ValueError naming the first wrong tag, the first sequence with NaN, or without a labeling
    that scores and tags allow.
    """
    scores = _widen_all(emissions, transitions, start, end, mask)
    return apply_log_likelihood(*scores, tags, reduction, describe(inference), batch_first)


def apply_log_likelihood(*args: Any) -> Tensor:
    """Return the log-likelihood. Only compilers need the operator, which is slower."""
    if torch.compiler.is_compiling():
        check_shapes(args[:5], args[5])
        return log_likelihood_operator(*args)[0]
    if torch._C._are_functorch_transforms_active():
        return _LogLikelihood.apply(*args)[0]
    return _DirectLogLikelihood.apply(*args) if torch.is_grad_enabled() else _find_loss(*args)[0]


def decode(*args: Any) -> list[list[int]]:
    """Return the best labeling of each sequence. The arguments are those of the operator."""
    if torch.compiler.is_compiling():
        check_shapes(args[:5])
        rows, lengths = decode_operator(*args)
        return [row[:n] for row, n in zip(rows.tolist(), lengths.tolist(), strict=True)]
    batch, tags = find_labelings(*args)
    return name_labels(list(range(batch.shape[2])), to_host(tags), to_host(batch.lengths))


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
    return query("log_partition", scores, inference, batch_first)


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
    return query("entropy", scores, inference, batch_first)


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
    return query("marginals", scores, inference, batch_first)


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
