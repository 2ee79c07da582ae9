// The annotation of a text that arrives in pieces, equal to that of the whole text. Mirrors stream.py and stream_spans.py of
// spacy_bcrf/pipeline, and spacy_bcrf/annotation/text_stream.py.

import { bestSpans } from "./best_spans.js";
import { checkText, codePoints, isSpaceAt } from "./characters.js";
import { pathOf } from "./chain.js";
import { OpenLattice } from "./open_lattice.js";
import { Affixes } from "./tokenizers.js";

const TOLERANCE = 1e-4; // the most by which the probability of a released span may differ from that of the whole text
const LONGEST = 1e6; // characters without a blank that a stream keeps
const TRIES = 20; // places at which a text may be cut
const HIGH = /[\ud800-\udbff]$/;

// Text whose tokens no later character can change.
class Text {
  constructor({ stages: [first] }) {
    if (!(first instanceof Affixes || first.known)) throw new RangeError("the tokens of a PatternTokenizer may change as a text goes on");
    this.first = first;
    this.affixes = first instanceof Affixes ? first.withoutCases() : null;
    // The beginnings of special cases, which spaCy finds across blanks.
    const cases = this.affixes ? [...first.splitCases.values()].flat() : [];
    this.heads = new Set(cases.flatMap((words) => words.slice(1).map((_, k) => words.slice(0, k + 1).join("\0"))));
    this.longest = Math.max(0, ...cases.map(({ length }) => length - 1));
    this.rest = "";
  }
  // Return what is final of the text so far.
  feed(piece) {
    const rest = this.rest + piece, n = this.affixes ? this.findCut(rest, rest.length - piece.length) : this.findCluster(rest);
    if (rest.length - n > LONGEST) throw new RangeError(`the text has more than ${LONGEST} characters without a blank`);
    this.rest = rest.slice(n);
    return rest.slice(0, n);
  }
  // The last cluster of characters may go on.
  findCluster(text) {
    const { words, spaces } = this.first.split(text);
    return words.length < 2 ? 0 : text.length - words.at(-1).length - (spaces.at(-1) ? 1 : 0);
  }
  // Return the last place at which the tokenizer starts anew, and which no special case may cross.
  findCut(text, from) {
    let tries = TRIES;
    for (let i = text.length - 1; i > 0 && tries; --i) {
      if (i < from - 1 && tries === TRIES) return 0; // no new blank
      if (isSpaceAt(text, i) === isSpaceAt(text, i - 1)) continue;
      const cut = text[i] === " " ? i + 1 : i;
      --tries;
      if (!this.mayGoOn(text.slice(0, cut))) return cut;
    }
    return 0;
  }
  // Whether a special case may begin in a text and go on behind it.
  mayGoOn(text) {
    // The words at the end are enough: a beginning has few tokens.
    let start = text.length;
    for (let n = 0; start > 0 && n <= 2 * this.longest; ++n)
      for (const inSpace of [true, false]) while (start > 0 && isSpaceAt(text, start - 1) === inSpace) --start;
    const { words } = this.affixes.split(text.slice(start));
    return words.slice(-this.longest).some((_, k, last) => this.heads.has(last.slice(k).join("\0")));
  }
}

// Return why a component cannot stream, or null.
function findObstacle({ chain: { scores, pairs }, first, isSpans, least }) {
  if (first) return "two_pass reads the whole text before it tags a word";
  if (pairs) return "order = 2 chooses tags by the posterior of the whole text";
  if (scores.needsDoc) return "its templates read the whole text";
  if (scores.columns.some((name) => name === "tag" || name === "pos")) return "its templates read tags of another component";
  return !isSpans && least.some(Boolean) ? "thresholds of tags need the whole text" : null;
}

// Return the best of spans, null if later text may change it.
//
// It is final if it is also the best with its own least gains and the largest ones of the others: spans in both of two sets
// cancel in the difference of their sums.
function findFinal(part, cutoffs, depth) {
  const spans = part.map(({ span }) => span), gains = (value) => part.map((one, i) => value(one, i) - cutoffs[one.span[2]]);
  const best = bestSpans(spans, gains(({ low, high }) => (low + high) / 2), depth), isBest = new Set(best);
  const others = bestSpans(spans, gains(({ low, high }, i) => (isBest.has(i) ? low : high)), depth);
  return String(best) === String(others) ? best.map((i) => spans[i]) : null;
}

// Return a span of tokens as users see it. base: the number of the first token.
function show(tokens, from, to, base, label) {
  const { token: { start }, points: [first] } = tokens[from], { token: { end }, points: [, last] } = tokens[to - 1];
  return { label, start, end, points: [first, last], tokens: [base + from, base + to] };
}

// The identifiers of a text that arrives in pieces.
class Identified {
  constructor(component) {
    this.component = component;
    this.known = 0; // the tokens whose identifiers are known, up to the character `at`
    this.at = this.offset = this.end = 0; // end: of the tokens of identifiers
    this.text = ""; // from the character `offset` on
  }
  // Return what a piece makes known: spans of the tokens, of which the first has the number `base`.
  read(piece, tokens, base, ended) {
    this.text += piece;
    const { component } = this, { found, known } = component.finder.scan(this.text, this.at - this.offset, ended), spans = [];
    const places = found.map(([from, to, label]) => [this.offset + from, this.offset + to, label]);
    for (const [from, to, label] of component.touch(places, tokens.map(({ token }) => token.start), this.end - base)) {
      spans.push(show(tokens, from, to, base, label));
      this.end = base + to;
    }
    this.at = this.offset + known;
    while (this.known < base + tokens.length && tokens[this.known - base].token.end <= this.at) ++this.known;
    // What is before may say what a number is.
    const cut = Math.max(0, known - component.finder.reach);
    this.text = this.text.slice(cut);
    this.offset += cut;
    return spans;
  }
}

export class Stream {
  // minimum: by label the least probabilities of candidates; null for none. identifiers: the component before, if there is one.
  constructor(tokenizer, component, minimum, identifiers) {
    const obstacle = findObstacle(component), { transitions, C } = component.chain;
    if (obstacle) throw new RangeError(`${component.name} cannot stream: ${obstacle}`);
    Object.assign(this, { tokenizer, component, minimum, text: new Text(tokenizer), tokens: [], isClosed: false });
    // Tokens are known by their number in the text. Lists have those from `base` on.
    this.base = this.scored = this.released = 0;
    this.lattices = Array.from({ length: C }, () => new OpenLattice(transitions));
    // Of each chain, with the decoder for F of each group of labels whose spans may not overlap. tags: those that are final.
    // open: the first token of a span that may go on, or of the tokens without final tags.
    this.isForF = component.spec.decoder === "f";
    this.labelings = (this.isForF ? component.depths : this.lattices).map(() => ({ tags: [], open: 0 }));
    this.offset = this.point = 0; // of the text, in UTF-16 and in code points
    this.waiting = []; // spans [from, to, label] without a final probability
    this.dropped = [];
    this.known = new Set(); // spans of several layers
    this.half = ""; // of a pair of surrogates
    this.identified = identifiers ? new Identified(identifiers) : null;
  }
  // Take the next text, and return what is final: tokens with their tags, and spans, some of earlier tokens.
  feed(piece) {
    if (this.isClosed) throw new RangeError("the stream is closed");
    if (typeof piece !== "string") throw new TypeError(`expected a text, got ${typeof piece}`);
    const text = this.half + piece, half = HIGH.exec(text)?.[0] ?? "", whole = text.slice(0, text.length - half.length);
    checkText(whole);
    const final = this.text.feed(whole);
    this.half = half;
    return this.advance(final);
  }
  // Return the rest.
  close() {
    if (this.isClosed) throw new RangeError("the stream is closed");
    checkText(this.half);
    this.isClosed = true;
    return this.advance(this.text.rest);
  }
  advance(text) {
    const nothing = { tokens: [], tags: [], spans: [], candidates: [], identifiers: [] };
    if (!text && !this.isClosed) return nothing;
    const { words, spaces, starts, ends, isBlank } = this.tokenizer.tokenize(text), point = codePoints(text);
    words.forEach((word, i) => this.tokens.push({
      token: { text: word, start: this.offset + starts[i], end: this.offset + ends[i], blank: spaces[i] },
      points: [this.point + point(starts[i]), this.point + point(ends[i])],
      isBlank: isBlank[i],
    }));
    this.offset += text.length;
    this.point += point(text.length);
    const identifiers = this.identify(text);
    this.extend();
    if (this.scored === this.base) return { ...nothing, identifiers };
    this.labelings.forEach((labeling, k) => (this.isForF ? this.choose(labeling, k) : this.settle(labeling, k)));
    return { ...this.release(), identifiers };
  }
  // Mark the tokens of the identifiers that are known now, and return these.
  identify(text) {
    const { component, tokens, base } = this, found = this.identified?.read(text, tokens, base, this.isClosed) ?? [];
    for (const entity of found) {
      const { label, tokens: [from, to] } = entity;
      component.findFixed({ entities: [entity] }).forEach((tag, i) => (tokens[i - base].fixed = tag));
      for (let i = from; i < to; ++i) tokens[i - base].type = label;
    }
    return found;
  }
  // Score the tokens whose neighbours are known.
  extend() {
    const { component, tokens, base, lattices, identified, isClosed } = this, length = base + tokens.length;
    const to = isClosed ? length : (identified?.known ?? length) - component.chain.scores.after;
    if (to <= this.scored) return;
    const doc = { words: tokens.map(({ token }) => token.text), isBlank: tokens.map(({ isBlank }) => isBlank) };
    const columns = { ent_type: identified && tokens.map(({ type = "" }) => type) };
    const part = { from: this.scored - base, to: to - base, isStart: base === 0, isEnd: isClosed };
    component.extend(lattices, doc, columns, identified ? tokens.map(({ fixed }) => fixed) : [], part);
    if (component.isSpans) for (const lattice of lattices) lattice.addSums();
    this.scored = to;
  }
  // Find the tags that are final: those on which the best paths into all tags of the next token agree.
  settle(labeling, c) {
    const { component, base } = this, { start } = component.spec, { tags, open } = labeling;
    tags.push(...this.lattices[c].settle(tags.length, this.isClosed));
    if (!component.isSpans) return;
    let end = tags.length; // of complete spans
    if (!this.isClosed && end > open - base && tags[end - 1]) while (!start[tags[--end]]);
    labeling.open = base + end;
    for (const [from, to, tag] of component.findSpans(tags.slice(open - base, end), open)) {
      const span = [from, to, component.labelOf[c][component.slotOf[tag]]], key = span.join(" ");
      if (!this.known.has(key)) this.keepWaiting([span]);
      this.known.add(key);
    }
  }
  // Find the spans of the decoder for F that are final. A token that no candidate crosses cuts the problem.
  choose(labeling, group) {
    const { component: { groups, depths, cutoffs, places, tagsOf }, base } = this, { tags } = labeling, part = [];
    const labels = cutoffs.map((_, label) => label).filter((label) => groups[label] === group);
    for (let from = labeling.open, reached = from; ; ++from) {
      if (from === reached) {
        const final = findFinal(part.splice(0), cutoffs, depths[group]);
        if (!final) return;
        while (base + tags.length < from) tags.push(0);
        for (const [start, to, label] of final)
          tags.splice(start - base, to - start, ...pathOf(tagsOf, to - start, places[label].slot));
        this.keepWaiting(final);
        labeling.open = from;
        if (from === this.scored) return;
      }
      const found = this.search(from, cutoffs, labels);
      if (!found) return;
      part.push(...found);
      reached = Math.max(reached, from + 1, ...found.map(({ span: [, to] }) => to));
    }
  }
  // Keep spans until their probability is final, except those of identifiers.
  keepWaiting(spans) {
    this.waiting.push(...spans.filter(([from]) => this.tokens[from - this.base].fixed === undefined));
  }
  release() {
    const { component, base } = this, { least } = component, spans = [], waiting = this.waiting;
    this.waiting = [];
    for (const span of waiting) {
      const [low, high] = this.bound(span), minimum = least[span[2]];
      if (this.isOpen(low, high, minimum)) this.waiting.push(span);
      else if (low < minimum) this.dropped.push(span);
      else spans.push(this.show(span, component.calibrate((low + high) / 2, span[2], span[1] - span[0])));
    }
    const final = Math.min(...this.labelings.map(({ tags }) => base + tags.length));
    const undecided = Math.min(...this.waiting.map(([from]) => from), ...this.labelings.map(({ open }) => open));
    let end = component.isSpans && least.some(Boolean) ? Math.min(final, undecided) : final;
    const candidates = [], { minimum } = this, labels = component.labels.map((_, label) => label);
    for (let from = this.released; minimum && from < end; ++from) {
      const found = this.search(from, minimum, labels), isOpen = ({ span, low, high }) => this.isOpen(low, high, minimum[span[2]]);
      if (!found || found.some(isOpen)) end = from;
      else candidates.push(...found.map(({ span, low, high }) => this.show(span, (low + high) / 2)));
    }
    const numbers = Array.from({ length: end - this.released }, (_, k) => this.released + k);
    const isDropped = (i) => this.dropped.some(([from, to]) => from <= i && i < to);
    const tags = numbers.map((i) => component.spec.tags[isDropped(i) ? 0 : this.labelings[0].tags[i - base]]);
    const tokens = numbers.map((i) => this.tokens[i - base].token);
    this.released = end;
    this.dropped = this.dropped.filter(([, to]) => to > end);
    this.forget(component.isSpans ? Math.min(end, undecided) : end);
    return { tokens, tags: this.lattices.length > 1 ? [] : tags, spans, candidates };
  }
  show([from, to, label], probability) {
    const { tokens, base, component: { labels } } = this;
    return { ...show(tokens, from - base, to - base, base, labels[label]), probability };
  }
  // Whether a probability may still cross a threshold, or is not exact enough.
  isOpen(low, high, minimum) {
    return !this.isClosed && high >= minimum && (low < minimum || high - low > 2 * TOLERANCE);
  }
  // Return the least and the largest probability of a span.
  bound([from, to, label]) {
    const { tagsOf: { inside, last }, places } = this.component, { slot } = places[label];
    return this.boundTags(from, pathOf(this.component.tagsOf, to - from, slot), label, inside[slot] === last[slot] ? inside[slot] : -1);
  }
  // Return those of tags that begin at a token, in any layer of a label, where the next tag is not `then`.
  boundTags(from, tags, label, then = -1) {
    let low = 1, high = 1;
    for (const c of this.component.places[label].chains) {
      const [least, most] = this.lattices[c].bound(from - this.base, tags, then, this.isClosed);
      low *= 1 - least;
      high *= 1 - most;
    }
    return [1 - low, 1 - high];
  }
  // Return the spans from a token on that may reach the minimum of their label, each with its least and its largest
  // probability. Null if one may go on behind the tokens.
  search(from, minimum, labels) {
    const { places, tagsOf: { first, inside, single } } = this.component, found = [], i = from - this.base;
    // Few labels are likely at a token, and one step forward shows it.
    const mostIn = (c, slot) => Math.max(...[first, single].map((tags) => this.lattices[c].most(i, tags[slot])));
    const mostOf = ({ chains, slot }) => 1 - chains.reduce((p, c) => p * (1 - mostIn(c, slot)), 1);
    if (from < this.scored - 1) labels = labels.filter((label) => mostOf(places[label]) >= minimum[label]);
    for (let size = 1; labels.length; ++size) {
      if (from + size > this.scored) return this.isClosed ? found : null;
      for (const label of labels) {
        const span = [from, from + size, label], [low, high] = this.bound(span);
        if (high >= minimum[label]) found.push({ span, low, high });
      }
      // Longer spans are at most as likely as their beginnings.
      labels = labels.filter((label) => {
        const { slot } = places[label], tags = new Array(size).fill(inside[slot]);
        tags[0] = first[slot];
        return this.boundTags(from, tags, label)[1] >= minimum[label];
      });
    }
    return found;
  }
  // Forget the tokens before one, but those that later features read and the last one.
  forget(first) {
    const count = Math.min(first, this.scored - this.component.chain.scores.before) - this.base;
    // To move the others costs nothing a token if they are as few.
    if (2 * count <= this.tokens.length) return;
    this.tokens = this.tokens.slice(count);
    for (const lattice of this.lattices) lattice.drop(count);
    for (const { tags } of this.labelings) tags.splice(0, count);
    this.base += count;
    for (const key of this.known) if (parseInt(key, 10) < first) this.known.delete(key);
  }
}
