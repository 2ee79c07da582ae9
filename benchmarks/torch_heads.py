"""What heads are measured against, all in PyTorch: two libraries, and what one writes without one.

Losses are summed over the batch; gradients are left in `unary` and `transitions`.
"""

import warnings
from abc import ABC, abstractmethod
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spacy_bcrf.chain import Potentials


class TorchHead(ABC):
    """Potentials and gold padded to (batch, length, tags), with a mask, on a device."""

    def __init__(
        self, potentials: Potentials, gold: NDArray[np.int32], device: str = "cpu"
    ) -> None:
        import torch

        lengths, (_, n_tags) = potentials.lengths, potentials.unary.shape
        # Which places of (batch, length) hold a token, in the order of the flat tokens.
        filled = np.arange(lengths.max()) < lengths[:, None]
        unary = np.zeros((*filled.shape, n_tags), dtype="float32")
        unary[filled] = potentials.unary
        tags = np.zeros(filled.shape, dtype="int64")
        tags[filled] = gold
        self.filled = torch.tensor(filled, device=device)
        self.tags = torch.tensor(tags, device=device)
        self.lengths = torch.tensor(lengths, dtype=torch.int64, device=device)
        self.unary = torch.tensor(unary, device=device, requires_grad=True)
        self.transitions: Any = torch.tensor(
            potentials.transitions, device=device, requires_grad=True
        )

    @staticmethod
    def memory(n_tokens: int, n_tags: int) -> int:
        """Bytes that a loss takes, roughly: here two matrices of pairs of tags a token."""
        return 4 * n_tokens * n_tags * (2 * n_tags + 8)

    @staticmethod
    def why_not() -> str:
        """Why it cannot run; empty if it can."""
        return ""

    @abstractmethod
    def loss(self) -> float: ...

    @abstractmethod
    def decode(self) -> Any:
        """Tags on the host, flat or a list a sequence."""

    def _flat(self, tags: Any) -> NDArray[np.int64]:
        return tags[self.filled].cpu().numpy()

    def _score(self) -> Any:
        """That of gold, summed over the batch."""
        emitted = self.unary.gather(2, self.tags[:, :, None])[:, :, 0]
        moved = self.transitions[self.tags[:, :-1], self.tags[:, 1:]]
        return (emitted * self.filled).sum() + (moved * self.filled[:, 1:]).sum()


class Differentiated(TorchHead):
    """One whose gradient PyTorch finds."""

    def loss(self) -> float:
        self.unary.grad = self.transitions.grad = None
        loss = self._loss()
        loss.backward()
        return loss.item()

    @abstractmethod
    def _loss(self) -> Any: ...


class PytorchCRF(Differentiated):
    """pytorch-crf, given the layout that it works in: (length, batch, tags)."""

    def __init__(
        self, potentials: Potentials, gold: NDArray[np.int32], device: str = "cpu"
    ) -> None:
        import torch
        from torchcrf import CRF

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

    def _loss(self) -> Any:
        self.crf.start_transitions.grad = self.crf.end_transitions.grad = None
        return -self.crf(self.unary, self.gold, self.mask)

    def decode(self) -> list[list[int]]:
        with warnings.catch_warnings():
            # It passes torch.where a mask of a type that torch has deprecated.
            warnings.simplefilter("ignore", UserWarning)
            return self.crf.decode(self.unary, self.mask)


class TorchStruct(Differentiated):
    """torch-struct, which takes a matrix (to, from) for each edge, tags' scores included."""

    @staticmethod
    def memory(n_tokens: int, n_tags: int) -> int:
        # Its parallel scan multiplies matrices by adding them up (T, T, T), twice a token.
        return 4 * 2 * n_tokens * n_tags**3

    @staticmethod
    def why_not() -> str:
        return "" if find_spec("torch_struct") else "torch-struct is not installed"

    def _distribution(self) -> Any:
        import torch
        from torch_struct import LinearChainCRF

        edges = self.transitions.T + self.unary[:, 1:, :, None]
        first = edges[:, :1] + self.unary[:, :1, None, :]
        with warnings.catch_warnings():
            # It defines no arg_constraints, which torch wants of distributions.
            warnings.simplefilter("ignore", UserWarning)
            return LinearChainCRF(torch.cat([first, edges[:, 1:]], dim=1), lengths=self.lengths)

    def _loss(self) -> Any:
        return self._distribution().partition.sum() - self._score()

    def decode(self) -> NDArray[np.int64]:
        import torch

        chosen = self._distribution().argmax
        tags = chosen.sum(dim=3).argmax(dim=2)
        first = chosen[:, 0].sum(dim=1).argmax(dim=1)
        return self._flat(torch.cat([first[:, None], tags], dim=1))


class PlainCRF(Differentiated):
    """The forward algorithm, differentiated automatically; Viterbi."""

    def _loss(self) -> Any:
        import torch

        alpha = self.unary[:, 0]
        for i in range(1, self.unary.shape[1]):
            after = torch.logsumexp(alpha[:, :, None] + self.transitions, dim=1) + self.unary[:, i]
            alpha = torch.where(self.filled[:, i, None], after, alpha)
        return torch.logsumexp(alpha, dim=1).sum() - self._score()

    def decode(self) -> NDArray[np.int64]:
        import torch

        with torch.no_grad():
            best, pointers = self.unary[:, 0], []
            here = torch.arange(best.shape[1], device=best.device)
            for i in range(1, self.unary.shape[1]):
                inside = self.filled[:, i, None]
                scores, pointer = (best[:, :, None] + self.transitions).max(dim=1)
                best = torch.where(inside, scores + self.unary[:, i], best)
                pointers.append(torch.where(inside, pointer, here))
            tags = [best.argmax(dim=1)]
            for pointer in reversed(pointers):
                tags.append(pointer.gather(1, tags[-1][:, None])[:, 0])
            return self._flat(torch.stack(tags[::-1], dim=1))


class PlainBCRF(TorchHead):
    """Algorithm 1 of Corro et al. (2025) on the arcs themselves; sequences of one length."""

    N_ITER = 10

    @staticmethod
    def memory(n_tokens: int, n_tags: int) -> int:
        return 4 * n_tokens * n_tags * (6 * n_tags + 8)

    def project(self, scale: float = 1.0) -> Any:
        """log q (batch, length - 1, tags, tags), and whether arcs of an edge sum to one."""
        import torch

        half = scale * self.unary.detach() / 2
        half[:, [0, -1]] *= 2
        q = scale * self.transitions.detach() + half[:, :-1, :, None] + half[:, 1:, None, :]
        for _ in range(self.N_ITER):
            for first in (0, 1):
                # The edges before and after each position of one parity.
                before, after = q[:, first:-1:2], q[:, first + 1 :: 2]
                into, out = before.logsumexp(dim=2), after.logsumexp(dim=3)
                shift = (out - into) / 2
                total = torch.logsumexp(into + shift, dim=2)[:, :, None, None]
                before += shift[:, :, None, :] - total
                after -= shift[:, :, :, None] + total
        return q - q.logsumexp(dim=(2, 3), keepdim=True)

    def marginals(self, q: Any) -> Any:
        """At inner positions the mean of those of the arcs in and of the arcs out."""
        import torch

        out, into = q.sum(dim=3), q.sum(dim=2)
        inner = (out[:, 1:] + into[:, :-1]) / 2
        return torch.cat([out[:, :1], inner, into[:, -1:]], dim=1)

    def loss(self) -> float:
        """<q, w> + H(q) - <y, w>; its gradient is that of the maximum, no derivative of steps."""
        import torch

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
        """The tag of largest marginal, of potentials sharpened as `chain.BCRF.decode` does."""
        import torch

        with torch.no_grad():
            return self._flat(self.marginals(self.project(scale=10.0).exp()).argmax(dim=2))
