"""A page in the browser that shows what is known of a load, as it comes to be known.

Only this machine's browsers are answered, and only at this machine's name, so that no page from
elsewhere can read along. The page holds all that it needs.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from heft.errors import InvalidSetting

HOST = "127.0.0.1"
WAIT = 5.0  # [s] between signs of life to a browser
MOST_READERS = 16
HTML = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light dark">
<title>heft</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.1rem } #mass { font-size: 3rem; font-weight: 600 }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
td, th { padding: .15rem .6rem; text-align: right; border-bottom: 1px solid #8884 }
td:first-child, th:first-child { text-align: left } small, .unseen { opacity: .6 }
svg { width: 100%; height: 8rem; border-bottom: 1px solid #8884 }
path { fill: none; stroke: currentColor; stroke-width: 1.5; vector-effect: non-scaling-stroke }
ul { padding-left: 1.2rem } .silent { color: #c33; font-weight: 600 }
</style>
<h1>What is held, in <span id="frame"></span> <small id="state">connecting</small></h1>
<div id="mass">–</div>
<svg id="plot" viewBox="0 0 600 100" preserveAspectRatio="none"><path id="line"/></svg>
<small>mass over the last minutes <span id="range"></span></small>
<table><thead><tr><th>what</th><th>value</th><th>±</th><th>unit</th></tr></thead>
<tbody id="rows"></tbody></table>
<h1>Events</h1><ul id="events"></ul>
<h1>Sensors</h1><div id="health"></div>
<script>
const at = id => document.getElementById(id), masses = [];
const digits = (value, std) => value.toFixed(
  std > 0 ? Math.min(6, Math.max(0, 1 - Math.floor(Math.log10(std)))) : 4);
function element(name, text, kind) {
  const made = document.createElement(name); made.textContent = text;
  if (kind) made.className = kind; return made;
}
function show(update) {
  at("state").textContent = "live"; at("frame").textContent = update.estimate.frame;
  at("rows").replaceChildren(...update.estimate.parameters.map(p => {
    const row = element("tr", "", p.value === null ? "unseen" : "");
    row.append(element("td", p.name.replace("payload.", "")),
      element("td", p.value === null ? "not seen" : digits(p.value, p.std)),
      element("td", p.std === null ? "" : p.std.toPrecision(2)), element("td", p.unit));
    return row; }));
  const mass = update.estimate.parameters[0];
  at("mass").textContent = mass.value === null ? "–" :
    digits(mass.value, mass.std) + " ± " + mass.std.toPrecision(2) + " kg";
  if (mass.value !== null) masses.push(mass.value);
  if (masses.length > 2400) masses.shift();
  if (masses.length > 1) {
    const low = Math.min(...masses), high = Math.max(...masses), wide = high - low || 1;
    at("line").setAttribute("d", masses.map((m, k) => (k ? "L" : "M") +
      (600 * k / (masses.length - 1)).toFixed(1) + " " +
      (95 - 90 * (m - low) / wide).toFixed(1)).join(""));
    at("range").textContent = "from " + low.toFixed(3) + " to " + high.toFixed(3) + " kg";
  }
  at("events").replaceChildren(...update.events.slice().reverse().map(e =>
    element("li", (e.stamp > 1e9 ? new Date(1000 * e.stamp).toLocaleTimeString() :
      e.stamp.toFixed(2) + " s") + "  " + e.name + ": " + e.message)));
  const health = update.health, counted = Object.entries(health.counts).filter(c => c[1]);
  at("health").replaceChildren(...Object.entries(health.devices).map(([name, d]) =>
    element("div", name + ": " + d.rate.toFixed(0) + " Hz, " + d.samples + " samples" +
      (d.silent ? ", silent" : ""), d.silent ? "silent" : "")),
    element("small", counted.map(c => c[1] + " " + c[0]).join(", ")));
}
const source = new EventSource("told");
source.onmessage = message => show(JSON.parse(message.data));
source.onerror = () => { at("state").textContent = "not connected"; };
</script></html>
"""


@dataclass
class Page:
    """What browsers are shown. Use `served`.

    Attributes:
        address: Where, for a browser.
    """

    address: str = ""
    _text: str = ""
    _number: int = 0
    _readers: int = 0
    _closed: bool = False
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def show(self, update: Mapping[str, Any]) -> None:
        """Send what is known to all browsers: `estimate`, `events` and `health`."""
        text = json.dumps(update, ensure_ascii=False, allow_nan=False)
        with self._changed:
            self._text, self._number = text, self._number + 1
            self._changed.notify_all()

    def news(self) -> Iterator[str]:
        """Yield what is shown, as it changes; nothing new is an empty text, until the end."""
        seen = 0
        while True:
            with self._changed:
                if self._number == seen and not self._closed:
                    self._changed.wait(WAIT)
                if self._closed:
                    return
                text, seen = ("" if self._number == seen else self._text), self._number
            yield text

    def enter(self) -> bool:
        """Return whether one more browser may read."""
        with self._changed:
            self._readers += self._readers < MOST_READERS + 1
            return self._readers <= MOST_READERS

    def leave(self) -> None:
        """A browser is gone."""
        with self._changed:
            self._readers -= 1

    def close(self) -> None:
        """Let all browsers go."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def _handler(page: Page) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10.0  # [s] in which a request has to be made

        def do_GET(self) -> None:
            name = (self.headers.get("Host") or "").rpartition(":")[0]
            if name not in (HOST, "localhost"):  # a foreign page's name that leads here
                self.send_error(403)
            elif self.path == "/":
                body = HTML.encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            elif self.path == "/told":
                self.stream()
            else:
                self.send_error(404)

        def stream(self) -> None:
            try:
                if not page.enter():
                    self.send_error(503)
                    return
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Cache-Control", "no-store")
                self.end_headers()
                for text in page.news():
                    self.wfile.write(f"data: {text}\n\n".encode() if text else b":\n\n")
            except OSError:  # the browser is gone
                pass
            finally:
                page.leave()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler


@contextmanager
def served(port: int) -> Iterator[Page]:
    """Yield a page that this machine's browsers can open, until the end.

    Args:
        port: Where; 0 for any that is free.

    Raises:
        InvalidSetting: If the port cannot be had.
    """
    page = Page()
    try:
        server = ThreadingHTTPServer((HOST, port), _handler(page))
    except (OSError, OverflowError) as problem:
        raise InvalidSetting(
            "the page cannot be served there", argument=f"--serve {port}", got=problem
        ) from problem
    server.daemon_threads = True
    page.address = f"http://{HOST}:{server.server_address[1]}/"
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
    thread.start()
    try:
        yield page
    finally:
        page.close()
        server.shutdown()
        server.server_close()
