"""The operators `torch.ops.bcrf`: log-likelihoods, queries and decoding of padded scores.

`query` is differentiable. PyTorch's compilers, `torch.func` and TorchScript see it as one step, and
its two halves, `query_forward` and `query_backward`, as what to compute. All take the fields of
`Scores`, tags, and these texts:

kind         with tags, the reduction of the log-likelihood: none, sum, mean or token_mean.
             Without tags, log_partition, entropy or marginals.
inference    see `describe`.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from typing import Any, NoReturn, TypeAlias

import torch
from torch import Tensor

from bcrf import chain
from bcrf.chain.inference import unary_and_edges
from bcrf.kernels import Array
from bcrf.kernels.cuda.memory import to_host
from bcrf.kernels.native import name_labels

from .batch import UNKNOWN, Batch, Scores, as_array, as_tensor, check, is_on_gpu, on_stream
from .padded import find_labelings, find_loss

REDUCTIONS = ("none", "sum", "mean", "token_mean")
Input: TypeAlias = Tensor | str | bool | None


@cache
def describe(inference: chain.Inference) -> str:
    """Return an inference as text, which operators accept."""
    return json.dumps([type(inference).__name__, asdict(inference)])  # type: ignore[call-overload]


@cache
def _inference(text: str) -> chain.Inference:
    name, options = json.loads(text)
    return getattr(chain, name)(**options)


# Answers and their gradients.


def _find_loss(
    batch: Batch, reduction: str, inference: str
) -> tuple[Tensor, Tensor, Tensor, float]:
    """Return the log-likelihood, and the gradient of unary and edges, up to a factor."""
    _check_reduction(reduction)
    losses, gradient = _inference(inference).loss(batch.potentials, batch.gold)
    factor = -1.0
    if reduction in ("mean", "token_mean"):
        factor /= max(1, len(losses if reduction == "mean" else batch.potentials.unary))
    if reduction != "none":
        losses = batch.xp.asarray(losses.sum())
    losses *= factor
    value, unary, edges = map(as_tensor, (losses, gradient.unary, gradient.transitions))
    return value, unary, edges, factor


def _check_reduction(reduction: str) -> None:
    if reduction not in REDUCTIONS:
        raise ValueError(f"invalid reduction: {reduction}; expected one of {', '.join(REDUCTIONS)}")


def _query_forward(
    scores: Scores, tags: Tensor | None, kind: str, inference: str, batch_first: bool
) -> list[Tensor]:
    """Return the answer. Four gradients of its sum follow a log-likelihood."""
    exact = _inference(inference)
    if tags is not None:
        _check_reduction(kind)
        if found := find_loss(scores, tags, kind, exact, batch_first):
            return found
    with on_stream(scores.emissions):
        batch = Batch(scores, batch_first, tags)
        if tags is not None:
            value, unary, edges, factor = _find_loss(batch, kind, inference)
            return [value, *batch.gradients(as_array(unary), as_array(edges), factor)]
        if kind == "marginals":
            return [as_tensor(batch.pad(exact.marginals(batch.potentials).unary))]
        if kind == "entropy":
            return [as_tensor(chain.entropy(exact.to_crf(batch.potentials)))]
        return [as_tensor(exact.log_partition(batch.potentials))]


def _query_backward(
    scores: Scores,
    tags: Tensor | None,
    kind: str,
    inference: str,
    batch_first: bool,
    weights: Tensor,
    known: list[Tensor],
) -> list[Tensor]:
    """Return the gradients of a weighted sum of an answer's elements.

    known: the gradients of a log-likelihood's plain sum.
    """
    first = weights.flatten()[:1]
    if known and (weights == first).all():
        return [first.sum() * d for d in known]
    with on_stream(scores.emissions):
        batch, exact = Batch(scores, batch_first, tags), _inference(inference)
        w = batch.potentials
        if tags is not None:
            found = batch.weigh(-as_array(weights), lambda v: exact.loss(v, batch.gold)[1])
        elif kind == "marginals":
            direction = w.gradient(batch.take(weights), w.xp.zeros_like(w.transitions))
            found = exact.differentiate_marginals(w, direction)
        elif kind == "entropy":
            d_chain = _entropy_gradient(exact.to_crf(w), as_array(weights))
            found = exact.backprop_to_crf(w, d_chain)
        else:
            found = batch.weigh(as_array(weights), lambda v: _value_gradient(exact, v))
        found = found.astype(w.unary.dtype.name)
        return list(batch.gradients(found.unary, found.transitions))


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


def find_best(scores: Scores, inference: str, batch_first: bool) -> tuple[Batch, Array]:
    """Return the batch, and the best tags (N,)."""
    with on_stream(scores.emissions):
        batch, exact = Batch(scores, batch_first), _inference(inference)
        # The decoding of a Bregman CRF can use a forbidden transition.
        if isinstance(exact, chain.BCRF):
            w = batch.potentials
            return batch, chain.minimum_risk(w, exact.decoding_marginals(w))
        return batch, exact.decode(batch.potentials)


def decode(scores: Scores, inference: str, batch_first: bool) -> list[list[int]]:
    """Return the best labeling of each sequence. Compilers get the operator."""
    if torch.compiler.is_compiling():
        found = torch.ops.bcrf.decode(*scores, inference, batch_first)
    else:
        found = find_labelings(scores, _inference(inference), batch_first)
    if found is None:
        batch, tags = find_best(scores, inference, batch_first)
        return name_labels(list(range(batch.shape[2])), to_host(tags), to_host(batch.lengths))
    rows, lengths = found
    return [row[:n] for row, n in zip(rows.tolist(), lengths.tolist(), strict=True)]


def _decode(scores: Scores, inference: str, batch_first: bool) -> tuple[Tensor, Tensor]:
    """Return the tags (B, L), with -100 for padding, and the lengths (B,), as int64."""
    if known := find_labelings(scores, _inference(inference), batch_first):
        rows, lengths = (x.to(scores.emissions.device) for x in known)
        return rows, lengths
    batch, found = find_best(scores, inference, batch_first)
    with on_stream(scores.emissions):
        tags = batch.pad(found.astype("int64"), UNKNOWN)
        tags = tags if batch_first else batch.xp.ascontiguousarray(tags.T)
        return as_tensor(tags), as_tensor(batch.lengths.astype("int64"))


# Derivatives.


class _Function(torch.autograd.Function):
    """A function that `torch.vmap` calls once for each element, and without forward mode."""

    @classmethod
    def vmap(
        cls, info: Any, in_dims: tuple[int | None, ...], *inputs: Input
    ) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        """Stack the outputs for each element of the batch."""
        outputs = [
            cls.apply(
                *(
                    x.select(dim, i) if isinstance(x, Tensor) and dim is not None else x
                    for x, dim in zip(inputs, in_dims, strict=True)
                )
            )
            for i in range(info.batch_size)
        ]
        stacked = tuple(torch.stack(parts) for parts in zip(*outputs, strict=True))
        return stacked, (0,) * len(stacked)

    @staticmethod
    def jvp(ctx: Any, *_: Tensor) -> NoReturn:
        _refuse()


def _refuse() -> NoReturn:
    raise RuntimeError(
        "bcrf.torch has no second derivatives and no forward-mode derivatives of "
        "log-likelihoods, log-partitions, entropies and marginals; detach the first ones"
    )


class _Query(_Function):
    """`query_forward`, whose gradient is `query_backward`."""

    @staticmethod
    def forward(*inputs: Input) -> tuple[Tensor, ...]:
        return tuple(torch.ops.bcrf.query_forward(*inputs))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        *tensors, kind, _, _ = inputs
        gradients = output[1:]
        ctx.set_materialize_grads(False)
        # The gradient of a sum is known, so the scores may change before `backward`.
        ctx.is_sum = bool(gradients) and kind != "none"
        ctx.options = inputs[-3:]
        known = gradients or (None,) * 4
        ctx.save_for_backward(*known, *(() if ctx.is_sum else tensors))

    @staticmethod
    def backward(ctx: Any, weights: Tensor | None, *second: Tensor | None) -> tuple[Any, ...]:
        if any(x is not None for x in second):
            _refuse()
        saved = ctx.saved_tensors
        if weights is None:
            return _for_inputs(ctx, ())
        if ctx.is_sum:
            return _for_inputs(ctx, [weights * x for x in saved])
        return _for_inputs(ctx, _QueryBackward.apply(weights, *saved, *ctx.options))


class _QueryBackward(_Function):
    """`query_backward`, which is not differentiable."""

    @staticmethod
    def forward(weights: Tensor, *inputs: Input) -> tuple[Tensor, ...]:
        known = [d for d in inputs[:4] if isinstance(d, Tensor)]
        if weights.dim() == 0:
            return tuple(weights * d for d in known)
        return tuple(torch.ops.bcrf.query_backward(*inputs[4:], weights, known))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> NoReturn:
        _refuse()


class _PlainLoss(torch.autograd.Function):
    """`_Query` of a summed log-likelihood that `Batch.plain` has read, in half of the time.

    It keeps the gradient without padding. `backward` pads and weighs it in one pass.
    """

    @staticmethod
    def forward(
        ctx: Any,
        emissions: Tensor,
        transitions: Tensor,
        start: Tensor | None,
        end: Tensor | None,
        batch: Batch,
        kind: str,
        inference: str,
        inputs: tuple[Input, ...],
    ) -> Tensor:
        value, unary, edges, ctx.factor = _find_loss(batch, kind, inference)
        ctx.set_materialize_grads(False)
        # PyTorch frees saved tensors after `backward`, which needs only the layout of the batch.
        ctx.save_for_backward(unary, edges)
        del batch.potentials, batch.gold
        # `inputs` of `_Query` may change before `backward`.
        ctx.batch, ctx.inputs = batch, inputs
        return value

    @staticmethod
    def backward(ctx: Any, weights: Tensor | None) -> tuple[Any, ...]:
        if weights is None:
            return _for_inputs(ctx, ())
        unary, edges = map(as_array, ctx.saved_tensors)
        if not torch.is_grad_enabled():
            with suppress(RuntimeError):  # batched weights have no number
                factor = ctx.factor * float(weights)
                return _for_inputs(ctx, ctx.batch.gradients(unary, edges, factor))
        known = ctx.batch.gradients(unary, edges, ctx.factor)
        # The scores lead to the error of second derivatives.
        return _for_inputs(ctx, _QueryBackward.apply(weights, *known, *ctx.inputs))


class _CudaLoss(torch.autograd.Function):
    """`_Query` of a summed log-likelihood on a GPU, with less of Python around it."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        value, *known = _query_forward(Scores(*inputs[:5]), *inputs[5:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*known)
        ctx.inputs = inputs
        return value

    @staticmethod
    def backward(ctx: Any, weights: Tensor | None) -> tuple[Any, ...]:
        known = ctx.saved_tensors
        if weights is None:
            return _for_inputs(ctx, ())
        if not torch.is_grad_enabled():
            return _for_inputs(ctx, [weights * x for x in known])
        # The scores lead to the error of second derivatives.
        return _for_inputs(ctx, _QueryBackward.apply(weights, *known, *ctx.inputs))


def _for_inputs(ctx: Any, gradients: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
    """Return the gradients of the inputs that need one, and None for the rest."""
    wanted = ctx.needs_input_grad
    found = [x if y else None for x, y in zip(gradients, wanted, strict=False)]
    return (*found, *[None] * (len(wanted) - len(found)))


def _query(
    scores: Scores, tags: Tensor | None, kind: str, inference: str, batch_first: bool
) -> Tensor:
    inputs = *scores, tags, kind, inference, batch_first
    if tags is not None and kind != "none":
        with suppress(RuntimeError):  # `torch.vmap` refuses both, even of unbatched scores
            if is_on_gpu(scores.emissions):
                return _CudaLoss.apply(*inputs)
            batch = Batch.plain(scores, batch_first, tags)
            if batch is not None:
                return _PlainLoss.apply(*scores[:4], batch, kind, inference, inputs)
    return _Query.apply(*inputs)[0]


def query(
    scores: Scores, tags: Tensor | None, kind: str, inference: str, batch_first: bool
) -> Tensor:
    """Return the answer, which is differentiable once. Compilers get the operator."""
    if torch.compiler.is_compiling():
        return torch.ops.bcrf.query(*scores, tags, kind, inference, batch_first)
    return _query(scores, tags, kind, inference, batch_first)


# What compilers need to know: the shapes of the results.


def _query_forward_shapes(
    scores: Scores, tags: Tensor | None, kind: str, inference: str, batch_first: bool
) -> list[Tensor]:
    check(scores, tags)
    emissions = scores.emissions
    shape = (emissions.shape[0 if batch_first else 1],)
    if tags is None:
        return [emissions.new_empty(emissions.shape if kind == "marginals" else shape)]
    return [emissions.new_empty(shape if kind == "none" else ()), *_gradient_shapes(scores)]


def _gradient_shapes(scores: Scores, *_: object) -> list[Tensor]:
    shape, edges = scores.emissions.shape, scores.transitions.shape
    return [scores.emissions.new_empty(x) for x in (shape, edges, shape[2:], shape[2:])]


def _decode_shapes(scores: Scores, inference: str, batch_first: bool) -> tuple[Tensor, Tensor]:
    check(scores)
    first, second = scores.emissions.shape[:2]
    shape = (first, second) if batch_first else (second, first)
    tags, lengths = (scores.emissions.new_empty(x, dtype=torch.int64) for x in (shape, shape[:1]))
    return tags, lengths


_library = torch.library.Library("bcrf", "DEF")
_SCORES = "Tensor emissions, Tensor transitions, Tensor? start, Tensor? end, Tensor? mask"
_OPTIONS = "str inference, bool batch_first"
_QUERY = f"{_SCORES}, Tensor? tags, str kind, {_OPTIONS}"


def _define(schema: str, **kernels: Callable[..., Any]) -> None:
    """Define an operator by its kernels for PyTorch's dispatch keys.

    `torch.library.custom_op` would take 40 us more for each call, and refuses `torch.func`.
    """

    def flat(kernel: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *inputs: kernel(Scores(*inputs[:5]), *inputs[5:])

    _library.define(schema)
    for key, kernel in kernels.items():
        _library.impl(schema.partition("(")[0], flat(kernel), key)


_define(f"query({_QUERY}) -> Tensor", CompositeImplicitAutograd=_query)
_define(
    f"query_forward({_QUERY}) -> Tensor[]",
    CPU=_query_forward,
    CUDA=_query_forward,
    Meta=_query_forward_shapes,
)
_define(
    f"query_backward({_QUERY}, Tensor weights, Tensor[] known) -> Tensor[]",
    CPU=_query_backward,
    CUDA=_query_backward,
    Meta=_gradient_shapes,
)
_define(
    f"decode({_SCORES}, {_OPTIONS}) -> (Tensor, Tensor)",
    CPU=_decode,
    CUDA=_decode,
    Meta=_decode_shapes,
)
