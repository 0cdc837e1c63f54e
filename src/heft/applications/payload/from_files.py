"""`heft payload`: from files to a load, by a wrench sensor or by the joints that carry it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from heft.applications.identification import Identification
from heft.applications.inputs import AnyLogs, AnyPath, AnyRobot, Inputs, each
from heft.arrays import Array
from heft.errors import InvalidSetting
from heft.fit import Progress, silent
from heft.information import PARAMETER_COUNT, Check, Finding, inertia
from heft.models import Robot
from heft.recordings import Recording

from .by_torques import Carried, WeighCarried
from .by_wrench import CHANGED_LOAD, Weigh
from .estimate import Weighed
from .logs import read
from .payload import Payload, channel_values, logged_bias, mass_check
from .sensors import Sensor, Sensors

RESIDUAL_WARN, RESIDUAL_FAIL = 0.1, 0.4  # of the force's variation that no body explains
# findings that make an answer poor
SPOILT = {"no body", "turned", "saturated", "no load", CHANGED_LOAD}
WEIGH, CARRIED = Weigh(), WeighCarried()  # as they are by default


def weigh_files(
    inputs: Inputs,
    logs: Sequence[Path],
    weigh: Weigh = WEIGH,
    progress: Progress = silent,
    known_mass: float | None = None,
) -> Payload:
    """Identify a load from log files of a wrench sensor; see `weighed`.

    Args:
        inputs: File `sensors`, see there, and a robot where the motion comes from its joints.
    """
    stated = Sensors.from_toml(inputs.files["sensors"].path)
    progress(f"reading {len(logs)} log{'s' if len(logs) > 1 else ''}")
    inputs = inputs.with_logs(fit=logs)
    load = weighed(inputs.logs["fit"], stated, inputs.robot, weigh, progress, known_mass)
    described = inputs.described("fit", "sensors", "model", "options", "columns")
    inputs.refuse_changed()
    return of_sensor(load, stated.first, described)


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
        logs: All of the same load.
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
    load = settings.fit(*(part.held for part in parts), zeroed=[part.zeroed for part in parts])
    changed = any(f.name == CHANGED_LOAD for f in load.findings)  # and no sensor zeroed then
    missing = [f for part in parts for f in part.findings if not (changed and f.name == "zeroed")]
    return replace(load, findings=(*missing, *load.findings))


def of_sensor(load: Weighed, stated: Sensor, inputs: Sequence[Mapping[str, Any]] = ()) -> Payload:
    """Return the payload of an identification by a wrench sensor, in the frame of `stated`."""
    residual = Check.at_most(
        "residual size",
        load.left[0],
        RESIDUAL_WARN,
        RESIDUAL_FAIL,
        "share of the force's variation that no body and bias explain: check units, frames, "
        "signs, and that nothing else touches the load",
    )
    return Payload(
        stated.frame,
        load.values[:PARAMETER_COUNT],
        load.body,
        load.body_std,
        (
            mass_check(load.body, load.body_std),
            residual,
            *(
                Check(f.name, "fail" if f.name in SPOILT else "warn", 1.0, 0.0, f.message)
                for f in load.findings
                if f.name != "not seen"
            ),
        ),
        load.findings,
        {
            "bias": {},
            "noise": {"force": load.noise[0], "torque": load.noise[1]},
            "left_over": {"force": load.left[0], "torque": load.left[1]},
            "rows": load.rows,
            **dict(_sensor_findings(load, stated)),
        },
        inputs=tuple(inputs),
        settings={"kind": "wrench sensor"},
        source=load,
    )


def _sensor_findings(load: Weighed, stated: Sensor) -> Iterator[tuple[str, Any]]:
    if load.bias is not None:
        biases = [n.startswith("sensor.bias") for n in load.labels.names]
        places = np.flatnonzero(biases)[-6:]  # of the last log
        yield "bias", logged_bias(stated, load.bias, load.covariance[np.ix_(places, places)])
    delay = load.of_sensor("delay")
    if delay is not None:
        yield "delay", {"value": float(delay[0][0]), "std": float(delay[1][0]), "unit": "s"}
    mounting, tilt = load.of_sensor("mounting"), load.of_sensor("tilt")
    if mounting is not None:
        yield "rotation", (load.rotation @ np.array(stated.rotation)).tolist()
        yield "turned", _angle(*mounting)
    if tilt is not None and load.gravity is not None and load.gravity_std is not None:
        gravity, std = load.gravity.tolist(), load.gravity_std.tolist()
        yield "gravity", {"value": gravity, "std": std, "unit": "m/s²"}
        yield "tilt", _angle(*tilt)
    gain = load.of_sensor("gain")
    if gain is not None:
        total = np.array(stated.gain)
        yield "gain", channel_values(total * gain[0], total * gain[1], ("1",) * 6)


def _angle(parts: Array, std: Array) -> dict[str, Any]:
    """Return the angle of a rotation vector and its standard deviation along it, as JSON values."""
    angle = float(np.linalg.norm(parts))
    along = parts / angle if angle > 0.0 else np.full(len(parts), len(parts) ** -0.5)
    return {"value": angle, "std": float(np.linalg.norm(along * std)), "unit": "rad"}


def carry_files(
    inputs: Inputs, weigh: WeighCarried = CARRIED, progress: Progress = silent
) -> Payload:
    """Identify a load by joint torques of the robot, from logs `empty` and `loaded` of `inputs`."""
    assert inputs.robot is not None
    carried = weigh.fit(inputs.robot, inputs.logs["empty"], inputs.logs["loaded"], progress)
    roles = ("model", "empty", "loaded", "options", "columns", "own_columns")
    described = inputs.described(*roles)
    inputs.refuse_changed()
    return of_joints(carried, described)


def carried(
    robot: AnyRobot | Identification,
    empty: AnyLogs,
    loaded: AnyLogs | None = None,
    frame: str | None = None,
    known_mass: float | None = None,
    options: AnyPath | None = None,
    columns: AnyPath | None = None,
    progress: Progress = silent,
) -> Payload:
    """Weigh what a robot carries, by its joints' torques in runs without and with the load.

    >>> heft.payload("arm.urdf", "empty.csv", "loaded.csv").mass

    Args:
        robot: Its model file, a robot, or a result of `identify`, whose logs are those without the
            load; then the only logs are those with it.
        empty: Logs without the load: files, recordings, tables or dictionaries of columns.
        loaded: Logs with it.
        frame: Link that the load is fixed to; the last one of the model file if not given.
        known_mass: Its mass [kg], where the drives' gains are to be found.

    Raises:
        InputError: If a file or log is invalid, or there is none without or with the load.
    """
    if isinstance(robot, Identification):
        if loaded is None:
            empty, loaded = robot.problem.recordings, empty
        robot = robot.problem.plant.robot
    if loaded is None or not each(loaded) or not each(empty):
        raise InvalidSetting(
            "logs without the load and with it are needed",
            argument="loaded",
            cure='heft.payload("arm.urdf", "empty.csv", "loaded.csv"), or '
            'heft.payload(heft.identify("arm.urdf", "empty.csv"), "loaded.csv")',
        )
    inputs = Inputs.open(robot, options, columns).with_logs(empty=empty, loaded=loaded)
    return carry_files(inputs, WeighCarried(frame, known_mass), progress)


def of_joints(carried: Carried, inputs: Sequence[Mapping[str, Any]] = ()) -> Payload:
    """Return the payload of an identification by joint torques."""
    body, std = inertia.stated_with_std(carried.ten, carried.covariance)
    checks = [mass_check(body, std), *carried.checks]
    std_of_gains = np.sqrt(np.diag(carried.gains_covariance)).tolist()
    pairs = zip(carried.gains.items(), std_of_gains, strict=True)
    gains = {j: (gain, std_of_gain) for (j, gain), std_of_gain in pairs}
    cure = (
        "standard deviation over the gain: move that joint faster, against gravity "
        "(heft excite designs it)"
    )
    checks += [
        Check.at_most(f"gain of {joint}", std_of_gain / gain, 0.05, 0.3, cure)
        for joint, (gain, std_of_gain) in gains.items()
    ]
    return Payload(
        carried.frame,
        carried.ten,
        body,
        std,
        tuple(checks),
        tuple(Finding("gains", note, severity="tells") for note in carried.notes),
        gains=gains,
        gains_covariance=carried.gains_covariance,
        inputs=tuple(inputs),
        settings={"kind": "joint torques"},
        source=carried,
    )
