// The set of spans with the largest sum of gains in which no token has too many. Mirrors bcrf/chain/best_spans.py.

// Return the indices of the best spans. spans: [from, to, ..] in order of the text. depth: the most spans at a token.
export function bestSpans(spans, gains, depth) {
  const found = [];
  let group = [], end = 0;
  // Spans that overlap each other, directly or through others, are a group.
  spans.forEach(([from, to], i) => {
    if (!(gains[i] > 0)) return;
    if (from >= end) {
      found.push(...bestPaths(group, depth));
      group = [];
    }
    group.push([from, to, gains[i], i]);
    end = Math.max(end, to);
  });
  return found.concat(bestPaths(group, depth));
}

// A flow of the largest gain: `depth` longest paths, where a used span can be given back.
function bestPaths(spans, depth) {
  if (spans.length < 2) return spans.map(([, , , i]) => i);
  const points = [...new Set(spans.flatMap(([from, to]) => [from, to]))].sort((a, b) => a - b), last = points.length - 1;
  const place = (point) => points.indexOf(point), used = spans.map(() => false), flow = new Array(last).fill(0);
  for (let round = 0; round < depth; ++round) {
    const best = [0, ...new Array(last).fill(-Infinity)], through = [];
    const edges = flow.map((_, k) => [k, k + 1, 0, -1]);
    flow.forEach((n, k) => n && edges.push([k + 1, k, 0, -1]));
    spans.forEach(([from, to, gain], i) =>
      edges.push(used[i] ? [place(to), place(from), -gain, i] : [place(from), place(to), gain, i]));
    for (let changed = true; changed; ) {
      changed = false;
      for (const [from, to, gain, span] of edges) {
        if (!(best[from] + gain > best[to] + 1e-12)) continue;
        best[to] = best[from] + gain;
        through[to] = [from, span];
        changed = true;
      }
    }
    if (best[last] <= 1e-12) break;
    for (let point = last; point; ) {
      const [from, span] = through[point];
      if (span >= 0) used[span] = !used[span];
      else flow[Math.min(from, point)] += from < point ? 1 : -1;
      point = from;
    }
  }
  return spans.filter((_, i) => used[i]).map(([, , , i]) => i);
}
