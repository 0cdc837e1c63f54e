"""Router and sessions as rmw_zenoh, ROS 2's middleware, opens them, each in a process of its own.

What is set here is what its two default files of settings set otherwise than Zenoh does, as of
ros2/rmw_zenoh, commit 30f303058d00e8c6ca476c553280c012a6dabfb4 (rmw_zenoh_cpp/config). Where the
files themselves are there, in `$HEFT_DATA/rmw_zenoh`, they are read whole.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import zenoh

BOTH: dict[str, Any] = {
    "connect/timeout_ms": {"router": -1, "peer": -1, "client": 0},
    "connect/exit_on_failure": {"router": False, "peer": False, "client": True},
    "open/return_conditions/connect_scouted": True,
    "open/return_conditions/declares": True,
    "scouting/delay": 500,
    "scouting/multicast/enabled": False,
    "scouting/gossip/enabled": True,
    "scouting/gossip/multihop": False,
    "scouting/gossip/target": {"router": ["router", "peer"], "peer": ["router"]},
    "scouting/gossip/autoconnect": {"router": [], "peer": ["router", "peer"]},
    "timestamping/enabled": {"router": True, "peer": True, "client": True},
    "timestamping/drop_future_timestamp": False,
    "queries_default_timeout": 60000,
}
ROUTER = BOTH | {
    "mode": "router",
    "routing/router/peers_failover_brokering": False,
}
SESSION = BOTH | {
    "mode": "peer",
    "listen/endpoints": ["tcp/localhost:0"],
    "scouting/gossip/autoconnect_strategy": {
        "peer": {"to_router": "always", "to_peer": "greater-zid"}
    },
}
FOLDER = Path(os.environ.get("HEFT_DATA", "")) / "rmw_zenoh"
FILES = {kind: FOLDER / f"DEFAULT_RMW_ZENOH_{kind}_CONFIG.json5" for kind in ("ROUTER", "SESSION")}
# Of the files' own time, which Zenoh 1.10 knows no more or under other names.
GONE = re.compile(
    r"routing/peer/mode|transport/link/tx/queue/backoff"
    r"|transport/link/tls/(server|client)_(private_key|certificate|auth|name_verification)"
)
BY_MODE = {"router", "peer", "client"}


def written(path: Path) -> dict[str, Any]:
    """Return the settings that a file of them states, by key."""
    lines = (re.sub(r"(^|\s)//.*$", "", line) for line in path.read_text().splitlines())
    text = re.sub(r"([{,]\s*)(\w+)\s*:", r'\1"\2":', "\n".join(lines))
    return dict(leaves(json.loads(re.sub(r",(\s*[}\]])", r"\1", text))))


def leaves(table: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        inner = isinstance(value, dict)
        by_mode = inner and set(value) <= BY_MODE and not any(map(is_table, value.values()))
        if inner and not by_mode:
            yield from leaves(value, f"{above}{key}/")
        elif by_mode:  # lists of modes were once written `router|peer`
            yield above + key, {k: modes(v) if isinstance(v, str) else v for k, v in value.items()}
        else:
            yield above + key, value


def is_table(value: object) -> bool:
    return isinstance(value, dict)


def modes(text: str) -> list[str]:
    return [word for word in text.split("|") if word]


def settings(kind: str, port: int, files: bool = False) -> zenoh.Config:
    """Return the settings of a `ROUTER`, or of a `SESSION` that connects to one.

    Args:
        kind: Of the two.
        port: Of the router, on this machine.
        files: Whether they are read from rmw_zenoh's files.
    """
    table = written(FILES[kind]) if files else {"ROUTER": ROUTER, "SESSION": SESSION}[kind]
    side = "listen" if kind == "ROUTER" else "connect"
    table = table | {f"{side}/endpoints": [f"tcp/127.0.0.1:{port}"]}
    made = zenoh.Config()
    for key, value in table.items():
        try:
            made.insert_json5(key, json.dumps(value))
        except zenoh.ZError:
            if not GONE.fullmatch(key):
                raise
    return made


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def router(port: int, files: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a router's process, which listens by then; it is killed in the end."""
    call = [sys.executable, "-m", "tests.rmw_zenoh", str(port), *(["--files"] if files else [])]
    process = subprocess.Popen(call, cwd=Path(__file__).parents[1])
    try:
        until = time.monotonic() + 30.0
        while time.monotonic() < until and process.poll() is None:
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        else:
            raise RuntimeError("the router does not come up")
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def session(port: int, files: bool = False) -> Iterator[zenoh.Session]:
    """Yield a session as a ROS node has it."""
    opened = zenoh.open(settings("SESSION", port, files))
    try:
        yield opened
    finally:
        opened.close()


def main() -> None:
    """Run a router until killed."""
    parser = argparse.ArgumentParser(description="A router as rmw_zenoh runs it.")
    parser.add_argument("port", type=int)
    parser.add_argument("--files", action="store_true")
    arguments = parser.parse_args()
    with zenoh.open(settings("ROUTER", arguments.port, arguments.files)):
        signal.pause()


if __name__ == "__main__":
    main()


def intruder(address: str, keys: Path, name: str | None) -> zenoh.Session:
    """Return a session with a robot of a team, as somebody who is not its neighbour opens it.

    Args:
        address: Where the robot listens.
        keys: Folder of `ca.pem` and of what `name` has.
        name: Whose certificate and key it has; none of them if None.

    Raises:
        zenoh.ZError: If it gets none.
    """
    config = zenoh.Config()
    tls = "transport/link/tls/"
    settings: dict[str, Any] = {
        "mode": "peer",
        "connect/endpoints": [address],
        "connect/timeout_ms": 1000,
        "connect/exit_on_failure": True,
        "listen/endpoints": [],
        "scouting/multicast/enabled": False,
        f"{tls}root_ca_certificate": str(keys / "ca.pem"),
    }
    if name is not None:
        settings[f"{tls}enable_mtls"] = True
        settings[f"{tls}connect_certificate"] = str(keys / f"{name}.pem")
        settings[f"{tls}connect_private_key"] = str(keys / f"{name}.key")
    for key, value in settings.items():
        config.insert_json5(key, json.dumps(value))
    return zenoh.open(config)
