"""Online learning in several threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Workers:
    """Iterative parameter mixing (McDonald, Hall and Mann 2010).

    Each thread has a learner and a share of the sequences. All learners start from the same
    weights, and each call ends with the mean of their weights, weighted by the sizes of the shares.

    The result depends only on the seed and the number of threads. Learning needs more passes, since
    a thread does not see the steps of the others. Each call copies all weights once a thread, so
    threads pay off for whole passes but not for small batches. With l1, each call starts without
    outstanding penalties, and a mixed weight is 0 only if it is 0 in all learners. With AdaGrad,
    each learner keeps the squared gradients of its own steps.
    """

    def __init__(self, make: Callable[[], Any], threads: int, averaged: bool) -> None:
        """make: returns a new learner for a share of 1 / threads of the sequences."""
        self.learners = [make() for _ in range(threads)]
        self._averaged = averaged
        self.reset()

    def reset(self) -> None:
        """Forget the mixed weights. The next call starts from the weights of its `main`."""
        self._current: NDArray[np.float32] | None = None
        self._average: NDArray[np.float32] | None = None
        self._n_steps = 0

    def learn(self, main: Any, order: NDArray[np.int32], *args: Any) -> tuple[float, int]:
        """Make one step for each sequence of `order`, and write the mixed weights to `main`.

        args: arguments of the compiled learner's `learn` before `order`.
        Returns the sum of the losses and the number of steps. If steps are missing because the
        weights diverged, or a signal handler raises an exception, `main` stays unchanged.
        """
        current = self._grown(self._current, main)
        shares = np.array_split(order, len(self.learners))
        for learner in self.learners:
            learner.write(current, keep_rates=self._current is not None)
        with ThreadPoolExecutor(len(self.learners)) as pool:
            try:
                results = list(
                    pool.map(lambda pair: pair[0].learn(*args, pair[1]), self._with(shares))
                )
            except BaseException:
                # A signal reaches only the main thread, which here waits for the others.
                for learner in self.learners:
                    learner.stop()
                raise
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
        """Append zero rows for new features. Without weights, return the weights of `main`."""
        if weights is None:
            return main.read(True)
        return np.pad(weights, ((0, main.n_rows - len(weights)), (0, 0)))
