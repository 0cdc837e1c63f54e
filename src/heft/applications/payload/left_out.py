"""Rows of a log that a device's own samples show to be no measurements, left out and said.

Those without numbers or beyond all bounds, and stretches that repeat themselves: a sensor that is
frozen, or tells zeros, and a pose that a tracker holds. The same is done live, by
`streams.Alignment`. What no noise tells (joints, poses) may stand still; it is frozen only if it
jumps where it begins or ends to do so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.errors import InvalidRecording
from heft.information import Finding, continuous_quaternions
from heft.streams import (
    Alignment,
    Changes,
    Device,
    Standstill,
    repeated,
    unchanged_since,
)

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
