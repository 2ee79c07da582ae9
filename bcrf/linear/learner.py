"""Online learning of a linear chain over sparse boolean features."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bcrf import kernels
from bcrf.chain import BCRF, CRF, Constraints, Inference, MeanField, Potentials
from bcrf.chain.potentials import check_least, check_positive
from bcrf.chain.search import check_search
from bcrf.chain.side_by_side import join_chains, split_chains

from .rows import Rows


class DivergedError(ValueError):
    """Overflow of the weights. The learner has its last finite weights again.

    >>> from bcrf.linear import DivergedError
    >>> issubclass(DivergedError, ValueError)
    True
    """


@dataclass(frozen=True)
class OnlineSettings:
    """Settings of online learning: one step of stochastic gradient descent a sequence.

    objective: "crf", the log-likelihood over all labelings; "bcrf", the Fenchel-Young loss of
        `chain.BCRF(n_iter)`; "mean_field", the loss of `chain.MeanField(n_iter)`; "sapo", the
        log-likelihood over the n best labelings (Sun et al., Algorithm 1); "perceptron" (Collins
        2002); or "mira", the margin over the n best labelings (McDonald et al. 2005; n = 1 is
        Crammer and Singer 2003).
    order: 1; or 2, which adds weights of three neighbouring tags for the tags that the first-order
        chain finds likely, see `OnlineLearner.add_pairs`. Order 2 needs the objective "crf".
    n_iter: number of iterations of "bcrf" and "mean_field".
    n, search, beam_width: the n-best list of SAPO and MIRA, see `chain.nbest`.
    averaged: whether to predict with the mean of the weights over all steps (Collins 2002).
    optimizer: "sgd", one rate for all weights; or "adagrad" (Duchi et al. 2011), which divides the
        rate of a weight by the square root of 1 + the sum of its squared gradients, each of one
        token. MIRA needs "sgd", because its objective sets the size of a step.
    rate: learning rate of the first step. For MIRA it is the upper bound of a step, C.
    decay: the rate after p passes (fractions count) is rate / (1 + decay p). 0 keeps it constant.
    l2: the coefficient lambda of the regularizer lambda / 2 |w|^2, for all sequences together.
    l1: the coefficient of the regularizer |w|_1, for all sequences together. It makes most weights
        exactly 0, by cumulative penalties (Tsuruoka et al. 2009), also where they are averaged.
    seed: seed of the random order of the sequences.

    A step adds the gradient, and then regularizes as in Algorithm 1 of Sun et al.: it multiplies
    the weights by 1 - rate * l2 / n_sequences, and moves each one towards 0 by at most rate * l1 /
    n_sequences and the penalties that it still owes since its feature was last used. AdaGrad
    divides l1 like the rate, but not l2. A step leaves out the features of a token whose gradient
    has no component above 1e-4. Raises ValueError naming the setting that is out of range.

    >>> from bcrf.linear import OnlineSettings
    >>> OnlineSettings("crf", l2=0.1).inference
    CRF()
    """

    objective: Literal["crf", "bcrf", "mean_field", "sapo", "perceptron", "mira"] = "sapo"
    order: Literal[1, 2] = 1
    n: int = 5
    n_iter: int = 10
    search: Literal["astar", "beam"] = "astar"
    beam_width: int = 50
    averaged: bool = True
    optimizer: Literal["sgd", "adagrad"] = "sgd"
    rate: float = 0.1
    decay: float = 0.0
    l2: float = 0.0
    l1: float = 0.0
    seed: int = 0

    def find_obstacle(self) -> str | None:
        """Return why `OnlineLearner.descend` cannot apply the settings, None if it can."""
        if self.order == 2:
            return (
                "order = 2 needs online steps. To learn from gradients, train a linear chain with "
                "order = 1"
            )
        if self.l1:
            return f"l1 = {self.l1} needs online steps: set l1 = 0 to learn from gradients"
        return None

    def __post_init__(self) -> None:
        objectives = ("crf", "bcrf", "mean_field", "sapo", "perceptron", "mira")
        for name, known in (("objective", objectives), ("optimizer", ("sgd", "adagrad"))):
            if getattr(self, name) not in known:
                raise ValueError(
                    f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}"
                )
        if self.order not in (1, 2):
            raise ValueError(f"order must be 1 or 2, got {self.order!r}")
        if self.order == 2 and self.objective != "crf":
            raise ValueError(f"order = 2 needs the objective crf, got {self.objective!r}")
        if self.objective == "mira" and self.optimizer == "adagrad":
            raise ValueError(
                "optimizer must be sgd for the objective mira, whose steps have their own size"
            )
        check_search(self.n, self.search, self.beam_width)
        check_least(1, n_iter=self.n_iter)
        check_least(0, decay=self.decay, l2=self.l2, l1=self.l1, seed=self.seed)
        check_positive(rate=self.rate)

    @property
    def inference(self) -> Inference:
        """The inference of all probabilities: the objective, or a CRF if that has none."""
        if self.objective == "bcrf":
            return BCRF(self.n_iter)
        return MeanField(self.n_iter) if self.objective == "mean_field" else CRF()


LEAST_MARGINAL = 0.01
"""A second-order chain keeps the tags with at least this marginal in the first-order chain."""
MAX_TAGS = 256
"""Largest number of tags of a second-order chain, which has T^3 weights."""


class OnlineLearner:
    """Weights of a linear chain with T tags and F features, and the online steps that learn them.

    Each tag has a weight for each feature, for the bias, and for the start and end of a sequence.
    Each pair of tags has a transition weight. In a second-order chain, each pair of neighbouring
    tags is also a feature of the token after them.

    C chains side by side, see `chain.side_by_side`, have T / C tags each, and one step a sequence.
    They share the transition weights.

    >>> import numpy as np
    >>> from bcrf.linear import OnlineLearner, OnlineSettings, Rows
    >>> learner = OnlineLearner(2, 1, OnlineSettings("perceptron"))
    >>> rows, lengths = Rows(np.array([0], "int32"), np.array([0, 1])), np.array([1], "int32")
    >>> learner.step(rows, lengths, np.array([1], "int32"))
    0.0
    >>> int(learner.potentials(rows, lengths).unary.argmax())
    1
    """

    def __init__(
        self,
        n_tags: int,
        n_features: int,
        settings: OnlineSettings,
        n_sequences: float = 1,
        n_chains: int = 1,
    ) -> None:
        """n_tags: T, of all chains together. n_sequences: number of training sequences. It scales
        l2, l1 and the decay of the rate. n_chains: C. ValueError for several chains of order 2.
        """
        from bcrf.kernels.sparse import Learner

        if settings.order == 2 and n_chains > 1:
            raise ValueError(
                f"order = 2 has weights of three neighbouring tags of one chain, but there are "
                f"{n_chains} chains side by side. Set order = 1"
            )
        if settings.order == 2 and n_tags > MAX_TAGS:
            raise ValueError(f"order = 2 has T^3 weights: at most {MAX_TAGS} tags, got {n_tags}")
        self.n_tags = n_tags
        self.n_chains = n_chains
        self.n_sequences = n_sequences
        self.settings = settings
        self.n_passes = 0

        self._kernel: Any = Learner(
            settings.objective,
            n_tags,
            n_chains=n_chains,
            n=settings.n,
            n_iter=settings.n_iter,
            relaxation=kernels.RELAXATION,
            beam=settings.beam_width if settings.search == "beam" else 0,
            averaged=settings.averaged,
            adagrad=settings.optimizer == "adagrad",
            rate=settings.rate,
            decay=settings.decay,
            l2=settings.l2,
            l1=settings.l1,
            n_sequences=max(n_sequences, 1),
        )
        # The kernel gets features and weights before its first use: it has several arrays of their
        # size, which prediction does not need.
        self._n_waiting: int | None = n_features
        self._make_weights: Callable[[], NDArray[np.float32]] | None = None
        # A copy of the kernel's weights, made on demand because it can take tens of megabytes; or
        # weights that the kernel waits for.
        self._weights: NDArray[np.float32] | None = None
        self._last_good = np.zeros((0, self.stride), dtype="float32")
        self.pairs = np.zeros((0, n_tags), dtype="int32")
        """The features (T + 1, T) of `set_pairs`; (0, T) in a first-order chain."""

    @property
    def _learner(self) -> Any:
        """The kernel, with all features and weights."""
        if self._n_waiting is not None:
            self._make()
            self._kernel.resize(self._n_waiting)
            self._n_waiting = None
            if self._weights is not None:
                self._kernel.write(self._weights)
        return self._kernel

    def set_pairs(self, pairs: NDArray[np.int32]) -> None:
        """Learn and predict with a second-order chain.

        pairs: int32 (T + 1, T), the feature of each pair of neighbouring tags, `[first, second]`;
        in the last row of the start and a first tag. ValueError without weights of a feature, and
        for order 1.
        """
        if self.settings.order != 2:
            raise ValueError(f"pairs of tags need order = 2, got order = {self.settings.order}")
        self._learner.resize(self.n_features)
        self._learner.set_pairs(pairs, LEAST_MARGINAL)
        self.pairs = pairs

    @property
    def n_features(self) -> int:
        """Number of features F that have weights."""
        if self._n_waiting is not None:
            return self._n_waiting
        return self._kernel.n_rows - self.n_general

    @property
    def n_states(self) -> int:
        """Number of tags of one chain, S = T / C."""
        return self.n_tags // self.n_chains

    @property
    def n_general(self) -> int:
        """Number of rows of `weights` before the features."""
        return self.n_states + 3

    @property
    def stride(self) -> int:
        """Number of columns of `weights`: T, rounded up to whole vector registers."""
        return self._kernel.stride

    @property
    def weights(self) -> NDArray[np.float32]:
        """Weights (S + 3 + F, stride), float32, read-only: assign a new array. S is T in one chain.

        The rows are the transitions `[from, to]` in the first S columns, then the bias, the start,
        the end, and the features. Columns beyond T are 0.
        """
        self._make()
        if self._weights is None:
            self._weights = self._last_good = _read_only(self._learner.read())
        return self._weights

    @weights.setter
    def weights(self, weights: NDArray[np.float32]) -> None:
        weights = np.ascontiguousarray(weights, dtype="float32")
        self._make_weights = None
        shape = self.n_general + self.n_features, self.stride
        if self._n_waiting is None or weights.shape != shape:
            self._learner.write(weights)
        self._weights = self._last_good = _read_only(weights)

    def set_later(self, make_weights: Callable[[], NDArray[np.float32]]) -> None:
        """Assign the weights that a function returns at their first use."""
        self._make_weights = make_weights

    def _make(self) -> None:
        if self._make_weights is not None:
            self.weights = self._make_weights()

    def resize(self, n_features: int) -> None:
        """Add features with weights of 0 until there are `n_features`."""
        self._learner.resize(n_features)
        self._weights = None

    def constrain(self, constraints: Constraints | None) -> None:
        """Learn under constraints on the S tags. None keeps the earlier ones."""
        if constraints is not None:
            masks = constraints.transitions, constraints.start, constraints.end
            self._learner.constrain(*(np.ascontiguousarray(a, "uint8") for a in masks))

    def step(
        self,
        rows: Rows,
        lengths: NDArray[np.int32],
        gold: NDArray,
        lattice: NDArray[np.bool_] | None = None,
        order: NDArray[np.int32] | None = None,
    ) -> float:
        """Make one step a sequence and return the sum of the losses, each taken before its step.

        gold: int32 (C N,) tag ids, -1 for unknown; or bool (C N, S) allowed tags. lattice: bool (C
        N, S), the tags that every labeling may use; None allows all tags. order: int32, the
        sequences to learn from, by index; None takes all in order. A sequence takes no step if its
        gold forbids no tag that the lattice and the constraints allow, or if they forbid its gold.

        Raises DivergedError if the weights are no longer finite: the learner then has the weights
        that were last read. Raises ValueError if l1 or l2 is so large that steps remove all
        weights, or for partial gold with the objective "mean_field".
        """
        self._check_decay()
        offsets = np.concatenate([[0], lengths.cumsum(dtype="int64")])
        if order is None:
            order = np.arange(len(lengths), dtype="int32")
        is_mask = gold.dtype == bool
        data = (
            rows.rows,
            rows.starts,
            None if is_mask else np.ascontiguousarray(gold, dtype="int32"),
            np.ascontiguousarray(gold).view("uint8") if is_mask else None,
            None if lattice is None else np.ascontiguousarray(lattice).view("uint8"),
            offsets,
        )
        # The first use writes the weights of a loaded chain. Then they change: the learner has made
        # some steps even if a signal interrupts it.
        learner = self._learner
        self._weights = None
        loss, done = learner.learn(*data, order)
        if done < len(order):
            # Features added since the last reading have no finite weights but 0.
            n_new = self._learner.n_rows - len(self._last_good)
            self.weights = np.pad(self._last_good, ((0, n_new), (0, 0)))
            raise DivergedError(
                f"the weights are not finite after {done} of {len(order)} steps: rate = "
                f"{self.settings.rate} is too high. The learner has its last finite weights again"
            )
        return loss

    def _check_decay(self) -> None:
        """Check l1 and l2 at each step, because `fit` changes the number of sequences."""
        settings = self.settings
        most = max(self.n_sequences, 1)
        if settings.l1 >= most:
            raise ValueError(
                f"l1 must be less than n_sequences = {most:g}, got {settings.l1}: each step would "
                "take more from a weight than a feature's gradient can add"
            )
        limit = most / settings.rate
        if settings.l2 >= limit:
            raise ValueError(
                f"l2 must be less than n_sequences / rate = {limit:g}, got {settings.l2}: one step "
                "would remove all weights"
            )

    def fit(
        self,
        rows: Rows,
        lengths: NDArray[np.int32],
        gold: NDArray,
        passes: int,
        after: Callable[[int, float], None] = lambda n, loss: None,
        only: NDArray[np.integer] | None = None,
    ) -> None:
        """Learn from all sequences in several passes, each in a new random order. gold: see `step`.

        after: called after each pass with the number of passes so far and the loss of the pass.
        only: the sequences to learn from, by index; None takes all.
        """
        from bcrf.kernels.sparse import shuffled

        chosen = np.arange(len(lengths)) if only is None else only
        self.n_sequences = len(chosen)
        self._learner.set_n_sequences(float(max(len(chosen), 1)))
        for _ in range(passes):
            # The order depends on the seed and the number of the pass alone.
            order = shuffled(len(chosen), self.settings.seed * 1_000_003 + self.n_passes)
            loss = self.step(rows, lengths, gold, order=chosen[order].astype("int32"))
            self.n_passes += 1
            after(self.n_passes, loss)
            self._last_good = self.weights

    def check_descends(self) -> None:
        """Raise ValueError with l1 or order 2, which `descend` cannot apply."""
        if obstacle := self.settings.find_obstacle():
            raise ValueError(obstacle)

    def descend(self, rows: Rows, lengths: NDArray[np.int32], gradient: Potentials) -> None:
        """Learn from the gradient of a loss with respect to `current_potentials`.

        Each token, and the transitions, make an AdaGrad step of the settings' rate, whatever their
        optimizer. A sequence with a gradient shrinks the weights by l2, as in `step`. gradient: (C
        N, S) and (S, S), float32. Raises ValueError with l1 or order 2.
        """
        self.check_descends()
        self._check_decay()
        learner = self._learner
        self._weights = None
        joined = join_chains(gradient.unary, lengths, self.n_chains, np)
        d_unary, d_transitions = (
            np.ascontiguousarray(array, "float32") for array in (joined, gradient.transitions)
        )
        learner.descend(rows.rows, rows.starts, lengths, d_unary, d_transitions)

    def current_potentials(self, rows: Rows, lengths: NDArray[np.int32]) -> Potentials:
        """Compute potentials under the weights of the last step, not their average."""
        unary, transitions = self._learner.score(rows.rows, rows.starts, lengths)
        return split_chains(unary, transitions, lengths, self.n_chains, np)

    def potentials(self, rows: Rows, lengths: NDArray[np.int32]) -> Potentials:
        """Compute the first-order potentials, without constraints. Rows of -1 score 0."""
        from bcrf.kernels.sparse import score

        weights, chains = self.weights, self.n_chains
        unary = score(weights, self.n_tags, rows.rows, rows.starts, lengths, chains)
        transitions = weights[: self.n_states, : self.n_states]
        return split_chains(unary, transitions, lengths, chains, np)

    def add_pairs(self, potentials: Potentials) -> Potentials:
        """Add the second-order weights to first-order potentials under their constraints.

        The second-order chain (Mueller, Schmid and Schuetze 2013) scores the labelings of the tags
        whose first-order marginal is at least LEAST_MARGINAL. The result, with transitions (N, T,
        T), is the first-order chain with the same marginals of tags and pairs, and the same
        log-partition, on these labelings. Other pairs keep their scores. O(N T^2), and O(N K^3) for
        K kept tags a token.
        """
        from bcrf.kernels.sparse import correct

        if not (len(self.pairs) and len(potentials.unary)):
            return potentials
        arrays = potentials.arrays
        marginals: Any = kernels.sum_product(*arrays).unary
        best, _ = kernels.max_product(*arrays)
        found = correct(self.weights, self.pairs, *arrays, marginals, best, LEAST_MARGINAL)
        return potentials.with_scores(*found)


def _read_only(weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a new array object, so that what was computed from another one can be recognized."""
    view = weights.view()
    view.setflags(write=False)
    return view
