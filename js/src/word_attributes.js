// Attributes of a word alone. Mirrors spacy_bcrf/sparse/word_attributes.py and word_tables.py.
//
// Each function takes the word, its characters, the lengths of the attribute, the chain, and what the attribute's name has
// behind a dot. It returns strings.

import { ALNUM, ALPHA, DIGIT, LOWER, UPPER, join, split } from "./characters.js";

const PLACES = ["B", "I", "L", "U"]; // of a word in a phrase
const PARTS = Array.from({ length: 16 }, (_, bits) => PLACES.filter((_, k) => (bits >> k) & 1)); // by places

// Return the places in phrases of each word in lower case, as bits. text: a line for each phrase.
export function findPlaces(text, characters) {
  const places = new Map();
  for (const phrase of text ? text.split("\n") : [])
    phrase.split(" ").forEach((given, i, { length }) => {
      const word = characters.lower(given), last = length - 1;
      places.set(word, places.get(word) | (last === 0 ? 8 : i === 0 ? 1 : i === last ? 4 : 2));
    });
  return places;
}

// Return the kind of each character, without more than `most` equal ones in a row.
function kinds(characters, c, kindOf, most) {
  let out = "", last = "", run = 0;
  for (const x of characters) {
    const kind = kindOf(c.of(x)) || x;
    run = kind === last ? run + 1 : 1;
    last = kind;
    if (run <= most) out += kind;
  }
  return out;
}

export function shape(characters, c) {
  if (characters.length >= 100) return "LONG";
  return kinds(characters, c, (bits) => (bits & ALPHA ? (bits & UPPER ? "X" : "x") : bits & DIGIT && "d"), 4);
}
const briefKind = (bits) => (bits & UPPER ? "X" : bits & LOWER ? "x" : bits & DIGIT && "d");

export const WORD = {
  lower: (word, _, __, { characters: c }) => [c.lower(word)],
  digits: (word, _, __, { characters: c }) => [kinds(c.lower(word), c, (bits) => bits & DIGIT && "#", Infinity)],
  shape: (word, characters, _, { characters: c }) => [shape(characters, c)],
  brief: (word, characters, _, { characters: c }) => [kinds(characters, c, briefKind, 1)],
  character(word, characters, _, { characters: c }) {
    const bits = c.any(characters), isUpper = c.isUpper(characters);
    const tests = {
      digit: bits & DIGIT,
      upper: bits & UPPER,
      initial: c.isUpper(characters.slice(0, 1)),
      "all upper": isUpper,
      hyphen: word.includes("-"),
      alphanumeric: bits & DIGIT && bits & ALPHA,
      "only punctuation": !(bits & ALNUM),
      "inner upper": !isUpper && c.any(characters.slice(1)) & UPPER,
    };
    return Object.keys(tests).filter((name) => tests[name]);
  },
  prefix: (word, characters, lengths) => lengths.filter((n) => n <= characters.length).map((n) => join(characters, 0, n)),
  suffix: (word, characters, lengths) => lengths.filter((n) => n <= characters.length).map((n) => join(characters, characters.length - n)),
  partial: (word, _, __, { places, characters: c }, name) => PARTS[places[name].get(c.lower(word)) ?? 0],
  cluster: (word, _, lengths, chain, name) => prefixes(findCluster(word, name, chain), lengths),
};

// Return the beginnings of a cluster's bits.
export function prefixes(cluster, lengths) {
  if (!cluster) return [];
  const isLonger = (n) => n >= cluster.length, whole = lengths?.findIndex(isLonger) ?? -1;
  return (lengths ?? [cluster.length]).slice(0, whole < 0 ? undefined : whole + 1).map((n) => cluster.slice(0, n));
}

export function findCluster(word, name, { tables, characters }) {
  const table = tables[`cluster.${name}`];
  return table.get(word) || table.get(characters.lower(word)) || "";
}

// Return the function of an attribute from word and characters to values.
export function wordAttribute({ name, lengths }, chain) {
  const [kind, ...rest] = name.split("."), values = (Object.hasOwn(WORD, kind) ? WORD : chain.more.RARE)?.[kind];
  if (typeof values !== "function") throw new RangeError(`the attribute ${name} is unknown`);
  return (word, characters) => values(word, characters, lengths, chain, rest.join("."));
}

const COLUMNS = {
  orth: (word) => word,
  lower: (word, c) => c.lower(word),
  shape: (word, c) => shape(split(word), c),
  prefix: (word) => split(word)[0],
  suffix: (word) => split(word).slice(-3).join(""),
};

// The value of a token attribute of spaCy. columns: tags of earlier components.
export function column(name, word, i, columns, c) {
  return Object.hasOwn(COLUMNS, name) ? COLUMNS[name](word, c) : columns[name]?.[i] ?? "";
}
