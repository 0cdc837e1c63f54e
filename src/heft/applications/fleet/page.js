"use strict";
// The filter is the address behind `#`, so that a view can be sent to somebody.
const filter = document.getElementById("filter"), robots = [...document.querySelectorAll(".robot")];
const show = () => {
  const { type = "", robot = "", only } = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  filter.type.value = type; filter.robot.value = robot; filter.only.checked = only === "1";
  for (const one of robots) {
    const own = one.dataset, named = own.robot.toLowerCase().includes(robot.toLowerCase());
    one.hidden = !named || (type && type !== own.type) || (only === "1" && !own.attention);
  }
  document.getElementById("shown").textContent = `${robots.filter((one) => !one.hidden).length} of ${robots.length}`;
};
filter.addEventListener("input", () => {
  const given = [...new FormData(filter)].filter(([, value]) => value);
  history.replaceState(null, "", "#" + new URLSearchParams(given));
  show();
});
filter.addEventListener("submit", (event) => event.preventDefault());
addEventListener("hashchange", show);
show();
