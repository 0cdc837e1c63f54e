// Draws the plots of a page from the numbers that the page itself holds; `scene` draws its scenes.
"use strict";
const plots = (() => {
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
  const repaint = () => {
    colours.clear(); all.forEach((one) => one.draw());
    document.dispatchEvent(new Event("themed"));
  };

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
    const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
    const near = [1, 2, 5, 10].map((m) => m * power).reduce((a, b) => Math.abs(b - rough) < Math.abs(a - rough) ? b : a);
    const step = log ? Math.max(1, Math.ceil(rough)) : near;
    for (let k = Math.ceil(low / step); k * step <= high; k++) out.push(k * step);
    return out;
  };

  const reset = (view) => { view.from = view.low; view.to = view.high; };

  class Plot {
    constructor(figure, spec, groups) {
      this.spec = spec;
      this.canvas = figure.querySelector("canvas");
      this.output = figure.querySelector("output");
      if (!groups.has(spec.group)) groups.set(spec.group, { low: Infinity, high: -Infinity, cursor: null, plots: [] });
      this.view = groups.get(spec.group);
      this.view.plots.push(this);
      this.hold(arrays);
      this.listen();
    }
    hold(arrays) {  // the numbers to draw; what is zoomed in stays so
      const { spec, view } = this, whole = !(view.from > view.low || view.to < view.high);
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
      if (low === high) { low -= 0.5; high += 0.5; }
      view.low = Math.min(view.low, low); view.high = Math.max(view.high, high);
      if (whole) reset(view);
      this.draw();
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
      const pad = Math.max(0.05 * (high - low), this.spec.room || 0) || 0.5 * Math.abs(high) || 1;
      return [low - pad, high + pad];
    }
    draw() {
      const { from, to, cursor } = this.view;
      if (!this.canvas.clientWidth || !(to > from)) return;  // closed for now, or empty; drawn when it opens
      const [pen, width, height] = prepare(this.canvas);
      const left = this.spec.y_label ? 70 : 52, right = width - 10, top = 8, bottom = height - 36;
      const [low, high] = this.range();
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
      for (const s of this.series) this.one(pen, s, px, py);
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
    one(pen, s, px, py) {
      pen.strokeStyle = pen.fillStyle = colour(s.role);
      pen.globalAlpha = 1;
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
        pen.lineWidth = s.kind === "broad" ? 5 : 1.2;
        pen.globalAlpha = s.kind === "broad" ? 0.55 : 1;
        if (s.kind === "dashed") pen.setLineDash([5, 4]);
        pen.beginPath();
        let broken = true;
        for (let k = 0; k < s.x.length; k++) {
          const known = isFinite(s.y[k]);
          if (known) pen[broken ? "moveTo" : "lineTo"](px(s.x[k]), py(s.y[k]));
          broken = !known;
        }
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

  const groups = new Map();
  for (const figure of document.querySelectorAll("figure[data-drawing]")) {
    const spec = content.drawings[Number(figure.dataset.drawing)];
    if (figure.id) scene(figure.id, spec); else all.push(new Plot(figure, spec, groups));
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
  return all;
})();
