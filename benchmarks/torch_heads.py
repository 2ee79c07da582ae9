"""PyTorch heads to compare with: two libraries, and implementations without a library.

Losses are sums over the batch. Gradients are in `unary.grad` and `transitions.grad`.
"""

import warnings
from abc import ABC, abstractmethod
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bcrf.chain import Inference, Potentials
from lab.options import need


class TorchHead(ABC):
    """Potentials and gold tags as padded tensors, with a mask, on a device.

    filled: (B, L), True where a token is. unary: (B, L, T). transitions: (T, T) shared, or
    (B, L, T, T), where row i scores the edge from token i to token i + 1.
    """

    def __init__(self, potentials: Potentials, gold: Any, device: str = "cpu") -> None:
        torch = need("torch")

        self.lengths = torch.tensor(to_host(potentials.lengths).astype("int64"), device=device)
        longest = int(self.lengths.max())
        self.filled = torch.arange(longest, device=device) < self.lengths[:, None]
        self.tags = self._pad(gold).long()
        self.unary = self._pad(potentials.unary).requires_grad_()
        per_edge = potentials.transitions.ndim == 3
        as_tensor = self._pad if per_edge else self._to_tensor
        self.transitions: Any = as_tensor(potentials.transitions).requires_grad_()

    def _to_tensor(self, array: Any) -> Any:
        from thinc.api import xp2torch

        return xp2torch(array).to(self.filled.device)

    def _pad(self, array: Any) -> Any:
        """Pad an array (N, ...) with zeros to (B, L, ...)."""
        flat = self._to_tensor(array)
        padded = flat.new_zeros((*self.filled.shape, *flat.shape[1:]))
        padded[self.filled] = flat
        return padded

    @staticmethod
    def memory(n_tokens: int, n_tags: int) -> int:
        """Return roughly the bytes that a loss needs."""
        # Two matrices (T, T) for each token.
        return 4 * n_tokens * n_tags * (2 * n_tags + 8)

    @staticmethod
    def why_not() -> str:
        """Return why this head cannot run, or an empty string if it can."""
        return ""

    @abstractmethod
    def loss(self) -> float:
        """Return the loss and set the gradients."""

    @abstractmethod
    def decode(self) -> NDArray[np.int64]:
        """Return the tags (N,) on the host."""

    def flat_gradient(self) -> tuple[Any, Any]:
        """Return the gradients of the unary scores (N, T) and of the transitions."""
        unary, transitions = self.unary.grad, self.transitions.grad
        return unary[self.filled], transitions if transitions.ndim == 2 else transitions[
            self.filled
        ]

    def _flat(self, tags: Any) -> NDArray[np.int64]:
        return tags[self.filled].cpu().numpy()

    def _score(self) -> Any:
        """Sum the scores of the gold labelings."""
        torch = need("torch")

        emitted = self.unary.gather(2, self.tags[:, :, None])[:, :, 0]
        pairs: tuple[Any, ...] = (self.tags[:, :-1], self.tags[:, 1:])
        if self.transitions.ndim == 4:
            sequences, positions = map(torch.arange, pairs[0].shape)
            pairs = (sequences[:, None], positions, *pairs)
        moved = self.transitions[pairs]
        return (emitted * self.filled).sum() + (moved * self.filled[:, 1:]).sum()


class Differentiated(TorchHead):
    """A head whose gradient comes from automatic differentiation."""

    def loss(self) -> float:
        self.unary.grad = self.transitions.grad = None
        loss = self._loss()
        loss.backward()
        return loss.item()

    @abstractmethod
    def _loss(self) -> Any: ...


class PytorchCRF(Differentiated):
    """pytorch-crf, with arrays in its own layout (L, B, T)."""

    def __init__(self, potentials: Potentials, gold: Any, device: str = "cpu") -> None:
        torch = need("torch")

        CRF = need("torchcrf").CRF
        super().__init__(potentials, gold, device)
        self.unary = self.unary.detach().swapaxes(0, 1).contiguous().requires_grad_()
        self.mask = self.filled.T.contiguous()
        self.gold = self.tags.T.contiguous()
        self.crf: Any = CRF(self.unary.shape[2]).to(device)
        with torch.no_grad():
            self.crf.transitions.copy_(self.transitions)
            self.crf.start_transitions.zero_()
            self.crf.end_transitions.zero_()
        self.transitions = self.crf.transitions

    def flat_gradient(self) -> tuple[Any, Any]:
        return self.unary.grad.swapaxes(0, 1)[self.filled], self.transitions.grad

    def _loss(self) -> Any:
        self.crf.start_transitions.grad = self.crf.end_transitions.grad = None
        return -self.crf(self.unary, self.gold, self.mask)

    def decode(self) -> NDArray[np.int64]:
        with warnings.catch_warnings():
            # pytorch-crf passes torch.where a mask of a deprecated type.
            warnings.simplefilter("ignore", UserWarning)
            return np.concatenate(self.crf.decode(self.unary, self.mask))


class TorchStruct(Differentiated):
    """torch-struct, which takes a matrix (to, from) for each edge that includes the tag scores."""

    @staticmethod
    def memory(n_tokens: int, n_tags: int) -> int:
        # The parallel scan materializes two arrays (T, T, T) for each token.
        return 4 * 2 * n_tokens * n_tags**3

    @staticmethod
    def why_not() -> str:
        return "" if find_spec("torch_struct") else "torch-struct is not installed"

    def _distribution(self) -> Any:
        torch = need("torch")

        LinearChainCRF = need("torch_struct").LinearChainCRF
        edges = self.transitions.T + self.unary[:, 1:, :, None]
        first = edges[:, :1] + self.unary[:, :1, None, :]
        with warnings.catch_warnings():
            # torch expects arg_constraints, which torch-struct does not define.
            warnings.simplefilter("ignore", UserWarning)
            return LinearChainCRF(torch.cat([first, edges[:, 1:]], dim=1), lengths=self.lengths)

    def _loss(self) -> Any:
        return self._distribution().partition.sum() - self._score()

    def decode(self) -> NDArray[np.int64]:
        torch = need("torch")

        chosen = self._distribution().argmax
        tags = chosen.sum(dim=3).argmax(dim=2)
        first = chosen[:, 0].sum(dim=1).argmax(dim=1)
        return self._flat(torch.cat([first[:, None], tags], dim=1))


class PlainCRF(Differentiated):
    """A linear-chain CRF without a library: the forward algorithm and Viterbi."""

    def _edges(self, i: int) -> Any:
        """Return the scores of the edges into position i, (T, T) or (B, T, T)."""
        return self.transitions if self.transitions.ndim == 2 else self.transitions[:, i - 1]

    def _loss(self) -> Any:
        torch = need("torch")

        alpha = self.unary[:, 0]
        for i in range(1, self.unary.shape[1]):
            after = torch.logsumexp(alpha[:, :, None] + self._edges(i), dim=1) + self.unary[:, i]
            alpha = torch.where(self.filled[:, i, None], after, alpha)
        return torch.logsumexp(alpha, dim=1).sum() - self._score()

    def decode(self) -> NDArray[np.int64]:
        torch = need("torch")

        with torch.no_grad():
            best, pointers = self.unary[:, 0], []
            here = torch.arange(best.shape[1], device=best.device)
            for i in range(1, self.unary.shape[1]):
                inside = self.filled[:, i, None]
                scores, pointer = (best[:, :, None] + self._edges(i)).max(dim=1)
                best = torch.where(inside, scores + self.unary[:, i], best)
                pointers.append(torch.where(inside, pointer, here))
            tags = [best.argmax(dim=1)]
            for pointer in reversed(pointers):
                tags.append(pointer.gather(1, tags[-1][:, None])[:, 0])
            return self._flat(torch.stack(tags[::-1], dim=1))


class PlainBCRF(TorchHead):
    """Algorithm 1 of Corro et al. (2025) on explicit arcs, for sequences of one length."""

    N_ITER = 10

    @staticmethod
    def memory(n_tokens: int, n_tags: int) -> int:
        return 4 * n_tokens * n_tags * (6 * n_tags + 8)

    def project(self, scale: float = 1.0) -> Any:
        """Return log q (B, L - 1, T, T), normalized over the arcs of each edge."""
        torch = need("torch")

        half = scale * self.unary.detach() / 2
        half[:, [0, -1]] *= 2
        q = scale * self.transitions.detach() + half[:, :-1, :, None] + half[:, 1:, None, :]
        for i in range(self.N_ITER):
            # Edges before and after every second inner position: 2, 4, .. first, then 1, 3, ..
            first = 1 if i % 2 else 2
            before, after = q[:, first - 1 : -1 : 2], q[:, first::2]
            into, out = before.logsumexp(dim=2), after.logsumexp(dim=3)
            shift = (out - into) / 2
            total = torch.logsumexp(into + shift, dim=2)[:, :, None, None]
            before += shift[:, :, None, :] - total
            after -= shift[:, :, :, None] + total
        return q - q.logsumexp(dim=(2, 3), keepdim=True)

    def marginals(self, q: Any) -> Any:
        """Average the tag marginals of the arcs in and of the arcs out; (B, L, T)."""
        torch = need("torch")

        out, into = q.sum(dim=3), q.sum(dim=2)
        inner = (out[:, 1:] + into[:, :-1]) / 2
        return torch.cat([out[:, :1], inner, into[:, -1:]], dim=1)

    def loss(self) -> float:
        """Return <q, w> + H(q) - <y, w>, with gradient q - y (no derivative of the iterations)."""
        torch = need("torch")

        with torch.no_grad():
            logs = self.project()
            q = logs.exp()
            node = self.marginals(q)
            edge = q.sum(dim=(0, 1))
            value = (node * self.unary).sum() + (edge * self.transitions).sum() - (q * logs).sum()
            pairs = self.tags[:, :-1] * edge.shape[0] + self.tags[:, 1:]
            counts = torch.bincount(pairs.flatten(), minlength=edge.numel()).view_as(edge)
            self.transitions.grad = edge - counts
            ones = torch.ones_like(self.tags, dtype=node.dtype)[:, :, None]
            self.unary.grad = node.scatter_add_(2, self.tags[:, :, None], -ones)
            return (value - self._score()).item()

    def decode(self) -> NDArray[np.int64]:
        """Take the tag of largest marginal at inverse temperature 10, as `chain.BCRF.decode`.

        The marginals are of the outgoing arcs; for the last token, of the incoming arcs.
        """
        torch = need("torch")

        with torch.no_grad():
            q = self.project(scale=10.0).exp()
            return self._flat(torch.cat([q.sum(dim=3), q[:, -1:].sum(dim=2)], dim=1).argmax(dim=2))


def check_agreement(
    head: TorchHead, inference: Inference, potentials: Potentials, gold: Any, least: float = 0.999
) -> None:
    """Check that a PyTorch head and an inference compute the same.

    AssertionError names the loss or gradient that differs, or the share of equal tags below
    `least`.
    """
    name = type(head).__name__
    losses, gradient = inference.loss(potentials, gold)
    np.testing.assert_allclose(head.loss(), float(losses.sum()), rtol=1e-4, err_msg=name)
    ours = gradient.unary, gradient.transitions
    for mine, other in zip(ours, head.flat_gradient(), strict=True):
        np.testing.assert_allclose(to_host(other), to_host(mine), atol=1e-2, err_msg=name)
    agreement = (head.decode() == to_host(inference.decode(potentials))).mean()
    assert agreement >= least, f"{name}: only {agreement:.1%} of the tags agree"


def to_host(array: Any) -> NDArray:
    """Copy an array of NumPy, CuPy or PyTorch to NumPy."""
    if hasattr(array, "get"):
        return array.get()
    return np.asarray(array.cpu() if hasattr(array, "cpu") else array)
