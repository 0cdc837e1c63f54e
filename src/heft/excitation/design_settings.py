"""Settings of the design of excitation: the motion, its grids, random motions and the solver."""

from __future__ import annotations

from dataclasses import dataclass

from heft.errors import InvalidSetting

from .trajectories import BASES, Family, Fourier, Rest, Spline


@dataclass(frozen=True)
class Grids:
    """Numbers of times at which a motion is evaluated."""

    samples: int = 320  # for information, torque and power
    # for position, velocity, acceleration and jerk; a motion's extremes over all t exceed those of
    # 96 points of 5 harmonics by 1.4 % at most
    points: int = 96
    postures: int = 64  # for clearance
    spare: float = 0.0  # share of each limit that is left free
    gap: float = 0.0  # clearance that is kept beyond what is required [m]

    def finer(self, factor: int) -> Grids:
        """Return grids of more times, by a factor."""
        samples, points, postures = self.samples, self.points, self.postures
        return Grids(factor * samples, factor * points, factor * postures, self.spare, self.gap)


@dataclass(frozen=True)
class SolverSettings:
    """Settings of the solver; its effort grows from round to round."""

    rounds: int = 12  # largest number
    iterations: int = 60  # of L-BFGS in the first round
    more: int = 20  # further ones in each later round
    memory: int = 30  # pairs of L-BFGS
    settled: float = 0.05  # change of φ from round to round below which it has converged [nats]


@dataclass(frozen=True)
class DesignSettings:
    """Settings of a design."""

    duration: float = 10.0  # of the motion [s]
    basis: str = "fourier"  # `fourier` or `spline`
    harmonics: int = 5  # of a Fourier series
    frequency: float | None = None  # its lowest [Hz]; one period in the duration if not given
    intervals: int = 12  # of a spline
    rest: Rest = "both"  # where the motion is at rest
    # posture at the start, shape (d,) [rad or m]; free if not given
    start: tuple[float, ...] | None = None
    criterion: str = "D"  # `D`, `A`, `E` or `condition`
    # links or joints whose parameters count, by name; the others are nuisance. All if empty
    about: tuple[str, ...] = ()
    # whether columns are brought to their usual lengths, so that criteria that depend on units
    # count a parameter by what it does; else they are taken in SI units
    scale_columns: bool = True
    # whether rows are divided by the channels' noise. Condition numbers are commonly published of
    # rows neither weighed nor scaled
    weigh_rows: bool = True
    # independent rows a second that will be recorded [Hz]; that of the samples if not given. It
    # says what the new run weighs beside what is known already
    row_rate: float | None = None
    random: int = 300  # number of random motions to begin with
    starts: int = 3  # number of the best of them that are improved
    workers: int = 2  # how many at a time
    seed: int = 0  # of the random numbers
    # share of each limit that the solver leaves free, for what it cannot meet exactly
    spare: float = 0.002
    # clearance that the solver keeps beyond what is required, since links come nearer between its
    # samples [m]; a quarter of it on the finest grid
    gap: float = 0.002
    grids: Grids = Grids()  # on which the solver looks at the motion
    solver: SolverSettings = SolverSettings()  # of each start

    @property
    def family(self) -> Family:
        """Family of trajectories among which the design is sought.

        Raises:
            InvalidSetting: If there is no such basis.
        """
        if self.basis not in BASES:
            raise InvalidSetting(
                "this basis is not known", argument="basis", got=self.basis, valid=tuple(BASES)
            )
        basis = (
            Fourier(self.duration, self.harmonics, self.frequency)
            if self.basis == Fourier.kind
            else Spline(self.duration, self.intervals)
        )
        return Family(basis, self.rest, start=self.start)
