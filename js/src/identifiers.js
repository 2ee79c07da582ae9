// Identifiers in texts: what check digits, telephone numbers or an unmistakable form decide.
// Mirrors spacy_bcrf/annotation/identifiers.py, whose patterns and constants the file has, and identifier_recognizer.py of
// spacy_bcrf/pipeline.

import { countBelow, isSpaceAt } from "./characters.js";
import { describe } from "./component.js";
import { NATIONAL_NUMBERS } from "./national_numbers.js";
import { PhoneNumbers } from "./phone_numbers.js";
import { isCard, isIban, isIp } from "./rare_attributes.js";

const MOST_KNOWN = 4096; // telephone numbers
const AROUND_KEY = 120; // characters of the first and the last line of a private key

// Yield a text, and what is left of it without its last words, the longest first.
function* shorten(text) {
  while (text) {
    yield text;
    text = text.slice(0, Math.max(text.lastIndexOf(" "), text.lastIndexOf("/"), 0)).replace(/[ (.\-/]+$/, "");
  }
}

// Return where the word that reaches up to `end` begins.
function findLastWord(text, start, end) {
  while (end > start && !isSpaceAt(text, end - 1)) --end;
  return end;
}

// Return where to go on: behind what is found, else at the next word of the match.
function findNext({ 0: text, index }, found) {
  const blank = text.indexOf(" ", 1);
  return index + (found ? found.length : blank < 0 ? text.length : blank + 1);
}

export class Identifiers {
  // spec: patterns and constants by name, forms of national numbers, regions and the metadata of telephone numbers.
  constructor(spec, characters) {
    Object.assign(this, { spec, characters, compiled: {}, phones: new PhoneNumbers(spec.phones, spec.regions) });
    this.reach = 4 * spec.before; // UTF-16 units before an identifier that a scan reads
    this.known = new Map(); // telephone numbers, and what is none
    for (const name of Object.keys(spec.national))
      if (!Object.hasOwn(NATIONAL_NUMBERS, name)) throw new RangeError(`the national number ${name} is unknown`);
    // The functions from the text up to the end of a chunk, and its start, to places [from, to].
    this.kinds = {
      KEY: (head, start) => this.findKeys(head, start),
      URL: (head, start) => this.all("URL", head, start).map(({ 0: url, index }) => [index, index + url.replace(/[.,;:!?*_]+$/, "").length]),
      EMAIL_ADDRESS: (head, start) =>
        this.all("MAIL", head, start).map(({ 0: mail, index }) => [index + /^['.%-]*/.exec(mail)[0].length, index + mail.length]),
      USERNAME: (head, start) => this.findUsers(head, start),
      UUID: (head, start) => this.findRight("UUID", Boolean, head, start),
      MAC_ADDRESS: (head, start) => this.findRight("MAC", Boolean, head, start),
      IP_ADDRESS: (head, start) => this.findRight("IP", isIp, head, start),
      IBAN_CODE: (head, start) => this.findRight("IBAN", isIban, head, start),
      CREDIT_CARD: (head, start) => this.findRight("CARD", isCard, head, start),
      NATIONAL_ID: (head, start) => this.findNational(head, start),
      PHONE_NUMBER: (head, start) => this.findPhones(head, start),
    };
  }
  // Return the first match of a pattern at or behind a place, or null. flag: y for a match that starts there.
  search(name, text, from = 0, flag = "g") {
    const { patterns, national } = this.spec;
    const pattern = (this.compiled[name + flag] ??= this.characters.pattern(patterns[name] ?? national[name], flag));
    pattern.lastIndex = from;
    return pattern.exec(text);
  }
  all(name, text, start) {
    const found = [];
    for (let at = start, match; (match = this.search(name, text, at)); at = match.index + match[0].length) found.push(match);
    return found;
  }
  // Return the identifiers [from, to, label] behind a place, in order of the text, and the place up to which all are known.
  //
  // start: 0, or what a scan of a shorter text has returned. ended: whether nothing follows.
  scan(text, start, ended) {
    const { longestKey, beginKey } = this.spec;
    const keys = this.all("PRIVATE_KEY", text, start).map(({ 0: key, index }) => [index, index + key.length, "KEY"]), found = [...keys];
    let stop = text.length, at = start;
    if (!ended) {
      stop = findLastWord(text, start, stop);
      const begin = text.indexOf(beginKey, keys.at(-1)?.[1] ?? start);
      if (begin >= 0 && text.length < begin + 2 * longestKey + AROUND_KEY) stop = Math.min(stop, findLastWord(text, start, begin));
    }
    const complete = text.slice(0, stop);
    for (let match; (match = this.search("CHUNK", complete, at)); ) {
      const first = match.index, [end, firstEnd] = this.extend(text, first, first + match[0].length, ended);
      if (end < 0 || (end > stop && !ended)) {
        at = stop = first;
        break;
      }
      const isInKey = keys.some(([from, to]) => from < end && first < to);
      const own = isInKey ? [] : this.findInChunk(text.slice(0, end), first).filter(([from]) => from < firstEnd);
      found.push(...own);
      at = Math.max(firstEnd, ...own.map(([, to]) => to));
    }
    let known = ended ? text.length : Math.max(at, stop);
    // The last word of a key may go on, and nothing of such a word counts.
    for (const [from, to] of keys.reverse()) if (to > known) known = Math.min(known, findLastWord(text, start, from));
    return { found: found.filter(([, to]) => to <= known).sort((a, b) => a[0] - b[0]), known };
  }
  // Return the ends of the chunk whose first word is given, and of the words that count; -1 if a later character says.
  extend(text, start, end, ended) {
    let hasDigit = this.search("DIGIT", text.slice(start, end)), firstEnd = end;
    for (let n = 1; n < this.spec.mostWords; ++n) {
      if (!ended && end + 1 >= text.length && (end === text.length || text[end] === " ")) return [-1, -1];
      const next = this.search("NEXT", text, end, "y");
      if (!next) return [end, end];
      if (!ended && end + next[0].length === text.length) return [-1, -1];
      const isNumber = this.search("DIGIT", next[0]);
      if (!hasDigit && !isNumber) return [end, end];
      end += next[0].length;
      hasDigit = isNumber;
      if (n < this.spec.firstWords) firstEnd = end;
    }
    return [end, firstEnd];
  }
  // head: the text up to the end of the chunk.
  findInChunk(head, start) {
    const found = [], isTaken = new Uint8Array(head.length - start);
    for (const [label, find] of Object.entries(this.kinds))
      for (const [from, to] of find(head, start)) {
        if (isTaken.subarray(from - start, to - start).includes(1)) continue;
        found.push([from, to, label]);
        isTaken.fill(1, from - start, to - start);
      }
    return found;
  }
  // Return the characters before a place, which may say what an identifier is.
  before(text, at) {
    const { before } = this.spec;
    return [...text.slice(Math.max(0, at - 2 * before), at)].slice(-before).join("");
  }
  // Return the matches of a pattern, or their first words, that a check confirms.
  findRight(name, isRight, head, start) {
    const found = [];
    for (let at = start, match; (match = this.search(name, head, at)); ) {
      const right = findFirst(shorten(match[0]), isRight);
      at = findNext(match, right);
      if (right) found.push([match.index, at]);
    }
    return found;
  }
  findKeys(head, start) {
    const isNamed = (name) => ({ index }) => this.search(name, this.before(head, index));
    const found = [
      ...this.all("KEY", head, start),
      ...this.all("VALUE", head, start).filter(isNamed("NAMES_SECRET")),
      ...this.all("CODE", head, start).filter(isNamed("NAMES_CODE")),
    ].map(({ 0: key, index }) => [index, index + key.length]);
    for (const { 0: text, 2: secret, index } of this.all("CREDENTIALS", head, start)) {
      const end = index + text.length - 1; // without the @
      found.push([end - secret.length, end]);
    }
    return found;
  }
  findUsers(head, start) {
    const { noUsers, noHandles } = this.spec, found = [];
    for (const { 0: text, 1: user, index } of this.all("USER", head, start)) {
      const end = index + text.length;
      if (!noUsers.includes(this.characters.lower(user))) found.push([end - user.length, end]);
    }
    for (const { 0: text, 1: user, 2: secret, index } of this.all("CREDENTIALS", head, start)) {
      const end = index + text.length - secret.length - 2;
      found.push([end - user.length, end]);
    }
    for (const { 0: handle, index } of this.all("HANDLE", head, start))
      if (!noHandles.includes(handle.split(".")[0])) found.push([index + 1, index + handle.length]);
    return found;
  }
  findNational(head, start) {
    if (!this.search("LONG", head, start)) return [];
    return Object.keys(this.spec.national).flatMap((name) => {
      const isRight = (text) => this.search(name, text, 0, "y")?.[0] === text && NATIONAL_NUMBERS[name](text);
      return this.findRight(name, isRight, head, start);
    });
  }
  findPhones(head, start) {
    const found = [];
    for (let at = start, match; (match = this.matchPhone(head, at, start)); ) {
      let phone = findFirst(shorten(match[0]), (text) => this.isPhone(text, false));
      // What a word names is one number, unless it begins with a right one.
      if (!phone && this.search("NAMES_PHONE", this.before(head, match.index)))
        phone = findFirst(shorten(match[0]), (text) => this.isPhone(text, true));
      at = findNext(match, phone);
      if (phone) found.push([match.index, at]);
    }
    return found;
  }
  // Return what may be a number. A slash may stand between it and one that ends at `at`.
  matchPhone(head, at, start) {
    const isBehindSlash = start < at && head[at] === "/";
    return (isBehindSlash && this.search("PHONE_DIGITS", head, at + 1, "y")) || this.search("PHONE", head, at);
  }
  // Return whether a text is a telephone number. isNamed: whether a word before says so.
  isPhone(text, isNamed) {
    const key = text + isNamed, { known } = this;
    if (known.size > MOST_KNOWN) known.clear();
    if (!known.has(key)) known.set(key, this.checkPhone(text, isNamed));
    return known.get(key);
  }
  checkPhone(text, isNamed) {
    const plain = this.toAscii(text), digits = plain.replace(/\D/g, ""), { phones } = this;
    if (digits.length < 7 || digits.length > 15 || text.split("(").length !== text.split(")").length) return false;
    if (plain[0] === "+") return phones.isPossible(phones.parse(plain));
    if (this.search("DATE", text, 0, "y")) return false;
    if (isNamed) return true;
    if (text.startsWith("00")) return phones.isValid(phones.parse(`+${digits.slice(2)}`));
    return (digits !== plain || this.search("MOBILE", text, 0, "y")?.[0] === text) && phones.isNational(plain);
  }
  // Return a text with the digits of ASCII.
  toAscii(text) {
    const isDigit = (code) => this.search("DIGIT", String.fromCodePoint(code));
    return Array.from(text, (c) => {
      if (c < "\x80" || !isDigit(c.codePointAt(0))) return c;
      let value = 0; // ten digits are neighbours
      while (isDigit(c.codePointAt(0) - value - 1)) ++value;
      return value % 10;
    }).join("");
  }
}

const findFirst = (texts, isRight) => {
  for (const text of texts) if (isRight(text)) return text;
  return "";
};

// The component `bcrf_identifiers`: its spans are the tokens that identifiers touch. A token belongs to the first one.
export class IdentifierComponent {
  constructor(spec, { characters, tables }) {
    const { name, labels } = spec, phones = tables[spec.phones];
    Object.assign(this, { name, spec, labels, finder: new Identifiers({ ...spec, phones }, characters) });
  }
  // Return the tokens [from, to] and the label of identifiers, from the token `end` on. starts: of the tokens.
  touch(found, starts, end) {
    return found.flatMap(([start, stop, label]) => {
      const from = Math.max(end, countBelow(starts, start + 1) - 1), to = countBelow(starts, stop);
      end = Math.max(end, to);
      return from < to ? [[from, to, label]] : [];
    });
  }
  run(doc) {
    const own = this.touch(this.finder.scan(doc.text, 0, true).found, doc.starts, 0), { name, labels } = this;
    return { name, tags: [], spans: own.map(([from, to, label]) => describe(this, doc, from, to, labels.indexOf(label))) };
  }
}
