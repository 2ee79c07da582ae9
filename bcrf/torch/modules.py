"""Heads with transition parameters. The package's docstring has the shapes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bcrf import chain

from .batch import UNKNOWN, Batch, Scores, as_array, as_tensor, on_stream
from .functional import widen
from .operators import decode, describe, query

PARAMETERS = "start_transitions", "end_transitions", "transitions"


class _Head(nn.Module):
    """A head over an inference of `chain`, with the interface of pytorch-crf.

    num_tags: T. batch_first: whether (B, L) is the order of axes.
    constraints: transitions, first and last tags that no labeling has.
    options: options of the inference, see `chain`.

    `edges`, an optional argument of all methods, has scores of each edge, (L, B, T, T) or
    (B, L, T, T). They add to the transitions.
    """

    _inference: type[chain.Inference]

    def __init__(
        self,
        num_tags: int,
        batch_first: bool = False,
        *,
        constraints: chain.Constraints | None = None,
        **options: Any,
    ) -> None:
        if num_tags <= 0:
            raise ValueError(f"invalid number of tags: {num_tags}")
        super().__init__()
        self.num_tags, self.batch_first = num_tags, batch_first
        self.inference = self._inference(**options)
        self._inference_text = describe(self.inference)
        self._is_constrained = constraints is not None
        shapes = ((num_tags,), (num_tags,), (num_tags, num_tags))
        for name, shape in zip(PARAMETERS, shapes, strict=True):
            setattr(self, name, nn.Parameter(torch.empty(shape)))
            field = name if name == "transitions" else name.partition("_")[0]
            allowed = np.ones(shape, bool)
            if constraints is not None:
                allowed = np.asarray(getattr(constraints, field))
            if allowed.shape != shape or allowed.dtype != bool:
                raise ValueError(
                    f"constraints.{field} must be bool {shape}, got {allowed.dtype} {allowed.shape}"
                )
            self.register_buffer(f"_forbidden_{field}", torch.from_numpy(~allowed), False)
        self.reset_parameters()

    @classmethod
    def from_state_dict(
        cls, state_dict: Mapping[str, Any], prefix: str = "", batch_first: bool = False, **more: Any
    ) -> "_Head":
        """Return a head with the parameters that pytorch-crf or allennlp has saved.

        prefix: the start of the parameters' names, such as "crf.". more: arguments of the
        constructor. Raises ValueError naming a parameter that is missing, or has no counterpart.
        """
        own = {k.removeprefix(prefix): x for k, x in state_dict.items() if k.startswith(prefix)}
        for name in PARAMETERS:
            if name not in own:
                raise ValueError(f"{prefix}{name} is missing among {', '.join(state_dict)}")
        if unknown := sorted(set(own) - set(PARAMETERS)):
            raise ValueError(f"{prefix}{unknown[0]} has no counterpart: {cls.__name__} has no such")
        head = cls(len(own["start_transitions"]), batch_first, **more)
        head.to(own["transitions"].dtype).load_state_dict(own)
        return head

    def reset_parameters(self) -> None:
        """Draw the parameters from a uniform distribution between -0.1 and 0.1."""
        for name in PARAMETERS:
            nn.init.uniform_(getattr(self, name), -0.1, 0.1)

    def extra_repr(self) -> str:
        return f"num_tags={self.num_tags}"

    def forward(
        self,
        emissions: Tensor,
        tags: Tensor,
        mask: Tensor | None = None,
        reduction: str = "sum",
        edges: Tensor | None = None,
    ) -> Tensor:
        """Return the log-likelihood of tags, see `log_likelihood`."""
        transitions, start, end = self._scores(edges)
        emissions, text, first = widen(emissions), self._inference_text, self.batch_first
        if torch.jit.is_scripting():
            return torch.ops.bcrf.query(
                emissions, transitions, start, end, mask, tags, reduction, text, first
            )
        scores = Scores(emissions, transitions, start, end, mask)
        return query(scores, tags, reduction, text, first)

    @torch.jit.export
    def decode(
        self, emissions: Tensor, mask: Tensor | None = None, edges: Tensor | None = None
    ) -> list[list[int]]:
        """Return the best labeling of each sequence that the constraints allow."""
        emissions = widen(emissions)
        transitions, start, end = self._scores(edges)
        text, first = self._inference_text, self.batch_first
        if torch.jit.is_scripting():
            found, sizes = torch.ops.bcrf.decode(
                emissions, transitions, start, end, mask, text, first
            )
            rows: list[list[int]] = found.tolist()
            lengths: list[int] = sizes.tolist()
            return [row[:length] for row, length in zip(rows, lengths)]  # noqa: B905 TorchScript
        scores = Scores(emissions, transitions, start, end, mask)
        return decode(scores, text, first)

    def log_partition(
        self, emissions: Tensor, mask: Tensor | None = None, edges: Tensor | None = None
    ) -> Tensor:
        """Return the log-partition of each sequence, (B,). Differentiable."""
        return self._query("log_partition", emissions, mask, edges)

    def entropy(
        self, emissions: Tensor, mask: Tensor | None = None, edges: Tensor | None = None
    ) -> Tensor:
        """Return the entropy of each sequence's labelings in nats, (B,). Differentiable."""
        return self._query("entropy", emissions, mask, edges)

    def marginals(
        self, emissions: Tensor, mask: Tensor | None = None, edges: Tensor | None = None
    ) -> Tensor:
        """Return the marginal of each tag, shaped as the emissions. Differentiable."""
        return self._query("marginals", emissions, mask, edges)

    def potentials(
        self, emissions: Tensor, mask: Tensor | None = None, edges: Tensor | None = None
    ) -> chain.Potentials:
        """Return the scores without padding, for the functions of `bcrf.chain`."""
        return self._batch(emissions, mask, edges).potentials

    def nbest(
        self,
        emissions: Tensor,
        n: int,
        mask: Tensor | None = None,
        edges: Tensor | None = None,
    ) -> list[list[tuple[list[int], float]]]:
        """Return the n best labelings of each sequence, or all if it has fewer, with scores."""
        with on_stream(emissions):
            chains = self.inference.to_crf(self.potentials(emissions, mask, edges))
            return [
                list(zip(tags.tolist(), scores.tolist(), strict=True))
                for tags, scores in chain.nbest(chains, n)
            ]

    def sample(
        self,
        emissions: Tensor,
        n: int,
        mask: Tensor | None = None,
        edges: Tensor | None = None,
        generator: Any = None,
    ) -> Tensor:
        """Draw n labelings of each sequence, int64 (n, L, B) or (n, B, L); -100 in padding.

        generator: a `torch.Generator` of the CPU, or None for PyTorch's own.
        """
        with on_stream(emissions):
            batch = self._batch(emissions, mask, edges)
            seed = int(torch.randint(2**63 - 1, (1,), generator=generator))
            chains = self.inference.to_crf(batch.potentials)
            drawn = chain.sample(chains, n, np.random.default_rng(seed)).astype("int64")
            return torch.stack([as_tensor(batch.pad(tags, UNKNOWN)) for tags in drawn])

    def span_posteriors(
        self,
        emissions: Tensor,
        spans: Tensor,
        tags: chain.SpanTags,
        mask: Tensor | None = None,
        edges: Tensor | None = None,
    ) -> Tensor:
        """Return the probabilities (M,) of spans, integers (M, 4).

        A span has its sequence, its first step, one past its last step, and its label, an index
        into `tags`. Raises ValueError naming the first span outside of its sequence.
        """
        with on_stream(emissions):
            batch = self._batch(emissions, mask, edges)
            sequences, starts, ends, labels = as_array(spans).T
            xp, lengths = batch.potentials.xp, batch.lengths
            known = (sequences >= 0) & (sequences < len(lengths))
            known &= (labels >= 0) & (labels < len(tags.first))
            inside = (starts >= 0) & (starts < ends)
            inside &= ends <= lengths[xp.where(known, sequences, 0)] if len(lengths) else False
            if not (known & inside).all():
                wrong = int((~(known & inside)).argmax())
                raise ValueError(
                    f"spans has {spans[wrong].tolist()} at {wrong}: expected sequence, first step, "
                    f"one past the last step and label, within {len(lengths)} sequences and "
                    f"{len(tags.first)} labels"
                )
            first = batch.potentials.starts[sequences]
            arrays = (xp.asarray(x) for x in tags)
            found = chain.span_posteriors(
                self.inference.to_crf(batch.potentials),
                chain.SpanTags(*arrays),
                starts + first,
                ends + first,
                labels,
            )
            return as_tensor(found)

    def _scores(self, edges: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return transitions, start and end under the constraints."""
        transitions, start, end = self.transitions, self.start_transitions, self.end_transitions
        # All have one type, so one is asked.
        if transitions.dtype != torch.float32 and transitions.dtype != torch.float64:
            transitions, start, end = widen(transitions), widen(start), widen(end)
        if self._is_constrained:
            transitions = transitions.masked_fill(self._forbidden_transitions, float("-inf"))
            start = start.masked_fill(self._forbidden_start, float("-inf"))
            end = end.masked_fill(self._forbidden_end, float("-inf"))
        if edges is not None:
            transitions = transitions + edges
        return transitions, start, end

    def _all_scores(self, emissions: Tensor, mask: Tensor | None, edges: Tensor | None) -> Scores:
        return Scores(widen(emissions), *self._scores(edges), mask)

    def _query(
        self, kind: str, emissions: Tensor, mask: Tensor | None, edges: Tensor | None
    ) -> Tensor:
        scores = self._all_scores(emissions, mask, edges)
        return query(scores, None, kind, self._inference_text, self.batch_first)

    def _batch(self, emissions: Tensor, mask: Tensor | None, edges: Tensor | None) -> Batch:
        return Batch(self._all_scores(emissions, mask, edges), self.batch_first)


class CRF(_Head):
    """A linear-chain CRF. A drop-in replacement of pytorch-crf's, at many times its speed."""

    _inference = chain.CRF


class BCRF(_Head):
    """A Bregman CRF (Corro et al. 2025). Options: see `chain.BCRF`. Its loss is Fenchel-Young's."""

    _inference = chain.BCRF


class MeanField(_Head):
    """Mean field. Options: see `chain.MeanField`. It takes no partial annotation.

    The gradient of the loss is exact; other derivatives hold at convergence only: raise n_iter.
    """

    _inference = chain.MeanField


class Unstructured(_Head):
    """A softmax for each token. Only `decode` and the check of tags use the transitions."""

    _inference = chain.Unstructured
