// Weights, feature keys, and the scores of tags.
// Mirrors spacy_bcrf/sparse/features.py and bcrf/kernels/cpu/sparse/scores.hh.

import { split } from "./characters.js";
import { Gazetteer, column, docAttribute } from "./doc_attributes.js";
import { PairTable, enlarged, hash, hashText, mix } from "./hash.js";
import { wordAttribute } from "./word_attributes.js";

const REACH = 8; // largest distance of the words of a gram
const WIDEST = 3; // words of a gram
const BLOCK = 1024; // tokens between two looks at the memory
const MOST_WORDS = 30000, MOST_SUMS = 8e6; // kept at once
const NONE = [];

export class Scores {
  // spec: a chain of the header. file: has sections, tables, characters and symbols.
  constructor(spec, file) {
    const { n_tags: T, attributes } = spec, { sections } = file;
    Object.assign(this, { T, attributes, characters: file.characters, symbols: file.symbols });
    this.general = sections[spec.general];
    this.S = this.general.length / T - 3; // states of one of the chains side by side
    if (!(Number.isInteger(this.S) && T % this.S === 0)) throw new RangeError("the weights do not fit the tags");
    this.keys = new PairTable(sections[spec.keys]);
    this.findRows(sections[spec.mask], sections[spec.weights]);
    const byName = (places, make) => Object.fromEntries(Object.entries(places).map(([name, k]) => [name, make(k)]));
    this.tables = byName(spec.tables, (k) => file.wordTable(k));
    this.address = spec.address === undefined ? null : readAddress(file.tables[spec.address], this.characters);
    this.gazetteers = byName(spec.gazetteers, (k) => new Gazetteer(file.tables[k], this.characters));
    this.columns = attributes.filter(({ kind, name }) => kind === "column" && name !== "orth").map(({ name }) => name);
    this.ofWord = attributes.map((each) => (each.kind === "word" ? wordAttribute(each, this) : null));
    this.ofDoc = attributes.map((each) => (each.kind === "listed" ? docAttribute(each.name, this) : null));
    this.needsDoc = this.ofDoc.some(Boolean);
    this.given = []; // the values of the parts of a template
    this.groupTemplates(spec.templates);
    this.forget();
  }
  // Find the weights of each key that are not 0: weight k has the tag tags[2 k] and the value values[2 k + 1], which share
  // memory. bits (F, T / 8): which weights they are.
  findRows(bits, weights) {
    const { n } = this.keys, { T } = this, width = (T + 7) >> 3;
    this.rows = new Int32Array(n + 1);
    this.tags = new Int32Array(2 * weights.length);
    this.weights = new Float32Array(this.tags.buffer);
    if (bits.length !== n * width) throw new RangeError("the weights do not fit the keys");
    let total = 0;
    bits.forEach((byte, at) => {
      for (; byte; byte &= byte - 1, ++total) {
        this.tags[2 * total] = 8 * (at % width) + 31 - Math.clz32(byte & -byte);
        this.weights[2 * total + 1] = weights[total];
        if (this.tags[2 * total] >= T) throw new RangeError("the weights do not fit the tags");
      }
      this.rows[Math.floor(at / width) + 1] = 2 * total;
    });
    if (total !== weights.length) throw new RangeError("the weights do not fit the keys");
  }
  // Group templates by number of words and first offset. Longer grams include the sums of shorter ones.
  groupTemplates(templates) {
    this.widths = Array.from({ length: WIDEST }, () => []);
    this.others = [];
    this.before = this.after = 0;
    // How many tokens on either side a score depends on.
    this.reach = { before: 1, after: 1 };
    for (const { seed, parts } of templates) {
      const offsets = parts.map(([, offset]) => offset), first = Math.min(...offsets), last = Math.max(...offsets);
      this.reach.before = Math.max(this.reach.before, -first);
      this.reach.after = Math.max(this.reach.after, last);
      if (parts.some(([k]) => this.ofDoc[k]) || last - first >= WIDEST || first < -REACH || last > REACH) {
        this.others.push({ seed, parts });
        continue;
      }
      const groups = this.widths[last - first];
      let group = groups.find(({ offset }) => offset === first);
      if (!group) groups.push((group = { offset: first, templates: [], shorter: -1, isCovered: false }));
      group.templates.push({ seed, parts: parts.map(([k, offset]) => [k, offset - first]) });
      this.before = Math.max(this.before, -first);
      this.after = Math.max(this.after, last);
    }
    while (this.widths.length > 1 && !this.widths.at(-1).length) this.widths.pop();
    for (let w = 1; w < this.widths.length; ++w)
      for (const group of this.widths[w]) {
        group.shorter = this.widths[w - 1].findIndex(({ offset }) => offset === group.offset);
        if (group.shorter >= 0) this.widths[w - 1][group.shorter].isCovered = true;
      }
  }
  forget() {
    this.ids = new Map();
    this.values = []; // of each word: by attribute [low, high, low, high, ..]
    // By width, the grams as pairs of a shorter one and a last word, and their sums (grams, groups, T).
    this.grams = this.widths.map(() => new PairTable(new Int32Array(2048), 0));
    this.sums = this.widths.map(() => new Float32Array(65536));
  }
  hashes(texts) {
    const found = [];
    for (let i = 0; i < texts.length; ++i) {
      hashText(texts[i]);
      found.push(hash[0], hash[1]);
    }
    return found;
  }
  // The hash that spaCy's vocabulary has of a string: symbols have small ones. None for "".
  hashColumn(text) {
    const symbol = this.symbols.get(text);
    return text === "" ? NONE : symbol === undefined ? this.hashes([text]) : [symbol, 0];
  }
  // Return the number of a new word, or of a place outside of the text.
  number(key, values) {
    const id = this.values.push(values) - 1;
    this.ids.set(key, id);
    this.addGram(0, id, 0, [id], 0);
    return id;
  }
  // Return the number of a word, with its values in other columns.
  idAt(words, i, columns) {
    if (i < 0 || i >= words.length) {
      const at = i < 0 ? i : i - words.length, id = this.ids.get(at);
      if (id !== undefined) return id;
      const value = at < 0 ? [-at, 0xb05b05b0 | 0] : [1 + at, 0xe05e05e0 | 0];
      return this.number(at, this.attributes.map(() => value));
    }
    const word = words[i], read = (name) => column(name, word, i, columns, this.characters);
    const key = this.columns.length ? [word, ...this.columns.map(read)].join("\0") : word, id = this.ids.get(key);
    if (id !== undefined) return id;
    const characters = split(word);
    return this.number(key, this.attributes.map(({ kind, name }, k) =>
      kind === "column" ? this.hashColumn(read(name)) : kind === "word" ? this.hashes(this.ofWord[k](word, characters)) : NONE));
  }
  // Add the features of a template with n parts, of `given` values, from part p on.
  expand(n, p, low, high, out, at) {
    const values = this.given[p];
    for (let i = 0; i < values.length; i += 2) {
      mix(low, high, values[i], values[i + 1]);
      if (p + 1 < n) this.expand(n, p + 1, hash[0], hash[1], out, at);
      else this.addWeights(this.keys.find(hash[0], hash[1]), out, at);
    }
  }
  addWeights(row, out, at) {
    if (row < 0) return;
    const { rows, tags, weights } = this, end = rows[row + 1];
    for (let k = rows[row]; k < end; k += 2) out[at + tags[k]] += weights[k + 1];
  }
  // Return the number of a gram: the words ids[k ..], of which `shorter` is the gram without the last one.
  addGram(w, shorter, last, ids, k) {
    const groups = this.widths[w], { T, given, values } = this, number = this.grams[w].add(shorter, last);
    let at = number * groups.length * T;
    while (at + groups.length * T > this.sums[w].length) this.sums[w] = enlarged(this.sums[w]);
    const sums = this.sums[w];
    for (const group of groups) {
      if (group.shorter >= 0) {
        const from = (shorter * this.widths[w - 1].length + group.shorter) * T;
        for (let t = 0; t < T; ++t) sums[at + t] = this.sums[w - 1][from + t];
      }
      for (const { seed, parts } of group.templates) {
        for (let p = 0; p < parts.length; ++p) given[p] = values[ids[k + parts[p][1]]][parts[p][0]];
        this.expand(parts.length, 0, seed[0], seed[1], sums, at);
      }
      at += T;
    }
    return number;
  }
  // Return the grams of the tokens [begin, end) and around them, by width and first position.
  findGrams({ words }, columns, begin, end) {
    const n = this.before + end - begin + this.after, ids = new Int32Array(n), found = [ids];
    for (let k = 0; k < n; ++k) ids[k] = this.idAt(words, begin - this.before + k, columns);
    for (let w = 1; w < this.widths.length; ++w) {
      const grams = this.grams[w], shorter = found[w - 1], list = new Int32Array(n - w);
      for (let k = 0; k < n - w; ++k) {
        const number = grams.find(shorter[k], ids[k + w]);
        list[k] = number < 0 ? this.addGram(w, shorter[k], ids[k + w], ids, k) : number;
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
    const lower = this.needsDoc ? doc.words.map((word) => this.characters.lower(word)) : null;
    const read = { ...doc, lower, columns, pooled };
    const listed = this.ofDoc.map((values) => values?.(read).map((each) => this.hashes(each)));
    for (let begin = from; begin < to; begin += BLOCK) {
      const nSums = this.sums.reduce((sum, { length }) => sum + length, 0);
      if (this.values.length > MOST_WORDS || nSums > MOST_SUMS) this.forget();
      const end = Math.min(begin + BLOCK, to), found = this.findGrams(doc, columns, begin, end);
      for (let i = begin; i < end; ++i) {
        const at = (i - from) * T;
        this.addPosition(out, at, i === 0, i === n - 1);
        this.addGrams(out, at, found, i - begin + this.before);
        for (const { seed, parts } of others) {
          parts.forEach(([k, offset], p) => {
            const isInside = i + offset >= 0 && i + offset < n;
            given[p] = isInside && listed[k] ? listed[k][i + offset] : this.values[this.idAt(doc.words, i + offset, columns)][k];
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
    const { T, widths } = this;
    for (let w = 0; w < widths.length; ++w) {
      const groups = widths[w], sums = this.sums[w];
      for (let g = 0; g < groups.length; ++g) {
        if (groups[g].isCovered) continue;
        const from = (found[w][i + groups[g].offset] * groups.length + g) * T;
        for (let t = 0; t < T; ++t) out[at + t] += sums[from + t];
      }
    }
  }
}

// Return what the attribute `address` reads: patterns, and the characters that HTML names.
function readAddress(spec, characters) {
  return { ...spec, direction: characters.pattern(spec.direction), street: characters.pattern(spec.street) };
}
