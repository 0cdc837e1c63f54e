// The theme lets wide tables scroll; by keyboard, too.
addEventListener("load", () => document.querySelectorAll(".md-typeset__scrollwrap").forEach((one) => {
  if (one.scrollWidth > one.clientWidth) one.tabIndex = 0;
}));
