// The weights of features, by the keys of these. Mirrors bcrf/kernels/cpu/sparse/scores.hh.

import { PairTable, hash, mix } from "./hash.js";

const HEAD = 3; // numbers before the weights of a key

export class Weights {
  // bits (F, T / 8): which weights of a key are not 0. values: these.
  //
  // A row has its key, its end, and pairs of tag and weight. So a row is in few lines of the cache.
  constructor(keys, bits, values, T) {
    const n = keys.length / 2, width = (T + 7) >> 3, data = new Int32Array(HEAD * n + 2 * values.length);
    Object.assign(this, { data, floats: new Float32Array(data.buffer), starts: new Int32Array(n), table: new PairTable(data, n) });
    let total = 0, at = 0;
    for (let row = 0; row < n; ++row) {
      const start = (this.starts[row] = at);
      at += HEAD;
      for (let k = 0; k < width; ++k)
        for (let byte = bits[row * width + k]; byte; byte &= byte - 1, at += 2) {
          data[at] = 8 * k + 31 - Math.clz32(byte & -byte);
          if (data[at] >= T) throw new RangeError("the weights do not fit the tags");
          this.floats[at + 1] = values[total++];
        }
      data[start] = keys[2 * row];
      data[start + 1] = keys[2 * row + 1];
      data[start + 2] = at;
      this.table.enter(start);
    }
    if (total !== values.length || bits.length !== n * width) throw new RangeError("the weights do not fit the keys");
  }
  // Add the weights of a key with a value mixed in to out[at ..].
  add(keyLow, keyHigh, valueLow, valueHigh, out, at) {
    mix(keyLow, keyHigh, valueLow, valueHigh);
    const { data, floats } = this, place = this.table.find(hash[0], hash[1]);
    if (place < 0) return;
    for (let k = place + HEAD, end = data[place + 2]; k < end; k += 2) out[at + data[k]] += floats[k + 1];
  }
  // Return the weight of a row and a tag. row: -1 for none.
  at(row, tag) {
    const { data, floats } = this, start = this.starts[row];
    for (let k = start + HEAD; k < data[start + 2]; k += 2) if (data[k] === tag) return floats[k + 1];
    return 0;
  }
}
