// node break_model.mjs MODEL N: change bytes of a model, also with a right checksum. Prints {name of the error: count}.
import { readFileSync } from "node:fs";
import { ModelError, load } from "../../js/src/index.js";

const [model, count] = process.argv.slice(2), whole = new Uint8Array(readFileSync(model)), found = {};
let state = 1;
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
const header = new DataView(whole.buffer, whole.byteOffset).getUint32(12, true);
const tally = (name) => (found[name] = (found[name] ?? 0) + 1);
for (let i = 0; i < Number(count); ++i) {
  let bytes = whole.slice();
  const kind = random(4);
  if (kind === 0) bytes = bytes.slice(0, random(bytes.length));
  else for (let k = 0; k <= random(3); ++k) bytes[random(kind === 1 ? 24 : kind === 2 ? bytes.length : 24 + header)] = random(256);
  const right = bytes.length > 24 && random(2);
  if (right) new DataView(bytes.buffer).setUint32(20, crc32(bytes.subarray(24)), true);
  try {
    const pipeline = await load(bytes);
    const same = bytes.length === whole.length && bytes.every((byte, k) => byte === whole[k]);
    if (!right && !same) throw new Error("a wrong checksum was taken");
    tally("loaded");
    try {
      pipeline.annotate("Ann left Enron for Houston, Texas.\nHe met Bob.");
    } catch (error) {
      tally(`later: ${error.constructor.name}`);
    }
  } catch (error) {
    tally(error instanceof ModelError ? "ModelError" : `${error.constructor.name}: ${error.message}`);
  }
}
console.log(JSON.stringify(found));
