// Inference in a linear chain. Mirrors bcrf/kernels/cpu (viterbi.hh, forward_backward.hh, sparse/stream.hh) and
// bcrf/chain/span_posteriors.py.
//
// Scores are float32, and sums of scores round as in the kernels, so that labelings are equal. Probabilities are float64.

import { enlarged } from "./hash.js";

const NEGLIGIBLE = 1e-9; // difference of probabilities
const FLOATS = { true: Float64Array, false: Float32Array };

// Set out[to + t] to the sum of values[at + tag] * e over the transitions of each tag t.
function multiply({ starts, tags, e }, values, at, out, to) {
  for (let t = 0, k = 0; t < starts.length - 1; ++t) {
    let sum = 0, second = 0, third = 0, fourth = 0; // four sums do not wait for each other
    const end = starts[t + 1];
    for (; k + 3 < end; k += 4) {
      sum += values[at + tags[k]] * e[k];
      second += values[at + tags[k + 1]] * e[k + 1];
      third += values[at + tags[k + 2]] * e[k + 2];
      fourth += values[at + tags[k + 3]] * e[k + 3];
    }
    for (; k < end; ++k) sum += values[at + tags[k]] * e[k];
    out[to + t] = sum + second + (third + fourth);
  }
}

// Set out[to + t] to the largest values[at + tag] + w over the transitions of each tag t. Rounding keeps the order.
function maximize({ starts, tags, w }, values, at, out, to) {
  for (let t = 0, k = 0; t < starts.length - 1; ++t) {
    let most = -Infinity, second = -Infinity;
    const end = starts[t + 1];
    for (; k + 1 < end; k += 2) {
      const x = values[at + tags[k]] + w[k], y = values[at + tags[k + 1]] + w[k + 1];
      if (x > most) most = x;
      if (y > second) second = y;
    }
    if (k < end) second = Math.max(second, values[at + tags[k]] + w[k++]);
    out[to + t] = most > second ? most : second;
  }
}

const argmax = (values) => values.reduce((top, x, t) => (x > values[top] ? t : top), 0);

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
      return { starts, tags: Int32Array.from(tags), w: this.Floats.from(w), e: Float64Array.from(w, (x) => this.exp(x)) };
    };
    this.into = list((t, u) => [u, t]);
    this.out = list((t, u) => [t, u]);
  }
  exp(weight) {
    return Math.exp(this.Floats.of(this.Floats.of(weight)[0] * this.factor)[0]);
  }
  // Return transitions with corrections [from, to, score], whose lists are made when they are read.
  corrected(corrections) {
    const correct = (list, bounds) => {
      const w = list.w.slice(), e = list.e.slice();
      for (const [u, t, score] of corrections) {
        const k = find(list, ...bounds(u, t));
        if (k < 0) continue;
        w[k] += score;
        e[k] = this.exp(w[k]);
      }
      return { ...list, w, e };
    };
    return Object.create(this, {
      into: { get: () => correct(this.into, (u, t) => [t, u]) },
      out: { get: () => correct(this.out, (u, t) => [u, t]) },
    });
  }
}

// Return the place of tag u in the list of tag t, or -1.
export function find({ starts, tags }, t, u) {
  for (let k = starts[t]; k < starts[t + 1]; ++k) if (tags[k] === u) return k;
  return -1;
}

// Forward passes over tokens that come one after another: the best paths and the sums of all paths into each tag.
export class Lattice {
  // capacity: tokens for which there is room.
  constructor(transitions, capacity) {
    const { T, Floats } = transitions, n = capacity * T;
    Object.assign(this, { transitions, T, n: 0, best: new Floats(n), rounded: new Floats(T) });
    this.behind = []; // the transitions from each token to the next
    this.sums = []; // by token, see `sumsBehind`
    this.rows = []; // by token and tag, see `given`
    // Exponentials of scores; messages, whose sum is 1 for each token; their sum before that.
    this.e = this.f = this.scale = new Float64Array(0);
  }
  // Take the scores of a token, unary[from ..], and the transitions behind it.
  push(unary, from, behind) {
    const { T, n } = this, at = n * T, before = this.behind[n - 1];
    if (at === this.best.length) this.best = enlarged(this.best);
    const { best } = this;
    if (n) maximize(before.into, best, at - T, best, at);
    let top = -Infinity;
    for (let t = 0; t < T; ++t) {
      best[at + t] += unary[from + t];
      if (best[at + t] > top) top = best[at + t];
    }
    if (n && top > -Infinity) for (let t = 0; t < T; ++t) best[at + t] -= top;
    this.behind.push(behind);
    ++this.n;
  }
  // Find the sums of paths into the tags of token i, with the scores unary[from ..].
  addSums(i, unary, from) {
    const grow = (old, length) => {
      const larger = new Float64Array(length);
      larger.set(old);
      return larger;
    };
    if (this.f.length < this.best.length) {
      this.e = grow(this.e, this.best.length);
      this.f = grow(this.f, this.best.length);
      this.scale = grow(this.scale, this.best.length / this.T);
    }
    const { T, e, f, rounded, transitions: { factor } } = this, at = i * T;
    let top = -Infinity, sum = 0;
    for (let t = 0; t < T; ++t) {
      rounded[t] = unary[from + t] * factor;
      if (rounded[t] > top) top = rounded[t];
    }
    if (i) multiply(this.behind[i - 1].into, f, at - T, f, at);
    else f.fill(1, 0, T);
    for (let t = 0; t < T; ++t) {
      e[at + t] = Math.exp(rounded[t] - top);
      sum += f[at + t] *= e[at + t];
    }
    for (let t = 0; t < T; ++t) f[at + t] /= sum;
    this.scale[i] = sum;
  }
  // Forget the first tokens.
  drop(count) {
    for (const values of [this.best, this.e, this.f]) values.copyWithin(0, count * this.T, this.n * this.T);
    for (const list of [this.behind, this.sums, this.rows]) list.splice(0, count);
    this.n -= count;
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
  // Return the tags of the best path from a token on, as far as all paths agree; when the text has ended, all.
  settle(from, ended) {
    const { T, n } = this, last = n - 1, found = new Int32Array(n - from);
    let tags = [argmax(this.best.subarray(last * T, n * T))], final = from;
    if (!ended) tags = Array.from({ length: T }, (_, t) => this.previous(last, t)).filter((tag) => tag >= 0);
    for (let i = last; i >= from; --i) {
      if (tags.length > 1) tags = [...new Set(tags)];
      if (tags.length === 1) {
        found[i - from] = tags[0];
        final = Math.max(final, i + 1);
      }
      if (i > from) for (let k = 0; k < tags.length; ++k) tags[k] = this.previous(i - 1, tags[k]);
    }
    return found.subarray(0, final - from);
  }
  // Return the sums of paths into the tags of the token behind token k.
  sumsBehind(k) {
    if (!this.sums[k]) multiply(this.behind[k].into, this.f, k * this.T, (this.sums[k] = new Float64Array(this.T)), 0);
    return this.sums[k];
  }
  // Return P(tag of token i | next tag) for each next tag, behind the last token. When the text has ended, for each last tag.
  given(i, tag, ended) {
    const { T, n, f, behind } = this, rows = (this.rows[i] ??= []);
    const row = (rows[tag] ??= { p: new Float64Array(T).fill(1, tag, tag + 1), steps: 0, isFinal: false }), { p } = row;
    for (; i + row.steps < n - ended && !row.isFinal; ++row.steps) {
      const k = i + row.steps, sums = this.sumsBehind(k), joint = (this.joint ??= new Float64Array(T));
      for (let t = 0; t < T; ++t) joint[t] = p[t] * f[k * T + t];
      multiply(behind[k].into, joint, 0, p, 0);
      let least = Infinity, most = -Infinity;
      for (let t = 0; t < T; ++t) {
        p[t] = sums[t] > 0 ? Math.min(1, p[t] / sums[t]) : 0;
        if (sums[t] > 0) {
          least = Math.min(least, p[t]);
          most = Math.max(most, p[t]);
        }
      }
      row.isFinal = most - least < NEGLIGIBLE;
      if (row.isFinal) p.fill(least);
    }
    return p;
  }
  // P(tag of token k | tag of the next)
  share(k, tag, next) {
    const { into } = this.behind[k], place = find(into, next, tag), sum = this.sumsBehind(k)[next];
    return place >= 0 && sum > 0 ? (this.f[k * this.T + tag] * into.e[place]) / sum : 0;
  }
  // Return a number that is at least P(tag of token i), whatever follows.
  most(i, tag) {
    const { out } = this.behind[i];
    let most = 0;
    for (let k = out.starts[tag], sums = this.sumsBehind(i); k < out.starts[tag + 1]; ++k)
      if (sums[out.tags[k]] > 0) most = Math.max(most, out.e[k] / sums[out.tags[k]]);
    return Math.min(1, most * this.f[i * this.T + tag] * (1 + NEGLIGIBLE));
  }
  // Return the least and the largest probability of these tags from token i on, and then another tag than `inside`.
  //
  // Given the tag of the next token, what follows no longer matters. So the bounds are over these tags.
  bound(i, tags, inside, ended) {
    const { T, n, f } = this, final = i + tags.length - 1, last = n - 1;
    let before = 1;
    for (let k = 1; k < tags.length; ++k) before *= this.share(i + k - 1, tags[k - 1], tags[k]);
    const goesOn = inside >= 0 && final < n - ended ? this.share(final, tags.at(-1), inside) : 0;
    const p = this.given(final, tags.at(-1), ended), longer = goesOn ? this.given(final + 1, inside, ended) : null;
    const sums = ended ? null : this.sumsBehind(last);
    let least = Infinity, most = -Infinity, mean = 0;
    for (let t = 0; t < T; ++t) {
      const x = before * Math.max(0, p[t] - (longer ? goesOn * longer[t] : 0));
      if (ended) mean += x * f[last * T + t];
      else if (sums[t] > 0) {
        least = Math.min(least, x);
        most = Math.max(most, x);
      }
    }
    return ended ? [Math.min(1, mean), Math.min(1, mean)] : [least, most];
  }
}

// Return a lattice of all tokens. unary (n, T). behind(i): the transitions behind token i.
export function fill(transitions, unary, behind) {
  const { T } = transitions, n = unary.length / T, lattice = new Lattice(transitions, n);
  for (let i = 0; i < n; ++i) lattice.push(unary, i * T, behind(i));
  return Object.assign(lattice, { unary });
}

// Return a lattice of `fill` with its sums.
export function withSums(lattice) {
  for (let i = 0; !lattice.scale[i] && i < lattice.n; ++i) lattice.addSums(i, lattice.unary, i * lattice.T);
  return lattice;
}

// The posterior of a lattice: the backward pass.
export class Posterior {
  // tagsOf: the first, inside, last and single tag of each slot.
  constructor(lattice, tagsOf = {}) {
    const { T, n, e, scale, behind } = withSums(lattice), b = new Float64Array(n * T).fill(1, (n - 1) * T), next = new Float64Array(T);
    for (let i = n - 2, at = i * T; i >= 0; --i, at -= T) {
      for (let t = 0; t < T; ++t) next[t] = (e[at + T + t] * b[at + T + t]) / scale[i + 1];
      multiply(behind[i].out, next, 0, b, at);
    }
    Object.assign(this, { lattice, b, n, T, ...tagsOf });
  }
  tag(i, t) {
    return Math.min(1, this.lattice.f[i * this.T + t] * this.b[i * this.T + t]);
  }
  // P(next tag v | tag u at i)
  step(i, u, v) {
    const { T, b, n, lattice: { e, scale, behind } } = this, at = (i + 1) * T + v, past = b[i * T + u];
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
    for (let from = 0; from < n; ++from)
      for (let slot = 0; slot < first.length; ++slot) {
        const keep = (p, to, tag) => {
          if (p >= least) p *= this.stop(to - 1, tag, slot);
          if (p >= least) found.push([from, to, slot, Math.min(1, p)]);
        };
        keep(this.tag(from, single[slot]), from + 1, single[slot]);
        let tag = first[slot], p = this.tag(from, tag);
        for (let i = from; p >= least && i + 1 < n; ++i) {
          keep(p * this.step(i, tag, last[slot]), i + 2, last[slot]);
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
export function findBest(count, lattice) {
  const { T, n, e, scale, behind } = withSums(lattice);
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
