"""A load at a wrench sensor that is known to turn, and travels nobody knows where.

The force measured stands for the acceleration. About the centre of mass c

    τ − b_τ = c × (f − b_f) + I_c dω/dt + ω × I_c ω

is linear in c, I_c and the constant b_τ − c × b_f; these are the rows of `HeldBody` with
`by_force`. The mass shows by gravity alone. In the world's axes `R (f − b_f) = m (a − g)`, and slow
parts of a are small, as travel is bounded: weighed by sin(π k t / T), which is zero at both ends,
a is `(π k / T)²` times the travel. So the force's sine transform is fitted at low frequencies, with
a spectrum of noise that falls with the fourth power of frequency down to the sensor's own. Travel
that the turning makes, about a point ℓ that rests, has columns of its own, `R̈ ℓ`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from heft.arrays import Array
from heft.errors import TooLittleData
from heft.estimators import LeastSquares
from heft.information import PARAMETER_COUNT, Information, inertia
from heft.plants import GAP_STEPS, Held, HeldBody, Problem, Unknowns
from heft.signals import between_gaps

from .estimate import TEN, Weighed

LONGEST = 12_000  # samples that are transformed at once
NEIGHBOURS = 4  # frequencies whose residuals tell the noise of one


@dataclass(frozen=True, eq=False)
class Unplaced(Weighed):
    """Mass by the slow force, all else by moments; `estimate` holds both."""

    moments: Weighed = field(kw_only=True)  # the moments' own solution
    force_noise: float = field(kw_only=True)  # standard deviation of one sample [N]

    @property
    def noise(self) -> tuple[float, float]:
        """Standard deviation of one sample's force [N] and moment [N·m]."""
        return self.force_noise, self.moments.noise[1]

    @property
    def rows(self) -> int:
        """Number of windows."""
        return self.moments.rows

    @property
    def left(self) -> tuple[float, float]:
        """Relative residual of the moment, for both: the force has no equation of its own."""
        return (self.moments.left[0],) * 2


def unplaced(problem: Problem[HeldBody], moments: Weighed, logs: Sequence[Held]) -> Unplaced:
    """Return the solution of logs without positions.

    Args:
        problem: Of the whole wrench, with the unknowns of `moments`.
        moments: Solution by the moments, see `HeldBody.by_force`.
        logs: On the problem's clock.

    Raises:
        TooLittleData: If they are too short to tell the mass.
    """
    noise = moments.plant.noise[0]
    x, covariance = _free_of_noise(moments)
    biases = np.arange(PARAMETER_COUNT, len(x)).reshape(-1, 6)
    slow = np.append(0, biases[:, :3])
    x[slow], covariance[np.ix_(slow, slow)] = _hung(logs, moments.plant.unknowns, noise)
    seen = moments.identified.copy()
    seen[slow] = True
    if not seen[1:4].all():  # what is about the sensor's origin needs the whole lever
        seen[4:PARAMETER_COUNT] = seen[biases[:, 3:]] = False

    def about_origin(x: Array) -> Array:
        moved, c = x.copy(), x[1:4]
        moved[TEN] = inertia.from_body(float(x[0]), c, inertia.inertia_matrix(x[TEN]))
        moved[biases[:, 3:]] += np.cross(c, x[biases[:, :3]])
        return moved

    steps = 1e-4 * np.sqrt(np.diag(covariance)) + 1e-12  # of a polynomial of third order
    slopes = [about_origin(x + h) - about_origin(x - h) for h in np.diag(steps)]
    jacobian = (np.array(slopes) / (2.0 * steps[:, None])).T[seen]
    spread = jacobian @ covariance @ jacobian.T
    std = np.sqrt(np.diag(spread))
    sizes, axes = np.linalg.eigh(
        spread / np.outer(std, std)
    )  # some are known far better than others
    root = (axes / np.sqrt(np.maximum(sizes, 1e-12))).T / std
    rows = np.zeros((len(root), len(x) + 1))
    rows[:, np.flatnonzero(seen)], rows[:, -1] = root, root @ about_origin(x)[seen]
    information = Information.neutral(problem.labels, ()).beside("all", rows)
    estimate = LeastSquares().conclude(information, np.ones(1), np.ones(1), moments.estimate.passes)
    return Unplaced(problem, estimate, moments=moments, force_noise=noise)


def _free_of_noise(moments: Weighed) -> tuple[Array, Array]:
    """Return solution and covariance without what the noise of the force does as a regressor.

    ε adds `(ε×)ᵀ W (ε×)` to the information on c, σ² (tr W − W) a row: it would shorten c.
    """
    combined, covariance = moments.plant.combined, moments.covariance.copy()
    assert combined is not None
    weight = combined[3:, 3:].T @ combined[3:, 3:]
    one = (moments.plant.noise[0] / moments.noise[1]) ** 2
    added = np.zeros_like(covariance)
    added[1:4, 1:4] = moments.rows * one * (np.trace(weight) * np.eye(3) - weight)
    x = np.linalg.solve(np.eye(len(added)) - covariance @ added, moments.solution)
    return np.asarray(x), covariance


def _hung(logs: Sequence[Held], unknowns: Unknowns, noise: float) -> tuple[Array, Array]:
    """Return the mass and the biases of force, power by power, and their covariance."""
    pieces = [p for log in logs for p in _transformed(log, unknowns)]
    columns = pieces[0][2].shape[2] if pieces else 0
    if 3 * sum(len(k) for k, _, _ in pieces) <= 2 * columns or not pieces:
        raise TooLittleData(
            "without positions, this log is too short to tell a mass",
            got=f"{sum(log.time[-1] - log.time[0] for log in logs):.3g} s",
            cure="record half a minute, or log the position beside the orientation (pos.<frame>.x)",
        )
    y, Y = (np.concatenate([p[i] for p in pieces]) for i in (1, 2))
    starts = np.cumsum([len(k) for k, _, _ in pieces])[:-1]
    variance = np.concatenate([noise**2 + (k / k[-1]) ** 4 for k, _, _ in pieces])
    for _ in range(4):  # of the noise's spectrum
        rows = (Y / np.sqrt(variance)[:, None, None]).reshape(-1, columns)
        right = (y / np.sqrt(variance)[:, None]).ravel()
        inverse = np.linalg.pinv(rows)
        x, leverage = inverse @ right, np.einsum("ij,ji->i", rows, inverse)
        energy = np.sum((y - Y @ x) ** 2, axis=1)
        freedom = 3.0 - leverage.reshape(-1, 3).sum(axis=1)
        parts = zip(pieces, *(np.split(v, starts) for v in (energy, freedom)), strict=True)
        variance = np.concatenate([noise**2 + _travelled(p[0], e, d) for p, e, d in parts])
    covariance, rest = inverse @ inverse.T, right - rows @ x
    # The spectrum is a guess: where residuals say more of the mass than it, they count [HC3].
    robust = np.sum((inverse[0] * rest / np.maximum(1.0 - leverage, 1e-3)) ** 2)
    scale = max(1.0, robust / covariance[0, 0], rest @ rest / max(len(rest) - columns, 1))
    shown = slice(columns - 3)  # not the lever
    return x[shown], scale * covariance[shown, shown]


def _travelled(k: Array, energy: Array, freedom: Array) -> Array:
    """Return the variance that travel makes, k⁴ times what the residuals at k and above say."""
    together = np.ones(NEIGHBOURS)
    energies, by = (np.convolve(v, together)[NEIGHBOURS - 1 :] for v in (energy / k**4, freedom))
    return np.asarray(k**4 * energies / np.maximum(by, 1.0))


def _transformed(log: Held, unknowns: Unknowns) -> Iterator[tuple[Array, Array, Array]]:
    """Yield k, sine transforms of the force in the world's axes (K, 3), and their columns.

    Columns are the mass, biases of the force, power by power, and mass times ℓ, shape (K, 3,
    columns). Noise of a row is that of one sample.
    """
    step = float(np.median(np.diff(log.time)))
    for gapless in between_gaps(log.time, GAP_STEPS * step):
        for first in range(gapless.start, gapless.stop, LONGEST):
            part = log.part(slice(first, min(first + LONGEST, gapless.stop)))
            time = part.time - part.time[0]
            lasts = float(time[-1])
            k = np.arange(1.0, int(lasts) + 1)  # up to 0.5 Hz the force tells the mass
            if not len(k):
                continue
            w = np.pi * k / lasts
            weight = np.sqrt(2.0 / (lasts * step)) * np.gradient(time)
            tapers = np.sin(w[:, None] * time) * weight
            R = np.swapaxes(part.world, 1, 2)
            force = tapers @ np.einsum("nij,nj->ni", R, part.wrench[:, :3])
            weighed = -np.outer(tapers.sum(axis=1), part.gravity)
            biased = np.einsum(
                "kn,nij,np->kipj", tapers, R, unknowns.powers(part.time), optimize=True
            )
            ends = w[:, None, None] * (R[0] - np.cos(np.pi * k)[:, None, None] * R[-1])
            turned = np.einsum("kn,nij->kij", tapers, R, optimize=True)
            swung = np.sqrt(2.0 / (lasts * step)) * ends - w[:, None, None] ** 2 * turned
            columns = (weighed[:, :, None], biased.reshape(len(k), 3, -1), swung)
            yield k, force, np.concatenate(columns, axis=2)
