// Attributes of a word alone that few models have. Mirrors spacy_bcrf/sparse/word_attributes.py.

import { ALNUM, DIGIT, SPACE, WHITE, join } from "./characters.js";
import { findCluster, prefixes } from "./word_attributes.js";

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

// Return the distinct texts in the order of code points, as Python sorts.
export function sortTexts(texts) {
  const compare = (a, b) => {
    const i = a.findIndex((x, k) => x !== b[k]);
    return i < 0 ? -1 : i < b.length ? a[i].codePointAt(0) - b[i].codePointAt(0) : 1;
  };
  return Array.from(new Set(texts), (text) => [...text]).sort(compare).map((characters) => characters.join(""));
}

export const RARE = {
  core: (word, _, __, { characters: c }) => [core(word, c)],
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
  // The cluster of a longer word's beginning, and the length of the rest.
  compound(word, characters, lengths, chain, name) {
    for (let n = characters.length - 1; n >= SHORTEST && !findCluster(word, name, chain); --n) {
      const cluster = chain.tables[`cluster.${name}`].get(join(characters, 0, n));
      if (!cluster) continue;
      const rest = characters[n] === "-" ? "-" : Math.min(characters.length - n, 3);
      return prefixes(cluster, lengths).map((prefix) => `${prefix} ${rest}`);
    }
    return [];
  },
};
