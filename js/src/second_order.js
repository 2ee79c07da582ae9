// Chains whose weights have three neighbouring tags. Mirrors bcrf/kernels/cpu/sparse/second_order.hh.

import { Lattice, find } from "./chain.js";

const LEAST_MARGINAL = 0.01; // of a tag that is kept

function logSum(terms) {
  const top = Math.max(...terms);
  if (terms.length === 1 || top === -Infinity) return top;
  return top + Math.log(terms.reduce((sum, x) => sum + Math.exp(x - top), 0));
}

// Return the first-order chain with the same marginals of pairs as one with weights of three neighbouring tags: scores, and
// the function from token and transitions behind it to those with corrections. plain: transitions at temperature 1.
export function toFirstOrder({ plain, pairs, scores: { weights } }, unary) {
  const { T, out } = plain, n = unary.length / T, edges = new Array(n).fill([]), corrected = unary.slice();
  const correct = (i, transitions) => correctTransitions(transitions, edges[i]);
  if (n < 2) return { unary, correct };
  const weight = (a, b, c) => weights.at(pairs[a * T + b], c); // a is T at the start
  const kept = keepTags(new Lattice(plain).fill(unary), out);
  const pair = (i, u, t) => (out.w[find(out, u, t)] ?? -Infinity) + unary[i * T + t];
  const logMarginal = pairMarginals(kept, unary, T, pair, weight);
  let beta = kept[n - 1].map(() => 0);
  for (let i = n - 1; i > 0; --i) {
    edges[i - 1] = [];
    beta = kept[i - 1].map((u, j) => {
      const terms = kept[i].map((t, k) => pair(i, u, t) + beta[k]), logs = kept[i].map((_, k) => logMarginal(i, j, k));
      const now = logSum(terms), total = logSum(logs);
      kept[i].forEach((t, k) => {
        if (terms[k] > -Infinity) edges[i - 1].push([u, t, Math.fround(logs[k] - total - (terms[k] - now))]);
      });
      return now;
    });
  }
  const sums = kept[0].map((t, j) => unary[t] + beta[j]), z = logSum(sums);
  kept[0].forEach((t, j) => {
    corrected[t] += Math.fround(logSum(kept[1].map((_, k) => logMarginal(1, j, k))) - (sums[j] - z));
  });
  return { unary: corrected, correct };
}

// Return transitions with corrections [from, to, score], whose lists are made when they are read.
function correctTransitions(transitions, corrections) {
  const correct = (list, bounds) => {
    const w = list.w.slice(), e = list.e.slice();
    for (const [u, t, score] of corrections) {
      const k = find(list, ...bounds(u, t));
      if (k < 0) continue;
      w[k] += score;
      e[k] = transitions.exp(w[k]);
    }
    return { ...list, w, e, leads: [], ratios: [] }; // how much better transitions are is unknown
  };
  return Object.create(transitions, {
    into: { get: () => correct(transitions.into, (u, t) => [t, u]) },
    out: { get: () => correct(transitions.out, (u, t) => [u, t]) },
  });
}

// Return the tags of each token with a large marginal, and those of the best labeling, that are on a path of kept tags.
function keepTags(lattice, out) {
  const { n, T } = lattice, tags = Array.from({ length: T }, (_, t) => t);
  lattice.findPosterior();
  const kept = Array.from(lattice.findBest(), (best, i) =>
    tags.filter((t) => t === best || Math.fround(lattice.tag(i, t)) >= Math.fround(LEAST_MARGINAL)));
  for (let i = 1; i < n; ++i) kept[i] = kept[i].filter((t) => kept[i - 1].some((u) => find(out, u, t) >= 0));
  for (let i = n - 2; i >= 0; --i) kept[i] = kept[i].filter((u) => kept[i + 1].some((t) => find(out, u, t) >= 0));
  return kept;
}

// Forward-backward over pairs of kept tags, in log space. Returns the function from token and places to the marginal.
function pairMarginals(kept, unary, T, pair, weight) {
  const n = kept.length, three = (i, h, j, k) => weight(i > 1 ? kept[i - 2][h] : T, kept[i - 1][j], kept[i][k]);
  const own = [], alpha = [], beta = [];
  for (let i = 1; i < n; ++i) {
    own[i] = kept[i - 1].map((u) => kept[i].map((t) => pair(i, u, t) + (i > 1 ? 0 : unary[u])));
    alpha[i] = own[i].map((row, j) => row.map((x, k) =>
      x + (i > 1 ? logSum(kept[i - 2].map((_, h) => alpha[i - 1][h][j] + three(i, h, j, k))) : three(i, 0, j, k))));
  }
  for (let i = n - 1; i > 0; --i)
    beta[i] = own[i].map((row, j) => row.map((_, k) => (i === n - 1 ? 0
      : logSum(kept[i + 1].map((_, l) => three(i + 1, j, k, l) + own[i + 1][k][l] + beta[i + 1][k][l])))));
  const z = logSum(alpha[n - 1].flat());
  return (i, j, k) => alpha[i][j][k] + beta[i][j][k] - z;
}
