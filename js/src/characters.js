// Characters as Python's `str` sees them, in the exporter's version of Unicode: browsers may have a newer one.
// Mirrors spacy_bcrf/browser/characters.py.

export const WHITE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
export const SPACE = new RegExp(`[${WHITE}]`);
const ALL_SPACE = new RegExp(`^[${WHITE}]+$`);
const SURROGATE = /[\ud800-\udfff]/;
const LONE = /\p{Surrogate}/u;
export const UPPER = 1;
export const LOWER = 2;
export const TITLE = 4;
export const DIGIT = 8;
export const NUMERIC = 16;
export const ALPHA = 32;
export const ALNUM = 64;
export const PUNCTUATION = 128;
export const DROPPED = 256;
export const MARK = 512;
const NAMES = ["upper", "lower", "title", "digit", "numeric", "alpha", "alnum", "punctuation", "dropped", "mark"];
const CASED = UPPER | LOWER | TITLE;

export const isSpace = (text) => ALL_SPACE.test(text);
export const isSpaceAt = (text, i) => {
  const code = text.charCodeAt(i);
  if (code > 127) return SPACE.test(text[i]);
  return code === 32 || (code >= 9 && code <= 13) || (code >= 28 && code <= 31);
};
export const split = (text) => (SURROGATE.test(text) ? [...text] : text.split(""));
export const join = (characters, from, to) => characters.slice(from, to).join("");

// Throw a RangeError that names the first lone surrogate of a text: it is no character.
export function checkText(text) {
  if (typeof text !== "string") throw new TypeError(`expected a text, got ${typeof text}`);
  const found = SURROGATE.test(text) && LONE.exec(text);
  if (found) throw new RangeError(`character ${found.index} of the text is a lone surrogate; decode the text correctly`);
}

// Return a function from UTF-16 offsets to offsets in code points. It is fast for offsets in ascending order.
export function codePoints(text) {
  if (!SURROGATE.test(text)) return (offset) => offset;
  let at = 0, points = 0;
  return (offset) => {
    if (offset < at) at = points = 0;
    for (; at < offset; ++points) at += text.codePointAt(at) > 0xffff ? 2 : 1;
    return points;
  };
}

// Return how many elements of an ascending list are below a number.
export function countBelow(list, x) {
  let low = 0;
  for (let high = list.length; low < high; ) {
    const middle = (low + high) >> 1;
    if (list[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low;
}

export class Characters {
  // properties: ranges as gaps and lengths, by name. casefolds: those that differ from the lower case.
  constructor({ properties, casefolds }) {
    this.bits = new Uint16Array(0x110000);
    this.sets = {};
    this.casefolds = new Map(Object.entries(casefolds));
    for (const [name, ranges] of Object.entries(properties)) {
      const bit = NAMES.includes(name) ? 1 << NAMES.indexOf(name) : 0, numbers = ranges.split(".").map((number) => parseInt(number, 36));
      let set = "", from = 0;
      numbers.forEach((number, i) => {
        const to = from + number;
        if (!(from <= to && to <= 0x110000)) throw new RangeError(`the ranges of ${name} are wrong`);
        if (i % 2) {
          for (let code = from; bit && code < to; ++code) this.bits[code] |= bit;
          set += `\\u{${from.toString(16)}}-\\u{${(to - 1).toString(16)}}`;
        }
        from = to;
      });
      this.sets[name] = set;
    }
  }
  // Compile a pattern of `patterns.py`, whose \p{name} are sets of this version of Unicode.
  pattern([source, flags], more = "") {
    return new RegExp(source.replace(/\\p\{(\w+)\}/g, (_, name) => this.sets[name]), flags + more);
  }
  of(character) {
    return this.bits[character.codePointAt(0)];
  }
  // Return the properties that any of the characters has.
  any(characters) {
    let found = 0;
    for (const c of characters) found |= this.of(c);
    return found;
  }
  isUpper(characters) {
    return (this.any(characters) & CASED) === UPPER;
  }
  isLower(characters) {
    return (this.any(characters) & CASED) === LOWER;
  }
  lower(text) {
    // Attributes of a word ask for the same text.
    if (text !== this.given) Object.assign(this, { given: text, lowered: this.lowerAll(text) });
    return this.lowered;
  }
  lowerAll(text) {
    const low = text.toLowerCase();
    // Letters that the exporter's Unicode does not have stay.
    if (low === text || ![...text].some((c) => c > "\x7f" && !this.of(c) && c.toLowerCase() !== c)) return low;
    return Array.from(text, (c) => (this.of(c) ? c.toLowerCase() : c)).join("");
  }
  casefold(text) {
    return Array.from(text, (c) => this.casefolds.get(c) ?? this.lower(c)).join("");
  }
}
