// Posteriors of a first chain, pooled over the other sentences of the text. Mirrors spacy_bcrf/sparse/two_pass.py.

import { PUNCTUATION } from "./characters.js";

const ENDS = new Set([".", "!", "?", "\n", "\n\n", "。", "\uff01", "\uff1f", "؟", "।"]);
const LEAST_SENTENCES = 5;
const CLASSES = [0.05, 0.2, 0.5, 0.8, 0.95];

// Return the values of each token. posterior(i, t): the probability of tag t of all chains at token i. labels: the names,
// of (T) the place of each tag's name, and (T) whether the tag is of a longer span.
export function poolPosteriors(posterior, { labels, of, longer: isLonger }, { words }, c) {
  const L = labels.length, outside = labels.indexOf("O"), sentence = [];
  let count = 0;
  words.forEach((word, i) => {
    sentence.push(count);
    if (ENDS.has(word) || i === words.length - 1) ++count;
  });
  if (count < LEAST_SENTENCES) return words.map(() => []);
  // Sums of the tokens with a word, in the text and in each sentence: their number, labels, and labels of longer spans.
  const inText = new Map(), inSentence = new Map();
  words.forEach((word, i) => {
    const scores = new Float64Array(2 * L + 1);
    scores[0] = 1;
    // Each chain of spans that may overlap has an O of its own.
    if (outside >= 0) scores[1 + outside] = 1 - of.filter((label) => label === outside).length;
    of.forEach((label, t) => {
      scores[1 + label] += posterior(i, t);
      if (isLonger[t]) scores[1 + L + label] += posterior(i, t);
    });
    for (const [sums, key] of [[inText, word], [inSentence, `${sentence[i]} ${word}`]])
      sums.set(key, scores.map((x, k) => x + (sums.get(key)?.[k] ?? 0)));
  });
  return words.map((word, i) => {
    const here = inSentence.get(`${sentence[i]} ${word}`), others = inText.get(word).map((x, k) => x - here[k]);
    const times = Math.round(others[0]);
    if (times < 1 || [...word].every((x) => c.of(x) & PUNCTUATION)) return [];
    const expected = others.subarray(1, 1 + L), longer = others.subarray(1 + L), means = expected.map((x) => x / times);
    const best = means.indexOf(Math.max(...means)), found = [`most ${labels[best]} ${Math.min(times, 3)}`];
    const each = (test, value) => labels.forEach((label, k) => label !== "O" && test(k) && found.push(value(label, k)));
    each((k) => expected[k] >= 0.5, (label) => `some ${label}`);
    each((k) => longer[k] >= 0.5, (label) => `part ${label}`);
    each((k) => means[k] >= CLASSES[0], (label, k) => `mean ${label} ${CLASSES.filter((x) => x <= means[k]).length}`);
    return found;
  });
}
