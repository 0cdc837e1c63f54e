"use strict";
// The filter is the address behind `#`, so that a view can be sent to somebody.
const filter = document.getElementById("filter");
const robots = [...document.querySelectorAll(".robot")];
const show = () => {
  const asked = new URLSearchParams(location.hash.slice(1));
  for (const name of ["type", "robot"]) filter.elements[name].value = asked.get(name) || "";
  filter.elements.only.checked = asked.get("only") === "1";
  const part = (asked.get("robot") || "").toLowerCase();
  let count = 0;
  for (const robot of robots) {
    const { type, robot: name, attention } = robot.dataset;
    robot.hidden = (asked.get("type") && type !== asked.get("type"))
      || !name.toLowerCase().includes(part) || (asked.get("only") === "1" && !attention);
    count += !robot.hidden;
  }
  document.getElementById("shown").textContent = `${count} of ${robots.length}`;
};
filter.addEventListener("input", () => {
  const given = [...new FormData(filter)].filter(([, value]) => value);
  history.replaceState(null, "", "#" + new URLSearchParams(given));
  show();
});
filter.addEventListener("submit", (event) => event.preventDefault());
addEventListener("hashchange", show);
show();
