// node attributes.mjs MODEL WORDS: print the values of attributes, and folded texts with their offsets.
// WORDS: lines [name, lengths, word] in JSON.
import { readFileSync } from "node:fs";
import { split } from "../../js/src/characters.js";
import { load } from "../../js/src/index.js";
import { wordAttribute } from "../../js/src/word_attributes.js";

const [model, words] = process.argv.slice(2), pipeline = await load(readFileSync(model));
const chain = pipeline.components.at(-1).chain.scores;
const values = readFileSync(words, "utf8").split("\n").map((line) => {
  const [name, lengths, word] = JSON.parse(line);
  if (name === "folded") return Object.values(pipeline.folding.foldText(word));
  return wordAttribute({ name, lengths }, chain)(word, split(word));
});
console.log(JSON.stringify(values));
