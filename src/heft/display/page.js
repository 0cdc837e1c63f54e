// Draws the plots and scenes of a page from the numbers that the page itself holds.
"use strict";
(() => {
  const content = JSON.parse(document.getElementById("numbers").textContent);
  const arrays = content.arrays.map((text) => {
    const raw = atob(text), bytes = new Uint8Array(raw.length);
    for (let k = 0; k < raw.length; k++) bytes[k] = raw.charCodeAt(k);
    return new Float32Array(bytes.buffer);
  });
  const all = [];  // everything that is drawn, for changes of theme
  const hidden = new Set();  // roles of curves that a box of the page leaves out

  // Colours are variables of the style sheet; only a property of an element resolves them.
  const probe = document.createElement("i");
  probe.hidden = true;
  document.body.append(probe);
  const colours = new Map();
  const colour = (name) => {
    if (!colours.has(name)) {
      probe.style.color = `var(--${name})`;
      colours.set(name, getComputedStyle(probe).color);
    }
    return colours.get(name);
  };
  const repaint = () => { colours.clear(); all.forEach((one) => one.draw()); };

  const prepare = (canvas) => {
    const width = canvas.clientWidth, height = canvas.clientHeight, scale = window.devicePixelRatio || 1;
    const w = Math.round(width * scale), h = Math.round(height * scale);
    if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
    const pen = canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = "12px system-ui, sans-serif";
    return [pen, width, height];
  };
  const number = (x) => {
    const size = Math.abs(x);
    const text = size && (size >= 1e5 || size < 1e-3)
      ? x.toExponential(2).replace(/\.?0+e/, "e") : String(+x.toPrecision(4));
    return text.replaceAll("-", "−");
  };
  const ticks = (low, high, count, log) => {
    const out = [];
    if (log) {
      const step = Math.max(1, Math.ceil((high - low) / count));
      for (let e = Math.ceil(low / step) * step; e <= high; e += step) out.push(e);
      return out;
    }
    const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * power).reduce((a, b) => Math.abs(b - rough) < Math.abs(a - rough) ? b : a);
    for (let k = Math.ceil(low / step); k * step <= high; k++) out.push(k * step);
    return out;
  };

  class Plot {
    constructor(figure, spec, groups) {
      this.spec = spec;
      this.canvas = figure.querySelector("canvas");
      this.output = figure.querySelector("output");
      const x = (v) => spec.log_x ? Math.log10(v) : v;
      const y = (v) => spec.log_y ? Math.log10(v) : v;
      this.every = spec.series.map((s) => {
        const own = arrays[s.y];
        const values = s.minus === null ? own : own.map((v, k) => v - arrays[s.minus][k]);
        const reach = s.reach === null ? null : arrays[s.reach];  // bands have linear axes
        const edges = reach ? { y: values.map((v, k) => v + reach[k]), low: values.map((v, k) => v - reach[k]) } : {};
        return { ...s, x: arrays[s.x].map(x), y: values.map(y), ...edges };
      });
      let low = Infinity, high = -Infinity;
      for (const s of this.every) for (const v of s.x) { if (v < low) low = v; if (v > high) high = v; }
      if (!(high > low)) { low -= 0.5; high += 0.5; }
      if (!groups.has(spec.group)) groups.set(spec.group, { low, high, from: low, to: high, cursor: null, plots: [] });
      this.view = groups.get(spec.group);
      this.view.low = Math.min(this.view.low, low);
      this.view.high = Math.max(this.view.high, high);
      this.view.from = this.view.low; this.view.to = this.view.high;
      this.view.plots.push(this);
      this.listen();
    }
    get series() {
      const some = this.spec.group.startsWith("time");  // what boxes are about
      return this.every.filter((s) => !(some && hidden.has(s.role)));
    }
    together(change) { change(this.view); this.view.plots.forEach((p) => p.draw()); }
    range() {
      let low = Infinity, high = -Infinity;
      const { from, to } = this.view;
      for (const s of this.series) for (let k = 0; k < s.x.length; k++) {
        if (s.x[k] < from || s.x[k] > to) continue;
        const v = s.y[k], w = s.low ? s.low[k] : v;
        if (isFinite(v) && v > high) high = v;
        if (isFinite(v) && v < low) low = v;
        if (isFinite(w) && w < low) low = w;
      }
      if (!isFinite(low)) return [-1, 1];
      const pad = 0.05 * (high - low) || 0.5 * Math.abs(high) || 1;
      return [low - pad, high + pad];
    }
    draw() {
      if (!this.canvas.clientWidth) return;  // closed for now; drawn when it opens
      const [pen, width, height] = prepare(this.canvas);
      const left = this.spec.y_label ? 70 : 52, right = width - 10, top = 8, bottom = height - 36;
      const { from, to, cursor } = this.view, [low, high] = this.range();
      this.place = { left, right };
      const px = (v) => left + (v - from) / (to - from) * (right - left);
      const py = (v) => bottom - (v - low) / (high - low) * (bottom - top);
      pen.lineWidth = 1; pen.fillStyle = colour("soft"); pen.strokeStyle = colour("line");
      pen.textAlign = "right"; pen.textBaseline = "middle";
      for (const t of ticks(low, high, 5, this.spec.log_y)) {
        pen.beginPath(); pen.moveTo(left, py(t)); pen.lineTo(right, py(t)); pen.stroke();
        pen.fillText(number(this.spec.log_y ? 10 ** t : t), left - 5, py(t));
      }
      pen.textAlign = "center"; pen.textBaseline = "top";
      for (const t of ticks(from, to, Math.max(2, width / 90), this.spec.log_x)) {
        pen.beginPath(); pen.moveTo(px(t), top); pen.lineTo(px(t), bottom); pen.stroke();
        pen.fillText(number(this.spec.log_x ? 10 ** t : t), px(t), bottom + 4);
      }
      pen.fillText(`${this.spec.x_label}`, (left + right) / 2, bottom + 20);
      if (this.spec.y_label) {
        pen.save();
        pen.translate(10, (top + bottom) / 2); pen.rotate(-Math.PI / 2);
        pen.fillText(this.spec.y_label, 0, -5);
        pen.restore();
      }
      pen.save();
      pen.beginPath(); pen.rect(left, top, right - left, bottom - top); pen.clip();
      for (const s of this.series) this.one(pen, s, px, py, right - left);
      if (cursor !== null) {
        pen.strokeStyle = colour("ink"); pen.globalAlpha = 0.6;
        pen.beginPath(); pen.moveTo(px(cursor), top); pen.lineTo(px(cursor), bottom); pen.stroke();
      }
      if (this.dragged) {
        pen.globalAlpha = 0.15; pen.fillStyle = colour("ink");
        pen.fillRect(this.dragged[0], top, this.dragged[1] - this.dragged[0], bottom - top);
      }
      pen.restore();
      this.read();
    }
    one(pen, s, px, py, columns) {
      pen.strokeStyle = pen.fillStyle = colour(s.role);
      pen.globalAlpha = 1;
      const { from, to } = this.view;
      if (s.kind === "points") {
        pen.globalAlpha = 0.5;
        for (let k = 0; k < s.x.length; k++) pen.fillRect(px(s.x[k]) - 1, py(s.y[k]) - 1, 2, 2);
      } else if (s.kind === "band") {
        pen.globalAlpha = 0.22;
        for (let a = 0, b = 0; a < s.x.length; a = b + 1) {  // from gap to gap
          for (b = a; b < s.x.length && isFinite(s.y[b]); b++);
          pen.beginPath();
          for (let k = a; k < b; k++) pen.lineTo(px(s.x[k]), py(s.y[k]));
          for (let k = b - 1; k >= a; k--) pen.lineTo(px(s.x[k]), py(s.low[k]));
          pen.fill();
        }
      } else {
        let first = 0, last = s.x.length - 1;
        while (first < last && !(s.x[first + 1] >= from)) first++;
        while (last > first && !(s.x[last - 1] <= to)) last--;
        pen.lineWidth = s.kind === "broad" ? 5 : 1.2;
        pen.globalAlpha = s.kind === "broad" ? 0.55 : 1;
        if (s.kind === "dashed") pen.setLineDash([5, 4]);
        pen.beginPath();
        // One column of the screen shows no more than its first, least, greatest and last value.
        const dense = last - first > 4 * columns;
        let column = null, least = 0, most = 0, end = 0, broken = true;
        const flush = () => {
          if (column === null) return;
          pen.lineTo(column, py(least)); pen.lineTo(column, py(most)); pen.lineTo(column, py(end));
          column = null;
        };
        for (let k = first; k <= last; k++) {
          const v = s.y[k];
          if (!isFinite(v)) { flush(); broken = true; continue; }
          const at = dense ? Math.round(px(s.x[k])) : px(s.x[k]);
          if (broken) { pen.moveTo(at, py(v)); broken = false; }
          if (!dense) { pen.lineTo(at, py(v)); continue; }
          if (at !== column) { flush(); pen.lineTo(at, py(v)); column = at; least = most = v; }
          if (v < least) least = v;
          if (v > most) most = v;
          end = v;
        }
        flush();
        pen.stroke();
        pen.setLineDash([]);
        pen.globalAlpha = 1;
      }
    }
    read() {
      const at = this.view.cursor;
      if (at === null) { this.output.textContent = ""; return; }
      const parts = [`${this.spec.x_label.split(" [")[0]} ${number(this.spec.log_x ? 10 ** at : at)}`];
      for (const s of this.series) {
        if (s.kind === "points" || s.kind === "band") continue;
        let a = 0, b = s.x.length - 1;
        while (b - a > 1) { const m = (a + b) >> 1; if (s.x[m] <= at) a = m; else b = m; }
        const k = Math.abs(s.x[a] - at) <= Math.abs(s.x[b] - at) ? a : b;
        if (isFinite(s.y[k])) parts.push(`${s.name} ${number(this.spec.log_y ? 10 ** s.y[k] : s.y[k])}`);
      }
      this.output.textContent = parts.join(" · ");
    }
    listen() {
      const canvas = this.canvas;
      const value = (event) => {
        const { left, right } = this.place, x = event.clientX - canvas.getBoundingClientRect().left;
        const { from, to } = this.view;
        return from + Math.min(1, Math.max(0, (x - left) / (right - left))) * (to - from);
      };
      const pixel = (event) => event.clientX - canvas.getBoundingClientRect().left;
      canvas.addEventListener("pointerdown", (event) => {
        this.start = value(event); this.dragged = [pixel(event), pixel(event)];
        canvas.setPointerCapture(event.pointerId);
      });
      canvas.addEventListener("pointermove", (event) => {
        if (this.dragged) this.dragged[1] = pixel(event);
        this.together((view) => { view.cursor = value(event); });
      });
      canvas.addEventListener("pointerup", (event) => {
        const dragged = this.dragged, a = this.start, b = value(event);
        this.dragged = null;
        this.together((view) => {
          if (dragged && Math.abs(dragged[1] - dragged[0]) > 6) {
            view.from = Math.min(a, b); view.to = Math.max(a, b);
          }
        });
      });
      canvas.addEventListener("pointercancel", () => { this.dragged = null; this.draw(); });
      canvas.addEventListener("pointerleave", () => this.together((view) => { view.cursor = null; }));
      const reset = (view) => { view.from = view.low; view.to = view.high; };
      canvas.addEventListener("dblclick", () => this.together(reset));
      canvas.addEventListener("keydown", (event) => {
        const { from, to, low, high, cursor } = this.view, span = to - from;
        const middle = cursor === null ? (from + to) / 2 : cursor;
        const zoom = (factor) => (view) => {
          view.from = Math.max(low, middle - (middle - from) * factor);
          view.to = Math.min(high, middle + (to - middle) * factor);
        };
        const side = event.key === "ArrowLeft" ? -1 : 1;
        const keys = {
          "+": zoom(0.5), "=": zoom(0.5), "-": zoom(2), "0": reset, Escape: reset,
        };
        let change = keys[event.key];
        if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
          const move = Math.max(low - from, Math.min(high - to, side * span / 5));
          change = event.shiftKey
            ? (view) => { view.from += move; view.to += move; }
            : (view) => { view.cursor = Math.max(from, Math.min(to, middle + side * span / 100)); };
        }
        if (!change) return;
        event.preventDefault();
        this.together(change);
      });
    }
  }

  // Bodies are drawn as ellipsoids seen from far away, whose outlines are ellipses.
  class Scene {
    constructor(figure, spec) {
      this.spec = spec;
      this.canvas = figure.querySelector("canvas");
      this.boxes = [...figure.querySelectorAll("input")];
      this.turn = -0.9; this.tilt = 0.35; this.zoom = 1;
      const points = spec.bones.flatMap((b) => [b.slice(0, 3), b.slice(3)]);
      for (const b of spec.bodies) {
        points.push(b.centre);
        if (b.role === "after") for (const a of b.axes) for (const s of [-1, 1]) points.push(b.centre.map((v, i) => v + s * a[i]));
      }
      const low = [0, 1, 2].map((i) => Math.min(...points.map((p) => p[i])));
      const high = [0, 1, 2].map((i) => Math.max(...points.map((p) => p[i])));
      this.centre = low.map((v, i) => (v + high[i]) / 2);
      // How far it reaches from its middle, to the sides and up, as it is first seen.
      const [st, ct, si, ci] = this.turns(), about = points.map((p) => p.map((v, i) => v - this.centre[i]));
      this.reach = [
        Math.max(0.05, ...about.map(([x, y]) => Math.abs(-st * x + ct * y))),
        Math.max(0.05, ...about.map(([x, y, z]) => Math.abs(-si * (ct * x + st * y) + ci * z))),
      ];
      this.listen();
    }
    turns() {
      return [Math.sin(this.turn), Math.cos(this.turn), Math.sin(this.tilt), Math.cos(this.tilt)];
    }
    draw() {
      if (!this.canvas.clientWidth) return;
      const [pen, width, height] = prepare(this.canvas);
      const shown = Object.fromEntries(this.boxes.map((b) => [b.name, b.checked]));
      const scale = 0.38 * this.zoom * Math.min(width / this.reach[0], height / this.reach[1]);
      const [st, ct, si, ci] = this.turns();
      // To the right, up, and towards the eye.
      const turned = ([x, y, z]) => [
        scale * (-st * x + ct * y),
        -scale * (-si * (ct * x + st * y) + ci * z),
        ci * (ct * x + st * y) + si * z,
      ];
      const place = (p) => {
        const q = turned(p.map((v, i) => v - this.centre[i]));
        return [width / 2 + q[0], height / 2 + q[1], q[2]];
      };
      const items = [];
      for (const b of this.spec.bones) {
        const [a, c] = [place(b.slice(0, 3)), place(b.slice(3))];
        items.push([(a[2] + c[2]) / 2 - 0.001, () => {
          pen.globalAlpha = 1; pen.lineWidth = 3; pen.strokeStyle = pen.fillStyle = colour("ink");
          pen.beginPath(); pen.moveTo(a[0], a[1]); pen.lineTo(c[0], c[1]); pen.stroke();
          pen.beginPath(); pen.arc(a[0], a[1], 3.5, 0, 7); pen.arc(c[0], c[1], 3.5, 0, 7); pen.fill();
        }]);
      }
      for (const body of this.spec.bodies) {
        if (!shown[body.role]) continue;
        const at = place(body.centre);
        items.push([at[2], () => this.ellipsoid(pen, body, at, body.axes.map(turned))]);
      }
      items.sort((a, b) => a[0] - b[0]).forEach((item) => item[1]());
      if (shown.names && shown.after) this.names(pen, place, width, height);
      const corner = [34, height - 34], long = 24 / scale;
      for (const [k, name] of ["x", "y", "z"].entries()) {
        const axis = turned([0, 1, 2].map((i) => (i === k ? long : 0)));
        pen.globalAlpha = 1; pen.lineWidth = 1; pen.strokeStyle = pen.fillStyle = colour("soft");
        pen.beginPath(); pen.moveTo(...corner); pen.lineTo(corner[0] + axis[0], corner[1] + axis[1]); pen.stroke();
        pen.fillText(name, corner[0] + 1.25 * axis[0] - 3, corner[1] + 1.25 * axis[1] + 4);
      }
    }
    // Names stand in two columns beside the robot, each at its body's height or below the one before.
    names(pen, place, width, height) {
      const after = new Set(this.spec.bodies.filter((b) => b.role === "after").map((b) => b.name));
      // Each name once: of what was and is at what is.
      const line = 15, spots = this.spec.bodies.filter((b) => b.role === "after" || !after.has(b.name))
        .map((b) => ({ name: b.name, at: place(b.centre) }));
      const middle = spots.map((s) => s.at[0]).sort((a, b) => a - b)[spots.length >> 1];
      for (const side of ["left", "right"]) {
        const own = spots.filter((s) => (s.at[0] < middle) === (side === "left")).sort((a, b) => a.at[1] - b.at[1]);
        const room = Math.max(0, height - line * own.length);
        let y = -Infinity;
        own.forEach((s, k) => { y = s.y = Math.min(room + line * (k + 0.5), Math.max(y + line, s.at[1])); });
        pen.textAlign = side; pen.textBaseline = "middle";
        const edge = side === "left" ? 8 : width - 8, way = side === "left" ? 1 : -1;
        for (const s of own) {
          pen.fillStyle = colour("ink"); pen.fillText(s.name, edge, s.y, width / 2 - 16);
          const from = edge + way * (Math.min(pen.measureText(s.name).width, width / 2 - 16) + 4);
          pen.strokeStyle = colour("soft"); pen.lineWidth = 0.6;
          pen.beginPath(); pen.moveTo(from, s.y); pen.lineTo(s.at[0], s.at[1]); pen.stroke();
        }
      }
    }
    ellipsoid(pen, body, at, axes) {
      let xx = 0, xy = 0, yy = 0;
      for (const [x, y] of axes) { xx += x * x; xy += x * y; yy += y * y; }
      const middle = (xx + yy) / 2, half = Math.hypot((xx - yy) / 2, xy);
      const long = Math.sqrt(middle + half), short = Math.sqrt(Math.max(middle - half, 0));
      pen.strokeStyle = pen.fillStyle = colour(body.role);
      pen.lineWidth = 1.3;
      if (body.role === "before") pen.setLineDash([4, 3]);
      pen.beginPath();
      pen.ellipse(at[0], at[1], long, short, 0.5 * Math.atan2(2 * xy, xx - yy), 0, 7);
      if (body.role === "after") { pen.globalAlpha = 0.1 + 0.35 * body.seen; pen.fill(); }
      pen.globalAlpha = 1;
      pen.stroke();
      pen.lineWidth = 0.6; pen.globalAlpha = 0.7;
      for (const [i, j] of [[0, 1], [1, 2], [0, 2]]) {
        pen.beginPath();
        for (let k = 0; k <= 48; k++) {
          const c = Math.cos(k * Math.PI / 24), s = Math.sin(k * Math.PI / 24);
          pen.lineTo(at[0] + c * axes[i][0] + s * axes[j][0], at[1] + c * axes[i][1] + s * axes[j][1]);
        }
        pen.stroke();
      }
      pen.setLineDash([]); pen.globalAlpha = 1;
    }
    listen() {
      const canvas = this.canvas;
      let last = null;
      const turn = (dx, dy) => {
        this.turn -= dx; this.tilt = Math.max(-1.5, Math.min(1.5, this.tilt + dy)); this.draw();
      };
      canvas.addEventListener("pointerdown", (event) => {
        last = [event.clientX, event.clientY]; canvas.setPointerCapture(event.pointerId);
      });
      canvas.addEventListener("pointermove", (event) => {
        if (!last) return;
        turn((event.clientX - last[0]) / 120, (event.clientY - last[1]) / 120);
        last = [event.clientX, event.clientY];
      });
      for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { last = null; });
      canvas.addEventListener("keydown", (event) => {
        const keys = {
          ArrowLeft: () => turn(-0.15, 0), ArrowRight: () => turn(0.15, 0),
          ArrowUp: () => turn(0, -0.15), ArrowDown: () => turn(0, 0.15),
          "+": () => { this.zoom *= 1.2; this.draw(); }, "=": () => { this.zoom *= 1.2; this.draw(); },
          "-": () => { this.zoom /= 1.2; this.draw(); },
          "0": () => { this.turn = -0.9; this.tilt = 0.35; this.zoom = 1; this.draw(); },
        };
        if (!keys[event.key]) return;
        event.preventDefault();
        keys[event.key]();
      });
      this.boxes.forEach((box) => box.addEventListener("change", () => this.draw()));
    }
  }

  const groups = new Map();
  for (const figure of document.querySelectorAll("figure[data-drawing]")) {
    const spec = content.drawings[Number(figure.dataset.drawing)];
    all.push(figure.classList.contains("scene") ? new Scene(figure, spec) : new Plot(figure, spec, groups));
  }
  for (const box of document.querySelectorAll("[data-role], [data-hides]")) {
    const { role, hides } = box.dataset;
    const set = () => {
      for (const one of (role || hides).split(" ")) hidden[box.checked === !!role ? "delete" : "add"](one);
      repaint();
    };
    box.addEventListener("change", set);
    set();
  }
  const drawn = new Map(all.map((one) => [one.canvas, one]));
  const sizes = new ResizeObserver((entries) => {  // at once, and whenever a width changes
    for (const entry of entries) drawn.get(entry.target).draw();
  });
  all.forEach((one) => sizes.observe(one.canvas));
  const tables = new ResizeObserver((entries) => {  // a table that is wider than its place says so
    for (const { target } of entries) target.classList.toggle("clipped", target.scrollWidth > target.clientWidth + 1);
  });
  document.querySelectorAll(".wide").forEach((one) => tables.observe(one));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    repaint();
  });
})();
