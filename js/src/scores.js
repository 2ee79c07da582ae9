// The keys of features, and the scores of tags. Mirrors spacy_bcrf/sparse/features.py and bcrf/kernels/cpu/sparse/scores.hh.

import { split } from "./characters.js";
import { PairTable, enlarged, hash, hashText, mix } from "./hash.js";
import { Weights } from "./weights.js";
import { column, findPlaces, wordAttribute } from "./word_attributes.js";

const REACH = 8; // largest distance of the words of a gram
const WIDEST = 3; // words of a gram
const KEPT = 2; // words of a gram whose sums are kept; longer ones are rarely seen again
const BLOCK = 1024; // tokens between two looks at the memory
const MOST_WORDS = 30000, MOST_SUMS = 8e6; // kept at once

// The hashed values of words, or of tokens of a document, by attribute. A: number of attributes.
class Values {
  constructor(A) {
    this.A = A;
    this.pool = new Int32Array(1024); // low and high halves
    this.ends = new Int32Array(1024); // by word and attribute; the one before is the start
    this.forget();
  }
  // lists: the strings of each token.
  static of(lists) {
    const values = new Values(1);
    for (const list of lists) {
      for (const text of list) values.addHash(text);
      values.endAttribute();
    }
    return values;
  }
  forget() {
    this.length = this.nEnds = 0;
  }
  get n() {
    return this.nEnds / this.A;
  }
  addHash(text) {
    hashText(text);
    this.add(hash[0], hash[1]);
  }
  add(low, high) {
    if (this.length === this.pool.length) this.pool = enlarged(this.pool);
    this.pool[this.length++] = low;
    this.pool[this.length++] = high;
  }
  endAttribute() {
    if (this.nEnds === this.ends.length) this.ends = enlarged(this.ends);
    this.ends[this.nEnds++] = this.length;
  }
  // Set what a template reads of word i and attribute k.
  give(part, i, k) {
    const at = i * this.A + k;
    part.values = this.pool;
    part.from = at ? this.ends[at - 1] : 0;
    part.to = this.ends[at];
  }
}

export class Scores {
  // spec: a chain of the header. file: has sections, tables, characters and symbols.
  constructor(spec, file) {
    const { n_tags: T, attributes } = spec, { sections } = file;
    Object.assign(this, { T, attributes, characters: file.characters, symbols: file.symbols, more: file.more });
    this.general = sections[spec.general];
    this.S = this.general.length / T - 3; // states of one of the chains side by side
    if (!(Number.isInteger(this.S) && T % this.S === 0)) throw new RangeError("the weights do not fit the tags");
    this.weights = new Weights(sections[spec.keys], sections[spec.mask], sections[spec.weights], T);
    const byName = (places, make) => Object.fromEntries(Object.entries(places).map(([name, k]) => [name, make(k)]));
    this.tables = byName(spec.tables, (k) => file.wordTable(k));
    this.address = spec.address === undefined ? null : readAddress(file.tables[spec.address], this.characters);
    this.phrases = byName(spec.gazetteers, (k) => file.tables[k]);
    this.places = byName(this.phrases, (text) => findPlaces(text, this.characters));
    this.columns = attributes.filter(({ kind, name }) => kind === "column" && name !== "orth").map(({ name }) => name);
    this.ofWord = attributes.map((each) => (each.kind === "word" ? wordAttribute(each, this) : null));
    this.ofDoc = attributes.map((each) => (each.kind === "listed" ? file.more.docAttribute(each.name, this) : null));
    this.needsDoc = this.ofDoc.some(Boolean);
    this.groupTemplates(spec.templates);
    // Of each template part: its values, and which of them count.
    this.given = Array.from({ length: Math.max(0, ...spec.templates.map(({ parts }) => parts.length)) }, () => ({ values: null, from: 0, to: 0 }));
    this.words = new Values(attributes.length);
    // By width, the grams as pairs of a shorter one and a last word, and their sums (grams, groups, T).
    this.grams = this.widths.map(() => new PairTable(new Int32Array(2048), 1024));
    this.sums = this.widths.map(() => new Float32Array(65536));
    this.sum = new Float32Array(T);
    this.forget();
  }
  // Group templates by number of words and first offset. Longer grams include the sums of shorter ones.
  groupTemplates(templates) {
    this.widths = Array.from({ length: WIDEST }, () => []);
    this.others = [];
    this.before = this.after = 1; // tokens on either side that a score depends on
    for (const { seed, parts } of templates) {
      const offsets = parts.map(([, offset]) => offset), first = Math.min(...offsets), last = Math.max(...offsets);
      this.before = Math.max(this.before, -first);
      this.after = Math.max(this.after, last);
      if (parts.some(([k]) => this.ofDoc[k]) || last - first >= WIDEST || first < -REACH || last > REACH) {
        this.others.push({ seed, parts });
        continue;
      }
      const groups = this.widths[last - first];
      let group = groups.find(({ offset }) => offset === first);
      if (!group) groups.push((group = { offset: first, templates: [], shorter: -1, isCovered: false }));
      group.templates.push({ seed, parts: parts.map(([k, offset]) => [k, offset - first]) });
    }
    while (this.widths.length > 1 && !this.widths.at(-1).length) this.widths.pop();
    for (let w = 1; w < this.widths.length; ++w)
      for (const group of this.widths[w]) {
        group.shorter = this.widths[w - 1].findIndex(({ offset }) => offset === group.offset);
        if (group.shorter >= 0) this.widths[w - 1][group.shorter].isCovered = true;
      }
  }
  forget() {
    this.ids = new Map(); // by values in other columns, in maps of their own, of words
    this.outside = new Map(); // of places outside of the text
    this.words.forget();
    for (const grams of this.grams) grams.forget();
  }
  // Append the hash that spaCy's vocabulary has of a string: symbols have small ones. None for "".
  addColumn(text) {
    const symbol = this.symbols.get(text);
    if (symbol !== undefined && text !== "") this.words.add(symbol, 0);
    else if (text !== "") this.words.addHash(text);
  }
  // Return the number of a word whose values have been appended.
  number() {
    const id = this.words.n - 1;
    return this.addGram(0, 0, [id], 0);
  }
  // Return the number of a word, with its values in other columns.
  idAt(doc, i, columns) {
    if (i < 0 || i >= doc.words.length) return this.idOutside(i < 0 ? i : i - doc.words.length);
    const word = doc.words[i];
    let { ids } = this;
    for (const name of this.columns) {
      const value = column(name, word, i, columns, this.characters), next = ids.get(value) ?? new Map();
      if (!next.size) ids.set(value, next);
      ids = next;
    }
    const known = ids.get(word);
    if (known !== undefined) return known;
    const characters = split(word), { words } = this;
    this.attributes.forEach(({ kind, name }, k) => {
      if (kind === "column") this.addColumn(column(name, word, i, columns, this.characters));
      else if (kind === "word") for (const value of this.ofWord[k](word, characters)) words.addHash(value);
      words.endAttribute();
    });
    const id = this.number();
    ids.set(word, id);
    return id;
  }
  // Return the number of a place before the text, -1, -2, .., or behind it, 0, 1, ..
  idOutside(at) {
    const known = this.outside.get(at);
    if (known !== undefined) return known;
    for (let k = 0; k < this.attributes.length; ++k) {
      this.words.add(at < 0 ? -at : 1 + at, (at < 0 ? 0xb05b05b0 : 0xe05e05e0) | 0);
      this.words.endAttribute();
    }
    const id = this.number();
    this.outside.set(at, id);
    return id;
  }
  // Add the features of a template with n parts, of `given` values, from part p on.
  expand(n, p, low, high, out, at) {
    const { weights, given } = this, { values, from, to } = given[p];
    if (p + 1 === n) {
      for (let i = from; i < to; i += 2) weights.add(low, high, values[i], values[i + 1], out, at);
      return;
    }
    for (let i = from; i < to; i += 2) {
      mix(low, high, values[i], values[i + 1]);
      this.expand(n, p + 1, hash[0], hash[1], out, at);
    }
  }
  // Add a gram, and return its number: the words ids[k ..], of which `shorter` is the gram without the last one.
  addGram(w, shorter, ids, k) {
    const groups = this.widths[w], grams = this.grams[w], { T } = this;
    let at = grams.n * groups.length * T;
    while (at + groups.length * T > this.sums[w].length) this.sums[w] = enlarged(this.sums[w]);
    for (const group of groups) {
      this.sumGram(w, group, shorter, ids, k, this.sums[w], at);
      at += T;
    }
    return grams.add(shorter, ids[k + w]);
  }
  // Set out[at ..] to the sums of a gram's features.
  sumGram(w, { shorter: group, templates }, shorter, ids, k, out, at) {
    const { T, given, words } = this, before = this.sums[w - 1], from = (shorter * this.widths[w - 1]?.length + group) * T;
    for (let t = 0; t < T; ++t) out[at + t] = group < 0 ? 0 : before[from + t];
    for (let i = 0; i < templates.length; ++i) {
      const { seed, parts } = templates[i], n = parts.length;
      for (let p = 0; p < n; ++p) words.give(given[p], ids[k + parts[p][1]], parts[p][0]);
      this.expand(n, 0, seed[0], seed[1], out, at);
    }
  }
  // Return the grams of the tokens [begin, end) and around them, by width and first position.
  findGrams(doc, columns, begin, end) {
    const n = this.before + end - begin + this.after, ids = new Int32Array(n), found = [ids];
    for (let k = 0; k < n; ++k) ids[k] = this.idAt(doc, begin - this.before + k, columns);
    for (let w = 1; w < Math.min(KEPT, this.widths.length); ++w) {
      const list = new Int32Array(n - w), shorter = found[w - 1], grams = this.grams[w];
      for (let k = 0; k < n - w; ++k) {
        const place = grams.find(shorter[k], ids[k + w]);
        list[k] = place < 0 ? this.addGram(w, shorter[k], ids, k) : place >> 1;
      }
      found.push(list);
    }
    return found;
  }
  // Return the scores (to - from, T) of tokens of a document, float32.
  //
  // columns: tags of earlier components, by attribute. pooled: values of the first chain of two passes.
  score(doc, columns, { pooled = null, from = 0, to = doc.words.length } = {}) {
    const { T, others, given } = this, n = doc.words.length, out = new Float32Array((to - from) * T);
    const read = this.needsDoc && { ...doc, lower: doc.words.map((word) => this.characters.lower(word)), columns, pooled };
    const listed = read && this.ofDoc.map((values) => values && Values.of(values(read)));
    for (let begin = from; begin < to; begin += BLOCK) {
      const nSums = this.widths.reduce((sum, groups, w) => sum + groups.length * T * this.grams[w].n, 0);
      if (this.words.n > MOST_WORDS || nSums > MOST_SUMS) this.forget();
      const end = Math.min(begin + BLOCK, to), found = this.findGrams(doc, columns, begin, end);
      for (let i = begin; i < end; ++i) {
        const at = (i - from) * T;
        this.addPosition(out, at, i === 0, i === n - 1);
        this.addGrams(out, at, found, i - begin + this.before);
        for (const { seed, parts } of others) {
          parts.forEach(([k, offset], p) => {
            const isInside = i + offset >= 0 && i + offset < n;
            if (isInside && listed?.[k]) listed[k].give(given[p], i + offset, 0);
            else this.words.give(given[p], this.idAt(doc, i + offset, columns), k);
          });
          this.expand(parts.length, 0, seed[0], seed[1], out, at);
        }
      }
    }
    return out;
  }
  addPosition(out, at, isFirst, isLast) {
    const { general, S, T } = this;
    for (let t = 0; t < T; ++t) {
      out[at + t] = general[S * T + t];
      if (isFirst) out[at + t] += general[(S + 1) * T + t];
      if (isLast) out[at + t] += general[(S + 2) * T + t];
    }
  }
  addGrams(out, at, found, i) {
    const { T, widths, sum } = this;
    for (let w = 0; w < widths.length; ++w) {
      const groups = widths[w];
      for (let g = 0; g < groups.length; ++g) {
        if (groups[g].isCovered) continue;
        const k = i + groups[g].offset, isKept = w < KEPT, sums = isKept ? this.sums[w] : sum;
        if (!isKept) this.sumGram(w, groups[g], found[w - 1][k], found[0], k, sum, 0);
        const from = isKept ? (found[w][k] * groups.length + g) * T : 0;
        for (let t = 0; t < T; ++t) out[at + t] += sums[from + t];
      }
    }
  }
}

// Return what the attribute `address` reads: patterns, and the characters that HTML names.
function readAddress(spec, characters) {
  return { ...spec, direction: characters.pattern(spec.direction), street: characters.pattern(spec.street) };
}
