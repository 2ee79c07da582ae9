// The file of a pipeline. Mirrors spacy_bcrf/browser/export.py, which describes the format.

import { Characters } from "./characters.js";

const MAGIC = "BCRF\r\n\x1a\n", VERSION = 3, START = 24;
const MOST_RATIO = 200; // of the sizes of a file and of its gzipped bytes
const POWERS = Array.from({ length: 32 }, (_, exponent) => 2 ** (exponent - 25));
// The types of sections: bytes of a number, and the array that reads them.
const SECTIONS = {
  uint8: [1, Uint8Array],
  int32: [4, Int32Array],
  float32: [4, Float32Array],
  float16: [2, Uint16Array],
  uint64: [8, Int32Array], // as two halves
};

// An error of a file: it is none, damaged, or of a version that this one cannot read.
export class ModelError extends Error {
  name = "ModelError";
}

const damaged = (what, cause) => new ModelError(`the model is damaged: ${what}; fetch or export it again`, { cause });

// Return the bytes of a file, gzipped or not.
export async function decompress(given) {
  if (!(given instanceof ArrayBuffer || ArrayBuffer.isView(given)))
    throw new TypeError(`expected an ArrayBuffer or a Uint8Array, got ${given?.constructor?.name ?? typeof given}`);
  const bytes = ArrayBuffer.isView(given) ? new Uint8Array(given.buffer, given.byteOffset, given.byteLength) : new Uint8Array(given);
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return bytes;
  let size = 0;
  const count = (part, controller) => {
    size += part.length;
    if (size > MOST_RATIO * bytes.length) controller.error();
    else controller.enqueue(part);
  };
  const unzipped = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  try {
    return new Uint8Array(await new Response(unzipped.pipeThrough(new TransformStream({ transform: count }))).arrayBuffer());
  } catch (error) {
    if (size > MOST_RATIO * bytes.length) throw damaged("its gzipped bytes hold too much");
    throw damaged(`its gzipped bytes cannot be read (${error.message || error.code})`);
  }
}

function crc32(bytes) {
  const table = new Int32Array(256).map((_, n) => {
    for (let k = 0; k < 8; ++k) n = n & 1 ? (n >>> 1) ^ 0xedb88320 : n >>> 1;
    return n;
  });
  let crc = -1;
  for (let i = 0; i < bytes.length; ++i) crc = table[(crc ^ bytes[i]) & 255] ^ (crc >>> 8);
  return ~crc >>> 0;
}

export class ModelFile {
  constructor(bytes) {
    if (String.fromCharCode(...bytes.subarray(0, 8)) !== MAGIC)
      throw new ModelError("the bytes are no model; expected a file of `python -m spacy bcrf export`");
    if (bytes.length < START) throw damaged("it is cut off");
    const view = new DataView(bytes.buffer, bytes.byteOffset), least = view.getUint16(10, true);
    if (least !== VERSION)
      throw new ModelError(`the model needs a reader of version ${least}, this is version ${VERSION}; update bcrf or export again`);
    const [head, body, checksum] = [12, 16, 20].map((at) => view.getUint32(at, true));
    if (bytes.length !== START + head + body) throw damaged(`it has ${bytes.length} bytes of ${START + head + body}`);
    if (crc32(bytes.subarray(START)) !== checksum) throw damaged("its checksum differs");
    this.header = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(START, START + head)));
    this.tables = this.header.tables;
    this.characters = new Characters(this.header);
    this.symbols = new Map(Object.entries(this.header.symbols));
    this.words = new Map();
    let at = START + head;
    this.sections = this.header.sections.map(([type, n]) => {
      const from = at;
      at += n * SECTIONS[type][0];
      if (!(at <= bytes.length)) throw damaged("a section is outside");
      return readSection(type, bytes.subarray(from, at));
    });
  }
  // Return the map from words to values that `group_words` of model_bytes.py grouped.
  wordTable(k) {
    if (!this.words.has(k)) {
      const table = new Map();
      for (const [value, words] of Object.entries(this.tables[k]))
        for (const word of words.split(words[0]).slice(1)) table.set(word, value);
      this.words.set(k, table);
    }
    return this.words.get(k);
  }
}

// Return the numbers of a section, which has all their first bytes, then all second ones.
function readSection(type, bytes) {
  const [size, Numbers] = SECTIONS[type], out = new Uint8Array(bytes.length);
  if (size === 1) out.set(bytes);
  else for (let b = 0, k = 0; b < size; ++b) for (let at = b; at < out.length; at += size) out[at] = bytes[k++];
  const numbers = new Numbers(out.buffer);
  if (type !== "float16") return numbers;
  const found = new Float32Array(numbers.length);
  for (let i = 0; i < found.length; ++i) {
    const exponent = (numbers[i] >> 10) & 31, rest = numbers[i] & 1023;
    const size = exponent ? (1024 + rest) * POWERS[exponent] : rest * POWERS[1];
    found[i] = numbers[i] >> 15 ? -size : size;
  }
  return found;
}

// Return what `make` makes of a file. ModelError for anything that fails, as it does with a damaged header.
export function guarded(make) {
  try {
    return make();
  } catch (error) {
    throw error instanceof ModelError ? error : damaged(error.message, error);
  }
}
