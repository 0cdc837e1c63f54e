"""Signals of a log that a robot's plant reads: joint positions, and torques or currents."""

from __future__ import annotations

from collections.abc import Sequence

from heft.errors import InvalidSetting, MissingSignal
from heft.models import Robot, joint_lines
from heft.recordings import Recording

from .plant import Inputs, Measured, MotionSignal


def position_signals(robot: Robot) -> tuple[str, ...]:
    """Return the names of the positions of the joints that move."""
    moving = [j for j in robot.joints if robot.options.of(j).position is None]
    return tuple(f"q.{j}" for j in moving)


def effort_signals(robot: Robot, recording: Recording) -> tuple[tuple[str, int, float], ...]:
    """Return signal, channel and factor of each measured effort in a recording.

    A torque is taken where it is logged, else a current times its gain.

    Args:
        robot: Its options hold the gains.

    Returns:
        For each measured joint the signal's name, its channel's position among the robot's, and
        the factor that makes it an effort: 1 or the gain [N·m/A].

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
        _refuse_missing(
            robot,
            recording,
            [f"tau.{j}" for j in missing],
            f"is what a joint's drive measures, or current.{missing[0]} and its gain",
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
    """Return the names of the positions of motors behind elastic gears.

    Args:
        joints: Positions of the joints among the robot's.

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
        _refuse_missing(
            robot,
            recording,
            missing,
            "says where a joint is",
            "where it stood still, say so in the file of --with (and where: position = …):\n"
            + joint_lines([n.partition(".")[2] for n in missing], "fixed = true"),
        )


def _refuse_missing(
    robot: Robot, recording: Recording, names: Sequence[str], purpose: str, cure: str
) -> None:
    own = {f"{kind}.{j}" for kind in ("q", "tau") for j in robot.joints}
    recording.require(names, purpose, own, cure)


def inputs(robot: Robot, recording: Recording, measured: bool = True) -> Inputs:
    """Return joint positions, and torques or currents.

    Args:
        measured: Whether efforts are needed, or motion alone.

    Raises:
        MissingSignal: If one is not there.
        InvalidSetting: If the base floats: `FloatingRobotPlant` takes its motion, too.
    """
    if robot.tree.free_base:
        raise InvalidSetting(
            "this is known of a fixed base only: what contacts take of a floating one is not told "
            "by the torque of its joints",
            argument='base = "free"',
            cure="leave --matched out of heft payload; or hang the robot up or clamp it, and say "
            'base = "fixed"',
        )
    return joint_inputs(robot, recording, measured)


def joint_inputs(robot: Robot, recording: Recording, measured: bool = True) -> Inputs:
    """Return joint positions, and torques or currents, whatever the base does.

    Args:
        measured: Whether efforts are needed, or motion alone.

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
