"""Simulators that live in a Python environment of their own, asked by lines of JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidModel
from heft.models import Robot

from .engine_replay import LONGEST
from .simulated_robot import Actuation

MODULES = {"drake": "pydrake", "newton": "newton"}  # by simulator
# Engines print as they like: only what is meant for heft reaches it.
BEGIN = """import json, os, sys
import numpy as np
OUT = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
STEP = {step!r}
"""


@dataclass(frozen=True, eq=False)
class OtherEngine:
    """A robot's file in a simulator that runs beside heft; see `MujocoReplay`."""

    name: str  # and version
    program: subprocess.Popen[str]
    printed: IO[Any]  # what it printed otherwise

    def inverse_dynamics(self, q: Array, v: Array, a: Array, dry: bool = True) -> Array:
        """Return the torque of a motion, shape (N, joints); see `MujocoReplay.inverse_dynamics`."""
        torque = np.array(self._answer(motion=[q.tolist(), v.tolist(), a.tolist()]))
        return np.asarray(torque.sum(axis=1) if dry else torque[:, 0])

    def moved(self, start: Array, actuation: Actuation) -> Array:
        """Return positions when steps begin; see `MujocoReplay.moved`."""
        numbers = {k: getattr(actuation, k).tolist() for k in ("wanted", "gains")}
        asked = self._answer(
            start=start.tolist(), keep=actuation.keep, step=actuation.step, **numbers
        )
        return np.array(asked)

    def _answer(self, **asked: Any) -> Any:
        return ask(self.program, self.printed, asked)


def ask(program: subprocess.Popen[str], printed: IO[Any], asked: Any) -> Any:
    """Return a program's answer.

    Raises:
        InvalidModel: If it gives none.
    """
    assert program.stdin is not None and program.stdout is not None
    line = ""
    try:
        program.stdin.write(json.dumps(asked) + "\n")
        program.stdin.flush()
        line = program.stdout.readline()
        return json.loads(line)
    except (OSError, ValueError) as problem:
        program.wait(10.0)
        printed.seek(0)
        last = printed.read().decode(errors="replace").strip().splitlines()[-1:]
        raise InvalidModel(
            "the simulator ends without an answer", got=" ".join(last) or line
        ) from problem


def python_of(simulator: str, python: Path | None) -> str | None:
    """Return the Python that has a simulator: the given one, or heft's own; None if it has not."""
    module = MODULES.get(simulator)
    if module is None:
        return None
    own = sys.executable if find_spec(module) is not None else None
    return own if python is None else str(python)


@contextmanager
def other_engine(simulator: str, python: str, file: str, robot: Robot) -> Iterator[OtherEngine]:
    """Yield a simulator with a robot's file, which ends with the context.

    Args:
        simulator: A key of `MODULES`.
        python: Interpreter of its environment.
        file: Text of the simulator's file.

    Raises:
        InvalidModel: If it does not start, or does not read the file.
    """
    folder = resources.files(__package__)
    texts = [(folder / f"{n}.py.template").read_text("utf-8") for n in (simulator, "engine")]
    source = BEGIN.format(step=LONGEST) + "".join(texts)
    with TemporaryFile() as printed:
        try:
            program = subprocess.Popen(
                [python, "-c", source],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=printed,
                text=True,
            )
        except OSError as problem:
            raise InvalidModel(
                "the simulator's Python does not start", argument=python, got=str(problem)
            ) from problem
        with program:
            given = {"file": file, "gravity": robot.gravity.tolist(), "joints": robot.joints}
            try:
                yield OtherEngine(ask(program, printed, given), program, printed)
            finally:
                program.kill()
