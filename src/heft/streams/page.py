"""A live page in the browser, updated by server-sent events.

Only this machine's browsers are answered, and only at this machine's name, so that no page from
elsewhere can read along. The page has to hold all that it needs; news come as events of `told`.
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
        """Send what is known to all browsers, as JSON."""
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


def _handler(page: Page, body: bytes) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10.0  # [s] in which a request has to be made

        def do_GET(self) -> None:
            name = (self.headers.get("Host") or "").rpartition(":")[0]
            if name not in (HOST, "localhost"):  # a foreign page's name that leads here
                self.send_error(403)
            elif self.path == "/":
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
def served(port: int, html: str) -> Iterator[Page]:
    """Yield a page that this machine's browsers can open, until the end.

    Args:
        port: Where; 0 for any that is free.
        html: The page, whose script listens to the events of `told`.

    Raises:
        InvalidSetting: If the port cannot be had.
    """
    page = Page()
    try:
        server = ThreadingHTTPServer((HOST, port), _handler(page, html.encode()))
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
