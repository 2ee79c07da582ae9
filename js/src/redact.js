// De-identification. Mirrors spacy_bcrf/privacy (redact.py, replacer.py, numbers of vault.py) and spacy_bcrf/annotation/folding.py.

import { ALNUM, ALPHA, DROPPED, MARK, NUMERIC, PUNCTUATION, SPACE, UPPER, WHITE, countBelow, isSpace, split } from "./characters.js";

const MIN_POOLED = 0.1; // smallest pooled probability of a string whose occurrences are all replaced
const MOST_KNOWN = 1 << 16; // folded characters
const ESCAPE = /\\(?:u[0-9a-f]{4}|x[0-9a-f]{2}|[nrtbf])|%[0-9a-f]{2}/g; // what stands before a word in JSON, code and URLs
const SHORTEST_GLUED = 6; // letters of words that nothing separates
const MIN_DIGITS = 5; // of a number that is a part of a found string and one of its own
const PLACEHOLDER = /\[[^[\]]+_\d+\]/g;
export const STYLES = ["label", "mask", "numbered"];
const STRIP = new RegExp(`^[${WHITE}]+|[${WHITE}]+$`, "g");
const RUNS = new RegExp(`[^${WHITE}]+[${WHITE}]?|[${WHITE}]+`, "gu");
const PLAIN = /^(?!.* {2})[\x21-\x7e ]*$/; // printable ASCII whose blanks are single

// Compares strings whatever their case, marks and invisible characters.
export class Folding {
  constructor(characters, unit) {
    this.characters = characters;
    this.unit = characters.pattern(unit, "y");
    this.known = new Map();
  }
  // Whether a character can tell something: no blank, punctuation or sign of ASCII.
  isSign(c) {
    return c < "\x80" ? (this.characters.of(c) & ALNUM) > 0 : !SPACE.test(c) && !(this.characters.of(c) & PUNCTUATION);
  }
  // Whether a character belongs to the one before it: marks, vowels of Hangul.
  continues(c) {
    return (c >= "\u1160" && c <= "\u11ff") || (this.characters.of(c) & (DROPPED | MARK)) > 0;
  }
  // Return the folded text of a character and its marks.
  foldCharacter(text) {
    const c = this.characters, isLetter = c.of(text) & ALPHA;
    // A newer Unicode has other forms of letters that the exporter's does not have.
    const plain = !isLetter && /^\p{L}/u.test(text) ? text : c.casefold(text).normalize("NFKD");
    const kept = [...plain].filter((x) => !(c.of(x) & DROPPED)).join("");
    if (isLetter && !kept.replace(STRIP, "")) return [...text][0];
    return c.casefold(kept).normalize("NFC").replace(/[\u2018\u2019\u02bc]/g, "'");
  }
  // Return the folded text, and the place in the old text of each of its UTF-16 units.
  foldText(text) {
    if (PLAIN.test(text)) return { text: text.toLowerCase(), offsets: null };
    const offsets = [];
    let folded = "";
    const add = (part, offset) => {
      folded += part;
      for (let k = 0; k < part.length; ++k) offsets.push(offset);
    };
    for (const { 0: run, index } of text.matchAll(RUNS)) {
      const characters = isSpace(run) ? [" "] : [...run], length = folded.length;
      if (SPACE.test(characters.at(-1))) characters[characters.length - 1] = " ";
      for (let i = 0, at = index; i < characters.length; ) {
        let piece = characters[i];
        const isSign = this.isSign(piece);
        while (++i < characters.length && isSign && this.continues(characters[i])) piece += characters[i];
        if (!this.known.has(piece)) {
          if (this.known.size > MOST_KNOWN) this.known.clear();
          this.known.set(piece, this.foldCharacter(piece));
        }
        add(this.known.get(piece), at);
        at += piece.length;
      }
      // Of neighbouring blanks, one is kept. Format characters between them fold to nothing.
      if (folded.length === length + 1 && folded.endsWith("  ")) {
        folded = folded.slice(0, -1);
        offsets.pop();
      }
    }
    offsets.push(text.length);
    return { text: folded, offsets };
  }
  fold(text) {
    return this.foldText(text).text;
  }
  // Fold without blanks around and without a possessive ending.
  foldName(text) {
    return this.fold(text).replace(STRIP, "").replace(/(?<=.)'s?$/su, "");
  }
}

// Return the strings, each with its places [start, end] in a text, at edges of words or signs. A plural ending may follow.
function findPlaces(strings, text, folding) {
  const { text: folded, offsets } = folding.foldText(text), n = folded.length, places = new Map(), lengths = new Map(), { unit } = folding;
  for (const { text: string } of strings) {
    places.set(string, []);
    if (!lengths.has(string[0])) lengths.set(string[0], new Set());
    lengths.get(string[0]).add(string.length);
  }
  const place = (i) => (offsets ? offsets[i] : i), isWhole = (i) => place(i) !== place(i - 1); // some characters fold to several
  // Where no word or sign begins or ends. A word may also stand behind an escape of JSON, code or URLs.
  const isInside = new Uint8Array(n + 1), isEscaped = new Uint8Array(n + 1);
  for (let i = 0, from = 0; from < n; from = i) {
    unit.lastIndex = from;
    i = unit.test(folded) ? unit.lastIndex : from + 1;
    isInside.fill(1, from + 1, i);
  }
  for (const { 0: escape, index } of folded.matchAll(ESCAPE)) isEscaped[index + escape.length] = 1;
  const isEdge = (i) => isWhole(i) && !isInside[i], endings = /e?s/y;
  const isEnd = (i) => isEdge(i) || ((endings.lastIndex = i), isWhole(i) && endings.test(folded) && isEdge(endings.lastIndex));
  for (let i = 0; i < n; ++i) {
    if ((isInside[i] && !isEscaped[i]) || !isWhole(i)) continue;
    for (const length of lengths.get(folded[i]) ?? []) {
      const end = i + length, found = end <= n && places.get(folded.slice(i, end));
      if (found && isEnd(end)) found.push([place(i), place(end)]);
    }
  }
  // A word in upper case does not occur in lower case.
  const c = folding.characters, isOther = (start, end) => c.isLower(split(text.slice(start, end)));
  return strings.map((string) => [string, places.get(string.text).filter((bounds) => !(string.isWord && isOther(...bounds)))]);
}

// Yield other forms of a folded name of two to four words: as names of users and files are.
function* joinWords(name, c) {
  const words = name.replace(/\.+$/, "").split(/[ _.-]+/), isWord = (word) => /[^']/.test(word) && [...word].every((x) => x === "'" || c.of(x) & ALPHA);
  if (words.length < 2 || words.length > 4 || !words.every(isWord)) return;
  for (const some of words.length > 2 ? [words, [words[0], words.at(-1)]] : [words]) {
    const lengths = some.map((word) => [...word].length), signs = ["_", ".", "-"];
    if (Math.min(...lengths) > 1) signs.push(" ", ...(lengths.reduce((a, b) => a + b) < SHORTEST_GLUED ? [] : [""]));
    for (const form of signs.map((sign) => some.join(sign))) if (form !== name) yield form;
  }
}

// Return the strings to replace: found ones, their forms and words, each with the label of the highest score.
function findStrings({ text, words, starts }, spans, folding) {
  const found = new Map(), forms = new Map(), parts = new Map(), c = folding.characters;
  for (const { start, end, label } of [...spans].sort((a, b) => a.score - b.score)) {
    const name = folding.foldName(text.slice(start, end));
    if (name) found.set(name, { text: name, label, isWord: false });
    for (const form of joinWords(name, c)) forms.set(form, { text: form, label, isWord: false, name });
    for (let i = countBelow(starts, start); i < countBelow(starts, end); ++i) {
      const word = c.isLower(split(words[i])) ? "" : folding.foldName(words[i]);
      const signs = [...word].filter((x) => c.of(x) & ALNUM), hasLetter = signs.some((x) => c.of(x) & ALPHA);
      if (signs.length >= MIN_DIGITS || (signs.length > 1 && hasLetter)) parts.set(word, { text: word, label, isWord: true });
    }
  }
  return [...new Map([...parts, ...forms, ...found]).values()];
}

// Return regions without overlaps: their unions, with the label of the highest score.
function mergeRegions(regions) {
  const merged = [], order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  regions.sort((a, b) => a.start - b.start || a.end - b.end || order(a.label, b.label) || a.score - b.score || a.repeated - b.repeated);
  for (const region of regions) {
    const last = merged.at(-1);
    if (!last || region.start >= last.end) {
      merged.push({ ...region });
      continue;
    }
    const isBetter = last.repeated === region.repeated ? region.score > last.score : last.repeated;
    merged[merged.length - 1] = { ...(isBetter ? region : last), start: last.start, end: Math.max(last.end, region.end) };
  }
  return merged;
}

// Return the replacement of each region, and what numbered placeholders stand for.
function makeReplacer(style, text, folding) {
  const numbers = new Map(), placeholders = {}, c = folding.characters, taken = new Set(text.match(PLACEHOLDER)); // of the text itself
  const mask = (x) => (!folding.isSign(x) ? x : c.of(x) & NUMERIC ? "#" : c.of(x) & UPPER ? "X" : "x");
  const replace = (old, label) => {
    if (style === "label") return `[${label}]`;
    if (style === "mask") return Array.from(old, mask).join("");
    const key = `${label}\0${old}`;
    if (!numbers.has(key)) {
      let n = numbers.get(label) ?? 0;
      do ++n;
      while (taken.has(`[${label}_${n}]`));
      numbers.set(label, n);
      numbers.set(key, `[${label}_${n}]`);
      placeholders[`[${label}_${n}]`] = old;
    }
    return numbers.get(key);
  };
  return { replace, placeholders };
}

// Return the text with what its placeholders stand for.
export function restore(text, placeholders) {
  return text.replace(PLACEHOLDER, (found) => (Object.hasOwn(placeholders, found) ? placeholders[found] : found));
}

// Replace spans and the further occurrences of their strings. inside: the probability of each token to be in a span.
export function replaceSpans(doc, spans, inside, style, folding) {
  const { text, starts } = doc;
  if (!spans.length) return { text, spans: [], regions: [], left: [], placeholders: {} };
  const strings = findStrings(doc, spans, folding), found = findPlaces(strings, text, folding), repeats = [];
  const sums = new Map([[undefined, [0, 0]]]);
  for (const [string, places] of found) {
    const p = places.map(([start, end]) => Math.min(...inside.slice(countBelow(starts, start + 1) - 1, countBelow(starts, end))));
    sums.set(string.text, [p.reduce((sum, x) => sum + x, 0), p.length]);
  }
  for (const [string, places] of found) {
    const [total, n] = sums.get(string.text), [more, nMore] = sums.get(string.name); // of a form with its name
    const score = (total + more) / Math.max(1, n + nMore);
    if (score >= MIN_POOLED) for (const [start, end] of places) repeats.push({ start, end, label: string.label, score, repeated: true });
  }
  const regions = mergeRegions([...spans, ...repeats]), { replace, placeholders } = makeReplacer(style, text, folding);
  const replaced = [];
  let redacted = "", at = 0;
  for (const region of regions) {
    redacted += text.slice(at, region.start);
    const start = redacted.length;
    redacted += replace(text.slice(region.start, region.end), region.label);
    replaced.push({ ...region, start, end: redacted.length });
    at = region.end;
  }
  redacted += text.slice(at);
  const left = findLeft(text, regions, redacted, replaced, strings, style, folding);
  return { text: redacted, spans: replaced, regions, left, placeholders };
}

// Return the places where a found string still stands in the new text, except inside a replacement by chance.
function findLeft(old, regions, text, spans, strings, style, folding) {
  const ends = spans.map(({ end }) => end), left = [];
  for (const [string, places] of findPlaces(strings, text, folding))
    for (const [start, end] of places) {
      const k = countBelow(ends, end), region = regions[k];
      const isInside = k < spans.length && spans[k].start <= start;
      if (isInside && (style !== "mask" || !folding.fold(old.slice(region.start, region.end)).includes(string.text))) continue;
      left.push({ start, end, label: string.label, score: 0, repeated: true });
    }
  return left;
}
