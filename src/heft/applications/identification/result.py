"""A fresh result as programs and notebooks have it: it answers, predicts and is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from heft.applications.inputs import AnyLog, AnyPath
from heft.errors import InputError, InvalidSetting
from heft.files import put, workshop, write_text
from heft.information import Parameters
from heft.models import Robot

from . import results
from .answers import Answers
from .identification import Identification
from .identified import MODELS, Friction, Identified, Prediction, stated_in


@dataclass(frozen=True, kw_only=True, repr=False)
class Result(Answers, Identification):
    """Result of `identify`: what it answers is told by `Answers`, what it holds by its fields."""

    @cached_property
    def contract(self) -> Mapping[str, Any]:
        """Content of `estimate.json`."""
        return results.content(self)

    @property
    def solution(self) -> Parameters:
        """Estimated standard parameters with their covariance, ten of each link first."""
        return self.consistent.parameters

    @cached_property
    def identified(self) -> Identified:
        """These results as `heft.load` gives them once they are saved.

        Raises:
            InputError: If no model file is written of them; see `withheld`.
        """
        self._refuse_withheld("predict()")
        options, smoothing, drives = stated_in(self.contract)
        name = next(n for n in MODELS if n in self.files)
        robot = Robot.from_text(self.files[name], options, name)
        robot = replace(robot, own_columns=self.problem.plant.robot.own_columns)
        data, solution = self.contract, self.solution
        return Identified(Path(), robot, drives, smoothing, data, self.deviation, solution)

    def _refuse_withheld(self, argument: str) -> None:
        if self.withheld:
            raise InputError(
                "these numbers make no model: something is wrong in the logs",
                argument=argument,
                got=self.withheld,
                cure="print(result.summary()) says what to mend; then identify again",
            )

    def predict(self, log: AnyLog, friction: Friction = "full") -> Prediction:
        """Return the predicted torque at the times of a log; see `Identified.predict`."""
        return self.identified.predict(log, friction)

    def save(self, out: AnyPath) -> Path:
        """Write the folder of results, as `heft identify` does; `heft.load` reads it.

        Raises:
            InvalidSetting: If the folder holds other files, or cannot be written.
        """
        from . import report  # with templates of pages, which few programs need

        results.write(self, Path(out), report.html)
        return Path(out)

    def report(self, out: AnyPath) -> Path:
        """Write the report, an HTML page that opens offline."""
        from . import report

        write_text(Path(out), report.html(self))
        return Path(out)

    def to_urdf(self, out: AnyPath) -> Path:
        """Write the identified model file, a URDF or what the model file was.

        Raises:
            InvalidSetting: If none is written of these results (`withheld`), or not of this kind.
        """
        self._refuse_withheld("to_urdf()")
        kind = {Path(name).suffix: data for name, data in self.files.items()}
        if Path(out).suffix not in kind:
            raise InvalidSetting(
                "the identified model file is of another kind",
                argument=str(out),
                expected=f"a file called {' or '.join(f'*{k}' for k in kind)}",
            )
        with workshop(Path(out)) as folder:
            new = folder / Path(out).name
            new.write_bytes(kind[Path(out).suffix])
            put(new, Path(out))
        return Path(out)
