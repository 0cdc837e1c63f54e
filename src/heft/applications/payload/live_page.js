// Shows what is known of a load, as the node tells it.
"use strict";
const KEPT = 300, LONG = 10;  // [s] of masses that are drawn at most, and that the plot spans at least
const NARROWEST = 0.01, LIGHTEST = 0.02;  // of the mass, and [kg], that it spans at least
const [plot] = plots, masses = [];
function show({ estimate, events, health }) {
  const [mass] = estimate.parameters, now = performance.now() / 1000;
  at("frame").textContent = estimate.frame;
  at("mass").textContent = estimate.held === false ? "nothing" :
    mass.value === null ? "–" : weight(mass.value, mass.std);
  fill("rows", estimate.parameters.map((p) => [p.value === null ? "soft" : "", p.name.replace("payload.", ""),
    p.value === null ? "not seen" : digits(p.value, p.std), deviation(p.std), p.unit]));
  if (!masses.length) masses.push([now - LONG, NaN, NaN]);
  masses.push([now, mass.value ?? NaN, mass.std ?? NaN]);  // where it is not known there is a hole
  while (masses[0][0] < now - KEPT) masses.shift();
  plot.spec.room = Math.max(NARROWEST * Math.abs(mass.value), LIGHTEST) / 2;
  plot.hold([masses.map((m) => m[0] - now), masses.map((m) => m[1]), masses.map((m) => m[2])]);
  plot.draw();
  list("events", events.reverse().map((e) =>
    ["", `${e.stamp === null ? "before any sample" : clock(e.stamp)}  ${e.name}: ${e.message}`]));
  list("health", Object.entries(health.devices).map(([name, d]) =>
    [d.silent ? "poor" : "", `${name}: ${d.rate.toFixed(0)} Hz, ${d.samples} samples${d.silent ? ", silent" : ""}`]));
  at("counts").textContent = Object.entries(health.counts).filter((c) => c[1]).map((c) => `${c[1]} ${c[0]}`).join(", ");
}
