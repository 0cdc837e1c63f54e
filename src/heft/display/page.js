// Draws the plots of a page from the numbers that the page itself holds; `scene` draws its scenes.
"use strict";
const plots = (() => {
  const content = JSON.parse(document.getElementById("numbers").textContent);
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const arrays = content.arrays.map((text) => new Float32Array(bytes(text).buffer));
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

  const number = (x) => {
    const size = Math.abs(x);
    const text = size && (size >= 1e5 || size < 1e-3)
      ? x.toExponential(2).replace(/\.?0+e/, "e") : String(+x.toPrecision(4));
    return text.replaceAll("-", "−");
  };
  const shown = (x, log) => number(log ? 10 ** x : x);
  const ticks = (low, high, count, log) => {
    const out = [], rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
    const near = [1, 2, 5, 10].map((m) => m * power).reduce((a, b) => b - rough < rough - a ? b : a);
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
    }
    get series() {
      const some = this.spec.group.startsWith("time");  // what boxes are about
      return this.every.filter((s) => !(some && hidden.has(s.role)));
    }
    together(change) { change(this.view); this.view.plots.forEach((p) => p.draw()); }
    range() {
      let low = Infinity, high = -Infinity;
      const { from, to } = this.view;
      for (const s of this.series) for (const edge of [s.y, s.low || []]) edge.forEach((v, k) => {
        if (s.x[k] < from || s.x[k] > to || !isFinite(v)) return;
        low = Math.min(low, v); high = Math.max(high, v);
      });
      if (!isFinite(low)) return [-1, 1];
      const pad = Math.max(0.05 * (high - low), this.spec.room || 0) || 0.5 * Math.abs(high) || 1;
      return [low - pad, high + pad];
    }
    draw() {
      const { from, to, cursor } = this.view;
      if (!this.canvas.clientWidth || !(to > from)) return;  // closed for now, or empty; drawn when it opens
      const [pen, width, height] = prepare(this.canvas);
      const { x_label, y_label, log_x, log_y } = this.spec, left = y_label ? 70 : 52, right = width - 10;
      const top = 8, bottom = height - 36;
      const [low, high] = this.range();
      this.place = { left, right };
      const px = (v) => left + (v - from) / (to - from) * (right - left);
      const py = (v) => bottom - (v - low) / (high - low) * (bottom - top);
      const line = (...ends) => { pen.beginPath(); ends.forEach(([x, y]) => pen.lineTo(x, y)); pen.stroke(); };
      const upright = (x) => line([x, top], [x, bottom]);
      pen.lineWidth = 1; pen.fillStyle = colour("soft"); pen.strokeStyle = colour("line");
      pen.textAlign = "right"; pen.textBaseline = "middle";
      for (const t of ticks(low, high, 5, log_y)) {
        line([left, py(t)], [right, py(t)]); pen.fillText(shown(t, log_y), left - 5, py(t));
      }
      pen.textAlign = "center"; pen.textBaseline = "top";
      for (const t of ticks(from, to, Math.max(2, width / 90), log_x)) {
        upright(px(t)); pen.fillText(shown(t, log_x), px(t), bottom + 4);
      }
      pen.fillText(x_label, (left + right) / 2, bottom + 20);
      pen.save();
      pen.translate(10, (top + bottom) / 2); pen.rotate(-Math.PI / 2); pen.fillText(y_label, 0, -5);
      pen.restore();
      pen.save();
      pen.beginPath(); pen.rect(left, top, right - left, bottom - top); pen.clip();
      for (const s of this.series) this.one(pen, s, px, py);
      if (cursor !== null) {
        pen.strokeStyle = colour("ink"); pen.globalAlpha = 0.6;
        upright(px(cursor));
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
      pen.globalAlpha = { points: 0.5, band: 0.22, broad: 0.55 }[s.kind] || 1;
      if (s.kind === "points") {
        for (let k = 0; k < s.x.length; k++) pen.fillRect(px(s.x[k]) - 1, py(s.y[k]) - 1, 2, 2);
      } else if (s.kind === "band") {
        for (let a = 0, b = 0; a < s.x.length; a = b + 1) {  // from gap to gap
          for (b = a; b < s.x.length && isFinite(s.y[b]); b++);
          pen.beginPath();
          for (let k = a; k < b; k++) pen.lineTo(px(s.x[k]), py(s.y[k]));
          for (let k = b - 1; k >= a; k--) pen.lineTo(px(s.x[k]), py(s.low[k]));
          pen.fill();
        }
      } else {
        pen.lineWidth = s.kind === "broad" ? 5 : 1.2;
        pen.setLineDash(s.kind === "dashed" ? [5, 4] : []);
        pen.beginPath();
        s.y.forEach((v, k) => {  // from gap to gap
          if (isFinite(v)) pen[isFinite(s.y[k - 1]) ? "lineTo" : "moveTo"](px(s.x[k]), py(v));
        });
        pen.stroke();
        pen.setLineDash([]);
      }
    }
    read() {
      const at = this.view.cursor;
      if (at === null) { this.output.textContent = ""; return; }
      const parts = [`${this.spec.x_label.split(" [")[0]} ${shown(at, this.spec.log_x)}`];
      for (const s of this.series) {
        if (s.kind === "points" || s.kind === "band") continue;
        const k = s.x.reduce((near, x, k) => Math.abs(x - at) < Math.abs(s.x[near] - at) ? k : near, 0);
        if (isFinite(s.y[k])) parts.push(`${s.name} ${shown(s.y[k], this.spec.log_y)}`);
      }
      this.output.textContent = parts.join(" · ");
    }
    listen() {
      const canvas = this.canvas;
      const value = (x) => {
        const { left, right } = this.place, { from, to } = this.view;
        return from + Math.min(1, Math.max(0, (x - left) / (right - left))) * (to - from);
      };
      const on = (name, act) => canvas.addEventListener(name, (event) => act(event, event.offsetX));
      on("pointerdown", (event, x) => {
        this.dragged = [x, x];
        canvas.setPointerCapture(event.pointerId);
      });
      on("pointermove", (event, x) => {
        if (this.dragged) this.dragged[1] = x;
        this.together((view) => { view.cursor = value(x); });
      });
      on("pointerup", (event, x) => {
        const [a, b] = [this.dragged?.[0] ?? x, x].sort((p, q) => p - q), ends = [value(a), value(b)];
        this.dragged = null;
        this.together((view) => { if (b - a > 6) [view.from, view.to] = ends; });
      });
      on("pointercancel", () => { this.dragged = null; this.draw(); });
      on("pointerleave", () => this.together((view) => { view.cursor = null; }));
      on("dblclick", () => this.together(reset));
      on("keydown", (event) => {
        const { from, to, low, high, cursor } = this.view, span = to - from;
        const middle = cursor === null ? (from + to) / 2 : cursor;
        const zoom = (factor) => (view) => {
          view.from = Math.max(low, middle - (middle - from) * factor);
          view.to = Math.min(high, middle + (to - middle) * factor);
        };
        const step = (side) => (view) => {
          const move = Math.max(low - from, Math.min(high - to, side * span / 5));
          if (event.shiftKey) { view.from += move; view.to += move; }
          else view.cursor = Math.max(from, Math.min(to, middle + side * span / 100));
        };
        const change = {
          "+": zoom(0.5), "=": zoom(0.5), "-": zoom(2), "0": reset, Escape: reset,
          ArrowLeft: step(-1), ArrowRight: step(1),
        }[event.key];
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
  const sizes = new ResizeObserver((entries) => {  // at once, and whenever a size changes
    for (const { target } of entries) {
      drawn.get(target)?.draw();
      target.classList.toggle("clipped", target.scrollWidth > target.clientWidth + 1);  // a table says that it scrolls
    }
  });
  document.querySelectorAll(".plot canvas, .wide").forEach((one) => sizes.observe(one));
  const dark = matchMedia("(prefers-color-scheme: dark)"), chosen = document.documentElement.dataset;
  dark.addEventListener("change", repaint);
  document.getElementById("theme").addEventListener("click", () => {
    chosen.theme = (chosen.theme || (dark.matches ? "dark" : "light")) === "dark" ? "light" : "dark";
    repaint();
  });
  return all;
})();
