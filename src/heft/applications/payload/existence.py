"""Whether logs can be of a load and of the robot that its model file describes.

Least squares with nothing assumed may find a load that no body can be: of negative mass, or with
inertia about where it is not. Noise does so by no more than a few of its own deviations; beyond
that the logs differ by something else than a load. A wrong unit of torque scales load and robot
alike: no body contradicts it, but the masses of the model file do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from heft.arrays import Array
from heft.estimators import PhysicallyConsistent
from heft.fit import ExperimentFit, Limit
from heft.information import (
    PARAMETER_COUNT,
    SYMBOLS,
    UNITS,
    Check,
    Labels,
    ParameterSpace,
    Triangle,
    inertia,
    triangle_of,
)
from heft.plants import GUESS, RobotPlant

WEAKEST = 1e-9  # prior that leaves what is not seen somewhere [effective samples]
DEPENDENT = 1e-9  # singular value of friction's columns, relative, that counts as none
DOCTOR = "heft check LOG --robot MODEL looks for these"


@dataclass(frozen=True)
class Existence:
    """Thresholds of the checks that a load is a body and torques have the right unit.

    The defaults were chosen on simulated pairs of three arms. Right loads of 0.3 to 5 kg were no
    body's to 1.2 %, their joints' friction a quarter less in the second run, and a UR10e's to 4 %;
    those of exchanged runs to 60 % and more, of a base on the ceiling to 45 % and more. File's
    masses a factor 1.3 to 2.2 off explain 73 to 100 % of the torque and are off by 2.5 together at
    most; placeholders explain 3 to 25 % in most arms.
    """

    # deviations that noise may carry a load from all bodies: ten normal numbers exceed them once in
    # ten thousand
    noise: float = 6.0
    # share of what differs between the runs, in its own deviations, that is no body's
    no_body: Limit = Limit(0.1, 0.2)
    # times by which the torque is that of the file's masses, either way, where these explain it
    unit: Limit = Limit(2.0, 5.0)
    explained: float = 0.7  # share of the torque of bodies from which the file's masses explain it

    def of_load(self, ten: Array, covariance: Array) -> Check:
        """Return the check that a load can be a body.

        Args:
            ten: Inertial parameters with nothing assumed, shape (10,) [kg, kg·m, kg·m²].
            covariance: Covariance of them, shape (10, 10).
        """
        share, other_way = self._of_no_body(ten, covariance), self._of_no_body(-ten, covariance)
        std = float(np.sqrt(covariance[0, 0]))
        message = f"{share:.0%} of what differs between the runs is no body's"
        if share > self.no_body.passes:
            message += f": with nothing assumed the load has {ten[0]:.4g} ± {std:.2g} kg; "
            if ten[0] < 0.0 and other_way <= self.no_body.passes:
                message += (
                    "the runs seem exchanged, or the torque's sign is turned: the other way round "
                    f"it has {-ten[0]:.4g} kg. Give the log without the load first"
                )
            else:
                message += (
                    "is the base mounted as the model file has it (else say gravity), the torque "
                    "in N·m, of the model's signs, and not without gravity, and does nothing else "
                    f"differ? {DOCTOR}"
                )
        return Check.at_most("no body", share, self.no_body.passes, self.no_body.fails, message)

    def of_unit(self, run: ExperimentFit[RobotPlant]) -> Iterator[Check]:
        """Yield the check that torques are of the size that the file's masses need.

        None is made where these do not explain them: placeholders, say.

        Args:
            run: Fit of the runs without the load.
        """
        times, explained = torque_over_file(run)
        if times <= 0.0 or explained < self.explained:
            return
        message = f"torques are {times:.3g} times what the model file's masses need"
        if not 1.0 / self.unit.passes <= times <= self.unit.passes:
            message += (
                ", and so is the load: state the torque's unit or scale in the column map (--map), "
                "or drive gains (--with) where it is a current. If the torque is right and the "
                "file is not, give the robot.urdf that heft identify finds from the empty run"
            )
        off = max(times, 1.0 / times)
        yield Check.at_most("unit of torque", off, self.unit.passes, self.unit.fails, message)

    def _of_no_body(self, ten: Array, covariance: Array) -> float:
        far, whole = from_bodies(ten, covariance)
        return far / whole if far > self.noise else 0.0


def from_bodies(ten: Array, covariance: Array) -> tuple[float, float]:
    """Return the whitened distances of inertial parameters from the nearest body and from zero.

    Args:
        ten: Inertial parameters with nothing assumed, shape (10,) [kg, kg·m, kg·m²].
        covariance: Covariance of them, shape (10, 10).
    """
    space = ParameterSpace.of_one_body(Labels(SYMBOLS, UNITS), inertia.sphere(*GUESS))
    root = np.linalg.cholesky(covariance)
    rows = solve_triangular(root, np.column_stack([np.eye(PARAMETER_COUNT), ten]), lower=True)
    total = Triangle(np.arange(PARAMETER_COUNT), triangle_of(rows), PARAMETER_COUNT)
    nearest = PhysicallyConsistent(strength=WEAKEST, margin=0.0).values(total, space)
    left = rows[:, :-1] @ nearest - rows[:, -1]
    return float(np.linalg.norm(left)), float(np.linalg.norm(rows[:, -1]))


def torque_over_file(run: ExperimentFit[RobotPlant]) -> tuple[float, float]:
    """Return the scale of the file's bodies that best explains torques beside any friction.

    Args:
        run: Fit of runs without a load.

    Returns:
        The factor, and the share of the sum of squares that friction leaves which it explains.
    """
    space = run.problem.space
    triangle = run.information.combined(run.estimate.weights())
    R = triangle.R @ space.matrix[triangle.columns]
    bodies = slice(PARAMETER_COUNT * len(space.groups))
    drives = R[:, bodies.stop :]
    left, singular, _ = np.linalg.svd(drives, full_matrices=False)
    left = left[:, singular > DEPENDENT * singular.max(initial=0.0)]
    file, torque = (
        x - left @ (left.T @ x) for x in (R[:, bodies] @ space.nominal[bodies], triangle.z)
    )
    shared = float(file @ torque)
    size = float(file @ file) or 1.0
    return shared / size, shared**2 / (size * float(torque @ torque) or 1.0)
