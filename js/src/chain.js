// Inference in a linear chain. Mirrors bcrf/kernels/cpu (viterbi.hh, forward_backward.hh) and
// bcrf/chain/span_posteriors.py.
//
// Scores are float32, and sums of scores round as in the kernels, so that labelings are equal. Probabilities are float64.

import { enlarged } from "./hash.js";

const ROOM = 64, MOST_ROOM = 4096; // tokens
const INFLUENCE = 1e-9; // of a tag that is left out, beside the rounding errors of float32
const ROUNDING = 1e-3; // more than that of scores
const FLOATS = { true: Float64Array, false: Float32Array };

// Both functions go through the transitions from each tag. A tag u without influence beside the most likely tag is left out:
// on paths through that one, every next tag is better by more than rounding, or likelier by a factor of 1 / INFLUENCE.

// Set out[to + t] to the sum of values[at + u] * e over the transitions from tags u to t.
export function multiply({ starts, tags, e, ratios }, values, at, out, to) {
  const T = starts.length - 1;
  let top = 0;
  for (let t = 1; t < T; ++t) if (values[at + t] > values[at + top]) top = t;
  const least = INFLUENCE * values[at + top];
  for (let t = 0; t < T; ++t) out[to + t] = 0;
  for (let u = 0; u < T; ++u) {
    const x = values[at + u];
    if (x === 0 || x * ratios[top * T + u] < least) continue;
    for (let k = starts[u], end = starts[u + 1]; k < end; ++k) out[to + tags[k]] += x * e[k];
  }
}

// Set out[to + t] to the largest values[at + u] + w over the transitions from tags u to t. Rounding keeps the order.
function maximize({ starts, tags, w, leads }, values, at, out, to) {
  const T = starts.length - 1;
  let top = 0;
  for (let t = 1; t < T; ++t) if (values[at + t] > values[at + top]) top = t;
  const least = values[at + top] - ROUNDING;
  for (let t = 0; t < T; ++t) out[to + t] = -Infinity;
  for (let u = 0; u < T; ++u) {
    const x = values[at + u];
    if (x + leads[top * T + u] < least) continue;
    for (let k = starts[u], end = starts[u + 1]; k < end; ++k) {
      const t = to + tags[k], y = x + w[k];
      if (y > out[t]) out[t] = y;
    }
  }
}

// T tags and the transitions into and out of each: their tags, weights w and factors e = exp(w / temperature).
export class Transitions {
  // weights (T, T): [from, to]. isAllowed(from, to). full: whether inference is in float64.
  constructor(weights, T, isAllowed, temperature, full) {
    Object.assign(this, { T, Floats: FLOATS[full] });
    this.factor = this.Floats.of(1 / temperature)[0];
    const list = (bounds) => {
      const starts = new Int32Array(T + 1), tags = [], w = [];
      for (let t = 0; t < T; ++t) {
        for (let u = 0; u < T; ++u) {
          const [from, to] = bounds(t, u);
          if (!isAllowed(from, to)) continue;
          tags.push(u);
          w.push(weights[from * T + to]);
        }
        starts[t + 1] = tags.length;
      }
      return this.compare({ starts, tags: Int32Array.from(tags), w: this.Floats.from(w), e: Float64Array.from(w, (x) => this.exp(x)) });
    };
    this.into = list((t, u) => [u, t]);
    this.out = list((t, u) => [t, u]);
  }
  // Set leads[top * T + u] to the most by which a transition from tag u is better than the one from tag `top` to the same tag,
  // Infinity if that one is not allowed, and `ratios` to that of the factors.
  compare(list) {
    const { T, factor } = this, { starts, tags, w } = list, row = new Float64Array(T), leads = new Float64Array(T * T).fill(-Infinity);
    for (let top = 0; top < T; ++top) {
      row.fill(-Infinity);
      for (let k = starts[top]; k < starts[top + 1]; ++k) row[tags[k]] = w[k];
      for (let u = 0; u < T; ++u)
        for (let k = starts[u]; k < starts[u + 1]; ++k) leads[top * T + u] = Math.max(leads[top * T + u], w[k] - row[tags[k]]);
    }
    return Object.assign(list, { leads, ratios: leads.map((lead) => Math.exp(lead * factor)) });
  }
  exp(weight) {
    return Math.exp(this.Floats.of(this.Floats.of(weight)[0] * this.factor)[0]);
  }
}

// Return the place of tag u in the list of tag t, or -1.
export function find({ starts, tags }, t, u) {
  for (let k = starts[t]; k < starts[t + 1]; ++k) if (tags[k] === u) return k;
  return -1;
}

// Passes over tokens that come one after another: the best paths and the sums of all paths into each tag, and when all
// tokens are there, the posterior.
export class Lattice {
  // tagsOf: the first, inside, last and single tag of each slot.
  constructor(transitions, tagsOf = {}) {
    const { T, Floats } = transitions;
    Object.assign(this, { transitions, T, ...tagsOf, rounded: new Floats(T), next: new Float64Array(T), capacity: 0 });
    this.behind = []; // the transitions from each token to the next
    this.clear();
  }
  // Forget all tokens. The room for few of them is kept.
  clear() {
    this.n = this.nSummed = this.behind.length = 0;
    if (this.capacity && this.capacity <= MOST_ROOM) return;
    const { T, transitions: { Floats } } = this;
    this.capacity = ROOM;
    this.best = new Floats(ROOM * T);
    // Scores, later their exponentials; messages, whose sum is 1 for each token; their sum before that; messages from the end.
    for (const name of ["e", "f", "b"]) this[name] = new Float64Array(ROOM * T);
    this.scale = new Float64Array(ROOM);
  }
  // Take the scores of a token, unary[from ..], and the transitions behind it.
  push(unary, from, behind) {
    const { T, n } = this, at = n * T, before = this.behind[n - 1];
    if (n === this.capacity) {
      for (const name of ["best", "e", "f", "b", "scale"]) this[name] = enlarged(this[name]);
      this.capacity *= 2;
    }
    const { best, e } = this;
    if (n) maximize(before.out, best, at - T, best, at);
    else best.fill(0, 0, T);
    let top = -Infinity;
    for (let t = 0; t < T; ++t) {
      e[at + t] = unary[from + t];
      best[at + t] += unary[from + t];
      if (best[at + t] > top) top = best[at + t];
    }
    if (n && top > -Infinity) for (let t = 0; t < T; ++t) best[at + t] -= top;
    this.behind.push(behind);
    ++this.n;
  }
  // Take all tokens of a text, and return this lattice.
  fill(unary) {
    this.clear();
    for (let from = 0; from < unary.length; from += this.T) this.push(unary, from, this.transitions);
    return this;
  }
  // Find the sums of paths into the tags of the tokens that have none.
  addSums() {
    const { T, e, f, rounded, transitions: { factor } } = this;
    for (let i = this.nSummed, at = i * T; i < this.n; ++i, at += T) {
      let top = -Infinity, sum = 0;
      for (let t = 0; t < T; ++t) {
        rounded[t] = e[at + t] * factor;
        if (rounded[t] > top) top = rounded[t];
      }
      if (i) multiply(this.behind[i - 1].out, f, at - T, f, at);
      else f.fill(1, 0, T);
      for (let t = 0; t < T; ++t) {
        e[at + t] = Math.exp(rounded[t] - top);
        sum += f[at + t] *= e[at + t];
      }
      for (let t = 0; t < T; ++t) f[at + t] /= sum;
      this.scale[i] = sum;
    }
    this.nSummed = this.n;
  }
  // Find the posterior of a text.
  findPosterior() {
    this.addSums();
    const { T, n, e, b, scale, next, behind } = this;
    b.fill(1, (n - 1) * T, n * T);
    for (let i = n - 2, at = i * T; i >= 0; --i, at -= T) {
      for (let t = 0; t < T; ++t) next[t] = (e[at + T + t] * b[at + T + t]) / scale[i + 1];
      multiply(behind[i].into, next, 0, b, at);
    }
  }
  // Return the tag of token i on the best path to a tag of the next one, -1 for none. Of equal ones, the lowest.
  previous(i, to) {
    const { best, T, rounded } = this, { starts, tags, w } = this.behind[i].into;
    let most = -Infinity, found = -1;
    for (let k = starts[to]; k < starts[to + 1]; ++k) {
      rounded[0] = best[i * T + tags[k]] + w[k];
      if (rounded[0] > most) {
        most = rounded[0];
        found = tags[k];
      }
    }
    return found;
  }
  // Return the tags of the best path.
  findBest() {
    const { T, n, best } = this, found = new Int32Array(n), last = (n - 1) * T;
    let tag = 0;
    for (let t = 1; t < T; ++t) if (best[last + t] > best[last + tag]) tag = t;
    for (let i = n - 1; i >= 0; --i) {
      found[i] = tag;
      if (i) tag = this.previous(i - 1, tag);
    }
    return found;
  }
  // P(tag t of token i)
  tag(i, t) {
    return Math.min(1, this.f[i * this.T + t] * this.b[i * this.T + t]);
  }
  // P(next tag v | tag u at i)
  step(i, u, v) {
    const { T, n, b, e, scale, behind } = this, at = (i + 1) * T + v, past = b[i * T + u];
    if (i + 1 >= n || !(past > 0)) return 0;
    const { out } = behind[i], k = find(out, u, v);
    return k < 0 ? 0 : (out.e[k] * e[at] * b[at]) / scale[i + 1] / past;
  }
  // Probability that a span ends at i. Without end tags, the next tag decides.
  stop(i, u, slot) {
    return this.last[slot] === this.inside[slot] ? Math.max(0, 1 - this.step(i, u, this.inside[slot])) : 1;
  }
  span(from, to, slot) {
    const tags = pathOf(this, to - from, slot);
    let p = this.tag(from, tags[0]);
    for (let k = 1; k < tags.length; ++k) p *= this.step(from + k - 1, tags[k - 1], tags[k]);
    return Math.min(1, p * this.stop(to - 1, tags.at(-1), slot));
  }
  // Return all spans [from, to, slot, probability] of at least this probability.
  candidates(least) {
    const found = [], { first, inside, last, single, n } = this;
    const keep = (p, from, to, slot, tag) => {
      if (p >= least) p *= this.stop(to - 1, tag, slot);
      if (p >= least) found.push([from, to, slot, Math.min(1, p)]);
    };
    for (let from = 0; from < n; ++from)
      for (let slot = 0; slot < first.length; ++slot) {
        keep(this.tag(from, single[slot]), from, from + 1, slot, single[slot]);
        let tag = first[slot], p = this.tag(from, tag);
        for (let i = from; p >= least && i + 1 < n; ++i) {
          keep(p * this.step(i, tag, last[slot]), from, i + 2, slot, last[slot]);
          p *= this.step(i, tag, inside[slot]);
          tag = inside[slot];
        }
      }
    return found;
  }
}

// Return the tags of a span.
export function pathOf({ first, inside, last, single }, size, slot) {
  const tags = new Array(size).fill(inside[slot]);
  tags[size - 1] = last[slot];
  tags[0] = (size === 1 ? single : first)[slot];
  return tags;
}

// Return the n best labelings, the best first: tags and the probability of each.
export function findBest(count, { T, n, e, scale, behind }) {
  // Of each token and tag: the best prefixes as [score, tag, rank] of the one before.
  const lists = [], best = (found) => found.sort((a, b) => b[0] - a[0]).slice(0, count);
  for (let i = 0; i < n; ++i)
    lists.push(Array.from({ length: T }, (_, t) => {
      const own = Math.log(e[i * T + t]), found = [];
      if (own === -Infinity) return found;
      if (!i) return [[own, -1, 0]];
      const { starts, tags, e: factors } = behind[i - 1].into;
      for (let k = starts[t]; k < starts[t + 1]; ++k)
        lists[i - 1][tags[k]].forEach(([score], rank) => found.push([score + Math.log(factors[k]) + own, tags[k], rank]));
      return best(found);
    }));
  const logSum = scale.subarray(0, n).reduce((sum, x) => sum + Math.log(x), 0);
  return best(lists[n - 1].flatMap((list, t) => list.map(([score], rank) => [score, t, rank]))).map(([score, tag, rank]) => {
    const tags = new Int32Array(n);
    for (let i = n - 1; i >= 0; --i) {
      tags[i] = tag;
      [, tag, rank] = lists[i][tag][rank];
    }
    return { tags, p: Math.min(1, Math.exp(score - logSum)) };
  });
}
