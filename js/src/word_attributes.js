// Attributes of a word alone. Mirrors spacy_bcrf/sparse/word_attributes.py and word_tables.py.
//
// Each function takes the word, its characters, the lengths of the attribute and the chain, and returns strings.

import { ALNUM, ALPHA, DIGIT, LOWER, SPACE, UPPER, WHITE, join } from "./characters.js";

const SHORTEST = 4; // characters of the beginning of a compound
const MAIL = new RegExp(`^[^@${WHITE}]+@[^@${WHITE}.]+\\.[^@${WHITE}]+$`, "u");
const WEB = new RegExp(`^(https?://|www\\.)[^${WHITE}]+`, "iu");
const PARTS_OF_IP = /^([\da-f]{1,4}(:[\da-f]{1,4})*)?$/i;

function isIpv4(word) {
  const parts = word.split(".");
  return parts.length === 4 && parts.every((x) => /^(0|[1-9]\d{0,2})$/.test(x) && +x < 256);
}

// As Python's `ipaddress.ip_address`.
export function isIp(word) {
  if (isIpv4(word)) return true;
  const [address, zone, ...more] = word.split("%");
  if (zone === "" || more.length || word.includes("/")) return false;
  // Version 6: eight parts, or less with one gap. The last two may be an address of version 4.
  const sides = address.replace(/[^:]*\.[^:]*$/, (last) => (isIpv4(last) ? "0:0" : last)).split("::");
  const n = sides.join(":").split(":").filter(Boolean).length;
  return sides.every((side) => PARTS_OF_IP.test(side)) && (sides.length === 1 ? n === 8 : sides.length === 2 && n < 8);
}

// Return the checksum of Luhn (ISO/IEC 7812-1), 0 for right digits.
export function luhn(digits) {
  const values = digits.map((digit, i) => digit * (1 + ((digits.length - 1 - i) % 2)));
  return values.reduce((sum, x) => sum + (x > 9 ? x - 9 : x), 0) % 10;
}

// 12 to 19 digits that pass the check of Luhn.
export function isCard(word) {
  const digits = word.replace(/[ -]/g, "");
  return /^\d{12,19}$/.test(digits) && luhn(Array.from(digits, Number)) === 0;
}

// ISO 7064, modulo 97, 10: whether the check digits of a text of digits and capitals are right.
export function isMod9710(text) {
  let rest = 0;
  for (const c of text) for (const d of `${parseInt(c, 36)}`) rest = (rest * 10 + +d) % 97;
  return rest === 1;
}

export function isIban(word) {
  const text = word.replace(/[ -]/g, "").toUpperCase();
  return /^[A-Z]{2}\d{2}[A-Z0-9]{11,30}$/.test(text) && isMod9710(text.slice(4) + text.slice(0, 4));
}

const IDENTIFIERS = { card: isCard, iban: isIban, ip: isIp, mail: (w) => MAIL.test(w), web: (w) => WEB.test(w) };

// Python's `html.unescape`. names: of characters. replaced, invalid: code points.
function unescape(text, { names, replaced, invalid }) {
  return text.replace(/&(#[0-9]+;?|#[xX][0-9a-fA-F]+;?|[^\t\n\f <&#;]{1,32};?)/gu, (_, name) => {
    if (name[0] === "#") {
      const code = /x/i.test(name[1]) ? parseInt(name.slice(2), 16) : parseInt(name.slice(1), 10);
      if (replaced[code] !== undefined) return replaced[code];
      if ((code >= 0xd800 && code <= 0xdfff) || code > 0x10ffff) return "\ufffd";
      return invalid.includes(code) ? "" : String.fromCodePoint(code);
    }
    const characters = [...name];
    for (let n = characters.length; n > 1; --n) {
      const head = join(characters, 0, n);
      if (Object.hasOwn(names, head)) return names[head] + join(characters, n);
    }
    return "&" + name;
  });
}

// The lowercased word without periods and without punctuation at its edges.
function core(word, c) {
  const characters = [...c.lower(word)], isInner = (x) => x === "_" || c.of(x) & ALNUM;
  const first = characters.findIndex(isInner), last = characters.findLastIndex(isInner);
  return first < 0 ? "" : join(characters, first, last + 1).replaceAll(".", "");
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

// Return the distinct texts in the order of code points, as Python sorts.
export function sortTexts(texts) {
  const compare = (a, b) => {
    const i = a.findIndex((x, k) => x !== b[k]);
    return i < 0 ? -1 : i < b.length ? a[i].codePointAt(0) - b[i].codePointAt(0) : 1;
  };
  return Array.from(new Set(texts), (text) => [...text]).sort(compare).map((characters) => characters.join(""));
}

const WORD = {
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
  core: (word, _, __, { characters: c }) => [core(word, c)],
  prefix: (word, characters, lengths) => lengths.filter((n) => n <= characters.length).map((n) => join(characters, 0, n)),
  suffix: (word, characters, lengths) => lengths.filter((n) => n <= characters.length).map((n) => join(characters, characters.length - n)),
  substring: (word, characters, lengths) =>
    sortTexts(lengths.flatMap((n) => characters.map((_, i) => join(characters, i, i + n)).slice(0, Math.max(0, characters.length - n + 1)))),
  identifier: (word) => Object.keys(IDENTIFIERS).filter((kind) => IDENTIFIERS[kind](word)),
  frequency: (word, _, __, { tables }) => [tables.frequency?.get(word) ?? "0"],
  address(word, _, __, { characters: c, address }) {
    word = unescape(word, address);
    const letters = core(word, c) || word, characters = [...letters], n = characters.length;
    const isNumber = n > 0 && characters.every((x) => c.of(x) & DIGIT), last = [...word].findLast((x) => !SPACE.test(x)) ?? "";
    const show = (value) => (value ? "True" : "False"); // as Python
    return [
      `${isNumber ? "number" : "length"} ${n}`,
      isNumber ? `zeros ${/0*$/.exec(letters)[0].length}` : `word ${letters}`,
      `digits ${show(isNumber)} ${show(c.any(characters) & DIGIT)}`,
      `direction ${show(address.direction.test(letters))}`,
      `street ${show(address.street.test(letters))}`,
      `vowels ${show(/[aeiou]/.test(join(characters, 1)))}`,
      `end ${last && c.of(last) & ALNUM ? "" : last}`,
    ];
  },
};

function prefixes(cluster, lengths) {
  if (!cluster) return [];
  const isLonger = (n) => n >= cluster.length, whole = lengths?.findIndex(isLonger) ?? -1;
  return (lengths ?? [cluster.length]).slice(0, whole < 0 ? undefined : whole + 1).map((n) => cluster.slice(0, n));
}

// Attributes with a name after a dot, which take the name and the chain.
const NAMED = {
  partial: (name, { gazetteers, characters: c }) => (word) => gazetteers[name].partial(c.lower(word)),
  cluster: (name, chain) => (word, _, lengths) => prefixes(findCluster(word, name, chain), lengths),
  // The cluster of a longer word's beginning, and the length of the rest.
  compound: (name, chain) => (word, characters, lengths) => {
    for (let n = characters.length - 1; n >= SHORTEST && !findCluster(word, name, chain); --n) {
      const cluster = chain.tables[`cluster.${name}`].get(join(characters, 0, n));
      if (!cluster) continue;
      const rest = characters[n] === "-" ? "-" : Math.min(characters.length - n, 3);
      return prefixes(cluster, lengths).map((prefix) => `${prefix} ${rest}`);
    }
    return [];
  },
};

function findCluster(word, name, { tables, characters }) {
  const table = tables[`cluster.${name}`];
  return table.get(word) || table.get(characters.lower(word)) || "";
}

// Return the function of an attribute from word and characters to values.
export function wordAttribute({ name, lengths }, chain) {
  const [kind, ...rest] = name.split(".");
  if (!Object.hasOwn(rest.length ? NAMED : WORD, kind)) throw new RangeError(`the attribute ${name} is unknown`);
  const values = rest.length ? NAMED[kind](rest.join("."), chain) : WORD[kind];
  return (word, characters) => values(word, characters, lengths, chain);
}
