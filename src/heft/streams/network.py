"""Messages over Zenoh: subscription and publication, closed to unauthenticated nodes by default.

A node opens on loopback, or with certificates on both sides; anything else has to be asked for.
Zenoh's defaults are the other way round: it listens on all interfaces, finds its peers by itself
and lets everybody in (`docs/live.md`). Addresses are `tcp/HOST:PORT` and `tls/HOST:PORT`, without
the options that Zenoh takes behind them, which could undo what is set here.
"""

from __future__ import annotations

import ipaddress
import json
import re
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from heft.errors import InvalidSetting, NoConnection
from heft.files import Number, Reader, Section, Text, name_list, named, read_toml
from heft.recordings import KINDS

from .messages import LARGEST, MOST_BYTES, refuse_types

HERE = "tcp/127.0.0.1:7447"  # where a robot's router listens
ADDRESS = Text(
    "this is no address",
    shape=re.compile(r"(tcp|tls)/(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})"),
    expected="tcp/HOST:PORT or tls/HOST:PORT",
)
# Names of at most 1024 letters; Zenoh's Python binding panics above 65 535 bytes.
STEPS = "names with strokes between, such as robot/wrist"
KEY = Text(
    "this is no key", shape=re.compile(r"(?!.{1025})[^/?#$*\s]+(/[^/?#$*\s]+)*"), expected=STEPS
)
PATTERN = Text(
    "this is no key", shape=re.compile(r"(?!.{1025})[^/?#\s]+(/[^/?#\s]+)*"), expected=STEPS
)
TOPIC = Text("this is no topic", shape=re.compile(r"(?!.{1025})(/[^/?#$*\s]+)+"))
MOST_DOMAINS = 232  # of ROS 2, by its ports
SAMPLES = "heft/samples/**"  # JSON and CBOR
HELD = 4096  # messages that wait to be taken, a subscription
PATIENCE = 5000  # [ms] for connections to be made
# Hash of geometry_msgs/InertiaStamped by REP 2011, as `ros2 topic info -v` shows it.
INERTIA_HASH = "RIHS01_766be45976252babf7f9d8ac4ae7c912a7ceccf71035622529f27518b695aa09"
INERTIA_TYPE = "geometry_msgs::msg::dds_::InertiaStamped_"
GID = 16  # bytes
NODE = "heft"  # as `ros2 node list` shows it
QUALITY = "::,10:,:,:,,"  # rmw_zenoh's defaults (reliable, volatile, the last ones kept), depth 10


@dataclass(frozen=True)
class Certificates:
    """Files by which both sides prove who they are.

    Attributes:
        ca: Certificates of the authority that signs all nodes' certificates, PEM.
        certificate: The node's own, PEM.
        key: Its private key, PEM, readable by its owner alone.
    """

    ca: Path
    certificate: Path
    key: Path


@dataclass(frozen=True)
class Link:
    """Where messages come from and go to.

    Attributes:
        connect: Addresses to connect to.
        listen: Addresses to listen on.
        subscribe: Key expressions of JSON and CBOR messages.
        publish: Key under which estimates go out.
        domain: ROS 2 domain of robots that run rmw_zenoh.
        topics: Types of topics behind zenoh-plugin-ros2dds, which are subscribed to by name.
        frames: Frames of topics whose messages do not tell them well.
        certificates: Or None.
    """

    connect: tuple[str, ...] = (HERE,)
    listen: tuple[str, ...] = ()
    subscribe: tuple[str, ...] = (SAMPLES,)
    publish: str = "heft/payload"
    domain: int = 0
    topics: Mapping[str, str] = field(default_factory=dict)
    frames: Mapping[str, str] = field(default_factory=dict)
    certificates: Certificates | None = None

    @staticmethod
    def named(where: str) -> Link:
        """Return the link of `--on`: `zenoh` for this machine's router, or a TOML file.

        Raises:
            InvalidSetting: If it is neither, or the file is malformed.
        """
        if where == "zenoh":
            return Link()
        if not where.endswith(".toml"):
            raise InvalidSetting(
                "this is no way to be reached",
                argument=f"--on {where}",
                expected="zenoh, or a TOML file that says where (docs/live.md)",
            )
        return Link.from_dict(read_toml(Path(where)), Path(where))

    @staticmethod
    def from_dict(table: Mapping[str, Any], path: Path) -> Link:
        """Return the link of a parsed TOML file, whose folder its files' names start from.

        Args:
            table: Parsed TOML.
            path: Of its file.

        Raises:
            InvalidSetting: If a key is unknown or a value is wrong.
        """
        return _link_section(path.parent)(table, str(path))

    @property
    def keys(self) -> tuple[str, ...]:
        """All key expressions that are subscribed to."""
        types = [kind.replace("/msg/", "::msg::dds_::") + "_" for kind in KINDS]
        ros = [f"{self.domain}/**/{name}/*" for name in types]
        return (*self.subscribe, *ros, *(t[1:] for t in self.topics))

    def refuse_open(self, insecure: bool = False) -> None:
        """Raise `InvalidSetting` if strangers could listen or speak, or a key is not kept.

        Args:
            insecure: Whether that was asked for.
        """
        for address in (*self.connect, *self.listen):
            kind, host = address.partition("/")[0], address.partition("/")[2].rpartition(":")[0]
            if kind == "tls" and self.certificates is None:
                raise InvalidSetting(
                    "an address asks for TLS, and no certificates are given",
                    argument=address,
                    cure='[tls]\nca = "ca.pem"\ncertificate = "node.pem"\nkey = "node.key"',
                )
            if kind != "tls" and not _loopback(host) and not insecure:
                raise InvalidSetting(
                    "anybody on that network could read and forge the messages",
                    argument=address,
                    expected="an address of this machine, or TLS with certificates on both sides",
                    cure="tls/… with [tls] in the file of --on (docs/live.md), or --insecure",
                )
        if self.certificates is not None:
            for path in vars(self.certificates).values():
                if not path.is_file():
                    raise InvalidSetting("there is no such file", argument="[tls]", got=path)
            mode = self.certificates.key.stat().st_mode & 0o777
            if mode & 0o077:
                raise InvalidSetting(
                    "others can read the private key",
                    argument=f"[tls], {self.certificates.key}",
                    got=f"mode {mode:03o}",
                    cure=f"chmod 600 {self.certificates.key}",
                )


def _link(
    connect: tuple[str, ...] | None = None,
    listen: tuple[str, ...] = (),
    topics: Mapping[str, str] | None = None,
    frames: Mapping[str, str] | None = None,
    tls: Certificates | None = None,
    **said: Any,
) -> Link:
    """Return the link of what its file says."""
    if connect is None:
        connect = () if listen else (HERE,)
    types = refuse_types(topics or {}, "[topics]")
    for topic in types:
        TOPIC(topic, "[topics]")
    named_by = {"/" + topic.strip("/"): frame for topic, frame in (frames or {}).items()}
    return Link(connect, listen, topics=types, frames=named_by, certificates=tls, **said)


def _names_of(each: Text) -> Reader[tuple[str, ...]]:
    return lambda value, where: tuple(each(name, where) for name in name_list(value, where))


def _link_section(folder: Path) -> Section[Link]:
    """Return the reader of a link's file, whose folder its files' names start from."""

    def file(value: object, where: str) -> Path:
        name = Text("certificates on both sides need three files", expected="the name of a file")
        return folder / name(value, where)

    texts = named(Text("a text is expected"), "a table of texts is expected")
    files = ("ca", "certificate", "key")
    tls = Section(Certificates, dict.fromkeys(files, file), required=files)
    return Section(
        _link,
        {
            "connect": _names_of(ADDRESS),
            "listen": _names_of(ADDRESS),
            "subscribe": _names_of(PATTERN),
            "publish": KEY,
            "domain": Number("this is no ROS domain", 0, MOST_DOMAINS, whole=True),
            "topics": texts,
            "frames": texts,
            "tls": tls,
        },
    )


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:  # a name
        return False


def settings_of(link: Link) -> dict[str, Any]:
    """Return what of Zenoh's settings is not left to it, by key."""
    made: dict[str, Any] = {
        "mode": "peer",
        "connect/endpoints": list(link.connect),
        "connect/timeout_ms": PATIENCE,
        "connect/exit_on_failure": True,
        "listen/endpoints": list(link.listen),
        "listen/exit_on_failure": True,
        "scouting/multicast/enabled": False,
        "scouting/gossip/enabled": False,
        "adminspace/enabled": False,
        "transport/link/rx/max_message_size": LARGEST,
    }
    if link.certificates is not None:
        own = link.certificates
        made |= {
            f"transport/link/tls/{k}": v
            for k, v in {
                "root_ca_certificate": str(own.ca),
                "listen_certificate": str(own.certificate),
                "listen_private_key": str(own.key),
                "connect_certificate": str(own.certificate),
                "connect_private_key": str(own.key),
                "enable_mtls": True,
                "verify_name_on_connect": True,
                "close_link_on_expiration": True,
            }.items()
        }
    return made


@dataclass
class Connection:
    """An open session. Use `connected`."""

    link: Link
    _zenoh: ModuleType
    _session: Any
    _subscribers: list[Any]
    _sent: int = 0

    def receive(self) -> list[tuple[str, bytes]]:
        """Return the messages that came since the last call, by key.

        Of each subscription at most `HELD`, and no more once they hold `MOST_BYTES`: whoever sends
        faster than this is called keeps nobody from being called again.
        """
        messages = []
        for subscriber in self._subscribers:
            size = 0
            for _ in range(HELD):
                if size > MOST_BYTES or (sample := subscriber.try_recv()) is None:
                    break
                data = bytes(sample.payload)
                size += len(data)
                messages.append((str(sample.key_expr), data))
        return messages

    def publish(self, what: str, content: Mapping[str, Any]) -> None:
        """Publish JSON under `<publish>/<what>`.

        Args:
            what: Last part of the key.
            content: Of finite numbers, texts, lists and tables.
        """
        text = json.dumps(content, ensure_ascii=False, allow_nan=False)
        encoding = self._zenoh.Encoding.APPLICATION_JSON
        self._session.put(f"{self.link.publish}/{what}", text, encoding=encoding)

    def publish_inertia(self, stamp: float, frame: str, body: Any) -> None:
        """Publish a `geometry_msgs/InertiaStamped` for ROS 2.

        Args:
            stamp: Of the newest sample [s].
            frame: In whose axes.
            body: Mass, centre of mass, inertia about it, shape (10,); no inertia where it is NaN.
        """
        own = bytes.fromhex(str(self._session.zid()).zfill(2 * GID))[-GID:]
        note = attachment(self._sent, time.time_ns(), own)
        self._session.put(
            inertia_key(self.link.domain, self.link.publish),
            inertia_stamped(round(stamp * 1e9), frame, body),
            attachment=note,
        )
        self._sent += 1


def inertia_key(domain: int, topic: str) -> str:
    """Return the key of a topic of inertias, as rmw_zenoh makes it.

    Args:
        domain: ROS domain.
        topic: Name of the topic.
    """
    return f"{domain}/{topic}/{INERTIA_TYPE}/{INERTIA_HASH}"


def liveliness(domain: int, session: str, topic: str) -> tuple[str, str]:
    """Return the tokens by which ROS 2 knows of a node and of its topic of inertias.

    `@ros2_lv/<domain>/<session>/<node>/<entity>/<kind>/<enclave>/<namespace>/<name>`, and of a
    publisher `/<topic>/<type>/<hash>/<quality of service>` behind it. A stroke within a name is
    `%`, and so are enclave and namespace that are none; see `Graph Cache` in docs/design.md of
    ros2/rmw_zenoh.

    Args:
        domain: ROS_DOMAIN_ID.
        session: Zenoh's identity of the session, as it prints it.
        topic: Without a stroke before it.
    """
    ours = f"@ros2_lv/{domain}/{session}/0"
    name = "%" + topic.replace("/", "%")
    return (
        f"{ours}/0/NN/%/%/{NODE}",
        f"{ours}/1/MP/%/%/{NODE}/{name}/{INERTIA_TYPE}/{INERTIA_HASH}/{QUALITY}",
    )


def attachment(sequence: int, stamp: int, gid: bytes) -> bytes:
    """Return what rmw_zenoh's subscribers want beside a message.

    Sequence number and source stamp [ns] as little-endian int64, the length 16 of the publisher's
    identity and that identity: zenoh-ext's serialization, see `AttachmentData` in
    rmw_zenoh_cpp/src/detail/attachment_helpers.cpp of ros2/rmw_zenoh.

    Args:
        sequence: Number of the message.
        stamp: When it was sent [ns].
        gid: Identity of the publisher, 16 bytes.
    """
    return struct.pack("<qqB", sequence, stamp, GID) + gid


def inertia_stamped(stamp: int, frame: str, body: Any) -> bytes:
    """Return a `geometry_msgs/InertiaStamped` in CDR.

    Args:
        stamp: [ns].
        frame: In whose axes.
        body: Mass, centre of mass, Ixx, Ixy, Iyy, Ixz, Iyz, Izz about it, shape (10,); what is
            NaN is 0.
    """
    name = frame.encode() + b"\0"
    head = struct.pack("<iII", stamp // 10**9, stamp % 10**9, len(name)) + name
    head += bytes(-len(head) % 8)
    mass, x, y, z, xx, xy, yy, xz, yz, zz = np.nan_to_num(np.asarray(body, dtype=float))
    return b"\0\1\0\0" + head + struct.pack("<10d", mass, x, y, z, xx, xy, xz, yy, yz, zz)


@contextmanager
def connected(link: Link, insecure: bool = False) -> Iterator[Connection]:
    """Yield an open connection, closed in the end whatever happens.

    Args:
        link: Where.
        insecure: Whether it may be open to strangers.

    Raises:
        InvalidSetting: If it would be open to strangers, or Zenoh is not installed.
        NoConnection: If nobody answers.
    """
    link.refuse_open(insecure)
    try:
        import zenoh
    except ImportError as problem:
        raise InvalidSetting(
            f"live messages need the library '{problem.name}', which is not installed",
            argument="--on",
            cure="pip install 'heft[live]'",
        ) from problem
    config = zenoh.Config()
    wanted = settings_of(link)
    for key, value in wanted.items():
        config.insert_json5(key, json.dumps(value))
    for key, value in wanted.items():  # a setting that is not there would be as open as before
        held = json.loads(config.get_json(key))
        if held != value:
            raise InvalidSetting("Zenoh does not take a setting", argument=key, got=held)
    with ExitStack() as stack:
        try:
            session = zenoh.open(config)
        except zenoh.ZError as problem:
            raise NoConnection(
                "no connection could be made",
                argument=", ".join((*link.connect, *link.listen)),
                got=str(problem)[:200],
                expected="a router or a robot that listens there",
                cure="start it first; with TLS, see that both certificates are of the same "
                "authority, in date, and name the host: Zenoh calls all of that a timeout",
            ) from problem
        stack.callback(session.close)
        subscribers = []
        for key in link.keys:
            subscriber = session.declare_subscriber(key, zenoh.handlers.FifoChannel(HELD))
            stack.callback(subscriber.undeclare)
            subscribers.append(subscriber)
        for token in liveliness(link.domain, str(session.zid()), link.publish):
            stack.callback(session.liveliness().declare_token(token).undeclare)
        yield Connection(link, zenoh, session, subscribers)
