"""What a program or a notebook asks of results, fresh ones and ones that were read again."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from statistics import NormalDist
from typing import Any, TypeVar

import numpy as np

from heft.arrays import Array
from heft.display import Table, rounded, table
from heft.errors import InvalidSetting, did_you_mean
from heft.information import AXES, INERTIA_INDEX, PARAMETER_COUNT, Labels, Parameters, inertia

from . import contract
from .contract import JOINT, Contract

BODY: tuple[tuple[str, str], ...] = (  # names and units of what model files state of a link
    ("mass", "kg"),
    *((f"com.{a}", "m") for a in AXES),
    *((f"inertia.{AXES[i]}{AXES[j]}", "kg·m²") for i, j in INERTIA_INDEX),
)
# What other libraries call it, and what it is here.
HABITS = {
    "score": "identify(…, validate=log): its torque error is in summary() and validation",
    "fit_": "params",
    "coef_": "params",
    "values": "params",
    "std": "bse",
    "std_errors": "bse",
    "covariance": "cov()",
    "cov_params": "cov()",
    "to_dataframe": "to_frame()",
    "to_pandas": "to_frame()",
    "resid": "predict(log).torque, to be taken off the measured one",
}
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Body:
    """A rigid body as model files state it, with standard deviations."""

    name: str  # of the link
    mass: float  # [kg]
    mass_std: float  # of the mass [kg]
    com: Array  # centre of mass in the link's frame, shape (3,) [m]
    com_std: Array  # of its coordinates, shape (3,) [m]
    inertia: Array  # about the centre of mass, in the link's axes, shape (3, 3) [kg·m²]
    inertia_std: Array  # of its entries, shape (3, 3) [kg·m²]

    @staticmethod
    def of(name: str, numbers: Array, std: Array) -> Body:
        """Return a body of ten numbers as `BODY` orders them, shape (10,), with deviations."""
        tensors = (inertia.matrix_of_six(six) for six in (numbers[4:], std[4:]))
        masses = float(numbers[0]), float(std[0])
        return Body(name, *masses, numbers[1:4], std[1:4], *tensors)

    @property
    def ten(self) -> Array:
        """Mass, first moment of mass, inertia about the frame's origin, (10,) [kg, kg·m, kg·m²]."""
        return inertia.from_body(self.mass, self.com, self.inertia)

    def __repr__(self) -> str:
        centre = ", ".join(f"{c:.4g}" for c in self.com)
        mass = f"{rounded(self.mass, self.mass_std)} ± {self.mass_std:.2g} kg"
        return f"<{self.name}: {mass}, centre of mass ({centre}) m>"


@dataclass(frozen=True)
class Joint:
    """Simple friction and rotor inertia of a drive; None of what it has none of."""

    name: str  # of the joint, or of a motor that is none
    viscous: float | None  # [N·m·s/rad or N·s/m]
    coulomb: float | None  # [N·m or N]
    offset: float | None  # [N·m or N]
    armature: float | None  # rotor inertia as the joint feels it [kg·m² or kg]
    std: Mapping[str, float | None]  # of these by the same names; None where logs show nothing

    @staticmethod
    def of(name: str, entry: Mapping[str, Any]) -> Joint:
        """Return the joint of an entry of `estimate.json`."""
        terms = {**entry["simple"], "armature": entry["armature"]}
        viscous, coulomb, offset, armature = map(terms.get, JOINT)
        return Joint(name, viscous, coulomb, offset, armature, entry["std"])

    def cell(self, term: str) -> str:
        """Return a term with its deviation as text; a dash for none."""
        value, std = getattr(self, term), self.std.get(term)
        return rounded(value, std) + ("" if value is None or std is None else f" ± {std:.2g}")

    def __repr__(self) -> str:
        return f"<{self.name}: {', '.join(f'{t} {self.cell(t)}' for t in JOINT)}>"


class Named(dict[str, T]):
    """What has names; of a name that is none it says which there are."""

    def __missing__(self, name: str) -> T:
        cure = did_you_mean(name, self)
        raise InvalidSetting(f"there is no '{name}'", argument=name, valid=self, cure=cure)


class Answers:
    """Parameters, their covariance, bodies, joints, tables and plots of an identification.

    `params`, `bse`, `cov` and `conf_int` are of the same numbers in the same order: mass, centre of
    mass and inertia about it of each link [kg, m, kg·m²], then what is estimated of the drives,
    full friction's terms, which only their sum tells (`joints` has simple friction).
    """

    @property
    def contract(self) -> Contract:
        """Content of `estimate.json`."""
        raise NotImplementedError

    @property
    def solution(self) -> Parameters:
        """Estimated standard parameters with their covariance, ten of each link first."""
        raise NotImplementedError

    @cached_property
    def stated(self) -> Parameters:
        """The estimated numbers as model files state them, with their covariance."""
        linear = self.solution
        names, units = list(linear.labels.names), list(linear.labels.units)
        values, jacobian = linear.values.copy(), np.eye(len(names))
        for k in range(0, PARAMETER_COUNT * self._bodies, PARAMETER_COUNT):
            ten, link = slice(k, k + PARAMETER_COUNT), names[k].rpartition(".")[0]
            values[ten], jacobian[ten, ten] = inertia.stated_body(values[ten])
            names[ten], units[ten] = [f"{link}.{n}" for n, _ in BODY], [u for _, u in BODY]
        covariance = jacobian @ np.asarray(linear.covariance) @ jacobian.T
        return Parameters(Labels(tuple(names), tuple(units)), values, covariance)

    @property
    def _bodies(self) -> int:
        return len(self.contract["parameters"]) // PARAMETER_COUNT

    @property
    def params(self) -> dict[str, float]:
        """Estimated numbers by name, such as `forearm.com.x`; their units are in `to_frame()`."""
        return dict(zip(self.stated.labels.names, self.stated.values.tolist(), strict=True))

    @property
    def bse(self) -> dict[str, float]:
        """Standard deviations of `params`, by the same names."""
        return dict(zip(self.stated.labels.names, self.stated.std.tolist(), strict=True))

    def cov(self) -> Array:
        """Return the covariance of `params`, shape (n, n), in products of their units."""
        return np.array(self.stated.covariance)

    def conf_int(self, alpha: float = 0.05) -> dict[str, tuple[float, float]]:
        """Return the interval that holds each of `params` with probability 1 − alpha.

        Raises:
            InvalidSetting: If alpha is not between 0 and 1.
        """
        if not 0.0 < alpha < 1.0:
            cure = "alpha = 0.05 for 95 % intervals"
            raise InvalidSetting("alpha is a probability", argument="alpha", got=alpha, cure=cure)
        reach = NormalDist().inv_cdf(1.0 - alpha / 2.0)
        std = self.bse
        return {n: (v - reach * std[n], v + reach * std[n]) for n, v in self.params.items()}

    @property
    def links(self) -> Named[Body]:
        """Each link with mass, by name."""
        tens = {
            name: np.array([[e["value"], e["std"]] for e in entries]).T
            for name, entries in contract.bodies(self.contract)
        }
        return Named({name: Body.of(name, *ten) for name, ten in tens.items()})

    @property
    def joints(self) -> Named[Joint]:
        """Simple friction and rotor inertia of each drive, by name."""
        entries = {**self.contract["joints"], **self.contract["motors"]}
        return Named({name: Joint.of(name, entry) for name, entry in entries.items()})

    def to_frame(self) -> Any:
        """Return a row for each of `params`: of pandas if it is installed, else an Arrow table.

        Columns: name, value, std, low, high (95 %), unit, before (the model file's), seen.
        """
        import pyarrow

        entries = {e["name"]: e for e in self.contract["parameters"]}
        rows = [
            {"name": name, "value": value, "std": std, "low": low, "high": high, "unit": unit}
            | {k: entries.get(name, {}).get(k) for k in ("before", "seen")}
            for (name, value), std, (low, high), unit in zip(
                self.params.items(),
                self.bse.values(),
                self.conf_int().values(),
                self.stated.labels.units,
                strict=True,
            )
        ]
        made = pyarrow.Table.from_pylist(rows)
        try:
            return made.to_pandas()
        except ImportError:
            return made

    def plot(self) -> Any:
        """Return a figure of masses and friction, drawn with matplotlib.

        Raises:
            InvalidSetting: If matplotlib is not installed.
        """
        try:
            pyplot = import_module("matplotlib.pyplot")
        except ImportError as problem:
            raise InvalidSetting(
                "plots are drawn with matplotlib, which is not installed",
                argument="plot()",
                cure="pip install matplotlib; result.report('report.html') needs nothing",
            ) from problem
        figure, (masses, friction) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
        links = list(self.links.values())
        places, std = range(len(links)), [b.mass_std for b in links]
        masses.errorbar([b.mass for b in links], places, xerr=std, fmt="o", label="identified")
        written = {e["name"]: e["before"] for e in self.contract["parameters"]}
        before = [written[f"{b.name}.mass"] for b in links]
        masses.plot([math.nan if m is None else m for m in before], places, "x", label="before")
        masses.set_yticks(places, [b.name for b in links])
        masses.set(xlabel="mass ± one standard deviation [kg]")
        masses.legend()
        for name, entry in self.contract["joints"].items():
            friction.plot(entry["curve"]["velocity"], entry["curve"]["effort"], label=name)
        friction.set(xlabel="velocity [rad/s or m/s]", ylabel="friction [N·m or N]")
        friction.legend(fontsize="small")
        return figure

    def summary(self) -> str:
        """Return verdict, torque errors, bodies and joints as text."""
        parts = [repr(self).strip("<>")]
        parts += [f"{t.caption}\n{table(t.head, t.rows)}" for t in self._tables]
        return "\n\n".join([*parts, "\n".join(self._not_passed())]).rstrip()

    def _not_passed(self) -> Iterator[str]:
        for check in self.contract["checks"]:
            if check["status"] != "pass":
                yield f"{check['status']}: {check['name']}: {check['message']}"

    @property
    def _tables(self) -> tuple[Table, ...]:
        return tuple(f(self.contract) for f in (contract.links, contract.joints, contract.scores))

    def _repr_html_(self) -> str:
        """Return a card for a notebook."""
        parts = [f"<p><b>{html.escape(repr(self).strip('<>'))}</b></p>"]
        parts += [f"<p>{html.escape(line)}</p>" for line in self._not_passed()]
        for shown in self._tables:
            rows = [(shown.head, "th"), *((row, "td") for row in shown.rows)]
            lines = ("".join(f"<{k}>{html.escape(c)}</{k}>" for c in row) for row, k in rows)
            inside = "".join(f"<tr>{line}</tr>" for line in lines)
            parts.append(f"<table><caption>{html.escape(shown.caption)}</caption>{inside}</table>")
        return f"<div>{''.join(parts)}</div>"

    def __getattr__(self, name: str) -> Any:
        hint = f": use {HABITS[name]}" if name in HABITS else ""
        raise AttributeError(f"a {type(self).__name__} has no '{name}'{hint}", name=name, obj=self)

    def __repr__(self) -> str:
        name, verdict = self.contract["settings"]["robot"]["name"], self.contract["verdict"]
        error = f"{self.contract['predicted_error']['total']:.1%}"
        count = f"{self._bodies} links and {len(self.contract['joints'])} joints identified"
        summary = f"torque error to be expected {error}, {count}"
        return f"<{name[:80]}: {verdict}, {summary}>"
