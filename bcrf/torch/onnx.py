"""The labelings and marginals of a CRF in ONNX: standard operators, for any runtime."""

from typing import Any

import numpy as np

from bcrf.io.extras import require

from .modules import CRF

FORBIDDEN = -1e30
"""In place of -inf, whose differences are NaN."""

OLDEST_OPSET = 13
"""Later opsets have the same operators. None of them is a reduction whose axes are attributes."""

# The largest of the sums along `axis`, (B, T), and their LogSumExp. Both need no operator that
# changed between opsets: ReduceMax and ReduceLogSumExp did.
_MAXIMUM = """at = ArgMax<axis = {axis}, keepdims = 1>(sums)
        most = GatherElements<axis = {axis}>(sums, at)
        largest = Squeeze(most, axis_{axis})"""
_LOG_SUM = f"""{_MAXIMUM}
        less = Sub(sums, most)
        ratios = Exp(less)
        ratio = ReduceSum<keepdims = 0>(ratios, axis_{{axis}})
        log = Log(ratio)
        sum = Add(largest, log)"""

# Scores of the next step from the scores of the last one.
_SCORES = """rows = Unsqueeze(old, axis_2)
        sums = Add(rows, transitions)
        {reduction}
        is_first = Equal(i, zero)
        before = Where(is_first, start, {result})
        scores = Add(before, emit)"""

# M is the number of steps, B of sequences, T of tags. A step of padding keeps its neighbor's
# scores. `maximize` and `forward` have scores of the steps so far, `backward` of the steps to come.
# Each step subtracts a number from all scores of a sequence: they stay near 0 in long sequences,
# and float32 keeps their digits.
_MODEL = """<ir_version: 8, opset_import: ["" : {opset}]>
crf (float[{axes}, T] emissions, bool[{axes}] mask)
    => (int64[{axes}] tags, float[{axes}, T] marginals) {{
    finite = Max(emissions, forbidden)
    x = Transpose<perm = {perm3}>(finite)
    m = Transpose<perm = {perm2}>(mask)
    inside = Unsqueeze(m, axis_2)
    sizes = Shape(x)
    size = Gather<axis = 0>(sizes, zero)
    step = Range(zero, size, one)
    first = Gather<axis = 0>(x, zero)
    zeros = Mul(first, nothing)
    ends = Add(zeros, end)
    best, back = Scan<num_scan_inputs = 3, body = maximize
        (float[B, T] old, int64 i, float[B, T] emit, bool[B, 1] is_in)
        => (float[B, T] new, int64[B, T] from_tag) {{
        {maximum}
        top_tag = ArgMax<axis = 1, keepdims = 1>(scores)
        top = GatherElements<axis = 1>(scores, top_tag)
        normal = Sub(scores, top)
        new = Where(is_in, normal, old)
        from_best = Squeeze(at, axis_1)
        from_tag = Where(is_in, from_best, names)
    }}>(zeros, step, x, inside)
    final = Add(best, end)
    last_tag = ArgMax<axis = 1, keepdims = 1>(final)
    before_all, found = Scan<num_scan_inputs = 1, scan_input_directions = [1],
        scan_output_directions = [1], body = trace
        (int64[B, 1] tag, int64[B, T] from_tags) => (int64[B, 1] earlier, int64[B, 1] this) {{
        this = Identity(tag)
        earlier = GatherElements<axis = 1>(from_tags, tag)
    }}>(last_tag, back)
    labels = Squeeze(found, axis_2)
    known = Where(m, labels, padding)
    tags = Transpose<perm = {perm2}>(known)
    total, alpha = Scan<num_scan_inputs = 3, body = forward
        (float[B, T] old, int64 i, float[B, T] emit, bool[B, 1] is_in)
        => (float[B, T] new, float[B, T] kept) {{
        {total}
        normal = LogSoftmax<axis = 1>(scores)
        new = Where(is_in, normal, old)
        kept = Identity(new)
    }}>(zeros, step, x, inside)
    all_after, beta = Scan<num_scan_inputs = 2, scan_input_directions = [1, 1],
        scan_output_directions = [1], body = backward
        (float[B, T] old, float[B, T] emit, bool[B, 1] is_in)
        => (float[B, T] new, float[B, T] kept) {{
        kept = Identity(old)
        scores = Add(old, emit)
        columns = Unsqueeze(scores, axis_1)
        sums = Add(columns, transitions)
        {after}
        normal = LogSoftmax<axis = 1>(sum)
        new = Where(is_in, normal, old)
    }}>(ends, x, inside)
    joint = Add(alpha, beta)
    p = Softmax<axis = 2>(joint)
    p_known = Where(inside, p, nothing)
    marginals = Transpose<perm = {perm3}>(p_known)
}}
"""


def to_onnx(crf: CRF, opset: int = 17) -> Any:
    """Return an ONNX model of a CRF's labelings and marginals, an `onnx.ModelProto`.

    Inputs: emissions, float32 (L, B, T), and mask, bool (L, B) without holes; B comes first if
    `batch_first`. -inf forbids a tag. Outputs: tags, int64 in the shape of the mask, -100 in
    padding; marginals, float32 in the shape of the emissions, 0 in padding. L and B are open. The
    parameters have their present values, in float32.

    opset: the version of ONNX's operators, which a model must share to be merged with this one.
    Raises ValueError for a version below 13.
    """
    parser, checker, helper = (
        require(f"onnx.{name}", "onnx") for name in ("parser", "checker", "numpy_helper")
    )
    if opset < OLDEST_OPSET:
        raise ValueError(f"opset must be at least {OLDEST_OPSET}, got {opset}")
    axes, perm2, perm3 = "M, B", [0, 1], [0, 1, 2]
    if crf.batch_first:
        axes, perm2, perm3 = "B, M", [1, 0], [1, 0, 2]
    parts = {
        "maximum": _SCORES.format(reduction=_MAXIMUM.format(axis=1), result="largest"),
        "total": _SCORES.format(reduction=_LOG_SUM.format(axis=1), result="sum"),
        "after": _LOG_SUM.format(axis=2),
    }
    text = _MODEL.format(opset=opset, axes=axes, perm2=perm2, perm3=perm3, **parts)
    model = parser.parse_model(text)
    scores = [x.detach().cpu().float().numpy().clip(min=FORBIDDEN) for x in crf._scores(None)]
    values = dict(zip(("transitions", "start", "end"), scores, strict=True))
    values |= {"names": np.arange(crf.num_tags)[None], "nothing": np.float32(0)}
    values |= {"zero": np.int64(0), "one": np.int64(1), "padding": np.int64(-100)}
    values |= {"axis_1": np.array([1]), "axis_2": np.array([2])}
    values |= {"forbidden": np.float32(FORBIDDEN)}
    for name, value in values.items():
        model.graph.initializer.append(helper.from_array(np.asarray(value), name))
    checker.check_model(model, full_check=True)
    return model
