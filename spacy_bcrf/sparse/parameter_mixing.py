"""Learners side by side, for several threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Workers:
    """Iterative parameter mixing (McDonald, Hall and Mann 2010): each thread makes the steps of its
    share of the sequences, all from the same weights, and then their weights are averaged.

    The same for the same seed and number of threads. What it gives up: a step sees only what its
    own thread has learned since the last mixing, so more passes are needed; and each call copies
    all weights once for each thread, so that it pays for whole passes and not for small batches.
    """

    def __init__(self, make: Callable[[], Any], threads: int, averaged: bool) -> None:
        """make: a learner with a share of 1 / threads of the sequences."""
        self.learners = [make() for _ in range(threads)]
        self._averaged = averaged
        self.reset()

    def reset(self) -> None:
        """Forget the weights: go on from those of the learner that is given next."""
        self._current: NDArray[np.float32] | None = None
        self._average: NDArray[np.float32] | None = None
        self._n_steps = 0

    def learn(self, main: Any, order: NDArray[np.int32], *args: Any) -> tuple[float, int]:
        """As the learner's own: the losses, and the number of steps. `main` gets the weights."""
        current = self._grown(self._current, main)
        shares = np.array_split(order, len(self.learners))
        for learner in self.learners:
            learner.write(current)
        with ThreadPoolExecutor(len(self.learners)) as pool:
            results = list(pool.map(lambda pair: pair[0].learn(*args, pair[1]), self._with(shares)))
        loss, done = (sum(values) for values in zip(*results, strict=True))
        if done < len(order):
            return loss, done
        self._current = self._mix(shares, current=True)
        if self._averaged:
            self._n_steps += done
            average = self._grown(self._average, main)
            average += (self._mix(shares) - average) * np.float32(done / self._n_steps)
            self._average = average
        main.write(self._average if self._averaged else self._current)
        return loss, done

    def _with(self, shares: list[NDArray[np.int32]]) -> list[tuple[Any, NDArray[np.int32]]]:
        return list(zip(self.learners, shares, strict=True))

    def _mix(self, shares: list[NDArray[np.int32]], current: bool = False) -> NDArray[np.float32]:
        total = sum(map(len, shares))
        mixed = [
            w.read(current) * np.float32(len(share) / total) for w, share in self._with(shares)
        ]
        return np.sum(mixed, axis=0, dtype="float32")

    @staticmethod
    def _grown(weights: NDArray[np.float32] | None, main: Any) -> NDArray[np.float32]:
        """With rows for the features that came since; what `main` has if there are none."""
        if weights is None:
            return main.read(True)
        return np.pad(weights, ((0, main.n_rows - len(weights)), (0, 0)))
