"""The CUDA kernels and their launches, emulated on the host, against the reference kernels.

NVRTC compiles them too, if it is installed.
"""

import cuda_host
import numpy as np
import nvrtc
import pytest
from oracles import reference
from pairwise import pairwise
from test_kernels import (
    assert_same,
    assert_same_mean_field,
    assert_same_projections,
    doubles,
    lowest_allowed_tags,
    problem,
)

from bcrf.kernels import BregmanOptions, cuda, native
from bcrf.kernels.cuda import device, mean_field_updates
from bcrf.kernels.cuda.gpu_batch import Batch
from bcrf.kernels.cuda.prepare import COLUMN_BYTES, held_width
from bcrf.kernels.cuda.projections import factor_capacity

TAGS = [1, 9, 69]
DTYPES = ["float32", "float64"]
SHARED = [True, False]
MAX_SPILLED = 128  # bytes
# The scale of the scores, and whether to forbid some.
SCORES = [(2.0, False), (2.0, True), (3000.0, True)]


@pytest.mark.skipif(not nvrtc.find_libraries(), reason="the extra nvrtc is missing")
@pytest.mark.parametrize("version", nvrtc.VERSIONS)
@pytest.mark.parametrize("architecture", nvrtc.ARCHITECTURES)
@pytest.mark.parametrize("types", nvrtc.TYPES, ids="-".join)
@pytest.mark.parametrize("file", nvrtc.FILES)
def test_compiles_to_machine_code(file, types, architecture, version):
    """All functions are inlined, have no stack, and keep their numbers in registers.

    At 01c421b a recursive sum of logarithms was a function with a stack, called where threads
    diverge, and a GPU computed wrong losses.
    """
    for width in nvrtc.widths(file, types):
        found = nvrtc.compile_kernels(file, types, architecture, width, version)
        assert set(found) == set(device.kernels(file))
        # The widest matrices fill all registers.
        most = MAX_SPILLED if width * np.dtype(types[1]).itemsize == COLUMN_BYTES else 0
        assert all(used.stack <= most and used.spilled <= most for used in found.values()), found


def test_arguments_have_the_types_of_the_kernel(host):
    """A Python int where the kernel takes a double becomes one: CuPy would pass its four bytes."""
    rng = np.random.default_rng(0)
    arrays = problem(rng, 5, True, "float32", False, 1.0)
    of_int, of_float = (
        cuda.bregman(np, *arrays, BregmanOptions(3, 1.0, None, scale=scale), "none")
        for scale in (10, 10.0)
    )
    np.testing.assert_array_equal(of_int.unary, of_float.unary)
    batch = Batch(np, *arrays)
    given = dict.fromkeys(["starts", "backpointers", "best", "scores"])
    for name, arg, message in (
        ("tags", 1.5, "max_product, tags: expected int, got float"),
        ("starts", arrays[0], "max_product, starts: expected int64, got float32"),
    ):
        with pytest.raises(TypeError, match=message):
            batch.launch("viterbi", "max_product", 1, given | {name: arg}, threads=32)
    with pytest.raises(KeyError, match="backpointers"):
        batch.launch("viterbi", "max_product", 1, {"starts": None}, threads=32)


@pytest.mark.parametrize("tags, dtype, shared, scores", pairwise(TAGS, DTYPES, SHARED, SCORES))
def test_is_the_reference(host, tags, dtype, shared, scores):
    scale, forbid = scores
    rng = np.random.default_rng(tags)
    arrays = unary, transitions, lengths = problem(rng, tags, shared, dtype, forbid, scale)
    double = doubles(unary, transitions, lengths)
    edges = "sum" if shared else "each"
    with np.errstate(all="ignore"):
        found = cuda.sum_product(np, *arrays, edges, True)
        assert_same(found, reference.sum_product(np, *double, edges, True), dtype, scale)
        value = cuda.sum_product(np, *arrays, "none", False).value
        np.testing.assert_allclose(value, found.value, rtol=1e-6)
        tags, scores = cuda.max_product(np, *arrays)
        _, expected = reference.max_product(np, *double)
        np.testing.assert_allclose(scores, expected, rtol=1e-6)
        np.testing.assert_allclose(native.path_scores(np, *arrays, tags), scores, rtol=1e-6)


FIXED = [
    BregmanOptions(5, 1.25, None, "upper"),
    BregmanOptions(4, 1.0, None, "lower"),
    BregmanOptions(5, 1.25, None, "upper", 7.0, "outgoing"),
    BregmanOptions(1, 1.0, None, "upper", unary="chain"),
    BregmanOptions(6, 1.25, None, "lower", unary="chain"),
]
# The estimate of the relaxation needs small differences of probabilities, which float32 and large
# scores round away.
ESTIMATED = [BregmanOptions(18, None, 1e-3)]
SMALL_SCORES = [(2.0, False), (2.0, True), (30.0, True)]


@pytest.mark.parametrize(
    "tags, dtype, shared, scores, options",
    pairwise([*TAGS, 38, 64], DTYPES, SHARED, [*SCORES, (30.0, True)], FIXED)
    + pairwise(TAGS, ["float64"], SHARED, SMALL_SCORES, ESTIMATED),
)
def test_projections_are_the_reference(host, monkeypatch, tags, dtype, shared, scores, options):
    scale, forbid = scores
    failures = record_failures(host, monkeypatch)
    rng = np.random.default_rng(tags)
    arrays = unary, transitions, lengths = problem(rng, tags, shared, dtype, forbid, scale)
    double = doubles(unary, transitions, lengths)
    edges = "sum" if shared else "each"
    with np.errstate(all="ignore"):
        expected = reference.bregman(np, *double, options, edges)
    found = cuda.bregman(np, *arrays, options, edges)
    assert_same_projections(found, expected, options, dtype, scale)
    # Log space repairs the results of all sequences that fail.
    assert scale > 2 or forbid or not any(failures)


def record_failures(host, monkeypatch):
    """Return a list that gets whether a sequence needs log space, for each launch of its kernel."""
    failed = []
    launch = host.launch

    def record(kernel):
        if kernel.file == "projections_log":
            lengths, passes = kernel.args["lengths"], cuda_host.numbers(kernel.args["passes"])
            failed.append(((passes == 0) & (lengths > 0)).any())
        launch(kernel)

    monkeypatch.setattr(host, "launch", record)
    return failed


@pytest.mark.parametrize("length", [4, 12, 120])
def test_dead_ends_need_no_log_space(host, monkeypatch, length):
    """Tag 1 leads to tag 1 only, which the last token forbids: a dead end of length - 1 tokens."""
    failed = record_failures(host, monkeypatch)
    rng = np.random.default_rng(0)
    lengths = np.array([length], "int32")
    unary, transitions, _ = problem(rng, 3, True, "float32", False, 1.0, lengths)
    unary[-1, 1] = transitions[1, 0] = transitions[1, 2] = -np.inf
    arrays, options = (unary, transitions, lengths), BregmanOptions(4, 1.25, None)
    found = cuda.bregman(np, *arrays, options, "sum")
    assert failed == [False]
    assert_same(found, native.bregman(np, *arrays, options, "sum"), "float32", 1.0)


@pytest.mark.parametrize("tags, shared", [(9, True), (9, False), (38, True)])
def test_factors_beyond_shared_memory(host, tags, shared):
    """A sequence far longer than the mean has its factors in the GPU's memory."""
    rng = np.random.default_rng(0)
    lengths = np.array([*[1] * 20, 60, 2], "int32")
    arrays = problem(rng, tags, shared, "float32", True, 2.0, lengths)
    batch = Batch(np, *arrays)
    assert factor_capacity(batch, held_width(batch), np.dtype("float32")) < 60
    double = *(x.astype("float64") for x in arrays[:2]), lengths
    options, edges = BregmanOptions(6, 1.25, None), "sum" if shared else "each"
    with np.errstate(all="ignore"):
        expected = reference.bregman(np, *double, options, edges)
    assert_same_projections(
        cuda.bregman(np, *arrays, options, edges), expected, options, "float32", 2.0
    )
    host.shared_memory = 7 << 10
    found = cuda.bregman(np, *arrays, options, edges)
    assert_same_projections(found, expected, options, "float32", 2.0)


def test_unlikely_lattices_stay_precise(host):
    """The allowed tags of one token are so unlikely that float32 rounds their exponentials."""
    rng = np.random.default_rng(0)
    lengths = np.array([6], "int32")
    unary, transitions, _ = problem(rng, 3, True, "float32", False, 1.0, lengths)
    unary[2, :2] -= 98
    transitions[2] = transitions[:, 2] = -np.inf
    arrays, options = (unary, transitions, lengths), BregmanOptions(4, 1.25, None)
    double = doubles(unary, transitions, lengths)
    with np.errstate(all="ignore"):
        expected = reference.bregman(np, *double, options, "sum")
    assert_same(cuda.bregman(np, *arrays, options, "sum"), expected, "float32", 1.0)


@pytest.mark.parametrize(
    "sizes, shared, scores",
    pairwise([(1, [300]), (5, [300, 0, 7, 271]), (19, [430])], SHARED, SCORES),
)
def test_long_sequences(host, sizes, shared, scores):
    (tags, lengths), (scale, forbid) = sizes, scores
    rng = np.random.default_rng(tags)
    lengths = np.array(lengths, "int32")
    unary, transitions, _ = problem(rng, tags, shared, "float32", forbid, scale, lengths)
    # Tag 0 everywhere is an allowed labeling, likely or not.
    unary[:, 0] = np.where(unary[:, 0] > -np.inf, unary[:, 0], -3 * scale)
    transitions[..., 0, 0] = 0
    double = doubles(unary, transitions, lengths)
    edges = "sum" if shared else "each"
    arrays = unary, transitions, lengths
    found = cuda.sum_product(np, *arrays, edges, True)
    expected = native.sum_product(np, *double, edges, True)
    np.testing.assert_allclose(found.value, expected.value, rtol=1e-5, atol=1e-3)
    np.testing.assert_allclose(found.unary, expected.unary, atol=2e-5)
    np.testing.assert_allclose(found.edges, expected.edges, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(
        *(k.entropy(np, *x) for k, x in ((cuda, arrays), (native, double))), rtol=1e-4, atol=1e-3
    )
    pairs = np.divmod(np.arange(tags**2, dtype="int32"), tags)
    for x, y in zip(
        cuda.pair_marginals(np, *arrays, *pairs),
        native.pair_marginals(np, *double, *pairs),
        strict=True,
    ):
        np.testing.assert_allclose(x, y, atol=2e-5)


@pytest.mark.parametrize(
    "sizes, shared, scores, options",
    pairwise(
        [(1, [300]), (5, [300, 0, 7, 271]), (9, [200, 1, 99]), (19, [430])],
        *(SHARED, [(2.0, False), (2.0, True), (30.0, True), (3000.0, True)]),
        [*FIXED, *ESTIMATED],
    ),
)
def test_long_projections(host, sizes, shared, scores, options):
    (tags, lengths), (scale, forbid) = sizes, scores
    # The estimate needs small differences of probabilities.
    dtype = "float64" if options.relaxation is None else "float32"
    if options.relaxation is None and scale > 30:
        scale = 30.0
    rng = np.random.default_rng(tags)
    lengths = np.array(lengths, "int32")
    arrays = problem(rng, tags, shared, dtype, forbid, scale, lengths)
    # Tag 0 everywhere is an allowed labeling, likely or not.
    arrays[0][:, 0] = np.maximum(arrays[0][:, 0], -3 * scale)
    arrays[1][..., 0, 0] = 0
    edges = "sum" if shared else "each"
    found = cuda.bregman(np, *arrays, options, edges)
    with np.errstate(all="ignore"):
        expected = reference.bregman(np, *doubles(*arrays), options, edges)
    assert_same_projections(found, expected, options, dtype, scale)


def tied_problem(rng, tags, shared, dtype, forbidden, penalty, lengths):
    """Whole scores, which no step rounds and which often tie. penalty: of a change of the tag."""
    lengths = np.array(lengths, "int32")
    n = int(lengths.sum())
    # Sums of all tokens exceed the whole numbers of float32.
    unary = rng.integers(-2, 3, (n, tags)).astype(dtype) + 2**17
    transitions = rng.integers(-2, 3, (tags, tags) if shared else (n, tags, tags)) - penalty
    transitions = (transitions * (1 - np.eye(tags))).astype(dtype)
    unary[rng.random(unary.shape) < forbidden / 2] = -np.inf
    transitions[rng.random(transitions.shape) < forbidden] = -np.inf
    return unary, transitions, lengths


@pytest.mark.parametrize(
    "sizes, shared, dtype, forbidden, penalty",
    pairwise(
        [(1, [300]), (5, [300, 0, 7, 271, 1]), (19, [430]), (69, [125])],
        *(SHARED, DTYPES, [0, 0.2], [0, 40]),
    ),
)
def test_long_labelings(host, sizes, shared, dtype, forbidden, penalty):
    """Tags and scores of the oracle, ties included."""
    tags, lengths = sizes
    rng = np.random.default_rng(tags)
    arrays = tied_problem(rng, tags, shared, dtype, forbidden, penalty, lengths)
    found, scores = cuda.max_product(np, *arrays)
    expected_tags, expected = reference.max_product(np, *doubles(*arrays))
    np.testing.assert_array_equal(scores, expected.astype(scores.dtype))
    np.testing.assert_array_equal(found, expected_tags)


def test_long_labelings_keep_nan(host):
    rng = np.random.default_rng(0)
    for token in 0, 36, 89:
        unary, transitions, lengths = tied_problem(rng, 3, True, "float32", 0, 0, [90, 40])
        unary[token, 1] = np.nan
        scores = cuda.max_product(np, unary, transitions, lengths)[1]
        np.testing.assert_array_equal(np.isnan(scores), [True, False])


@pytest.mark.parametrize("scale", [1e12, 1e30])
def test_marginals_of_huge_scores_sum_to_one(host, scale):
    rng = np.random.default_rng(0)
    lengths = np.array([9, 1, 30], dtype="int32")
    unary = scale + rng.integers(4, size=(40, 6)) * scale * 1e-7
    arrays = unary, scale * rng.normal(size=(6, 6)).round(1), lengths
    inner = np.delete(np.arange(40), lengths.cumsum() - 1)
    found = cuda.sum_product(np, *arrays, "each", True)
    np.testing.assert_allclose(found.unary.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(found.edges[inner].sum(axis=(1, 2)), 1, atol=1e-6)
    np.testing.assert_allclose(found.value, native.sum_product(np, *arrays, "each", True).value)
    heads, tails = np.divmod(np.arange(36, dtype="int32"), 6)
    node, pairs = cuda.pair_marginals(np, *arrays, heads, tails)
    np.testing.assert_allclose(node.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(pairs[inner].sum(axis=1), 1, atol=1e-6)


def test_ties_go_to_the_lower_tag(host):
    lengths = np.array([40, 1, 3], "int32")
    unary = np.zeros((44, 5), "float32")
    unary[7] = 1e4, 1, 1e4, 0, 1e4
    for transitions in (np.eye(5, dtype="float32"), np.zeros((5, 5), "float32")):
        tags, scores = cuda.max_product(np, unary, transitions, lengths)
        expected, expected_scores = native.max_product(np, unary, transitions, lengths)
        np.testing.assert_array_equal(tags, expected)
        np.testing.assert_array_equal(scores, expected_scores)


@pytest.mark.parametrize("shared", SHARED)
def test_a_batch_beyond_memory_is_halved_once(host, shared, monkeypatch):
    rng = np.random.default_rng(3)
    arrays = unary, transitions, _ = problem(rng, 5, shared, "float32", False, 1.0)
    gold = rng.integers(0, 5, len(unary)).astype("int32")
    edges = "sum" if shared else "each"
    pair = np.array([1], "int32"), np.array([2], "int32")
    options = BregmanOptions(3, 1.0, None)
    calls = {
        "sum_product": (edges, True),
        "max_product": (),
        "entropy": (),
        "pair_marginals": pair,
        "bregman": (options, edges),
        "mean_field": (3,),
        "mean_field_loss": (gold, 3),
    }
    expected = {name: getattr(cuda, name)(np, *arrays, *args) for name, args in calls.items()}
    limit_memory(monkeypatch, len(unary) * 5 - 1)
    for name, args in calls.items():
        host.freed = False
        found = getattr(cuda, name)(np, *arrays, *args)
        assert host.freed
        found, whole = (x if isinstance(x, tuple) else (x,) for x in (found, expected[name]))
        for x, y in zip(found, whole, strict=True):
            if x is not None or y is not None:
                np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5, err_msg=name)
    limit_memory(monkeypatch, 10)
    message = f"too little memory for entropy of {len(unary)} tokens in 7 sequences with 5 tags"
    with pytest.raises(MemoryError, match=message):
        cuda.entropy(np, *arrays)
    with pytest.raises(MemoryError, match="5 tokens in 1 sequences"):
        cuda.entropy(np, unary[:5], transitions[:5], np.array([5], "int32"))


def limit_memory(monkeypatch, cells):
    """Fail launches with a two-dimensional array of more than `cells` numbers."""
    launch = cuda_host.HostDevice.launch

    def limited(self, kernel):
        if any(getattr(arg, "ndim", 0) == 2 and arg.size > cells for arg in kernel.args.values()):
            raise MemoryError
        launch(self, kernel)

    monkeypatch.setattr(cuda_host.HostDevice, "launch", limited)


@pytest.mark.parametrize("tags, dtype, shared", pairwise([1, 9, 40, 69], DTYPES, SHARED))
@pytest.mark.parametrize("n_iter", [1, 4])
def test_mean_field_with_several_blocks_a_sequence(host, monkeypatch, n_iter, tags, dtype, shared):
    monkeypatch.setattr(mean_field_updates, "ONE_BLOCK", 0)
    monkeypatch.setattr(mean_field_updates, "TOKENS", 2)
    rng = np.random.default_rng(tags)
    arrays = unary, _, lengths = problem(rng, tags, shared, dtype, True, 2.0)
    gold = lowest_allowed_tags(unary)
    gold[: lengths[0]] = -1
    assert mean_field_updates.count_chunks(Batch(np, *arrays)) == 4
    assert_same_mean_field(cuda, arrays, gold, n_iter)


@pytest.mark.parametrize(
    "size, length, tags, shared, blocks",
    [
        (64, 30, 17, True, 1),
        (64, 200, 17, True, 13),
        (512, 100, 50, True, 1),
        (512, 100, 500, True, 7),
        (64, 30, 500, True, 2),
        (64, 30, 17, False, 1),
        (64, 30, 50, False, 2),
    ],
)
def test_blocks_of_mean_field_by_shape(host, size, length, tags, shared, blocks):
    transitions = np.broadcast_to(np.float32(0), (tags, tags) if shared else (1, tags, tags))
    unary = np.broadcast_to(np.float32(0), (size * length, tags))
    batch = Batch(np, unary[:1], transitions, np.full(size, length, "int32"))
    batch.n = size * length
    assert mean_field_updates.count_chunks(batch) == blocks


@pytest.mark.parametrize("shared", SHARED)
@pytest.mark.parametrize("lengths", [[], [0, 0]])
@pytest.mark.parametrize("tags", [3, 69])
def test_batches_without_tokens(host, tags, lengths, shared):
    rng, lengths = np.random.default_rng(0), np.array(lengths, "int32")
    arrays = problem(rng, tags, shared, "float32", False, 1.0, lengths)
    edges = "sum" if shared else "each"
    options, gold = BregmanOptions(3, 1.25, None), np.zeros(0, "int32")
    for name, args in (
        ("sum_product", [edges, True]),
        ("bregman", [options, edges]),
        ("mean_field", [3]),
        ("mean_field_loss", [gold, 3]),
    ):
        for found, expected in zip(
            *(getattr(k, name)(np, *arrays, *args) for k in (cuda, native)), strict=True
        ):
            np.testing.assert_array_equal(found, expected)


def test_arrays_that_are_not_contiguous_are_copied(host):
    rng = np.random.default_rng(0)
    unary, transitions, lengths = problem(rng, 5, True, "float32", False, 1.0)
    expected = cuda.sum_product(np, unary, transitions, lengths, "sum", True)
    turned = np.asfortranarray(unary), np.asfortranarray(transitions), lengths.repeat(2)[::2]
    for x, y in zip(cuda.sum_product(np, *turned, "sum", True), expected, strict=True):
        np.testing.assert_array_equal(x, y)


def test_more_tags_than_shared_memory_holds(host):
    host.shared_memory = 9 << 10
    rng = np.random.default_rng(0)
    arrays = problem(rng, 69, True, "float32", False, 1.0)
    found, expected = (k.sum_product(np, *arrays, "sum", True) for k in (cuda, native))
    assert_same(found, expected, "float32", 1.0)
    host.shared_memory = 2 << 10
    with pytest.raises(
        ValueError, match=r"forward_backward needs .* bytes of shared memory for 69 tags in float32"
    ):
        cuda.sum_product(np, *arrays, "sum", True)


class DeviceArray(np.ndarray):
    """An array that hides its numbers from Python, which would wait for them on a GPU."""

    def refuse(self, *_):
        raise AssertionError("Python read the numbers of an array")

    __bool__ = __int__ = __float__ = __index__ = tolist = item = get = refuse  # type: ignore


class DeviceModule:
    """NumPy with DeviceArrays as results."""

    def __getattr__(self, name):
        function = getattr(np, name)

        def call(*args, **kwargs):
            found = function(*args, **kwargs)
            return found.view(DeviceArray) if isinstance(found, np.ndarray) else found

        return call if callable(function) and not isinstance(function, np.ufunc) else function


@pytest.mark.parametrize("shared", SHARED)
@pytest.mark.parametrize("tags", [5, 69])
def test_nothing_waits_for_the_device(host, shared, tags):
    rng = np.random.default_rng(0)
    lengths = np.array([3, 0, 220 if tags == 5 else 130], "int32")
    arrays = problem(rng, tags, shared, "float32", True, 2.0, lengths)
    unary, transitions, lengths = (array.view(DeviceArray) for array in arrays)
    xp, edges = DeviceModule(), "sum" if shared else "each"
    gold = rng.integers(0, tags, len(unary)).astype("int32").view(DeviceArray)
    arrays = unary, transitions, lengths
    cuda.sum_product(xp, *arrays, edges, True)
    cuda.entropy(xp, *arrays)
    cuda.pair_marginals(xp, *arrays, gold[:3], gold[:3])
    cuda.max_product(xp, *arrays)
    cuda.path_scores(xp, *arrays, gold)
    cuda.bregman(xp, *arrays, BregmanOptions(3, None, 0.1, "lower"), edges)
    cuda.mean_field(xp, *arrays, 2)
    cuda.mean_field_loss(xp, *arrays, gold, 2)
    weights = np.ones((len(lengths), 1), "float32").view(DeviceArray)
    cuda.add_features(xp, gold[None], weights, lengths, unary, transitions)
    with pytest.raises(AssertionError, match="Python read the numbers"):
        bool(unary[:1, :1] > 0)


@pytest.mark.parametrize("shared", SHARED)
@pytest.mark.parametrize("of", ["unary", "transitions"])
def test_nan_comes_out_as_nan(host, shared, of):
    rng = np.random.default_rng(0)
    lengths = np.array([6, 4, 5], "int32")
    unary, transitions, _ = problem(rng, 5, shared, "float32", False, 1.0, lengths)
    arrays = unary, transitions, lengths
    (unary[8] if of == "unary" else transitions if shared else transitions[8])[..., 2] = np.nan
    bad = [True] * 3 if shared and of == "transitions" else [False, True, False]
    gold = np.full(15, 2, "int32")
    for values in (
        cuda.sum_product(np, *arrays, "none", True).value,
        cuda.entropy(np, *arrays),
        cuda.max_product(np, *arrays)[1],
        cuda.bregman(np, *arrays, BregmanOptions(4, 1.25, None), "none").value,
        cuda.mean_field(np, *arrays, 3).value,
        cuda.mean_field_loss(np, *arrays, gold, 3).value,
        cuda.path_scores(np, *arrays, gold),
    ):
        np.testing.assert_array_equal(np.isnan(values), bad)


def test_arrays_on_different_gpus_are_refused():
    class Array:
        def __init__(self, index):
            self.device = type("Device", (), {"id": index})

    with pytest.raises(ValueError, match="on different GPUs, 0, 0, 1: move them to one"):
        device.find(Array(0), Array(0), Array(1))
