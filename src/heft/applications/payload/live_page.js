// Shows what is known of a load, as the node tells it.
"use strict";
const at = id => document.getElementById(id), masses = [];
const digits = (value, std) => value.toFixed(
  std > 0 ? Math.min(6, Math.max(0, 1 - Math.floor(Math.log10(std)))) : 4);
function element(name, text, kind) {
  const made = document.createElement(name); made.textContent = text;
  if (kind) made.className = kind; return made;
}
function show(update) {
  at("state").textContent = "live"; at("frame").textContent = update.estimate.frame;
  at("rows").replaceChildren(...update.estimate.parameters.map(p => {
    const row = element("tr", "", p.value === null ? "unseen" : "");
    row.append(element("td", p.name.replace("payload.", "")),
      element("td", p.value === null ? "not seen" : digits(p.value, p.std)),
      element("td", p.std === null ? "" : p.std.toPrecision(2)), element("td", p.unit));
    return row; }));
  const mass = update.estimate.parameters[0];
  at("mass").textContent = mass.value === null ? "–" :
    digits(mass.value, mass.std) + " ± " + mass.std.toPrecision(2) + " kg";
  if (mass.value !== null) masses.push(mass.value);
  if (masses.length > 2400) masses.shift();
  if (masses.length > 1) {
    const low = Math.min(...masses), high = Math.max(...masses), wide = high - low || 1;
    at("line").setAttribute("d", masses.map((m, k) => (k ? "L" : "M") +
      (600 * k / (masses.length - 1)).toFixed(1) + " " +
      (95 - 90 * (m - low) / wide).toFixed(1)).join(""));
    at("range").textContent = "from " + low.toFixed(3) + " to " + high.toFixed(3) + " kg";
  }
  at("events").replaceChildren(...update.events.slice().reverse().map(e =>
    element("li", (e.stamp > 1e9 ? new Date(1000 * e.stamp).toLocaleTimeString() :
      e.stamp.toFixed(2) + " s") + "  " + e.name + ": " + e.message)));
  const health = update.health, counted = Object.entries(health.counts).filter(c => c[1]);
  at("health").replaceChildren(...Object.entries(health.devices).map(([name, d]) =>
    element("div", name + ": " + d.rate.toFixed(0) + " Hz, " + d.samples + " samples" +
      (d.silent ? ", silent" : ""), d.silent ? "silent" : "")),
    element("small", counted.map(c => c[1] + " " + c[0]).join(", ")));
}
const source = new EventSource("told");
source.onmessage = message => show(JSON.parse(message.data));
source.onerror = () => { at("state").textContent = "not connected"; };
