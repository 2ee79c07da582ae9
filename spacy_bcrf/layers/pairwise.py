"""Transition scores for each pair of neighbouring tokens."""

from collections.abc import Callable
from typing import Any

from thinc.api import Model, glorot_uniform_init
from thinc.types import Floats2d

from bcrf.kernels import Array

InT = Floats2d
OutT = Array


def Pairwise(nH: int, nO: int | None = None, nI: int | None = None) -> Model[InT, OutT]:
    """Layer that scores the transitions of each edge (Corro et al. 2025). O(N nO^2 nH) time.

    Maps flat token vectors x (N, nI) to scores (N, nO, nO), `[from, to]`: row i scores the edge
    from token i to i + 1, V tanh(W [x_i; x_{i+1}] + b). The row of a sequence's last token is
    arbitrary, and its gradient must be zero. nO, nI: number of tags and width of the token vectors.

    Parameters: W (2, nH, nI) for token and next token, b (nH,), V (nO, nO, nH) `[from, to]`.
    """
    dims = {"nO": nO, "nH": nH, "nI": nI}
    params = dict.fromkeys(("W", "b", "V"))
    return Model("pairwise", forward, init=init, dims=dims, params=params)


def forward(model: Model[InT, OutT], X: InT, is_train: bool) -> tuple[OutT, Callable]:
    """Return the scores of all edges and the function that backpropagates their gradient."""
    ops: Any = model.ops
    nO, nH = model.get_dim("nO"), model.get_dim("nH")
    W_token, W_next = model.get_param("W")
    V: Array = model.get_param("V")
    V = V.reshape(nO * nO, nH)
    hidden = ops.gemm(X, W_token, trans2=True)
    hidden[:-1] += ops.gemm(X[1:], W_next, trans2=True)
    hidden += model.get_param("b")
    ops.xp.tanh(hidden, out=hidden)
    Y = ops.gemm(hidden, V, trans2=True).reshape(len(X), nO, nO)

    def backprop(dY: OutT) -> InT:
        dY = dY.reshape(len(X), nO * nO)
        model.inc_grad("V", ops.gemm(dY, hidden, trans1=True).reshape(nO, nO, nH))
        d_hidden = ops.gemm(dY, V) * (1 - hidden**2)
        model.inc_grad("b", d_hidden.sum(axis=0))
        dW = (ops.gemm(d_hidden, X, trans1=True), ops.gemm(d_hidden[:-1], X[1:], trans1=True))
        model.inc_grad("W", ops.xp.stack(dW))
        dX = ops.gemm(d_hidden, W_token)
        dX[1:] += ops.gemm(d_hidden[:-1], W_next)
        return dX

    return Y, backprop


def init(model: Model[InT, OutT], X: InT | None = None, Y: Any = None) -> None:
    """Set V to zero, so that all scores start at zero; draw W at random (Glorot uniform)."""
    nO, nH, nI = (model.get_dim(name) for name in ("nO", "nH", "nI"))
    weights: Array = glorot_uniform_init(model.ops, (nH, 2 * nI))
    model.set_param("W", weights.reshape(2, nH, nI))
    model.set_param("b", model.ops.alloc((nH,)))
    model.set_param("V", model.ops.alloc((nO, nO, nH)))
