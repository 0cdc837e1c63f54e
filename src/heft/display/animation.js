// Draws a robot on a canvas: lines, masses and ellipsoids between points, of which each frame has its own.
((id, motion) => {
  "use strict";
  const figure = document.getElementById(id), canvas = figure.querySelector("canvas"), pen = canvas.getContext("2d");
  const button = figure.querySelector("button"), slider = figure.querySelector("[type=range]");
  const output = figure.querySelector("output"), boxes = [...figure.querySelectorAll("[type=checkbox]")];
  const { time, points, lines, masses, bodies, view, middle, reach, trace, path, marked, torques } = motion;
  const end = time[time.length - 1], home = { yaw: 0, pitch: motion.pitch, zoom: 1 };
  let { yaw, pitch, zoom } = home, moment = 0, last = null;
  let playing = motion.plays && !matchMedia("(prefers-reduced-motion: reduce)").matches;

  // To the right, up, and towards the reader; turned by dragging.
  const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
  const turned = (point) => {
    const [x, y, z] = view.map((axis) => dot(axis, point) - dot(axis, middle));
    const deep = Math.cos(yaw) * z - Math.sin(yaw) * x;
    return [Math.cos(yaw) * x + Math.sin(yaw) * z, Math.cos(pitch) * y - Math.sin(pitch) * deep,
      Math.sin(pitch) * y + Math.cos(pitch) * deep];
  };
  const at = (values, moment) => {  // between frames, of numbers or of lists of them
    let k = 0, above = time.length - 1;
    while (above - k > 1) { const m = (k + above) >> 1; if (time[m] <= moment) k = m; else above = m; }
    const share = above ? Math.min(1, Math.max(0, (moment - time[k]) / (time[above] - time[k]))) : 0;
    const mixed = (a, b) => a.map ? a.map((v, i) => mixed(v, b[i])) : a + share * (b - a);
    return mixed(values[k], values[above]);
  };
  const style = (tint, wide, alpha = 1) => { pen.strokeStyle = pen.fillStyle = tint; pen.lineWidth = wide; pen.globalAlpha = alpha; };
  const stroke = (some) => { pen.beginPath(); some.forEach(([x, y]) => pen.lineTo(x, y)); pen.stroke(); };
  const dotted = ([x, y], radius) => { pen.beginPath(); pen.arc(x, y, radius, 0, 7); pen.fill(); };
  const draw = () => {
    const [, width, height] = prepare(canvas);
    if (!width) return;
    pen.lineCap = pen.lineJoin = "round";
    const ink = getComputedStyle(canvas).color;  // the page's own: light or dark, whatever it is
    const shown = Object.fromEntries(boxes.map((b) => [b.name, b.checked]));
    const tints = Object.fromEntries(boxes.map((b) => [b.name, getComputedStyle(b.parentNode).color]));
    const tall = torques ? height - 84 : height, now = at(points, moment);
    const size = (time[1] ? 0.46 : 0.38) * zoom * Math.min(width / reach[0], tall / reach[1]);
    const on = (p) => { const [x, y, z] = turned(p); return [width / 2 + size * x, tall / 2 - size * y, z]; };
    const way = (some) => stroke(some.map(on));
    style(ink, 1, 0.35); way(path);
    style("#e5484d", 2.5, 0.8); marked.forEach(([a, b]) => way(path.slice(a, b)));
    if (trace !== null) {
      const past = points.filter((_, k) => time[k] > moment - 1 && time[k] <= moment);
      style("#3b82f6", 1.5, 0.7); way([...past.map((p) => p[trace]), now[trace]]);
    }
    const items = lines.map(([a, b, tint]) => {
      const [from, to] = [on(now[a]), on(now[b])];
      return [(from[2] + to[2]) / 2 - 0.001, () => {
        style(!tint || tint === "thin" ? ink : tint, tint ? 2.5 : 4); stroke([from, to]); style(ink, 1); dotted(from, 4);
      }];
    });
    masses.forEach(([a, share]) => {
      const spot = on(now[a]);
      items.push([spot[2], () => { style("#3b82f6", 1); dotted(spot, 3 + 6 * share); }]);
    });
    for (const body of bodies) {
      const spot = on(now[body.first]);
      const axes = [1, 2, 3].map((k) => on(now[body.first + k]).map((v, i) => v - spot[i]));
      if (shown[body.role]) items.push([spot[2], () => ellipsoid(body, spot, axes, tints[body.role])]);
    }
    items.sort((a, b) => a[0] - b[0]).forEach((item) => item[1]());
    if (bodies.length) ["x", "y", "z"].forEach((name, k) => {
      const [x, y] = turned(middle.map((v, i) => v + (i === k ? 1 : 0))).map((v) => 24 * v);
      style(ink, 1, 0.7); stroke([[34, tall - 34], [34 + x, tall - 34 - y]]);
      pen.textAlign = "center"; pen.textBaseline = "middle"; pen.fillText(name, 34 + 1.3 * x, tall - 34 - 1.3 * y);
    });
    if (shown.names && shown.after) names(now, on, width, tall, ink);
    if (torques) bars(width, height - 15, ink, shown, tints);
    if (!slider) return;
    output.textContent = `${moment.toFixed(2)} s`;
    slider.value = moment;
  };
  const turns = Array.from({ length: 49 }, (_, k) => [Math.cos(k * Math.PI / 24), Math.sin(k * Math.PI / 24)]);
  // An ellipsoid that is seen from far away has an ellipse as its outline.
  const ellipsoid = (body, [x, y], axes, tint) => {
    let xx = 0, xy = 0, yy = 0;
    for (const [a, b] of axes) { xx += a * a; xy += a * b; yy += b * b; }
    const mean = (xx + yy) / 2, half = Math.hypot((xx - yy) / 2, xy);
    style(tint, 1.3);
    if (body.role === "before") pen.setLineDash([4, 3]);
    pen.beginPath();
    pen.ellipse(x, y, Math.sqrt(mean + half), Math.sqrt(Math.max(mean - half, 0)), 0.5 * Math.atan2(2 * xy, xx - yy), 0, 7);
    pen.stroke();
    if (body.role === "after") { pen.globalAlpha = 0.1 + 0.35 * body.seen; pen.fill(); }
    style(tint, 0.6, 0.7);
    for (const [[ax, ay], [bx, by]] of [[axes[0], axes[1]], [axes[1], axes[2]], [axes[0], axes[2]]]) {
      stroke(turns.map(([c, s]) => [x + c * ax + s * bx, y + c * ay + s * by]));
    }
    pen.setLineDash([]);
  };
  // Names stand in two columns beside the robot, each at its body's height or below the one before; of
  // what was and is, once.
  const names = (now, on, width, height, ink) => {
    const after = new Set(bodies.filter((b) => b.role === "after").map((b) => b.name));
    const spots = bodies.filter((b) => b.role === "after" || !after.has(b.name))
      .map((b) => ({ name: b.name, at: on(now[b.first]) }));
    const line = 15, middle = spots.map((s) => s.at[0]).sort((a, b) => a - b)[spots.length >> 1];
    for (const [side, edge, beneath, inwards] of [["left", 8, 80, 1], ["right", width - 8, 0, -1]]) {
      const own = spots.filter((s) => s.at[0] < middle === inwards > 0).sort((a, b) => a.at[1] - b.at[1]);
      const room = Math.max(0, height - beneath - line * own.length);
      let y = -Infinity;
      pen.textAlign = side; pen.textBaseline = "middle";
      own.forEach((s, k) => {
        y = Math.min(room + line * (k + 0.5), Math.max(y + line, s.at[1]));
        style(ink, 0.6); pen.fillText(s.name, edge, y, width / 2 - 16);
        const beside = Math.min(pen.measureText(s.name).width, width / 2 - 16) + 4;
        pen.globalAlpha = 0.6; stroke([[edge + inwards * beside, y], s.at]);
      });
    }
  };
  // Each joint's torque as bars beside one another, up or down from none.
  const bars = (width, below, ink, shown, tints) => {
    const wide = width / torques.names.length, zero = below - 35, bar = Math.min(9, wide / 4);
    torques.names.forEach((name, j) => {
      const x = wide * (j + 0.5);
      style(ink, 1, 0.4); pen.fillRect(x - 0.4 * wide, zero, 0.8 * wide, 1);
      torques.kinds.forEach(([role, values], k) => {
        const long = -30 * at(values, moment)[j];
        style(tints[role] || ink, 1);
        if (shown[role] !== false) pen.fillRect(x + (k - 1.5) * bar, zero + Math.min(0, long), bar - 1, Math.abs(long));
      });
      pen.textAlign = "center"; pen.textBaseline = "top";
      style(ink, 1); if (wide > 36) pen.fillText(name, x, below, wide - 6);
    });
  };
  const tick = (stamp) => {
    if (!playing) { last = null; return; }
    if (last !== null) { moment = (moment + (stamp - last) / 1000) % end; draw(); }
    last = stamp;
    if (figure.isConnected) requestAnimationFrame(tick);
  };
  const turn = (dx, dy) => { yaw += dx; pitch = Math.max(-1.5, Math.min(1.5, pitch + dy)); };
  if (slider) {
    const play = (go) => { playing = go; button.textContent = go ? "Pause" : "Play"; if (go) requestAnimationFrame(tick); };
    button.onclick = () => play(!playing);
    slider.oninput = () => { play(false); moment = +slider.value; draw(); };
    play(playing);
  }
  canvas.onpointerdown = (e) => canvas.setPointerCapture(e.pointerId);
  canvas.onpointermove = (e) => { if (e.buttons) { turn(0.01 * e.movementX, 0.01 * e.movementY); draw(); } };
  canvas.onkeydown = (e) => {
    const keys = {
      ArrowLeft: () => turn(-0.15, 0), ArrowRight: () => turn(0.15, 0), ArrowUp: () => turn(0, -0.15),
      ArrowDown: () => turn(0, 0.15), "+": () => { zoom *= 1.2; }, "=": () => { zoom *= 1.2; },
      "-": () => { zoom /= 1.2; }, "0": () => { ({ yaw, pitch, zoom } = home); },
    };
    if (!keys[e.key]) return;
    e.preventDefault(); keys[e.key](); draw();
  };
  boxes.forEach((box) => box.addEventListener("change", draw));
  document.addEventListener("themed", draw);
  new ResizeObserver(draw).observe(canvas);
})
