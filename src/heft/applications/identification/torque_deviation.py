"""Standard deviation of a predicted torque: what the logs leave open, and what no model takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from heft.arrays import Array
from heft.dynamics import Drive, drive_columns
from heft.errors import InputError
from heft.files import UNREADABLE, read_arrays
from heft.models import Robot
from heft.plants import RobotMotion, RobotPlant, Samples, plant_of

from .misfit import Misfit, Reversal, since_reversal

MOST_DEVIATIONS = 1000  # one a block that was left out


@dataclass(frozen=True)
class TorqueDeviation:
    """Parts of the standard deviation of a robot's predicted torques."""

    deviations: Array  # D of the standard parameters, DᵀD their jackknife covariance, shape (K, p)
    # what is left over, by joint; without one a joint's deviation is not known
    misfits: Mapping[str, Misfit]

    def std(
        self,
        plant: RobotPlant,
        samples: Samples[RobotMotion],
        rigid: Array,
        before: Reversal | None = None,
        through: Array | None = None,
    ) -> tuple[Array, Reversal]:
        """Return the standard deviation of the torque with full friction.

        Args:
            samples: N samples.
            rigid: Torque that loads the gears, of bodies and own columns, shape (channels, N)
                [N·m or N].
            before: State of the reversals at the end of the samples before.
            through: What contacts make of the channels' efforts, shape (N, channels, channels); see
                `plants.ContactEfforts`.

        Returns:
            Shape (N, channels) [N·m or N], NaN where it is not known, and the state at the end.
        """
        robot = plant.robot
        ratios = np.array([d.ratio for d in robot.drives]).reshape(len(robot.drives), -1).T
        velocity = samples.motion.velocity.T @ ratios
        distance, state = since_reversal(samples.motion.position.T @ ratios, velocity, before)
        variance = self._jackknife(plant, samples, rigid, through)
        known = np.zeros(len(variance), dtype=bool)
        for d, drive in enumerate(robot.drives):
            if drive.name not in self.misfits or drive.name not in robot.channels:
                continue
            channel = robot.channels.index(drive.name)
            rest = self.misfits[drive.name].torque(velocity[:, d], distance[:, d])
            variance[channel] += rest**2
            known[channel] = True
        return np.where(known[:, None], np.sqrt(variance), np.nan).T, state

    def _jackknife(
        self,
        plant: RobotPlant,
        samples: Samples[RobotMotion],
        rigid: Array,
        through: Array | None = None,
    ) -> Array:
        """Return the jackknife variance of the torques, shape (channels, N)."""
        robot, bodies = plant.robot, plant.bodies_size
        chosen = robot.drive_columns
        state = plant.drive_state(samples, rigid)
        made = drive_columns.columns(robot.drives, chosen, state)
        moved = np.array([plant.rigid(samples.motion, d) for d in self.deviations])
        if not len(moved):
            return np.zeros(rigid.shape)
        for channel in range(len(rigid)):
            acts = [k for k, (c, _) in enumerate(made.acts) if c == channel]
            columns = [int(made.acts[k][1]) for k in acts]
            values = made.weights[acts, None] * made.values[columns]
            moved[:, channel] += self.deviations[:, [bodies + c for c in columns]] @ values
        if robot.own_columns is not None:
            moving = (state.position, state.velocity, state.acceleration)
            first = bodies + len(chosen)
            own = self.deviations[:, first : first + len(robot.own_names)]
            moved += np.einsum("dk,ckn->dcn", own, robot.own_columns.rows(*moving))
        if through is not None:
            moved = np.einsum("ncd,kdn->kcn", through, moved)
        return np.asarray(np.sum(moved**2, axis=0))


def misfits_of(
    drives: tuple[Drive, ...], entries: Mapping[str, Mapping[str, object]]
) -> dict[str, Misfit]:
    """Return the misfits that `estimate.json` states, by drive.

    Args:
        entries: Entries of `joints` and `motors`, by name.

    Raises:
        ValueError, KeyError, TypeError: If one is none.
    """
    linear = {d.name: d.linear for d in drives}
    found = {}
    for name, entry in entries.items():
        stated = entry.get("misfit")
        if stated is not None and name in linear:
            found[name] = Misfit.from_json(stated, linear[name])  # type: ignore[arg-type]
    return found


def read_torque_deviation(
    path: Path, robot: Robot, data: Mapping[str, Any]
) -> TorqueDeviation | None:
    """Return the deviation of predicted torques; None if the results do not state it.

    Args:
        path: `information.npz` of the results.
        data: Content of `estimate.json`.

    Raises:
        InputError: If what they state is none.
    """
    try:
        arrays = read_arrays(path)
        if "deviations" not in arrays or not len(arrays["deviations"]):
            return None
        plant = plant_of(robot)
        names = [str(n) for n in arrays["parameter_names"]]
        places = [names.index(n) for n in plant.space.labels.names]
        deviations = np.asarray(arrays["deviations"], dtype=float)
        if deviations.shape != (min(len(deviations), MOST_DEVIATIONS), len(names)):
            raise ValueError(f"deviations of shape {deviations.shape} of {len(names)} parameters")
        deviations = deviations[:, places]
        if not np.isfinite(deviations).all():
            raise ValueError("deviations that are not finite")
        entries = {**data["joints"], **data["motors"]}
        misfits = misfits_of(tuple(robot.drives), entries)
    except FileNotFoundError:
        return None
    except UNREADABLE as problem:
        raise InputError(
            "the deviations of these results cannot be read",
            argument=str(path),
            got=str(problem)[:200],
            cure="identify again",
        ) from problem
    return TorqueDeviation(deviations @ plant.space.matrix.T, misfits)
