// Check digits of national numbers. Mirrors modules of python-stdnum, by their names there.
//
// A number is a list of checks of a text of the form that identifiers.py gives it: a pattern of its letters and digits; weights
// and signs, see `hasSign`; or a function of its digits, its letters and digits, and the text.

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
// The signs by sums modulo 10 or 11: what is missing to a multiple, or the sum itself. X is 10, which no number has.
const LEFT_10 = "0987654321", LEFT_11 = "0X987654321", LEFT_11_OR_0 = "00987654321", SUM_11_OR_0 = "01234567890";
const VERHOEFF = [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 5, 7, 6, 2, 8, 3, 0, 9, 4]]; // permutations by place
while (VERHOEFF.length < 8) VERHOEFF.push(VERHOEFF[1].map((digit) => VERHOEFF.at(-1)[digit]));

const modulo = (x, n) => ((x % n) + n) % n;
const number = (d, from, to) => Number(d.slice(from, to).join(""));
const digitsOf = (text) => Array.from(text.replace(/\D/g, ""), Number);

// The sum of digits times weights, characters in base 36 of which the last one is of the last digit, modulo n.
const weigh = (d, weights, n) => d.reduce((sum, digit, i) => sum + digit * parseInt(weights[weights.length - d.length + i], 36), 0) % n;

// Whether the sign at a place is the one of the digits before it: of their sum, or without weights of their number.
function hasSign(c, weights, signs, at = c.length - 1) {
  const d = digitsOf(c.slice(0, at)), n = signs.length;
  return signs[weights ? weigh(d, weights, n) : number(d) % n] === c[at];
}

const passes = (checks, text, c = text.replace(/[^A-Z\d]/g, "")) => checks.every((check) => {
  if (check instanceof RegExp) return check.test(c);
  return typeof check === "function" ? check(digitsOf(c), c, text) : hasSign(c, ...check);
});

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

// A birth number of Czechia or Slovakia: those of 9 digits are older than 1954.
function isCzechBirth(d) {
  let year = 1900 + number(d, 0, 2);
  if (d.length === 9 && year >= 1980) year -= 100;
  if (d.length === 9 && year > 1953) return false;
  if (d.length === 10 && year < 1954) year += 100;
  return isDate(year, (number(d, 2, 4) % 50) % 20, number(d, 4, 6)) && (d.length === 9 || (number(d, 0, 9) % 11) % 10 === d[9]);
}

function isBulgarianBirth(d, c) {
  const century = [1900, 1900, 1800, 1800, 2000, 2000][d[2]];
  return isDate(century + number(d, 0, 2), number(d, 2, 4) % 20, number(d, 4, 6)) && hasSign(c, "2485a9736", SUM_11_OR_0);
}

function isNorwegian(d) {
  const year = number(d, 4, 6), n = number(d, 6, 9), [day, month] = [number(d, 0, 2), number(d, 2, 4)].map((x) => x % 40);
  const century = n < 500 ? 1900 : n < 750 && year >= 54 ? 1800 : year < 40 ? 2000 : n >= 900 ? 1900 : NaN;
  return isDate(century + year, month, day) && new Date(century + year, month - 1, day) <= new Date();
}

function isSwedish(d, _, text) {
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
const isPps = (d, letter, second = "") => OF_PPS[(weigh(d.slice(0, 7), "8765432", 23) + 9 * OF_PPS.indexOf(second || "W")) % 23] === letter;

const NUMBERS = {
  // Not those of advertisements.
  "us.ssn": [/^(?!000|666|078051120|457555462|219099999)[0-8]\d\d(?!00)\d\d(?!0000)/],
  "fr.nir": [(d) => 97 - (number(d, 0, 13) % 97) === number(d, 13)],
  "de.idnr": [/^[1-9]/, isMod1110, (d) => {
    const own = d.slice(0, 10), counts = VERHOEFF[0].map((digit) => own.filter((x) => x === digit).length).filter((n) => n > 1);
    return counts.length === 1 && counts[0] < 4;
  }],
  "it.codicefiscale": [isCodice],
  "es.dni": [["", OF_DNI]],
  "es.nie": [(d, c) => passes(NUMBERS["es.dni"], "XYZ".indexOf(c[0]) + c.slice(1))],
  "pl.pesel": [["1379137913", LEFT_10], (d) =>
    isDate([1900, 2000, 2100, 2200, 1800][d[2] >> 1] + number(d, 0, 2), number(d, 2, 4) % 20, number(d, 4, 6))],
  "br.cpf": [/[1-9]/, ["a98765432", LEFT_11_OR_0, 9], ["ba98765432", LEFT_11_OR_0]],
  "mx.curp": [isCurp],
  "in_.aadhaar": [/^[2-9]/, (d) => {
    const fromRight = [...d].reverse();
    return String(d) !== String(fromRight) && fromRight.reduce((sum, digit, i) => multiply(sum, VERHOEFF[i % 8][digit]), 0) === 0;
  }],
  "in_.pan": [/^...[ABCFGHLJPTK].(?!0000)/],
  "iso7064.mod_11_2": [["79a584216379a5842", "10X98765432"]],
  "kr.rrn": [["234567892345", "10987654321"], (d) => {
    const century = "1256".includes(d[6]) ? 1900 : "3478".includes(d[6]) ? 2000 : 1800;
    return isDate(century + number(d, 0, 2), number(d, 2, 4), number(d, 4, 6)) && number(d, 7, 9) <= 96;
  }],
  "fi.hetu": [["", OF_HETU], (d, c, text) => {
    const year = { "+": 1800, "-": 1900, A: 2000 }[text[6]] + number(d, 4, 6), n = number(d, 6, 9);
    return isDate(year, number(d, 2, 4), number(d, 0, 2)) && n > 1 && n < 900;
  }],
  "se.personnummer": [isSwedish],
  "no.fodselsnummer": [/^[0-7].[0-7]/, ["376189452", LEFT_11, 9], ["5432765432", LEFT_11], isNorwegian],
  "be.nn": [isBelgian],
  "ro.cnp": [/^[1-9]......(?:0[1-9]|[1-3]\d|4[0-8]|5[12]|70|8[0-3])/, ["279146358279", "01234567891"], (d) =>
    isDate([1900, 1900, 1900, 1800, 1800, 2000, 2000, 1900, 1900, 1900][d[0]] + number(d, 1, 3), number(d, 3, 5), number(d, 5, 7))],
  "ch.ssn": [["131313131313", LEFT_10]],
  "ie.pps": [(d, c) => "ABHWTX".includes(c[8] ?? "") && isPps(d, c[7], "ABH".includes(c[8]) ? c[8] : "")],
  "gb.nhs": [["a98765432", LEFT_11]],
  "tr.tckimlik": [["313131313", LEFT_10, 9], ["1111111111", "0123456789"]],
  "eu.vat": [(_, c) => passes(VAT[c.slice(0, 2)], c.slice(2))],
};

// Value added tax numbers of the European Union, behind the country's code.
const VAT = {
  AT: [/^U\d{8}$/, (d) => modulo(6 - luhn(d.slice(0, 7)), 10) === d[7]],
  BE: [/^(?=.*[1-9])[01]?\d{9}$/, (d) => (number(d, 0, -2) + number(d, -2)) % 97 === 0],
  BG: [/^\d{9,10}$/, isBulgarian],
  CY: [/^(?!12)\d{8}[A-Z]$/, (d, c) => LETTERS[d.reduce((sum, x, i) => sum + (i % 2 ? x : EVEN_OF_VAT[x]), 0) % 26] === c[8]],
  CZ: [/^\d{8,10}$/, isCzech],
  DE: [/^[1-9]\d{8}$/, isMod1110],
  DK: [/^[1-9]\d{7}$/, ["2765432", LEFT_11]],
  EE: [/^\d{9}$/, ["37137137", LEFT_10]],
  EL: [/^\d{8,9}$/, ["379a5842", SUM_11_OR_0]],
  ES: [/^[A-Z\d]\d{7}[A-Z\d]$/, isSpanish],
  FI: [/^\d{8}$/, ["79a5842", LEFT_11]],
  FR: [/^[A-HJ-NP-Z\d]{2}\d{9}$/, isFrench],
  HR: [/^\d{11}$/, isMod1110],
  HU: [/^\d{8}$/, ["9731973", LEFT_10]],
  // Old numbers have a letter as their second character.
  IE: [/^\d[A-Z\d]\d{5}[A-W]{1,2}$/, (d, c) => (c[1] < "A" ? isPps(d, c[7], c[8]) : isPps([0, ...d.slice(1), d[0]], c[7]))],
  IT: [/^(?!0{7})\d{7}(?:0(?!00)\d\d|100|12[01]|888|999)\d$/, isLuhn],
  LT: [/^\d{7}1\d$|^\d{10}1\d$/, (d) => hasSums(d, "123456789123", "345678912345")],
  LU: [/^\d{8}$/, (d) => number(d, 0, 6) % 89 === number(d, 6)],
  LV: [/^\d{11}$/, isLatvian],
  MT: [/^[1-9]\d{7}$/, (d) => weigh(d, "346789a1", 37) === 0],
  NL: [/^\d{5,9}B\d\d$/, isDutch],
  PL: [/^\d{10}$/, ["657234567", "0123456789X"]],
  PT: [/^[1-9]\d{8}$/, ["98765432", LEFT_11_OR_0]],
  RO: [/^[1-9]\d{7,9}$/, ["753217532", LEFT_11_OR_0]],
  SE: [/^\d{10}01$/, (d) => isLuhn(d.slice(0, 10))],
  SI: [/^[1-9]\d{7}$/, ["8765432", "X0987654321"]],
  SK: [/^\d{10}$/, (d) => isCzechBirth(d) || (d[0] > 0 && [2, 3, 4, 7, 8, 9].includes(d[2]) && number(d) % 11 === 0)],
};

// Whether the last digit is the sum of the others with the first weights or, if that is 10, with the second ones.
function hasSums(d, ...weights) {
  const n = d.length - 1, [first, second] = weights.map((all) => weigh(d.slice(0, n), all.slice(0, n), 11));
  return (first < 10 ? first : second % 10) === d[n];
}

function isBulgarian(d, c) {
  if (d.length === 9) return hasSums(d, "12345678", "3456789a");
  return isBulgarianBirth(d, c) || hasSign(c, "ljhdb9731", "0123456789") || hasSign(c, "432765432", LEFT_11);
}

function isCzech(d, c) {
  if (d.length === 8) return d[0] < 9 && hasSign(c, "8765432", "10987654321");
  return d.length === 10 || d[0] !== 6 ? isCzechBirth(d) : hasSign(c, "08765432", "89012345678");
}

function isSpanish(d, c) {
  if ("KLM".includes(c[0])) return hasSign(c, "", OF_DNI);
  if (c[0] < "A" || "XYZ".includes(c[0])) return passes(NUMBERS[c[0] < "A" ? "es.dni" : "es.nie"], c);
  const check = modulo(-luhn([...d.slice(0, 7), 0]), 10);
  return /[A-HJNP-SUVW]/.test(c[0]) && [String(check), "JABCDEFGHI"[check]].includes(c[8]);
}

function isFrench(d, c) {
  const siren = d.slice(-9), [first, second] = Array.from(c, (x) => OF_TVA.indexOf(x));
  // Numbers of Monaco begin with 000.
  if (number(siren, 0, 3) > 0 && !isLuhn(siren)) return false;
  if (d.length === 11) return number(d, 0, 2) === (100 * number(siren) + 12) % 97;
  const check = first < 10 ? 24 * first + second - 10 : 34 * first + second - 100;
  return modulo(number(siren) + 1 + Math.floor(check / 11), 11) === modulo(check, 11);
}

function isLatvian(d, c) {
  if (d[0] > 3) return hasSign(c, "91483a2576", "3210X987654");
  const isBirth = isDate(1800 + 100 * d[6] + number(d, 4, 6), number(d, 2, 4), number(d, 0, 2));
  return (isBirth || (d[0] === 3 && d[1] === 2)) && hasSign(c, "a584216379", "12345678900");
}

function isDutch(d, c) {
  const own = c.slice(0, -3).padStart(9, "0"), isRight = hasSign(own, "98765432", "0123456789X") || isMod9710(`NL${own}${c.slice(-3)}`);
  return number(d, 0, -2) > 0 && number(d, -2) > 0 && isRight;
}

// The functions from a text to whether it is right, by the names of python-stdnum.
export const NATIONAL_NUMBERS = Object.fromEntries(Object.entries(NUMBERS).map(([name, checks]) => [name, (text) => {
  const plain = text.replace(TO_ASCII, (c) => c.normalize("NFKC"));
  return /^[\x20-\x7e]+$/.test(plain) && passes(checks, plain);
}]));
