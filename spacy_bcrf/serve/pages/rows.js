"use strict";
// Filters and paging of the children of [data-rows], which have data-kind and data-labels (JSON).

const STEP = 20; // number of rows shown at a time
const ALL = "all";

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function selection(name, values) {
  const choices = [ALL, ...[...new Set(values)].sort()];
  const select = element("select", {}, ...choices.map((value) => element("option", { value }, value)));
  return [select, element("label", {}, `${name} `, select)];
}

for (const list of document.querySelectorAll("[data-rows]")) {
  const rows = [...list.children].map((row) => ({
    row,
    kind: row.dataset.kind,
    labels: JSON.parse(row.dataset.labels),
  }));
  const [kind, kinds] = selection("Kind", rows.map((each) => each.kind));
  const [label, labels] = selection("Label", rows.flatMap((each) => each.labels));
  const count = element("span", { role: "status" });
  const more = element("button", { type: "button", class: "more" });
  let n = STEP;
  const show = () => {
    const found = rows.filter(
      (each) =>
        [ALL, each.kind].includes(kind.value) && [ALL, ...each.labels].includes(label.value),
    );
    for (const { row } of rows) row.hidden = true;
    for (const { row } of found.slice(0, n)) row.hidden = false;
    count.textContent = `${Math.min(n, found.length)} of ${found.length} shown`;
    more.hidden = n >= found.length;
    more.textContent = `${Math.min(STEP, found.length - n)} more`;
  };
  for (const select of [kind, label]) {
    select.addEventListener("change", () => {
      n = STEP;
      show();
    });
  }
  more.addEventListener("click", () => {
    n += STEP;
    show();
  });
  list.before(element("div", { class: "filters" }, kinds, labels, count));
  list.after(more);
  show();
}
