"""A live page in the browser, updated by server-sent events.

Only this machine's browsers are answered, and only at this machine's name, so that no page from
elsewhere can read along or show it in a frame. The page has to hold all that it needs; news come as
events of `told`. Connections are few, and a request has one deadline, so that whoever only opens
them takes neither the node's file handles nor its threads.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from heft.errors import InvalidSetting

HOST = "127.0.0.1"
MOST_CONNECTIONS = 32  # at once; what readers leave is for requests
DEADLINE = 5.0  # [s] from a connection to the end of its request, and of a write of the answer


@dataclass
class Page:
    """State of a live page and its readers; made by `served`."""

    address: str = ""  # where, for a browser
    _text: str = ""
    _number: int = 0
    _readers: int = 0
    _closed: bool = False
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def show(self, update: Mapping[str, Any]) -> None:
        """Send an update to all browsers, as JSON."""
        text = json.dumps(update, allow_nan=False)
        with self._changed:
            self._text, self._number = text, self._number + 1
            self._changed.notify_all()

    def news(self) -> Iterator[str]:
        """Yield each update as JSON, or an empty text after a wait without one, until closed."""
        seen = 0
        while True:
            with self._changed:
                if self._number == seen and not self._closed:
                    self._changed.wait(5.0)  # [s] between signs of life to a browser
                if self._closed:
                    return
                text, seen = ("" if self._number == seen else self._text), self._number
            yield text

    def enter(self) -> bool:
        """Register a reader; return False if there are too many."""
        with self._changed:
            free = self._readers < 16
            self._readers += free
            return free

    def leave(self) -> None:
        """Unregister a reader."""
        with self._changed:
            self._readers -= 1

    def close(self) -> None:
        """End the updates of all readers."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


class Server(ThreadingHTTPServer):
    """Serves a few connections at once, each with a deadline for its request."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        self._deadlines: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        super().__init__((HOST, port), handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Return a new connection; if that fails for lack of file handles, wait before raising."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(0.1)
            raise

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Return whether there is room for one more connection, and start its deadline if so."""
        with self._lock:
            room = len(self._deadlines) < MOST_CONNECTIONS
            if room:
                self._deadlines[request] = time.monotonic() + DEADLINE
        return room

    def without_deadline(self, request: socket.socket) -> None:
        """Remove the deadline of a connection whose answer is a stream."""
        with self._lock:
            self._deadlines[request] = float("inf")

    def service_actions(self) -> None:
        """Shut down connections whose deadline is over; called many times a second."""
        now = time.monotonic()
        with self._lock:
            over = [request for request, end in self._deadlines.items() if now > end]
        for request in over:
            with suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._lock:
            self._deadlines.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of a connection: a browser may disconnect at any time."""


def _handler(page: Page, body: bytes, policy: str) -> type[BaseHTTPRequestHandler]:
    headers = {  # which keep other pages from embedding or reading this one
        "Content-Security-Policy": f"{policy}; frame-ancestors 'none'",
        "X-Frame-Options": "DENY",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cache-Control": "no-store",
    }

    class Handler(BaseHTTPRequestHandler):
        timeout = DEADLINE
        server: Server
        server_version = "heft"
        sys_version = ""

        def end_headers(self) -> None:
            for name, value in headers.items():
                self.send_header(name, value)
            super().end_headers()

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
            with suppress(OSError):  # the browser is gone
                if not page.enter():
                    self.send_error(503)
                    return
                try:
                    self.server.without_deadline(self.connection)
                    self.send_response(200)
                    self.send_header("Content-Type", "text/event-stream")
                    self.end_headers()
                    for text in page.news():
                        self.wfile.write(f"data: {text}\n\n".encode() if text else b":\n\n")
                finally:
                    page.leave()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    return Handler


@contextmanager
def served(port: int, html: str, policy: str) -> Iterator[Page]:
    """Yield a page that is served to this machine's browsers until the context ends.

    Args:
        port: 0 for any free port.
        html: Page whose script listens to the server-sent events at `/told`.

    Raises:
        InvalidSetting: If the port cannot be had.
    """
    page = Page()
    try:
        server = Server(port, _handler(page, html.encode(), policy))
    except (OSError, OverflowError) as problem:
        raise InvalidSetting(
            "the page cannot be served there", argument=f"--serve {port}", got=problem
        ) from problem
    page.address = f"http://{HOST}:{server.server_address[1]}/"
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
    thread.start()
    try:
        yield page
    finally:
        page.close()
        server.shutdown()
        server.server_close()
