// Check digits of national numbers. Mirrors modules of python-stdnum, by their names there.
//
// A check takes a text of the form that identifiers.py gives the number. d: its digits, without blanks and signs.

import { isMod9710, luhn } from "./rare_attributes.js";

const TO_ASCII = /[\uff10-\uff19\u{1d7ce}-\u{1d7ff}]/gu; // other digits that python-stdnum reads
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const OF_DNI = "TRWAGMYFPDXBNJZSQVHLCKE";
const OF_PPS = "WABCDEFGHIJKLMNOPQRSTUV";
const OF_HETU = "0123456789ABCDEFHJKLMNPRSTUVWXY";
const OF_CURP = "0123456789ABCDEFGHIJKLMN&OPQRSTUVWXYZ";
const OF_TVA = "0123456789ABCDEFGHJKLMNPQRSTUVWXYZ";
const MONTHS_OF_CODICE = "ABCDEHLMPRST";
const ODD_OF_CODICE = [1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23];
const EVEN_OF_VAT = [1, 0, 5, 7, 9, 13, 15, 17, 19, 21]; // of Cyprus
const STATES_OF_CURP = "AS BC BS CC CH CL CM CS DF DG GR GT HG JC MC MN MS NE NL NT OC PL QR QT SL SP SR TC TL TS VZ YN ZS".split(" ");
const WORDS_OF_CURP = // which no number begins with
  "BACA BAKA BUEI BUEY CACA CACO CAGA CAGO CAKA CAKO COGE COGI COJA COJE COJI COJO COLA CULO FALO FETO GETA GUEI GUEY JETA JOTO " +
  "KACA KACO KAGA KAGO KAKA KAKO KOGE KOGI KOJA KOJE KOJI KOJO KOLA KULO LILO LOCA LOCO LOKA LOKO MAME MAMO MEAR MEAS MEON MIAR " +
  "MION MOCO MOKO MULA MULO NACA NACO PEDA PEDO PENE PIPI PITO POPO PUTA PUTO QULO RATA ROBA ROBE ROBO RUIN SENO TETA VACA VAGA " +
  "VAGO VAKA VUEI VUEY WUEI WUEY";
const FAKE_SSN = ["078051120", "457555462", "219099999"]; // of advertisements
const VERHOEFF = [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 5, 7, 6, 2, 8, 3, 0, 9, 4]]; // permutations by place
while (VERHOEFF.length < 8) VERHOEFF.push(VERHOEFF[1].map((digit) => VERHOEFF.at(-1)[digit]));


const modulo = (x, n) => ((x % n) + n) % n;
const number = (d, from, to) => Number(d.slice(from, to).join(""));
const descending = (from, count) => Array.from({ length: count }, (_, i) => from - i);

// The sum of digits times weights, modulo n.
const weigh = (d, weights, n) => modulo(weights.reduce((sum, weight, i) => sum + weight * d[i], 0), n);

function isDate(year, month, day) {
  const date = new Date(Date.UTC(year, month - 1, day));
  return month > 0 && date.getUTCMonth() === month - 1 && date.getUTCDate() === day;
}

// ISO 7064, modulo 11, 10.
const isMod1110 = (d) => d.reduce((check, digit) => ((((check || 10) * 2) % 11) + digit) % 10, 5) === 1;

// The product in the group of the symmetries of a pentagon.
function multiply(a, b) {
  const sum = a < 5 ? (a + b) % 5 : modulo(a - b, 5);
  return a < 5 === b < 5 ? sum : 5 + sum;
}

const isLuhn = (d) => luhn(d) === 0;
const isDni = (d, text) => OF_DNI[number(d, 0, 8) % 23] === text.at(-1);

// A birth number of Czechia or Slovakia: those of 9 digits are older than 1954.
function isCzechBirth(d) {
  let year = 1900 + number(d, 0, 2);
  if (d.length === 9 && year >= 1980) year -= 100;
  if (d.length === 9 && year > 1953) return false;
  if (d.length === 10 && year < 1954) year += 100;
  return isDate(year, (number(d, 2, 4) % 50) % 20, number(d, 4, 6)) && (d.length === 9 || (number(d, 0, 9) % 11) % 10 === d[9]);
}

function isBulgarianBirth(d) {
  const month = number(d, 2, 4), shift = month > 40 ? 40 : month > 20 ? 20 : 0;
  const year = 1900 + number(d, 0, 2) + (shift === 40 ? 100 : shift ? -100 : 0);
  return isDate(year, month - shift, number(d, 4, 6)) && weigh(d, [2, 4, 8, 5, 10, 9, 7, 3, 6], 11) % 10 === d[9];
}

function isNorwegian(d) {
  const year = number(d, 4, 6), n = number(d, 6, 9), [day, month] = [number(d, 0, 2), number(d, 2, 4)].map((x) => (x > 40 ? x - 40 : x));
  const century = n < 500 ? 1900 : n < 750 && year >= 54 ? 1800 : year < 40 ? 2000 : n >= 900 ? 1900 : NaN;
  const sums = [weigh(d, [3, 7, 6, 1, 8, 9, 4, 5, 2, 1], 11), weigh(d, [5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1], 11)];
  return d[0] < 8 && sums.every((x) => x === 0) && isDate(century + year, month, day) && new Date(century + year, month - 1, day) <= new Date();
}

function isSwedish(d, text) {
  const now = new Date().getFullYear(), short = number(d, 0, 2);
  const century = Math.floor(now / 100) - (short > now % 100) - text.includes("+");
  const year = d.length === 12 ? number(d, 0, 4) : 100 * century + short, own = d.slice(-10);
  return isDate(year, number(own, 2, 4), number(own, 4, 6)) && isLuhn(own);
}

function isCodice(d, text) {
  const places = Array.from(text.slice(0, 15), (c) => (c < "A" ? Number(c) : LETTERS.indexOf(c)));
  const sum = places.reduce((before, place, i) => before + (i % 2 ? place : ODD_OF_CODICE[place]), 0), year = number(d, 0, 2);
  const month = MONTHS_OF_CODICE.indexOf(text[8]) + 1;
  return LETTERS[sum % 26] === text[15] && isDate(year + (year < 20 ? 2000 : 1900), month, number(d, 2, 4) % 40);
}

function isCurp(d, text) {
  const sum = Array.from(text.slice(0, 17), (c, i) => OF_CURP.indexOf(c) * (18 - i)).reduce((x, y) => x + y);
  const year = number(d, 0, 2) + (text[16] < "A" ? 1900 : 2000), isKnown = STATES_OF_CURP.includes(text.slice(11, 13)) && "HM".includes(text[10]);
  return isKnown && !WORDS_OF_CURP.includes(text.slice(0, 4)) && isDate(year, number(d, 2, 4), number(d, 4, 6)) && modulo(-sum, 10) === d.at(-1);
}

function isBelgian(d) {
  const first = number(d, 0, 9), isCentury = (all) => 97 - (all % 97) === number(d, 9);
  const isYoung = number(d, 0, 2) + 2000 <= new Date().getFullYear();
  return number(d) > 0 && number(d, 2, 4) <= 12 && (isCentury(first) || (isYoung && isCentury(2e9 + first)));
}

// The letter behind 7 digits, and a second one if it counts.
const isPps = (d, letter, second = "") => OF_PPS[(weigh(d, descending(8, 7), 23) + 9 * OF_PPS.indexOf(second || "W")) % 23] === letter;

const BIRTHS_OF_CNP = [1900, 1900, 1900, 1800, 1800, 2000, 2000, 1900, 1900, 1900]; // by the first digit

const CHECKS = {
  "us.ssn"(d) {
    const isUsed = d[0] < 9 && ![0, 666].includes(number(d, 0, 3)) && number(d, 3, 5) > 0 && number(d, 5) > 0;
    return isUsed && !FAKE_SSN.includes(d.join(""));
  },
  "fr.nir": (d) => 97 - (number(d, 0, 13) % 97) === number(d, 13),
  "de.idnr"(d) {
    const counts = descending(9, 10).map((digit) => d.slice(0, 10).filter((x) => x === digit).length).filter((n) => n > 1);
    return d[0] > 0 && counts.length === 1 && counts[0] < 4 && isMod1110(d);
  },
  "it.codicefiscale": isCodice,
  "es.dni": isDni,
  "es.nie": (d, text) => isDni(["XYZ".indexOf(text[0]), ...d], text),
  "pl.pesel"(d) {
    const month = number(d, 2, 4), year = [1900, 2000, 2100, 2200, 1800][Math.floor(month / 20)] + number(d, 0, 2);
    return weigh(d, [1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1], 10) === 0 && isDate(year, month % 20, number(d, 4, 6));
  },
  "br.cpf": (d) => number(d) > 0 && [10, 11].every((n) => modulo(-weigh(d, descending(n, n - 1), 11), 11) % 10 === d[n - 1]),
  "mx.curp": isCurp,
  "in_.aadhaar"(d) {
    const fromRight = [...d].reverse(), check = fromRight.reduce((sum, digit, i) => multiply(sum, VERHOEFF[i % 8][digit]), 0);
    return d[0] > 1 && String(d) !== String(fromRight) && check === 0;
  },
  "in_.pan": (d, text) => "ABCFGHLJPTK".includes(text[3]) && number(d) > 0,
  "iso7064.mod_11_2": (_, text) => Array.from(text).reduce((check, c) => (2 * check + (c === "X" ? 10 : +c)) % 11, 0) === 1,
  "kr.rrn"(d) {
    const century = "1256".includes(d[6]) ? 1900 : "3478".includes(d[6]) ? 2000 : 1800;
    const isBirth = isDate(century + number(d, 0, 2), number(d, 2, 4), number(d, 4, 6));
    return isBirth && number(d, 7, 9) <= 96 && (11 - weigh(d, [2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5], 11)) % 10 === d[12];
  },
  "fi.hetu"(d, text) {
    const year = { "+": 1800, "-": 1900, A: 2000 }[text[6]] + number(d, 4, 6), n = number(d, 6, 9);
    return isDate(year, number(d, 2, 4), number(d, 0, 2)) && n > 1 && n < 900 && OF_HETU[number(d, 0, 9) % 31] === text.at(-1);
  },
  "se.personnummer": isSwedish,
  "no.fodselsnummer": isNorwegian,
  "be.nn": isBelgian,
  "ro.cnp"(d) {
    const year = BIRTHS_OF_CNP[d[0]] + number(d, 1, 3), county = number(d, 7, 9), check = weigh(d, [2, 7, 9, 1, 4, 6, 3, 5, 8, 2, 7, 9], 11);
    const isCounty = (county > 0 && county < 49) || [51, 52, 70, 80, 81, 82, 83].includes(county);
    return d[0] > 0 && isCounty && isDate(year, number(d, 3, 5), number(d, 5, 7)) && (check === 10 ? 1 : check) === d[12];
  },
  "ch.ssn": (d) => weigh(d, [1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1], 10) === 0,
  "ie.pps"(d, text) {
    const second = text[8] ?? "";
    return "ABHWTX".includes(second) && isPps(d, text[7], "ABH".includes(second) ? second : "");
  },
  "gb.nhs": (d) => weigh(d, descending(10, 10), 11) === 0,
  "tr.tckimlik": (d) => modulo(-weigh(d, [3, 1, 3, 1, 3, 1, 3, 1, 3], 10), 10) === d[9] && weigh(d, [1, 1, 1, 1, 1, 1, 1, 1, 1, 1], 10) === d[10],
  "eu.vat"(d, text) {
    const [form, check] = VAT[text.slice(0, 2)], rest = text.slice(2).trim();
    return form.test(rest) && check(d, rest);
  },
};

// Value added tax numbers of the European Union: the form behind the country's code, and the check.
const VAT = {
  AT: [/^U\d{8}$/, (d) => modulo(6 - luhn(d.slice(0, 7)), 10) === d[7]],
  BE: [/^[01]?\d{9}$/, (d) => number(d) > 0 && (number(d, 0, -2) + number(d, -2)) % 97 === 0],
  BG: [/^\d{9,10}$/, isBulgarian],
  CY: [/^(?!12)\d{8}[A-Z]$/, (d, text) => LETTERS[d.reduce((sum, x, i) => sum + (i % 2 ? x : EVEN_OF_VAT[x]), 0) % 26] === text[8]],
  CZ: [/^\d{8,10}$/, isCzech],
  DE: [/^[1-9]\d{8}$/, isMod1110],
  DK: [/^[1-9]\d{7}$/, (d) => weigh(d, [2, 7, 6, 5, 4, 3, 2, 1], 11) === 0],
  EE: [/^\d{9}$/, (d) => weigh(d, [3, 7, 1, 3, 7, 1, 3, 7, 1], 10) === 0],
  EL: [/^\d{8,9}$/, (d) => weigh([0, ...d].slice(-9), [256, 128, 64, 32, 16, 8, 4, 2], 11) % 10 === d.at(-1)],
  ES: [/^[A-Z\d]\d{7}[A-Z\d]$/, isSpanish],
  FI: [/^\d{8}$/, (d) => weigh(d, [7, 9, 10, 5, 8, 4, 2, 1], 11) === 0],
  FR: [/^[A-HJ-NP-Z\d]{2}\d{9}$/, isFrench],
  HR: [/^\d{11}$/, isMod1110],
  HU: [/^\d{8}$/, (d) => weigh(d, [9, 7, 3, 1, 9, 7, 3, 1], 10) === 0],
  IE: [/^\d[A-Z\d]\d{5}[A-W]{1,2}$/, isIrish],
  IT: [/^(?!0{7})\d{7}(?:0(?!00)\d\d|100|12[01]|888|999)\d$/, isLuhn],
  LT: [/^\d{7}1\d$|^\d{10}1\d$/, isLithuanian],
  LU: [/^\d{8}$/, (d) => number(d, 0, 6) % 89 === number(d, 6)],
  LV: [/^\d{11}$/, isLatvian],
  MT: [/^[1-9]\d{7}$/, (d) => weigh(d, [3, 4, 6, 7, 8, 9, 10, 1], 37) === 0],
  NL: [/^\d{5,9}B\d\d$/, isDutch],
  PL: [/^\d{10}$/, (d) => weigh(d, [6, 5, 7, 2, 3, 4, 5, 6, 7, -1], 11) === 0],
  PT: [/^[1-9]\d{8}$/, (d) => modulo(-weigh(d, descending(9, 8), 11), 11) % 10 === d[8]],
  RO: [/^[1-9]\d{7,9}$/, (d) => (10 * weigh([0, 0, ...d].slice(-10), [7, 5, 3, 2, 1, 7, 5, 3, 2], 11)) % 11 % 10 === d.at(-1)],
  SE: [/^\d{10}01$/, (d) => isLuhn(d.slice(0, 10))],
  SI: [/^[1-9]\d{7}$/, (d) => [11 - weigh(d, descending(8, 7), 11)].map((x) => (x === 10 ? 0 : x))[0] === d[7]],
  SK: [/^\d{10}$/, (d) => isCzechBirth(d) || (d[0] > 0 && [2, 3, 4, 7, 8, 9].includes(d[2]) && number(d) % 11 === 0)],
};

function isBulgarian(d) {
  if (d.length === 9) {
    const check = weigh(d, [1, 2, 3, 4, 5, 6, 7, 8], 11);
    return (check === 10 ? weigh(d, [3, 4, 5, 6, 7, 8, 9, 10], 11) % 10 : check) === d[8];
  }
  const isForeigner = weigh(d, [21, 19, 17, 13, 11, 9, 7, 3, 1], 10) === d[9];
  return isBulgarianBirth(d) || isForeigner || modulo(-weigh(d, [4, 3, 2, 7, 6, 5, 4, 3, 2], 11), 11) === d[9];
}

function isCzech(d) {
  if (d.length === 8) return d[0] < 9 && (modulo(-weigh(d, descending(8, 7), 11), 11) || 1) % 10 === d[7];
  if (d.length === 10 || d[0] !== 6) return isCzechBirth(d);
  return modulo(8 - modulo(10 - weigh(d.slice(1), descending(8, 7), 11), 11), 10) === d[8];
}

function isSpanish(d, text) {
  if ("KLM".includes(text[0])) return OF_DNI[number(d, 0, 7) % 23] === text[8];
  if (text[0] < "A" || "XYZ".includes(text[0])) return CHECKS[text[0] < "A" ? "es.dni" : "es.nie"](d, text);
  const check = modulo(-luhn([...d.slice(0, 7), 0]), 10);
  return /[A-HJNP-SUVW]/.test(text[0]) && [String(check), "JABCDEFGHI"[check]].includes(text[8]);
}

function isFrench(d, text) {
  const siren = d.slice(-9), [first, second] = Array.from(text, (c) => OF_TVA.indexOf(c));
  // Numbers of Monaco begin with 000.
  if (number(siren, 0, 3) > 0 && !isLuhn(siren)) return false;
  if (d.length === 11) return number(d, 0, 2) === (100 * number(siren) + 12) % 97;
  const check = first < 10 ? 24 * first + second - 10 : 34 * first + second - 100;
  return modulo(number(siren) + 1 + Math.floor(check / 11), 11) === modulo(check, 11);
}

// Old numbers have a letter as their second character.
function isIrish(d, text) {
  if (text[1] < "A") return isPps(d, text[7], text[8]);
  return isPps([0, ...d.slice(1), d[0]], text[7]);
}

function isLithuanian(d) {
  const weights = (shift) => d.slice(0, -1).map((_, i) => 1 + ((i + shift) % 9)), check = weigh(d, weights(0), 11);
  return (check === 10 ? weigh(d, weights(2), 11) % 10 : check) === d.at(-1);
}

function isLatvian(d) {
  if (d[0] > 3) return weigh(d, [9, 1, 4, 8, 3, 10, 2, 5, 7, 6, 1], 11) === 3;
  const isBirth = isDate(1800 + 100 * d[6] + number(d, 4, 6), number(d, 2, 4), number(d, 0, 2));
  return (isBirth || (d[0] === 3 && d[1] === 2)) && ((1 + weigh(d, [10, 5, 8, 4, 2, 1, 6, 3, 7, 9], 11)) % 11) % 10 === d[10];
}

function isDutch(d, text) {
  const own = [0, 0, 0, 0, ...d.slice(0, -2)].slice(-9), padded = `${own.join("")}${text.slice(-3)}`;
  if (!(number(own) > 0 && number(d, -2) > 0)) return false;
  return weigh(own, [9, 8, 7, 6, 5, 4, 3, 2, -1], 11) === 0 || isMod9710(`NL${padded}`);
}

// The functions from a text to whether it is right, by the names of python-stdnum.
export const NATIONAL_NUMBERS = Object.fromEntries(Object.entries(CHECKS).map(([name, check]) => [name, (text) => {
  const plain = text.replace(TO_ASCII, (c) => c.normalize("NFKC"));
  return /^[\x20-\x7e]+$/.test(plain) && check(Array.from(plain.replace(/\D/g, ""), Number), plain);
}]));
