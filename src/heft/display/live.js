// What pages that are told of a running node have in common.
"use strict";
const at = (id) => document.getElementById(id);
const element = (name, parts, kind = "") => {
  const made = document.createElement(name);
  made.append(...parts); made.className = kind; return made;
};
// Items and rows are lists: what colours them, then their texts.
const list = (id, items, name = "li") => at(id).replaceChildren(...items.map(([kind, ...parts]) => element(name, parts, kind)));
const fill = (id, rows) => list(id, rows.map(([kind, ...cells]) => [kind, ...cells.map((text) => element("td", [text]))]), "tr");
const digits = (value, std) => value.toFixed(
  std > 0 ? Math.min(6, Math.max(0, 1 - Math.floor(Math.log10(std)))) : 4);
const deviation = (std) => std ? std.toPrecision(2) : "";
const weight = (mass, std) => `${digits(mass, std)}${std ? ` ± ${deviation(std)}` : ""} kg`;
// Seconds since 1970 are shown as a time of the day, those of a log as they are.
const clock = (time) => time > 1e9 ? new Date(1000 * time).toLocaleTimeString() : `${time.toFixed(2)} s`;
const source = new EventSource("told");
source.onmessage = (message) => { at("state").textContent = "live"; show(JSON.parse(message.data)); };
source.onerror = () => { at("state").textContent = "not connected"; };
