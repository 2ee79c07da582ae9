"""Online learning of a linear chain over sparse boolean features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spacy_bcrf.chain import Potentials
from spacy_bcrf.chain.search import check_search

from .features import Rows
from .parameter_mixing import Workers


class DivergedError(ValueError):
    """The weights grew beyond all bounds; the learner is back at its last good weights."""


@dataclass(frozen=True)
class Online:
    """How a linear chain is learned: one step of stochastic gradient a sequence.

    objective: "crf", the log-likelihood (all labelings); "sapo", that of the n best labelings (Sun
        et al., Algorithm 1); "perceptron" (Collins 2002); "mira" (Crammer and Singer 2003), over
        the n best labelings (McDonald et al. 2005), of which 1 is the plain one.
    n: how many labelings SAPO and MIRA look at.
    search: how they are found: "astar", exact, or "beam".
    beam_width: labelings kept a token.
    averaged: learn the average of the weights after each step, not the last ones.
    rate: of the first step; for MIRA the largest step it may take, its C.
    decay: the rate after p passes (with fractions) is rate / (1 + decay p); 0 for a fixed rate.
    l2: lambda of the regularizer lambda / 2 |w|^2, for all sequences together.
    seed: of the order of the sequences.
    threads: more than one learn side by side and are mixed, see `parallel.Workers` for what that
        gives up.
    """

    objective: Literal["crf", "sapo", "perceptron", "mira"] = "sapo"
    n: int = 5
    search: Literal["astar", "beam"] = "astar"
    beam_width: int = 50
    averaged: bool = True
    rate: float = 0.1
    decay: float = 0.0
    l2: float = 0.0
    seed: int = 0
    threads: int = 1

    def __post_init__(self) -> None:
        objectives = ("crf", "sapo", "perceptron", "mira")
        if self.objective not in objectives:
            raise ValueError(
                f"objective must be one of {', '.join(objectives)}, got {self.objective!r}"
            )
        check_search(self.n, self.search, self.beam_width)
        for name, least in {"beam_width": 1, "decay": 0, "l2": 0, "seed": 0, "threads": 1}.items():
            if not least <= getattr(self, name) < float("inf"):
                raise ValueError(
                    f"{name} must be at least {least} and finite, got {getattr(self, name)}"
                )
        if not 0 < self.rate < float("inf"):
            raise ValueError(f"rate must be positive and finite, got {self.rate}")


class Gold(NamedTuple):
    """tags: int32 (N,), -1 for unknown; or bool (N, T), the tags that may be. open: bool (N, T),
    the tags that a lattice leaves open, or None for all."""

    tags: NDArray
    open: NDArray[np.bool_] | None = None


class LinearChain:
    """T tags, a weight for each with each of F features, and transitions; learned by `online`.

    Besides features there are a bias, and a sequence's start and end.
    """

    def __init__(self, n_tags: int, n_features: int, online: Online, n_sequences: int = 1) -> None:
        """n_sequences: how many there are in all, of which l2 and decay of the rate depend."""
        from spacy_bcrf.kernels.sparse import Learner

        self.n_tags = n_tags
        self.n_sequences = n_sequences
        self.online = online
        self.n_passes = 0

        def make(share: int = 1) -> Any:
            return Learner(
                online.objective,
                n_tags,
                n=online.n,
                beam=online.beam_width if online.search == "beam" else 0,
                averaged=online.averaged,
                rate=online.rate,
                decay=online.decay,
                l2=online.l2,
                n_sequences=max(n_sequences, 1) / share,
            )

        self._learner = make()
        self._workers: Workers | None = None
        if online.threads > 1:
            make_worker = partial(make, online.threads)
            self._workers = Workers(make_worker, online.threads, online.averaged)
        self._learner.resize(n_features)
        # Read when somebody asks: there may be tens of megabytes of them.
        self._weights: NDArray[np.float32] | None = None
        self._last_good = np.zeros((0, self.stride), dtype="float32")

    @property
    def n_features(self) -> int:
        return self._learner.n_rows - self.n_tags - 3

    @property
    def stride(self) -> int:
        """Columns of `weights`, T or a little more."""
        return self._learner.stride

    @property
    def weights(self) -> NDArray[np.float32]:
        """(T + 3 + F, T or a little more): transitions by `from`, then bias, start and end, then
        features. The columns beyond T are 0. Not to be changed in place."""
        if self._weights is None:
            self._weights = self._last_good = self._learner.read()
        return self._weights

    @weights.setter
    def weights(self, weights: NDArray[np.float32]) -> None:
        weights = np.ascontiguousarray(weights, dtype="float32")
        self._learner.write(weights)
        if self._workers:
            self._workers.reset()
        self._weights = self._last_good = weights

    @property
    def complexity(self) -> float:
        """Mean absolute weight."""
        return float(np.abs(self.weights[:, : self.n_tags]).mean())

    def resize(self, n_features: int) -> None:
        """Make room for more features."""
        self._learner.resize(n_features)
        self._weights = None

    def constrain(self, transitions: NDArray, start: NDArray, end: NDArray) -> None:
        """Which tags may follow one another, `[from, to]` (T, T), and start and end (T,)."""
        masks = [np.ascontiguousarray(a, "uint8") for a in (transitions, start, end)]
        for learner in (self._learner, *(self._workers.learners if self._workers else ())):
            learner.constrain(*masks)

    def step(
        self, features: Rows, lengths: NDArray[np.int32], gold: Gold, order: NDArray | None = None
    ) -> float:
        """One step a sequence, in order or in that order; the sum of losses before each step.

        DivergedError, with the weights as they were when last looked at, if they are no longer
        finite; ValueError for an l2 of which a step would take all weights away.
        """
        self._check_l2()
        offsets = np.concatenate([[0], lengths.cumsum(dtype="int64")])
        if order is None:
            order = np.arange(len(lengths), dtype="int32")
        is_mask = gold.tags.dtype == bool
        data = (
            features.rows,
            features.starts,
            None if is_mask else np.ascontiguousarray(gold.tags, dtype="int32"),
            np.ascontiguousarray(gold.tags).view("uint8") if is_mask else None,
            None if gold.open is None else np.ascontiguousarray(gold.open).view("uint8"),
            offsets,
        )
        if self._workers:
            loss, done = self._workers.learn(self._learner, order, *data)
        else:
            loss, done = self._learner.learn(*data, order)
        if done < len(order):
            # Features that came since have no weight.
            n_new = self._learner.n_rows - len(self._last_good)
            self.weights = np.pad(self._last_good, ((0, n_new), (0, 0)))
            raise DivergedError(
                f"the weights are not finite after {done} of {len(order)} steps: rate = "
                f"{self.online.rate} is too high. The weights are again those of before"
            )
        self._weights = None
        return loss

    def _check_l2(self) -> None:
        """Before a step, since only then it is certain how many sequences there are."""
        online = self.online
        limit = max(self.n_sequences, 1) / (online.rate * online.threads)
        if online.l2 >= limit:
            raise ValueError(
                f"l2 must be less than n_sequences / (rate * threads) = {limit:g}, got {online.l2}"
                ": a step would take all of the weights away and more"
            )

    def fit(
        self,
        features: Rows,
        lengths: NDArray[np.int32],
        gold: Gold,
        passes: int,
        after: Callable[[int, float], None] = lambda n, loss: None,
    ) -> None:
        """Passes over all sequences, shuffled; `after` is told the number and loss of each."""
        from spacy_bcrf.kernels.sparse import shuffled

        self.n_sequences = len(lengths)
        self._learner.set_n_sequences(float(max(len(lengths), 1)))
        for worker in self._workers.learners if self._workers else ():
            worker.set_n_sequences(max(len(lengths), 1) / self.online.threads)
        for _ in range(passes):
            # Another order each pass, the same for the same seed whatever was done before.
            order = shuffled(len(lengths), self.online.seed * 1_000_003 + self.n_passes)
            loss = self.step(features, lengths, gold, order)
            self.n_passes += 1
            after(self.n_passes, loss)
            self._last_good = self.weights

    def potentials(self, features: Rows, lengths: NDArray[np.int32]) -> Potentials:
        """Scores of tags and transitions, without constraints; rows of -1 are left out."""
        from spacy_bcrf.kernels.sparse import score

        unary = score(self.weights, self.n_tags, features.rows, features.starts, lengths)
        transitions = self.weights[: self.n_tags, : self.n_tags]
        return Potentials(unary, transitions, lengths)
