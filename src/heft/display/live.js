// What pages that are told of a running node have in common.
"use strict";
const at = id => document.getElementById(id);
function element(name, text, kind) {
  const made = document.createElement(name); made.textContent = text;
  if (kind) made.className = kind; return made;
}
function drawn(name, attributes, text) {
  const made = document.createElementNS(document.querySelector("svg").namespaceURI, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text || ""; return made;
}
const digits = (value, std) => value.toFixed(
  std > 0 ? Math.min(6, Math.max(0, 1 - Math.floor(Math.log10(std)))) : 4);
// Seconds since 1970 are shown as a time of the day, those of a log as they are.
const clock = time => time > 1e9 ? new Date(1000 * time).toLocaleTimeString() :
  time.toFixed(2) + " s";
function listen(show) {
  const source = new EventSource("told");
  source.onmessage = message => { at("state").textContent = "live"; show(JSON.parse(message.data)); };
  source.onerror = () => { at("state").textContent = "not connected"; };
}
