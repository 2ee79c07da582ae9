// node identifiers.mjs MODEL TEXTS: print the identifiers of each text, in UTF-16 units. TEXTS: lines in JSON.
import { readFileSync } from "node:fs";
import { load } from "../../js/src/index.js";

const [model, texts] = process.argv.slice(2), { finder } = (await load(readFileSync(model))).components[0];
const lines = readFileSync(texts, "utf8").split("\n");
console.log(JSON.stringify(lines.map((line) => finder.scan(JSON.parse(line), 0, true).found)));
