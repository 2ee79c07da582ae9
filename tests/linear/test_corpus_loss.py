"""The loss of a corpus: its gradient by differences, and that values are multiples of weights."""

import numpy as np
import pytest

from bcrf.chain import Constraints
from bcrf.linear.corpus_loss import CorpusLoss
from bcrf.linear.crfsuite_attributes import Batch, find_starts

T, A = 3, 5


def make_batch(values: bool, n: int = 300) -> tuple[Batch, np.ndarray]:
    """Make sequences, some empty, with unknown labels. The first attribute is at most tokens."""
    random = np.random.default_rng(0)
    lengths = random.integers(0, 5, n).astype("int32")
    sizes = random.integers(0, 4, lengths.sum())
    rows = random.choice(A, sizes.sum(), p=[0.6, 0.2, 0.1, 0.1, 0.0]).astype("int32")
    numbers = random.choice([0.5, 1, -2], len(rows)) if values else None
    gold = random.integers(-1, T, lengths.sum()).astype("int32")
    return Batch(rows, find_starts(sizes), numbers, lengths), gold


def make_weights(loss: CorpusLoss) -> np.ndarray:
    weights = loss.zeros()
    weights[:, :T] = np.random.default_rng(1).normal(size=(T + 3 + A, T))
    return weights


@pytest.mark.parametrize("values", [False, True], ids=["ones", "values"])
@pytest.mark.parametrize("constrained", [False, True], ids=["free", "constrained"])
def test_the_gradient_by_differences(values, constrained):
    batch, gold = make_batch(values)
    constraints = None
    if constrained:
        allowed = np.ones((T, T), dtype=bool)
        allowed[2, 1] = False
        constraints = Constraints(allowed, np.ones(T, bool), np.ones(T, bool))
        gold[gold == 1] = -1
    loss = CorpusLoss(batch, gold, (T, A), constraints)
    weights = make_weights(loss)
    gradient = loss(weights)[1]
    assert gradient.shape == weights.shape and not gradient[:, T:].any()
    expected = np.zeros_like(gradient)
    for i in range(len(weights)):
        for j in range(T):
            up, down = weights.copy(), weights.copy()
            up[i, j] += 2**-7
            down[i, j] -= 2**-7
            expected[i, j] = (loss(up)[0] - loss(down)[0]) * 2**6
    assert gradient == pytest.approx(expected, rel=1e-3, abs=2e-2)


def test_a_value_multiplies_the_weights():
    batch, gold = make_batch(False)
    loss = CorpusLoss(batch, gold, (T, A))
    weights = make_weights(loss)
    doubled = batch._replace(values=np.full(len(batch.rows), 2.0))
    twice = weights.copy()
    twice[T + 3 :] *= 2
    other = CorpusLoss(doubled, gold, (T, A))(weights)
    value, gradient = loss(twice)
    assert other[0] == pytest.approx(value, rel=1e-6)
    assert other[1][T + 3 :] == pytest.approx(2 * gradient[T + 3 :], rel=1e-5, abs=1e-4)


def test_weights_that_are_not_kept_do_not_learn():
    batch, gold = make_batch(False)
    kept = np.random.default_rng(2).random((T + 3 + A, T)) < 0.5
    full = CorpusLoss(batch, gold, (T, A))
    found = CorpusLoss(batch, gold, (T, A), kept=kept)(make_weights(full))[1][:, :T]
    expected = full(make_weights(full))[1][:, :T]
    assert np.array_equal(found, np.where(kept, expected, 0))
    assert (found[: T + 7][kept[: T + 7]] != 0).all()  # the last attribute is at no token


def test_no_features_and_no_tokens():
    empty = np.zeros(0, "int32")
    for lengths in [0], [2]:
        n = sum(lengths)
        batch = Batch(empty, np.zeros(n + 1, "int64"), None, np.array(lengths, "int32"))
        loss = CorpusLoss(batch, np.zeros(n, "int32"), (T, 0))
        value, gradient = loss(loss.zeros())
        assert value == pytest.approx(n * np.log(T)) and gradient.shape == (T + 3, 8)
