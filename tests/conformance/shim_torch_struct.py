"""torch-struct's `LinearChainCRF`, whose answers are those of `bcrf.torch`.

`count`, `kl` and `cross_entropy` stay torch-struct's: they are other algebras of its own.
"""

import torch
import torch_struct

from bcrf.torch import CRF


class LinearChainCRF(torch_struct.LinearChainCRF):
    """Log-potentials (B, N - 1, to, from) are scores of edges; tags have none."""

    def _ask(self, query, **options):
        edges = self.log_potentials.detach().transpose(2, 3).requires_grad_()
        size, steps, tags = edges.shape[:3]
        lengths = torch.full((size,), steps + 1) if self.lengths is None else self.lengths
        head = CRF(tags, batch_first=True).to(edges.dtype)
        for parameter in head.parameters():
            torch.nn.init.zeros_(parameter)
        mask = torch.arange(steps + 1) < lengths[:, None]
        padded = torch.nn.functional.pad(edges, (0, 0, 0, 0, 0, 1))
        emissions = edges.new_zeros(size, steps + 1, tags)
        return getattr(head, query)(emissions, mask=mask, edges=padded, **options), edges

    def _parts(self, labelings):
        parts = torch.zeros_like(self.log_potentials)
        for b, tags in enumerate(labelings):
            for i in range(len(tags) - 1):
                parts[b, i, tags[i + 1], tags[i]] = 1
        return parts

    @property
    def partition(self):
        return self._ask("log_partition")[0].detach()

    @property
    def entropy(self):
        return self._ask("entropy")[0].detach()

    @property
    def marginals(self):
        values, edges = self._ask("log_partition")
        return torch.autograd.grad(values.sum(), edges)[0].transpose(2, 3)

    @property
    def argmax(self):
        return self._parts(self._ask("decode")[0])

    def topk(self, k):
        best = self._ask("nbest", n=k)[0]
        return torch.stack(
            [self._parts([row[min(i, len(row) - 1)][0] for row in best]) for i in range(k)]
        )

    def kmax(self, k):
        best = [[score for _, score in row] for row in self._ask("nbest", n=k)[0]]
        return torch.tensor([row + [-float("inf")] * (k - len(row)) for row in best]).T

    def sample(self, sample_shape=()):
        drawn = self._ask("sample", n=sample_shape[0])[0]
        return torch.stack([self._parts([t[t >= 0].tolist() for t in tags]) for tags in drawn])


torch_struct.LinearChainCRF = LinearChainCRF
