"""Losses on an emulated GPU: the losses of the CPU, in few launches and without waits."""

import fake_cupy
import numpy as np
import pytest
from pairwise import pairwise
from test_kernels import problem

from bcrf import kernels
from bcrf.chain import BCRF, CRF, MeanField, Potentials, viterbi
from bcrf.chain.potentials import NotFiniteError, raise_deferred

INFERENCES = [CRF(), BCRF(7), BCRF(8, "auto", 1e-4)]
GOLD = ["complete", "partial", "allowed", "mixed"]
# The scale of the scores, and whether to forbid some.
SCORES = [(1.0, False), (1.0, True), (300.0, True)]


@pytest.fixture
def cupy(host, monkeypatch):
    return fake_cupy.install(monkeypatch)


def on(cupy, *arrays):
    return [array.copy().view(cupy.ndarray) for array in arrays]


def gold_of(kind, unary, transitions, lengths):
    """Allowed gold labelings: the best one, of which some tags are unknown."""
    potentials = Potentials(*(x.astype("float64") for x in (unary, transitions)), lengths)
    gold, rng = viterbi(potentials)[0], np.random.default_rng(0)
    if kind == "complete":
        return gold
    unknown = rng.random(len(gold)) < 0.5
    if kind == "mixed":
        # The first sequence is complete, the last one is unknown.
        unknown[: lengths[0]] = False
        unknown[len(gold) - lengths[-1] :] = True
    gold[unknown] = -1
    if kind != "allowed":
        return gold
    allowed = rng.random(unary.shape) < 0.3
    allowed[np.arange(len(gold)), gold] = True
    allowed[unknown] = True
    return allowed


# Where a GPU was wrong at 01c421b.
WRONG = [
    (BCRF(10), tags, "float32", shared, "allowed", (scale, True))
    for tags in (17, 33)
    for shared in (True, False)
    for scale in (30.0, 300.0)
]
# More tags than registers hold: factors of two passes are multiplied.
MANY = [
    (inference, 38, "float64", True, kind, scores)
    for inference in (CRF(), BCRF(7))
    for kind in GOLD
    for scores in (SCORES[1], SCORES[2])
]


@pytest.mark.parametrize(
    "inference, tags, dtype, shared, kind, scores",
    pairwise(INFERENCES, [3, 9, 38], ["float32", "float64"], [True, False], GOLD, SCORES)
    + WRONG
    + MANY,
    ids=repr,
)
def test_losses_are_those_of_the_cpu(cupy, inference, tags, dtype, shared, kind, scores):
    scale, forbid = scores
    if getattr(inference, "relaxation", None) == "auto":
        # The estimate needs small differences of probabilities, which float32 rounds away.
        dtype = "float64"
    lengths = np.array([9, 1, 0, 2, 3, 12, 4], "int32")
    rng = np.random.default_rng(tags)
    arrays = problem(rng, tags, shared, dtype, forbid, scale, lengths)
    # Tag 0 everywhere is an allowed labeling.
    arrays[0][:, 0] = np.maximum(arrays[0][:, 0], -3 * scale)
    arrays[1][..., 0, 0] = 0
    gold = gold_of(kind, *arrays)
    double = Potentials(*(x.astype("float64") for x in arrays[:2]), lengths)
    expected, by = inference.loss(double, gold)
    losses, gradient = inference.loss(
        Potentials.unchecked(*on(cupy, *arrays), cupy), on(cupy, gold)[0]
    )
    rtol, atol = (1e-4, 2e-4 * scale) if dtype == "float32" else (1e-6, 1e-6)
    np.testing.assert_allclose(losses.get(), expected, rtol, atol)
    np.testing.assert_allclose(gradient.unary.get(), by.unary, rtol=1e-4, atol=2e-4)
    np.testing.assert_allclose(gradient.transitions.get(), by.transitions, rtol=1e-4, atol=1e-3)
    assert losses.dtype == gradient.unary.dtype == gradient.transitions.dtype == dtype


@pytest.mark.parametrize("inference", [CRF(), BCRF()], ids=repr)
@pytest.mark.parametrize("kind", GOLD)
@pytest.mark.parametrize("tags, shared", [(9, True), (9, False), (70, True)])
def test_a_step_is_few_launches_without_waits(cupy, host, inference, kind, tags, shared):
    lengths = np.array([9, 1, 0, 2, 3, 12, 4], "int32")
    arrays = problem(np.random.default_rng(0), tags, shared, "float32", True, 1.0, lengths)
    potentials = Potentials.unchecked(*on(cupy, *arrays), cupy)
    gold = on(cupy, gold_of(kind, *arrays))[0]
    inference.loss(potentials, gold)  # creates the flag of errors
    host.launches.clear()
    cupy.counts.operations.clear()
    cupy.counts.waits.clear()
    inference.loss(potentials, gold)
    assert len(host.launches) == (4 if tags == 70 else 3)
    assert set(cupy.counts.operations) <= {"ascontiguousarray"}
    assert cupy.counts.waits == []


@pytest.mark.parametrize(
    "tags, shared", [(9, True), (57, True), (9, False), (70, True), (60, False)]
)
@pytest.mark.parametrize("n_iter", [1, 10])
def test_launches_of_mean_field_without_waits(cupy, host, n_iter, tags, shared):
    """One launch runs all passes if they are short. With more to do, each pass has a launch."""
    lengths = np.array([9, 1, 0, 2, 3, 12, 4], "int32")
    arrays = problem(np.random.default_rng(0), tags, shared, "float32", True, 1.0, lengths)
    gold = np.zeros(len(arrays[0]), "int32")
    is_one = tags * tags * 5 <= 1 << 14
    kernels.mean_field(*on(cupy, *arrays), 1)  # creates the flag of errors
    for query, args, passes in (
        (kernels.mean_field, [], n_iter + 3),
        (kernels.mean_field_loss, on(cupy, gold), 2 * n_iter + 2),
    ):
        host.launches.clear()
        cupy.counts.operations.clear()
        query(*on(cupy, *arrays), *args, n_iter)
        assert host.launches == ["prepare", *["mean_field"] * (1 if is_one else passes)]
        multiplied = set() if tags != 70 else {"matmul", "greater", "where"}
        if args and shared and not is_one:
            multiplied = {"matmul", "add", "greater", "where"}
        assert set(cupy.counts.operations) == multiplied
    assert cupy.counts.waits == []


@pytest.mark.parametrize("inference", [CRF(), BCRF()], ids=repr)
@pytest.mark.parametrize("kind", GOLD)
def test_repeated_launches_compute_a_new_step(cupy, host, monkeypatch, inference, kind):
    """A CUDA graph repeats the launches of a step with new numbers in the same arrays."""
    lengths = np.array([9, 1, 0, 2, 3, 12, 4], "int32")
    rng = np.random.default_rng(0)
    arrays = problem(rng, 9, True, "float32", True, 1.0, lengths)
    potentials = Potentials.unchecked(*on(cupy, *arrays), cupy)
    gold = on(cupy, gold_of(kind, *arrays))[0]
    launch, captured = host.launch, []
    with monkeypatch.context() as patch:
        patch.setattr(host, "launch", lambda step: (captured.append(step), launch(step)))
        losses, gradient = inference.loss(potentials, gold)
    before = losses.get()
    unary = potentials.unary
    unary += rng.normal(size=unary.shape).astype("float32")
    for step in captured:
        launch(step)
    expected, by = inference.loss(potentials, gold)
    assert not np.array_equal(losses.get(), before)
    np.testing.assert_array_equal(losses.get(), expected.get())
    np.testing.assert_array_equal(gradient.unary.get(), by.unary.get())
    np.testing.assert_array_equal(gradient.transitions.get(), by.transitions.get())


@pytest.mark.parametrize("inference, most", [(CRF(), 6), (BCRF(), 12)], ids=repr)
def test_bytes_a_step(cupy, host, inference, most):
    """The memory of all arrays of a step, in units of the unary scores."""
    lengths = np.full(20, 30, "int32")
    arrays = problem(np.random.default_rng(0), 9, True, "float32", False, 1.0, lengths)
    potentials = Potentials.unchecked(*on(cupy, *arrays), cupy)
    gold = on(cupy, gold_of("complete", *arrays))[0]
    inference.loss(potentials, gold)
    assert sum(host.arrays.values()) <= most * arrays[0].nbytes


@pytest.mark.parametrize("inference", [CRF(), BCRF()], ids=repr)
def test_marginals_are_three_launches_and_one_wait(cupy, host, inference):
    lengths = np.array([5, 7], "int32")
    arrays = problem(np.random.default_rng(0), 9, True, "float32", False, 1.0, lengths)
    potentials = Potentials.unchecked(*on(cupy, *arrays), cupy)
    inference.loss(potentials, on(cupy, gold_of("complete", *arrays))[0])
    host.launches.clear()
    cupy.counts.waits.clear()
    inference.marginals(potentials)
    assert len(host.launches) == 3
    # The first one reads the errors of losses, the second one whether a sequence is infeasible.
    assert cupy.counts.waits == ["get", "__bool__"]


@pytest.mark.parametrize("inference", [CRF(), BCRF(), MeanField(2)], ids=repr)
def test_the_next_wait_raises_errors(cupy, inference):
    lengths = np.array([3, 2, 4], "int32")
    unary, transitions, _ = problem(
        np.random.default_rng(0), 5, True, "float32", False, 1.0, lengths
    )
    gold = np.zeros(9, "int32")
    fine = Potentials.unchecked(*on(cupy, unary, transitions, lengths), cupy)

    def loss(unary, gold):
        arrays = on(cupy, unary, transitions, lengths)
        inference.loss(Potentials.unchecked(*arrays, cupy), on(cupy, gold)[0])

    forbidden, wrong = unary.copy(), gold.copy()
    forbidden[3:5, 0] = -np.inf
    wrong[[4, 6]] = 5, -2
    for bad_unary, bad_gold, message in (
        (forbidden, gold, "sequence 1 has no gold labeling: -inf forbids all of them"),
        (unary, wrong, "gold has a tag outside of the potentials' tags in sequence 1"),
        (np.where(gold[:, None] == 0, np.nan, unary), gold, "sequence 0 has NaN or .inf"),
    ):
        loss(bad_unary.astype("float32"), bad_gold)
        with pytest.raises(ValueError, match=message) as caught:
            inference.log_partition(fine)
        assert isinstance(caught.value, NotFiniteError) == ("NaN" in message)
        # The error is raised once.
        inference.log_partition(fine)


@pytest.mark.parametrize("tags", [5, 70])
def test_gold_of_mean_field_is_checked_without_waits(cupy, tags):
    lengths = np.array([3, 2, 0, 4], "int32")
    arrays = problem(np.random.default_rng(0), tags, True, "float32", False, 1.0, lengths)
    potentials = Potentials.unchecked(*on(cupy, *arrays), cupy)
    gold = np.array([0, 1, 2, -1, -1, 2, 1, 0, 0], "int32")
    sets = (gold[:, None] == np.arange(tags)) | (gold < 0)[:, None]
    several, hole = sets.copy(), gold.copy()
    several[7, :2] = True
    hole[1] = -1
    expected, by = MeanField(3).loss(Potentials(*arrays), gold)
    for some, sequence in ((gold, None), (sets, None), (several, 3), (hole, 0)):
        cupy.counts.waits.clear()
        losses, gradient = MeanField(3).loss(potentials, on(cupy, some)[0])
        assert cupy.counts.waits == []
        if sequence is None:
            raise_deferred(losses)
            np.testing.assert_allclose(losses.get(), expected, rtol=1e-5)
            np.testing.assert_allclose(gradient.unary.get(), by.unary, atol=1e-5)
        else:
            with pytest.raises(ValueError, match=f"sequence {sequence} has partial gold, and mean"):
                raise_deferred(losses)
