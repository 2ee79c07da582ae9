"""The set of spans with the largest sum of gains in which no token has too many of them.

With gains p - t, for exact posteriors p, this decodes for F: the set of spans with the largest
expected F has the spans with p above t, where t is half of this F (Lipton, Elkan and Naryanaswamy
2014, "Optimal Thresholding of Classifiers to Maximize F1 Measure"). With t = 1 / (1 + gamma) it is
the gamma-centroid estimator of sequence analysis (Hamada et al. 2009).
"""

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def best_spans(
    starts: NDArray[np.integer],
    ends: NDArray[np.integer],
    gains: NDArray[np.floating],
    depth: int = 1,
) -> NDArray[np.int64]:
    """Return the indices (K,) of the best spans, in ascending order.

    The sum of their gains is the largest of all sets with at most `depth` spans at each token.
    Spans without a gain above 0 are left out. starts, ends, gains: (M,); a span is not empty.

    All spans that overlap no other one are taken. For the others, a depth of 1 takes one
    pass over their ends, O(M log M). A larger depth takes `depth` shortest paths.

    >>> import numpy as np
    >>> from bcrf.chain import best_spans
    >>> starts, ends = np.array([0, 0, 2, 4]), np.array([2, 3, 4, 5])
    >>> best_spans(starts, ends, np.array([0.2, 0.5, 0.4, -0.1])).tolist()
    [0, 2]
    """
    kept = np.flatnonzero(np.asarray(gains) > 0)
    kept = kept[np.lexsort((ends[kept], starts[kept]))]
    if not len(kept):
        return kept
    reached = np.maximum.accumulate(ends[kept])
    is_first = np.append(True, starts[kept[1:]] >= reached[:-1])
    sizes = np.diff(np.append(np.flatnonzero(is_first), len(kept)))
    is_alone = np.repeat(sizes == 1, sizes)
    found = [kept[is_alone]]
    others = np.split(kept[~is_alone], sizes[sizes > 1].cumsum()[:-1])
    for group in others if len(others[0]) else ():
        spans = starts[group].tolist(), ends[group].tolist(), gains[group].tolist()
        found.append(group[_best_path(*spans) if depth == 1 else _best_paths(*spans, depth)])
    return np.sort(np.concatenate(found))


def _best_path(
    starts: Sequence[int], ends: Sequence[int], gains: Sequence[float]
) -> NDArray[np.int64]:
    """Weighted interval scheduling: the best spans without an overlap, of at least two."""
    order = sorted(range(len(ends)), key=lambda i: (ends[i], starts[i]))
    stops = [ends[i] for i in order]
    # For the spans before each place of the order: the best sum, and the last span of its set.
    sums, last = [0.0], [-1]
    for k, i in enumerate(order):
        before = bisect_right(stops, starts[i], hi=k)
        total = sums[before] + gains[i]
        is_better = total > sums[k]
        sums.append(total if is_better else sums[k])
        last.append(k if is_better else last[k])
    chosen = []
    k = last[-1]
    while k >= 0:
        chosen.append(order[k])
        k = last[bisect_right(stops, starts[order[k]], hi=k)]
    return np.array(chosen, dtype="int64")


def _best_paths(
    starts: Sequence[int], ends: Sequence[int], gains: Sequence[float], depth: int
) -> NDArray[np.int64]:
    """Return the best spans with at most `depth` of them at a token: a flow of the largest gain.

    Each unit of the flow goes from the first to the last token, along spans and between them. Its
    path is the longest one in the graph that is left, where a used span can be given back.
    """
    points = sorted({*starts, *ends})
    at = {point: k for k, point in enumerate(points)}
    spans = [
        (at[start], at[end], gain) for start, end, gain in zip(starts, ends, gains, strict=True)
    ]
    used = [False] * len(spans)
    flow = [0] * (len(points) - 1)  # over the gaps between neighbouring points
    for _ in range(depth):
        best = [0.0] + [-np.inf] * (len(points) - 1)
        through: list[tuple[int, int]] = [(-1, -1)] * len(points)  # the point before, and the span
        changed = True
        while changed:  # Bellman-Ford
            changed = False
            edges = [(k, k + 1, 0.0, -1) for k in range(len(flow))]
            edges += [(k + 1, k, 0.0, -1) for k in range(len(flow)) if flow[k]]
            for i, (start, end, gain) in enumerate(spans):
                edges.append((end, start, -gain, i) if used[i] else (start, end, gain, i))
            for start, end, gain, span in edges:
                if best[start] + gain > best[end] + 1e-12:
                    best[end], through[end], changed = best[start] + gain, (start, span), True
        if best[-1] <= 1e-12:
            break
        point = len(points) - 1
        while point:
            before, span = through[point]
            if span >= 0:
                used[span] = not used[span]
            elif before < point:
                flow[before] += 1
            else:
                flow[point] -= 1
            point = before
    return np.flatnonzero(used)
