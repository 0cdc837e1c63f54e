"""The load of agreed windows: maximum likelihood with noise in motion and wrench alike.

Each window of the motion m and of the total wrench w, both with noise of known covariance, obeys

    w = Σ_k m_k Z_k π

so that the sum of eᵀ C⁻¹ e with e = w − Σ m_k Z_k π and C(π) its covariance is least at the truth,
whatever the noise: no bias of least squares' kind is left, and none is subtracted. Noise in m is no
information: where motion is no more than noise, the load is not told. What it leaves over may name
the robot whose force/torque sensor is wrong.

What is known beside is information that adds. A mass or a centre of mass that is known is the
partial model of [Fan2017, (25)-(27)]; a pose that is known from drawings is another. Each enters
with its deviation: with none it is as good as fixed, with an infinite one as good as not said. What
a team knew before a robot joined it enters likewise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from scipy.optimize import leastsq

from heft.arrays import Array
from heft.estimators import measured_regressor_covariance, whitening, whitening_slopes
from heft.information import Directions, inertia, triangle_of

from .windows import IN_PLANE, Pose, PoseBelief, Space, likely_motion, signal_motion

# Moment and force that a robot measured in its own frame, windows or a factor of them, shape
# (any, r), and D that takes them to the load's frame, shape (r, r).
OwnWrench: TypeAlias = tuple[Array, Array]
# Deviations by which what is left over exceeds noise, and by which one robot's wrench explains it
# better than another's; and what may stay unexplained, as a share of what is beyond noise.
SURE, UNEXPLAINED = 5.0, 0.25


@dataclass(frozen=True, eq=False)
class LoadEstimate:
    """Estimated inertial parameters of a load, in a contact's frame."""

    mass: float  # [kg]
    com: Array  # centre of mass, shape (3,) [m]
    inertia: Array  # about it, shape (3, 3) [kg·m²]
    # of mass, mass times centre of mass, and inertia about the contact (xx, xy, yy, xz, yz, zz),
    # shape (10, 10); None if not known
    covariance: Array | None = None

    @property
    def numbers(self) -> Array:
        """Mass, centre of mass and inertia about it (xx, xy, yy, xz, yz, zz), shape (10,)."""
        rows, columns = [0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]
        return np.array([self.mass, *self.com, *self.inertia[rows, columns]])

    @property
    def std(self) -> Array | None:
        """Standard deviations of `numbers`, shape (10,); None if not known."""
        if self.covariance is None:
            return None
        com, about, covariance = map(np.nan_to_num, (self.com, self.inertia, self.covariance))
        _, jacobian = inertia.stated_body(inertia.from_body(self.mass, com, about))
        variance = np.einsum("ki,ij,kj->k", jacobian, covariance, jacobian)
        std = np.sqrt(np.maximum(variance, 0.0))
        return np.where(np.isfinite(self.numbers), std, np.nan)

    @staticmethod
    def planar(values: Array, covariance: Array) -> LoadEstimate:
        """Return a load that moves in a plane; components across it are NaN.

        Args:
            values: m, h_x, h_y and I_zz about the contact, shape (4,).
            covariance: Of them, shape (4, 4).
        """
        mass, x, y, about = values
        com = np.array([x / mass, y / mass, np.nan])
        moment = np.full((3, 3), np.nan)
        moment[2, 2] = about - (x**2 + y**2) / mass
        full = np.full((10, 10), np.nan)
        full[np.ix_(IN_PLANE, IN_PLANE)] = covariance
        return LoadEstimate(float(mass), com, moment, full)


@dataclass(frozen=True, eq=False)
class LoadBelief:
    """Prior of a load's parameters in one frame."""

    rows: Array  # a of A π = b, each by its deviation, shape (any, p)
    values: Array  # b, shape (any,)
    # h and m of the load in some frame as rows, shape (1 + d, p), the centre of mass that is known
    # there, shape (d,) [m], and its deviation [m]
    centres: tuple[tuple[Array, Array, float], ...] = ()

    def residuals(self, values: Array) -> Array:
        """Return the prior's residuals at π, each divided by its standard deviation."""
        made = [self.rows @ values - self.values]
        for rows, centre, std in self.centres:
            mass, *moments = rows @ values
            made.append((np.array(moments) / mass - centre) / std)
        return np.concatenate(made)

    def jacobian(self, values: Array) -> Array:
        """Return the derivative of the residuals by π, shape (any, p)."""
        made = [self.rows]
        for rows, _, std in self.centres:
            mass, *moments = rows @ values
            made.append((rows[1:] - np.outer(np.array(moments) / mass, rows[0])) / (mass * std))
        return np.vstack(made)

    def linear(self, mass: float) -> tuple[Array, Array]:
        """Return rows A and values b of the prior, linearised as A π = b.

        Args:
            mass: Approximate mass of the load, which weights its centres of mass [kg].
        """
        rows, values = [self.rows], [self.values]
        for own, centre, std in self.centres:
            rows.append((own[1:] - np.outer(centre, own[0])) / (mass * std))
            values.append(np.zeros(len(centre)))
        return np.vstack(rows), np.concatenate(values)

    def beside(self, count: int) -> LoadBelief:
        """Return the prior with more parameters behind π, each of mean zero and deviation one."""
        size = self.rows.shape[1]

        def wider(rows: Array) -> Array:
            return np.pad(rows, ((0, 0), (0, count)))

        rows = np.vstack([wider(self.rows), np.eye(count, size + count, size)])
        values = np.append(self.values, np.zeros(count))
        return LoadBelief(rows, values, tuple((wider(r), at, std) for r, at, std in self.centres))


@dataclass(frozen=True, eq=False)
class TeamBelief:
    """Prior of a team's contact poses, its wrench sensors' offsets and its first load."""

    # by robot, of a frame that all of them share
    poses: Mapping[int, PoseBelief] = field(default_factory=dict)
    mass: tuple[float, float] | None = None  # of the load and its deviation [kg]; None if not known
    # by robot, the centre of mass in its frame, shape (3,) [m], and its deviation [m]
    centres: Mapping[int, tuple[Array, float]] = field(default_factory=dict)
    # a robot, π in its frame and the covariance, as estimated before; None if not
    load: tuple[int, Array, Array] | None = None
    # by robot, deviations of its wrench sensor's offset from zero, of moment and force, shape (6,)
    # [N·m and N]; of who is not there it is zero
    offsets: Mapping[int, Array] = field(default_factory=dict)

    def of(self, robots: Sequence[int]) -> TeamBelief:
        """Return the prior of some robots, numbered anew.

        Args:
            robots: Their indices here, in their new order.
        """
        place = {robot: k for k, robot in enumerate(robots)}
        return replace(
            self,
            poses={place[k]: p for k, p in self.poses.items() if k in place},
            centres={place[k]: c for k, c in self.centres.items() if k in place},
            offsets={place[k]: o for k, o in self.offsets.items() if k in place},
            load=(place[self.load[0]], *self.load[1:])
            if self.load is not None and self.load[0] in place
            else None,
        )

    def of_another_load(self) -> TeamBelief:
        """Return the prior that stays valid when the load changes: of poses and offsets."""
        return TeamBelief(self.poses, offsets=self.offsets)

    def of_load(self, poses: Mapping[int, Pose], space: Space) -> LoadBelief:
        """Return the prior of the load in the frame of the poses.

        Args:
            poses: By robot, R and t that take coordinates of that frame to its own.
        """
        count = len(space.load)
        rows, values = [np.zeros((0, count))], [np.zeros(0)]
        if self.mass is not None:
            mass, std = self.mass
            rows.append(np.eye(1, count) / std)
            values.append(np.array([mass / std]))
        if self.load is not None and self.load[0] in poses:
            robot, known, covariance = self.load
            root = np.linalg.cholesky(np.linalg.inv(covariance)).T
            rows.append(root @ space.load_map(poses[robot]))
            values.append(root @ known)
        first = [k for k, number in enumerate(space.load) if number < 4]
        centres = tuple(
            (space.load_map(poses[robot])[first], centre[: len(first) - 1], std)
            for robot, (centre, std) in self.centres.items()
            if robot in poses
        )
        return LoadBelief(np.vstack(rows), np.concatenate(values), centres)


@dataclass(frozen=True, eq=False)
class LoadInformation:
    """Likelihood of a load's parameters π, shape (p,), from the second moments of windows."""

    # motion and wrench of windows side by side, or a triangle of them, shape (any, k + r): 24 in
    # space, and a one behind the motion where wrenches have an offset
    factor: Array
    motion_spread: Array  # covariance of a window's motion, shape (k, k); zero of a one
    wrench_spread: Array  # of its wrench, shape (r, r)
    windows: int  # how many windows that are
    overlap: float  # how many of them count as one
    # Z, which says what k numbers of motion, r of wrench and p parameters there are
    tensor: Array
    belief: LoadBelief  # what is known of the load beside

    @property
    def motion(self) -> Array:
        """Motion of the windows, shape (any, k)."""
        return self.factor[:, : len(self.tensor)]

    @property
    def wrench(self) -> Array:
        """Wrench of the windows, shape (any, r)."""
        return self.factor[:, len(self.tensor) :]

    def regressor(self, motion: Array) -> Array:
        """Return Σ_k m_k Z_k of windows, shape (K, r, p)."""
        return np.asarray(np.einsum("nk,kij->nij", motion, self.tensor))

    def residual(self, values: Array) -> Array:
        """Return wrenches less those of a load, shape (any, r)."""
        return self.wrench - self.motion @ (self.tensor @ values)

    def spread(self, values: Array) -> Array:
        """Return C(π), covariance of a window's residual, shape (r, r)."""
        J = self.tensor @ values
        return np.asarray(self.wrench_spread + J.T @ self.motion_spread @ J)

    def estimate(self, guess: Array | None = None) -> tuple[Array, Array, float] | None:
        """Return π, its covariance and the misfit; None where windows do not determine all p.

        The misfit is the mean of squared residuals, each by its deviation: 1 where noise is as
        stated.

        Args:
            guess: Initial π, shape (p,); by least squares if None.
        """
        motion, wrench = self.motion, self.wrench
        Y = self.regressor(motion)
        start = guess
        if start is None:
            first = np.linalg.inv(np.linalg.cholesky(self.wrench_spread))
            count = self.tensor.shape[2]
            rows, right = (first @ Y).reshape(-1, count), (wrench @ first.T).ravel()
            linear, values = self.belief.linear(1.0)
            rows, right = np.vstack([rows, linear]), np.concatenate([right, values])
            if Directions.of(triangle_of(rows), count).rank < count:
                return None
            start = np.asarray(np.linalg.lstsq(rows, right, rcond=None)[0])
        seen = signal_motion(motion, self.motion_spread, self.windows, self.overlap)
        if self._covariance(*seen, start) is None:
            return None

        def residuals(values: Array) -> Array:
            rows = wrench - Y @ values
            white = (whitening(self.spread(values)) @ rows.T).ravel()
            # What counts once, among windows that overlap
            return np.concatenate([white, np.sqrt(self.overlap) * self.belief.residuals(values)])

        def slopes(values: Array) -> Array:
            W = whitening(self.spread(values))
            half = W @ (tensor @ self.motion_spread @ (self.tensor @ values)) @ W.T
            rest = W @ (wrench - Y @ values).T
            slope = whitening_slopes(half + np.swapaxes(half, 1, 2)) @ rest - W @ columns
            slope = slope.reshape(len(tensor), -1).T
            known = np.sqrt(self.overlap) * self.belief.jacobian(values)
            return np.vstack([slope, known])

        tensor, columns = self.tensor.transpose(2, 1, 0), Y.transpose(2, 1, 0)
        # Beyond so many evaluations is a valley that descends for ever, and tells nothing.
        most = {"ftol": 1e-8, "xtol": 1e-8, "gtol": 1e-8, "maxfev": 200}
        found, _, fit, _, _ = leastsq(residuals, start, Dfun=slopes, full_output=True, **most)
        covariance = self._covariance(*self._likely(found), found)
        if covariance is None:
            return None
        residual = fit["fvec"][: wrench.size]
        misfit = float(residual @ residual)
        misfit /= max(wrench.shape[1] * self.windows - len(start), 1)
        return found, covariance, misfit

    def without_inertia(self, numbers: Sequence[int]) -> Array:
        """Return mass, its first moments and offsets by least squares, all moments of inertia zero.

        Args:
            numbers: Which of the ten parameters the first of π are.
        """
        light = [k for k in range(self.tensor.shape[2]) if k >= len(numbers) or numbers[k] < 4]
        white = whitening(self.wrench_spread)
        rows = (white @ self.regressor(self.motion)[:, :, light]).reshape(-1, len(light))
        ridge = np.diag([0.0 if k < len(numbers) else 1.0 for k in light])
        right = np.append(self.wrench @ white.T, np.zeros(len(light)))
        values = np.zeros(self.tensor.shape[2])
        values[light] = np.linalg.lstsq(np.vstack([rows, ridge]), right, rcond=None)[0]
        return values

    def gradient(self, values: Array) -> Array:
        """Return minus half the gradient of Σ eᵀ C⁻¹ e, shape (p,): zero at the estimate."""
        motion, _ = self._likely(values)
        rest = self.residual(values)
        white = np.linalg.solve(self.spread(values), rest.T).T
        downhill = np.asarray(np.einsum("nij,ni->j", self.regressor(motion), white))
        J = self.belief.jacobian(values)
        return downhill - self.overlap * J.T @ self.belief.residuals(values)

    def information(self, values: Array) -> Array:
        """Return Σ JᵀJ of the true motions, that of noise subtracted, shape (p, p)."""
        observed, of_noise = self._moments(*self._likely(values), values)
        return observed - of_noise + self.overlap * self._known(values)

    def _known(self, values: Array) -> Array:
        """Return the prior's information at π, shape (p, p)."""
        J = self.belief.jacobian(values)
        return np.asarray(J.T @ J)

    def _likely(self, values: Array) -> tuple[Array, Array]:
        """Return the most likely motions given π, shape (any, k), and their noise covariance."""
        M, noise = (self.tensor @ values).T, self.motion_spread
        return likely_motion(self.motion, self.wrench, M, noise, self.spread(values))

    def _covariance(self, motion: Array, noise: Array, values: Array) -> Array | None:
        observed, of_noise = (m / self.overlap for m in self._moments(motion, noise, values))
        rows, known = self.windows / self.overlap, self._known(values)
        return measured_regressor_covariance(observed, of_noise, rows, known)

    def _moments(self, motion: Array, noise: Array, values: Array) -> tuple[Array, Array]:
        """Return Σ JᵀJ of motions, J = C^(−1/2) Y, and what their noise adds, shape (p, p)."""
        white = whitening(self.spread(values)) @ self.tensor

        def moment(second: Array) -> Array:
            return np.asarray(np.einsum("aip,ab,biq->pq", white, second, white, optimize=True))

        return moment(motion.T @ motion), moment(self.windows * noise)


@dataclass(frozen=True)
class WrenchDoubt:
    """Robot whose measured wrench explains the load's residual."""

    robot: int  # its place in the team
    offset: float | None  # of its force [N], if that explains it; None if its gains do

    def words(self, name: str) -> str:
        """Return the message for a user."""
        about = "gains" if self.offset is None else f"an offset of {self.offset:.2g} N in its force"
        return (
            f"What the load leaves over goes with the wrench that {name} measures: {about} "
            "would explain it, and nothing of another robot's"
        )


def wrench_doubt(
    load: LoadInformation,
    values: Array,
    own: Mapping[int, OwnWrench],
    ones: Array,
    numbers: Sequence[int],
) -> WrenchDoubt | None:
    """Return the robot whose wrench explains the load's residual; None if no single one does.

    Only the sum of all wrenches enters the dynamics, so that a residual has no name of its own. But
    a wrong gain makes one that goes with what that robot itself measured, and an offset of its
    force one that acts at its own contact. Each robot's gains and each one's offset are tried
    beside the load; a robot is named if one of its own explains what no other's does. An offset of
    a torque is the same wherever it is, and has no name.

    Args:
        values: Estimated π, shape (p,).
        own: By robot.
        ones: Column of ones, reduced as the rows of the load's factor are, shape (any,).
        numbers: Places of the wrench's components among moment and force.
    """
    white = whitening(load.spread(values))
    Y = load.regressor(load.motion)
    rest = ((load.wrench - Y @ values) @ white.T).ravel()
    columns = (white @ Y).reshape(len(rest), -1)

    def beside_load(values: Array) -> Array:
        return np.asarray(values - columns @ np.linalg.lstsq(columns, values, rcond=1e-12)[0])

    rest, rows = beside_load(rest), load.windows * len(numbers)
    noise = SURE * np.sqrt(2.0 * load.overlap / rows)

    def beyond(squares: float) -> float:
        return squares / rows - 1.0

    before = beyond(float(rest @ rest))
    if before <= noise:
        return None
    tried = []
    for robot, is_offset, fault in _faults(own, ones, numbers):
        H = beside_load((white @ fault).reshape(len(rest), -1))
        size = np.linalg.lstsq(H, rest, rcond=1e-9)[0]
        remainder = rest - H @ size
        offset = float(np.linalg.norm(size)) if is_offset else None
        tried.append((float(remainder @ remainder), robot, offset))
    least, robot, offset = min(tried, key=lambda t: t[0])
    others = [squares for squares, k, _ in tried if k != robot]
    apart = (min(others, default=np.inf) - least) / load.overlap
    explained = beyond(least) <= max(UNEXPLAINED * before, noise)
    if robot is None or not explained or apart <= SURE**2:
        return None
    return WrenchDoubt(robot, offset)


def _faults(
    own: Mapping[int, OwnWrench], ones: Array, numbers: Sequence[int]
) -> Iterator[tuple[int | None, bool, Array]]:
    """Yield robot (None for a torque offset), whether an offset, and columns (any, r, k)."""
    forces = [k for k, number in enumerate(numbers) if number >= 3]
    torques = [k for k, number in enumerate(numbers) if number < 3]
    constant = np.eye(len(numbers))[None] * ones[:, None, None]
    yield None, True, constant[:, :, torques]
    for robot, (wrench, D) in own.items():
        yield robot, False, D[None] * wrench[:, None, :]
        yield robot, True, (D @ constant)[:, :, forces]
