"""Log-Cholesky least squares against the semidefinite optimum, at the edge of what can exist.

    HEFT_DATA=… python -m benchmarks.log_cholesky [--development] [--seeds 100] [--store]

A Panda whose links are thin rods, with two eigenvalues of the pseudo-inertia zero, the fifth a
hundredth of its mass, five of fourteen friction coefficients zero; 10 s of a random Fourier motion
at 100 Hz, white torque noise of 5 % rms (and of 0.5 %, where more is at stake), a prior of a
quarter of a row's strength about the URDF's bodies seen through a random distortion of 12 %.
Asked: the steps end, within half a unit of χ²/2 of the semidefinite optimum, within a second
together with it. Beside it stand the same steps from the prior's bodies, ended by the same rules.
`--development` takes other seeds, on which settings are chosen; they are never stored.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.arms import data_folder
from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_least, at_most
from heft.arrays import Array
from heft.engine import one_blas_thread
from heft.estimators import PhysicallyConsistent
from heft.information import Information, ParameterSpace, Triangle, inertia
from heft.models import JointOptions, Options, Robot
from heft.plants import Problem, RobotPlant, standard_rows
from heft_methods import LogCholesky

FIRST_SEED, FIRST_DEVELOPMENT_SEED = 1000, 0
RATE, DURATION, HARMONICS = 100.0, 10.0, 5  # [Hz], [s]
NOISES, DISTORTION, STRENGTH = (0.05, 0.005), 0.12, 0.25
ZERO_FRICTION = (1, 4, 6, 9, 12)  # among viscous and Coulomb coefficients
LIGHT = 4
LARGEST_GAP, LARGEST_TIME = 0.5, 1.0  # of χ²/2, [s]


@dataclass(frozen=True)
class EdgeProblem:
    """Rows of a robot at the edge of the cone, in independent rows of unit variance.

    Attributes:
        triangle: Of the rows.
        space: Parameters with the prior's values.
    """

    triangle: Triangle
    space: ParameterSpace


@dataclass(frozen=True)
class Ending:
    """How one problem ended.

    Attributes:
        ended: Why the steps ended.
        gap: Of χ²/2 to the semidefinite optimum.
        seconds: Semidefinite fit and steps together.
        steps: Number of steps.
    """

    ended: str
    gap: float
    seconds: float
    steps: int


def panda() -> Robot:
    """Return a Panda with viscous and Coulomb friction and offsets."""
    folder = data_folder()
    path = folder / "panda_gaz2019" / "panda_arm.urdf"
    joint = JointOptions(friction="simple", armature=False)
    robot = Robot.from_file(path, Options())
    return robot.with_joints(dict.fromkeys(robot.joints, joint))


def rod(body: Array) -> Array:
    """Return a body's mass and centre with its mass along one line: two eigenvalues are zero."""
    S = inertia.pseudo_inertia(body)
    com = S[:3, 3] / S[3, 3]
    spread, axes = np.linalg.eigh(S[:3, :3] - S[3, 3] * np.outer(com, com))
    S[:3, :3] = spread[-1] * np.outer(axes[:, -1], axes[:, -1]) + S[3, 3] * np.outer(com, com)
    return inertia.from_pseudo_inertia(S)


def distorted(body: Array, rng: np.random.Generator) -> Array:
    """Return a body as seen through a random linear map near the identity, in its own measure."""
    factor = np.linalg.cholesky(inertia.pseudo_inertia(body))
    map_ = factor @ (np.eye(4) + DISTORTION * rng.normal(size=(4, 4)))
    return inertia.from_pseudo_inertia(map_ @ map_.T)


def motion(joints: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Return positions, velocities and accelerations of a Fourier series, each (N, joints)."""
    t = np.arange(int(RATE * DURATION)) / RATE
    w = 2.0 * np.pi / DURATION * np.arange(1, HARMONICS + 1)
    a, b = rng.normal(size=(2, HARMONICS, joints)) * 0.5
    s, c = np.sin(np.outer(t, w)), np.cos(np.outer(t, w))
    q = rng.uniform(-1.0, 1.0, joints) + s @ a + c @ b
    return q, (c * w) @ a - (s * w) @ b, -(s * w**2) @ a - (c * w**2) @ b


def edge_problem(robot: Robot, seed: int, noise: float) -> EdgeProblem:
    """Return the rows of one seed, with noise of a share of each torque's rms."""
    rng = np.random.default_rng(seed)
    problem = Problem(RobotPlant(robot), ())
    space = problem.space
    truth, nominal = space.nominal.copy(), space.nominal.copy()
    for k, first in enumerate(space.groups):
        ten = slice(first, first + 10)
        body = space.nominal[ten]
        truth[ten] = 0.01 * body if k == LIGHT else rod(body)
        nominal[ten] = distorted(body, rng)
    drives = list(space.nonnegative)
    truth[10 * len(space.groups) :] = rng.uniform(-0.2, 0.2, space.size - 10 * len(space.groups))
    truth[drives] = rng.uniform(0.1, 0.5, len(drives))
    truth[[drives[k] for k in ZERO_FRICTION]] = 0.0
    rows = standard_rows(robot, *motion(len(robot.joints), rng))[:, :, list(problem.base.kept)]
    effort = rows @ (space.matrix @ truth)
    sigma = noise * np.sqrt(np.mean(effort**2, axis=0))
    effort = effort + sigma * rng.normal(size=effort.shape)
    information = Information.from_rows(problem.labels, robot.channels, rows, effort)
    weights = dict(zip(robot.channels, (1.0 / sigma).tolist(), strict=True))
    return EdgeProblem(information.combined(weights), replace(space, nominal=nominal))


def endings(problem: EdgeProblem) -> tuple[Ending, Ending]:
    """Return how steps end from the semidefinite fit, and from the prior's bodies."""
    solver, space = PhysicallyConsistent(strength=STRENGTH, margin=0.0), problem.space
    begin = time.perf_counter()
    fitted = solver.fit(problem.triangle, space).parameters.values
    scaled = solver.scaled(problem.triangle, space)
    optimum = np.linalg.solve(scaled.back.toarray(), fitted)
    R, z = scaled.factor[:-1, :-1], scaled.factor[:-1, -1]
    best = 0.5 * float(np.sum((R @ optimum - z) ** 2))
    before = time.perf_counter() - begin
    found = []
    for start, spent in ((optimum, before), (scaled.start, 0.0)):
        begin = time.perf_counter()
        polished = LogCholesky().polish(scaled, start, 0.0)
        seconds = spent + time.perf_counter() - begin
        found.append(Ending(polished.ended, polished.loss - best, seconds, polished.steps))
    return found[0], found[1]


def rows_of(name: str, found: list[Ending], asked: bool) -> Iterator[Row]:
    """Yield what is stored of one start."""
    count = len(found)
    done = sum(e.ended != "steps used up" for e in found)
    gaps, seconds = (np.array([getattr(e, k) for e in found]) for k in ("gap", "seconds"))
    if asked:
        yield at_least(f"{name}: problems ended, of {count}", done, "", count)
        within = int(np.sum(gaps <= LARGEST_GAP))
        yield at_least(f"{name}: within {LARGEST_GAP:g} of the optimum", within, "", count)
        yield at_most(f"{name}: longest time", float(seconds.max()), "s", LARGEST_TIME)
    else:
        yield Row(f"{name}: problems ended, of {count}", done, "")
        yield Row(f"{name}: longest time", float(seconds.max()), "s")
    for label, share in (("median", 50.0), ("95th percentile", 95.0), ("largest", 100.0)):
        value = float(np.percentile(gaps, share))
        yield Row(f"{name}: χ²/2 above the optimum, {label}", value, "")


@benchmark({"development": True, "seeds": 1}, unstored=("development",))
def main(*, development: bool = False, seeds: int = 100) -> Iterator[Row]:
    """Yield the rows.

    Args:
        development: Seeds that settings are chosen on.
        seeds: How many.
    """
    first, robot = FIRST_DEVELOPMENT_SEED if development else FIRST_SEED, panda()
    for noise in NOISES:
        with one_blas_thread():
            chosen = range(first, first + seeds)
            found = [endings(edge_problem(robot, seed, noise)) for seed in chosen]
        what = f"noise {100.0 * noise:g} %"
        yield from rows_of(f"{what}, from the semidefinite fit", [f for f, _ in found], True)
        yield from rows_of(f"{what}, from the prior's bodies", [p for _, p in found], False)


if __name__ == "__main__":
    main()
