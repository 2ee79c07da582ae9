"""Self-attention over documents, in PyTorch. Only imported where it is used."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

# Of a padded batch. A window attends to itself, so its memory is at most this times its length.
MAX_TOKENS = 4096
# About the scale of hashed embeddings before training, so that neither drowns the other.
_SCALE = 0.1


class Window(NamedTuple):
    """Flat tokens that attend to one another, and those among them whose vectors are kept."""

    start: int
    stop: int
    first: int
    last: int


def cut(lengths: Sequence[int], size: int) -> list[Window]:
    """Windows of at most `size` tokens, half of them shared with the next one; each token is kept
    once, where it is farthest from the ends. A sequence that fits is one window."""
    windows = []
    offset = 0
    for length in filter(None, lengths):
        end = max(length - size, 0)
        starts = [*range(0, end, max(1, size // 2)), end]
        # Halfway between the start of a window and the end of the one before.
        cuts = [0, *((a + size + b) // 2 for a, b in pairwise(starts)), length]
        for start, (first, last) in zip(starts, pairwise(cuts), strict=True):
            stop = min(start + size, length)
            windows.append(Window(*(offset + at for at in (start, stop, first, last))))
        offset += length
    return windows


class SelfAttention(nn.Module):
    """Pre-norm transformer layers (Vaswani et al. 2017; Xiong et al. 2020) over ragged sequences,
    with positions counted from the start of a window."""

    def __init__(
        self,
        width: int,
        depth: int,
        heads: int,
        feed_forward: int,
        positions: Literal["learned", "sinusoidal"],
        window: int,
    ) -> None:
        super().__init__()
        self.window = window
        if positions == "learned":
            self.positions = nn.Parameter(_SCALE * torch.randn(window, width))
        else:
            self.register_buffer("positions", _sinusoids(window, width), persistent=False)
        self.norm_in = nn.LayerNorm(width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, heads, feed_forward, activation="gelu", batch_first=True, norm_first=True
            )
            for _ in range(depth)
        )
        self.norm_out = nn.LayerNorm(width)

    def set_dropout(self, rate: float) -> None:
        for module in self.modules():
            if isinstance(module, nn.Dropout):
                module.p = rate
            elif isinstance(module, nn.MultiheadAttention):
                module.dropout = rate

    def forward(self, X: Tensor, lengths: Sequence[int]) -> Tensor:
        """X: (N, width), the sequences one after the other. RETURNS (N, width)."""
        if not len(X):
            return X
        vectors, tokens = [], []
        for batch in _batches(cut(lengths, self.window)):
            start, stop, first, last = torch.tensor(batch, device=X.device).T[:, :, None]
            steps = torch.arange(int((stop - start).max()), device=X.device)
            index = start + steps
            is_kept = (index >= first) & (index < last)
            hidden = self.norm_in(X[index.clamp(max=len(X) - 1)] + self.positions[: len(steps)])
            for layer in self.layers:
                hidden = layer(hidden, src_key_padding_mask=index >= stop)
            vectors.append(self.norm_out(hidden[is_kept]))
            tokens.append(index[is_kept])
        return torch.cat(vectors)[torch.cat(tokens).argsort()]


def _batches(windows: list[Window]) -> Iterator[list[Window]]:
    """Windows of about the same length, padded to which they have at most MAX_TOKENS tokens."""
    batch: list[Window] = []
    for window in sorted(windows, key=lambda window: window.start - window.stop):
        # The first one is the longest.
        if batch and (len(batch) + 1) * (batch[0].stop - batch[0].start) > MAX_TOKENS:
            yield batch
            batch = []
        batch.append(window)
    if batch:
        yield batch


def _sinusoids(n: int, width: int) -> Tensor:
    """(n, width): sines and cosines of wavelengths from 2 pi to 10000 * 2 pi."""
    rates = 10000 ** (-torch.arange(0, width, 2) / width)
    angles = torch.arange(n)[:, None] * rates
    return _SCALE * torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)[:, :width]
