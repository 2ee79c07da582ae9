// The probabilities of tags while later tokens are unknown. Mirrors bcrf/kernels/cpu/sparse/stream.hh.

import { Lattice, find, multiply } from "./chain.js";

const NEGLIGIBLE = 1e-9; // difference of probabilities

export class OpenLattice extends Lattice {
  constructor(transitions) {
    super(transitions);
    this.sums = []; // by token, see `sumsBehind`
    this.rows = []; // by token and tag, see `given`
  }
  // Forget the first tokens.
  drop(count) {
    for (const values of [this.best, this.e, this.f]) values.copyWithin(0, count * this.T, this.n * this.T);
    for (const list of [this.behind, this.sums, this.rows]) list.splice(0, count);
    this.n -= count;
    this.nSummed = Math.max(0, this.nSummed - count);
  }
  // Return the tags of the best path from a token on, as far as all paths agree; when the text has ended, all.
  settle(from, ended) {
    if (ended) return this.findBest().subarray(from);
    const { T, n } = this, last = n - 1, found = new Int32Array(n - from);
    let tags = Array.from({ length: T }, (_, t) => this.previous(last, t)).filter((tag) => tag >= 0), final = from;
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
    if (!this.sums[k]) multiply(this.behind[k].out, this.f, k * this.T, (this.sums[k] = new Float64Array(this.T)), 0);
    return this.sums[k];
  }
  // Return P(tag of token i | next tag) for each next tag, behind the last token. When the text has ended, for each last tag.
  given(i, tag, ended) {
    const { T, n, f, behind } = this, rows = (this.rows[i] ??= []);
    const row = (rows[tag] ??= { p: new Float64Array(T).fill(1, tag, tag + 1), steps: 0, isFinal: false }), { p } = row;
    for (; i + row.steps < n - ended && !row.isFinal; ++row.steps) {
      const k = i + row.steps, sums = this.sumsBehind(k), joint = (this.joint ??= new Float64Array(T));
      for (let t = 0; t < T; ++t) joint[t] = p[t] * f[k * T + t];
      multiply(behind[k].out, joint, 0, p, 0);
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
