"""`heft payload`: from files to a load's inertial parameters, in the formats that use them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from heft import __version__
from heft.applications.identification import Inputs, Progress, silent
from heft.arrays import Array
from heft.files import format_number, put, require_own, workshop
from heft.information import AXES, PARAMETER_COUNT, Check, Finding, Verdict, inertia, verdict
from heft.models import Robot, load_settings
from heft.plants import CHANNEL_UNITS, CHANNELS
from heft.recordings import Recording

from .by_repeated_motion import MatchedMotions
from .by_torques import Carried, WeighCarried
from .by_wrench import Weigh
from .estimate import Weighed, numbers
from .motion import read
from .sensors import Sensor, Sensors

SCHEMA = 1
FILES = ("estimate.json", "payload.txt", "robot.toml")
NAMES = (
    "payload.mass",
    *(f"payload.com.{a}" for a in AXES),
    *(f"payload.inertia.{AXES[i]}{AXES[j]}" for i, j in inertia.INERTIA_INDEX),
)
UNITS = ("kg", "m", "m", "m", *("kg·m²",) * 6)
UNSURE_WARN, UNSURE_FAIL = 0.03, 0.2  # standard deviation of the mass over it
DIFFERENCE_WARN, DIFFERENCE_FAIL = 0.3, 0.7  # of the torque's difference
LEFT_WARN, LEFT_FAIL = 0.1, 0.4  # of the force's variation that no body explains
SPOILT = {"no body", "turned", "saturated", "no load"}  # findings that make an answer poor
CUT_SHORT = "source failed"  # note of a result of a part of what was to be weighed
WEIGH, CARRIED = Weigh(), WeighCarried()  # as they are by default


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
    inputs: tuple[Mapping[str, Any], ...] = ()  # input files with their hashes
    settings: Mapping[str, Any] = field(default_factory=dict)  # settings of the identification

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
        found = [f"{n.name}: {n.message}" for n in self.notes if n.name == CUT_SHORT]
        return found[0] if found else None

    @property
    def whole(self) -> bool:
        """Whether all ten parameters were identified."""
        return bool(np.isfinite(self.body).all())


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


def weigh_files(
    logs: Sequence[Path],
    sensors: Path,
    columns: Path | None = None,
    model: Path | None = None,
    options: Path | None = None,
    weigh: Weigh = WEIGH,
    progress: Progress = silent,
    known_mass: float | None = None,
) -> Payload:
    """Identify a load from log files of a wrench sensor.

    Args:
        logs: Logs of one experiment with the same load.
        sensors: TOML file of the sensors; see `sensors`.
        columns: TOML file that maps the logs' columns to signals.
        model: Robot model file, where the motion comes from its joints.
        options: TOML file with what the model file cannot state.
        weigh: Settings; statements of the sensors' file take precedence.
        known_mass: Mass of a reference load [kg], where the sensor's gains are to be identified.
    """
    inputs = Inputs.open(model, options, columns, sensors=sensors)
    stated = Sensors.from_toml(sensors)
    progress(f"reading {len(logs)} log{'s' if len(logs) > 1 else ''}")
    inputs = inputs.with_logs(fit=logs)
    found = weighed(inputs.logs["fit"], stated, inputs.robot, weigh, progress, known_mass)
    described = inputs.described("fit", "sensors", "model", "options", "columns")
    inputs.refuse_changed()
    return of_sensor(found, stated.first, described)


def weighed(
    logs: Sequence[Recording],
    sensors: Sensors,
    robot: Robot | None = None,
    weigh: Weigh = WEIGH,
    progress: Progress = silent,
    known_mass: float | None = None,
) -> Weighed:
    """Return the estimate of a load from recordings of the sensors that hold it.

    Args:
        logs: Recordings of one experiment with the same load.
        robot: Model whose joints give the motion, where they do.
        weigh: Settings; statements of the sensors take precedence.
        known_mass: Mass of a reference load [kg], where the sensor's gains are to be identified.
    """
    parts = [read(log, sensors, robot) for log in logs]
    noise = np.sqrt(np.mean(np.square([part.noise for part in parts]), axis=0))
    settings = replace(
        weigh,
        noise=sensors.noise,
        others=sensors.others([(float(force), float(torque)) for force, torque in noise]),
        turning_noise=sensors.turning_noise,
        bias=sensors.bias,
        delay=weigh.delay and sensors.first.delay is None,
        tilt=sensors.tilt,
        gain_std=sensors.first.gain_std,
        known_mass=known_mass,
    )
    progress("weighing")
    found = settings.fit(*(part.held for part in parts))
    left_out = [finding for part in parts for finding in part.findings]
    return replace(found, findings=(*left_out, *found.findings))


def of_sensor(found: Weighed, stated: Sensor, inputs: Sequence[Mapping[str, Any]] = ()) -> Payload:
    """Return the payload of an identification by a wrench sensor.

    Args:
        stated: Sensor in whose frame the load is stated.
        inputs: Descriptions of the input files.
    """
    left_over = Check.at_most(
        "residual size",
        found.left[0],
        LEFT_WARN,
        LEFT_FAIL,
        "share of the force's variation that no body and bias explain: check units, frames, "
        "signs, and that nothing else touches the load",
    )
    return Payload(
        stated.frame,
        found.values[:PARAMETER_COUNT],
        found.body,
        found.body_std,
        (mass_check(found.body, found.body_std), left_over, *_finding_checks(found.findings)),
        found.findings,
        {
            "bias": {},
            "noise": {"force": found.noise[0], "torque": found.noise[1]},
            "left_over": {"force": found.left[0], "torque": found.left[1]},
            "rows": found.rows,
            **dict(_sensor_findings(found, stated)),
        },
        inputs=tuple(inputs),
        settings={"kind": "wrench sensor"},
    )


def _sensor_findings(found: Weighed, stated: Sensor) -> Iterator[tuple[str, Any]]:
    if found.bias is not None:
        biases = [n.startswith("sensor.bias") for n in found.labels.names]
        places = np.flatnonzero(biases)[-6:]  # of the last log
        yield "bias", logged_bias(stated, found.bias, found.covariance[np.ix_(places, places)])
    delay = found.of_sensor("delay")
    if delay is not None:
        yield "delay", {"value": float(delay[0][0]), "std": float(delay[1][0]), "unit": "s"}
    mounting, tilt = found.of_sensor("mounting"), found.of_sensor("tilt")
    if mounting is not None:
        yield "rotation", (found.rotation @ np.array(stated.rotation)).tolist()
        yield "turned", _angle(*mounting)
    if tilt is not None and found.gravity is not None and found.gravity_std is not None:
        gravity, std = found.gravity.tolist(), found.gravity_std.tolist()
        yield "gravity", {"value": gravity, "std": std, "unit": "m/s²"}
        yield "tilt", _angle(*tilt)
    gain = found.of_sensor("gain")
    if gain is not None:
        total = np.array(stated.gain)
        yield "gain", _channels(total * gain[0], total * gain[1], ("1",) * 6)


def _channels(values: Array, std: Array, units: Sequence[str]) -> dict[str, dict[str, Any]]:
    return {
        c: {"value": float(v), "std": float(s), "unit": u}
        for c, v, s, u in zip(CHANNELS, values, std, units, strict=True)
    }


def logged_bias(sensor: Sensor, bias: Array, covariance: Array) -> dict[str, dict[str, Any]]:
    """Return a bias as the sensor logs it, in its own axes, as JSON values; see `motion.on_load`.

    Args:
        bias: Of the wrench on the load, shape (6,) [N, N·m].
        covariance: Covariance of it, shape (6, 6).
    """
    to_logged = np.array(sensor.gain)[:, None] * np.kron(np.eye(2), np.array(sensor.rotation).T)
    std = np.sqrt(np.diag(to_logged @ covariance @ to_logged.T))
    return _channels(np.array(sensor.known_bias) + to_logged @ bias, std, CHANNEL_UNITS)


def _angle(parts: Array, std: Array) -> dict[str, Any]:
    """Return the angle of a rotation vector and its standard deviation along it, as JSON values."""
    angle = float(np.linalg.norm(parts))
    along = parts / angle if angle > 0.0 else np.full(len(parts), len(parts) ** -0.5)
    return {"value": angle, "std": float(np.linalg.norm(along * std)), "unit": "rad"}


def carry_files(
    model: Path,
    empty: Sequence[Path],
    loaded: Sequence[Path],
    columns: Path | None = None,
    options: Path | None = None,
    weigh: WeighCarried = CARRIED,
    progress: Progress = silent,
    own_columns: Path | None = None,
) -> Payload:
    """Identify a load from the joint torques of the robot that carries it.

    Args:
        columns: TOML file that maps the logs' columns to signals.
        options: TOML file with what the model file cannot state, such as drive gains.
        own_columns: Python file of the user's own columns of the regressor, which is run: what a
            robot with springs needs besides the load.
    """
    inputs = Inputs.open(model, options, columns, own_columns)
    inputs = inputs.with_logs(empty=empty, loaded=loaded)
    assert inputs.robot is not None
    found = weigh.fit(inputs.robot, inputs.logs["empty"], inputs.logs["loaded"], progress)
    return of_joints(found, _described(inputs))


def _described(inputs: Inputs) -> tuple[dict[str, Any], ...]:
    """Return the entries of the files of runs without and with the load, none changed since."""
    roles = ("model", "empty", "loaded", "options", "columns", "own_columns")
    described = inputs.described(*roles)
    inputs.refuse_changed()
    return described


def difference_files(
    model: Path,
    empty: Sequence[Path],
    loaded: Sequence[Path],
    columns: Path | None = None,
    options: Path | None = None,
    frame: str | None = None,
) -> Payload:
    """Identify a load from repeated motions; see `by_repeated_motion`.

    Args:
        model: Robot model file, of which only the kinematics are used.
        loaded: Logs with it, of the same motions in the same order.
        columns: TOML file that maps the logs' columns to signals.
        options: TOML file with what the model file cannot state, such as drive gains.
        frame: Link that the load is fixed to; the last one of the model file if not given.
    """
    inputs = Inputs.open(model, options, columns).with_logs(empty=empty, loaded=loaded)
    assert inputs.robot is not None
    logs = inputs.logs
    found = MatchedMotions(frame).fit(inputs.robot, logs["empty"], logs["loaded"])
    body, std = numbers(found.ten, found.covariance)
    left = Check.at_most(
        "residual size",
        found.left,
        DIFFERENCE_WARN,
        DIFFERENCE_FAIL,
        "share of the difference's variation that no load explains: is it one motion, and the "
        "robot as warm?",
    )
    return Payload(
        found.frame,
        found.ten,
        body,
        std,
        (mass_check(body, std), left, found.no_body),
        inputs=_described(inputs),
        settings={"kind": "difference of matched motions", "lags_s": list(found.lags)},
    )


def of_joints(found: Carried, inputs: Sequence[Mapping[str, Any]] = ()) -> Payload:
    """Return the payload of an identification by joint torques.

    Args:
        inputs: Descriptions of the input files.
    """
    body, std = numbers(found.ten, found.covariance)
    checks = [mass_check(body, std), *found.checks]
    gains = {j: (found.gains[j], found.gains_std[j]) for j in found.gains}
    for joint, (gain, deviation) in gains.items():
        checks.append(
            Check.at_most(
                f"gain of {joint}",
                deviation / gain,
                0.05,
                0.3,
                "standard deviation over the gain: move that joint faster, against gravity "
                "(heft excite designs it)",
            )
        )
    return Payload(
        found.frame,
        found.ten,
        body,
        std,
        tuple(checks),
        gains=gains,
        inputs=tuple(inputs),
        settings={"kind": "joint torques"},
    )


def mass_check(body: Array, std: Array) -> Check:
    """Return the check of how well a load's mass is known.

    Args:
        body: Mass, centre of mass and inertia about it, shape (10,).
        std: Standard deviations of `body`, shape (10,).
    """
    share = float(std[0] / abs(body[0])) if body[0] and math.isfinite(body[0]) else 1.0
    message = "standard deviation over the mass: turn the load against gravity, or record longer"
    if body[0] < 2.0 * std[0]:
        message = "no load, or one too light to be told from none"
    return Check.at_most("mass", share, UNSURE_WARN, UNSURE_FAIL, message)


def _finding_checks(findings: Sequence[Finding]) -> list[Check]:
    return [
        Check(f.name, "fail" if f.name in SPOILT else "warn", 1.0, 0.0, f.message)
        for f in findings
        if f.name != "not seen"
    ]


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


def _degrees(angle: Mapping[str, Any]) -> str:
    value, std = (math.degrees(angle[k]) for k in ("value", "std"))
    return f"{value:.3f} ± {std:.2g}°"


def _number(value: float, std: float) -> str:
    if not math.isfinite(value):
        return "not seen"
    digits = 6 if std <= 0.0 else int(np.clip(1 - math.floor(math.log10(std)), 0, 7))
    return f"{value:.{digits}f} ± {std:.2g}"


def settings_text(payload: Payload) -> str:
    """Return the load settings of robots and the elements of model files, ready to paste.

    Of a poor answer there are none.
    """
    body = payload.body
    if payload.verdict == "poor":
        return "the verdict is poor: nothing to set before what failed is mended"
    if not (body[0] > 0.0 and np.isfinite(body[:4]).all()):
        return "no load: nothing to set"
    tensor = np.zeros((3, 3))
    if payload.whole:
        for k, (i, j) in enumerate(inertia.INERTIA_INDEX):
            tensor[i, j] = tensor[j, i] = body[4 + k]
    load = load_settings.Load(float(body[0]), body[1:4], tensor)
    xyz = " ".join(format_number(x) for x in body[1:4])
    six = [format_number(x) for x in body[4:]] if payload.whole else ["0"] * 6
    xx, xy, yy, xz, yz, zz = six
    lines = [
        f"# in frame {payload.frame}; where that is not the robot's flange, turn and shift it",
        "# Universal Robots",
        load_settings.urscript(load),
        "# Universal Robots' ROS 2 driver, which takes the inertia since 2026",
        load_settings.universal_robots_ros(load),
        "# Franka",
        load_settings.libfranka(load),
        "# URDF, the link's frame being this one",
        f'<inertial><origin xyz="{xyz}"/><mass value="{format_number(body[0])}"/>'
        f'<inertia ixx="{xx}" '
        f'ixy="{xy}" ixz="{xz}" iyy="{yy}" iyz="{yz}" izz="{zz}"/></inertial>',
        "# MJCF",
        f'<inertial pos="{xyz}" mass="{format_number(body[0])}" '
        f'fullinertia="{xx} {yy} {zz} {xy} {xz} {yz}"/>',
    ]
    if not payload.whole:
        lines.insert(-8, "# the inertia was not seen: the load is a point here")
        lines = lines[:-4]
    return "\n".join(lines)


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
    return "\n".join(lines)


def refuse_foreign(out: Path) -> None:
    """Raise `InvalidSetting` if a folder for results holds anything else, or cannot be written."""
    require_own(out, set(FILES))


def write(payload: Payload, out: Path) -> None:
    """Write the folder of results atomically.

    Args:
        out: The folder; replaced if it holds earlier results.

    Raises:
        InvalidSetting: If the folder holds other files.
    """
    refuse_foreign(out)
    place = out.resolve()
    with workshop(place) as folder:
        new = folder / "results"
        new.mkdir()
        contract = json.dumps(to_json(payload), indent=1, ensure_ascii=False, allow_nan=False)
        (new / "estimate.json").write_text(contract + "\n", encoding="utf-8")
        (new / "payload.txt").write_text(text(payload) + "\n", encoding="utf-8")
        if payload.gains and payload.verdict != "poor":
            (new / "robot.toml").write_text(gains_toml(payload), encoding="utf-8")
        put(new, place)
