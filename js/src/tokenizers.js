// Tokenizers. Mirrors spaCy's tokenizer.pyx and spacy_bcrf/annotation/tokenizers.py.
//
// A tokenizer has stages, which split texts, then what the stage before has found. `split(text)` returns words, and whether
// a blank follows each. Words and blanks together are the text.

import { isSpace, isSpaceAt } from "./characters.js";

const NONE = [];
const MOST_WORDS = 20000, LONGEST = 200; // of the texts whose words are kept

export class Tokenizer {
  constructor(stages, characters) {
    const kinds = { affixes: Affixes, starts: Starts, parts: Parts };
    this.stages = stages.map(([kind, spec]) => {
      if (!Object.hasOwn(kinds, kind)) throw new RangeError(`the tokenizer ${kind} is unknown`);
      return new kinds[kind](spec, characters);
    });
  }
  split(text) {
    let found = this.stages[0].split(text);
    for (let k = 1; k < this.stages.length; ++k) {
      const words = [], spaces = [];
      for (let i = 0; i < found.words.length; ++i) {
        const parts = this.stages[k].split(found.words[i]);
        for (const part of parts.words) words.push(part);
        for (const space of parts.spaces) spaces.push(space);
        spaces[spaces.length - 1] ||= found.spaces[i];
      }
      found = { words, spaces };
    }
    return found;
  }
  // Return the tokens of a text: words, spaces, their first and last UTF-16 offsets, and which are white space.
  tokenize(text) {
    const { words, spaces } = text ? this.split(text) : { words: [], spaces: [] }, starts = [], ends = [], isBlank = [];
    for (let i = 0, at = 0; i < words.length; ++i) {
      const word = words[i];
      starts.push(at);
      ends.push((at += word.length));
      isBlank.push(isSpaceAt(word, 0) && isSpace(word));
      if (spaces[i]) ++at;
    }
    return { text, words, spaces, starts, ends, isBlank };
  }
}

// Keep what has been made of a text, and return it.
function keep(known, text, made) {
  if (known.size > MOST_WORDS) known.clear();
  if (text.length < LONGEST) known.set(text, made);
  return made;
}

// The matches of a pattern with two groups: a word and its trailing blank. It splits characters, kinds of characters, and
// white space at the edges of pieces.
class Parts {
  // ofTokens: whether a blank at the end is a token, as in tokens of another tokenizer.
  constructor({ pattern, ofTokens }, characters) {
    Object.assign(this, { pattern: characters.pattern(pattern, "gs"), ofTokens, known: new Map() });
  }
  split(text) {
    return this.known.get(text) ?? keep(this.known, text, this.match(text));
  }
  match(text) {
    const { pattern } = this, words = [], spaces = [];
    pattern.lastIndex = 0;
    for (let match; (match = pattern.exec(text)); ) {
      words.push(match[1]);
      spaces.push(match[2] === " ");
    }
    if (this.ofTokens && spaces.at(-1)) {
      words.push(" ");
      spaces[spaces.length - 1] = false;
    }
    return { words, spaces };
  }
}

// Pieces begin at the matches of a pattern. White space at their edges is a token of its own.
class Starts {
  constructor({ pattern, edges }, characters) {
    Object.assign(this, { pattern: characters.pattern(pattern, "g"), edges: new Parts(edges, characters) });
  }
  split(text) {
    const starts = [...new Set(Array.from(text.matchAll(this.pattern), (match) => match.index))], words = [], spaces = [];
    let from = 0;
    for (const to of [...starts.slice(1), text.length]) {
      const parts = this.edges.split(text.slice(from, to));
      from = to;
      words.push(...parts.words);
      spaces.push(...parts.spaces);
    }
    return { words, spaces };
  }
}

// spaCy's tokenizer: prefixes, suffixes, infixes and special cases of the words between white space.
export class Affixes {
  constructor(spec, characters) {
    const compile = (name, flags) => (spec[name] ? characters.pattern(spec[name], flags) : null);
    this.prefix = compile("prefix", "");
    this.suffix = compile("suffix", "");
    this.infix = compile("infix", "g");
    this.token = compile("token", "y");
    this.url = compile("url", "y");
    this.rules = new Map(Object.entries(spec.rules));
    this.splitCases = new Map(); // the words of cases that affixes split, by their first one
    for (const words of Object.values(spec.split)) {
      if (!this.splitCases.has(words[0])) this.splitCases.set(words[0], []);
      this.splitCases.get(words[0]).push(words);
    }
    this.known = new Map();
  }
  // Return the same tokenizer without special cases.
  withoutCases() {
    const own = { rules: new Map(), splitCases: new Map(), known: new Map() };
    return Object.assign(Object.create(Affixes.prototype), this, own);
  }
  split(text) {
    const words = [], spaces = [], n = text.length;
    for (let start = 0, end; start < n; start = end) {
      const inSpace = isSpaceAt(text, start);
      for (end = start + 1; end < n && isSpaceAt(text, end) === inSpace; ++end);
      // The blank behind a word belongs to it.
      if (inSpace && words.length && text[start] === " ") {
        spaces[spaces.length - 1] = true;
        ++start;
      }
      if (start === end) continue;
      for (const word of this.splitWord(text.slice(start, end))) {
        words.push(word);
        spaces.push(false);
      }
    }
    return this.joinCases(words, spaces);
  }
  splitWord(word) {
    return this.known.get(word) ?? keep(this.known, word, this.rules.get(word) ?? this.cutAffixes(word));
  }
  // Whether a text is a token of `token_match` or `url_match`.
  matches(pattern, text) {
    if (!pattern) return false;
    pattern.lastIndex = 0;
    return pattern.test(text);
  }
  cutAffixes(text) {
    const before = [], after = [], size = (pattern, part) => pattern?.exec(part)?.[0].length ?? 0;
    let last = 0, isCase = false;
    const cut = (prefix, suffix) => {
      if (prefix) before.push(text.slice(0, prefix));
      if (suffix) after.push(text.slice(-suffix));
      text = text.slice(prefix, text.length - suffix);
      isCase = this.rules.has(text);
    };
    while (text && text.length !== last && !isCase && !this.matches(this.token, text)) {
      last = text.length;
      const prefix = size(this.prefix, text), suffix = size(this.suffix, text.slice(prefix));
      if (prefix && this.rules.has(text.slice(prefix))) cut(prefix, 0);
      else if (suffix && this.rules.has(text.slice(0, -suffix))) cut(0, suffix);
      else if (prefix + suffix <= text.length) cut(prefix, suffix);
      else cut(prefix, prefix ? 0 : suffix);
    }
    if (isCase) before.push(...this.rules.get(text));
    else if (this.matches(this.token, text) || this.matches(this.url, text)) before.push(text);
    else this.cutInfixes(text, before);
    return before.concat(after.reverse());
  }
  cutInfixes(text, words) {
    const { infix } = this;
    let start = 0;
    if (infix) infix.lastIndex = 0;
    for (let match; (match = infix?.exec(text)); ) {
      const { index, 0: { length } } = match;
      if (!length) infix.lastIndex += text.codePointAt(index) > 0xffff ? 2 : 1;
      if (index === 0) continue;
      if (index !== start) words.push(text.slice(start, index));
      if (length) words.push(match[0]);
      start = index + length;
    }
    if (start < text.length) words.push(text.slice(start));
  }
  // Find special cases across words: of overlapping ones the longest, then the first.
  joinCases(words, spaces) {
    const found = [];
    for (let i = 0; i < words.length; ++i)
      for (const list of this.splitCases.get(words[i]) ?? NONE)
        if (list.every((each, k) => words[i + k] === each)) found.push([i, i + list.length]);
    if (!found.length) return { words, spaces };
    const kept = longestFirst(found).sort((a, b) => b[0] - a[0]);
    for (const [from, to] of kept) {
      let text = "";
      for (let i = from; i < to; ++i) text += words[i] + (spaces[i] && i < to - 1 ? " " : "");
      const rule = this.rules.get(text);
      if (!rule) continue;
      const last = spaces[to - 1];
      words.splice(from, to - from, ...rule);
      spaces.splice(from, to - from, ...rule.map((_, k) => k === rule.length - 1 && last));
    }
    return { words, spaces };
  }
}

// Return the spans [from, to] that overlap none of a longer one, or an earlier one of the same length.
function longestFirst(spans) {
  const seen = new Set();
  return spans.sort((a, b) => b[1] - b[0] - (a[1] - a[0]) || a[0] - b[0]).filter(([from, to]) => {
    const isFree = !seen.has(from) && !seen.has(to - 1);
    for (let i = from; i < to; ++i) seen.add(i);
    return isFree;
  });
}
