// The weights of features, by the keys of these. Mirrors bcrf/kernels/cpu/sparse/scores.hh.

import { PairTable, hash, mix } from "./hash.js";

const HEAD = 3; // numbers before the weights of a key

export class Weights {
  // bits (F, T / 8): which weights of a key are not 0. values: these.
  //
  // A row has its key, its end, and either all T weights, or pairs of tag and weight if these are shorter. So a row is in few
  // lines of the cache.
  constructor(keys, bits, values, T) {
    const n = keys.length / 2, width = (T + 7) >> 3;
    if (bits.length !== n * width) throw new RangeError("the weights do not fit the keys");
    this.T = T;
    this.starts = new Int32Array(n + 1);
    const counts = Uint8Array.from({ length: 256 }, (_, byte) => byte.toString(2).replaceAll("0", "").length);
    for (let row = 0, at = 0; row < n; ++row) {
      let count = 0;
      for (const end = at + width; at < end; ++at) count += counts[bits[at]];
      this.starts[row + 1] = this.starts[row] + HEAD + Math.min(2 * count, T);
    }
    const data = (this.data = new Int32Array(this.starts[n])), floats = (this.floats = new Float32Array(data.buffer));
    this.table = new PairTable(data, n);
    let total = 0;
    for (let row = 0; row < n; ++row) {
      const start = this.starts[row], end = this.starts[row + 1], isWhole = end - start === HEAD + T;
      data[start] = keys[2 * row];
      data[start + 1] = keys[2 * row + 1];
      data[start + 2] = end;
      this.table.enter(start);
      for (let k = 0, at = start + HEAD; k < width; ++k)
        for (let byte = bits[row * width + k]; byte; byte &= byte - 1) {
          const tag = 8 * k + 31 - Math.clz32(byte & -byte);
          if (tag >= T) throw new RangeError("the weights do not fit the tags");
          if (!isWhole) data[at++] = tag;
          floats[isWhole ? start + HEAD + tag : at++] = values[total++];
        }
    }
    if (total !== values.length) throw new RangeError("the weights do not fit the keys");
  }
  // Add the weights of a key with a value mixed in to out[at ..].
  add(keyLow, keyHigh, valueLow, valueHigh, out, at) {
    mix(keyLow, keyHigh, valueLow, valueHigh);
    const { T, data, floats } = this, place = this.table.find(hash[0], hash[1]);
    if (place < 0) return;
    const start = place + HEAD, end = data[place + 2];
    if (end - start === T) for (let t = 0; t < T; ++t) out[at + t] += floats[start + t];
    else for (let k = start; k < end; k += 2) out[at + data[k]] += floats[k + 1];
  }
  // Return the weight of a row and a tag. row: -1 for none.
  at(row, tag) {
    const { T, data, floats } = this, start = this.starts[row] + HEAD, end = this.starts[row + 1];
    if (end - start === T) return floats[start + tag];
    for (let k = start; k < end; k += 2) if (data[k] === tag) return floats[k + 1];
    return 0;
  }
}
