"""The labelings and marginals of a CRF in ONNX: standard operators of opset 17, for any runtime."""

from typing import Any

import numpy as np

from bcrf.io.extras import require

from .modules import CRF

LEAST = -1e30
"""In place of -inf, whose differences are no numbers."""

_STEP = """rows = Unsqueeze(old, last)
        sums = Add(rows, transitions)
        reduced = {}<axes = [1], keepdims = 0>(sums)
        is_first = Equal(i, zero)
        before = Where(is_first, start, reduced)
        scores = Add(before, emit)
        new = Where(is_in, scores, old)"""

# M is the number of steps, B of sequences, T of tags. A step of padding keeps its neighbour's
# scores. `maximize` and `forward` have scores of the steps so far, `backward` of the steps to come.
_MODEL = """<ir_version: 8, opset_import: ["" : 17]>
crf (float[{axes}, T] emissions, bool[{axes}] mask)
    => (int64[{axes}] tags, float[{axes}, T] marginals) {{
    x = Transpose<perm = {perm3}>(emissions)
    m = Transpose<perm = {perm2}>(mask)
    inside = Unsqueeze(m, last)
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
        from_best = ArgMax<axis = 1, keepdims = 0>(sums)
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
    labels = Squeeze(found, last)
    known = Where(m, labels, padding)
    tags = Transpose<perm = {perm2}>(known)
    total, alpha = Scan<num_scan_inputs = 3, body = forward
        (float[B, T] old, int64 i, float[B, T] emit, bool[B, 1] is_in)
        => (float[B, T] new, float[B, T] kept) {{
        {total}
        kept = Identity(new)
    }}>(zeros, step, x, inside)
    all_after, beta = Scan<num_scan_inputs = 2, scan_input_directions = [1, 1],
        scan_output_directions = [1], body = backward
        (float[B, T] old, float[B, T] emit, bool[B, 1] is_in)
        => (float[B, T] new, float[B, T] kept) {{
        kept = Identity(old)
        scores = Add(old, emit)
        columns = Unsqueeze(scores, middle)
        sums = Add(columns, transitions)
        sum = ReduceLogSumExp<axes = [2], keepdims = 0>(sums)
        new = Where(is_in, sum, old)
    }}>(ends, x, inside)
    ended = Add(total, end)
    partition = ReduceLogSumExp<axes = [1], keepdims = 1>(ended)
    joint = Add(alpha, beta)
    logs = Sub(joint, partition)
    p = Exp(logs)
    p_known = Where(inside, p, nothing)
    marginals = Transpose<perm = {perm3}>(p_known)
}}
"""


def to_onnx(crf: CRF) -> Any:
    """Return an ONNX model of a CRF's labelings and marginals, an `onnx.ModelProto`.

    Inputs: emissions, float32 (L, B, T), and mask, bool (L, B) without holes; B comes first if
    `batch_first`. Outputs: tags, int64 in the shape of the mask, -100 in padding; marginals,
    float32 in the shape of the emissions, 0 in padding. L and B are open. The parameters are those
    of now, in float32.
    """
    parser, checker, helper = (
        require(f"onnx.{name}", "onnx") for name in ("parser", "checker", "numpy_helper")
    )
    axes, perm2, perm3 = "M, B", [0, 1], [0, 1, 2]
    if crf.batch_first:
        axes, perm2, perm3 = "B, M", [1, 0], [1, 0, 2]
    steps = {"maximum": _STEP.format("ReduceMax"), "total": _STEP.format("ReduceLogSumExp")}
    model = parser.parse_model(_MODEL.format(axes=axes, perm2=perm2, perm3=perm3, **steps))
    scores = [x.detach().cpu().float().numpy().clip(min=LEAST) for x in crf._scores(None)]
    values = dict(zip(("transitions", "start", "end"), scores, strict=True))
    values |= {"names": np.arange(crf.num_tags)[None], "nothing": np.float32(0)}
    values |= {"zero": np.int64(0), "one": np.int64(1), "padding": np.int64(-100)}
    values |= {"last": np.array([-1]), "middle": np.array([1])}
    for name, value in values.items():
        model.graph.initializer.append(helper.from_array(np.asarray(value), name))
    checker.check_model(model, full_check=True)
    return model
