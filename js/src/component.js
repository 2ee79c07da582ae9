// A component: from tokens to tags or spans. Mirrors spacy_bcrf/pipeline/prediction.py and its codecs.

import { Lattice, Transitions, findBest, pathOf } from "./chain.js";
import { Scores } from "./scores.js";

const OUTSIDE = 0; // the tag of no span
const order = (a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2];

// The scores of a chain with T tags, which are those of C chains side by side with S tags each, and their transitions.
class Chain {
  // isAllowed(from, to): of transitions. closed(from, to): whether one ends a span without a tag that shows it, or null.
  constructor(spec, file, temperature, isAllowed = () => true, closed = null, tagsOf = {}) {
    this.scores = new Scores(spec, file);
    const { S, T, general } = this.scores, weights = new Float32Array(S * S);
    for (let u = 0; u < S; ++u) weights.set(general.subarray(u * T, u * T + S), u * S);
    const make = (allowed, heat) => new Transitions(weights, S, allowed, heat, spec.full === true);
    this.transitions = make(isAllowed, temperature);
    this.behindBlanks = closed ? make((u, t) => isAllowed(u, t) && !closed(u, t), temperature) : this.transitions;
    this.lattices = Array.from({ length: T / S }, () => new Lattice(this.transitions, tagsOf));
    Object.assign(this, { S, C: T / S, pairs: spec.pairs === undefined ? null : file.sections[spec.pairs] });
    if (!this.pairs) return;
    if (this.pairs.length !== (S + 1) * S) throw new RangeError("the pairs do not fit the tags");
    this.plain = make(isAllowed, 1);
  }
  // Return scores (n, T) as those (n, S) of each chain.
  split(scores) {
    const { S, C, transitions: { Floats } } = this, n = scores.length / (S * C);
    if (C === 1 && Floats === Float32Array) return [scores];
    return Array.from({ length: C }, (_, c) => {
      const own = new Floats(n * S);
      for (let i = 0; i < n; ++i) own.set(scores.subarray((i * C + c) * S, (i * C + c + 1) * S), i * S);
      return own;
    });
  }
}

export class Component {
  constructor(spec, file) {
    const { name, labels, spans, start, least, cutoffs, n_states: S } = spec, allowed = spans && file.sections[spec.transitions];
    Object.assign(this, { name, spec, labels, least, cutoffs, more: file.more, isSpans: spans !== undefined, ...spans });
    this.column = spec.writes.replace("token.", "");
    const isAllowed = allowed && ((u, t) => allowed[u * S + t] === 1);
    const closed = spec.is_end_open ? (u, t) => u > 0 && (t === 0 || start[t]) : null;
    this.chain = new Chain(spec.chain, file, spec.temperature, isAllowed, closed, this.tagsOf);
    this.first = spec.first ? new Chain(spec.first.chain, file, 1) : null;
    if (this.chain.S !== S || S * this.chain.C !== spec.tags.length || (allowed && allowed.length !== S * S))
      throw new RangeError(`the tags of ${name} do not fit its weights`);
    if (!spans) return;
    this.most = Math.max(...this.places.map(({ chains }) => chains.length)); // layers of a label
    const perLabel = (S - 1) / this.tagsOf.first.length;
    this.slotOf = Array.from({ length: S }, (_, t) => Math.floor((t - 1) / perLabel));
    this.isUnused = this.labelOf.map((own) => this.slotOf.map((slot) => own[slot] < 0));
  }
  // Return the tags of the tokens of earlier entities, which stay, undefined for the other tokens.
  findFixed({ entities = [] }) {
    const { labels, tagsOf } = this, fixed = [];
    for (const { label, tokens: [from, to] } of this.spec.writes === "entities" ? entities : []) {
      const slot = labels.indexOf(label), tags = slot < 0 ? new Array(to - from).fill(OUTSIDE) : pathOf(tagsOf, to - from, slot);
      tags.forEach((tag, k) => (fixed[from + k] = tag));
    }
    return fixed;
  }
  // Score the tokens [from, to), and append them to the lattices. columns: tags of earlier components. fixed: see `findFixed`.
  // isStart, isEnd: whether the first and the last token of `doc` are those of the text.
  extend(lattices, doc, columns, fixed, { from = 0, to = doc.words.length, isStart = true, isEnd = true } = {}) {
    const { chain, first, spec: { start, end } } = this, { transitions, behindBlanks, S } = chain, last = doc.words.length - 1;
    const scores = chain.scores.score(doc, columns, { pooled: first && this.pool(doc, columns), from, to });
    chain.split(scores).forEach((unary, c) => {
      let correct = null;
      if (isStart && from === 0) this.forbid(unary, 0, (t) => start && !start[t]);
      if (isEnd && to > last) this.forbid(unary, (last - from) * S, (t) => end && !end[t]);
      if (chain.pairs) ({ unary, correct } = this.more.toFirstOrder(chain, unary));
      for (let i = from, at = 0; i < to; ++i, at += S) {
        const isBlank = doc.isBlank[i] && fixed[i] === undefined, behind = isBlank ? behindBlanks : transitions;
        if (fixed.length) this.restrictFixed(unary, at, fixed[i], fixed[i - 1]);
        this.restrict(unary, at, c, isBlank, isEnd && i === last);
        lattices[c].push(unary, at, correct ? correct(i, behind) : behind);
      }
    });
  }
  forbid(unary, at, isForbidden) {
    for (let t = 0; t < this.chain.S; ++t) if (isForbidden(t)) unary[at + t] = -Infinity;
  }
  // Forbid all tags but a fixed one, and behind it those that go on with its entity.
  restrictFixed(unary, at, fixed, before) {
    const { start } = this.spec, isOpen = (t) => t === OUTSIDE || before === undefined || start[t];
    this.forbid(unary, at, (t) => (fixed === undefined ? !isOpen(t) : t !== fixed));
  }
  // Forbid tags that a chain does not have, and those by which a span starts or ends on white space.
  restrict(unary, at, c, isBlank, isLast) {
    if (!this.isSpans || !(isBlank || this.spec.layered)) return;
    const { edge, is_end_open: isEndOpen } = this.spec, isUnused = this.isUnused[c];
    this.forbid(unary, at, (t) => t !== OUTSIDE && (isUnused[t] || (isBlank && (edge[t] || (isLast && isEndOpen)))));
  }
  pool(doc, columns) {
    const { scores, lattices, S } = this.first, unary = this.first.split(scores.score(doc, columns));
    unary.forEach((own, c) => lattices[c].fill(own).findPosterior());
    const posterior = (i, t) => lattices[Math.floor(t / S)].tag(i, t % S);
    const pooled = this.more.poolPosteriors(posterior, this.spec.first, doc, this.chain.scores.characters);
    for (const lattice of lattices) lattice.clear();
    return pooled;
  }
  // Return what a document has. minimum: by label the least probabilities of candidates; null for none.
  run(doc, columns, { nbest = 0, minimum = null, inside = false } = {}) {
    const { spec, least, name } = this, found = { name, tags: [], spans: [] };
    Object.assign(found, minimum && { candidates: [] }, inside && { inside: [] }, nbest && { nbest: [] });
    if (!doc.words.length) return found;
    const fixed = this.findFixed(columns), { lattices } = this.chain;
    for (const lattice of lattices) lattice.clear();
    this.extend(lattices, doc, columns, fixed);
    const tags = spec.decoder === "f" ? null : lattices.map((lattice) => lattice.findBest());
    // Few texts without spans need the posterior.
    if (!tags || minimum || inside || !this.isSpans || tags.some((own) => own.some(Boolean)))
      for (const lattice of lattices) lattice.findPosterior();
    if (!this.isSpans) {
      const p = Array.from(tags[0], (t, i) => lattices[0].tag(i, t));
      found.tags = Array.from(tags[0], (t, i) => (p[i] < least[t] ? "" : spec.tags[t]));
      found.probabilities = p.map((x, i) => this.calibrate(x, tags[0][i], 1));
    } else {
      const likely = (span) => this.probability(lattices, ...span);
      const chosen = tags ? this.decode(tags) : this.chooseSpans(lattices);
      const kept = chosen.filter((span) => !least[span[2]] || likely(span) >= least[span[2]]);
      const own = kept.filter(([from]) => fixed[from] === undefined);
      found.spans = own.map((span) => describe(this, doc, ...span, this.calibrate(likely(span), span[2], span[1] - span[0])));
      if (!spec.layered) found.tags = this.nameTags(doc.words.length, kept);
      if (minimum) found.candidates = this.candidates(lattices, minimum).map((span) => describe(this, doc, ...span));
      if (inside) found.inside = doc.words.map((_, i) => 1 - lattices.reduce((p, each) => p * each.tag(i, OUTSIDE), 1));
    }
    if (nbest) found.nbest = this.nbest(doc, lattices, nbest);
    for (const lattice of lattices) lattice.clear();
    return found;
  }
  // Return the spans [from, to, tag] of tags. first: the number of the first token.
  findSpans(tags, first = 0) {
    const { start } = this.spec, found = [];
    for (let i = 0, from = 0; i < tags.length; ++i) {
      if (i + 1 < tags.length && !start[tags[i + 1]]) continue;
      if (tags[from] !== OUTSIDE) found.push([first + from, first + i + 1, tags[from]]);
      from = i + 1;
    }
    return found;
  }
  // Return the spans [from, to, label] of the labelings of all chains in order of the text, each once.
  decode(tags) {
    const label = (c) => ([from, to, tag]) => [from, to, this.labelOf[c][this.slotOf[tag]]];
    const found = tags.flatMap((own, c) => this.findSpans(own).map(label(c)));
    if (tags.length === 1) return found;
    return found.sort(order).filter((span, i) => !i || order(span, found[i - 1]));
  }
  nameTags(n, spans) {
    const tags = new Array(n).fill(this.spec.tags[OUTSIDE]), { first, inside, last, single } = this.tagsOf;
    for (const [from, to, label] of spans) {
      tags.fill(this.spec.tags[inside[label]], from, to);
      tags[to - 1] = this.spec.tags[last[label]];
      tags[from] = this.spec.tags[(to - from === 1 ? single : first)[label]];
    }
    return tags;
  }
  // The probability that a span is in one of the layers of its label.
  probability(posteriors, from, to, label) {
    const { chains, slot } = this.places[label];
    if (chains.length === 1) return posteriors[chains[0]].span(from, to, slot);
    return 1 - chains.reduce((p, c) => p * (1 - posteriors[c].span(from, to, slot)), 1);
  }
  // Return all spans [from, to, label, probability] whose probability reaches the minimum of their label.
  candidates(posteriors, minimum) {
    // A span in k layers reaches the threshold only if it has a k-th of it in one of them.
    const least = Math.min(...minimum) / this.most, found = new Map();
    if (!(least <= 1)) return [];
    posteriors.forEach((posterior, c) => {
      for (const [from, to, slot, p] of posterior.candidates(least)) {
        const label = this.labelOf[c][slot];
        if (label >= 0) found.set(`${from} ${to} ${label}`, [from, to, label, p]);
      }
    });
    const spans = [...found.values()];
    if (this.most > 1) for (const span of spans) span[3] = this.probability(posteriors, ...span);
    return spans.filter(([, , label, p]) => p >= minimum[label]).sort(order);
  }
  // The decoder for F: the spans with the largest sum of probability - threshold.
  chooseSpans(posteriors) {
    const { cutoffs } = this, lowest = Math.min(...cutoffs), chosen = [];
    const spans = this.candidates(posteriors, cutoffs.map(() => lowest));
    this.depths.forEach((depth, group) => {
      const own = spans.filter(([, , label]) => this.groups[label] === group);
      const gains = own.map(([, , label, p]) => p - cutoffs[label]);
      for (const i of this.more.bestSpans(own, gains, depth)) chosen.push(own[i].slice(0, 3));
    });
    return chosen.sort(order);
  }
  calibrate(p, label, size) {
    const { calibration } = this.spec;
    if (!calibration) return p;
    const { by, groups, slopes, intercepts } = calibration, key = by === "length" ? String(size) : this.labels[label];
    const at = groups.indexOf(key), k = at < 0 ? groups.length : at, q = Math.min(Math.max(p, 1e-6), 1 - 1e-6);
    return 1 / (1 + Math.exp(-(slopes[k] * (Math.log(q) - Math.log1p(-q)) + intercepts[k])));
  }
  nbest(doc, lattices, count) {
    lattices[0].addSums();
    return findBest(count, lattices[0]).map(({ tags, p }) => ({
      probability: p,
      tags: Array.from(tags, (t) => this.spec.tags[t]),
      spans: this.isSpans ? this.decode([tags]).map((span) => describe(this, doc, ...span)) : [],
    }));
  }
}

// Return a span of tokens as users see it.
export function describe({ labels }, { starts, ends, text, point }, from, to, label, probability) {
  const start = starts[from], end = ends[to - 1];
  return {
    label: labels[label], start, end, text: text.slice(start, end), points: [point(start), point(end)], tokens: [from, to],
    ...(typeof probability === "number" && { probability }),
  };
}
