"""An S3 server of this machine that can be told to fail."""

from __future__ import annotations

import hashlib
import http.client
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any, TypeAlias
from urllib.parse import parse_qs
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from xml.sax.saxutils import escape, unescape

import pytest

ACCESS = {
    "AWS_ACCESS_KEY_ID": "someone",
    "AWS_SECRET_ACCESS_KEY": "hidden-from-all",
    "AWS_REGION": "us-east-1",
    "AWS_ALLOW_HTTP": "true",
    "NO_PROXY": "127.0.0.1",
}
App: TypeAlias = Callable[[dict[str, Any], Any], Iterable[bytes]]
SILENCE = 3.0  # of a request that is not answered [s]


@dataclass
class Bucket:
    """A bucket of the server, and what was asked of it."""

    address: str  # such as s3://fleet
    app: App
    # status that a request by this path fails with, or "silence"; None if it is answered
    fails: Callable[[str], str | None] = lambda path: None
    asked: list[str] = field(default_factory=list)  # paths

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        self.asked.append(path)
        status = self.fails(path)
        if status == "silence":
            time.sleep(SILENCE)
        elif status is not None:
            start(status, [])
            return [b""]
        return self.app(environ, start)

    @property
    def store(self) -> Any:
        """It as obstore sees it."""
        import obstore.store

        return obstore.store.from_url(self.address)

    def upload(self, folder: Path, prefix: str) -> None:
        """Put a folder's files below a prefix."""
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            self.store.put(f"{prefix}/{path.relative_to(folder)}", path)


def kept() -> App:
    """Return an application that keeps objects as S3's public interface says."""
    objects: dict[str, bytes] = {}

    def answer(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        _, _, key = environ["PATH_INFO"].lstrip("/").partition("/")
        asked, status, body, more = parse_qs(environ["QUERY_STRING"]), "200 OK", b"", {}
        if environ["REQUEST_METHOD"] == "PUT":
            objects[key] = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            more = {"ETag": tag(objects[key])}
        elif environ["REQUEST_METHOD"] == "POST":  # a list of objects to delete
            words = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])).decode()
            gone = re.findall("<Key>(.*?)</Key>", words)
            for name in gone:
                del objects[unescape(name)]
            said = "".join(f"<Deleted><Key>{name}</Key></Deleted>" for name in gone)
            body = f"<DeleteResult>{said}</DeleteResult>".encode()
        elif "list-type" in asked:
            prefix = asked.get("prefix", [""])[0]
            listed = "".join(
                f"<Contents><Key>{escape(k)}</Key><LastModified>2026-01-01T00:00:00.000Z"
                f"</LastModified><ETag>{tag(x)}</ETag><Size>{len(x)}</Size></Contents>"
                for k, x in sorted(objects.items())
                if k and k.startswith(prefix)
            )
            body = f"<ListBucketResult>{listed}</ListBucketResult>".encode()
        elif key not in objects:
            status = "404 Not Found"
        elif environ.get("HTTP_IF_MATCH", tag(objects[key])) != tag(objects[key]):
            status = "412 Precondition Failed"
        else:
            body = objects[key]
            more = {"ETag": tag(body), "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
        start(status, [*more.items(), ("Content-Length", str(len(body)))])
        return [body]

    return answer


def tag(content: bytes) -> str:
    """Return the ETag of an object."""
    return f'"{hashlib.md5(content).hexdigest()}"'


class Quiet(WSGIRequestHandler):
    """What logs no request."""

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class Threads(ThreadingMixIn, WSGIServer):
    """What answers each request in a thread of its own."""

    daemon_threads = True


@contextmanager
def s3(name: str, patch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """Yield an empty bucket of a server that the environment tells of: moto's, where it is."""
    try:
        from moto import server as moto

        app = moto.DomainDispatcherApplication(moto.create_backend_app)
    except ImportError:
        app = kept()
    bucket = Bucket(f"s3://{name}", app)
    server = make_server("127.0.0.1", 0, bucket, Threads, Quiet)
    for variable, value in ACCESS.items():
        patch.setenv(variable, value)
    patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
        connection.request("PUT", f"/{name}")
        assert connection.getresponse().status == 200
        yield bucket
    finally:
        server.shutdown()
        thread.join()
