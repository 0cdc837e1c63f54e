"""`heft simulate`: a motion run on a model in MuJoCo, the log that a user would have, the truth."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidSetting, did_you_mean
from heft.files import OpenedFile, json_text, new_folder, plain, put, require_own, workshop
from heft.models import OwnColumns, Robot
from heft.recordings import Table, require_log, write_table
from heft.simulation import (
    Arm,
    Condition,
    ExactMotion,
    Knots,
    Passive,
    SimulatedExperiment,
    Simulator,
    whole_robot,
)

from .motion_files import read_motion, refuse_beyond_limits
from .settings import SimulationSettings

TRUTH = ("exact.parquet", "truth.json")
LARGEST = 6e9  # [bytes] of what happens at every step of a simulation, held in memory
PLACE = "[simulation.own_columns]"


@dataclass(frozen=True, eq=False)
class Simulated:
    """A simulated experiment, with its motion and settings."""

    experiment: SimulatedExperiment  # the log and the truth
    motion: Knots  # that the controller was to follow
    settings: SimulationSettings  # what was simulated
    files: Mapping[str, str]  # SHA-256 of what it was made of, by role
    losses: tuple[str, ...]  # what the log's format could not store, in sentences
    wall: float  # time that the simulation took [s]

    @property
    def duration(self) -> float:
        """Duration of the log [s]."""
        return self.experiment.simulator.condition.duration

    @property
    def error(self) -> Array:
        """Tracking error at each row, shape (N, joints) [rad or m]."""
        exact = self.experiment.exact
        return np.asarray(exact.q - self.motion(exact.time)[0])

    def text(self) -> str:
        """Return the summary for the terminal: tracking errors, and torque over its limits."""
        arm, exact, source = self.experiment.arm, self.experiment.exact, self.experiment.source
        off = np.sqrt(np.mean(self.error**2, axis=0))
        rms = np.sqrt(np.mean(exact.tau**2, axis=0))
        most = np.abs(exact.tau).max(axis=0)
        stalled = np.mean(np.abs(exact.tau) >= 0.999 * arm.effort, axis=0)
        width = max(len(j) for j in arm.joints)
        lines = [f"{'':{width}}  off by (rms)  torque rms   at most  of limit  at it"]
        for k, joint in enumerate(arm.joints):
            share = f"{most[k] / arm.effort[k]:8.0%}" if np.isfinite(arm.effort[k]) else "       -"
            lines.append(
                f"{joint:{width}}  {off[k]:12.2e}  {rms[k]:10.3g}  {most[k]:8.3g}  {share}"
                f"  {stalled[k]:5.1%}"
            )
        steps = round(self.duration / self.experiment.simulator.condition.step)
        lost = len(exact.time) - len(source)
        again = int(np.sum(np.diff(source) == 0))
        rows = f"{len(source)} rows over {self.duration:.4g} s"
        rows += f"; {lost} rows lost" * bool(lost) + f", {again} repeated" * bool(again)
        speed = f"{self.duration / max(self.wall, 1e-9):.1f} times real time"
        lines += ["", f"{rows}; {steps} steps, {speed}"]
        if stalled.max() > 0.01:  # of the time
            lines.append(
                "Torque ends at its limits: the motion asks for more than the drives give. "
                "If it was recorded, its noise does: --corner passes what is below a frequency."
            )
        return "\n".join(lines)


def simulate_files(
    model: Path,
    motion: Path,
    out: Path,
    settings: SimulationSettings,
    columns: Path | None = None,
    progress: Callable[[str], None] = lambda line: None,
    own_columns: Path | None = None,
) -> Simulated:
    """Simulate a motion of a robot, and write its log and the truth, whole or not at all.

    Args:
        out: MCAP, Parquet, NPZ or CSV file to write. The truth goes to a folder beside it, of the
            same name with the ending `.truth`: `exact.parquet` and `truth.json`.
        own_columns: Python file of the user's own columns, which is run: torque that the drives
            supply besides, behind the gears. The settings state their parameters.

    Raises:
        InvalidModel: If the model cannot be simulated.
        InvalidRecording: If the motion cannot be read, or is of other joints.
        MissingSignal: If the motion lacks joints.
        InvalidSetting: If the motion leaves the joints' limits, or a setting fits no joint.
        SolverFailure: If the simulated robot does not stay finite.
    """
    require_log(out)
    if settings.sensors.constants and out.suffix.lower() == ".mcap":
        raise InvalidSetting(
            "ROS messages have no place for currents",
            argument=f"--out {out}",
            got="[simulation.sensors], constants",
            cure="write Parquet, NPZ or CSV",
        )
    truth = out.with_suffix(".truth")
    require_own(truth, TRUTH)
    if out.exists() and out.samefile(motion):
        raise InvalidSetting(
            "the output would overwrite the motion",
            argument=f"--out {out}",
            cure="name another file",
        )
    robot = Robot.from_file(model, settings.options)  # its errors name places in the file
    if robot.tree.free_base:
        raise InvalidSetting(
            "a floating base is not simulated: contacts hold it up, and a motion of the joints "
            "alone falls over, unless a controller keeps its balance",
            argument='base = "free"',
            cure='say base = "fixed" for a robot that hangs or is clamped; a robot that stands or '
            "walks is identified from its own log, which needs no simulation",
        )
    opened = {"model": OpenedFile.at(model), "motion": OpenedFile.at(motion)}
    if own_columns is not None:
        opened["own_columns"] = OpenedFile.at(own_columns)
    arm = whole_robot(model)
    springs = _own_torque(own_columns, settings.own_columns, arm.joints)
    for note in arm.notes:
        progress(note)
    demanded = read_motion(motion, columns, arm.joints)
    if settings.corner is not None:
        demanded = demanded.smoothed(settings.corner)
    still = {j: k.position for j, k in (settings.options.joint or {}).items()}
    at_rest = {j: p for j, p in still.items() if p is not None}
    knots = demanded.knots(arm, at_rest)
    if settings.limits:
        refuse_beyond_limits(motion, knots, arm, demanded.duration)
    condition = replace(_condition(settings, arm, knots, demanded.duration), passive=springs)
    files = {role: file.sha256 for role, file in opened.items()}
    begin = time.perf_counter()
    watch = _reporting(progress, demanded.duration)
    experiment = Simulator(arm, condition).run(settings.seed, watch=watch)
    wall = time.perf_counter() - begin
    losses: dict[str, None] = {}
    made = Simulated(experiment, knots, settings, files, (), wall)
    with workshop(out.resolve()) as log:
        table = experiment.recording.canonical()
        write_table(table, log / out.name, lambda loss: losses.update({loss: None}))
        with new_folder(truth.resolve()) as folder:
            columns_of_truth = _exact_columns(experiment)
            write_table(Table.of_columns(columns_of_truth, TRUTH[0]), folder / TRUTH[0])
            (folder / TRUTH[1]).write_text(json_text(_described(made)), encoding="utf-8")
        put(log / out.name, out.resolve())
    return replace(made, losses=tuple(losses))


def _own_torque(
    path: Path | None, values: Mapping[str, float], joints: Sequence[str]
) -> Passive | None:
    """Return the torque of own columns by positions and velocities; None without a file.

    Returns:
        Takes positions [rad or m] and velocities, both of shape (joints, N), and returns the torque
        that the drives supply, of this shape [N·m or N].

    Raises:
        InputError: If the file is missing, cannot be run, or has no function of columns.
        InvalidSetting: If a parameter is not stated, is of no column, or has a sign that it cannot
            have; or if a column depends on acceleration.
    """
    if path is None:
        if values:
            raise InvalidSetting(
                "parameters of own columns are stated, but not the file that says what they do",
                argument=PLACE,
                got=", ".join(values),
                cure="name it on the command line: --columns springs.py",
            )
        return None
    own = OwnColumns.load(path, joints)
    parameters = own.parameters(values, PLACE)
    if own.accelerated:
        raise InvalidSetting(
            "own columns that depend on acceleration cannot be simulated: torque of acceleration "
            "is an inertia, which the step must solve for",
            argument=str(path),
            cure="put the inertia into the model file, or into armature of [simulation.joint]",
        )

    return partial(own.effort, parameters=parameters)


def _condition(settings: SimulationSettings, arm: Arm, motion: Knots, duration: float) -> Condition:
    unknown = [j for j in settings.joint if j not in arm.joints]
    if unknown:
        raise InvalidSetting(
            f"the robot has no joint '{unknown[0]}' that moves by itself",
            argument="[simulation.joint]",
            valid=arm.joints,
            cure=did_you_mean(unknown[0], arm.joints),
        )
    constants = settings.sensors.constants
    if len(constants) not in (0, 1, len(arm.joints)):
        raise InvalidSetting(
            "torque per current is stated of all joints, or of each",
            argument="[simulation.sensors], constants",
            got=f"{len(constants)} numbers",
            expected=f"1 or {len(arm.joints)}: " + ", ".join(arm.joints),
        )
    step = settings.chosen_step()
    size = (8 * 16) * len(arm.joints) * (duration + settings.run_in) / step  # bytes
    if size > LARGEST:
        raise InvalidSetting(
            "the simulation would not fit in memory",
            argument="the motion",
            got=f"{duration:.4g} s of {len(arm.joints)} joints, {size / 1e9:.0f} GB",
            expected=f"up to {LARGEST / 1e9:.0f} GB",
            cure="simulate it in parts, or with a longer step in [simulation]",
        )
    if duration * settings.sensors.rate < 2.0:
        raise InvalidSetting(
            "the motion is shorter than two rows of the log",
            argument="the motion",
            got=f"{duration:.4g} s",
            expected=f"a rate above {2.0 / duration:.4g} Hz",
        )
    return Condition(
        settings.drives,
        settings.sensors,
        motion,
        controller=settings.controller.controller(),
        duration=duration,
        tilt=settings.tilt,
        wrong=settings.controller.wrong,
        shift=settings.controller.shift,
        run_in=settings.run_in,
        step=step,
        gravity=settings.options.gravity,
        fixed_drives={name: joint.drive for name, joint in settings.joint.items()},
    )


def _reporting(progress: Callable[[str], None], duration: float) -> Callable[[float], None]:
    """Return a callback for the simulated time, which reports progress at intervals."""
    last = time.perf_counter()

    def watch(now: float) -> None:
        nonlocal last
        if time.perf_counter() - last > 2.0:  # [s]
            last = time.perf_counter()
            progress(f"{max(now, 0.0):.1f} s of {duration:.1f} s simulated")

    return watch


def _exact_columns(experiment: SimulatedExperiment) -> dict[str, Array]:
    exact: ExactMotion = experiment.exact
    logged = np.full(len(exact.time), np.nan)
    logged[experiment.kept] = experiment.source
    columns = {"t": exact.time, "logged_row": logged}
    for kind in ("q", "v", "a", "tau", "friction", "passed", "link"):
        for k, joint in enumerate(experiment.arm.joints):
            columns[f"{kind}.{joint}"] = getattr(exact, kind)[:, k]
    passive = experiment.simulator.condition.passive
    if passive is not None:
        torque = passive(exact.link.T, exact.link_velocity.T)
        columns |= {f"own.{j}": torque[k] for k, j in enumerate(experiment.arm.joints)}
    return columns


def _described(simulated: Simulated) -> dict[str, Any]:
    experiment, settings = simulated.experiment, simulated.settings
    joints, calibration = experiment.arm.joints, experiment.calibration
    sensors = settings.sensors
    stated = {"controller", "drives", "sensors", "tilt", "run_in", "limits"}
    if settings.own_columns:
        stated.add("own_columns")
    return {
        "version": 1,
        "seed": settings.seed,
        "sha256": dict(simulated.files),
        "joints": list(joints),
        "step_s": experiment.simulator.condition.step,
        "settings": {k: v for k, v in asdict(settings).items() if k in stated},
        "drives": {
            joint: {
                "armature": drive.armature,
                **{type(law).__name__.lower(): plain(law) for law in drive.laws},
            }
            for joint, drive in zip(joints, experiment.drives, strict=True)
        },
        "sensors": {
            "delay_s": sensors.delay,
            "encoder_delay_s": sensors.encoder_delay,
            "gain": dict(zip(joints, calibration.gain, strict=True)) if sensors.gain_error else 1.0,
            "bias": dict(zip(joints, calibration.bias.tolist(), strict=True)),
            "zero": dict(zip(joints, calibration.zero.tolist(), strict=True)),
        },
        "links": {
            name: {"mass": link.mass, "com": link.center.tolist(), "inertia": link.inertia.tolist()}
            for name, link in experiment.arm.links.items()
        },
        "notes": list(experiment.arm.notes),
    }
