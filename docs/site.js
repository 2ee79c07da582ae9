// Names for the parts of the theme that have none, and wide tables and formulas that scroll by the keyboard.
for (const [part, name] of [[".md-search", "Search"], ["#__search", "Open the search"], ["#__drawer", "Open the navigation"]])
  document.querySelector(part)?.setAttribute("aria-label", name);
const focusWide = () => {
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) table.tabIndex = 0;
  for (const formula of document.querySelectorAll("math[display=block]"))
    formula.tabIndex = formula.scrollWidth > formula.clientWidth ? 0 : -1;
};
new MutationObserver(focusWide).observe(document.body, { childList: true, subtree: true });
addEventListener("resize", focusWide);
focusWide();
