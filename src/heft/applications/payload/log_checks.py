"""Plausibility checks of payload logs before identification, and their concatenation.

Signals that no sensor could have measured raise an error with the evidence; what only degrades the
estimate is a finding, and rows that are no measurements are left out. Several logs of one payload
are concatenated in time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import InvalidRecording, TooLittleData
from heft.information import Finding, continuous_quaternions
from heft.plants import CHANNELS, Held
from heft.streams import Alignment, Changes, Device, Standstill, repeated, unchanged_since

STILL = 0.02  # [rad/s] below which nothing turns
FROZEN = 0.5  # [s] for which a noisy signal does not repeat itself
STUCK = 5  # samples in a row at a signal's extreme that make it a limit
LONGEST = 2.0  # [m] from a sensor to a centre of mass
FASTEST = 20.0  # [m/s] at which anything that holds a load moves
APART = 1.0  # [s] between logs that are put one behind the other
LIKE = 1.2  # between the rates of logs that are weighed together
UNITS = {"force": "N", "torque": "N·m", "acc": "m/s²", "omega": "rad/s", "pos": "m"}


@dataclass(frozen=True)
class Watch:
    """Criteria by which samples count as frozen."""

    # time for which all signals of a kind, such as three forces, may repeat themselves [s]; that of
    # live samples
    kind: float = Alignment(()).frozen
    alone: float = 0.5  # time for which a signal may while others of its kind change [s]
    # how what may stand still is told from what is frozen, and what is usual in a log whose values
    # are coarse, or that was logged more often than measured; see `streams.Standstill`
    standstill: Standstill = Alignment(()).standstill

    def frozen(self, device: Device, time: Array, values: Array) -> NDArray[np.bool_]:
        """Return which samples are of frozen stretches, by signal, shape (N, signals).

        Args:
            time: Shape (N,) [s].
            values: Without NaN, shape (N, signals).
        """
        frozen = np.zeros(values.shape, dtype=bool)
        if len(time) < 2:
            return frozen
        alone = tuple((k,) for k in range(values.shape[1]))
        for groups, longest in ((device.kinds, self.kind), (alone, self.alone)):
            every = unchanged_since(time, values, groups)
            for group, since in zip(groups, every.T, strict=True):
                begins = np.flatnonzero(since == time)
                changes = Changes(time[begins], values[begins][:, list(group)])
                bad = repeated(time, since, self.standstill.longest(changes, longest))
                if bad.any() and not device.noisy:
                    jumps = self.standstill.jumps(changes)
                    bad &= np.repeat(jumps, np.diff([*begins, len(values)]))
                frozen[:, list(group)] |= bad[:, None]
        return frozen


WATCH = Watch()


def usable(
    device: Device, time: Array, values: Array, moving: bool = True, watch: Watch = WATCH
) -> tuple[NDArray[np.bool_], list[Finding]]:
    """Return which rows are measurements of a device, shape (N,), and findings about the others.

    Left out are those without numbers or beyond all bounds, and stretches that repeat themselves: a
    sensor that is frozen, or tells zeros, and a pose that a tracker holds. The same is done live,
    by `streams.Alignment`. What no noise tells (joints, poses) may stand still; it is frozen only
    if it jumps where it begins or ends to do so.

    Args:
        time: Shape (N,) [s].
        values: Shape (N, signals).
        moving: Whether the log is of a motion; poses one by one may be alike.

    Raises:
        InvalidRecording: If no row is.
    """
    good, findings = device.plausible(values), []
    if not good.all():
        findings.append(_said("no numbers", f"'{device.name}' tells no numbers", time, ~good))
    if moving and good.any():
        places = np.flatnonzero(good)
        seen = values[good]
        if device.quaternion:  # its sign says nothing, and would be a jump
            seen[:, device.quaternion] = continuous_quaternions(seen[:, device.quaternion])
        frozen = watch.frozen(device, time[good], seen)
        rows = frozen.any(axis=1)
        if rows.any():
            bad = np.zeros(len(time), dtype=bool)
            bad[places[rows]] = True
            what = _what(device, values[good], frozen)
            findings.append(_said("frozen", f"'{device.name}' repeats itself ({what})", time, bad))
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


def _said(name: str, what: str, time: Array, bad: NDArray[np.bool_]) -> Finding:
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


def is_still(held: Held) -> bool:
    """Return whether the samples are static poses: neither turning nor moving."""
    turning = float(np.sqrt(np.mean(held.angular_velocity**2)))
    return turning < STILL and float(np.median(np.abs(held.velocity))) < STILL


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
        end = float(time[-1]) + max(APART, 10.0 * float(np.median(np.diff(time))))
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
    if not is_still(logs[0]) and max(steps) > LIKE * min(steps):
        raise InvalidRecording(
            "logs of different rates are not weighed together",
            argument="LOGS",
            got=", ".join(f"{1.0 / step:.4g} Hz" for step in steps),
            cure="weigh them apart",
        )


def require_usable(held: Held) -> None:
    """Require plausible signals of wrench and motion.

    Raises:
        InvalidRecording: If samples are not finite, time does not increase, speeds or lever arms
            are beyond any payload's, or a channel is frozen.
        TooLittleData: If there are fewer than three samples.
    """
    for name, values in vars(held).items():
        if not np.isfinite(values).all():
            raise InvalidRecording(
                "samples are not finite", argument=name, cure="leave those rows out"
            )
    if len(held.time) < 3:
        raise TooLittleData("the log is too short to weigh anything", got=f"{len(held.time)} rows")
    back = np.flatnonzero(np.diff(held.time) <= 0.0)
    if len(back):
        raise InvalidRecording(
            "the clock goes back or stands",
            argument="t",
            got=f"at row {back[0] + 1}, {held.time[back[0]] - held.time[0]:.6g} s after the first "
            f"row, by {held.time[back[0]] - held.time[back[0] + 1]:.3g} s",
            cure="sort the rows, or cut the log there",
        )
    speed = float(np.sqrt(np.mean(np.sum(held.velocity**2, axis=1))))
    if speed > FASTEST:
        raise InvalidRecording(
            "the sensor moves faster than anything that holds a load",
            argument="position",
            got=f"{speed:.4g} m/s, root mean square",
            expected=f"within {FASTEST:g} m/s",
            cure="positions may be in mm: give their unit in the column map",
        )
    force, moment = (np.std(held.wrench[:, g], axis=0) for g in (slice(0, 3), slice(3, 6)))
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
    if is_still(held):
        return
    step = float(np.median(np.diff(held.time)))
    for k, channel in enumerate(CHANNELS):
        values = held.wrench[:, k]
        longest, at = _longest_run(values)
        if longest * step > FROZEN and longest > STUCK:
            raise InvalidRecording(
                "the sensor is frozen",
                argument=channel,
                got=f"{values[at]:.6g} for {longest * step:.3g} s from {held.time[at]:.3f} s on",
                cure="leave that time out, or look at the sensor",
            )


def notice(held: Held) -> Iterator[Finding]:
    """Yield findings about signals that degrade the estimate, such as saturation of a channel."""
    if is_still(held):
        return
    for k, channel in enumerate(CHANNELS):
        values = held.wrench[:, k]
        for end in (values.max(), values.min()):
            longest, at = _longest_run(np.where(values == end, 1.0, np.nan))
            if longest >= STUCK:
                yield Finding(
                    "saturated",
                    f"{channel} stays at {end:.6g} for {longest} samples at {held.time[at]:.3f} s: "
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
