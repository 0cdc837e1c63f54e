"""Messages between the robots of a team over Zenoh: to neighbours alone, bound to certificates.

A robot writes under its own key, `heft/coop/TEAM/ROBOT`, and nobody else may: with TLS each robot's
access control lets a certificate's common name write its own key only. A robot that is no neighbour
is not listened to, though it had a certificate. In the clear only this machine is spoken to.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from heft.errors import InvalidSetting

from .messages import LARGEST
from .network import Certificates, Link, opened, settings_of, taken, zenoh_library

TO, STATE = "to", "state"  # last parts of keys: to a neighbour, and what a page shows
WATCH = "watch"  # common name of whoever watches


@dataclass(frozen=True)
class TeamLink:
    """Addresses and neighbours of one robot of a team.

    Raises:
        InvalidSetting: If a name is none that keys and certificates can hold.
    """

    team: str  # name of the team in keys
    own: str | None  # name of the robot; None for one who watches
    address: str | None  # where it listens; None for nowhere
    neighbours: tuple[str, ...]  # names of the robots that are listened to
    connect: tuple[str, ...]  # addresses of those among them that are connected to
    certificates: Certificates | None = None  # of the robot; None in the clear

    def __post_init__(self) -> None:
        for name in (self.team, *self.neighbours, *([self.own] if self.own else [])):
            if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", name) or name == WATCH:
                raise InvalidSetting(
                    "a robot on a network has a name of letters, digits, dots and dashes",
                    argument="name",
                    got=name[:80],
                    expected="up to 64 of A-Z a-z 0-9 . _ -, such as left-arm",
                )

    def refuse_open(self) -> None:
        """Raise `InvalidSetting` for unencrypted links to other machines or unsafe TLS files."""
        try:
            self.link.refuse_open()
        except InvalidSetting as problem:
            if problem.argument not in (self.address, *self.connect):
                raise
            cure = 'tls/… addresses, and keys = "keys" in team.toml (docs/cooperation.md)'
            raise InvalidSetting(**(vars(problem) | {"cure": cure})) from problem

    @property
    def link(self) -> Link:
        """Its addresses and certificates as a `Link`."""
        listen = () if self.address is None else (self.address,)
        return Link(self.connect, listen, "peer", (), certificates=self.certificates)

    def key(self, robot: str, *parts: str) -> str:
        """Return a Zenoh key under which a robot writes."""
        return "/".join(("heft/coop", self.team, robot, *parts))

    def settings(self) -> dict[str, Any]:
        """Return those of Zenoh's settings that heft sets explicitly, by key."""
        made = settings_of(self.link, "peer") | {
            "connect/timeout_ms": -1,  # neighbours come and go
            "connect/exit_on_failure": False,
            "scouting/gossip/enabled": False,
        }
        if self.certificates is not None:
            made["access_control"] = self.access()
        return made

    def access(self) -> dict[str, Any]:
        """Return rules of access control: each name may write its own keys, all else is denied."""
        rules: list[dict[str, Any]] = []
        policies: list[dict[str, Any]] = []

        def allow(subject: str, *allowed: tuple[str, str, str, str]) -> None:
            for name, messages, flow, key in allowed:
                rule = {"id": name, "permission": "allow", "flows": [flow], "messages": [messages]}
                rules.append({**rule, "key_exprs": [key]})
            policies.append({"rules": [name for name, *_ in allowed], "subjects": [subject]})

        for name in self.neighbours:
            theirs, ours = self.key(name, "**"), self.own and self.key(self.own, "**")
            allowed = [
                (f"{name} writes its own", "put", "ingress", theirs),
                (f"{name} is asked", "declare_subscriber", "egress", theirs),
            ]
            if ours:
                allowed += [
                    (f"{name} is told", "put", "egress", ours),
                    (f"{name} asks", "declare_subscriber", "ingress", ours),
                ]
            allow(name, *allowed)
        if self.own is not None:
            state = self.key(self.own, STATE)
            allow(
                WATCH,
                ("state is told", "put", "egress", state),
                ("state is asked", "declare_subscriber", "ingress", state),
            )
        subjects = [{"id": name, "cert_common_names": [name]} for name in (*self.neighbours, WATCH)]
        return {
            "enabled": True,
            "default_permission": "deny",
            "rules": rules,
            "subjects": subjects,
            "policies": policies,
        }


@dataclass
class TeamConnection:
    """Open Zenoh session of a robot; made by `joined`."""

    link: TeamLink  # to whom
    _session: Any
    _publishers: Mapping[str, Any]
    _subscribers: Mapping[str, Any]
    sent: Counter[str] = field(default_factory=Counter)  # bytes that each neighbour was sent

    def send(self, neighbour: str, data: bytes) -> None:
        """Send a message to a neighbour; it is dropped rather than waited for.

        Raises:
            InvalidSetting: If it is longer than 64 kB, which no neighbour would take.
        """
        if len(data) > LARGEST:
            raise InvalidSetting(
                "a message between robots is too long",
                argument=neighbour,
                got=f"{len(data)} bytes",
                expected=f"at most {LARGEST}",
                cure="send it in parts",
            )
        self._publishers[neighbour].put(data)
        self.sent[neighbour] += len(data)

    def show(self, state: Mapping[str, Any]) -> None:
        """Publish this robot's state to whoever watches."""
        self._publishers[STATE].put(json.dumps(state, allow_nan=False))

    def receive(self) -> list[tuple[str, bytes]]:
        """Return what came since the last call, with the name of the robot it came from.

        Of each neighbour at most 4 MB.
        """
        each = self._subscribers.items()
        return [(name, data) for name, s in each for _, data in taken(s, 4 << 20)]


@contextmanager
def joined(link: TeamLink) -> Iterator[TeamConnection]:
    """Yield an open connection to neighbours, which is closed in any case.

    Raises:
        InvalidSetting: If it would be open to strangers, or Zenoh is not installed.
        NoConnection: If the robot's own address cannot be listened at.
    """
    link.refuse_open()
    zenoh = zenoh_library("heft coop node")
    with ExitStack() as stack:
        session = opened(
            zenoh,
            link.settings(),
            "the robot's own address cannot be listened at",
            argument=link.address or ", ".join(link.connect),
            cure="see that no other node has it, and that certificate and key are of this robot",
        )
        stack.callback(session.close)
        drop = {"congestion_control": zenoh.CongestionControl.DROP}
        keys = {}
        if link.own is not None:
            keys = {name: link.key(link.own, TO, name) for name in link.neighbours}
            keys[STATE] = link.key(link.own, STATE)
        publishers = {}
        for name, key in keys.items():
            publishers[name] = session.declare_publisher(key, **drop)
            stack.callback(publishers[name].undeclare)
        subscribers = {}
        for name in link.neighbours:
            key = link.key(name, STATE) if link.own is None else link.key(name, TO, link.own)
            # As many messages of a neighbour wait to be taken.
            subscriber = session.declare_subscriber(key, zenoh.handlers.RingChannel(256))
            stack.callback(subscriber.undeclare)
            subscribers[name] = subscriber
        yield TeamConnection(link, session, publishers, subscribers)
