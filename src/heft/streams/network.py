"""Messages over Zenoh: subscription and publication, closed to unauthenticated nodes by default.

A node opens on loopback, or with certificates on both sides; anything else has to be asked for.
Zenoh's defaults are the other way round: it listens on all interfaces, finds its peers by itself
and lets everybody in (`docs/live.md`).

Where a router answers, a node is its client: routers pass on what clients say and want to hear,
and rmw_zenoh's does not do so between peers. Elsewhere it is a peer among those that it hears of
by gossip from the ones that it is connected to. Addresses are `tcp/HOST:PORT` and `tls/HOST:PORT`,
without the options that Zenoh takes behind them, which could undo what is set here.
"""

from __future__ import annotations

import ipaddress
import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

from heft.arrays import Array
from heft.errors import InvalidSetting, NoConnection, optional_library
from heft.files import Number, Reader, Text, name_list, named, read_toml, section
from heft.recordings import KINDS

from .messages import LARGEST, MOST_BYTES, refuse_types
from .ros import GID, attachment, inertia_key, inertia_stamped, liveliness, transforms_key
from .ros import transforms as transforms_message

HERE = "tcp/127.0.0.1:7447"  # where a robot's router listens
CONNECTING = 5.0  # until it is said that nobody is there [s]
ADDRESS = Text(
    "this is no address",
    shape=re.compile(r"(tcp|tls)/(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})"),
    expected="tcp/HOST:PORT or tls/HOST:PORT",
)
MOST_WAITING = 4096  # messages that wait to be taken, a subscription
TEXTS = named(Text("a text is expected"), "a table of texts is expected")


def _key(letters: str) -> Text:
    """Return the reader of a key whose parts are of some letters: of 1024 at most.

    Zenoh's Python binding panics above 65 535 bytes.
    """
    return Text(
        "this is no key",
        shape=re.compile(f"(?!.{{1025}}){letters}+(/{letters}+)*"),
        expected="names with strokes between, such as robot/wrist",
    )


def _names_of(each: Text) -> Reader[tuple[str, ...]]:
    return lambda value, where: tuple(each(name, where) for name in name_list(value, where))


def _file(value: object, where: str) -> Path:
    says = "certificates on both sides need three files"
    return Path(Text(says, expected="the name of a file")(value, where))


@dataclass(frozen=True)
class Certificates:
    """Files of certificates and key by which both ends authenticate each other (TLS)."""

    # certificates of the authority that signs all nodes' certificates, PEM
    ca: Annotated[Path, _file]
    certificate: Annotated[Path, _file]  # the node's own, PEM
    key: Annotated[Path, _file]  # its private key, PEM, readable by its owner alone


@dataclass(frozen=True)
class Link:
    """Addresses, keys and topics of a connection to other nodes."""

    connect: Annotated[tuple[str, ...], _names_of(ADDRESS)] = (HERE,)  # addresses to connect to
    listen: Annotated[tuple[str, ...], _names_of(ADDRESS)] = ()  # addresses to listen on
    # `client` of a router, or `peer`; None for a client where the one address to connect to is a
    # router's, and a peer elsewhere
    mode: Annotated[
        str | None,
        Text("this is no mode", shape=re.compile("client|peer"), expected="client or peer"),
    ] = None
    # key expressions of JSON and CBOR messages
    subscribe: Annotated[tuple[str, ...], _names_of(_key(r"[^/?#\s]"))] = ("heft/samples/**",)
    # key under which estimates go out
    publish: Annotated[str, _key(r"[^/?#$*\s]")] = "heft/payload"
    # ROS 2 domain of robots that run rmw_zenoh, limited by its ports
    domain: Annotated[int, Number("this is no ROS domain", 0, 232, whole=True)] = 0
    # types of topics behind zenoh-plugin-ros2dds, which are subscribed to by name
    topics: Annotated[Mapping[str, str], TEXTS] = field(default_factory=dict)
    # frames of topics whose messages do not tell them well
    frames: Annotated[Mapping[str, str], TEXTS] = field(default_factory=dict)
    certificates: Annotated[Certificates | None, None] = None  # the table `[tls]` of the file
    # topic of transforms that are published, without a stroke before it; or None
    transforms: Annotated[str | None, None] = None

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
        """Return the link of a parsed TOML file; file names in it are relative to its folder.

        Raises:
            InvalidSetting: If a key is unknown or a value is wrong.
        """
        link = section(Link, _link, tls=section(Certificates))(table, str(path))
        if link.certificates is None:
            return link
        files = (path.parent / file for file in vars(link.certificates).values())
        return replace(link, certificates=Certificates(*files))

    @property
    def keys(self) -> tuple[str, ...]:
        """All key expressions that are subscribed to."""
        types = [kind.replace("/msg/", "::msg::dds_::") + "_" for kind in KINDS]
        ros = [f"{self.domain}/**/{name}/*" for name in types]
        return (*self.subscribe, *ros, *(t[1:] for t in self.topics))

    @property
    def inertias(self) -> tuple[str, str]:
        """Topics of the inertia and its standard deviations, without a leading slash."""
        return self.publish, f"{self.publish}/std"

    @property
    def first_mode(self) -> str:
        """Mode in which a session is opened first: a peer only where no router could serve."""
        if self.mode is not None:
            return self.mode
        return "client" if len(self.connect) == 1 and not self.listen else "peer"

    def stays_here(self, source: str, target: str) -> bool:
        """Return whether a link is encrypted or stays on this machine.

        Args:
            source: This end's address, as Zenoh prints it.
            target: Address of the other end, likewise.
        """
        if target.startswith("tls/"):
            return True
        here, there = (address.partition("/")[2].rpartition(":")[0] for address in (source, target))
        return _loopback(there) or here == there

    def refuse_open(self, insecure: bool = False) -> None:
        """Raise `InvalidSetting` for unencrypted links to other machines or unsafe TLS files.

        Args:
            insecure: Whether unencrypted links to other machines are allowed.
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
    mode: str | None = None,
    topics: Mapping[str, str] | None = None,
    frames: Mapping[str, str] | None = None,
    tls: Certificates | None = None,
    **others: Any,
) -> Link:
    if connect is None:
        connect = () if listen else (HERE,)
    if mode == "client" and (listen or len(connect) != 1):
        raise InvalidSetting(
            "a client connects to one router, and listens nowhere",
            argument="mode",
            got=f"connect = {list(connect)}, listen = {list(listen)}",
            cure='mode = "peer"',
        )
    types = refuse_types(topics or {}, "[topics]")
    for topic in types:
        Text("this is no topic", shape=re.compile(r"(?!.{1025})(/[^/?#$*\s]+)+"))(topic, "[topics]")
    named_by = {"/" + topic.strip("/"): frame for topic, frame in (frames or {}).items()}
    return Link(connect, listen, mode, topics=types, frames=named_by, certificates=tls, **others)


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:  # a name
        return False


def settings_of(link: Link, mode: str) -> dict[str, Any]:
    """Return those of Zenoh's settings that heft sets explicitly, by key."""
    made: dict[str, Any] = {
        "mode": mode,
        "connect/endpoints": list(link.connect),
        "connect/timeout_ms": round(1000.0 * CONNECTING),
        "connect/exit_on_failure": True,
        # Between attempts to be connected again [ms]; Zenoh's own wait up to 4 s.
        "connect/retry": {
            "period_init_ms": 250,
            "period_max_ms": 1000,
            "period_increase_factor": 2.0,
        },
        "listen/endpoints": list(link.listen),
        "listen/exit_on_failure": True,
        "scouting/multicast/enabled": False,
        "scouting/gossip/enabled": mode == "peer",
        "scouting/gossip/multihop": False,
        "adminspace/enabled": False,
        "transport/link/rx/max_message_size": LARGEST,
        "transport/shared_memory/enabled": False,  # 16 MB or more of each, for messages of kB
    }
    if link.certificates is not None:
        own = link.certificates
        # Where gossip tells of others, they are not spoken to in the clear.
        kinds = {a.partition("/")[0] for a in (*link.connect, *link.listen)}
        made["transport/link/protocols"] = sorted({"tls", *kinds})
        tls = {
            "root_ca_certificate": str(own.ca),
            "listen_certificate": str(own.certificate),
            "listen_private_key": str(own.key),
            "connect_certificate": str(own.certificate),
            "connect_private_key": str(own.key),
            "enable_mtls": True,
            "verify_name_on_connect": True,
            "close_link_on_expiration": True,
        }
        made |= {f"transport/link/tls/{k}": v for k, v in tls.items()}
    return made


@dataclass
class Connection:
    """Open Zenoh session; made by `connected`."""

    link: Link
    mode: str
    _zenoh: ModuleType
    _session: Any
    _subscribers: list[Any]
    _links: Any
    _insecure: bool
    _sent: int = 0

    def receive(self) -> list[tuple[str, bytes]]:
        """Return the messages that came since the last call, by key.

        Of each subscription at most `MOST_WAITING`, and no more once they hold `MOST_BYTES`:
        whoever sends faster than this is called keeps nobody from being called again.

        Raises:
            InvalidSetting: If gossip led to another machine, and that was not asked for.
        """
        while (event := self._links.try_recv()) is not None:
            self.refuse_strangers([event.link])
        return [one for s in self._subscribers for one in taken(s, MOST_BYTES)]

    def refuse_strangers(self, links: Iterable[Any]) -> None:
        """Raise `InvalidSetting` if an unencrypted one of Zenoh's links leads elsewhere."""
        for link in () if self._insecure else links:
            if not self.link.stays_here(str(link.src), str(link.dst)):
                raise InvalidSetting(
                    "a peer led to another machine: anybody between could read and forge messages",
                    argument=str(link.dst),
                    cure='mode = "client" in the file of --on (docs/live.md), TLS, or --insecure',
                )

    def publish(self, what: str, content: Mapping[str, Any]) -> None:
        """Publish finite numbers, texts, lists and tables as JSON under `<publish>/<what>`."""
        text = json.dumps(content, ensure_ascii=False, allow_nan=False)
        encoding = self._zenoh.Encoding.APPLICATION_JSON
        self._session.put(f"{self.link.publish}/{what}", text, encoding=encoding)

    def publish_inertia(self, stamp: float, frame: str, body: Array, std: Array) -> None:
        """Publish an inertia and its standard deviations for ROS 2, as `InertiaStamped` both.

        Args:
            stamp: Stamp of the newest sample [s].
            frame: In whose axes the inertia is stated.
            body: Mass [kg], centre of mass [m] and inertia about it [kg·m²], shape (10,); NaN where
                it is not known.
            std: Standard deviations of these, shape (10,); infinite where they are not known.
        """
        for k, (topic, numbers) in enumerate(zip(self.link.inertias, (body, std), strict=True)):
            message = inertia_stamped(round(stamp * 1e9), frame, numbers)
            self._put(inertia_key(self.link.domain, topic), message, k)
        self._sent += 1

    def publish_transforms(
        self, stamp: float, frame: str, children: Mapping[str, tuple[Array, Array]]
    ) -> None:
        """Publish poses of frames for ROS 2, as `TFMessage`, if the link has a topic for them.

        Args:
            stamp: Stamp of the newest sample [s].
            frame: The parent, in whose axes the poses are stated.
            children: By frame, its quaternion w, x, y, z and its origin [m], shapes (4,) and (3,).
        """
        if self.link.transforms is not None:
            message = transforms_message(round(stamp * 1e9), frame, children)
            key = transforms_key(self.link.domain, self.link.transforms)
            self._put(key, message, len(self.link.inertias))

    def _put(self, key: str, message: bytes, publisher: int) -> None:
        own = bytes.fromhex(str(self._session.zid()).zfill(2 * GID))[-GID:]
        gid = own[:-1] + bytes([own[-1] ^ publisher])  # a publisher's own
        self._session.put(key, message, attachment=attachment(self._sent, time.time_ns(), gid))


@contextmanager
def connected(link: Link, insecure: bool = False) -> Iterator[Connection]:
    """Yield an open connection, which is closed in any case.

    Args:
        insecure: Whether unencrypted links to other machines are allowed.

    Raises:
        InvalidSetting: If it would be open to strangers, or Zenoh is not installed.
        NoConnection: If nobody answers.
    """
    link.refuse_open(insecure)
    zenoh = zenoh_library("--on")
    with ExitStack() as stack:
        mode = link.first_mode
        session = _opened(zenoh, link, mode)
        if mode == "client" and link.mode is None and not session.info.routers_zid():
            session.close()  # it is a peer that answers, and there may be more of them
            mode = "peer"
            session = _opened(zenoh, link, mode)
        stack.callback(session.close)
        changes = session.info.declare_link_events_listener(zenoh.handlers.RingChannel(64))
        stack.callback(changes.undeclare)
        subscribers = []
        for key in link.keys:
            subscriber = session.declare_subscriber(key, zenoh.handlers.FifoChannel(MOST_WAITING))
            stack.callback(subscriber.undeclare)
            subscribers.append(subscriber)
        transforms = () if link.transforms is None else (link.transforms,)
        for token in liveliness(link.domain, str(session.zid()), link.inertias, transforms):
            stack.callback(session.liveliness().declare_token(token).undeclare)
        made = Connection(link, mode, zenoh, session, subscribers, changes, insecure)
        made.refuse_strangers(session.info.links())
        yield made


def taken(subscriber: Any, most: int) -> Iterator[tuple[str, bytes]]:
    """Yield keys and messages that wait, until they hold more than `most` bytes."""
    size = 0
    for _ in range(MOST_WAITING):
        if size > most or (sample := subscriber.try_recv()) is None:
            return
        data = bytes(sample.payload)
        size += len(data)
        yield str(sample.key_expr), data


def zenoh_library(argument: str) -> ModuleType:
    """Return the imported module `zenoh`.

    Args:
        argument: Option or command that needs it, for the error message.

    Raises:
        InvalidSetting: If it is not installed.
    """
    message = "live messages need the library 'zenoh', which is not installed"
    return optional_library("zenoh", message, "live", argument)


def _opened(zenoh: ModuleType, link: Link, mode: str) -> Any:
    return opened(
        zenoh,
        settings_of(link, mode),
        "no connection could be made",
        argument=", ".join((*link.connect, *link.listen)),
        expected="a router or a robot that listens there",
        cure="start it first; with TLS, see that both certificates are of the same "
        "authority, in date, and name the host: Zenoh calls all of that a timeout",
    )


def opened(zenoh: ModuleType, settings: Mapping[str, object], message: str, **failure: str) -> Any:
    """Return an open session.

    Args:
        message: What is wrong if there is none, beside other parts of the error.

    Raises:
        InvalidSetting: If Zenoh does not take a setting: it would be as open as without it.
        NoConnection: If none can be opened.
    """
    config = zenoh.Config()
    for key, value in settings.items():
        config.insert_json5(key, json.dumps(value))
    for key, value in settings.items():
        given = json.loads(config.get_json(key))
        if not _holds(given, value):
            raise InvalidSetting("Zenoh does not take a setting", argument=key, got=given)
    try:
        return zenoh.open(config)
    except zenoh.ZError as problem:
        raise NoConnection(message, got=str(problem)[:200], **failure) from problem


def _holds(given: object, wanted: object) -> bool:
    """Return whether a setting is as wanted; in a table, Zenoh adds defaults."""
    if isinstance(wanted, dict):
        return isinstance(given, dict) and all(_holds(given.get(k), v) for k, v in wanted.items())
    if isinstance(wanted, list) and wanted and isinstance(wanted[0], dict):
        same = isinstance(given, list) and len(given) == len(wanted)
        return same and all(_holds(h, w) for h, w in zip(given, wanted, strict=True))  # type: ignore[call-overload]
    return given == wanted
