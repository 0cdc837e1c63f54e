"""Friction and transmission of simulated drives: a frozen dataclass a law.

The laws are those that real gears are described by, and none is chosen to suit an estimator:
bristles that bend and slip with Stribeck's fall [CanudasDeWit1995; Dahl1968], viscous friction
that bends, friction that grows with the load and falls as the drive warms up, torque ripple of the
gear, an elastic gear [Spong1987], and one with play.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

import numpy as np

from heft.arrays import Array
from heft.errors import InvalidSetting
from heft.files import Number, interval

FrictionKind = Literal["none", "smooth", "hard", "stribeck", "lugre", "dahl"]

# Rows of the table that the compiled step reads, in its order.
ROWS = (
    *("armature", "viscous", "bend", "coulomb", "scale", "offset"),
    *("bristle", "stiffness", "damping", "ratio", "stribeck"),
    *("load", "warm", "warming", "ripple", "cycles", "phase"),
    *("spring", "spring_damping", "gap"),
)


class Law(Protocol):
    """A law of friction or transmission of one drive."""

    def entries(self) -> dict[str, float]:
        """Return the law's parameters as the compiled step reads them, by the names of `ROWS`."""


class Sliding(Law, Protocol):
    """A law with a torque of steady sliding."""

    def steady(self, speed: Array, level: float) -> Array:
        """Return the torque of steady sliding, shape (N,) [N·m].

        Args:
            speed: Shape (N,) [rad/s].
            level: Factor of the Coulomb part by the load, 1 without load.
        """


@dataclass(frozen=True)
class Viscous:
    """Viscous friction c b asinh(v / b), which bends beyond a speed b; c v where b is infinite."""

    coefficient: float  # c [N·m·s/rad]
    bend: float = np.inf  # b [rad/s]

    def entries(self) -> dict[str, float]:
        """Return c, and 1/b."""
        return {"viscous": self.coefficient, "bend": 1.0 / self.bend}

    def steady(self, speed: Array, level: float) -> Array:
        """Return c b asinh(v / b), or c v, whatever the level, shape (N,) [N·m]; see `Sliding`."""
        if np.isinf(self.bend):
            return self.coefficient * speed
        return np.asarray(self.coefficient * self.bend * np.arcsinh(speed / self.bend))


@dataclass(frozen=True)
class Coulomb:
    """Coulomb friction F tanh(v / s), or F sign(v) with sticking where s is 0.

    With a ratio r above 1 it falls with the speed, as Stribeck found: F is multiplied by
    1 + (r − 1) exp(−(v/vs)²).
    """

    effort: float  # F [N·m]
    scale: float = 0.02  # s [rad/s]
    ratio: float = 1.0  # r, of friction at the least speed to that of fast sliding
    stribeck: float = 1.0  # speed vs [rad/s]

    def entries(self) -> dict[str, float]:
        """Return F, s, r and vs."""
        made = {"coulomb": self.effort, "scale": self.scale}
        return made | {"ratio": self.ratio, "stribeck": self.stribeck}

    def steady(self, speed: Array, level: float) -> Array:
        """Return the level times F tanh(v / s), or F sign(v), shape (N,) [N·m]; see `Sliding`."""
        shape = np.tanh(speed / self.scale) if self.scale else np.sign(speed)
        fall = 1.0 + (self.ratio - 1.0) * np.exp(-((speed / self.stribeck) ** 2))
        return np.asarray(level * self.effort * fall * shape)


@dataclass(frozen=True)
class LuGre:
    """Bristles: F = σ₀ z + σ₁ ż, ż = v − σ₀ |v| z / g(v), g = Fc (1 + (r − 1) exp(−(v/vs)²)).

    [CanudasDeWit1995, eq. (1)-(3)]
    """

    effort: float  # Fc [N·m]
    ratio: float  # r = Fs/Fc
    stribeck: float  # speed vs [rad/s]
    presliding: float  # Fc/σ₀ [rad]
    damping: float  # σ₁ [N·m·s/rad]

    @staticmethod
    def on_rotor(
        effort: float, ratio: float, stribeck: float, presliding: float, armature: float
    ) -> LuGre:
        """Return bristles with ½ √(σ₀ J), a quarter of a rotor's critical damping on them.

        Args:
            armature: J [kg·m²].
        """
        damping = 0.5 * float(np.sqrt(effort / presliding * armature))
        return LuGre(effort, ratio, stribeck, presliding, damping)

    def entries(self) -> dict[str, float]:
        """Return Fc, σ₀, σ₁, r and vs."""
        return {
            "bristle": self.effort,
            "stiffness": self.effort / self.presliding,
            "damping": self.damping,
            "ratio": self.ratio,
            "stribeck": self.stribeck,
        }

    def steady(self, speed: Array, level: float) -> Array:
        """Return the level times g(v) sign(v), shape (N,) [N·m]; see `Sliding`."""
        fall = 1.0 + (self.ratio - 1.0) * np.exp(-((speed / self.stribeck) ** 2))
        return np.asarray(level * self.effort * fall * np.sign(speed))


@dataclass(frozen=True)
class Dahl:
    """Dahl's friction: F = σ z, ż = v − σ |v| z / Fc, without a fall [Dahl1968]."""

    effort: float  # Fc [N·m]
    presliding: float  # Fc/σ [rad]

    def entries(self) -> dict[str, float]:
        """Return Fc and σ."""
        return LuGre(self.effort, 1.0, 1.0, self.presliding, 0.0).entries()

    def steady(self, speed: Array, level: float) -> Array:
        """Return the level times Fc sign(v), shape (N,) [N·m]; see `Sliding`."""
        return np.asarray(level * self.effort * np.sign(speed))


@dataclass(frozen=True)
class Offset:
    """A constant torque, such as a torque sensor's bias."""

    effort: float  # [N·m]

    def entries(self) -> dict[str, float]:
        """Return the torque."""
        return {"offset": self.effort}

    def steady(self, speed: Array, level: float) -> Array:
        """Return the constant torque at all speeds, shape (N,) [N·m]; see `Sliding`."""
        return np.full(speed.shape, self.effort)


@dataclass(frozen=True)
class Load:
    """Coulomb friction that grows by a share of the torque that the gear passes on."""

    share: float  # friction per torque passed on

    def entries(self) -> dict[str, float]:
        """Return the share."""
        return {"load": self.share}


@dataclass(frozen=True)
class Warming:
    """All friction is 1 + w exp(−t/T) times that of a warm drive."""

    share: float  # w
    time: float  # T [s]

    def entries(self) -> dict[str, float]:
        """Return w, and 1/T."""
        return {"warm": self.share, "warming": 1.0 / self.time}

    def mean(self, duration: float) -> float:
        """Return the factor's mean from 0 to a time [s]."""
        x = duration / self.time
        return 1.0 + self.share * (1.0 - float(np.exp(-x))) / x


@dataclass(frozen=True)
class Ripple:
    """Torque of a gear's teeth: T sin(n q + φ)."""

    effort: float  # T [N·m]
    cycles: float  # n, per turn of the joint
    phase: float  # φ [rad]

    def entries(self) -> dict[str, float]:
        """Return T, n and φ."""
        return {"ripple": self.effort, "cycles": self.cycles, "phase": self.phase}


@dataclass(frozen=True)
class Spring:
    """A gear that yields between rotor θ and link q: k · dead(θ − q) + d (θ̇ − q̇)."""

    stiffness: float  # k [N·m/rad]
    damping: float  # d [N·m·s/rad], where it does not hang in its play
    gap: float = 0.0  # play, in which nothing is passed on [rad]

    def entries(self) -> dict[str, float]:
        """Return k, d and half the play."""
        return {"spring": self.stiffness, "spring_damping": self.damping, "gap": 0.5 * self.gap}


@dataclass(frozen=True)
class Drive:
    """Rotor, friction and transmission of a joint."""

    armature: float  # inertia of the rotor, at the joint [kg·m²]
    laws: tuple[Law, ...]  # friction and transmission; what is not said is not there

    @property
    def column(self) -> Array:
        """Parameters as the compiled step reads them, shape (len(ROWS),)."""
        column = {"armature": self.armature, "ratio": 1.0, "stribeck": 1.0}
        for law in self.laws:
            column |= law.entries()
        return np.array([column.get(name, 0.0) for name in ROWS])

    @property
    def elastic(self) -> bool:
        """Whether the gear yields."""
        return any(isinstance(k, Spring) for k in self.laws)

    def with_gear_of(self, other: Drive) -> Drive:
        """Return this rotor and friction behind another drive's gear, elastic or not."""
        own = tuple(k for k in self.laws if not isinstance(k, Spring))
        return Drive(self.armature, own + tuple(k for k in other.laws if isinstance(k, Spring)))

    def steady(self, speed: Array, duration: float, load: float = 0.0) -> Array:
        """Return the friction torque of steady sliding, its mean over a log, shape (N,) [N·m].

        Args:
            duration: Of the log, in which the drive warms up [s].
            load: Torque that the gear passes on [N·m].
        """
        share = sum(k.share for k in self.laws if isinstance(k, Load))
        cold = [k.mean(duration) for k in self.laws if isinstance(k, Warming)]
        total = np.zeros(np.shape(speed))
        for law in self.laws:
            if not hasattr(law, "steady"):
                continue
            effort = getattr(law, "effort", 0.0)
            level = 1.0 + share * abs(load) / effort if effort else 1.0
            total = total + law.steady(np.asarray(speed), level)
        return np.asarray(total * (cold[0] if cold else 1.0))


def table(drives: Sequence[Drive]) -> Array:
    """Return the drives' parameters as the compiled step reads them, shape (len(ROWS), joints)."""
    return np.ascontiguousarray(np.stack([d.column for d in drives], axis=1))


# --- drives to be drawn


def _range(value: object, where: str) -> tuple[float, float]:
    bounds = interval(value, where)
    if bounds[0] < 0.0:
        raise InvalidSetting("a range begins at 0 or above", argument=where, got=list(bounds))
    return bounds


Range = Annotated[tuple[float, float], _range]
Size = Annotated[float, Number("0 or more is expected", least=0.0)]


@dataclass(frozen=True)
class DriveRanges:
    """Ranges from which drives are drawn; torques per a joint's typical torque."""

    friction: Annotated[FrictionKind, "this law of friction is not known"] = (
        "smooth"  # which law slides
    )
    coulomb: Range = (0.08, 0.2)  # Coulomb torque per typical torque
    least: Size = 0.015  # Coulomb torque at least, per the arm's largest typical torque
    viscous: Range = (0.4, 1.5)  # viscous torque at 1 rad/s, per Coulomb torque
    offset: Size = 0.15  # standard deviation of a constant torque, per Coulomb torque
    # rotor inertia per inertia of the links about the joint
    armature: Range = (0.3, 0.9)
    # rotor inertia at least, per the arm's largest inertia about a joint
    least_armature: Size = 0.03
    # speeds at which viscous friction bends [rad/s]; none if 0. Of `lugre` and `dahl`
    bend: Range = (0.0, 0.0)
    ratio: Range = (1.1, 1.6)  # Fs/Fc
    stribeck: Range = (0.03, 0.15)  # [rad/s]
    presliding: Range = (3e-4, 4e-3)  # [rad]
    load: Size = 0.0  # largest share of the load
    warming: Size = 0.0  # largest share by which friction is greater in the cold
    ripple: Size = 0.0  # largest ripple per Coulomb torque
    # least and largest frequency of an elastic gear [Hz]; rigid if 0
    resonance: Range = (0.0, 0.0)
    gap: Range = (0.0, 0.0)  # least and largest play [rad]

    def draw(self, torque: Array, inertia: Array, rng: np.random.Generator) -> tuple[Drive, ...]:
        """Return a drive a joint, by the links' typical torque and inertia, (joints,) each."""
        made = []
        for t, i in zip(torque, inertia, strict=True):
            effort = rng.uniform(*self.coulomb) * t + self.least * float(torque.max())
            armature = rng.uniform(*self.armature) * i
            armature += self.least_armature * float(inertia.max())
            made.append(Drive(float(armature), self._laws(float(effort), armature, float(i), rng)))
        return tuple(made)

    def _laws(
        self, effort: float, armature: float, inertia: float, rng: np.random.Generator
    ) -> tuple[Law, ...]:
        if self.friction == "none":
            return self._gear(effort, armature, inertia, rng)
        bend = rng.uniform(*self.bend)
        viscous = Viscous(effort * rng.uniform(*self.viscous), bend if bend > 0.0 else np.inf)
        offset = Offset(effort * self.offset * rng.normal())
        laws: list[Law] = [viscous, offset, SLIDES[self.friction](self, effort, armature, rng)]
        if self.load:
            laws.append(Load(self.load * rng.uniform()))
        if self.warming:
            laws.append(Warming(self.warming * rng.uniform(0.3, 1.0), rng.uniform(8.0, 30.0)))
        return (*laws, *self._gear(effort, armature, inertia, rng))

    def _gear(
        self, effort: float, armature: float, inertia: float, rng: np.random.Generator
    ) -> tuple[Law, ...]:
        laws: list[Law] = []
        if self.ripple:
            size, cycles = self.ripple * rng.uniform(0.3, 1.0), rng.integers(50, 200)
            laws.append(Ripple(effort * size, float(cycles), rng.uniform(0.0, 2.0 * np.pi)))
        if self.resonance[1]:
            omega = 2.0 * np.pi * rng.uniform(*self.resonance)
            stiffness = omega**2 / (1.0 / armature + 1.0 / inertia)
            laws.append(Spring(stiffness, 0.1 * stiffness / omega, rng.uniform(*self.gap)))
        return tuple(laws)


def _stribeck(ranges: DriveRanges, effort: float, armature: float, rng: np.random.Generator) -> Law:
    return Coulomb(effort, 0.02, rng.uniform(*ranges.ratio), rng.uniform(*ranges.stribeck))


def _lugre(ranges: DriveRanges, effort: float, armature: float, rng: np.random.Generator) -> Law:
    presliding = float(np.exp(rng.uniform(*np.log(ranges.presliding))))
    ratio, stribeck = rng.uniform(*ranges.ratio), rng.uniform(*ranges.stribeck)
    return LuGre.on_rotor(effort, ratio, stribeck, presliding, armature)


SLIDES: Mapping[FrictionKind, Callable[[DriveRanges, float, float, np.random.Generator], Law]] = {
    "smooth": lambda ranges, effort, armature, rng: Coulomb(effort),
    "hard": lambda ranges, effort, armature, rng: Coulomb(effort, 0.0),
    "stribeck": _stribeck,
    "lugre": _lugre,
    "dahl": lambda ranges, effort, armature, rng: Dahl(
        effort, float(np.exp(rng.uniform(*np.log(ranges.presliding))))
    ),
}
