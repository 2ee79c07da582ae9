// node break_model.mjs MODEL N [SEED]: change bytes or values of a model N times, also with a right checksum, load it
// and annotate a text. Prints the errors by name with their counts, the most milliseconds, and the most memory beside the
// unchanged model's.
import { readFileSync } from "node:fs";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { ModelError, load } from "../../js/src/index.js";

const TEXT = "Ann left Enron for Houston, Texas.\nHe met Bob on 0161 496 0118, 4111 1111 1111 1111. ".repeat(3);
const VALUES = [null, true, 0, -1, 1.5, 3, 255, 2 ** 31, 2 ** 53, 1e308, "", "x", "\\", "(a+)+$", [], [0], [-1, 2 ** 30], {}, { a: 1 }];
const START = 24;
setFlagsFromString("--expose-gc");
const gc = runInNewContext("gc");
const [model, count, seed = 1] = process.argv.slice(2), whole = new Uint8Array(readFileSync(model)), found = {};
let state = Number(seed);
const random = (n) => ((state = (Math.imul(state, 1664525) + 1013904223) >>> 0) >>> 4) % n;
const table = new Int32Array(256).map((_, n) => {
  for (let k = 0; k < 8; ++k) n = n & 1 ? (n >>> 1) ^ 0xedb88320 : n >>> 1;
  return n;
});
const crc32 = (bytes) => {
  let crc = -1;
  for (const byte of bytes) crc = table[(crc ^ byte) & 255] ^ (crc >>> 8);
  return ~crc >>> 0;
};
const size = new DataView(whole.buffer, whole.byteOffset).getUint32(12, true);
const header = new TextDecoder().decode(whole.subarray(START, START + size));

// Return the model with one value of its header replaced by another, or removed.
function changeValue() {
  const changed = JSON.parse(header);
  for (let at = changed; ; ) {
    const keys = Object.keys(at), key = keys[random(keys.length)], value = at[key];
    // The deeper, the more values there are.
    if (value !== null && typeof value === "object" && Object.keys(value).length && random(8)) {
      at = value;
      continue;
    }
    if (random(4)) at[key] = VALUES[random(VALUES.length)];
    else if (Array.isArray(at)) at.splice(Number(key), 1);
    else delete at[key];
    break;
  }
  const head = new TextEncoder().encode(JSON.stringify(changed)), body = whole.subarray(START + size);
  const bytes = new Uint8Array(START + head.length + body.length);
  bytes.set(whole.subarray(0, START));
  bytes.set(head, START);
  bytes.set(body, START + head.length);
  const view = new DataView(bytes.buffer);
  view.setUint32(12, head.length, true);
  view.setUint32(20, crc32(bytes.subarray(START)), true);
  return bytes;
}

// Return the model with up to three other bytes, or cut off.
function changeBytes(kind) {
  const bytes = kind ? whole.slice() : whole.slice(0, random(whole.length)), right = bytes.length > START && random(2);
  const most = kind === 1 ? START : kind === 2 ? bytes.length : START + size;
  for (let k = 0; kind && k <= random(3); ++k) bytes[random(most)] = random(256);
  if (right) new DataView(bytes.buffer).setUint32(20, crc32(bytes.subarray(START)), true);
  return bytes;
}

const tally = (name) => (found[name] = (found[name] ?? 0) + 1);
const memory = () => {
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
};
// Return what a model's pipeline needs, in bytes, before the garbage of making it is collected.
async function run(bytes) {
  gc();
  const before = memory();
  try {
    const pipeline = await load(bytes);
    try {
      pipeline.annotate(TEXT);
      tally("loaded");
    } catch (error) {
      tally(error instanceof ModelError ? "later: ModelError" : `later: ${error.constructor.name}: ${error.message}`);
    }
  } catch (error) {
    tally(error instanceof ModelError ? "ModelError" : `${error.constructor.name}: ${error.message}`);
  }
  return memory() - before;
}

let usual = 0, slowest = 0, most = 0;
for (let k = 0; k < 10; ++k) usual = Math.max(usual, await run(whole));
delete found.loaded;
for (let i = 0; i < Number(count); ++i) {
  const kind = random(8), bytes = kind < 4 ? changeBytes(kind) : changeValue(), began = performance.now();
  most = Math.max(most, await run(bytes) / usual);
  slowest = Math.max(slowest, performance.now() - began);
}
console.log(JSON.stringify({ ...found, slowest: Math.round(slowest), memory: Number(most.toFixed(2)) }));
