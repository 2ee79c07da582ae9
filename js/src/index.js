// Trained chains of spacy-bcrf in a browser, a worker or Node. No dependency, no network, no eval.

import { checkText, codePoints } from "./characters.js";
import { Component } from "./component.js";
import { ModelFile, decompress, guarded } from "./model_file.js";
import { Folding, STYLES, replaceSpans } from "./redact.js";
import { Tokenizer } from "./tokenizers.js";
import { WORD } from "./word_attributes.js";

export { ModelError } from "./model_file.js";
export { restore } from "./redact.js";

// Whether a component needs what few have. It names each condition under which a file uses `file.more` of rare.js: a missing
// one makes a good model look damaged.
function isRare({ chain, first, decoder }) {
  const isOther = ({ kind, name }) => kind === "listed" || (kind === "word" && !Object.hasOwn(WORD, name.split(".")[0]));
  return chain && (first || decoder === "f" || chain.pairs !== undefined || chain.attributes.some(isOther));
}

// Return the pipeline of a file's bytes, gzipped or not. ModelError for bytes that are no model of this version.
export async function load(bytes) {
  const whole = await decompress(bytes), file = guarded(() => new ModelFile(whole)), { components } = file.header;
  file.more = {
    ...(guarded(() => components.some(isRare)) && (await import("./rare.js"))),
    ...(components.some(({ patterns }) => patterns) && (await import("./identifiers.js"))),
  };
  return guarded(() => new Pipeline(file));
}

// Throw a TypeError for options that do not exist.
function checkOptions(options, ...known) {
  for (const name of Object.keys(options))
    if (!known.includes(name)) throw new TypeError(`unknown option ${name}; expected ${known.join(", ")}`);
}

class Pipeline {
  constructor(file) {
    const { header, characters, more } = file;
    this.meta = header.meta;
    this.promises = header.promises;
    this.folding = new Folding(characters, header.unit);
    this.tokenizer = new Tokenizer(header.tokenizer, characters);
    this.components = header.components.map((spec) => new (spec.patterns ? more.IdentifierComponent : Component)(spec, file));
  }
  // Return the component of a name, by default the only one, of those that find spans.
  find(name, onlySpans = true) {
    const chains = this.components.filter(({ chain }) => chain), names = chains.map((each) => each.name).join(", ");
    const able = chains.filter((each) => (name === undefined ? each.isSpans || !onlySpans : each.name === name));
    if (able.length === 1) return able[0];
    throw new RangeError(name === undefined ? `name one component of ${names}` : `no component ${name}; there are ${names}`);
  }
  tokenize(text) {
    checkText(text);
    return guarded(() => ({ ...this.tokenizer.tokenize(text), point: codePoints(text) }));
  }
  // Run the components in their order, those before `end`. Returns what they find by name, and the columns that later ones read.
  run(doc, options, end = null) {
    const found = {}, columns = {};
    for (const component of this.components) {
      if (component === end) break;
      const { name, spec: { writes }, isSpans } = component, own = guarded(() => component.run(doc, columns, options));
      found[name] = own;
      if (writes === "entities") {
        columns.entities = [...(columns.entities ?? []), ...own.spans];
        columns.ent_type ??= doc.words.map(() => "");
        for (const { label, tokens } of own.spans) columns.ent_type.fill(label, ...tokens);
      } else if (!isSpans) columns[component.column] = own.tags;
    }
    return { found, columns };
  }
  // Return tokens and, by component, tags, spans with probabilities, and the n best labelings.
  annotate(text, options = {}) {
    checkOptions(options, "nbest");
    const layered = options.nbest && this.components.find(({ spec }) => spec.layered);
    if (layered) throw new RangeError(`${layered.name} has spans that may overlap, which have no n best labelings here`);
    const doc = this.tokenize(text), { starts, ends, spaces } = doc;
    const tokens = doc.words.map((word, i) => ({ text: word, start: starts[i], end: ends[i], blank: spaces[i] }));
    return { text, tokens, components: this.run(doc, options).found };
  }
  // Return the spans whose probability reaches the thresholds of a promise of recall, or one threshold for all labels.
  candidates(text, options = {}) {
    checkOptions(options, "pipe", "threshold", "promise");
    const component = this.find(options.pipe), minimum = this.minimum(component, options), doc = this.tokenize(text);
    const { columns } = this.run(doc, {}, component);
    return guarded(() => component.run(doc, columns, { minimum }).candidates);
  }
  // Return the least probability of each label by a promise of the model, or a threshold.
  minimum({ name, labels, spec }, { threshold, promise }) {
    if (threshold !== undefined) {
      if (promise !== undefined) throw new TypeError("give threshold or promise, not both");
      if (!(threshold > 0 && threshold <= 1)) throw new RangeError(`threshold must be above 0 and at most 1, got ${threshold}`);
      return labels.map(() => threshold);
    }
    const known = this.promises[name] ?? {}, control = promise === undefined ? spec.control : known[promise];
    if (control?.promise === "recall") return labels.map((label) => control.thresholds[control.labels.indexOf(label)] ?? Infinity);
    const names = Object.keys(known).filter((each) => known[each].promise === "recall").join(", ");
    const what = promise === undefined ? "no promise of recall" : `no promise of recall ${promise}`;
    throw new RangeError(`${name} has ${what}; give threshold${names && `, or promise: ${names}`}`);
  }
  // Return a text without the spans of a promise of recall, and without further occurrences of their strings.
  redact(text, options = {}) {
    checkOptions(options, "pipe", "promise", "style", "threshold");
    const { style = "label" } = options;
    if (!STYLES.includes(style)) throw new RangeError(`style must be one of ${STYLES.join(", ")}, got ${style}`);
    const component = this.find(options.pipe), minimum = this.minimum(component, options);
    const doc = this.tokenize(text), { found, columns } = this.run(doc, {}, component);
    const { candidates, inside } = guarded(() => component.run(doc, columns, { minimum, inside: true }));
    const spans = candidates.map(({ start, end, label, probability: score }) => ({ start, end, label, score, repeated: false }));
    for (const { name, spec } of this.components)
      if (spec.writes === "entities" && found[name])
        for (const { start, end, label, tokens } of found[name].spans) {
          spans.push({ start, end, label, score: 1, repeated: false });
          inside.fill(1, ...tokens);
        }
    return guarded(() => replaceSpans(doc, spans, inside, style, this.folding));
  }
  // Return a stream, which annotates a text in pieces by one component as if it were whole.
  async stream(options = {}) {
    const { Stream } = await import("./stream.js");
    checkOptions(options, "pipe", "threshold", "promise");
    const component = this.find(options.pipe, false), { threshold, promise } = options;
    const isRead = component.spec.writes === "entities" || component.chain.scores.columns.includes("ent_type");
    const identifiers = isRead && this.components.find(({ finder }) => finder);
    const hasPromise = component.isSpans && component.spec.control?.promise === "recall";
    const isSought = hasPromise || threshold !== undefined || promise !== undefined;
    return new Stream(this.tokenizer, component, isSought ? this.minimum(component, options) : null, identifiers);
  }
}
