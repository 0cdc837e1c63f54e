"""Settings of the design of excitation."""

from __future__ import annotations

from dataclasses import dataclass

from heft.errors import InvalidSetting

from .augmented_lagrangian import SolverSettings
from .excitation import Grids
from .random_motions import RandomMotions
from .trajectories import BASES, Family, Fourier, Rest, Spline


@dataclass(frozen=True)
class DesignSettings:
    """Settings of a design.

    Attributes:
        duration: Of the motion [s].
        basis: `fourier` or `spline`.
        harmonics: Of a Fourier series.
        frequency: Its lowest [Hz]; one period in the duration if not given.
        intervals: Of a spline.
        rest: Where the motion is at rest.
        start: Posture at the start, shape (d,) [rad or m]; free if not given.
        criterion: `D`, `A`, `E` or `condition`.
        about: Links or joints whose parameters count, by name; the others are nuisance. All if
            empty.
        scale_columns: Whether columns are brought to their usual lengths, so that criteria that
            depend on units count a parameter by what it does; else they are taken in SI units.
        weigh_rows: Whether rows are divided by the channels' noise. Condition numbers are commonly
            published of rows neither weighed nor scaled.
        row_rate: Independent rows a second that will be recorded [Hz]; that of the samples if not
            given. It says what the new run weighs beside what is known already.
        random: Number of random motions to begin with.
        starts: Number of the best of them that are improved.
        workers: How many at a time.
        seed: Of the random numbers.
        spare: Share of each limit that the solver leaves free, for what it cannot meet exactly.
        gap: Clearance that the solver keeps beyond what is required, since links come nearer
            between its samples [m]; a quarter of it on the finest grid.
        finer: How much finer the grid is on which limits hold in the end.
        refine: How much finer the grid is on which a start is solved again if it must be shrunk to
            less than `enough`.
        enough: Share of a motion.
        grids: On which the solver looks at the motion.
        draws: How random motions are drawn.
        solver: Of each start.
    """

    duration: float = 10.0
    basis: str = "fourier"
    harmonics: int = 5
    frequency: float | None = None
    intervals: int = 12
    rest: Rest = "both"
    start: tuple[float, ...] | None = None
    criterion: str = "D"
    about: tuple[str, ...] = ()
    scale_columns: bool = True
    weigh_rows: bool = True
    row_rate: float | None = None
    random: int = 300
    starts: int = 3
    workers: int = 2
    seed: int = 0
    spare: float = 0.002
    gap: float = 0.002
    finer: int = 10
    refine: int = 4
    enough: float = 0.98
    grids: Grids = Grids()
    draws: RandomMotions = RandomMotions()
    solver: SolverSettings = SolverSettings()

    @property
    def family(self) -> Family:
        """The trajectories that are looked at.

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
