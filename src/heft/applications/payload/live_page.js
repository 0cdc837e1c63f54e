// Shows what is known of a load, as the node tells it.
"use strict";
const masses = [];
const KEPT = 300, LEFT = 70, RIGHT = 620, TOP = 10, BOTTOM = 170;  // [s] of masses; the plot's edges
const NARROWEST = 0.01, LIGHTEST = 0.02;  // of the mass, and [kg], that the plot spans at least
// Multiples of 1, 2 or 5 times a power of ten: two of them at least, seven at most.
function ticks(low, high) {
  const size = (high - low) / 6, power = 10 ** Math.floor(Math.log10(size));
  const step = power * [1, 2, 5, 10].find(k => k * power >= size), made = [];
  for (let k = Math.ceil(low / step); k * step <= high; k++) made.push(k * step);
  return {at: made, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9))};
}
function draw() {
  const known = masses.filter(m => m.mass !== null);
  if (!known.length) return;
  const now = masses[masses.length - 1].time, long = Math.max(10, now - masses[0].time);
  const least = Math.min(...known.map(m => m.mass - m.std));
  const most = Math.max(...known.map(m => m.mass + m.std));
  const wide = Math.max(1.1 * (most - least), NARROWEST * Math.abs(most), LIGHTEST);
  const low = (least + most - wide) / 2, high = low + wide;
  const x = time => (RIGHT - (RIGHT - LEFT) * (now - time) / long).toFixed(1);
  const y = mass => (BOTTOM - (BOTTOM - TOP) * (mass - low) / wide).toFixed(1);
  const axes = [], masses_at = ticks(low, high), ages = ticks(0, long);
  for (const mass of masses_at.at) axes.push(
    drawn("line", {x1: LEFT, x2: RIGHT, y1: y(mass), y2: y(mass)}),
    drawn("text", {x: LEFT - 6, y: +y(mass) + 4, class: "left"},
      mass.toFixed(masses_at.digits) + " kg"));
  for (const age of ages.at) axes.push(
    drawn("text", {x: x(now - age), y: BOTTOM + 20, class: "below"},
      age ? "−" + age.toFixed(ages.digits) + " s" : "now"));
  at("axes").replaceChildren(...axes);
  const runs = [[]];  // where the mass is not known there is a hole
  for (const m of masses) if (m.mass === null) runs.push([]); else runs[runs.length - 1].push(m);
  const path = (points, value) => points.map(m => x(m.time) + " " + y(value(m))).join("L");
  const some = runs.filter(run => run.length);
  at("line").setAttribute("d", some.map(run => "M" + path(run, m => m.mass)).join(""));
  at("band").setAttribute("d", some.map(run => "M" + path(run, m => m.mass + m.std) + "L" +
    path(run.slice().reverse(), m => m.mass - m.std) + "Z").join(""));
}
function show(update) {
  at("frame").textContent = update.estimate.frame;
  at("rows").replaceChildren(...update.estimate.parameters.map(p => {
    const row = element("tr", "", p.value === null ? "unknown" : "");
    row.append(element("td", p.name.replace("payload.", "")),
      element("td", p.value === null ? "not seen" : digits(p.value, p.std)),
      element("td", p.std === null ? "" : p.std.toPrecision(2)), element("td", p.unit));
    return row; }));
  const mass = update.estimate.parameters[0], known = mass.value !== null;
  at("mass").textContent = update.estimate.held === false ? "nothing" :
    known ? digits(mass.value, mass.std) + " ± " + mass.std.toPrecision(2) + " kg" : "–";
  masses.push({time: performance.now() / 1000, mass: known ? mass.value : null, std: mass.std});
  while (masses[0].time < masses[masses.length - 1].time - KEPT) masses.shift();
  draw();
  at("events").replaceChildren(...update.events.slice().reverse().map(e =>
    element("li", (e.stamp === null ? "before any sample" : clock(e.stamp)) +
      "  " + e.name + ": " + e.message)));
  const health = update.health, counted = Object.entries(health.counts).filter(c => c[1]);
  at("health").replaceChildren(...Object.entries(health.devices).map(([name, d]) =>
    element("div", name + ": " + d.rate.toFixed(0) + " Hz, " + d.samples + " samples" +
      (d.silent ? ", silent" : ""), d.silent ? "silent" : "")),
    element("small", counted.map(c => c[1] + " " + c[0]).join(", ")));
}
listen(show);
