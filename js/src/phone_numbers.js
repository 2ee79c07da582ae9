// Telephone numbers: what identifiers.js asks of them. Mirrors phonenumberutil.py of the Python library phonenumbers, whose
// metadata the file has.
//
// A number is a country code and the digits behind it.

const SHORTEST = 2, LONGEST = 17; // digits without the country code
const LONGEST_CODE = 3;

export class PhoneNumbers {
  // rows: of each country, the main one of a code first. regions: countries whose numbers need no code.
  constructor(rows, regions) {
    this.byCode = new Map();
    this.regions = [];
    for (const row of rows) {
      const [region, code, prefix, transform, leading, idd, pattern, lengths, local, kinds, formats] = row;
      const country = {
        code, transform, lengths, local,
        prefix: start(prefix),
        leading: start(leading),
        idd: start(idd),
        pattern: whole(pattern),
        kinds: kinds.map(([own, form]) => [own, whole(form)]),
        formats: formats.map(([form, first, template]) => [whole(form), start(first), template]),
      };
      if (regions.includes(region)) this.regions.push(country);
      if (!this.byCode.has(code)) this.byCode.set(code, []);
      this.byCode.get(code).push(country);
    }
  }
  // Return a number from a text of digits, blanks and signs, or null. country: where it may be without its code.
  parse(text, country = null) {
    const at = text.search(/[+\d]/), isForeign = text[at] === "+", digits = text.replace(/\D/g, "");
    if (text.lastIndexOf("+") > at) return null;
    if (isForeign && digits.length <= SHORTEST) return null;
    let found = isForeign && this.readCode(digits);
    if (!found) {
      found = country && this.splitCode(digits, country);
      if (!found || (isForeign && !found.code)) return null;
    }
    let { code, number } = found;
    if (code) [country] = this.byCode.get(code);
    else ({ code } = country);
    if (number.length < SHORTEST) return null;
    const own = withoutPrefix(number, country);
    if (["possible", "long"].includes(compareLength(own, country))) number = own;
    return number.length > LONGEST ? null : { code, number };
  }
  // Return the number whose first digits are the code of a country, or null.
  readCode(digits) {
    for (let n = 1; n <= LONGEST_CODE && digits[0] !== "0"; ++n) {
      const code = Number(digits.slice(0, n));
      if (this.byCode.has(code)) return { code, number: digits.slice(n) };
    }
    return null;
  }
  // Return the number of digits dialled in a country, with the code 0 if they are without one. Null if there is no such code.
  splitCode(digits, country) {
    const idd = country.idd?.exec(digits), rest = idd && digits.slice(idd[0].length);
    if (idd && rest[0] !== "0") return rest.length > SHORTEST ? this.readCode(rest) : null;
    const code = String(country.code);
    if (digits.startsWith(code)) {
      const number = withoutPrefix(digits.slice(code.length), country);
      const isBetter = !country.pattern.test(digits) && country.pattern.test(number);
      if (isBetter || compareLength(digits, country) === "long") return { code: country.code, number };
    }
    return { code: 0, number: digits };
  }
  // Whether the length is one of numbers of its country.
  isPossible(found) {
    return found !== null && ["possible", "local"].includes(compareLength(found.number, this.byCode.get(found.code)[0]));
  }
  isValid(found) {
    if (!found) return false;
    const { number } = found, countries = this.byCode.get(found.code);
    const isOf = (country) => (country.leading ? country.leading.test(number) : isNumberOf(number, country));
    const country = countries.length > 1 ? countries.find(isOf) : countries[0];
    return country !== undefined && isNumberOf(number, country);
  }
  // Whether a text is a number of one of the regions, whose groups of digits, if any, are the usual ones or parts of them.
  isNational(text) {
    const ends = findEnds(text);
    return this.regions.some((country) => {
      const found = this.parse(text, country);
      if (found?.code !== country.code || !isNumberOf(found.number, country)) return false;
      return /^\d+$/.test(text) || [...findEnds(this.format(found))].every((end) => ends.has(end));
    });
  }
  // Return a number as its country writes it.
  format({ code, number }) {
    const fits = ([pattern, leading]) => (!leading || leading.test(number)) && pattern.test(number);
    const found = this.byCode.get(code)[0].formats.find(fits);
    return found ? number.replace(found[0], found[2]) : number;
  }
}

const start = (pattern) => pattern && new RegExp(`^(?:${pattern})`);
const whole = (pattern) => new RegExp(`^(?:${pattern})$`);

// Return where the groups of digits of a text end, in digits.
function findEnds(text) {
  let end = 0;
  return new Set(Array.from(text.matchAll(/\d+/g), ([group]) => (end += group.length)));
}

function compareLength({ length }, { lengths, local }) {
  if (local.includes(length)) return "local";
  if (lengths.includes(length)) return "possible";
  return length < lengths[0] ? "short" : length > lengths.at(-1) ? "long" : "between";
}

// Whether a number is one of a country, of any kind.
function isNumberOf(number, { pattern, lengths, kinds }) {
  const fits = ([own, form]) => own.includes(number.length) && form.test(number);
  return lengths.includes(number.length) && pattern.test(number) && kinds.some(fits);
}

// Return digits without what is dialled only within a country.
function withoutPrefix(digits, { prefix, transform, pattern }) {
  const match = prefix && prefix.exec(digits);
  if (!match) return digits;
  const isTransformed = transform && match.at(-1) !== undefined;
  const rest = isTransformed ? digits.replace(prefix, transform) : digits.slice(match[0].length);
  return pattern.test(digits) && !pattern.test(rest) ? digits : rest;
}
