"""Logs of a load: what is read of them, whether it is plausible, and how several become one.

Signals that no sensor could have measured raise an error with the evidence; what only degrades the
estimate is a finding, and rows that are no measurements are left out. Several logs of one payload
are concatenated in time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heft import signals
from heft.arrays import Array
from heft.errors import InvalidRecording, MissingSignal, TooLittleData
from heft.information import Finding, continuous_quaternions, matrix_of_quaternion
from heft.models import Robot
from heft.plants import CHANNELS, Held
from heft.recordings import Recording
from heft.signals import Smoothing
from heft.streams import (
    Alignment,
    Changes,
    Device,
    jumping,
    longest_accepted,
    repeated,
    unchanged_since,
)

from .estimate import LONGEST
from .sensors import (
    Motion,
    Sensors,
    by_pose,
    devices_of,
    estimated_noise,
    joined,
    motion_of,
    on_load,
)

SLOW_POSES = 0.5  # [s] between samples that are poses, not a motion
STILL = 0.02  # [rad/s] below which nothing turns
FROZEN = 0.5  # [s] for which a noisy signal does not repeat itself while others of its kind change
LIVE = Alignment(())  # whose criteria of frozen samples are those of logs too
SIDE = 5  # samples on each side of a jump
REST, NEARLY = 5.0, 0.1  # times the usual, and of the jump: what a zeroed sensor may still tell
STUCK = 5  # samples in a row at a signal's extreme that make it a limit
FASTEST = 20.0  # [m/s] at which anything that holds a load moves
UNITS = {"force": "N", "torque": "N·m", "acc": "m/s²", "omega": "rad/s", "pos": "m"}


@dataclass(frozen=True, eq=False)
class Sensed:
    """Wrench and motion of a load, from a log."""

    held: Held  # wrench and motion in the first wrench sensor's frame, of the rows that can be used
    # standard deviation of each wrench sensor's force [N] and moment [N·m], from its own samples;
    # all equal where poses one by one show none
    noise: tuple[tuple[float, float], ...]
    findings: tuple[Finding, ...]  # what was left out, and where a sensor was zeroed
    # times after which a sensor that was zeroed has another bias [s]; its wrench is moved to that
    # of the last, as far as the jump tells
    zeroed: tuple[float, ...] = ()


def read(recording: Recording, sensors: Sensors, robot: Robot | None = None) -> Sensed:
    """Return the wrench on a load and its motion, in the first wrench sensor's frame.

    Rows in which a sensor tells no numbers, or is frozen, are left out; see `usable`.

    Args:
        robot: Model whose joints give the motion, if neither an inertial sensor nor a pose does.

    Raises:
        MissingSignal: If a wrench, or every source of motion, is missing.
        InvalidRecording: If no row of a device can be used.
    """
    pose = by_pose(sensors)
    posed = sensors.imu is None and all(n in recording.sources for n in pose.names[:4])
    if not posed and sensors.imu is None and robot is None:
        frames = [n.split(".")[1] for n in recording.sources if n.startswith("quat.")]
        raise MissingSignal(
            "nothing tells how the sensor moves",
            argument=recording.name,
            valid=recording.signals,
            expected=f"{pose.names[0]} … (a pose), an inertial sensor, or joints and a robot",
            cure=f"the pose is that of {frames[0]}: name the same frame in the file of --sensor"
            if frames
            else "add [sensor.imu] to the file of --sensor, or give --robot",
        )
    motion = pose if posed else motion_of(sensors, robot)
    if posed and not all(n in recording.sources for n in pose.names[4:]):
        motion = replace(motion, names=motion.names[:4])
    devices = devices_of(sensors, motion)
    time, values = _read(recording, [n for d in devices for n in d.names])
    step = float(np.median(np.diff(time))) if len(time) > 1 else 1.0
    still = posed and step > SLOW_POSES
    parts = np.split(values, np.cumsum([len(d.names) for d in devices])[:-1], axis=1)
    seen = [usable(d, time, v, not still) for d, v in zip(devices, parts, strict=True)]
    findings = tuple(f for _, some in seen for f in some)
    zeroed: list[float] = []
    for device, v, (good, _) in zip(devices[:-1], parts, seen, strict=False):
        if step < SLOW_POSES:
            for jump in jumps(time[good], v[good]):
                if jump.to_zero:
                    findings += (_zeroed(device.name, jump),)
                    v[time <= jump.time] += jump.size
                    at = jump.time - device.delay
                    # within a second of another time jumps say enough
                    if min(abs(at - t) for t in (time[0], time[-1], *zeroed)) > 1.0:
                        zeroed.append(at)
    *masks, moves = (good for good, _ in seen)
    late = [
        _undelayed(time, v, good, d.delay)
        for d, v, good in zip(devices, parts, masks, strict=False)
    ]
    good = np.logical_and.reduce([mask for _, mask in late])
    wrench = on_load(sensors, np.concatenate([w for w, _ in late], axis=1))
    noise = tuple(
        (1.0, 1.0) if still or mask.sum() < 3 else estimated_noise(v[mask])
        for v, mask in zip(parts, masks, strict=False)
    )
    held = None if still else _moving(motion, time, wrench, parts[-1], good, moves, step)
    if held is None or (is_unplaced(held) and is_still(held)):
        rows = good & moves
        rotation = matrix_of_quaternion(parts[-1][rows, :4])
        gravity = np.einsum("nji,j->ni", rotation, np.array(sensors.gravity))
        held = Held.at_rest(time[rows], wrench[rows], gravity, np.swapaxes(rotation, 1, 2))
    return Sensed(held, noise, findings, tuple(sorted(zeroed)))


class Jump(NamedTuple):
    """A wrench that jumps between two samples."""

    time: float  # of the sample before [s]
    size: Array  # shape (6,) [N, N·m]
    to_zero: bool  # in all signals: the sensor was zeroed, or a load dropped and the bias none
    likelihood: float  # sum of squares over what is usual


def jumps(time: Array, wrench: Array) -> list[Jump]:
    """Return where lines through the samples before and after do not meet; wrench (N, 6)."""
    count = len(time) - 2 * SIDE + 1
    if count < 2:
        return []
    line = np.stack([np.ones(SIDE), np.arange(SIDE) + 0.5], axis=1)
    ahead = np.lib.stride_tricks.sliding_window_view(wrench, SIDE, axis=0)
    behind = np.linalg.pinv(line)[0]
    after, before = ahead[SIDE:] @ behind, ahead[:count] @ behind[::-1]
    jump = after - before
    usual = 1.4826 * np.median(np.abs(jump), axis=0) + 1e-12
    size, rest = (np.linalg.norm(x.reshape(-1, 2, 3), axis=2) for x in (jump, after))
    noise = np.linalg.norm(usual.reshape(2, 3), axis=1)
    to_zero = (rest <= REST * noise + NEARLY * size).all(axis=1)
    # a jump is ten times what is usual
    hits = np.flatnonzero((np.abs(jump) > 10.0 * usual).any(axis=1))
    steps = np.sum((np.diff(wrench, axis=0)[SIDE - 1 :][:count] / usual) ** 2, axis=1)
    groups = np.split(hits, np.flatnonzero(np.diff(hits) > SIDE) + 1) if len(hits) else []
    places = [int(group[np.argmax(steps[group])]) for group in groups]
    return [
        Jump(float(time[k + SIDE - 1]), jump[k], bool(to_zero[k]), float(steps[k])) for k in places
    ]


def _zeroed(name: str, jump: Jump) -> Finding:
    force, moment = np.linalg.norm(jump.size.reshape(2, 3), axis=1)
    return Finding(
        "zeroed",
        f"'{name}' was zeroed (tared) under load at {jump.time:.3f} s: all its signals jump to "
        f"zero, by {force:.3g} N and {moment:.2g} N·m. Its bias begins anew there. Zero it before "
        "a log",
    )


def _moving(
    motion: Motion,
    time: Array,
    wrench: Array,
    values: Array,
    good: NDArray[np.bool_],
    moves: NDArray[np.bool_],
    step: float,
) -> Held:
    """Return wrench and motion where both are usable; differentiated piece by piece if need be.

    Args:
        wrench: On the load, shape (N, 6) [N, N·m].
        values: Of the motion's signals, shape (N, signals).
        good, moves: Where wrench and motion are usable, shape (N,) each.
        step: Usual time step of the log [s].
    """
    if not motion.slopes:
        rows = good & moves
        return motion.make(time[rows], wrench[rows], values[rows], np.zeros((int(rows.sum()), 0)))
    time, wrench, values, good = time[moves], wrench[moves], values[moves], good[moves]
    if motion.names[0].startswith("quat."):  # smoothing would round off a jump of its sign
        values = np.hstack([continuous_quaternions(values[:, :4]), values[:, 4:]])
    signal = [n.partition(".") for n in motion.names]
    columns: dict[str, dict[str, Array]] = {kind: {} for kind, _, _ in signal}
    for (kind, _, rest), column in zip(signal, values.T, strict=True):
        columns[kind][rest] = column
    usual = Recording.from_arrays(time, "motion", **columns)
    smoothing = signals.resolve(Smoothing(), [usual], motion.names)
    assert smoothing.corner is not None
    corner, order = smoothing.corner, smoothing.order
    pieces = list(signals.between_gaps(time, signals.GAP_STEPS * step))
    long = [p for p in pieces if p.stop - p.start >= 2 * signals.REACH + 2]
    parts = []
    for piece in long or pieces:
        smooth = signals.smooth(time[piece], values[piece], step, corner, order)
        made = motion.make(time[piece], wrench[piece], smooth.position, smooth.velocity)
        parts.append(made.part(np.flatnonzero(good[piece])))
    return joined(*parts)


def _undelayed(
    time: Array, values: Array, good: NDArray[np.bool_], delay: float
) -> tuple[Array, NDArray[np.bool_]]:
    """Return signals that come late by a delay [s] at their own times, and where they are usable.

    Signals that are not usable are zero, or interpolated between others that are not either.
    """
    values = np.where(good[:, None], values, 0.0)
    if not delay:
        return values, good
    at = time + delay
    moved = np.stack([np.interp(at, time, column) for column in values.T], axis=1)
    return moved, np.interp(at, time, (~good).astype(float)) == 0.0


def _read(recording: Recording, names: Sequence[str]) -> tuple[Array, Array]:
    """Return time, shape (N,), and signals, shape (N, names), of the rows that have a time."""
    for name in names:
        recording.require(name, "is what the load is weighed by")
    log = recording.whole(names)
    good = np.isfinite(log.time)
    return log.time[good], log.values[good]


def frozen(device: Device, time: Array, values: Array) -> NDArray[np.bool_]:
    """Return which values without NaN are of frozen stretches, shape (N, signals)."""
    rows = np.zeros(values.shape, dtype=bool)
    if len(time) < 2:
        return rows
    alone = tuple((k,) for k in range(values.shape[1]))
    for groups, longest in ((device.kinds, LIVE.frozen), (alone, FROZEN)):
        every = unchanged_since(time, values, groups)
        for group, since in zip(groups, every.T, strict=True):
            begins = np.flatnonzero(since == time)
            changes = Changes(time[begins], values[begins][:, list(group)])
            bad = repeated(time, since, longest_accepted(changes, longest))
            if bad.any() and not device.noisy:
                bad &= np.repeat(jumping(changes), np.diff([*begins, len(values)]))
            rows[:, list(group)] |= bad[:, None]
    return rows


def usable(
    device: Device, time: Array, values: Array, moving: bool = True
) -> tuple[NDArray[np.bool_], list[Finding]]:
    """Return which rows are measurements of a device, shape (N,), and findings about the others.

    Left out are those without numbers or beyond all bounds, and stretches that repeat themselves: a
    sensor that is frozen, or tells zeros, and a pose that a tracker holds. The same is done live,
    by `streams.Alignment`. What no noise tells (joints, poses) may stand still; it is frozen only
    if it jumps where it begins or ends to do so.

    Args:
        values: Shape (N, signals).
        moving: Whether the log is of a motion; poses one by one may be alike.

    Raises:
        InvalidRecording: If no row is.
    """
    good, findings = device.plausible(values), []
    if not good.all():
        findings.append(left_out("no numbers", f"'{device.name}' tells no numbers", time, ~good))
    if moving and good.any():
        places = np.flatnonzero(good)
        seen = values[good]
        if device.quaternion:  # its sign says nothing, and would be a jump
            seen[:, device.quaternion] = continuous_quaternions(seen[:, device.quaternion])
        repeating = frozen(device, time[good], seen)
        rows = repeating.any(axis=1)
        if rows.any():
            bad = np.zeros(len(time), dtype=bool)
            bad[places[rows]] = True
            what = f"'{device.name}' repeats itself ({_what(device, values[good], repeating)})"
            findings.append(left_out("frozen", what, time, bad))
            good &= ~bad
    if not good.any() and findings:
        raise InvalidRecording(
            "the sensor is frozen" if findings[-1].name == "frozen" else "samples are not finite",
            argument=device.name,
            got=findings[-1].message,
            cure="look at the sensor, and at the column map",
        )
    return good, findings


def _what(device: Device, values: Array, frozen: NDArray[np.bool_]) -> str:
    """Return a text that names the first frozen signal with its value, and how many more are."""
    columns = np.flatnonzero(frozen.any(axis=0))
    first = int(columns[0])
    row = int(np.flatnonzero(frozen[:, first])[0])
    unit = UNITS.get(device.names[first].partition(".")[0], "")
    at = f"{device.names[first]} at {values[row, first]:.6g} {unit}".strip()
    return at if len(columns) == 1 else f"{at}, and {len(columns) - 1} more"


def left_out(name: str, what: str, time: Array, bad: NDArray[np.bool_]) -> Finding:
    """Return the finding that `bad` rows, shape (N,), are left out, with their longest stretch."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], bad.astype(int), [0]])))
    begins, ends = edges[::2], edges[1::2] - 1
    longest = int(np.argmax(ends - begins))
    share = 100.0 * float(np.mean(bad))
    lasts = time[ends[longest]] - time[begins[longest]]
    many = "" if len(begins) == 1 else f", the longest of {len(begins)} times"
    return Finding(
        name,
        f"{what} from {time[begins[longest]]:.3f} s on for {lasts:.3g} s{many}: {int(bad.sum())} "
        f"rows, {share:.2g} % of the log, are left out",
    )


def is_still(log: Held) -> bool:
    """Return whether the samples are static poses: neither turning nor moving."""
    turning = float(np.sqrt(np.mean(log.angular_velocity**2)))
    travelling = 0.0 if is_unplaced(log) else float(np.median(np.abs(log.velocity)))
    return turning < STILL and travelling < STILL


def is_unplaced(log: Held) -> bool:
    """Return whether nothing tells where the sensor is, or how fast it travels."""
    return bool(log.velocity.shape[1] == 0)


def one_behind_another(logs: Sequence[Held]) -> tuple[Held, ...]:
    """Concatenate logs on one clock, with gaps between them.

    The clock of static poses is rescaled to a second a pose or less: it matters only for drift,
    which is measured relative to its whole length.
    """
    unit = 1.0
    if is_still(logs[0]):
        unit = max(float(np.median(np.diff(log.time))) for log in logs)
    elif len(logs) == 1:
        return (logs[0],)
    end, moved = 0.0, []
    for log in logs:
        time = (log.time - log.time[0]) / unit + end
        end = float(time[-1]) + max(1.0, 10.0 * float(np.median(np.diff(time))))
        moved.append(replace(log, time=time))
    return tuple(moved)


def require_alike(logs: Sequence[Held]) -> None:
    """Require that logs can be combined.

    Raises:
        InvalidRecording: If some are static poses and others move, or if their rates differ.
    """
    if len({is_still(log) for log in logs}) > 1:
        raise InvalidRecording(
            "some logs are poses at rest, and others move",
            argument="LOGS",
            got=", ".join("at rest" if is_still(log) else "moving" for log in logs),
            cure="weigh them apart",
        )
    steps = [float(np.median(np.diff(log.time))) for log in logs]
    if not is_still(logs[0]) and max(steps) > 1.2 * min(steps):
        raise InvalidRecording(
            "logs of different rates are not weighed together",
            argument="LOGS",
            got=", ".join(f"{1.0 / step:.4g} Hz" for step in steps),
            cure="weigh them apart",
        )


def require_usable(log: Held) -> None:
    """Require plausible signals of wrench and motion.

    Raises:
        InvalidRecording: If samples are not finite, time does not increase, speeds or lever arms
            are beyond any payload's, or a channel is frozen.
        TooLittleData: If there are fewer than three samples.
    """
    for name, values in vars(log).items():
        if not np.isfinite(values).all():
            raise InvalidRecording(
                "samples are not finite", argument=name, cure="leave those rows out"
            )
    if len(log.time) < 3:
        raise TooLittleData("the log is too short to weigh anything", got=f"{len(log.time)} rows")
    back = np.flatnonzero(np.diff(log.time) <= 0.0)
    if len(back):
        raise InvalidRecording(
            "the clock goes back or stands",
            argument="t",
            got=f"at row {back[0] + 1}, {log.time[back[0]] - log.time[0]:.6g} s after the first "
            f"row, by {log.time[back[0]] - log.time[back[0] + 1]:.3g} s",
            cure="sort the rows, or cut the log there",
        )
    speed = float(np.sqrt(np.mean(np.sum(log.velocity**2, axis=1))))
    if speed > FASTEST:
        raise InvalidRecording(
            "the sensor moves faster than anything that holds a load",
            argument="position",
            got=f"{speed:.4g} m/s, root mean square",
            expected=f"within {FASTEST:g} m/s",
            cure="positions may be in mm: give their unit in the column map",
        )
    force, moment = (np.std(log.wrench[:, g], axis=0) for g in (slice(0, 3), slice(3, 6)))
    lever = float(np.linalg.norm(moment)) / max(float(np.linalg.norm(force)), 1e-300)
    if lever > LONGEST:
        raise InvalidRecording(
            "moments change as if forces acted farther away than anything that is held",
            argument="torque",
            got=f"{np.linalg.norm(moment):.4g} N·m beside {np.linalg.norm(force):.4g} N: a lever "
            f"of {lever:.4g} m",
            expected=f"within {LONGEST:g} m",
            cure="they may be in N·mm: give their unit in the column map",
        )
    if is_still(log):
        return
    step = float(np.median(np.diff(log.time)))
    for k, channel in enumerate(CHANNELS):
        values = log.wrench[:, k]
        longest, at = _longest_run(values)
        if longest * step > FROZEN and longest > STUCK:
            raise InvalidRecording(
                "the sensor is frozen",
                argument=channel,
                got=f"{values[at]:.6g} for {longest * step:.3g} s from {log.time[at]:.3f} s on",
                cure="leave that time out, or look at the sensor",
            )


def notice(log: Held) -> Iterator[Finding]:
    """Yield findings about signals that degrade the estimate, such as saturation of a channel."""
    if is_still(log):
        return
    for k, channel in enumerate(CHANNELS):
        values = log.wrench[:, k]
        for end in (values.max(), values.min()):
            longest, at = _longest_run(np.where(values == end, 1.0, np.nan))
            if longest >= STUCK:
                yield Finding(
                    "saturated",
                    f"{channel} stays at {end:.6g} for {longest} samples at {log.time[at]:.3f} s: "
                    "its limit? Such rows bias what is weighed",
                )
                break


def _longest_run(values: Array) -> tuple[int, int]:
    """Return the length and the start of the longest run of one value."""
    same = np.concatenate([[False], np.diff(values) == 0.0, [False]])
    edges = np.flatnonzero(np.diff(same.astype(int)))
    if not len(edges):
        return 1, 0
    lengths = edges[1::2] - edges[::2]
    longest = int(np.argmax(lengths))
    return int(lengths[longest]) + 1, int(edges[::2][longest])
