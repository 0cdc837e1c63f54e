"""The Crazyflie's logs as recordings: rotor speeds in, motion capture out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from scipy.spatial.transform import Rotation
from tests.rotorcraft import rotor_recording

from heft.arrays import Array
from heft.flight.flight_log import hold_times, mean_thrust
from heft.recordings import Recording

AIRBORNE = 0.3  # height above which it flies [m]
RPM = 2.0 * np.pi / 60.0 / 6.0  # rotor's rad/s of one electrical turn a minute, six pole pairs
AXES = ("w", "x", "y", "z")
FRAME = "crazyflie"
LAGS = np.arange(0.0, 0.1205, 0.001)  # tried [s]


def reference(folder: Path) -> dict[str, float]:
    """Return what its makers and the benchmark's authors state."""
    stated: dict[str, float] = json.loads((folder / "model_reference.json").read_text())
    return stated


def mixing(stated: dict[str, float], thrust: float | None = None) -> Array:
    """Return the wrench by the squares of the rotors' speeds, shape (6, 4) [N·s², N·m·s²].

    Args:
        stated: See `reference`.
        thrust: Thrust constant [N·s²]; the stated one if None.
    """
    k = stated["Kt_N_per_rad2s2"] if thrust is None else thrust
    lever, drag = k * stated["arm_length_m"], stated["Kc_Nm_per_rad2s2"]
    out = np.zeros((6, 4))
    out[2] = k
    out[3] = lever * np.array([-1.0, -1.0, 1.0, 1.0])
    out[4] = lever * np.array([-1.0, 1.0, 1.0, -1.0])
    out[5] = drag * np.array([1.0, -1.0, 1.0, -1.0])
    return out


def columns(path: Path) -> dict[str, Array]:
    """Return the airborne part of a log, by column."""
    table = pq.read_table(path)
    data = {c: table[c].to_numpy(zero_copy_only=False).astype(float) for c in table.column_names}
    for k in range(1, 5):
        data[f"speed{k}"] = data.get(f"m{k}_rads", RPM * data[f"m{k}_erpm"])
    speeds = np.stack([data[f"speed{k}"] for k in range(1, 5)])
    up = (data["z"] > AIRBORNE) & np.isfinite(speeds).all(axis=0)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], up.astype(int), [0]])))
    first, last = max(edges.reshape(-1, 2).tolist(), key=lambda e: e[1] - e[0])
    return {name: values[first:last] for name, values in data.items()}


def recording(path: Path, wrench: Array) -> Recording:
    """Return the airborne part of a log as a recording of a `RotorBody`."""
    d = columns(path)
    speeds = {f"rotor{k}": d[f"speed{k}"] for k in range(1, 5)}
    # `ax`, `ay`, `az` are in the world's axes, whatever the data's description says: they
    # correlate to .96 with the world's acceleration, and to .3 with the body's.
    turn = Rotation.from_quat(np.stack([d[f"q{a}"] for a in ("x", "y", "z", "w")], axis=1))
    acc = turn.inv().apply(np.stack([d[f"a{a}"] for a in AXES[1:]], axis=1))
    raw = Recording.from_arrays(
        d["t"] - d["t"][0],
        path.stem,
        pos={f"{FRAME}.{a}": d[a] for a in AXES[1:]},
        quat={f"{FRAME}.{a}": d[f"q{a}"] for a in AXES},
        acc={f"{FRAME}.{a}": acc[:, k] for k, a in enumerate(AXES[1:])},
        omega={f"{FRAME}.{a}": d[f"w{a}"] for a in AXES[1:]},
        u=speeds,
    )
    return rotor_recording(raw, FRAME, [f"u.{name}" for name in speeds], wrench)


@dataclass(frozen=True, eq=False)
class CommandedRotors:
    """How rotors follow their commands: Ω² = c₀ + c₁ V + c₂ V², V = y V_bat, with τ ẏ = u − y.

    A command is a share of the battery's voltage; the battery's falls while it flies.

    Attributes:
        lag: τ, one for all rotors [s].
        numbers: c of each rotor, shape (4, 3) [rad²/s²].
        unexplained: Share of the variance of Ω² that is left.
    """

    lag: float
    numbers: Array
    unexplained: float

    @staticmethod
    def of(data: dict[str, Array], lags: Array = LAGS) -> CommandedRotors:
        """Return the fit of a log, by least squares at each lag.

        Args:
            data: Of `columns`.
            lags: Tried [s].
        """
        return min((CommandedRotors._at(data, tau) for tau in lags), key=lambda f: f.unexplained)

    @staticmethod
    def _at(data: dict[str, Array], lag: float) -> CommandedRotors:
        numbers, left, whole = [], 0.0, 0.0
        for k, rows in enumerate(_commanded(data, lag)):
            squared = data[f"speed{k + 1}"] ** 2
            found = np.linalg.lstsq(rows, squared, rcond=None)[0]
            numbers.append(found)
            left += float(np.sum((squared - rows @ found) ** 2))
            whole += float(np.sum((squared - squared.mean()) ** 2))
        return CommandedRotors(float(lag), np.array(numbers), left / whole)

    def thrust(self, data: dict[str, Array]) -> Array:
        """Return the sum of Ω² that commands lead to, shape (N,) [rad²/s²]."""
        parts = zip(_commanded(data, self.lag), self.numbers, strict=True)
        return np.asarray(sum(rows @ own for rows, own in parts))


def _commanded(data: dict[str, Array], lag: float) -> Iterator[Array]:
    """Yield the rows (1, V, V²) of each rotor, shape (N, 3)."""
    held = hold_times(data["t"])
    u = np.stack([data[f"m{k}_thrust"] for k in range(1, 5)], axis=1)
    followed = mean_thrust(u, held, np.full(4, lag))
    for y in followed.T:
        yield (y * data["Vbat"])[:, None] ** np.arange(3)


def specific_force(data: dict[str, Array]) -> Array:
    """Return what is felt along the thrust's axis, shape (N,) [m/s²]."""
    turn = Rotation.from_quat(np.stack([data[f"q{a}"] for a in ("x", "y", "z", "w")], axis=1))
    return np.asarray(turn.inv().apply(np.stack([data[f"a{a}"] for a in AXES[1:]], axis=1))[:, 2])
