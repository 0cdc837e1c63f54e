"""An S3 server of this machine, moto's, that can be told to fail."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ACCESS = {
    "AWS_ACCESS_KEY_ID": "someone",
    "AWS_SECRET_ACCESS_KEY": "hidden-from-all",
    "AWS_REGION": "us-east-1",
    "AWS_ALLOW_HTTP": "true",
    "NO_PROXY": "127.0.0.1",
}
SILENCE = 3.0  # of a request that is not answered [s]


@dataclass
class Bucket:
    """A bucket of the server, and what was asked of it."""

    address: str  # such as s3://fleet
    app: Callable[[dict[str, Any], Any], Iterable[bytes]]
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


@contextmanager
def s3(name: str, patch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """Yield an empty bucket of a server that the environment tells of."""
    pytest.importorskip("obstore", reason="NO OBSTORE: object stores stay untested")
    moto = pytest.importorskip("moto.server", reason="NO MOTO: object stores stay untested")
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        def log_request(self, *_: object) -> None:
            pass

    bucket = Bucket(f"s3://{name}", moto.DomainDispatcherApplication(moto.create_backend_app))
    server = make_server("127.0.0.1", 0, bucket, threaded=True, request_handler=Quiet)
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
