"""Motions that are to be run: logs with positions, or a JointTrajectory as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidRecording, InvalidSetting, MissingSignal, did_you_mean
from heft.models import joint_lines
from heft.recordings import ColumnMap, JointTrajectory, Recording
from heft.simulation import Arm, Knots

KINDS = ("q", "v", "a")  # of signals: position, velocity, acceleration
FEWEST = 4  # samples of a motion
UNLIKE = 0.1  # rms of v against q's own derivative, relative, from which it is another signal
TOUCHES = 1e-6  # [rad or m] beyond a limit that is rounding
GRID, WINGS = 4, 5  # steps a width of a low-pass's window, and widths that it reaches to each side


@dataclass(frozen=True, eq=False)
class Demanded:
    """A motion as a file states it."""

    path: Path  # the file
    time: Array  # increasing, shape (N,) [s]
    q: Mapping[str, Array]  # positions by joint, shape (N,) [rad or m]
    v: Mapping[str, Array]  # velocities by joint; empty if not stated
    a: Mapping[str, Array]  # accelerations by joint; empty if not stated

    @property
    def duration(self) -> float:
        """Time from the first sample to the last [s]."""
        return float(self.time[-1] - self.time[0])

    def smoothed(self, corner: float) -> Demanded:
        """Return the positions through a Gaussian low-pass, without their stated derivatives.

        Args:
            corner: Cutoff frequency, at which the gain is 1/√2 [Hz].
        """
        width = np.sqrt(np.log(2.0)) / (2.0 * np.pi * corner)
        step = width / GRID
        time = self.time[0] + step * np.arange(round(self.duration / step) + 1)
        reach = np.arange(-WINGS * GRID, WINGS * GRID + 1)
        kernel = np.exp(-0.5 * (reach / GRID) ** 2)
        kernel /= kernel.sum()

        def passed(values: Array) -> Array:
            even = np.pad(np.interp(time, self.time, values), WINGS * GRID, mode="edge")
            return np.convolve(even, kernel, mode="valid")

        return replace(self, time=time, q={j: passed(x) for j, x in self.q.items()}, v={}, a={})

    def knots(self, arm: Arm, still: Mapping[str, float]) -> Knots:
        """Return the motion of a robot's joints, from time 0 on.

        Args:
            still: Positions of joints that do not move, by name [rad or m].

        Raises:
            InvalidRecording: If the motion is of other joints, or its velocities are not those of
                its positions.
            MissingSignal: If it lacks joints.
        """
        self._refuse_other_joints(arm.joints, still)
        count = len(self.time)
        q = np.stack([self.q.get(j, np.full(count, still.get(j, 0.0))) for j in arm.joints], 1)
        v, a = self._stacked(self.v, arm.joints), self._stacked(self.a, arm.joints)
        time = self.time - self.time[0]
        if v is not None:
            self._refuse_unlike(arm.joints, time, q, v)
        return Knots.through(time, q, v, None if v is None else a, (arm.lower, arm.upper))

    def _stacked(self, given: Mapping[str, Array], joints: Sequence[str]) -> Array | None:
        """Return derivatives of all joints, shape (N, joints); None if one is not stated."""
        if not given or any(j in self.q and j not in given for j in joints):
            return None
        zero = np.zeros(len(self.time))
        return np.stack([given.get(j, zero) for j in joints], 1)

    def _refuse_other_joints(self, joints: Sequence[str], still: Mapping[str, float]) -> None:
        unknown = [j for j in self.q if j not in joints]
        if unknown:
            raise InvalidRecording(
                "the motion moves joints that the robot does not have",
                argument=str(self.path),
                got=", ".join(unknown[:8]),
                valid=joints,
                cure=did_you_mean(unknown[0], joints),
            )
        missing = [j for j in joints if j not in self.q and j not in still]
        if missing:
            raise MissingSignal(
                "the motion does not say where all joints are",
                argument=str(self.path),
                got=", ".join(self.q) or "no joint",
                expected=", ".join(f"q.{j}" for j in missing[:8]),
                cure="add them to the motion, or let them stand still in the file of --with:\n"
                + joint_lines(missing[:4], "position = 0.0"),
            )

    def _refuse_unlike(self, joints: Sequence[str], time: Array, q: Array, v: Array) -> None:
        steps = np.diff(time)[:, None]
        moved, made = np.diff(q, axis=0), 0.5 * steps * (v[1:] + v[:-1])
        size = np.sqrt(np.mean(moved**2, axis=0))
        miss = np.sqrt(np.mean((moved - made) ** 2, axis=0))
        worst = int(np.argmax(miss - UNLIKE * size))
        if miss[worst] > UNLIKE * size[worst] + 1e-9:
            raise InvalidRecording(
                "the motion's velocities are not those of its positions",
                argument=f"{self.path}, v.{joints[worst]}",
                got=f"{miss[worst] / max(size[worst], 1e-12):.0%} of a step's way is missed",
                expected=f"at most {UNLIKE:.0%}",
                cure="leave the columns v.* and a.* out: they are made from the positions",
            )


def read_motion(path: Path, column_map: Path | None = None, joints: Sequence[str] = ()) -> Demanded:
    """Read a motion from a log or a JointTrajectory, as JSON or in an MCAP file.

    Args:
        path: A log of any format with `t` and `q.<joint>`, with `v.` and `a.` if they are known; or
            JSON with `joint_names` and `points`, as `trajectory_msgs/JointTrajectory` has them; or
            MCAP with one such message.
        joints: Names of the robot's joints, for logs that number theirs.

    Raises:
        InvalidRecording: If it cannot be read, is too short, or its times do not increase.
        MissingSignal: If it holds no positions.
    """
    kind = path.suffix.lower()
    commanded = JointTrajectory.read_json(path) if kind == ".json" else None
    if kind == ".mcap" and path.is_file():
        commanded = JointTrajectory.read_mcap(path)  # None if it is a log
    if commanded is not None:
        columns = commanded.columns()
        return _checked(Demanded(path, columns["t"], *_by_kind(columns)))
    recording = Recording.open(
        path, ColumnMap.from_toml(column_map) if column_map else None, joints
    )
    signals = [x for x in recording.signals if x.partition(".")[0] in KINDS]
    if not any(x.startswith("q.") for x in signals):
        raise MissingSignal(
            "the motion holds no positions",
            argument=str(path),
            got=", ".join(recording.signals[:8]) or None,
            expected="q.<joint>",
        )
    rows = recording.whole(signals)
    columns = dict(zip(signals, rows.values.T, strict=True))
    return _checked(Demanded(path, rows.time, *_by_kind(columns)))


def _by_kind(columns: Mapping[str, Array]) -> list[dict[str, Array]]:
    return [
        {n.partition(".")[2]: x for n, x in columns.items() if n.startswith(f"{kind}.")}
        for kind in KINDS
    ]


def _checked(motion: Demanded) -> Demanded:
    where = str(motion.path)
    if len(motion.time) < FEWEST:
        raise InvalidRecording(
            "the motion is too short",
            argument=where,
            got=f"{len(motion.time)} samples",
            expected=f"at least {FEWEST}",
        )
    if not np.isfinite(motion.time).all() or (np.diff(motion.time) <= 0.0).any():
        row = int(np.argmax(~(np.diff(motion.time) > 0.0)))
        raise InvalidRecording(
            "the motion's times do not increase",
            argument=where,
            got=f"{motion.time[row]:g} s, then {motion.time[row + 1]:g} s, in row {row + 2}",
        )
    for kind, given in (("q", motion.q), ("v", motion.v), ("a", motion.a)):
        for joint, values in given.items():
            if not np.isfinite(values).all():
                raise InvalidRecording(
                    "the motion holds numbers that are not finite",
                    argument=f"{where}, {kind}.{joint}",
                    got=f"at {motion.time[np.argmin(np.isfinite(values))]:g} s",
                )
    return motion


def refuse_beyond_limits(path: Path, motion: Knots, arm: Arm, duration: float) -> None:
    """Raise `InvalidSetting` if a motion leaves the joints' limits of position or speed.

    Args:
        motion: From time 0 on; the ways from rest and to rest are not checked.
    """
    time = np.arange(0.0, duration, 2e-3)
    q, v, _ = motion(time)
    for what, unit, values, lower, upper in (
        ("position", "rad (or m)", q, arm.lower, arm.upper),
        ("speed", "rad/s (or m/s)", v, -arm.speed, arm.speed),
    ):
        beyond = np.maximum(values - upper, lower - values)
        if not (beyond > TOUCHES).any():
            continue
        row, joint = np.unravel_index(np.argmax(beyond), beyond.shape)
        others = [j for j, b in zip(arm.joints, beyond.max(axis=0), strict=True) if b > TOUCHES]
        raise InvalidSetting(
            f"the motion leaves the limits of {what}",
            argument=f"{path}, {arm.joints[joint]}",
            got=f"{values[row, joint]:.4g} {unit} at {time[row]:.3f} s; "
            f"beyond limits: {', '.join(others[:8])}",
            expected=f"{lower[joint]:.4g} to {upper[joint]:.4g}",
            cure="plan a smaller or slower motion, or, if the model file's limits are not the "
            "robot's, limits = false in [simulation]",
        )
