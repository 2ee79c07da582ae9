"""The plan of each operation: every threshold of cpu/plan.hh has a test at its boundary."""

import json
import os
import re
import subprocess
import sys
from contextlib import ExitStack
from math import ceil
from pathlib import Path

import numpy as np
import pytest
from paths import PATHS, counts, forced, paths_of

from bcrf import kernels
from bcrf.kernels import BregmanOptions

LANES = {"baseline": 4, "avx2": 8, "avx512": 16}
"""The float32 numbers of a vector. There are half as many float64 numbers."""

DTYPES = ["float32", "float64"]

LOWER, ONCE = (BregmanOptions(n_iter, 1.0, None, "lower") for n_iter in (3, 1))

CALLS = {
    "sum_product": ("sum_product", {}),
    "edges": ("sum_product", {"edges": "each"}),
    "posterior": ("posterior", {}),
    "bregman": ("bregman", {}),
    "each arc": ("bregman", {"edges": "each"}),
    "lower": ("bregman", {"options": LOWER}),
    "once": ("bregman", {"options": ONCE}),
    "once, each arc": ("bregman", {"options": ONCE, "edges": "each"}),
    "sharpened": ("bregman", {"options": BregmanOptions(3, 1.0, None, scale=8.0)}),
    "mean_field": ("mean_field", {}),
    "max_product": ("max_product", {}),
}
"""The operation of each kind of call, and its arguments that change the plan."""

# A process that prints the plan of each line of arguments: it reads BCRF_ISA once.
SERVER = """
import json, sys
import numpy as np
from bcrf import kernels
from test_plan import CALLS
for line in sys.stdin:
    call, tags, lengths, *arguments, allowed = json.loads(line)
    allowed = None if allowed is None else np.array(allowed)
    operation, options = CALLS[call]
    arguments = operation, tags, np.array(lengths, "int32"), *arguments
    print(json.dumps(kernels.plan(*arguments, allowed=allowed, **options)), flush=True)
"""


class Planner:
    """The plans of one instruction set."""

    def __init__(self, isa, process):
        self.isa, self.process = isa, process

    def lanes(self, dtype):
        return LANES[self.isa] // (1 if dtype == "float32" else 2)

    def plan(self, call, tags, lengths, dtype="float32", shared=True, range=0.0, allowed=None):
        """Return the steps of one of `CALLS`, with the number of lanes as "W"."""
        arguments = [call, tags, list(lengths), dtype, shared, range, allowed]
        self.process.stdin.write(json.dumps(arguments) + "\n")
        self.process.stdin.flush()
        steps = json.loads(self.process.stdout.readline())
        return [re.sub(r"^lanes of \d+", "lanes of W", step) for step in steps]

    def has_lanes(self, call, tags, lengths, dtype="float32", *, wide=False, **options):
        """Return whether there are lanes of plain numbers, or of wide ones."""
        found = self.plan(call, tags, lengths, dtype, **options)
        return f"lanes of W, {'wide ' if wide else ''}{dtype}" in found


@pytest.fixture(scope="module")
def planners():
    """A planner of each instruction set. A parametrized fixture would start one for each test."""
    # The package of this process, whichever folder is the current one.
    folders = [*map(str, (Path(kernels.__file__).parents[2], Path(__file__).parent)), *sys.path]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with ExitStack() as stack:
        started = {}
        for isa in kernels.instruction_sets():
            environment = os.environ | {"BCRF_ISA": isa, "PYTHONPATH": os.pathsep.join(folders)}
            options = {"env": environment, "cwd": Path(__file__).parent, **pipes}
            process = stack.enter_context(
                subprocess.Popen([sys.executable, "-c", SERVER], **options)
            )
            stack.callback(process.stdin.close)
            started[isa] = Planner(isa, process)
        yield started


@pytest.fixture(params=kernels.instruction_sets())
def planner(request, planners):
    return planners[request.param]


LONGEST = 200


def batch(lanes, share, tokens):
    """The lengths of one tile that has a sequence of 200 tokens, and so many tokens in all.

    No other tile of its sequences fills the share.
    """
    n = ceil(share * lanes) - 1
    others = [(tokens - LONGEST) // n] * n if n else []
    for k in range((tokens - LONGEST) % n if n else 0):
        others[k] += 1
    return [LONGEST, *others]


def columns(tags, n):
    """Allowed transitions: to the first n tags. There are two groups of tags."""
    return [[v < n for v in range(tags)] for _ in range(tags)]


NARROW = ["baseline", "avx2"]
SHARES = [
    # instruction sets, operation, tags, dtype, whether there are blocks, range, share or None
    (["avx512"], "sum_product", 1, "float32", False, 0, 0.3 + 0.0115),
    (["avx512"], "sum_product", 31, "float32", False, 0, 0.3 + 0.0115 * 31),
    (["avx512"], "sum_product", 19, "float64", False, 0, 0.3 + 0.0115 * 19 + 0.1),
    (["avx512"], "max_product", 31, "float32", False, 0, 0.3 + 0.0115 * 31),
    (["avx512"], "max_product", 31, "float64", False, 0, 0.3 + 0.0115 * 31 + 0.1),
    (["avx512"], "max_product", 32, "float32", False, 0, 0.45),
    (["avx512"], "max_product", 63, "float64", False, 0, 0.45),
    (["avx512"], "max_product", 64, "float32", False, 0, None),
    (NARROW, "sum_product", 1, "float32", False, 0, 0.35 + 0.0175),
    (NARROW, "sum_product", 31, "float32", False, 0, 0.35 + 0.0175 * 31),
    (NARROW, "max_product", 31, "float32", False, 0, 0.35 + 0.0175 * 31),
    (NARROW, "max_product", 32, "float32", False, 0, None),
    (["avx2"], "sum_product", 19, "float64", False, 0, 0.35 + 0.0175 * 19 + 0.1),
    (["avx2"], "max_product", 31, "float64", False, 0, 0.35 + 0.0175 * 31 + 0.1),
    (["baseline"], "sum_product", 9, "float64", False, 0, None),
    (["baseline"], "max_product", 40, "float64", True, 0, None),
    (list(LANES), "sum_product", 32, "float32", False, 0, None),
    (list(LANES), "edges", 32, "float32", False, 0, None),
    (list(LANES), "posterior", 32, "float32", False, 0, None),
    (list(LANES), "sum_product", 20, "float64", False, 0, None),
    (list(LANES), "sum_product", 40, "float32", True, 0, 0.65),
    (list(LANES), "sum_product", 40, "float64", True, 0, 0.65),
    (["avx512", "avx2"], "max_product", 40, "float64", True, 0, 0.6),
    (list(LANES), "max_product", 40, "float32", True, 0, 0.6),
    # Wide numbers: plain ones are out of range.
    (["avx512"], "sum_product", 9, "float32", False, 2e3, 0.1 + 0.0095 * 9),
    (list(LANES), "sum_product", 60, "float32", False, 2e3, 0.1 + 0.0095 * 60),
    (list(LANES), "sum_product", 69, "float32", False, 2e3, 0.75),
    (list(LANES), "sum_product", 69, "float32", True, 2e3, 0.5),
    (["avx512", "avx2"], "sum_product", 55, "float64", False, 2e3, (0.1 + 0.0095 * 55) * 1.6),
    (list(LANES), "sum_product", 56, "float64", False, 2e3, None),
]


@pytest.mark.parametrize(
    "planner, operation, tags, dtype, blocks, range, share",
    [(isa, *row) for isas, *row in SHARES for isa in kernels.instruction_sets() if isa in isas],
    indirect=["planner"],
)
def test_the_share_of_lanes_that_a_tile_must_fill(
    planner, operation, tags, dtype, blocks, range, share
):
    lanes = planner.lanes(dtype)
    allowed = columns(tags, tags // 2) if blocks else None

    def has_lanes(lengths):
        options = {"range": range, "allowed": allowed, "wide": range > 0}
        return planner.has_lanes(operation, tags, lengths, dtype, **options)

    if share is None:
        assert not has_lanes([LONGEST] * lanes)
        return
    least = ceil(share * lanes * LONGEST)
    assert has_lanes(batch(lanes, share, max(least, LONGEST)))
    if least > LONGEST:
        assert not has_lanes(batch(lanes, share, least - 1))


def test_lanes_of_mean_field(planner):
    """Columns of two tokens must fill 0.4 of the lanes. Rows are faster with more tags."""
    for dtype in "float32", "float64":
        lanes = planner.lanes(dtype)
        most = 44 if planner.isa != "baseline" else 20
        possible = lanes >= 4
        assert planner.has_lanes("mean_field", most, [2049], dtype) == possible
        assert not planner.has_lanes("mean_field", most + 1, [2049], dtype)
    lanes = planner.lanes("float32")
    assert planner.has_lanes("mean_field", 3, [ceil(0.8 * lanes)])
    assert not planner.has_lanes("mean_field", 3, [ceil(0.8 * lanes) - 1])


def test_lanes_of_projections(planner):
    """Columns, which hold two tokens, must fill 0.4 of the lanes, or 0.7 from 32 tags on."""
    lanes = planner.lanes("float32")
    assert planner.has_lanes("bregman", 3, [ceil(0.8 * lanes)])
    assert not planner.has_lanes("bregman", 3, [ceil(0.8 * lanes) - 1])
    # Sequences of 4 tokens have 3 columns, so they fill at most 2 / 3.
    for operation in "bregman", "lower":
        # Tiles of shorter vectors would have too few tokens for so many tags.
        if planner.isa == "avx512":
            assert planner.has_lanes(operation, 31, [4] * 100)
            assert not planner.has_lanes(operation, 32, [4] * 100)
        assert planner.has_lanes(operation, 32, [60] * 100)
        assert planner.has_lanes(operation, 63, [2049])
        assert not planner.has_lanes(operation, 64, [2049])
        # Blocks: 0.4 for any number of tags.
        assert planner.has_lanes(operation, 69, [4] * 100, allowed=columns(69, 30))
        # Float64: a vector needs four lanes, or blocks.
        four = planner.lanes("float64") >= 4
        assert planner.has_lanes(operation, 9, [60] * 100, "float64") == four
        assert planner.has_lanes(operation, 30, [60] * 100, "float64", allowed=columns(30, 12))
    if planner.isa == "avx512":
        assert planner.has_lanes("bregman", 32, [45])
        assert not planner.has_lanes("bregman", 32, [44])
    # A tile has at least a 24th of the pairs of tags as tokens.
    assert planner.has_lanes("bregman", 24, [24])
    assert not planner.has_lanes("bregman", 24, [23])


@pytest.mark.parametrize(
    "tags, allowed, tokens, blocks",
    [
        (40, columns(40, 23), 160, True),
        (40, columns(40, 24), 160, False),  # 0.6 of the transitions
        (40, columns(40, 23), 159, False),  # 4 tokens a tag
        (40, [[u % 20 == v % 20 for v in range(40)] for u in range(40)], 160, True),
        (40, [[u % 21 == v % 21 for v in range(40)] for u in range(40)], 160, False),  # groups
        (24, columns(24, 10), 320, True),
        (23, columns(23, 10), 320, False),
    ],
)
def test_blocks_of_transitions(planner, tags, allowed, tokens, blocks):
    lanes = planner.lanes("float32")
    lengths = [tokens // lanes] * lanes
    lengths[-1] += tokens % lanes
    if tags < 32:
        # Blocks change the share that lanes must fill.
        share = 0.6 if planner.isa == "avx512" else 0.7
        lengths = batch(lanes, share, ceil(share * lanes * LONGEST))
        dense = planner.has_lanes("sum_product", tags, lengths)
        found = planner.has_lanes("sum_product", tags, lengths, allowed=allowed) != dense
    else:
        found = planner.has_lanes("sum_product", tags, lengths, allowed=allowed)
    assert found == blocks


LANE, ROW = "lanes of W, float32", "rows, float32"
WIDE_LANE, WIDE_ROW = "lanes of W, wide float32", "rows, wide float32"
WIDE_DOUBLES = ["lanes of W, wide float64", "rows, wide float64"]
DOUBLES = ["lanes of W, float64", "rows, float64", *WIDE_DOUBLES]


@pytest.mark.parametrize(
    "call, range, expected",
    [
        ("sum_product", 150, [LANE, ROW, WIDE_LANE, *DOUBLES]),
        ("sum_product", 150.1, [WIDE_LANE, *DOUBLES]),
        ("sum_product", 1500, [WIDE_LANE, *DOUBLES]),
        ("sum_product", 1500.1, [WIDE_LANE, WIDE_ROW, *WIDE_DOUBLES]),
        ("sum_product", 2**20 - 1, [WIDE_LANE, WIDE_ROW, *WIDE_DOUBLES]),
        ("sum_product", 2**20, WIDE_DOUBLES[1:]),
        ("edges", 150, [LANE, ROW, WIDE_LANE, WIDE_ROW, *DOUBLES]),
        ("posterior", 150.1, [WIDE_LANE, *DOUBLES]),
        ("bregman", 60, [LANE, ROW, WIDE_LANE, *DOUBLES]),
        ("lower", 60.1, [WIDE_LANE, *DOUBLES]),
        ("bregman", 600, [WIDE_LANE, *DOUBLES]),
        ("bregman", 600.1, [WIDE_LANE, WIDE_ROW, *WIDE_DOUBLES]),
        ("sharpened", 7.5, [LANE, ROW, WIDE_LANE, *DOUBLES]),
        ("sharpened", 7.6, [WIDE_LANE, *DOUBLES]),
        ("each arc", 60, [ROW, "rows, float64", "rows, wide float64"]),
        ("each arc", 600.1, [WIDE_ROW, "rows, wide float64"]),
        ("once", 60, [LANE, ROW, *DOUBLES]),
        ("once", 60.1, DOUBLES),
        ("once", 600.1, WIDE_DOUBLES),
        ("once, each arc", 60.1, ["rows, float64", "rows, wide float64"]),
        ("mean_field", 1e9, [LANE, ROW]),
        ("max_product", 1e9, [LANE, ROW]),
    ],
)
def test_the_range_of_scores_chooses_the_numbers(planner, call, range, expected):
    narrow = [f"lanes of W, {dtype}" for dtype in DTYPES if planner.lanes(dtype) < 4]
    for dtype in DTYPES:
        steps = [step for step in expected if step not in narrow]
        if dtype == "float64":
            # The steps of the copies, if there are some.
            steps = [step for step in steps if dtype in step] or [
                step.replace("float32", dtype) for step in expected
            ]
            steps = [step for step in steps if step not in narrow]
        assert planner.plan(call, 5, [20] * 64, dtype, True, range) == steps
        without = [step for step in steps if not step.startswith("lanes")]
        assert planner.plan(call, 5, [20] * 64, dtype, False, range) == without


def compute(call, unary, transitions, lengths):
    operation, arguments = CALLS[call]
    options = arguments.get("options", BregmanOptions(3, 1.0, None))
    edges = arguments.get("edges", "none")
    batch = unary, transitions, lengths
    return {
        "sum_product": lambda: kernels.sum_product(*batch, edges=edges),
        "posterior": lambda: kernels.entropy(*batch),
        "bregman": lambda: kernels.bregman(*batch, options, edges=edges),
        "mean_field": lambda: kernels.mean_field(*batch, 3),
        "max_product": lambda: kernels.max_product(*batch),
    }[operation]()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [1, 10, 100, 1000, 1e7])
@pytest.mark.parametrize("call", CALLS)
def test_a_call_takes_the_paths_of_its_plan(call, scale, dtype):
    """The first step of the plan runs, and no path that the plan lacks."""
    rng = np.random.default_rng(0)
    lengths, allowed = np.full(64, 5, "int32"), np.ones((5, 5), bool)
    allowed[0, 1] = False  # else the transitions have the smaller range
    unary = rng.permuted(np.tile(np.linspace(0, scale, 5), (320, 1)), axis=1).astype(dtype)
    kernels.clear_path_counts()
    compute(call, unary, np.where(allowed, 0, -np.inf).astype(dtype), lengths)
    operation, options = CALLS[call]
    ran = [
        (kind, path)
        for (name, kind, path), _ in kernels.path_counts().items()
        if name == operation and path != "float64"
    ]
    steps = kernels.plan(operation, 5, lengths, dtype, range=scale, allowed=allowed, **options)
    planned = []
    for layout, number in (step.split(", ") for step in steps):
        *wide, kind = number.split()
        planned.append((kind, " ".join([layout.split()[0], *wide])))
    assert planned[0] in ran
    assert set(ran) <= set(planned)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("call", CALLS)
def test_each_path_that_a_call_has_runs_when_it_is_forced(call, dtype, shared):
    rng = np.random.default_rng(0)
    unary = rng.normal(size=(20, 3)).astype(dtype)
    transitions = rng.normal(size=(3, 3) if shared else (20, 3, 3)).astype(dtype)
    batch = unary, transitions, np.full(4, 5, "int32")
    operation, options = CALLS[call]
    paths = paths_of(operation, dtype, shared, **options)
    for path in PATHS:
        kernels.clear_path_counts()
        with forced(path):
            if path in paths:
                compute(call, *batch)
                assert counts(operation, dtype) == {path: 4}
                continue
            with pytest.raises(
                ValueError, match=f"BCRF_PATH names '{path}', which {operation} does not have"
            ) as found:
                compute(call, *batch)
            message = str(found.value)
            assert message.endswith(" has " + ", ".join(f"'{path}'" for path in paths))
            assert ("marginals of each edge" in message) == ("edges" in options)
            with pytest.raises(ValueError, match=f"names '{path}'"):
                kernels.plan(operation, 3, batch[2], dtype, shared, **options)
    assert (
        not counts(operation, "float64" if dtype == "float32" else "float32") or "float64" in paths
    )


def test_an_unknown_path_is_an_error():
    batch = np.zeros((2, 2)), np.zeros((2, 2)), np.array([2], "int32")
    message = (
        "BCRF_PATH must be one of " + ", ".join(f"'{path}'" for path in PATHS) + ", got 'fast'"
    )
    for operation in "sum_product", "max_product", "mean_field", "bregman":
        with forced("fast"), pytest.raises(ValueError, match=message):
            compute(operation, *batch)


@pytest.mark.parametrize("dtype, limit", [("float32", 66), ("float64", 650)])
def test_lanes_of_wide_numbers_need_plain_weights(dtype, limit):
    unary, lengths = np.zeros((320, 2), dtype), np.full(64, 5, "int32")
    transitions = np.array([[0, -limit], [-np.inf, 0]], dtype)
    with forced("lanes wide"):
        kernels.sum_product(unary, transitions, lengths)
        transitions[0, 1] *= 1.01
        with pytest.raises(ValueError, match="'lanes wide'"):
            kernels.sum_product(unary, transitions, lengths)


@pytest.mark.parametrize("n, plain", [(7, True), (8, False)])
def test_the_median_range_of_16_tokens_chooses_the_numbers(n, plain):
    """Transitions count if their range is less: the next tags can then follow any tag."""
    lengths = np.full(64, 5, "int32")
    unary = np.random.default_rng(0).normal(size=(320, 5)).astype("float32")
    unary[: 20 * n : 20] *= 1e4
    kernels.clear_path_counts()
    kernels.sum_product(unary, np.diag(np.full(5, 1e4, "float32")), lengths)
    assert bool({"lanes", "rows"} & set(counts("sum_product", "float32"))) == plain
    kernels.clear_path_counts()
    kernels.sum_product(unary, np.zeros((5, 5), "float32"), lengths)
    assert {"lanes", "rows"} & set(counts("sum_product", "float32"))


@pytest.mark.parametrize("operation, most", [("bregman", 600), ("sum_product", 1500)])
def test_forbidden_transitions_without_blocks_leave_lanes_of_wide_numbers_few_tags(
    planner, operation, most
):
    """Float64 takes them up to its range, and rows of wide numbers from 32 tags on."""
    rng = np.random.default_rng(0)
    for tags, range, scattered, expected in [
        (31, most, False, True),
        (31, most, True, False),
        (31, most + 0.1, True, True),
        (32, most + 0.1, True, False),
        (32, most + 0.1, False, True),
    ]:
        allowed = ((rng.random((tags, tags)) < 0.5) | np.eye(tags, dtype=bool)).tolist()
        options = {"wide": True, "range": range, "allowed": allowed if scattered else None}
        assert planner.has_lanes(operation, tags, [60] * 100, **options) == expected


WIDEST = LANES[kernels.instruction_set()]


@pytest.mark.skipif(WIDEST != 16, reason="the lengths are for 16 lanes")
@pytest.mark.parametrize(
    "operation, lengths, expected",
    [
        # A tile of mean field or projections has at most 4 vectors of columns.
        ("mean_field", [63, 3], {"lanes": 2}),
        ("mean_field", [64, 3], {"lanes": 1, "rows": 1}),
        ("bregman", [63, 3], {"lanes": 2}),
        ("bregman", [64, 3], {"lanes": 1, "rows": 1}),
        # Shorter sequences have no inner token between two others.
        ("bregman", [60, 2], {"lanes": 1, "rows": 1}),
    ],
)
def test_the_size_of_tiles(operation, lengths, expected):
    lengths = np.array(lengths, "int32")
    unary = np.random.default_rng(0).normal(size=(lengths.sum(), 3)).astype("float32")
    kernels.clear_path_counts()
    compute(operation, unary, np.zeros((3, 3), "float32"), lengths)
    assert counts(operation, "float32") == expected


def test_the_allowed_transitions_of_a_plan_are_checked():
    for wrong, error in ((np.ones(3, bool), ValueError), (np.ones((3, 3), int), TypeError)):
        with pytest.raises(error, match="allowed must"):
            kernels.plan("bregman", 3, np.array([3], "int32"), allowed=wrong)


def test_a_plan_takes_no_memory_and_names_wrong_arguments():
    lengths = np.array([100_000], "int32")
    assert kernels.plan("sum_product", 300, lengths, shared=False, edges="each")
    with pytest.raises(ValueError, match=r"lengths\[1\] is negative: -1"):
        kernels.plan("posterior", 3, np.array([2, -1], "int32"))
    with pytest.raises(ValueError, match="dtype must be float32 or float64, got 'int8'"):
        kernels.plan("posterior", 3, lengths, "int8")
    with pytest.raises(ValueError, match="options must be None for posterior"):
        kernels.plan("posterior", 3, lengths, options=ONCE)
    with pytest.raises(ValueError, match="edges must be none, sum or each"):
        kernels.plan("bregman", 3, lengths, edges="all")
