// node replay_stream.mjs MODEL GOLDEN SEED: feed the texts in random pieces, and compare with the whole texts, spans with Python's.
import { readFileSync } from "node:fs";
import { load } from "../../js/src/index.js";

const [model, golden, seed] = process.argv.slice(2);
const pipeline = await load(readFileSync(model)), different = [], last = pipeline.components.at(-1).name;
let state = Number(seed), texts = 0, p = 0, released = 0;
const random = (n) => {
  state = (Math.imul(state, 1103515245) + 12345) >>> 0;
  return (state >>> 8) % n;
};
for (const line of readFileSync(golden, "utf8").trimEnd().split("\n")) {
  const { text, components } = JSON.parse(line), whole = pipeline.annotate(text), wanted = whole.components[last];
  const options = { pipe: last, threshold: 0.05 }, stream = await pipeline.stream(options), parts = [];
  const most = [1, 4, 40][random(3)];
  for (let at = 0; at < text.length; ) {
    const to = at + 1 + random(most);
    parts.push(stream.feed(text.slice(at, to)));
    at = to;
  }
  released += parts.flatMap(({ tokens }) => tokens).length;
  parts.push(stream.close());
  ++texts;
  const key = (x) => [x.start, x.end, x.label];
  const all = (name) => parts.flatMap((part) => part[name]);
  const spans = all("spans").sort((a, b) => a.tokens[0] - b.tokens[0] || a.tokens[1] - b.tokens[1] || (a.label < b.label ? -1 : 1));
  const own = components[last].spans;
  const likely = pipeline.candidates(text, options), candidates = all("candidates");
  if (JSON.stringify(likely.map(key)) !== JSON.stringify(candidates.map(key))) different.push({ text, likely, candidates });
  else likely.forEach((x, i) => (p = Math.max(p, Math.abs(x.probability - candidates[i].probability))));
  const a = JSON.stringify([whole.tokens, wanted.tags, own.map((x) => x.slice(0, 5))]);
  const b = JSON.stringify([all("tokens"), all("tags"), spans.map((x) => [...x.tokens, x.label, ...x.points])]);
  const marked = whole.components.identifiers?.spans.map(({ text: _, ...span }) => span) ?? [];
  if (JSON.stringify(marked) !== JSON.stringify(all("identifiers"))) different.push({ text, marked, found: all("identifiers") });
  if (a !== b) different.push({ text, wanted: a, found: b });
  else own.forEach((x, i) => (p = Math.max(p, Math.abs(x[5] - spans[i].probability))));
}
console.log(JSON.stringify({ texts, released, p, n: different.length, different: different.slice(0, 2) }));
