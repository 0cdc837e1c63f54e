// Shows a team, as its nodes tell it.
"use strict";
const RADIUS = 95, SILENT = 3;  // [s] without a word
function row(cells, kind) {
  const made = element("tr", "", kind); made.append(...cells); return made;
}
const millimetres = vector => vector.filter(x => x !== null).map(x => (1000 * x).toFixed(1)).join(", ");
const kind = (state, age) => age === null ? "unknown" : age > SILENT ? "silent" :
  state && state.load ? "known" : "unknown";
function draw(update) {
  const count = update.robots.length;
  const place = k => [RADIUS * Math.sin(2 * Math.PI * k / count),
    -RADIUS * Math.cos(2 * Math.PI * k / count)];
  const lines = update.edges.map(([a, b]) => {
    const [x1, y1] = place(a), [x2, y2] = place(b);
    return drawn("line", {x1, y1, x2, y2}); });
  const nodes = update.robots.flatMap((name, k) => {
    const [x, y] = place(k);
    return [drawn("circle", {cx: x, cy: y, r: 26,
      class: kind(update.states[k], update.silent_s[k])}), drawn("text", {x, y}, name)]; });
  at("graph").replaceChildren(...lines, ...nodes);
}
function robot(name, state, age) {
  const load = state && state.load, sent = Object.values((state && state.sent_bytes) || {});
  const heard = age === null ? "never" : age > SILENT ? age.toFixed(0) + " s ago" : "now";
  return row([element("td", name),
    element("td", load ? digits(load.mass_kg, load.mass_std_kg) : "–"),
    element("td", load && load.mass_std_kg ? load.mass_std_kg.toPrecision(2) : ""),
    element("td", load ? millimetres(load.com_m) : ""),
    element("td", state ? String(state.windows[name] || 0) : ""),
    element("td", sent.length ? (sent.reduce((a, b) => a + b) / 1000).toFixed(0) : ""),
    element("td", state ? String(state.refused) : ""),
    element("td", heard, age === null || age > SILENT ? "silent" : "")],
    load ? "" : "unknown");
}
function show(update) {
  draw(update);
  const states = update.states.filter(s => s), first = states.find(s => s.load);
  at("mass").textContent = first ? digits(first.load.mass_kg, first.load.mass_std_kg) +
    (first.load.mass_std_kg ? " ± " + first.load.mass_std_kg.toPrecision(2) : "") + " kg" : "–";
  at("agreement").textContent = update.apart_kg === null ? "nobody knows it yet" :
    "the robots' masses are " + (1000 * update.apart_kg).toPrecision(2) + " g apart; held by " +
    first.holding.join(", ");
  at("robots").replaceChildren(...update.robots.map((name, k) =>
    robot(name, update.states[k], update.silent_s[k])));
  at("poses").replaceChildren(...states.flatMap(s => s.poses.map(p =>
    row([element("td", s.robot), element("td", p.of), element("td", millimetres(p.origin_m)),
      element("td", (Math.hypot(...p.turn_rad) * 180 / Math.PI).toFixed(1))]))));
  at("events").replaceChildren(...states.flatMap(s => s.events.map(e => ({robot: s.robot, ...e})))
    .sort((a, b) => (b.time_s || 0) - (a.time_s || 0)).slice(0, 50).map(e =>
      element("li", (e.time_s === null ? "" : clock(e.time_s) + "  ") + e.robot + "  " + e.name + ": " + e.message)));
}
listen(show);
