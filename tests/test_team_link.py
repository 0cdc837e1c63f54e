"""Between robots of a team: each writes its own key alone, and strangers hear and say nothing."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zenoh

from heft.errors import InvalidSetting, NoConnection
from heft.streams import Certificates, TeamConnection, TeamLink, joined
from heft.streams.messages import LARGEST
from tests.rmw_zenoh import free_port, intruder
from tests.test_network import signed

needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="openssl is not installed"
)
NAMES = ("a", "b", "c", "watch")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for name, authority in (("ca", None), ("other", None), *((n, "ca") for n in NAMES)):
        signed(folder, name, authority)
    signed(folder, "stranger", "other")
    return folder


def certificates(keys: Path, name: str) -> Certificates:
    return Certificates(keys / "ca.pem", keys / f"{name}.pem", keys / f"{name}.key")


def exchanged(
    say: Callable[[], None], *hearers: TeamConnection, seconds: float = 5.0, all_of: bool = True
) -> list[list[tuple[str, bytes]]]:
    """Return what each heard, as soon as all have heard something, or after a while."""
    got: list[list[tuple[str, bytes]]] = [[] for _ in hearers]
    end = time.monotonic() + seconds
    while time.monotonic() < end and not (all_of and all(got)):
        say()
        time.sleep(0.05)
        for heard, hearer in zip(got, hearers, strict=True):
            heard += hearer.receive()
    return got


@pytest.mark.parametrize("kind", ["tcp", pytest.param("tls", marks=needs_openssl)])
def test_neighbours_hear_one_another_whoever_was_first(
    kind: str, request: pytest.FixtureRequest
) -> None:
    own: Any = lambda name: None  # noqa: E731
    if kind == "tls":
        folder = request.getfixturevalue("keys")
        own = lambda name: certificates(folder, name)  # noqa: E731
    at_a, at_b = (f"{kind}/127.0.0.1:{free_port()}" for _ in range(2))
    of_a = TeamLink("t", "a", at_a, ("b",), (), own("a"))
    of_b = TeamLink("t", "b", at_b, ("a",), (at_a,), own("b"))
    watcher = TeamLink("t", None, None, ("a", "b"), (at_a, at_b), own("watch"))
    with joined(of_b) as b, joined(of_a) as a, joined(watcher) as page:  # b called in vain at first

        def say() -> None:
            a.send("b", b"of a")
            b.send("a", b"of b")
            a.show({"x": 1})

        heard_a, heard_b, shown = exchanged(say, a, b, page)
        assert set(heard_a) == {("b", b"of b")} and set(heard_b) == {("a", b"of a")}
        assert shown[0][0] == "a" and json.loads(shown[0][1]) == {"x": 1}
        sent = a.sent["b"]
        with pytest.raises(InvalidSetting, match="too long"):
            a.send("b", bytes(LARGEST + 1))
        assert a.sent["b"] == sent


@needs_openssl
def test_a_stranger_gets_no_connection(keys: Path) -> None:
    address = f"tls/127.0.0.1:{free_port()}"
    with joined(TeamLink("t", "a", address, ("b",), (), certificates(keys, "a"))):
        for name in (None, "stranger"):
            with pytest.raises(zenoh.ZError):
                intruder(address, keys, name)


@needs_openssl
@pytest.mark.parametrize("name", ["c", "watch"])
def test_a_certificate_speaks_for_its_own_robot_alone(keys: Path, name: str) -> None:
    """It connects, says what its neighbour would, and listens to all; neither comes through."""
    at_a = f"tls/127.0.0.1:{free_port()}"
    at_b = f"tls/127.0.0.1:{free_port()}"
    of_a = TeamLink("t", "a", at_a, ("b",), (), certificates(keys, "a"))
    of_b = TeamLink("t", "b", at_b, ("a",), (at_a,), certificates(keys, "b"))
    with joined(of_a) as a, joined(of_b) as b:
        exchanged(lambda: b.send("a", b"of b"), a)
        session = intruder(at_a, keys, name)
        try:
            subscriber = session.declare_subscriber("heft/**", zenoh.handlers.FifoChannel(1000))

            def say() -> None:
                for who in ("b", name):
                    session.put(f"heft/coop/t/{who}/to/a", b"forged")
                a.send("b", b"secret")
                b.send("a", b"of b")

            (heard,) = exchanged(say, a, seconds=1.5, all_of=False)
            assert set(heard) == {("b", b"of b")}
            overheard = []
            while (sample := subscriber.try_recv()) is not None:
                overheard.append(bytes(sample.payload))
            assert set(overheard) <= {b"forged"}  # it hears itself
        finally:
            session.close()


def test_an_address_that_is_taken_is_said_so() -> None:
    address = f"tcp/127.0.0.1:{free_port()}"
    link = TeamLink("t", "a", address, (), ())
    with joined(link), pytest.raises(NoConnection, match="own address"), joined(link):
        pass


@pytest.mark.parametrize("name", ["", "a/b", "**", "a b", "x" * 65, "watch", "é", "a\n"])
def test_names_are_parts_of_keys_and_of_certificates(name: str) -> None:
    with pytest.raises(InvalidSetting, match="letters, digits"):
        TeamLink("t", "a", None, (name,), ())
