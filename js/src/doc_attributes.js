// Attributes that need the whole text. Mirrors spacy_bcrf/sparse/doc_attributes.py and gazetteers.py.
//
// Each function returns the values of each token, lists of strings.

import { ALPHA, SPACE, split } from "./characters.js";
import { sortTexts } from "./rare_attributes.js";
import { column } from "./word_attributes.js";

const BOUNDS = [0, 1, 2, 5, 10];
const MOST = 8; // values of a word
const FIELD = 3; // words of a field
const OFFSETS = { elsewhere: 0, elsewhere_before: -1, elsewhere_after: 1 };
// A list of phrases, whose words blanks separate. Words are compared in lower case.
class Gazetteer {
  constructor(text, characters) {
    this.starts = new Map(); // beginnings of phrases, and whether they are whole
    this.exact = new Set(text ? text.split("\n") : []);
    for (const phrase of this.exact) {
      const words = phrase.split(" ").map((word) => characters.lower(word)), last = words.length - 1;
      let head = "";
      words.forEach((word, i) => {
        head = i ? `${head} ${word}` : word;
        this.starts.set(head, i === last || this.starts.get(head) === true);
      });
    }
  }
  // Return the place of each token in a phrase: of overlapping phrases the longest, then the first counts.
  find({ words, lower }, exact) {
    const n = words.length, places = new Array(n).fill(null), found = [];
    for (let i = 0; i < n; ++i)
      for (let j = i, head = ""; j < n && !SPACE.test(words[j]); ++j) {
        head = j > i ? `${head} ${lower[j]}` : lower[j];
        const isWhole = this.starts.get(head);
        if (isWhole === undefined) break;
        if (isWhole && (!exact || this.exact.has(words.slice(i, j + 1).join(" ")))) found.push([i, j]);
      }
    found.sort((x, y) => y[1] - y[0] - (x[1] - x[0]) || x[0] - y[0]);
    for (const [i, j] of found) {
      if (places[i] || places[j]) continue;
      places.fill("I", i, j + 1);
      places[i] = i === j ? "U" : "B";
      if (j > i) places[j] = "L";
    }
    return places.map((place) => (place ? [place] : []));
  }
}

function distanceClass(distance) {
  const bound = BOUNDS.find((each) => distance <= each);
  return bound === undefined ? `>${BOUNDS.at(-1)}` : `<=${bound}`;
}

// Return the distinct values, sorted, at an offset from other occurrences of each word.
function ofOthers({ lower }, values, offset) {
  const near = lower.map((_, i) => values[i + offset] ?? ""), byWord = new Map();
  lower.forEach((word, i) => {
    if (!byWord.has(word)) byWord.set(word, new Map());
    const counts = byWord.get(word);
    if (near[i]) counts.set(near[i], (counts.get(near[i]) ?? 0) + 1);
  });
  for (const [word, counts] of byWord) byWord.set(word, [...counts].sort((a, b) => b[1] - a[1]).slice(0, MOST));
  return lower.map((word, i) => {
    const found = byWord.get(word).filter(([value, n]) => n > (value === near[i] ? 1 : 0)).map(([value]) => value);
    return found.length > 1 ? sortTexts(found) : found;
  });
}

const DOC = {
  position: ({ words }) => words.map((_, i) => [`start ${distanceClass(i)}`, `end ${distanceClass(words.length - 1 - i)}`]),
  // The words before the last colon left of each token in its line.
  field({ words, lower }, c) {
    let line = [], field = [];
    return words.map((word, i) => {
      const found = field;
      if (word.includes("\n")) line = field = [];
      else if (word === ":") {
        if (line.length) field = [line.slice(-FIELD).join(" ")];
        line = [];
      } else if ([...word].every((x) => c.of(x) & ALPHA)) line = [...line, lower[i]];
      else if (".,;".includes(word)) line = [];
      return found;
    });
  },
  // "lower" or, elsewhere than at the start of the text, "capitalized" of other occurrences.
  repeated(doc, c) {
    const isCapital = (word, i) => i > 0 && c.isUpper(split(word).slice(0, 1));
    const cases = doc.words.map((word, i) => (c.isLower(split(word)) ? "lower" : isCapital(word, i) ? "capitalized" : ""));
    return ofOthers(doc, cases, 0);
  },
  pooled: (doc) => doc.pooled,
};

// Return the function from a document to the values of an attribute.
export function docAttribute(name, { characters: c, phrases }) {
  const [kind, ...parts] = name.split("."), rest = parts.join(".");
  if (Object.hasOwn(DOC, name)) return (doc) => DOC[name](doc, c);
  if (kind === "gazetteer" || kind === "exact") {
    const gazetteer = new Gazetteer(phrases[rest], c);
    return (doc) => gazetteer.find(doc, kind === "exact");
  }
  if (!Object.hasOwn(OFFSETS, kind)) throw new RangeError(`the attribute ${name} is unknown`);
  return (doc) => ofOthers(doc, doc.words.map((word, i) => column(rest, word, i, doc.columns, c)), OFFSETS[kind]);
}
