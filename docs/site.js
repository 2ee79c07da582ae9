// Names for the parts of the theme that have none, no landmarks for headings and buttons, and wide tables and formulas that
// scroll by the keyboard.
for (const [part, name] of [[".md-search", "Search"], ["#__search", "Open the search"], ["#__drawer", "Open the navigation"]])
  document.querySelector(part)?.setAttribute("aria-label", name);
const mendParts = () => {
  for (const nav of document.querySelectorAll(".md-nav--secondary nav, .md-code__nav")) {
    nav.setAttribute("role", "none");
    nav.removeAttribute("aria-label");
  }
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) table.tabIndex = 0;
  for (const formula of document.querySelectorAll("math[display=block]"))
    formula.tabIndex = formula.scrollWidth > formula.clientWidth ? 0 : -1;
};
new MutationObserver(mendParts).observe(document.body, { childList: true, subtree: true });
addEventListener("resize", mendParts);
mendParts();
