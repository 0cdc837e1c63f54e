"""Fuzz one reader: `python -m fuzz NAME SECONDS`; see `README.md` beside this file."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

FOLLOWED = ["heft", "tomllib", "zipfile"]  # packages whose branches guide the fuzzer
SECONDS, MEGABYTES, LONGEST = 10, 2000, 20_000  # a file may take this, and be this long [bytes]


def main() -> None:
    """Fuzz until the time is over or a file breaks the rule; that file is then kept."""
    name, seconds = sys.argv[1], int(sys.argv[2])
    with atheris.instrument_imports(include=FOLLOWED):
        from fuzz.targets import CORPUS, TARGETS
    target = TARGETS[name]
    found = Path("fuzz-found") / name
    found.mkdir(parents=True, exist_ok=True)

    folder = Path(tempfile.mkdtemp())

    def one(data: bytes) -> None:
        target.run(data, folder)

    limits = [
        f"-max_total_time={seconds}",
        f"-timeout={SECONDS}",
        f"-rss_limit_mb={MEGABYTES}",
        f"-max_len={LONGEST}",
        "-len_control=0",
        f"-artifact_prefix={found}/",
    ]
    kept = found / "corpus"
    kept.mkdir(exist_ok=True)
    atheris.Setup([sys.argv[0], *limits, str(kept), str(CORPUS / name)], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
