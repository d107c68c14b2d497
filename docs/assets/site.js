// Tables that are wider than the page are scrolled by keyboard too. The theme wraps them when it is ready.
const reach = () => document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])").forEach((box) => {
  box.tabIndex = 0;
});
new MutationObserver(reach).observe(document.body, { childList: true, subtree: true });
reach();
