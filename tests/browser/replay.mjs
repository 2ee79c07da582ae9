// node replay.mjs MODEL GOLDEN: compare with the output of Python. Prints a JSON object: what differs, and by how much.
import { readFileSync } from "node:fs";
import { codePoints } from "../../js/src/characters.js";
import { load, restore } from "../../js/src/index.js";

const [model, golden] = process.argv.slice(2);
const pipeline = await load(readFileSync(model));
const different = [];
let texts = 0, spans = 0, p = 0;
const compare = (what, text, wanted, found) => {
  if (JSON.stringify(wanted) === JSON.stringify(found)) return true;
  different.push({ what, text, wanted, found });
  return false;
};
// Identifiers have no probability.
const measure = (wanted, found) => wanted.forEach((x, i) => (p = Math.max(p, Math.abs((x ?? 1) - (found[i] ?? 1)))));
for (const line of readFileSync(golden, "utf8").trimEnd().split("\n")) {
  const { text, tokens, components, redacted } = JSON.parse(line), found = pipeline.annotate(text), point = codePoints(text);
  ++texts;
  if (!compare("tokens", text, tokens, found.tokens.map((t) => [t.text, point(t.start), t.blank]))) continue;
  for (const [name, wanted] of Object.entries(components)) {
    const { chain, spec: { control, layered } } = pipeline.components.find((each) => each.name === name);
    const own = control?.promise === "recall" ? pipeline.candidates(text, { pipe: name }) : [];
    if (wanted.tags && compare(`${name} tags`, text, wanted.tags, found.components[name].tags))
      measure(wanted.probabilities, found.components[name].probabilities);
    if (tokens.length && tokens.length < 3 && chain && !layered) {
      const { nbest } = pipeline.annotate(text, { nbest: 1e4 }).components[name], sum = nbest.reduce((x, each) => x + each.probability, 0);
      compare(`${name} sum of all labelings`, text, 1, Math.round(1e6 * sum) / 1e6);
    }
    for (const [kind, list] of [["spans", found.components[name].spans], ["candidates", own]]) {
      if (!wanted[kind]) continue;
      const bounds = wanted[kind].map((x) => x.slice(0, 5));
      spans += bounds.length;
      if (compare(`${name} ${kind}`, text, bounds, list.map((x) => [...x.tokens, x.label, ...x.points])))
        measure(wanted[kind].map((x) => x[5]), list.map((x) => x.probability));
    }
  }
  for (const [style, wanted] of Object.entries(redacted ?? {})) {
    const own = pipeline.redact(text, { style }), inOld = codePoints(text), inNew = codePoints(own.text);
    const show = (list, offset) => list.map((x) => [offset(x.start), offset(x.end), x.label, x.repeated]);
    // Places left are in the order of scores, of which some differ by rounding alone.
    const byStart = (list) => list.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    byStart(wanted[2]);
    compare(`redacted ${style}`, text, wanted, [own.text, show(own.regions, inOld), byStart(show(own.left, inNew))]);
  }
  if (redacted) {
    const own = pipeline.redact(text, { style: "numbered" });
    compare("restored", text, text, restore(own.text, own.placeholders));
    try {
      different.push(pipeline.redact(text, { threshold: 0.5, promise: "recall" }));
    } catch ({ message }) {
      compare("error", text, "give threshold or promise, not both", message);
    }
  }
}
console.log(JSON.stringify({ texts, spans, p, n: different.length, different: different.slice(0, 3) }));
