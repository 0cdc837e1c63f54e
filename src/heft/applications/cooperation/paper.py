"""The method of [Fan2017], whole: linear observations, forgetting, consensus in own coordinates.

    1. pose of each neighbour from twists, dual quaternions, frozen after some seconds   (38)-(40)
    2. angular acceleration by central differences (16) and neighbours' accelerometers   (17), (18)
    3. total wrench by consensus in different coordinates                                (22), (34)
    4. centre of mass, inertia and 1/m by recursive least squares with forgetting        (30), (33)

Corrected, each where it is made:

- An accelerometer reads v̇ + ω×v − Rᵀg; (8), (20), (21) and (23) hold for v̇ − Rᵀg. Without ω×v they
  hold for the accelerometer, and (17) gains −ω_j×(ω_j×t).
- The first two rows of (30) repeat the last three, which makes its covariance singular: left out.
- (33a) takes the residual y − H x, not y − H x_k.
- (34) tends to the mean; the total is n times that.
- (31) turns inertia by R_ji I R_jiᵀ.

Its estimates are biased by noise in the regressors, its memory is that of its forgetting: it is
here for comparison, see `CooperativeMethod` for heft's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidRecording
from heft.estimators import TwistInformation
from heft.information import Graph, averaged, consensus_maps, skew

from .load import LoadEstimate
from .signals import ContactSignals
from .windows import Pose


@dataclass(frozen=True)
class PaperMethod:
    """Settings of [Fan2017], its section VII."""

    settle: float = 8.0  # after which poses are taken as they are, and the load is estimated [s]
    rounds: int = 20  # of consensus for each sample
    gain: float = 0.4  # ε of consensus
    forgetting: float = 1.005  # λ of (33b), for each sample
    covariance: float = 100.0  # of all unknowns at the beginning
    mass: float = 1.0  # believed at the beginning [kg]
    inertia: float = 1.0  # believed at the beginning, each moment [kg·m²]
    noise: float = 0.4  # σ of every sensor, each in its unit
    # whether estimates are averaged over neighbours too, once a sample, (31) and (32)
    shared: bool = False

    def poses(
        self, team: Sequence[ContactSignals], graph: Graph, until: float
    ) -> dict[tuple[int, int], Pose]:
        """Return R and t that take coordinates of i to those of j, by (j, i), for neighbours.

        Args:
            until: Time after the first sample up to which samples are used [s].
        """
        made: dict[tuple[int, int], Pose] = {}
        for i, j in graph.edges:
            chosen = team[i].time < team[i].time[0] + until
            one, other = team[i].part(chosen), team[j].part(chosen)
            twists = TwistInformation.of(
                one.angular_velocity, one.velocity, other.angular_velocity, other.velocity
            )
            R, t = twists.pose()
            made[j, i] = (R, t)
            made[i, j] = (R.T, -R.T @ t)
        return made

    def identify(
        self,
        team: Sequence[ContactSignals],
        graph: Graph,
        poses: Mapping[tuple[int, int], Pose] | None = None,
    ) -> PaperResult:
        """Return what every robot estimates at every sample after poses have settled.

        Args:
            team: Signals of each robot, at the same times.
            poses: Of neighbours by (j, i), where they are known; estimated if None.
        """
        poses_of_edges = self.poses(team, graph, self.settle) if poses is None else dict(poses)
        start = int(np.searchsorted(team[0].time, team[0].time[0] + self.settle))
        if len(team[0].time) - start < 10:  # samples
            raise InvalidRecording(
                f"the poses settle for {self.settle:g} s, then the load is estimated",
                argument="method",
                got=f"{team[0].time[-1] - team[0].time[0]:.3g} s of logs",
                cure="record for longer, or take heft's own method",
            )
        parts = [robot.part(slice(start, None)) for robot in team]
        alpha, spreads = self._angular_acceleration(team, parts, start, graph, poses_of_edges)
        wrench = self._total_wrench(parts, graph, poses_of_edges)
        middle = self._contact_centre(graph, poses_of_edges)
        spread = np.array([self._spread(s, graph.count) for s in spreads])
        filters = _Filters(self, parts, alpha, wrench, middle, spread)
        maps = {key: estimate_map(pose) for key, pose in poses_of_edges.items()}
        history = np.empty((len(parts), len(parts[0].time), 10))
        for k in range(history.shape[1]):
            estimates = filters.step(k)
            if self.shared:
                augmented = np.hstack([estimates, np.ones((len(estimates), 1))])[:, None, :]
                estimates = filters.x = averaged(augmented, maps, graph, 1, self.gain)[:, 0, :10]
            history[:, k] = estimates
        return PaperResult(parts[0].time, poses_of_edges, history)

    def _angular_acceleration(
        self,
        team: Sequence[ContactSignals],
        parts: Sequence[ContactSignals],
        start: int,
        graph: Graph,
        poses: Mapping[tuple[int, int], Pose],
    ) -> tuple[Array, list[Array]]:
        """Return α of each robot by (16), (17), then consensus (18), and its covariance.

        Shapes (n, N, 3) [rad/s²] and (3, 3) each [rad²/s⁴]; the latter as if all were like its own.
        """
        step = float(np.median(np.diff(team[0].time)))
        differences = 0.5 * self.noise**2 / step**2  # variance of (16)
        made: list[Array] = []
        spreads: list[Array] = []
        for i, part in enumerate(parts):
            differences_of_all = np.gradient(team[i].angular_velocity, step, axis=0)[start:]
            information = np.eye(3) / differences
            vector = differences_of_all / differences
            for j in graph.neighbours[i]:
                R, t = poses[j, i]
                H = skew(t) @ R
                omega = parts[j].angular_velocity
                y = parts[j].acceleration - part.acceleration @ R.T
                y = y + np.cross(omega, np.cross(omega, t))
                information = information + H.T @ H / (2.0 * self.noise**2)
                vector = vector + y @ H / (2.0 * self.noise**2)
            own = np.asarray(np.linalg.inv(information))
            made.append(vector @ own)
            spreads.append(own / graph.count)
        turns = {key: pose[0] for key, pose in poses.items()}
        return averaged(np.array(made), turns, graph, self.rounds, self.gain), spreads

    def _spread(self, alpha: Array, robots: int) -> Array:
        """Return Σ of ω, α, total moment and force, and acceleration, shape (15, 15)."""
        made = self.noise**2 * np.diag([*[1.0] * 6, *[float(robots)] * 6, *[1.0] * 3])
        made[3:6, 3:6] = alpha
        return made

    def _total_wrench(
        self, parts: Sequence[ContactSignals], graph: Graph, poses: Mapping[tuple[int, int], Pose]
    ) -> Array:
        """Return moment and force of all robots at each contact, shape (n, N, 6); n times (34)."""
        own = np.array([np.hstack([p.torque, p.force]) for p in parts])
        maps = consensus_maps(poses)
        return graph.count * averaged(own, maps, graph, self.rounds, self.gain)

    def _contact_centre(self, graph: Graph, poses: Mapping[tuple[int, int], Pose]) -> Array:
        """Return the middle of all contacts in each robot's frame, shape (n, 3) [m]."""
        affine = {}
        for key, (R, t) in poses.items():
            affine[key] = np.eye(4)
            affine[key][:3, :3], affine[key][:3, 3] = R, t
        origin = np.tile([0.0, 0.0, 0.0, 1.0], (graph.count, 1, 1))
        return averaged(origin, affine, graph, 10 * self.rounds, self.gain)[:, 0, :3]


class _Filters:
    """Recursive least squares of every robot, (33): com, inertia, 1/mass; all robots at once.

    Args:
        alpha: Angular acceleration, shape (n, N, 3) [rad/s²].
        wrench: Total moment and force, shape (n, N, 6) [N·m and N].
        middle: Initial centre of mass, shape (n, 3) [m].
        spread: Covariance of ω, α, moment, force and acceleration, shape (n, 15, 15).
    """

    def __init__(
        self,
        method: PaperMethod,
        parts: Sequence[ContactSignals],
        alpha: Array,
        wrench: Array,
        middle: Array,
        spread: Array,
    ) -> None:
        believed = np.array([*[method.inertia] * 3, 0.0, 0.0, 0.0, 1.0 / method.mass])
        self.x = np.hstack([middle, np.tile(believed, (len(parts), 1))])
        self._P = np.tile(method.covariance * np.eye(10), (len(parts), 1, 1))
        self._forgetting, self._spread = method.forgetting, spread
        self._omega = np.array([part.angular_velocity for part in parts])
        rows = [
            observation(part.angular_velocity, a, part.acceleration, w)
            for part, a, w in zip(parts, alpha, wrench, strict=True)
        ]
        self._H, self._y = (np.array(each) for each in zip(*rows, strict=True))
        # Slopes are a straight line in ω.
        self._still = _slopes(np.zeros(3))
        self._turning = np.array([_slopes(unit) - self._still for unit in np.eye(3)])

    def step(self, k: int) -> Array:
        """Return the estimates after a sample, shape (n, 10)."""
        H, P = self._H[:, k], self._P
        slopes = self._still + np.tensordot(self._omega[:, k], self._turning, 1)
        R = uncertainty(slopes, self.x, P, self._spread)
        across = P @ H.swapaxes(1, 2)
        gain = across @ np.linalg.inv(H @ across + R)
        residual = self._y[:, k] - (H @ self.x[:, :, None])[:, :, 0]
        self.x = self.x + (gain @ residual[:, :, None])[:, :, 0]
        P = self._forgetting * (P - gain @ H @ P)
        self._P = 0.5 * (P + P.swapaxes(1, 2))
        return self.x


def estimate_map(pose: Pose) -> Array:
    """Return A that takes (com, inertia, 1/m, 1) from one frame to another; (31) and (32)."""
    R, t = pose
    made = np.zeros((11, 11))
    made[:3, :3], made[:3, 10] = R, t
    made[9, 9] = made[10, 10] = 1.0
    pairs = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
    for column, (a, b) in enumerate(pairs):
        unit = np.zeros((3, 3))
        unit[a, b] = unit[b, a] = 1.0
        turned = R @ unit @ R.T
        made[3:9, 3 + column] = [turned[c, d] for c, d in pairs]
    return made


def uncertainty(slopes: Array, x: Array, P: Array, spread: Array) -> Array:
    """Return the covariance of `H_D x − y_D` of each robot, shape (n, 6, 6), by Proposition 2.

    Args:
        slopes: Derivatives of H_D by each measured number, shape (n, 15, 6, 10); see `_slopes`.
        x: Estimates, shape (n, 10).
        P: Their covariances, shape (n, 10, 10).
        spread: Σ, covariance of ω, α, moment, force and acceleration, shape (n, 15, 15).
    """
    n = len(x)
    G = (slopes @ x[:, None, :, None])[..., 0].swapaxes(1, 2)
    G[:, :3, 6:9] -= np.eye(3)
    G[:, 3:, 12:] -= np.eye(3)
    # Σ_ab (∂H/∂a) P (∂H/∂b)ᵀ, the sum over b first.
    summed = (spread @ slopes.reshape(n, 15, 60)).reshape(n, 15, 6, 10)
    slopes_P, slopes_spread = (
        m.swapaxes(1, 2).reshape(n, 6, 150) for m in (slopes @ P[:, None], summed)
    )
    return np.asarray(G @ spread @ G.swapaxes(1, 2) + slopes_P @ slopes_spread.swapaxes(1, 2))


def _slopes(omega: Array) -> Array:
    """Return ∂H_D/∂b, b being ω, α, moment, force and acceleration, shape (15, 6, 10).

    Of products of two of them, differences on both sides are exact.
    """
    both = (np.append(omega, np.zeros(12)) + sign * np.eye(15) for sign in (1.0, -1.0))
    ahead, behind = (observation(b[:, :3], b[:, 3:6], b[:, 12:], b[:, 6:12])[0] for b in both)
    return 0.5 * (ahead - behind)


def observation(
    omega: Array, alpha: Array, acceleration: Array, wrench: Array
) -> tuple[Array, Array]:
    """Return H_D, shape (N, 6, 10), and y_D, shape (N, 6), of (30) for real accelerometers.

    Args:
        omega: ω, shape (N, 3) [rad/s].
        alpha: α, shape (N, 3) [rad/s²].
        acceleration: What the accelerometer reads, v̇ + ω×v − Rᵀg, shape (N, 3) [m/s²].
        wrench: Total moment and force at the contact, shape (N, 6) [N·m and N].
    """
    H = np.zeros((len(omega), 6, 10))
    H[:, :3, :3] = -skew(wrench[:, 3:])
    H[:, :3, 3:9] = _inertia_columns(alpha) + skew(omega) @ _inertia_columns(omega)
    H[:, 3:, :3] = -skew(alpha) - skew(omega) @ skew(omega)
    H[:, 3:, 9] = wrench[:, 3:]
    return H, np.hstack([wrench[:, :3], acceleration])


def _inertia_columns(w: Array) -> Array:
    """Return the matrix of `I w` in Ixx, Iyy, Izz, Ixy, Ixz, Iyz, shape (N, 3, 6)."""
    x, y, z = w.T
    o = np.zeros_like(x)
    rows = [[x, o, o, y, z, o], [o, y, o, x, o, z], [o, o, z, o, x, y]]
    return np.moveaxis(np.array(rows), 2, 0)


@dataclass(frozen=True, eq=False)
class PaperResult:
    """Estimates by [Fan2017]."""

    time: Array  # shape (N,) [s]
    # of neighbours by (j, i): R and t take coordinates of i to those of j
    poses: Mapping[tuple[int, int], Pose]
    # of each robot after each sample, shape (n, N, 10): centre of mass [m], moments and products of
    # inertia about it [kg·m²], 1/mass [1/kg]
    history: Array

    def at(self, time: float, robot: int) -> LoadEstimate:
        """Return a robot's estimate at a time [s]."""
        k = int(np.searchsorted(self.time, time, side="right")) - 1
        x = self.history[robot, k]
        xx, yy, zz, xy, xz, yz = x[3:9]
        inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        return LoadEstimate(1.0 / x[9], x[:3], inertia)
