// Names for the parts of the theme that have none, and wide tables that scroll by the keyboard.
for (const [part, name] of [[".md-search", "Search"], ["#__search", "Open the search"], ["#__drawer", "Open the navigation"]])
  document.querySelector(part)?.setAttribute("aria-label", name);
const focusTables = () => {
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) table.tabIndex = 0;
};
new MutationObserver(focusTables).observe(document.body, { childList: true, subtree: true });
focusTables();
