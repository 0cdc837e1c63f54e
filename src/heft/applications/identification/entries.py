"""What is told of each parameter, drive and channel: entries of `estimate.json` and of reports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.dynamics import FRICTION, Drive, steady
from heft.estimators import Stated, stated_numbers
from heft.fit import NORMAL, Bodies, columns_called, gain_columns, of_rows
from heft.information import channel_ranks, inertia
from heft.plants import GEAR

from .identification import Identification


def parameter_entries(result: Identification) -> Iterator[dict[str, Any]]:
    """Yield mass, centre of mass and inertia of each link, with uncertainty and identifiability.

    Inertias are about the centre of mass, in the axes of the link's frame. Each entry holds the
    value before and after, standard error, 95 % interval, the share of the prior variance that the
    data removed, and the shift by the prior in the number's unit (`estimate.schema.json`).
    """
    problem = result.problem
    units = {"mass": "kg", "com": "m", "inertia": "kg·m²"}
    structure = np.abs(problem.space.matrix).sum(axis=0)
    lonely = {problem.base.standard.names[i] for i in problem.base.alone()}
    bodies = problem.plant.robot.tree.names
    crowded = [link.body for link in problem.plant.robot.bodies_links]
    for k, link in enumerate(problem.plant.robot.bodies_links):
        visible = structure[10 * k : 10 * k + 10] > 0.0
        for name, stated in stated_numbers(result.consistent, 10 * k).items():
            share = stated.share
            if not visible[_needed(name)].any():
                seen = "not at all"
            elif share < 0.5:  # data took away less than half of the prior's variance
                seen = "prior"
            elif crowded.count(link.body) == 1 and _alone(name, bodies[link.body], lonely):
                seen = "alone"
            else:
                seen = "in combination"
            yield {
                "name": f"{link.name}.{name}",
                "before": link.written_number(name) if link.given else None,
                "value": stated.value,
                "std": stated.std,
                "interval": _interval(result, k, name, stated),
                "unit": units[name.partition(".")[0]],
                "seen": seen,
                "share": share,
                "pull": stated.pull,
            }


def _interval(result: Identification, link: int, name: str, stated: Stated) -> list[float]:
    """Return the 95 % interval of a number, at least as wide as to contain it.

    For a mass, a coordinate of the centre of mass and a moment of inertia about it, it is the
    strict bounds: the range over all physically consistent bodies that fit the data, without prior.
    For a product of inertia, which is neither convex nor concave in the parameters, and where
    moments are not bounded (see `StrictBounds`), it follows from the standard error, which includes
    the prior error.
    """
    kind, _, axis = name.partition(".")
    reach = NORMAL * stated.std
    low, high = stated.value - reach, stated.value + reach
    if kind == "mass":
        low, high = result.bounds.mass[link].tolist()
    elif kind == "com":
        low, high = result.bounds.com[link, inertia.AXES.index(axis)].tolist()
    elif axis[0] == axis[1]:
        ends = result.bounds.inertia[link, inertia.AXES.index(axis[0])]
        low, high = ends.tolist() if not np.isnan(ends).any() else (low, high)
    return [min(low, stated.value), max(high, stated.value)]


def _needed(name: str) -> list[int]:
    kind, _, axis = name.partition(".")
    if kind == "mass":
        return [0]
    if kind == "com":
        return [0, 1 + inertia.AXES.index(axis)]
    return [4 + inertia.SYMBOLS[4:].index(f"I.{axis}")]


def _alone(name: str, body: str, lonely: set[str]) -> bool:
    needed = _needed(name)
    if name.startswith("inertia"):  # about the centre of mass: mass and first moments are in it
        needed = [0, 1, 2, 3, *needed]
    return all(f"{body}.{inertia.SYMBOLS[k]}" in lonely for k in needed)


def _drive_entry(result: Identification, drive: Drive) -> dict[str, Any]:
    full, simple = result.friction["full"], result.simple
    parameters = result.consistent.parameters
    std = dict(zip(parameters.labels.names, parameters.std.tolist(), strict=True))
    armature = f"{drive.name}.armature"
    wanted = {t.kind: f"{drive.name}.{t.name}" for t in FRICTION["simple"]}
    there = {k: n for k, n in wanted.items() if n in simple.values}
    stds = {k: simple.std[n] for k, n in there.items()}
    if armature in full:
        stds = {"armature": std[armature]} | stds
    return {
        "armature": full.get(armature),
        "simple": {k: simple.values[n] for k, n in there.items()},
        "full": [
            {"term": t.kind, "scale": t.scale, "value": full[f"{drive.name}.{t.name}"]}
            for t in drive.friction
        ],
        "std": stds,
        "curve": friction_curve(result, drive),
    } | ({"misfit": result.misfits[drive.name].to_json()} if drive.name in result.misfits else {})


def friction_curve(
    result: Identification, drive: Drive, top: float | None = None
) -> dict[str, list[float]]:
    """Return the steady-state friction curve of a drive without load, with standard errors.

    Args:
        top: Largest speed [rad/s or m/s]; None for 2 rad/s, or 0.2 m/s if prismatic.

    Returns:
        `velocity` [rad/s or m/s], `effort` and `std` [N·m or N], 50 points each. The deviation
        counts what the model cannot describe; see `misfit`.
    """
    terms = drive.friction
    top = top or 2.0 * (0.1 if drive.linear else 1.0)
    half = np.geomspace(1e-3 * top, top, 25)
    velocity = np.concatenate([-half[::-1], half])
    parameters = result.consistent.parameters
    names = parameters.labels.names
    places = [names.index(f"{drive.name}.{t.name}") for t in terms]
    rows = steady(terms, velocity)
    if len(result.deviations):
        std = np.linalg.norm(result.deviations[:, places] @ rows, axis=0)
    else:
        covariance = result.consistent.noise[np.ix_(places, places)]
        variance = np.einsum("kn,kl,ln->n", rows, covariance, rows)
        std = np.sqrt(np.maximum(variance, 0.0))
    if drive.name in result.misfits:
        std = np.hypot(std, result.misfits[drive.name].curve(velocity))
    return {
        "velocity": velocity.tolist(),
        "effort": (parameters.values[places] @ rows).tolist(),
        "std": std.tolist(),
    }


def joint_entries(result: Identification) -> dict[str, Any]:
    """Return what is told of the drive of each joint, by joint."""
    robot = result.problem.plant.robot
    entries = {}
    for drive in robot.drives:
        joint = drive.name
        if joint not in robot.joints:
            continue
        entry = _drive_entry(result, drive)
        option = robot.options.of(joint)
        gain = result.calibrated.gains.get(joint, 1.0)
        if option.gain is not None:
            entry["gain"] = option.gain / gain
            entry["std"]["gain"] = result.calibrated.std.get(joint, 0.0) * option.gain / gain**2
        if option.reduction is not None and entry["armature"] is not None:
            entry["rotor"] = entry["armature"] / option.reduction**2
        if option.elastic:
            entry["gear"] = gear_entry(result, joint)
        entries[joint] = entry
    return entries


def gear_entry(result: Identification, joint: str) -> dict[str, Any]:
    """Return the numbers of a joint's elastic gear, `GEAR`, with standard errors."""
    parameters = result.consistent.parameters
    places = {k: parameters.labels.names.index(f"{joint}.{k}") for k in GEAR}
    return {
        **{k: float(parameters.values[p]) for k, p in places.items()},
        "std": {k: float(parameters.std[p]) for k, p in places.items()},
    }


def motor_entries(result: Identification) -> dict[str, Any]:
    """Return what is told of each motor that is no joint, with its ratios, by motor."""
    robot = result.problem.plant.robot
    first = len(robot.channels) - len(robot.joints)
    return {
        d.name: _drive_entry(result, d)
        | {
            "speed": {
                j: float(d.ratio[first + k])
                for k, j in enumerate(robot.joints)
                if d.ratio[first + k]
            }
        }
        for d in robot.drives
        if d.name not in robot.joints
    }


def own_entries(result: Identification) -> list[dict[str, Any]]:
    """Return the parameters of the user's own columns with standard errors."""
    own = result.problem.plant.robot.own_names
    return [
        {"name": n.name, "value": n.value, "std": n.std, "unit": n.unit, "share": n.seen}
        for n in (result.numbers if own else ())
        if n.name in own
    ]


def base_entries(result: Identification) -> list[dict[str, Any]]:
    """Return the base parameters β with standard errors, except those of full friction.

    The columns of the full friction model are nearly collinear, so that only their sum is
    meaningful: it is reported as the friction curve. Gains are reported with their joints.
    """
    parameters = result.estimate.parameters
    robot = result.problem.plant.robot
    anew = estimated_anew(result)
    gains = gain_columns(result.problem)
    inside = {
        robot.drives.name((d, t))
        for d, t in robot.drive_columns
        if any(own.dictionary for own in robot.drives[d].terms) and t.nonnegative and not t.inertial
    }
    names = parameters.labels.names
    shown = np.array([n not in inside and n not in gains for n in names], dtype=bool)
    partner, correlation = _closest(parameters.covariance, shown)
    return [
        {
            "expression": expression,
            "value": float(value),
            "std": float(std),
            "unit": unit,
            "relative_std": float(abs(std / value)) if value else None,
            **({"anew": names[k] in anew} if anew else {}),
            **(
                {"closest": names[partner[k]], "correlation": float(correlation[k])}
                if correlation[k]
                else {}
            ),
        }
        for k, (expression, value, std, unit) in enumerate(
            zip(
                result.problem.base.expressions(),
                parameters.values,
                parameters.std,
                parameters.labels.units,
                strict=True,
            )
        )
        if shown[k]
    ]


def _closest(covariance: Array | None, shown: NDArray[np.bool_]) -> tuple[NDArray[np.intp], Array]:
    """Return which of those shown each parameter is correlated most with, and by how much.

    The correlation is 0 where there is none to tell.
    """
    count = len(shown)
    if covariance is None:
        return np.zeros(count, dtype=np.intp), np.zeros(count)
    std = np.sqrt(np.diag(covariance))
    told = shown & np.isfinite(std) & (std > 0.0)
    inverse = np.divide(1.0, std, out=np.zeros(count), where=told)
    matrix = np.where(np.outer(told, told), covariance, 0.0) * np.outer(inverse, inverse)
    np.fill_diagonal(matrix, 0.0)
    partner = np.argmax(np.abs(matrix), axis=1)
    return partner, matrix[np.arange(count), partner]


def estimated_anew(result: Identification) -> set[str]:
    """Return names of the base parameters that parameters estimated anew contribute to."""
    if not result.anew:
        return set()
    base, robot = result.problem.base, result.problem.plant.robot
    drives = [d.name for d in robot.drives]
    changed = columns_called(result.anew, base.standard.names, Bodies.of(robot), drives)
    moved = np.any(base.matrix[:, changed] != 0.0, axis=1)
    return {name for name, m in zip(base.labels.names, moved.tolist(), strict=True) if m}


def channel_entries(result: Identification) -> list[dict[str, Any]]:
    """Return rows, noise and rank of each channel."""
    estimate = of_rows(result.estimate)
    noise, information = estimate.noise, estimate.information
    ranks = channel_ranks(information)
    return [
        {
            "name": name,
            "rows": int(noise.rows[c]),
            "independent_rows": float(noise.effective[c]),
            "residual_std": float(noise.sigma[c]),
            "rank": ranks[name],
            "columns": len(information.triangles[c].columns),
        }
        for c, name in enumerate(information.channels)
    ]


def error_entry(result: Identification) -> dict[str, Any] | None:
    """Return the torque errors of the model file before and after; None if no log is filtered."""
    errors = result.torque_errors
    if errors is None:
        return None
    kinds = {
        "model_file": errors.written,
        "fitted_drives": errors.drives,
        "identified": errors.identified,
    }
    return {
        "path": errors.identified.path,
        "held_out": errors.held_out,
        "filter_hz": errors.identified.filter_hz,
        **{kind: {"total": s.total, "per_joint": s.per_joint} for kind, s in kinds.items()},
    }
