"""Self-attention over documents, in PyTorch. Only imported where it is used."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

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


class AttentionLayer(nn.Module):
    """A transformer's layer, each part of which is normed before and added after (Vaswani et al.
    2017; Xiong et al. 2020)."""

    # PyTorch's TransformerEncoderLayer takes a fast path to predict, which on a processor takes
    # seven times as long as this where windows are long (512 tokens, width 64).
    def __init__(self, width: int, heads: int, feed_forward: int) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = nn.Dropout()
        self.norm = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.merge = nn.Linear(width, width)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, feed_forward),
            nn.GELU(),
            self.dropout,
            nn.Linear(feed_forward, width),
        )

    def forward(self, X: Tensor, is_token: Tensor) -> Tensor:
        """X: (B, L, width). is_token: bool (B, 1, 1, L), false where there is padding."""
        split = self.query_key_value(self.norm(X)).unflatten(2, (3, self.heads, -1))
        query, key, value = split.permute(2, 0, 3, 1, 4)
        mixed = scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=None if is_token.all() else is_token,
            dropout_p=self.dropout.p if self.training else 0.0,
        )
        X = X + self.dropout(self.merge(mixed.transpose(1, 2).flatten(2)))
        return X + self.dropout(self.feed_forward(X))


class SelfAttention(nn.Module):
    """Layers of attention over ragged sequences, with positions counted from the start of a
    window."""

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
            AttentionLayer(width, heads, feed_forward) for _ in range(depth)
        )
        self.norm_out = nn.LayerNorm(width)

    def set_dropout(self, rate: float) -> None:
        for module in self.modules():
            if isinstance(module, nn.Dropout):
                module.p = rate

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
                hidden = layer(hidden, (index < stop)[:, None, None])
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
