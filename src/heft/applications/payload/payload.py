"""A load's inertial parameters with checks, in the formats of those who use them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heft import __version__
from heft.applications.identification import BODY
from heft.arrays import Array
from heft.display import rounded
from heft.files import format_number, json_text, new_folder, require_own
from heft.information import Check, Finding, Verdict, inertia, verdict
from heft.models import GainsOptions, load_settings
from heft.plants import CHANNEL_UNITS, CHANNELS

from .sensors import Sensor

if TYPE_CHECKING:
    from .by_torques import Carried
    from .estimate import Weighed

SCHEMA = 1
FILES = ("estimate.json", "payload.txt", "robot.toml", "report.html")
NAMES = tuple(f"payload.{name}" for name, _ in BODY)
UNITS = tuple(unit for _, unit in BODY)
UNSURE_WARN, UNSURE_FAIL = 0.03, 0.2  # standard deviation of the mass over it
CUT_SHORT = "source failed"  # note of a result of a part of what was to be weighed


@dataclass(frozen=True, eq=False)
class Payload:
    """Identified inertial parameters of a load, with checks and provenance."""

    frame: str  # frame whose axes and origin the parameters refer to
    # inertial parameters in that frame, NaN where not identified, shape (10,) [kg, kg·m, kg·m²]
    ten: Array
    # mass [kg], centre of mass [m], inertia about it [kg·m²]; ordered as `NAMES`, shape (10,)
    body: Array
    std: Array  # standard deviations of `body`, infinite where not identified, shape (10,)
    checks: tuple[Check, ...]  # checks made, with their outcomes
    notes: tuple[Finding, ...] = ()  # warnings and notices for the user
    # estimated parameters of the sensor, by name
    sensor: Mapping[str, Any] = field(default_factory=dict)
    # torque per current and its standard deviation, by joint [N·m/A]
    gains: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    gains_covariance: Array | None = None  # covariance of them, in their order [(N·m/A)²]
    inputs: tuple[Mapping[str, Any], ...] = ()  # input files with their hashes
    settings: Mapping[str, Any] = field(default_factory=dict)  # settings of the identification
    source: Carried | Weighed | None = None  # the solution of its logs; None where it was live

    @property
    def parameters(self) -> list[dict[str, Any]]:
        """Every parameter with its uncertainty, as JSON values."""
        return listed(self.body, self.std)

    @property
    def verdict(self) -> Verdict:
        """Overall outcome of the checks."""
        return verdict(self.checks)

    @property
    def cut_short(self) -> str | None:
        """How the source of samples failed, where one did."""
        return next((f"{n.name}: {n.message}" for n in self.notes if n.name == CUT_SHORT), None)

    @property
    def whole(self) -> bool:
        """Whether all ten parameters were identified."""
        return bool(np.isfinite(self.body).all())

    @property
    def mass(self) -> float:
        """Mass [kg]."""
        return float(self.body[0])

    @property
    def mass_std(self) -> float:
        """Standard deviation of the mass [kg]."""
        return float(self.std[0])

    @property
    def com(self) -> Array:
        """Centre of mass in the frame, shape (3,) [m]; NaN where not identified."""
        return self.body[1:4]

    @property
    def com_std(self) -> Array:
        """Standard deviations of its coordinates, shape (3,) [m]."""
        return self.std[1:4]

    @property
    def inertia(self) -> Array:
        """Inertia about the centre of mass, shape (3, 3) [kg·m²]; NaN where not identified."""
        return inertia.matrix_of_six(self.body[4:])

    def summary(self) -> str:
        """Return the answer as text."""
        return text(self)

    def __repr__(self) -> str:
        mass = f"{_number(self.mass, self.mass_std)} kg"
        return f"<load of {mass} in frame {self.frame[:80]}: {self.verdict}>"

    def _repr_html_(self) -> str:
        """Return the answer for a notebook."""
        return f"<pre>{escape(text(self))}</pre>"


def listed(body: Array, std: Array) -> list[dict[str, Any]]:
    """Return parameters ordered as `NAMES`, each with its uncertainty, as JSON values."""
    finite = [[float(x) if math.isfinite(x) else None for x in some] for some in (body, std)]
    return [
        {
            "name": name,
            "value": value,
            "std": deviation,
            "unit": unit,
            "seen": "not at all" if value is None else "alone",
        }
        for name, value, deviation, unit in zip(NAMES, *finite, UNITS, strict=True)
    ]


def mass_check(body: Array, std: Array) -> Check:
    """Return the check of how well a load's mass is known; arguments as of `Payload`."""
    share = float(std[0] / abs(body[0])) if body[0] and math.isfinite(body[0]) else 1.0
    message = "standard deviation over the mass: turn the load against gravity, or record longer"
    if body[0] < 2.0 * std[0]:
        message = "no load, or one too light to be told from none"
    return Check.at_most("mass", share, UNSURE_WARN, UNSURE_FAIL, message)


def channel_values(values: Array, std: Array, units: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return values of a wrench's six channels as JSON values, with their deviations and units."""
    return {
        c: {"value": float(v), "std": float(s), "unit": u}
        for c, v, s, u in zip(CHANNELS, values, std, units, strict=True)
    }


def logged_bias(sensor: Sensor, bias: Array, covariance: Array) -> dict[str, dict[str, Any]]:
    """Return a bias as the sensor logs it, in its own axes, as JSON values; see `sensors.on_load`.

    Args:
        bias: Of the wrench on the load, shape (6,) [N, N·m].
        covariance: Covariance of it, shape (6, 6).
    """
    to_logged = np.array(sensor.gain)[:, None] * np.kron(np.eye(2), np.array(sensor.rotation).T)
    std = np.sqrt(np.diag(to_logged @ covariance @ to_logged.T))
    return channel_values(np.array(sensor.known_bias) + to_logged @ bias, std, CHANNEL_UNITS)


def text(payload: Payload) -> str:
    """Return the answer as lines for a terminal."""
    lines = [f"verdict: {payload.verdict}", ""]
    lines += [
        f"{name.removeprefix('payload.'):11}{_number(value, std):>24}  {unit}"
        for name, value, std, unit in zip(NAMES, payload.body, payload.std, UNITS, strict=True)
    ]
    lines += [
        "",
        f"in frame {payload.frame}, inertia about the centre of mass; ± one standard deviation",
    ]
    if "delay" in payload.sensor:
        late = payload.sensor["delay"]
        lines.append(
            f"wrench behind motion: {1e3 * late['value']:.2f} ± {1e3 * late['std']:.2f} ms"
        )
    if payload.verdict != "poor":
        lines += _sensor_lines(payload.sensor)
    for joint, (gain, std) in payload.gains.items():
        lines.append(f"gain of {joint}: {gain:.4g} ± {std:.2g} N·m/A")
    lines += [f"note: {n.name}: {n.message}" for n in payload.notes]
    lines += [
        f"{c.status}: {c.name}: {c.message}"
        for c in sorted(payload.checks, key=lambda c: c.status)  # what fails before what warns
        if c.status != "pass" and c.name not in {n.name for n in payload.notes}
    ]
    return "\n".join([*lines, "", settings_text(payload)])


def _sensor_lines(sensor: Mapping[str, Any]) -> list[str]:
    lines = []
    if sensor.get("bias"):
        shown = ", ".join(f"{v['value']:.4g}" for v in sensor["bias"].values())
        lines.append(f"bias = [{shown}]  # [N, N·m]")
    if "turned" in sensor:
        rows = [[round(x, 6) for x in row] for row in sensor["rotation"]]
        turned = _degrees(sensor["turned"])
        lines.append(f"rotation = {rows}  # {turned} off what was stated")
    if "gravity" in sensor:
        three = ", ".join(f"{x:.4f}" for x in sensor["gravity"]["value"])
        tilted = _degrees(sensor["tilt"])
        lines.append(f"gravity = [{three}]  # [m/s²], {tilted} off what was stated")
    if "gain" in sensor:
        six = sensor["gain"].values()
        shown = ", ".join(f"{v['value']:.4f}" for v in six)
        lines.append(f"gain = [{shown}]  # ± {max(v['std'] for v in six):.2g} at most")
    return lines


def _degrees(angle: Mapping[str, float]) -> str:
    return f"{math.degrees(angle['value']):.3f} ± {math.degrees(angle['std']):.2g}°"


def _number(value: float, std: float) -> str:
    return f"{rounded(value, std)} ± {std:.2g}" if math.isfinite(value) else "not seen"


def withheld(payload: Payload) -> str | None:
    """Return why there is nothing to paste; None if there is."""
    if payload.verdict == "poor":
        return "the verdict is poor: nothing to set before what failed is mended"
    if not (payload.mass > 0.0 and np.isfinite(payload.body[:4]).all()):
        return "no load: nothing to set"
    return None


def settings_text(payload: Payload) -> str:
    """Return `settings` as lines of a file, or why there are none."""
    if why := withheld(payload):
        return why
    lines = [f"# in frame {payload.frame}; where that is not the robot's flange, turn and shift it"]
    lines += [] if payload.whole else ["# the inertia was not seen: the load is a point here"]
    return "\n".join([*lines, *(f"# {taker}\n{line}" for taker, line in settings(payload))])


def settings(payload: Payload) -> Iterator[tuple[str, str]]:
    """Yield load settings of robots and elements of model files to paste, each with its taker."""
    body = payload.body
    tensor = payload.inertia if payload.whole else np.zeros((3, 3))
    load = load_settings.Load(float(body[0]), body[1:4], tensor)
    xyz = " ".join(format_number(x) for x in body[1:4])
    yield "Universal Robots", load_settings.urscript(load)
    taker = "Universal Robots' ROS 2 driver, which takes the inertia since 2026"
    yield taker, load_settings.universal_robots_ros(load)
    yield "Franka", load_settings.libfranka(load)
    if payload.whole:
        xx, xy, yy, xz, yz, zz = (format_number(x) for x in body[4:])
        yield (
            "URDF, the link's frame being this one",
            f'<inertial><origin xyz="{xyz}"/><mass value="{format_number(body[0])}"/>'
            f'<inertia ixx="{xx}" '
            f'ixy="{xy}" ixz="{xz}" iyy="{yy}" iyz="{yz}" izz="{zz}"/></inertial>',
        )
        yield (
            "MJCF",
            f'<inertial pos="{xyz}" mass="{format_number(body[0])}" '
            f'fullinertia="{xx} {yy} {zz} {xy} {xz} {yz}"/>',
        )


def to_json(payload: Payload) -> dict[str, Any]:
    """Return the result as JSON values, in the schema that programs read."""
    return {
        "heft": __version__,
        "schema": SCHEMA,
        "inputs": [dict(i) for i in payload.inputs],
        "settings": dict(payload.settings) | {"frame": payload.frame},
        "parameters": payload.parameters,
        "sensor": dict(payload.sensor),
        "joints": {j: {"gain": g, "gain_std": s} for j, (g, s) in payload.gains.items()},
        "notes": [f"{n.name}: {n.message}" for n in payload.notes],
        "checks": [vars(c) for c in payload.checks],
        "verdict": payload.verdict,
    }


def gains_toml(payload: Payload) -> str:
    """Return the drive gains as an options TOML that every command reads with `--with`."""
    lines = ["# Torque per current [N·m/A], found with a load of known mass."]
    for joint, (gain, std) in payload.gains.items():
        lines += [f"[joint.{json.dumps(joint)}]", f"gain = {gain:.6g}", f"gain_std = {std:.3g}", ""]
    unsure = [k for k, (_, std) in enumerate(payload.gains.values()) if std > 0.0]
    if payload.gains_covariance is not None and unsure:
        covariance = payload.gains_covariance[np.ix_(unsure, unsure)]
        sizes = np.sqrt(np.diag(covariance))
        # rounded, it is definite still
        halves = np.tril(np.round((1.0 - 1e-4) * covariance / np.outer(sizes, sizes), 6), -1)
        shown = (np.eye(len(sizes)) + halves + halves.T).tolist()
        lines += [
            "# Their errors have much in common. Where the logs are of the day that the gains were",
            "# found on, say other_day = 0: it is what all may have changed by since, relative.",
            "[gains]",
            f"joints = {json.dumps([list(payload.gains)[k] for k in unsure], ensure_ascii=False)}",
            f"correlation = {shown}",
            f"other_day = {GainsOptions.other_day:g}",
            "",
        ]
    return "\n".join(lines)


def refuse_foreign(out: Path) -> None:
    """Raise `InvalidSetting` if a folder for results holds anything else, or cannot be written."""
    require_own(out, set(FILES))


def write(payload: Payload, out: Path, report: Callable[[Payload], str] | None = None) -> None:
    """Write the folder of results atomically; earlier results in it are replaced.

    Args:
        report: What makes the page; none is written without it.

    Raises:
        InvalidSetting: If the folder holds other files.
    """
    refuse_foreign(out)
    with new_folder(out.resolve()) as new:
        (new / "estimate.json").write_text(json_text(to_json(payload)), encoding="utf-8")
        (new / "payload.txt").write_text(text(payload) + "\n", encoding="utf-8")
        if report is not None:
            (new / "report.html").write_text(report(payload), encoding="utf-8")
        if payload.gains and payload.verdict != "poor":
            (new / "robot.toml").write_text(gains_toml(payload), encoding="utf-8")
