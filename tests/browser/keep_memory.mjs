// node keep_memory.mjs MODEL: prints how many MiB a pipeline keeps of a long text.
import { readFileSync } from "node:fs";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { load } from "../../js/src/index.js";

setFlagsFromString("--expose-gc");
const gc = runInNewContext("gc");
const pipeline = await load(readFileSync(process.argv[2]));
// Return the bytes in use. Arrays that nobody has are freed a moment after the collection.
async function memory() {
  for (let k = 0; k < 3; ++k) {
    gc();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return process.memoryUsage().arrayBuffers;
}
const annotate = (n) => void pipeline.annotate("Ann left Houston . ".repeat(n));
annotate(1);
const before = await memory();
annotate(20000);
console.log(((await memory()) - before) / 2 ** 20);
