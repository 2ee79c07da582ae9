// Chains whose weights have three neighbouring tags. Mirrors bcrf/kernels/cpu/sparse/second_order.hh.

import { Lattice, find } from "./chain.js";

const LEAST_MARGINAL = 0.01; // of a tag that is kept

function logSum(terms) {
  const top = Math.max(...terms);
  if (terms.length === 1 || top === -Infinity) return top;
  return top + Math.log(terms.reduce((sum, x) => sum + Math.exp(x - top), 0));
}

// Add the weights of three neighbouring tags: return scores, and by token corrections of the transitions behind it, of the
// first-order chain with the same marginals of pairs. transitions: at temperature 1. weight(a, b, c): a is T at the start.
export function toFirstOrder(transitions, unary, weight) {
  const { T, out } = transitions, n = unary.length / T, edges = new Array(n).fill([]), corrected = unary.slice();
  if (n < 2) return { unary, edges };
  const kept = keepTags(new Lattice(transitions).fill(unary), out);
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
  return { unary: corrected, edges };
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
