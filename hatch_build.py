"""Puts the machine code of the kernels into a wheel, where what compiles it is at hand."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SHIP = "import sys; sys.path.insert(0, {!r}); from heft import compiled as c; c.ship({}, {})"


class Kernels(BuildHookInterface):
    """Build hook; of an editable installation, or without numba or x86-64, the wheel is pure.

    A wheel with machine code is for one version of Python, and for the systems that its numba is
    for. It is built without isolation, in an environment in which heft runs; a pure wheel serves
    all, and compiles at the first start. With `HEFT_KERNELS=host` in the environment it is for
    processors of this one's level alone.
    """

    @property
    def folder(self) -> Path:
        """Where the machine code is until it is in the wheel."""
        return Path(self.directory) / "kernels"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the kernels for each level of x86-64 and name the wheel after what it serves."""
        x86_64 = platform.machine().lower() in ("x86_64", "amd64")
        if version == "editable" or not x86_64 or not (tag := _tag_of("numba")):
            return
        folder = self.folder
        shutil.rmtree(folder, ignore_errors=True)
        levels = "[c.processor()]" if os.environ.get("HEFT_KERNELS") == "host" else "c.LEVELS"
        program = SHIP.format(str(Path(self.root) / "src"), f"c.Path({str(folder)!r})", levels)
        subprocess.run([sys.executable, "-I", "-c", program], check=True)
        build_data["force_include"][str(folder)] = "heft/kernels"
        build_data["pure_python"] = False
        build_data["tag"] = tag

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Leave the wheel alone."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _tag_of(distribution: str) -> str | None:
    """Return the tag of an installed distribution's wheel, None if there is none."""
    try:
        said = importlib.metadata.distribution(distribution).read_text("WHEEL") or ""
    except importlib.metadata.PackageNotFoundError:
        return None
    tags = [line.split()[1] for line in said.splitlines() if line.startswith("Tag:")]
    interpreter, abi, _ = tags[0].split("-")
    return f"{interpreter}-{abi}-{'.'.join(t.split('-')[2] for t in tags)}"
