"""Pairs of logs that hold a fault, and what `heft payload` by torques makes of them.

    python -m benchmarks.payload_faults [--arms panda ur5] [--seeds 1] [--first 1000] [--show]
                                        [--kinds KIND ...] [--jobs 2] [--store]

Arms, motions, LuGre friction with load and model files that are 30 % and 3 cm off are those of
`benchmarks.doctor`; the load is a body fixed to the last link, of which heft knows nothing. Counted
is confident and wrong: mass or centre of mass more than three deviations off where lines to paste
are given, which a verdict of poor withholds. Pairs without a fault count as refused where they are.
Seeds below 1000 and the arms panda, ur5 and so101 are for development.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.doctor import arm_of, experiment, load_torque, with_tool
from benchmarks.doctor_faults import Experiment, recorded
from benchmarks.program import benchmark, spread
from benchmarks.results_file import Row, at_least, at_most
from heft.applications.payload.by_torques import WeighCarried
from heft.arrays import Array
from heft.errors import HeftError
from heft.fit import NORMAL
from heft.information import verdict
from heft.models import Robot
from heft.recordings import Recording

FRICTION, DURATION, SURE = "out of class", 20.0, 3.0
HELD = 0.92  # share of intervals, at least
ARMS = ("xarm7", "z1", "kinova", "tiago", "ur10")
Pair = tuple[Experiment, Experiment]
Change = Callable[[Array, Experiment, np.random.Generator], Array]  # of torques with noise


def _log(e: Experiment, tau: Array) -> Recording:
    return recorded(e.joints, e.time, e.quantum * np.round(e.position / e.quantum), tau)


def _noisy(e: Experiment, rng: np.random.Generator) -> Array:
    return np.asarray(e.torque + e.noise * rng.normal(size=e.torque.shape))


def _scales(least: float, most: float) -> Change:
    def scaled(tau: Array, e: Experiment, rng: np.random.Generator) -> Array:
        return tau * rng.uniform(least, most, tau.shape[1])

    return scaled


def _per_mille(tau: Array, e: Experiment, rng: np.random.Generator) -> Array:
    return np.round(1e3 * tau / np.geomspace(100.0, 10.0, tau.shape[1]))


def _zeros(tau: Array, e: Experiment, rng: np.random.Generator) -> Array:
    return np.where(np.arange(len(tau))[:, None] % 2, 0.0, tau)


def _clipped(tau: Array, e: Experiment, rng: np.random.Generator) -> Array:
    most = np.quantile(np.abs(tau), 0.9, axis=0)
    return np.clip(tau, -most, most)


def _flipped(tau: Array, e: Experiment, rng: np.random.Generator) -> Array:
    return tau * np.where(np.arange(tau.shape[1]) == rng.integers(tau.shape[1] - 1), -1.0, 1.0)


def _swapped(tau: Array, e: Experiment, rng: np.random.Generator) -> Array:
    order = np.arange(tau.shape[1])
    order[1:3] = 2, 1
    return tau[:, order]


def _warm(tau: Array, e: Experiment, rng: np.random.Generator) -> Array:
    return np.asarray(tau - 0.38 * e.coulomb * np.tanh(e.velocity / 0.02))


def _weightless(tau: Array, e: Experiment, rng: np.random.Generator) -> Array:
    return np.asarray(tau - e.gravity)


# What is changed in both logs alike, or in the loaded one alone.
BOTH: dict[str, Change] = {
    "currents of 8-12 N·m/A": _scales(1.0 / 12.0, 1.0 / 8.0),
    "per mille of ratings": _per_mille,
    "all ×.3": _scales(0.3, 0.3),
    "gains .75-1.3": _scales(0.75, 1.3),
    "zeros of another publisher": _zeros,
    "one torque's sign": _flipped,
    "two torques swapped": _swapped,
    "gravity taken out": _weightless,
}
LOADED: dict[str, Change] = {
    "clipped with the load": _clipped,
    "zeros in the loaded log": _zeros,
    "friction -38 % with the load": _warm,
}
TILTS = {"base 3° off": 3.0, "base 8° off": 8.0, "on the ceiling": 180.0}
KINDS = ("clean", *BOTH, *LOADED, *TILTS, "logs exchanged", "load dropped")


def pair(arm: str, seed: int, kind: str) -> tuple[Robot, Recording, Recording, Array]:
    """Return a model file, logs without and with the load, and its mass [kg] and centre [m]."""
    tilt = TILTS.get(kind, 0.0)
    bare, held = (
        experiment(arm, FRICTION, seed, tilt=tilt, tool=tool, duration=DURATION)
        for tool in (False, True)
    )
    plain = list(arm_of(arm).links.values())[-1]
    both = list(with_tool(arm_of(arm), np.random.default_rng([seed, 7])).links.values())[-1]
    load = both.parameters[:4] - plain.parameters[:4]
    taus = []
    for e, changes in ((bare, BOTH), (held, BOTH | LOADED)):
        tau = _noisy(e, np.random.default_rng([seed, e is held]))
        if kind in changes:
            tau = changes[kind](tau, e, np.random.default_rng([seed, 5]))
        taus.append(tau)
    if kind == "load dropped":
        lost = np.arange(len(held.time)) > len(held.time) // 2
        taus[1] = _noisy(bare, np.random.default_rng([seed, 1]))
        taus[1] += np.where(lost, 0.0, 1.0)[:, None] * load_torque(arm, seed, bare)
        held = bare
    logs = [_log(e, tau) for e, tau in zip((bare, held), taus, strict=True)]
    logs = logs[::-1] if kind == "logs exchanged" else logs
    return bare.robot, logs[0], logs[1], np.concatenate([load[:1], load[1:] / load[0]])


def weighed(key: tuple[str, int, str]) -> tuple[bool, Array, float, str]:
    """Return whether lines are given, errors, the mass's deviation [kg], and why not.

    The errors are in deviations, of mass and centre of mass, shape (4,).

    Args:
        key: Arm, seed and kind of fault.
    """
    arm, seed, kind = key
    robot, empty, loaded, truth = pair(arm, seed, kind)
    try:
        found = WeighCarried(frame=list(arm_of(arm).links)[-1]).fit(robot, [empty], [loaded])
    except HeftError as refused:
        return False, np.zeros(4), float("nan"), str(refused)[:60]
    mass, center = found.ten[0], found.ten[1:4] / found.ten[0]
    slope = np.column_stack([-center, np.eye(3)]) / mass
    spread = slope @ found.covariance[:4, :4] @ slope.T
    z = np.concatenate([[mass - truth[0]], center - truth[1:]])
    z /= np.sqrt([found.covariance[0, 0], *np.diag(spread)])
    failed = ", ".join(c.name for c in found.checks if c.status == "fail")
    given = verdict(found.checks) != "poor" and mass > 0.0
    return given, np.abs(z), found.mass_std, failed


@benchmark({"arms": ("finger",), "seeds": 1, "first": 0, "kinds": ("clean", "logs exchanged")})
def main(
    *,
    arms: tuple[str, ...] = ARMS,
    seeds: int = 1,
    first: int = 1000,
    kinds: tuple[str, ...] = KINDS,
    show: bool = False,
    jobs: int = 1,
) -> Iterator[Row]:
    """Yield the table.

    Args:
        arms: Names of arms.
        seeds: Pairs of each arm and kind.
        first: The first seed.
        kinds: Of faults.
        show: Each pair.
        jobs: Processes.
    """
    wrong, all_faulty = 0, 0
    keys = [(a, s, k) for k in kinds for a in arms for s in range(first, first + seeds)]
    made = {}
    for key, future in spread(weighed, keys, jobs):
        given, z, std, why = made[key] = future.result()
        if show:
            mark = "WRONG" if given and z.max() > SURE else "given" if given else "withheld"
            print(f"{mark} {key} z {z.max():.1f} ± {std:.3g} kg {why}", flush=True)
    for kind in kinds:
        found = [made[key] for key in keys if key[2] == kind]
        bad = sum(given and z.max() > SURE for given, z, _, _ in found)
        if kind == "clean":
            refused = sum(not given for given, *_ in found)
            yield at_most(
                "clean: withheld", refused / len(found), "", 0.01, f"{refused} of {len(found)}"
            )
            within = np.array([z < NORMAL for _, z, *_ in found if z.any()])
            for what, part in (("mass", within[:, :1]), ("centre of mass", within[:, 1:])):
                yield at_least(
                    f"clean: 95 % intervals of the {what} hold", float(np.mean(part)), "", HELD
                )
        else:
            wrong, all_faulty = wrong + bad, all_faulty + len(found)
        held = sum(not given for given, *_ in found)
        yield at_most(
            f"{kind}: confident and wrong", bad / len(found), "", 0.01,
            f"{bad} of {len(found)}, {held} withheld",
        )  # fmt: skip
    if all_faulty:
        yield at_most(
            "all faults: confident and wrong", wrong / all_faulty, "", 0.01,
            f"{wrong} of {all_faulty}",
        )  # fmt: skip


if __name__ == "__main__":
    main()
