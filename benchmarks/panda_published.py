"""heft on the Panda's log against the table that was published with it [Gaz2019].

Their 43 dynamic coefficients are sums of link parameters in frames that are the model file's
own, so each is a row on heft's base parameters; names and numbers are read from their
supplement. Their `CLS` column is least squares on this very log, with viscous and Coulomb
friction and offsets and without rotor inertia; its standard deviations take 143 808 residuals
for independent. An interval is 1.96 of both deviations together.

Their friction is one sigmoid a joint, without a deviation. It is compared with the curve of
friction in `estimate.json`: as it is, and its odd part, the mean of both ways, in which the
offset of the torque sensor drops out.

Three more rows say what the answer is worth: the same coefficients from one half of the log
against the other, which share the robot and nothing else; plain least squares by numpy and
pinocchio with the paper's own model; and how well the paper's own numbers, that fit and heft's
predict this log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from benchmarks.arms import arrays, length, with_friction
from benchmarks.results_file import Row, at_least
from benchmarks.scoring import Left, pieces
from heft.applications.identification.identification import Identification, identify
from heft.arrays import Array
from heft.engine import one_blas_thread
from heft.fit.experiment import ExperimentFit, fit_experiment
from heft.fit.prepared import open_experiment
from heft.fit.scores import filtered
from heft.fit.settings import Settings
from heft.information.inertia import SYMBOLS
from heft.models.options import JointOptions, Options
from heft.models.robot import Robot
from heft.plants import RobotPlant
from heft.recordings.recording import Recording

JOINTS = 7
NORMAL = 1.96  # standard deviations of 95 %
SHARE = 0.9  # of the numbers that are to lie within the intervals
SPEEDS = (0.05, 0.1, 0.2, 0.5, 1.0)  # [rad/s]
FAST = 0.5  # [rad/s], where friction's memory has slipped
CORNER = 10.0  # [Hz], of the score
NUMBER = r"(-?\d+\.?\d*(?:e-?\d+)?|----)"
# Lengths of the arm [m]: the table rounds what is made of them to two to four digits.
D3, A4, D5, A7 = 0.316, 0.0825, 0.384, 0.088
FACTORS = (
    *(1.0, D3, A4, D5, A7, 2.0 * D3, 2.0 * D5, D3**2, A4**2, A7**2, 2.0 * A4**2, A4 * D5),
    *(D3**2 + A4**2, D5**2 + A4**2, D5**2 - A4**2),
)


@dataclass(frozen=True)
class Published:
    """The table.

    Attributes:
        names: Of the coefficients, as printed.
        rows: Each on the links' ten parameters, shape (43, 70).
        values: Columns R-E, π(p̂), CLS and OSI; NaN where nothing is printed, shape (4, 43).
        std: Of R-E and CLS, shape (2, 43).
        linear: fv, fc, fo of CLS by joint, shape (3, 7).
        sigmoid: φ1, φ2, φ3 by joint, shape (3, 7).
    """

    names: tuple[str, ...]
    rows: Array
    values: Array
    std: Array
    linear: Array
    sigmoid: Array


def term(text: str) -> tuple[int, int]:
    """Return link and place among the ten of a symbol such as `J2xx`, `c4zm4` or `m5`."""
    text = text.replace("Jxz4", "J4xz")  # as printed
    if text[0] == "m":
        return int(text[1]), 0
    symbol = f"I.{text[2:]}" if text[0] == "J" else f"h.{text[2]}"
    return int(text[1]), SYMBOLS.index(symbol)


def exact(factor: str) -> float:
    """Return the length, or product of lengths, that a printed factor is."""
    nearest = min(FACTORS, key=lambda k: abs(k - float(factor)))
    if abs(nearest - float(factor)) > 1.1e-4:
        raise SystemExit(f"{factor} is no factor of this arm")
    return nearest


def expression(text: str) -> Array:
    """Return the row of a coefficient as printed, shape (70,)."""
    row = np.zeros((JOINTS + 1, len(SYMBOLS)))
    pattern = r"([+-]?)(\d+\.\d+)?(?:\(([^)]*)\)|(c\d[xyz]m\d|J\w{3}|m\d))"
    for sign, factor, group, single in re.findall(pattern, text.replace(" ", "")):
        for symbol in group.split("+") if group else [single]:
            row[term(symbol)] += (-1.0 if sign == "-" else 1.0) * (exact(factor) if factor else 1.0)
    return row[1:].ravel()


def published(folder: Path) -> Published:
    """Read the supplement's text."""
    text = (folder / "reference_supplement_text.txt").read_text(encoding="utf-8")
    lines = text.replace("−", "-").replace(" × 10", "e").splitlines()
    begin = next(
        k for k, line in enumerate(lines) if line.startswith("Dynamic coef") and "CLS" in line
    )
    names, numbers, linear = [], [], np.zeros((3, JOINTS))
    for line in lines[begin + 1 :]:
        friction = re.match(rf"^f([vco]),(\d) {NUMBER} {NUMBER} {NUMBER}$", line)
        if friction:
            linear["vco".index(friction[1]), int(friction[2]) - 1] = float(friction[3])
            if friction[1] == "o" and friction[2] == str(JOINTS):
                break
        coefficient = re.match(rf"^(.*?) {' '.join([NUMBER] * 6)}$", line)
        if coefficient and re.search("[Jm]", coefficient[1]):
            names.append(coefficient[1])
            numbers.append([float(n.replace("----", "nan")) for n in coefficient.groups()[1:]])
    reverse, reverse_std, retrieved, plain, plain_std, one_step = np.array(numbers).T
    rows = np.array([expression(n) for n in names])
    # Printed with m3 twice, the second time in brackets; their own π(p̂) counts it once.
    rows[1, 10 * 2] = D3**2
    model = json.loads((folder / "model_and_reference.json").read_text(encoding="utf-8"))
    return Published(
        tuple(names),
        rows,
        np.array([reverse, retrieved, plain, one_step]),
        np.abs([reverse * reverse_std, plain * plain_std]) / 100.0,
        linear,
        np.array([model["friction_sigmoid_phi1"], model["phi2"], model["phi3"]]),
    )


def robot_and_log(folder: Path) -> tuple[Robot, Recording]:
    """Return the arm with heft's defaults and the whole log."""
    robot = Robot.from_urdf_text((folder / "panda_arm.urdf").read_bytes())
    with np.load(folder / "exciting_traj.npz") as data:
        time = data["t"]
    fields = {"q": "q", "tau": "tau"}
    return robot, arrays(folder / "exciting_traj.npz", fields, robot.joints, time)


def fitted(robot: Robot, log: Recording) -> ExperimentFit[RobotPlant]:
    """Return an arm's base parameters alone, as `identify` has them."""
    with one_blas_thread():
        return fit_experiment(*open_experiment(robot, (log,), Settings()))


def coefficients(
    found: Identification | ExperimentFit[RobotPlant], table: Published
) -> tuple[Array, Array]:
    """Return their coefficients by heft's base parameters, and the standard deviations.

    Raises:
        SystemExit: If a coefficient is no combination of base parameters.
    """
    base = found.problem.base
    kept = np.array(base.kept)
    ours = kept < table.rows.shape[1]
    wide = np.zeros((len(table.rows), len(kept)))
    wide[:, ours] = table.rows[:, kept[ours]]  # base parameters are called after these columns
    if np.abs(wide @ base.matrix[:, : table.rows.shape[1]] - table.rows).max() > 1e-9:
        raise SystemExit("a published coefficient is no combination of base parameters")
    parameters = found.estimate.parameters
    assert parameters.covariance is not None
    std = np.sqrt(np.diag(wide @ parameters.covariance @ wide.T))
    return wide @ parameters.values, std


def share(difference: Array, *std: Array) -> float:
    """Return the share of differences within the joint intervals; NaN are not counted."""
    there = np.isfinite(difference)
    within = np.abs(difference) <= NORMAL * np.sqrt(sum(s**2 for s in std))
    return float(np.mean(within[there]))


def worst(names: tuple[str, ...], difference: Array, *std: Array) -> str:
    """Return which are farthest out, in standard deviations."""
    off = np.nan_to_num(np.abs(difference) / np.sqrt(sum(s**2 for s in std)))
    order = np.argsort(-off)[:4]
    short = [" ".join(names[k].split())[:28] for k in order]
    return "farthest: " + ", ".join(
        f"{n} {off[k]:.1f} std" for n, k in zip(short, order, strict=True)
    )


def sigmoid(table: Published, speed: NDArray[np.float64]) -> Array:
    """Return the published friction at speeds, shape (joints, N) [N·m]."""
    height, slope, shift = table.sigmoid[:, :, None]
    start = height / (1.0 + np.exp(-slope * shift))
    return np.asarray(height / (1.0 + np.exp(-slope * (speed + shift))) - start)


def friction_rows(found: Identification, table: Published) -> Iterator[Row]:
    """Yield the share of friction's curve within its intervals of the published one."""
    entries = list(Left.by(found).estimate["joints"].values())
    speed = np.concatenate([-np.array(SPEEDS[::-1]), SPEEDS])

    def at(entry: dict[str, Any], key: str) -> Array:
        return np.asarray(np.interp(speed, entry["curve"]["velocity"], entry["curve"][key]))

    effort, std = (np.array([at(e, k) for e in entries]) for k in ("effort", "std"))
    off = effort - sigmoid(table, speed)
    names = tuple(f"joint {k + 1} at {s:g} rad/s" for k in range(JOINTS) for s in speed)
    what = "Panda, published sigmoid friction within heft's intervals, share"
    yield at_least(what, share(off, std), "", SHARE, worst(names, off.ravel(), std.ravel()))
    half = len(SPEEDS)
    odd = 0.5 * (off[:, half:] - off[:, half - 1 :: -1])
    # The parts of the deviation are not stated apart: the larger of both ways is taken.
    widest = np.maximum(std[:, half:], std[:, half - 1 :: -1])
    yield Row("Panda, the same without offset (odd part), share", share(odd, widest), "")
    # A sigmoid has no memory: it takes what friction lags behind a turn for a slow rise.
    fast = np.array(SPEEDS) >= FAST
    name = f"Panda, the same at {FAST:g} rad/s and above, share"
    yield Row(name, share(odd[:, fast], widest[:, fast]), "")
    size = float(np.sqrt(np.mean(odd[:, fast] ** 2)))
    yield Row(f"Panda, the same at {FAST:g} rad/s and above, rms", size, "N·m")
    size = float(np.sqrt(np.mean(odd**2)))
    yield Row("Panda, published sigmoid against heft's friction, odd part, rms", size, "N·m")
    straight = table.linear[0][:, None] * np.array(SPEEDS) + table.linear[1][:, None]
    mine = 0.5 * (effort[:, half:] - effort[:, half - 1 :: -1])
    size = float(np.sqrt(np.mean((mine - straight) ** 2)))
    yield Row("Panda, published linear friction against heft's, odd part, rms", size, "N·m")
    size = float(np.sqrt(np.mean((mine - odd - straight) ** 2)))
    yield Row("Panda, published sigmoid against published linear friction, rms", size, "N·m")


def plain_fit(
    urdf: bytes, log: Recording, found: Identification, table: Published
) -> tuple[Array, dict[str, float]]:
    """Return their coefficients by numpy with their model, and errors of predicting the log.

    Rows by pinocchio on heft's motion, torque through the score's filter, one weight for all.
    """
    (whole,) = pieces(found.problem, [log])
    piece = whole.cut()
    tau = filtered(piece.time, piece.tau, piece.step, CORNER)
    every = slice(None, None, 10)
    q, v, a, tau = piece.q[every], piece.v[every], piece.a[every], tau[every]
    model = pin.buildModelFromXML(urdf.decode())
    data = model.createData()
    rigid = np.array(
        [pin.computeJointTorqueRegressor(model, data, *r) for r in zip(q, v, a, strict=True)]
    )
    drives = np.zeros((len(q), JOINTS, 3 * JOINTS))
    for j in range(JOINTS):
        drives[:, j, j], drives[:, j, JOINTS + j] = v[:, j], np.sign(v[:, j])
        drives[:, j, 2 * JOINTS + j] = 1.0
    rows = np.concatenate([rigid, drives], axis=2).reshape(tau.size, -1)
    answer = np.linalg.lstsq(rows, tau.ravel(), rcond=1e-9)[0]
    size = table.rows.shape[1]
    theirs = np.linalg.pinv(table.rows) @ table.values[2]
    size_of_tau = np.linalg.norm(tau)
    full = Left.by(found).predicted(found.problem, [whole], "full")[0]
    errors = {
        "the published CLS": rows @ np.concatenate([theirs, table.linear.ravel()]) - tau.ravel(),
        "least squares with the paper's model": rows @ answer - tau.ravel(),
        "heft": (filtered(piece.time, full, piece.step, CORNER)[every] - tau).ravel(),
    }
    norms = {k: float(np.linalg.norm(e) / size_of_tau) for k, e in errors.items()}
    return table.rows @ answer[:size], norms


def run(folder: Path, rows: int | None = None, friction: str | None = None) -> Iterator[Row]:
    """Yield the rows.

    Args:
        folder: Of the measured data.
        rows: Of the log that are taken; all if None.
        friction: Its kind in heft's model; that of the default if None.
    """
    place = folder / "panda_gaz2019"
    table = published(place)
    robot, log = robot_and_log(place)
    robot = robot if friction is None else with_friction(robot, friction)
    if rows is not None:
        log = log.window(length(log) // 2, length(log) // 2 + rows)
    middle = length(log) // 2
    found = identify(robot, (log,))
    values, std = coefficients(found, table)
    off, std_theirs = values - table.values[2], table.std[1]
    what = "Panda, published CLS base parameters within both intervals, share"
    far = worst(table.names, off, std, std_theirs)
    yield at_least(what, share(off, std, std_theirs), "", SHARE, far)
    bare = Options(joint={j: JointOptions(friction="simple", armature=False) for j in robot.joints})
    paper = fitted(Robot.from_urdf_text(robot.source, bare), log)
    same, same_std = coefficients(paper, table)
    yield Row(
        "Panda, the same with the paper's model in heft, share",
        share(same - table.values[2], same_std, std_theirs),
        "",
        against=worst(table.names, same - table.values[2], same_std, std_theirs),
    )
    coloured = share(off, std, same_std)
    yield Row("Panda, published CLS with heft's deviation of that model, share", coloured, "")
    for column, name in ((0, "R-E"), (1, "π(p̂)"), (3, "OSI")):
        difference = values - table.values[column]
        theirs = table.std[0] if column == 0 else np.zeros_like(std)
        yield Row(f"Panda, published {name} likewise, share", share(difference, std, theirs), "")
    plain, errors = plain_fit(robot.source, log, found, table)
    name = "Panda, least squares by numpy with the paper's model within heft's intervals, share"
    yield Row(name, share(values - plain, std), "")
    name = "Panda, the same against heft with the paper's model, share"
    yield Row(name, share(same - plain, same_std), "")
    halves = [
        coefficients(fitted(robot, part), table)
        for part in (log.window(0, middle), log.window(middle, None))
    ]
    (one, one_std), (two, two_std) = halves
    name = "Panda, one half of the log against the other within both intervals, share"
    alike = share(one - two, one_std, two_std)
    why = None if np.isfinite(alike) else "no half tells a coefficient"
    yield Row(name, alike, "", against=why)
    for who, size in errors.items():
        yield Row(f"Panda, whole log, filtered {CORNER:g} Hz, error of {who}", size, "")
    yield from friction_rows(found, table)
