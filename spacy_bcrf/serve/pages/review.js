"use strict";
// Review of predicted spans. page.py describes the data. Texts and labels enter the page
// only as text nodes and attributes.

const data = JSON.parse(document.getElementById("data").textContent);
const STORAGE_KEY = `spacy-bcrf-review:${data.key}`;
const CHUNK = 20; // number of documents added to the page at a time
const byId = (id) => document.getElementById(id);

// A state is {spans, complete, choices} of one document and never changes: undo restores the earlier
// one. A span is {start, end, label, status} in tokens. status: "open", "accepted" or "rejected".
// A choice is {kind, names, pair}: the keys of two versions of a span, null for no span. The versions
// are gold and suggestion of a suspect, or what two annotators decided.
let work = restore(); // states of changed documents, by index
let past = []; // [index, earlier state or undefined]
let isStored = true;
let list = []; // indices of the shown documents, in order
let nRendered = 0;
let current = null; // {index, key}; the key is null for a document without a selected span
let selection = null; // {index, start, end} of the selected text, in tokens

const keyOf = (span) => `${span.start}:${span.end}:${span.label}`;
const compare = (a, b) => a.start - b.start || a.end - b.end || a.label - b.label;
const overlap = (a, b) => a.start < b.end && b.start < a.end;
const hasSameBounds = (a, b) => a.start === b.start && a.end === b.end;
const contradict = (a, b) => !data.overlap && overlap(a, b);

// ---- Documents

/** Return code points by index: the tokens' offsets count them, JavaScript counts UTF-16 units. */
function codePoints(index) {
  const doc = data.documents[index];
  doc.chars ??= Array.from(doc.text);
  return doc.chars;
}

function textOf(index, start, end) {
  const { starts, ends } = data.documents[index];
  return codePoints(index).slice(starts[start], ends[end - 1]).join("");
}

/** Return {p, isPredicted} of a span; p is null for a span that the model did not propose. */
function scoreOf(index, span) {
  const doc = data.documents[index];
  doc.scores ??= new Map(
    [...doc.spans, ...doc.alternatives].map(([start, end, label, p, isPredicted = false]) => [
      keyOf({ start, end, label }),
      { p, isPredicted },
    ]),
  );
  return doc.scores.get(keyOf(span)) ?? { p: null, isPredicted: false };
}

function initialState(index) {
  const doc = data.documents[index];
  doc.initial ??= {
    spans: doc.spans.map(([start, end, label, , , status = "open"]) => ({ start, end, label, status })),
    complete: false,
    choices: doc.choices ?? [],
    closes: doc.closes, // complete with the last decision
  };
  return doc.initial;
}

const stateOf = (index) => work.get(index) ?? initialState(index);
const spanOf = (index, key) => stateOf(index).spans.find((span) => keyOf(span) === key);

/** Return the choice that a span belongs to, an open one first. */
function choiceOf(index, key) {
  const found = stateOf(index).choices.filter(({ pair }) => pair.includes(key));
  return found.find((choice) => isOpen(index, choice)) ?? found[0];
}

const leadOf = ({ pair: [first, second] }) => first ?? second;
const isOpen = (index, choice) => spanOf(index, leadOf(choice))?.status === "open";

/** Return the spans that can replace a span, the most probable first. */
function alternativesOf(index, span) {
  const { spans, alternatives } = data.documents[index];
  const isShown = (other) => keyOf(other) === keyOf(span) || (data.overlap && spanOf(index, keyOf(other)));
  return [...spans, ...alternatives]
    .map(([start, end, label, p]) => ({ start, end, label, p }))
    .filter((other) => overlap(other, span) && !isShown(other))
    .sort((a, b) => b.p - a.p)
    .slice(0, data.maxAlternatives);
}

/** Return spans with one more, without those that contradict it. */
function withSpan(spans, added) {
  const isKept = (span) =>
    keyOf(span) !== keyOf(added) &&
    (added.status === "rejected" || span.status === "rejected" || !contradict(span, added));
  return [...spans.filter(isKept), added].sort(compare);
}

// ---- Changes

function restore() {
  try {
    return new Map(JSON.parse(localStorage.getItem(STORAGE_KEY) ?? "[]"));
  } catch {
    return new Map();
  }
}

function store() {
  try {
    localStorage.setItem(STORAGE_KEY, JSON.stringify([...work]));
    isStored = true;
  } catch {
    isStored = false;
    tell("The browser cannot store your work. Save before you close the page.");
  }
}

function change(index, changed, key, message) {
  past.push([index, work.get(index)]);
  const state = { ...stateOf(index), ...changed };
  const isDecided = state.spans.every((span) => span.status !== "open");
  work.set(index, { ...state, complete: state.complete || Boolean(state.closes && isDecided) });
  tell(message);
  store();
  rebuild(index, key);
}

function undo() {
  const last = past.pop();
  if (!last) return tell("Nothing to undo.");
  const [index, state] = last;
  if (state) work.set(index, state);
  else work.delete(index);
  tell("Undone.");
  store();
  const key = current?.index === index && spanOf(index, current.key) ? current.key : null;
  rebuild(index, key ?? (stateOf(index).spans.length ? keyOf(stateOf(index).spans[0]) : null));
}

/** Select the next open span after `here`, from the start of the list after its end. */
function advance(here) {
  const { index } = current;
  const filter = readFilter();
  const open = (at) => stopsOf(at, filter).filter((span) => span.status === "open");
  const ahead = open(index).filter((span) => compare(span, here) > 0);
  if (ahead.length) return select(index, keyOf(ahead[0]));
  const after = list.indexOf(index) + 1;
  const next = [...list.slice(after), ...list.slice(0, after)].find((at) => open(at).length);
  if (next === undefined) return;
  while (list.indexOf(next) >= nRendered) renderMore();
  select(next, keyOf(open(next)[0]));
}

/** Replace the selected span, or drop it with `null`, and put `added` in its place. */
function decide(added, message) {
  const { index, key } = current;
  const others = stateOf(index).spans.filter((span) => keyOf(span) !== key);
  change(index, { spans: withSpan(others, added) }, keyOf(added), message);
}

function describe(index, { start, end, label }) {
  return `${data.labels[label]} “${textOf(index, start, end)}”`;
}

/** Accept or reject the selected span, or each version of its choice, and go on. */
function settle(isFirst, isSecond) {
  const span = selectedSpan();
  if (!span) return;
  const { index, key } = current;
  const choice = choiceOf(index, key);
  if (!choice) {
    const status = isFirst ? "accepted" : "rejected";
    decide({ ...span, status }, `${isFirst ? "Accepted" : "Rejected"} ${describe(index, span)}.`);
    return advance(span);
  }
  const isTaken = new Map([[choice.pair[0], isFirst], [choice.pair[1], isSecond]]);
  const { spans } = stateOf(index);
  const decided = spans
    .filter((one) => isTaken.has(keyOf(one)))
    .map((one) => ({ ...one, status: isTaken.get(keyOf(one)) ? "accepted" : "rejected" }));
  const taken = decided.filter((one) => one.status === "accepted");
  if (taken[1] && !hasSameBounds(...taken) && contradict(...taken)) return tell("Entities of this component do not overlap.");
  const others = spans.filter(
    (one) =>
      !isTaken.has(keyOf(one)) &&
      (one.status === "rejected" || !taken.some((other) => contradict(one, other))),
  );
  const names = choice.names.filter((_, i) => [isFirst, isSecond][i]);
  const all = [...others, ...decided].sort(compare);
  change(index, { spans: all }, leadOf(choice), `Took ${names.join(" and ") || "neither"}.`);
  advance(spanOf(index, leadOf(choice)) ?? span);
}

const isChoice = () => current && choiceOf(current.index, current.key);
const accept = () => settle(true, false);
const reject = () => settle(false, false);
const takeSecond = () => isChoice() && settle(false, true);
const takeBoth = () => isChoice() && settle(true, true);

function replaceBy({ start, end, label }) {
  const span = { start, end, label, status: "accepted" };
  decide(span, `Changed to ${describe(current.index, span)}.`);
}

/** Label the selected text, or else the selected span. */
function setLabel(label) {
  if (label >= data.labels.length) return;
  selection = readSelection() ?? selection;
  const span = selectedSpan();
  if (selection) {
    const { index, start, end } = selection;
    const added = { start, end, label, status: "accepted" };
    getSelection().removeAllRanges();
    selection = null;
    const spans = withSpan(stateOf(index).spans, added);
    change(index, { spans }, keyOf(added), `Added ${describe(index, added)}.`);
  } else if (span) {
    replaceBy({ ...span, label });
  } else {
    tell("Select text or an entity first.");
  }
}

/** A complete document has no open span: accept predictions, and leave out suggestions. */
function toggleComplete(index) {
  const { spans, complete } = stateOf(index);
  const closed = spans
    .filter((span) => span.status !== "open" || scoreOf(index, span).isPredicted)
    .map((span) => (span.status === "open" ? { ...span, status: "accepted" } : span));
  const key = current?.index === index ? current.key : null;
  const state = complete ? { complete: false, closes: false } : { spans: closed, complete: true };
  change(index, state, key, complete ? "No longer complete." : `Document ${index + 1} complete.`);
}

function selectedSpan() {
  return current ? spanOf(current.index, current.key) : undefined;
}

// ---- Saving

/** Return a document's record for `spacy bcrf convert`, with offsets in code points. */
function recordOf(index) {
  const { text, starts, ends } = data.documents[index];
  const { spans, complete } = stateOf(index);
  const withStatus = (status) =>
    spans
      .filter((span) => span.status === status)
      .map(({ start, end, label }) => ({
        start: starts[start],
        end: ends[end - 1],
        label: data.labels[label],
      }));
  const tokens = starts.map((_, i) => textOf(index, i, i + 1));
  let accepted = withStatus("accepted");
  if (!data.overlap) {
    // One of several labels: a list.
    const byPlace = Map.groupBy(accepted, ({ start, end }) => `${start}:${end}`);
    accepted = [...byPlace.values()].map((same) =>
      same.length === 1 ? same[0] : { ...same[0], label: same.map(({ label }) => label) },
    );
  }
  return { text, tokens, spans: accepted, rejected: withStatus("rejected"), complete };
}

function save() {
  const indices = [...work.keys()].sort((a, b) => a - b);
  if (!indices.length) return tell("Nothing to save yet.");
  const lines = indices.map((index) => `${JSON.stringify(recordOf(index))}\n`);
  const url = URL.createObjectURL(new Blob(lines, { type: "application/x-ndjson" }));
  element("a", { href: url, download: data.file }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
  tell(`Saved ${indices.length} documents to ${data.file}.`);
}

/** Return the state that a saved record describes. Error for unknown labels or offsets. */
function stateOfRecord(index, record) {
  const { starts, ends } = data.documents[index];
  const read = (status) => (span) => {
    const made = { start: starts.indexOf(span.start), end: ends.indexOf(span.end) + 1 };
    if (made.start < 0 || made.end <= made.start) throw Error("other tokens");
    return [span.label].flat().map((name) => {
      const label = data.labels.indexOf(name);
      if (label < 0) throw Error(`the page has no label ${name}`);
      return { ...made, label, status };
    });
  };
  const decided = [
    ...(record.spans ?? []).flatMap(read("accepted")),
    ...(record.rejected ?? []).flatMap(read("rejected")),
  ];
  const isDecided = (span) =>
    decided.some((other) => keyOf(other) === keyOf(span) || contradict(other, span));
  const initial = initialState(index);
  const open = initial.spans.filter((span) => !record.complete && !isDecided(span));
  const spans = [...decided, ...open].sort(compare);
  return { ...initial, spans, complete: Boolean(record.complete) };
}

/** Return the status of a span for an annotator. It is implied if the span itself is not annotated. */
function impliedStatus({ spans, complete }, span) {
  const found = spans.find((other) => keyOf(other) === keyOf(span));
  if (found) return found.status;
  const isExcluded = spans.some((other) => other.status === "accepted" && contradict(other, span));
  return complete || isExcluded ? "rejected" : "open";
}

/** Merge the states of two annotators. Spans that they decide differently are open, as choices. */
function mergeStates(one, other, names) {
  const all = new Map([...one.spans, ...other.spans].map((span) => [keyOf(span), span]));
  const versions = [[], []]; // what one annotator alone accepts
  const spans = [...all.values()].sort(compare).map((span) => {
    const [a, b] = [impliedStatus(one, span), impliedStatus(other, span)];
    if (a === b || b === "open") return { ...span, status: a };
    if (a === "open") return { ...span, status: b };
    versions[a === "accepted" ? 0 : 1].push(span);
    return { ...span, status: "open" };
  });
  const choices = versions[0].map((span) => {
    const rival = versions[1].findIndex((second) => overlap(span, second));
    const [second] = rival < 0 ? [] : versions[1].splice(rival, 1);
    return { kind: "conflict", names, pair: [keyOf(span), second ? keyOf(second) : null] };
  });
  choices.push(...versions[1].map((span) => ({ kind: "conflict", names, pair: [null, keyOf(span)] })));
  const isComplete = one.complete && other.complete;
  const isAgreed = spans.every((span) => span.status !== "open");
  return {
    spans,
    complete: isComplete && isAgreed,
    closes: isComplete,
    choices: [...one.choices, ...choices],
  };
}

/** Add the work of saved files to the work of this page. */
async function load(files) {
  const byText = new Map();
  for (const index of data.documents.keys()) {
    const { text } = data.documents[index];
    byText.set(text, [...(byText.get(text) ?? []), index]);
  }
  const [loaded, problems] = [new Set(), []];
  let nConflicts = 0;
  for (const file of files) {
    const left = new Map([...byText].map(([text, indices]) => [text, [...indices]]));
    for (const [i, line] of (await file.text()).split("\n").entries()) {
      if (!line.trim()) continue;
      try {
        const record = JSON.parse(line);
        const index = left.get(record.text)?.shift();
        if (index === undefined) throw Error("the page has no such text");
        const state = stateOfRecord(index, record);
        past.push([index, work.get(index)]);
        const before = work.get(index);
        const names = [before?.from ?? "this page", file.name];
        const merged = before ? mergeStates(before, state, names) : state;
        nConflicts += merged.choices.length - (before ?? state).choices.length;
        work.set(index, { ...merged, from: before ? undefined : file.name });
        loaded.add(index);
      } catch (error) {
        problems.push(`${file.name}, line ${i + 1}: ${error.message}`);
      }
    }
  }
  store();
  showKinds();
  showList();
  const conflicts = nConflicts ? ` ${nConflicts} conflicts are open.` : "";
  const left = problems.length ? ` ${problems.length} lines left out; ${problems[0]}.` : "";
  tell(`Loaded ${loaded.size} documents.${conflicts}${left}`);
}

// ---- Filter and order

function readFilter() {
  const boxes = (id) => [...byId(id).querySelectorAll("input")];
  const labels = new Set(boxes("labels").flatMap((box, label) => (box.checked ? [label] : [])));
  const without = boxes("kinds").filter((box) => !box.checked);
  const kinds = without.length && new Set(boxes("kinds").flatMap((box) => (box.checked ? [box.value] : [])));
  const [low, high] = [byId("low").valueAsNumber || 0, byId("high").valueAsNumber];
  const show = byId("show").value;
  return { labels, kinds, low: low / 100, high: Number.isNaN(high) ? 1 : high / 100, show };
}

function matches(index, span, filter) {
  const { p } = scoreOf(index, span);
  return (
    filter.labels.has(span.label) &&
    (!filter.kinds || filter.kinds.has(choiceOf(index, keyOf(span))?.kind)) &&
    (p === null || (filter.low <= p && p <= filter.high)) &&
    (filter.show !== "open" || span.status === "open")
  );
}

const matchingSpans = (index, filter) =>
  stateOf(index).spans.filter((span) => matches(index, span, filter));

function showList() {
  const filter = readFilter();
  const hasAllSpans =
    filter.low <= 0 && filter.high >= 1 && filter.labels.size === data.labels.length && !filter.kinds;
  const order = byId("order").value;
  list = [...data.documents.keys()].filter(
    (index) => (hasAllSpans && filter.show === "all") || matchingSpans(index, filter).length,
  );
  if (order !== "file") {
    list.sort((a, b) => data.documents[b][order] - data.documents[a][order]);
  }
  nRendered = 0;
  byId("documents").replaceChildren();
  renderMore();
  if (!current || !list.includes(current.index)) current = null;
  showPanel();
}

/** Return the matching spans at which the keys stop: one for each choice. */
function stopsOf(index, filter) {
  return matchingSpans(index, filter).filter((span) => {
    const choice = choiceOf(index, keyOf(span));
    return !choice || keyOf(span) === leadOf(choice);
  });
}

/** Select the next (step 1) or previous (step -1) matching span. */
function move(step) {
  if (!list.length) return;
  if (!current) step = 1;
  let position = current ? list.indexOf(current.index) : -1;
  if (position >= 0) {
    const span = selectedSpan();
    const ahead = stopsOf(current.index, readFilter()).filter((other) =>
      span ? step * compare(other, span) > 0 : step > 0,
    );
    if (ahead.length) return select(current.index, keyOf(ahead.at(step > 0 ? 0 : -1)));
  }
  position += step;
  if (position < 0 || position >= list.length) return tell("No more documents.");
  while (position >= nRendered) renderMore();
  const stop = stopsOf(list[position], readFilter()).at(step > 0 ? 0 : -1);
  select(list[position], stop ? keyOf(stop) : null);
}

// ---- Rendering

/** Make an element. Children are nodes or texts; none is parsed as HTML. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

// Neither red nor green: red is for errors, and many people cannot tell them apart.
const HUES = [212, 38, 285, 190, 52, 320, 245, 26, 265, 172];
const hueOf = (label) => String(HUES[label % HUES.length]);

function percent(p) {
  if (p === null) return "";
  return p > 0.995 && p < 1 ? ">99%" : p < 0.005 ? "<1%" : `${Math.round(100 * p)}%`;
}

const MARKS = { accepted: "✓", rejected: "✗", open: "" };

/** Build the mark of a span, or a piece of it where it crosses another span. */
function buildEntity(index, span, filter, content, { depth = 0, isFirst = true, isLast = true } = {}) {
  const { p, isPredicted } = scoreOf(index, span);
  const label = data.labels[span.label];
  const classes = ["entity", span.status];
  if (!isPredicted && span.status === "open") classes.push("suggested");
  if (!matches(index, span, filter)) classes.push("dimmed");
  if (!isFirst) classes.push("goes-on-before");
  if (!isLast) classes.push("goes-on-after");
  const kind = span.status === "open" ? (isPredicted ? "predicted" : "suggested") : span.status;
  const key = keyOf(span);
  const made = element(
    "span",
    { class: classes.join(" "), "data-key": key },
    ...content,
  );
  if (isLast) {
    // The button, because buttons must not nest as marks do.
    const about = `${MARKS[span.status]} ${label} ${percent(p)}`.trim();
    const name = `${about}: ${textOf(index, span.start, span.end)}, ${kind}`;
    made.append(element("small", { role: "button", tabindex: "0", "aria-label": name }, about));
  }
  made.style.setProperty("--hue", hueOf(span.label));
  made.style.setProperty("--p", p ?? 1);
  made.style.setProperty("--depth", depth);
  if (current?.index === index && current.key === key) made.setAttribute("aria-current", "true");
  return made;
}

/** Split spans into those marked in the text, and rejected ones that overlap these. */
function splitRejected(spans) {
  const inline = spans.filter((span) => span.status !== "rejected");
  const others = [];
  for (const span of spans.filter((span) => span.status === "rejected")) {
    (inline.some((other) => overlap(span, other)) ? others : inline).push(span);
  }
  return [inline, others];
}

/** Build a text with nested marks. A mark that crosses another one is cut where that one ends. */
function buildText(index, inline, filter) {
  const { starts, ends } = data.documents[index];
  const chars = codePoints(index);
  let at = 0; // character
  const tokens = (from, to) => {
    const nodes = [];
    for (let i = from; i < to; i++) {
      if (starts[i] > at) nodes.push(chars.slice(at, starts[i]).join(""));
      nodes.push(element("span", { "data-token": i }, chars.slice(starts[i], ends[i]).join("")));
      at = ends[i];
    }
    return nodes;
  };
  const build = (from, to, pieces) => {
    const nodes = [];
    let [token, deepest] = [from, 0];
    const left = [...pieces];
    while (left.length) {
      left.sort((a, b) => a.start - b.start || b.end - a.end);
      const { span, start, end } = left.shift();
      nodes.push(...tokens(token, start), chars.slice(at, starts[start]).join(""));
      at = starts[start];
      const inner = left.splice(0, left.findLastIndex((piece) => piece.start < end) + 1);
      left.push(...inner.filter((p) => p.end > end).map((p) => ({ ...p, start: end })));
      const cut = inner.map((piece) => ({ ...piece, end: Math.min(piece.end, end) }));
      const [content, depth] = build(start, end, cut);
      const [isFirst, isLast] = [start === span.start, end === span.end];
      nodes.push(buildEntity(index, span, filter, content, { depth, isFirst, isLast }));
      deepest = Math.max(deepest, depth + 1);
      token = end;
    }
    nodes.push(...tokens(token, to));
    return [nodes, deepest];
  };
  const pieces = inline.map((span) => ({ span, start: span.start, end: span.end }));
  const [nodes, depth] = build(0, starts.length, pieces);
  const text = element("p", { class: "text" }, ...nodes, chars.slice(at).join(""));
  text.style.setProperty("--depth", Math.max(0, depth - 1));
  return text;
}

function buildArticle(index) {
  const { spans, complete } = stateOf(index);
  const filter = readFilter();
  const [inline, others] = splitRejected(spans);
  const { errors, entropy } = data.documents[index];
  const number = `Document ${index + 1}`;
  const about = element(
    "div",
    { class: "about" },
    element("span", {}, number),
    element("span", {}, `${errors.toFixed(2)} expected errors`),
    element("span", {}, `entropy ${entropy.toFixed(3)}`),
    element(
      "button",
      {
        type: "button",
        "data-complete": "",
        "aria-pressed": complete,
        "aria-label": `${number} complete`,
      },
      "Complete",
    ),
  );
  const classes = [complete ? "complete" : "", current?.index === index ? "current" : ""];
  const article = element(
    "article",
    { "data-index": index, class: classes.join(" ").trim(), tabindex: "-1", "aria-label": number },
    about,
    buildText(index, inline, filter),
  );
  if (others.length) {
    const chips = others.map((span) =>
      buildEntity(index, span, filter, [textOf(index, span.start, span.end)]),
    );
    article.append(element("p", { class: "hidden-spans" }, "Rejected here:", ...chips));
  }
  return article;
}

const endObserver = new IntersectionObserver(
  ([entry]) => {
    if (entry.isIntersecting && nRendered < list.length) renderMore();
  },
  { rootMargin: "800px" },
);

function renderMore() {
  const chunk = list.slice(nRendered, nRendered + CHUNK);
  byId("documents").append(...chunk.map(buildArticle));
  nRendered += chunk.length;
  const rest = list.length - nRendered;
  byId("end").textContent = rest
    ? `${rest} more documents`
    : list.length
      ? "End of the list"
      : "No document passes the filter.";
  // The observer reports a change only. A new target is always reported, so rendering goes on until
  // the end is out of sight.
  endObserver.unobserve(byId("end"));
  endObserver.observe(byId("end"));
  showProgress();
}

const articleOf = (index) => byId("documents").querySelector(`[data-index="${index}"]`);

function rebuild(index, key) {
  const position = list.indexOf(index);
  while (position >= nRendered) renderMore();
  current = { index, key: key && spanOf(index, key) ? key : null };
  articleOf(index)?.replaceWith(buildArticle(index));
  showProgress();
  select(index, current.key);
}

function select(index, key) {
  for (const marked of document.querySelectorAll("article.current, [aria-current]")) {
    marked.classList.remove("current");
    marked.removeAttribute("aria-current");
  }
  current = { index, key };
  const article = articleOf(index);
  article?.classList.add("current");
  const marks = key && article ? [...article.querySelectorAll(`[data-key="${key}"]`)] : [];
  for (const mark of marks) mark.setAttribute("aria-current", "true");
  const target = marks.at(-1)?.querySelector(":scope > small") ?? article;
  showPanel();
  target?.focus({ preventScroll: true });
  target?.scrollIntoView({ block: "nearest" });
}

function showProgress() {
  let [nDecided, nOpen, nComplete] = [0, 0, 0];
  for (const index of data.documents.keys()) {
    const { spans, complete } = stateOf(index);
    const n = spans.filter((span) => span.status === "open").length;
    nOpen += n;
    nDecided += spans.length - n;
    nComplete += complete;
  }
  const documents = `${nComplete} of ${data.documents.length} documents complete`;
  byId("progress").textContent = `${nDecided} decided, ${nOpen} open, ${documents}`;
  byId("undo").disabled = !past.length;
}

function button(text, action, key, attributes = {}) {
  const children = key ? [`${text} `, element("kbd", {}, key)] : [text];
  const shortcut = key ? { "aria-keyshortcuts": key } : {};
  return element("button", { type: "button", click: action, ...shortcut, ...attributes }, ...children);
}

function labelButtons() {
  return data.labels.map((label, i) => {
    const key = LABEL_KEYS[i] ?? "";
    const made = button(label, () => setLabel(i), key, { class: "label", "data-label": i });
    made.style.setProperty("--hue", hueOf(i));
    return made;
  });
}

const CHOICE_TITLES = {
  type: "Another label is more probable",
  boundary: "Another boundary is more probable",
  missing: "An entity may be missing",
  spurious: "There may be no entity",
  conflict: "The annotators differ",
};
const CONTEXT = 8; // tokens on each side of a version

/** Build one version of a choice: its name, its label and probability, and its mark in the text. */
function buildVersion(index, choice, key, i) {
  const { starts, ends } = data.documents[index];
  const keys = choice.pair.filter((one) => one);
  const places = keys.map((one) => one.split(":").map(Number));
  const first = Math.max(0, Math.min(...places.map(([start]) => start)) - CONTEXT);
  const last = Math.min(starts.length, Math.max(...places.map(([, end]) => end)) + CONTEXT);
  const text = (from, to) => codePoints(index).slice(from, to).join("");
  const version = element("div", {}, element("h3", {}, choice.names[i]));
  if (!key) {
    version.append(element("p", {}, element("b", {}, "no entity")));
    return version;
  }
  const [start, end, label] = key.split(":").map(Number);
  const { p } = scoreOf(index, { start, end, label });
  version.append(
    element("p", {}, element("b", {}, data.labels[label]), ` ${percent(p)}`),
    element(
      "p",
      { class: "context" },
      first > 0 ? "… " : "",
      text(starts[first], starts[start]),
      element("mark", {}, text(starts[start], ends[end - 1])),
      text(ends[end - 1], ends[last - 1]),
      last < starts.length ? " …" : "",
    ),
  );
  return version;
}

function showPanel() {
  const panel = byId("panel");
  const row = (...children) => element("div", { class: "buttons" }, ...children);
  const moves = [
    button("Previous", () => move(-1), "k", { class: "moves" }),
    button("Next", () => move(1), "j"),
  ];
  const span = selectedSpan();
  const choice = span && choiceOf(current.index, current.key);
  if (selection) {
    const text = textOf(selection.index, selection.start, selection.end);
    panel.replaceChildren(
      element("h2", {}, `New entity “${text}”`, element("small", {}, "choose its label")),
      row(...labelButtons()),
    );
  } else if (choice) {
    const { index } = current;
    const [kept, taken] = choice.kind === "conflict" ? choice.names : ["Keep", "Replace"];
    const [first, second] = choice.pair.map((key) => key && spanOf(index, key));
    const canBeBoth = first && second && (hasSameBounds(first, second) || !contradict(first, second));
    panel.replaceChildren(
      element("h2", {}, CHOICE_TITLES[choice.kind] ?? choice.kind),
      element("div", { class: "versions" }, ...choice.pair.map((key, i) => buildVersion(index, choice, key, i))),
      row(
        button(kept, accept, "a", { "data-action": "first" }),
        button(taken, takeSecond, "s", { "data-action": "second" }),
        button(choice.kind === "conflict" ? "Neither" : "Remove", reject, "r", { "data-action": "neither" }),
        ...(canBeBoth ? [button("Both", takeBoth, "b", { "data-action": "both" })] : []),
        ...labelButtons(),
        ...moves,
      ),
    );
  } else if (span) {
    const { index } = current;
    const { p } = scoreOf(index, span);
    const about = p === null ? span.status : `${percent(p)}, ${span.status}`;
    panel.replaceChildren(
      element("h2", {}, describe(index, span), element("small", {}, about)),
      row(
        button("Accept", accept, "a", { "data-action": "accept" }),
        button("Reject", reject, "r", { "data-action": "reject" }),
        ...labelButtons(),
        ...moves,
      ),
    );
    const others = alternativesOf(index, span);
    if (others.length) {
      const buttons = others.map((other) => {
        const made = button(`${describe(index, other)} ${percent(other.p)}`, () => replaceBy(other), "", {
          class: "label",
          "data-alternative": keyOf(other),
        });
        made.style.setProperty("--hue", hueOf(other.label));
        return made;
      });
      panel.append(element("h3", {}, "Alternatives"), row(...buttons));
    }
  } else {
    const hint = "Select an entity, or text to add one.";
    panel.replaceChildren(element("h2", {}, element("small", {}, hint)), row(...moves));
  }
}

function tell(message) {
  byId("message").textContent = message;
}

// ---- Selected text

/** Return {index, start, end} of the selected text in whole tokens, null without any. */
function readSelection() {
  const chosen = getSelection();
  if (!chosen.rangeCount || chosen.isCollapsed) return null;
  const range = chosen.getRangeAt(0);
  const articleAt = (node) => (node.closest ? node : node.parentElement)?.closest("article");
  const article = articleAt(range.startContainer);
  if (!article || article !== articleAt(range.endContainer)) return null;
  const tokens = [...article.querySelectorAll(".text [data-token]")].filter((token) => {
    if (!range.intersectsNode(token)) return false;
    const part = document.createRange();
    part.selectNodeContents(token);
    if (range.compareBoundaryPoints(Range.START_TO_START, part) > 0) {
      part.setStart(range.startContainer, range.startOffset);
    }
    if (range.compareBoundaryPoints(Range.END_TO_END, part) < 0) {
      part.setEnd(range.endContainer, range.endOffset);
    }
    return part.toString().trim() !== "";
  });
  if (!tokens.length) return null;
  const [first, last] = [tokens[0], tokens.at(-1)].map((token) => Number(token.dataset.token));
  return { index: Number(article.dataset.index), start: first, end: last + 1 };
}

let selectionTimer = 0;
document.addEventListener("selectionchange", () => {
  // On a phone a tap on a button ends the selection before the click.
  clearTimeout(selectionTimer);
  selectionTimer = setTimeout(() => {
    const before = selection;
    selection = readSelection();
    if (before || selection) showPanel();
  }, 200);
});

// ---- Events

const ACTIONS = {
  a: accept,
  r: reject,
  s: takeSecond,
  b: takeBoth,
  u: undo,
  j: () => move(1),
  k: () => move(-1),
  c: () => current && toggleComplete(current.index),
};

/** Keys of the labels: digits, letters without an action, then letters with Shift. */
const LETTERS = [..."abcdefghijklmnopqrstuvwxyz"];
const LABEL_KEYS = [
  ..."123456789",
  ...LETTERS.filter((letter) => !Object.hasOwn(ACTIONS, letter)),
  ...LETTERS.map((letter) => letter.toUpperCase()),
];

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("select, input[type=number]")) return;
  if (event.key === "Enter" || event.key === " ") {
    if (event.target.matches(".entity > small")) {
      event.preventDefault();
      event.target.click();
    }
    return;
  }
  // With a layout without Latin letters, the position of the key decides.
  const typed = event.key.toLowerCase();
  const key = /^[a-z0-9]$/.test(typed) ? typed : event.code.replace(/^(Key|Digit)/, "").toLowerCase();
  const label = LABEL_KEYS.indexOf(event.shiftKey ? key.toUpperCase() : key);
  if (Object.hasOwn(ACTIONS, key) && !event.shiftKey) ACTIONS[key]();
  else if (label >= 0) setLabel(label);
  else return;
  event.preventDefault();
});

byId("documents").addEventListener("click", (event) => {
  const article = event.target.closest("article");
  if (!article || readSelection()) return;
  const index = Number(article.dataset.index);
  let entity = event.target.closest(".entity");
  // A click on the selected mark selects the mark around it.
  if (entity?.hasAttribute("aria-current")) entity = entity.parentElement.closest(".entity") ?? entity;
  if (event.target.closest("[data-complete]")) toggleComplete(index);
  else select(index, entity?.dataset.key ?? null);
});

byId("panel").addEventListener("pointerdown", (event) => event.preventDefault());
byId("undo").addEventListener("click", undo);
byId("save").addEventListener("click", save);
byId("load").addEventListener("click", () => byId("files").click());
byId("files").addEventListener("change", async (event) => {
  await load(event.target.files);
  event.target.value = "";
});
byId("filters").addEventListener("submit", (event) => event.preventDefault());
byId("filters").addEventListener("change", (event) => {
  showList();
  if (event.target.matches("select")) event.target.blur();
});
addEventListener("storage", (event) => {
  if (event.key !== STORAGE_KEY) return;
  work = restore(); // another tab has the same page
  past = [];
  showList();
});
addEventListener("beforeunload", (event) => {
  if (!isStored) event.preventDefault();
});

// ---- Start

document.title = `Review ${data.title}`;
byId("title").textContent = data.title;
byId("settings").open = matchMedia("(min-width: 40rem)").matches;
const checkbox = (text) =>
  element("label", {}, element("input", { type: "checkbox", checked: "", value: text }), text);

/** Show a filter of the kinds of choices, if there are choices. */
function showKinds() {
  const all = [...data.documents.keys()].flatMap((index) => stateOf(index).choices);
  const kinds = [...new Set(all.map(({ kind }) => kind))].sort();
  byId("kinds").hidden = !kinds.length;
  byId("kinds").replaceChildren(element("legend", {}, "Kinds"), ...kinds.map(checkbox));
}

byId("labels").append(...data.labels.map(checkbox));
showKinds();
if (data.documents.some(({ score }) => score !== undefined)) byId("order").value = "score";
else byId("order").querySelector('[value="score"]').remove();
showList();
