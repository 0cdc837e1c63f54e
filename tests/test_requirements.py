"""What `make` installs: every file by its hash, in the versions of the constraints."""

import re
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]
PIN = re.compile(r"^([\w.-]+)==([\w.]+)", re.MULTILINE)
HASH = re.compile(r" +--hash=sha256:[0-9a-f]{64}( \\)?")


def pins(name: str) -> dict[str, str]:
    found = PIN.findall((ROOT / name).read_text())
    return {re.sub(r"[-_.]+", "-", package).lower(): version for package, version in found}


def test_every_requirement_has_hashes_and_no_address() -> None:
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    kinds = ["pin" if PIN.match(x) else "hash" if HASH.fullmatch(x) else x[:1] for x in lines]
    assert set(kinds) == {"pin", "hash", "#"}
    assert all(b == "hash" for a, b in pairwise(kinds) if a == "pin")
    assert "://" not in "\n".join(lines)


def test_requirements_are_those_of_the_constraints() -> None:
    wanted, locked = pins("constraints.txt"), pins("requirements.txt")
    assert len(locked) > 100
    assert not {n: v for n, v in locked.items() if n in wanted and wanted[n] != v}
