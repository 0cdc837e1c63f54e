// Shows a team, as its nodes tell it.
"use strict";
const RADIUS = 95, SILENT = 3;  // [s] without a word
const millimetres = (vector) => vector.filter((x) => x !== null).map((x) => (1000 * x).toFixed(1)).join(", ");
function draw(name, attributes, text = "") {
  const made = document.createElementNS(at("graph").namespaceURI, name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  made.textContent = text; at("graph").append(made);
}
function show({ robots, edges, states, silent_s: silent, apart_kg: apart }) {
  const known = states.filter((s) => s), first = known.find((s) => s.load);
  const kinds = robots.map((_, k) => silent[k] > SILENT ? "poor" : states[k] && states[k].load ? "good" : "soft");
  at("mass").textContent = first ? weight(first.load.mass_kg, first.load.mass_std_kg) : "–";
  at("agreement").textContent = apart === null ? "nobody knows it yet" :
    `the robots' masses are ${(1000 * apart).toPrecision(2)} g apart; held by ${first.holding.join(", ")}`;
  const places = robots.map((_, k) => 2 * Math.PI * k / robots.length)
    .map((turn) => [RADIUS * Math.sin(turn), -RADIUS * Math.cos(turn)]);
  at("graph").replaceChildren();
  for (const [[x1, y1], [x2, y2]] of edges.map((edge) => edge.map((k) => places[k]))) draw("line", { x1, y1, x2, y2 });
  places.forEach(([x, y], k) => {
    draw("circle", { cx: x, cy: y, r: 26, class: kinds[k] }); draw("text", { x, y }, robots[k]);
  });
  fill("robots", robots.map((name, k) => {
    const { load, windows, sent_bytes: sent, refused } = states[k] || {}, age = silent[k];
    return [kinds[k] === "good" ? "" : kinds[k], name, ...(load ? [digits(load.mass_kg, load.mass_std_kg),
      deviation(load.mass_std_kg), millimetres(load.com_m)] : ["–", "", ""]),
      windows ? windows[name] || 0 : "", sent ? (Object.values(sent).reduce((a, b) => a + b, 0) / 1000).toFixed(0) : "",
      refused ?? "", age === null ? "never" : age > SILENT ? `${age.toFixed(0)} s ago` : "now"];
  }));
  fill("poses", known.flatMap((s) => s.poses.map((p) => ["", s.robot, p.of, millimetres(p.origin_m),
    (Math.hypot(...p.turn_rad) * 180 / Math.PI).toFixed(1)])));
  list("events", known.flatMap((s) => s.events.map((e) => ({ robot: s.robot, ...e })))
    .sort((a, b) => b.time_s - a.time_s).slice(0, 50)
    .map((e) => ["", `${e.time_s === null ? "" : clock(e.time_s)}  ${e.robot}  ${e.name}: ${e.message}`]));
}
