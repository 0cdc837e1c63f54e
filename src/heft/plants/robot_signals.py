"""Signals of a log that a robot's plant reads: joint positions, and torques or currents."""

from __future__ import annotations

from collections.abc import Sequence

from heft.errors import MissingSignal
from heft.models import Robot, joint_lines
from heft.recordings import Recording

from .plant import Inputs, Measured, MotionSignal


def position_signals(robot: Robot) -> tuple[str, ...]:
    """Return the names of the positions of the joints that move."""
    moving = [j for j in robot.joints if robot.options.of(j).position is None]
    return tuple(f"q.{j}" for j in moving)


def effort_signals(robot: Robot, recording: Recording) -> tuple[tuple[str, int, float], ...]:
    """Return of each measured joint the signal's name, its channel among the robot's, a factor.

    A torque is taken where it is logged, by the factor 1, else a current by its gain [N·m/A].

    Raises:
        MissingSignal: If neither torque nor a current with a gain is there.
    """
    first = len(robot.channels) - len(robot.joints)
    efforts: list[tuple[str, int, float]] = []
    without_gain: list[str] = []
    missing: list[str] = []
    for channel in robot.measured:
        if channel < first:
            continue
        joint = robot.joints[channel - first]
        gain = robot.options.of(joint).gain
        if f"tau.{joint}" in recording.sources:
            efforts.append((f"tau.{joint}", int(channel), 1.0))
        elif f"current.{joint}" in recording.sources and gain is not None:
            efforts.append((f"current.{joint}", int(channel), gain))
        elif f"current.{joint}" in recording.sources:
            without_gain.append(joint)
        else:
            missing.append(joint)
    if missing:
        _require_positions(robot, recording)  # a joint that is not there at all is rather fixed
        recording.require(
            [f"tau.{j}" for j in missing],
            f"is what a joint's drive measures, or current.{missing[0]} and its gain",
            _of_joints(robot),
            "where neither torque nor current is measured, say so in the file of --with:\n"
            + (
                'equations = "sensors"'
                if robot.options.sensor
                else joint_lines(missing, "measured = false")
            ),
        )
    if without_gain:
        raise MissingSignal(
            "currents are logged in place of torques, and no gains are given",
            argument=recording.name,
            got=f"a current of {', '.join(without_gain)}",
            cure="give the gain of each in N·m/A in the file of --with, such as\n"
            + joint_lines(without_gain, "gain = 10.6"),
        )
    return tuple(efforts)


def motor_signals(robot: Robot, recording: Recording, joints: Sequence[int]) -> tuple[str, ...]:
    """Return the names of the positions of motors behind elastic gears, of joints by position.

    Raises:
        MissingSignal: If one is not there.
    """
    named = [robot.joints[j] for j in joints]
    missing = [j for j in named if f"q_motor.{j}" not in recording.sources]
    if missing:
        recording.require(
            [f"q_motor.{j}" for j in missing],
            "is where the motor of an elastic gear is, at the joint",
            {f"q_motor.{j}" for j in robot.joints},
            "where gears may be taken for rigid, say so in the file of --with:\n"
            + joint_lines(missing, "elastic = false"),
        )
    return tuple(f"q_motor.{j}" for j in named)


def _require_positions(robot: Robot, recording: Recording) -> None:
    missing = [n for n in position_signals(robot) if n not in recording.sources]
    if missing:
        recording.require(
            missing,
            "says where a joint is",
            _of_joints(robot),
            "where it stood still, say so in the file of --with (and where: position = …):\n"
            + joint_lines([n.partition(".")[2] for n in missing], "fixed = true"),
        )


def _of_joints(robot: Robot) -> set[str]:
    return {f"{kind}.{j}" for kind in ("q", "tau") for j in robot.joints}


def joint_inputs(robot: Robot, recording: Recording, measured: bool = True) -> Inputs:
    """Return joint positions, and torques or currents, whatever the base does; see `Plant.inputs`.

    Raises:
        MissingSignal: If one is not there.
    """
    _require_positions(robot, recording)
    motion = tuple(MotionSignal(name) for name in position_signals(robot))
    if not measured:
        return Inputs(motion)
    places = {int(c): k for k, c in enumerate(robot.measured)}
    efforts = effort_signals(robot, recording)
    return Inputs(motion, tuple(Measured(places[c], ((n, f),)) for n, c, f in efforts))
