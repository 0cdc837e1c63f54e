// Plays a stick figure on a canvas: lines between points, each frame's points one row of numbers.
((id, motion) => {
  "use strict";
  const figure = document.getElementById(id);
  const canvas = figure.querySelector("canvas"), pen = canvas.getContext("2d");
  const button = figure.querySelector("button"), slider = figure.querySelector("input");
  const output = figure.querySelector("output");
  const { time, points, lines, masses, view, middle, reach, trace, path, marked } = motion;
  const end = time[time.length - 1];
  let yaw = 0, pitch = 0, moment = 0, last = null, playing = !matchMedia("(prefers-reduced-motion: reduce)").matches;

  // Axes of the picture: right, up, towards the reader; turned by dragging.
  const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
  const place = (point) => {
    const [x, y, z] = view.map((axis) => dot(axis, point) - dot(axis, middle));
    const across = Math.cos(yaw) * x + Math.sin(yaw) * z, deep = Math.cos(yaw) * z - Math.sin(yaw) * x;
    return [across, Math.cos(pitch) * y - Math.sin(pitch) * deep];
  };
  const at = (moment) => {
    let k = 0, above = time.length - 1;
    while (above - k > 1) { const m = (k + above) >> 1; if (time[m] <= moment) k = m; else above = m; }
    const share = Math.min(1, Math.max(0, (moment - time[k]) / (time[k + 1] - time[k])));
    return points[k].map((p, i) => p.map((v, c) => v + share * (points[k + 1][i][c] - v)));
  };
  const draw = () => {
    const width = canvas.clientWidth, height = Math.min(width, 420), scale = window.devicePixelRatio || 1;
    if (!width) return;
    canvas.width = Math.round(width * scale); canvas.height = Math.round(height * scale);
    canvas.style.height = `${height}px`;
    const size = 0.46 * Math.min(width, height) / reach;
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    const on = (point) => { const [x, y] = place(point); return [width / 2 + size * x, height / 2 - size * y]; };
    const ink = getComputedStyle(canvas).color;  // the page's own: light or dark, whatever it is
    const way = (path) => { pen.beginPath(); path.forEach((p) => pen.lineTo(...on(p))); pen.stroke(); };
    const dotted = (p, radius) => { pen.beginPath(); pen.arc(...on(p), radius, 0, 7); pen.fill(); };
    const now = at(moment), first = time.findIndex((t) => t > moment - 1);
    pen.lineCap = pen.lineJoin = "round";
    pen.strokeStyle = ink; pen.lineWidth = 1; pen.globalAlpha = 0.35;
    way(path);
    pen.strokeStyle = "#e5484d"; pen.lineWidth = 2.5; pen.globalAlpha = 0.8;
    marked.forEach(([a, b]) => way(path.slice(a, b)));
    pen.strokeStyle = "#3b82f6"; pen.lineWidth = 1.5; pen.globalAlpha = 0.7;
    const past = points.slice(first < 0 ? 0 : first, time.findLastIndex((t) => t <= moment) + 1);
    way([...past.map((p) => p[trace]), now[trace]]);
    pen.globalAlpha = 1; pen.fillStyle = ink;
    lines.forEach(([a, b, tint]) => {
      pen.strokeStyle = !tint || tint === "thin" ? ink : tint; pen.lineWidth = tint ? 2.5 : 5;
      way([now[a], now[b]]);
    });
    new Set(lines.map(([a]) => a)).forEach((a) => dotted(now[a], 5));
    pen.fillStyle = "#3b82f6";
    masses.forEach(([a, share]) => dotted(now[a], 3 + 6 * share));
    output.textContent = `${moment.toFixed(2)} s`;
    slider.value = moment;
  };
  const tick = (stamp) => {
    if (playing && last !== null) { moment = (moment + (stamp - last) / 1000) % end; draw(); }
    last = stamp;
    if (figure.isConnected) requestAnimationFrame(tick);
  };
  const label = () => { button.textContent = playing ? "Pause" : "Play"; };
  button.onclick = () => { playing = !playing; label(); };
  slider.oninput = () => { playing = false; moment = +slider.value; label(); draw(); };
  canvas.onpointerdown = (e) => canvas.setPointerCapture(e.pointerId);
  canvas.onpointermove = (e) => {
    if (!e.buttons) return;
    yaw += 0.01 * e.movementX; pitch = Math.max(-1.5, Math.min(1.5, pitch + 0.01 * e.movementY));
    draw();
  };
  new ResizeObserver(draw).observe(canvas);
  label(); draw(); requestAnimationFrame(tick);
})
