"""Self-attention over documents in PyTorch. `self_attentive` imports this module on first use."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from spacy_bcrf.scores.subwords import SubwordWindow, plan_windows

# Largest padded batch, in tokens. Attention memory is at most this times the window length.
MAX_BATCH_TOKENS = 4096
# Positions start at about the scale of untrained hashed embeddings, so that neither dominates.
_POSITION_SCALE = 0.1


def split_into_windows(lengths: Sequence[int], size: int) -> list[SubwordWindow]:
    """Split sequences into windows of flat tokens that overlap by half, see `plan_windows`."""
    windows = []
    offset = 0
    for length in filter(None, lengths):
        planned = plan_windows(length, size, size - max(1, size // 2))
        windows += [SubwordWindow(*(offset + at for at in window)) for window in planned]
        offset += length
    return windows


class AttentionLayer(nn.Module):
    """Transformer layer (Vaswani et al. 2017) with pre-layer normalization (Xiong et al. 2020)."""

    # In prediction on a CPU, the fast path of PyTorch's TransformerEncoderLayer takes seven times
    # as long as this layer (windows of 512 tokens, width 64).
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
        """Map X (B, L, width) to new vectors; is_token: bool (B, 1, 1, L), false for padding."""
        split = self.query_key_value(self.norm(X)).unflatten(2, (3, self.heads, -1))
        query, key, value = split.permute(2, 0, 3, 1, 4)
        mask = None if is_token.all() else is_token
        rate = self.dropout.p if self.training else 0.0
        mixed = scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=rate)
        X = X + self.dropout(self.merge(mixed.transpose(1, 2).flatten(2)))
        return X + self.dropout(self.feed_forward(X))


class AttentionNetwork(nn.Module):
    """Self-attention over windows of ragged sequences. Options: see `SelfAttentiveEncoder`."""

    def __init__(
        self, width: int, depth: int, heads: int, feed_forward: int, positions: str, window: int
    ) -> None:
        super().__init__()
        self.window = window
        if positions == "learned":
            self.positions = nn.Parameter(_POSITION_SCALE * torch.randn(window, width))
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
        """Map the flat vectors (N, width) of a batch of sequences to new vectors (N, width)."""
        if not len(X):
            return X
        vectors, tokens = [], []
        for batch in _batches(split_into_windows(lengths, self.window)):
            start, end, keep_start, keep_end = torch.tensor(batch, device=X.device).T[:, :, None]
            steps = torch.arange(int((end - start).max()), device=X.device)
            index = start + steps
            is_kept = (index >= keep_start) & (index < keep_end)
            hidden = self.norm_in(X[index.clamp(max=len(X) - 1)] + self.positions[: len(steps)])
            for layer in self.layers:
                hidden = layer(hidden, (index < end)[:, None, None])
            vectors.append(self.norm_out(hidden[is_kept]))
            tokens.append(index[is_kept])
        return torch.cat(vectors)[torch.cat(tokens).argsort()]


def _batches(windows: list[SubwordWindow]) -> Iterator[list[SubwordWindow]]:
    """Group windows of similar length into batches of at most MAX_BATCH_TOKENS padded tokens."""
    batch: list[SubwordWindow] = []
    for window in sorted(windows, key=lambda window: window.start - window.end):
        # The first window of a batch is its longest.
        if batch and (len(batch) + 1) * (batch[0].end - batch[0].start) > MAX_BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(window)
    if batch:
        yield batch


def _sinusoids(n: int, width: int) -> Tensor:
    """Return sines and cosines with wavelengths from 2 pi to 10000 * 2 pi, (n, width)."""
    rates = 10000 ** (-torch.arange(0, width, 2) / width)
    angles = torch.arange(n)[:, None] * rates
    return _POSITION_SCALE * torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)[:, :width]
