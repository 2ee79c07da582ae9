// 64-bit hashes as two 32-bit halves. Mirrors bcrf/kernels/cpu/sparse (mix) and spaCy's `hash_string`.
//
// Each function leaves its result in `hash`, low half first: an object per hash would cost most of the time.

export const hash = new Int32Array(2);

function multiply(al, ah, bl, bh) {
  const a0 = al & 0xffff, a1 = al >>> 16, b0 = bl & 0xffff, b1 = bl >>> 16;
  const p = Math.imul(a0, b0) >>> 0;
  const t = ((Math.imul(a1, b0) >>> 0) + (p >>> 16)) >>> 0;
  const w = ((t & 0xffff) + (Math.imul(a0, b1) >>> 0)) >>> 0;
  hash[0] = (w << 16) | (p & 0xffff);
  hash[1] = (Math.imul(a1, b1) + (t >>> 16) + (w >>> 16) + Math.imul(al, bh) + Math.imul(ah, bl)) | 0;
}

// Mix a value into a key by the finalizer of splitmix64, as `bcrf::mix`. Its two products are written out: it takes most time.
export function mix(keyLow, keyHigh, valueLow, valueHigh) {
  let low = (keyLow ^ valueLow) >>> 0, high = keyHigh ^ valueHigh;
  const sum = low + 0x7f4a7c15;
  high = (high + 0x9e3779b9 + (sum > 0xffffffff ? 1 : 0)) | 0;
  low = sum | 0;
  let x = low ^ ((low >>> 30) | (high << 2)), y = high ^ (high >>> 30), x0 = x & 0xffff, x1 = x >>> 16;
  let t = (Math.imul(x1, 0xe5b9) + (Math.imul(x0, 0xe5b9) >>> 16)) | 0, w = (t & 0xffff) + Math.imul(x0, 0x1ce4);
  low = Math.imul(x, 0x1ce4e5b9);
  high = (Math.imul(x1, 0x1ce4) + (t >>> 16) + (w >>> 16) + Math.imul(x, 0xbf58476d) + Math.imul(y, 0x1ce4e5b9)) | 0;
  x = low ^ ((low >>> 27) | (high << 5));
  y = high ^ (high >>> 27);
  x0 = x & 0xffff;
  x1 = x >>> 16;
  t = (Math.imul(x1, 0x11eb) + (Math.imul(x0, 0x11eb) >>> 16)) | 0;
  w = (t & 0xffff) + Math.imul(x0, 0x1331);
  low = Math.imul(x, 0x133111eb);
  high = (Math.imul(x1, 0x1331) + (t >>> 16) + (w >>> 16) + Math.imul(x, 0x94d049bb) + Math.imul(y, 0x133111eb)) | 0;
  hash[0] = low ^ ((low >>> 31) | (high << 1));
  hash[1] = high ^ (high >>> 31);
}

const encoder = new TextEncoder();
let bytes = new Uint8Array(1024);
const ML = 0x5bd1e995, MH = 0xc6a4a793;

// MurmurHash64A of the UTF-8 bytes of a text, with the seed 1.
export function hashText(text) {
  let n = text.length, i = 0;
  if (3 * n > bytes.length) bytes = new Uint8Array(6 * n);
  for (let code; i < n && (code = text.charCodeAt(i)) < 128; ++i) bytes[i] = code;
  if (i < n) n = encoder.encodeInto(text, bytes).written;
  const part = (at, count) => {
    let found = 0;
    for (let k = 0; k < count; ++k) found |= bytes[at + k] << (8 * k);
    return found;
  };
  multiply(n, 0, ML, MH);
  let low = hash[0] ^ 1, high = hash[1], at = 0;
  for (; at + 8 <= n; at += 8) {
    multiply(part(at, 4), part(at + 4, 4), ML, MH);
    multiply(hash[0] ^ (hash[1] >>> 15), hash[1], ML, MH);
    multiply(low ^ hash[0], high ^ hash[1], ML, MH);
    low = hash[0];
    high = hash[1];
  }
  if (at < n) {
    multiply(low ^ part(at, Math.min(4, n - at)), high ^ part(at + 4, n - at - 4), ML, MH);
    low = hash[0];
    high = hash[1];
  }
  multiply(low ^ (high >>> 15), high, ML, MH);
  hash[0] ^= hash[1] >>> 15;
}

// A hash table of pairs of 32-bit numbers, which `data` has at some places.
export class PairTable {
  // count: the most pairs.
  constructor(data, count) {
    // A slot has the place + 1 in its low bits, 0 if it is free, and other bits of the hash: most pairs that are not
    // there are told apart without a look at `data`.
    const bits = 33 - Math.clz32(count);
    this.data = data;
    this.n = 0;
    this.shift = 32 - bits;
    this.places = 2 ** (32 - Math.clz32(data.length)) - 1;
    this.slots = new Int32Array(2 ** bits);
  }
  enter(place) {
    const { slots, data } = this, low = data[place], high = data[place + 1];
    let at = (Math.imul(low, 0x85ebca6b) + Math.imul(high, 0xc2b2ae35)) >>> this.shift;
    while (slots[at]) at = (at + 1) & (slots.length - 1);
    slots[at] = (Math.imul(low ^ high, 0x9e3779b1) & ~this.places) | (place + 1);
    ++this.n;
  }
  // Return the place of a pair, or -1.
  find(low, high) {
    const { slots, data, places } = this, mark = Math.imul(low ^ high, 0x9e3779b1) & ~places;
    let at = (Math.imul(low, 0x85ebca6b) + Math.imul(high, 0xc2b2ae35)) >>> this.shift;
    for (let slot; (slot = slots[at]) !== 0; at = (at + 1) & (slots.length - 1)) {
      const place = (slot & places) - 1;
      if ((slot & ~places) === mark && data[place] === low && data[place + 1] === high) return place;
    }
    return -1;
  }
  forget() {
    this.n = 0;
    this.slots.fill(0);
  }
  // Append a pair to a table that has nothing else, and return its number.
  add(low, high) {
    const { n } = this;
    if (2 * n === this.data.length) {
      Object.assign(this, new PairTable(enlarged(this.data), 2 * n));
      for (let k = 0; k < n; ++k) this.enter(2 * k);
    }
    this.data[2 * n] = low;
    this.data[2 * n + 1] = high;
    this.enter(2 * n);
    return n;
  }
}

// Return an array of twice the size with the same beginning.
export function enlarged(array) {
  const larger = new array.constructor(2 * array.length);
  larger.set(array);
  return larger;
}
