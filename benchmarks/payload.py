"""A load weighed: at a simulated wrist, at a real one, and while it changes.

python -m benchmarks.payload [--seeds 50] [--store]
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks import arms, few_joints, wrist
from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_least, at_most
from heft.applications.payload.by_torques import WeighCarried
from heft.applications.payload.by_wrench import Weigh
from heft.applications.payload.estimate import Weighed
from heft.applications.payload.from_files import of_joints
from heft.applications.payload.online import Online
from heft.applications.payload.payload import gains_toml
from heft.information import matrix_of_quaternion
from heft.models.options import JointOptions, Options
from heft.models.robot import Robot
from heft.plants.wrench_sensor import Held, Unknowns, at_rest
from heft.recordings.recording import Recording
from heft.streams import Event

Array = NDArray[np.float64]

GROUPS = {"mass": slice(0, 1), "centre of mass": slice(1, 4), "inertia": slice(4, 10)}
NOISE = (wrist.FORCE, wrist.TORQUE)
CHUNK = 25  # samples handed over at once
SPLITS = 20
LONG = 10  # [s] of what is weighed for long
DELAYS = (0.001, 0.003)  # of the wrench [s]
DRAWS = 20_000
QUIET = 3, 600.0  # seeds, and for how long nothing changes [s]
AT, LATER = 10.0, 5.0  # when a load changes, and when it is known again after that [s]
SHARES = (  # of the load, and how soon its change is to be announced [s]
    (0.02, 0.3), (-0.02, 0.3), (0.1, 0.1), (-0.1, 0.1), (-0.4, 0.1), (0.4, 0.1),
)  # fmt: skip
MOVING = 6  # the last joints of the UR10e that may move
ROWS = None  # of the UR10e's logs that are taken; all if None
FRICTION: str | None = None  # of the UR10e, its kind; that of the default if None
HALVES = (("first → second half", 0, 1), ("second → first half", 1, 0))  # fitted, weighed


def first(held: Held, rows: int) -> Held:
    """Return the first rows."""
    return held.part(slice(0, rows))


def efficiency(seeds: int) -> Iterator[Row]:
    """Errors over the Cramér-Rao bound, and the error in units of its own covariance."""
    for bias in (True, False):
        for seconds in (1, LONG):
            errors, bounds, nees = [], [], []
            rows = round(seconds * wrist.RATE)
            for seed in range(seeds):
                perfect = wrist.clean(seed, LONG)
                held = first(wrist.noisy(perfect, seed, bias=bias), rows)
                found = weigh(held, bias=bias, delay=False)
                error = found.values[:10] - wrist.BODY
                errors.append(error)
                bounds.append(wrist.bound(perfect, rows, bias))
                covariance = found.covariance[:10, :10]
                nees.append(error @ np.linalg.solve(covariance, error) / 10.0)
            label = f"{seconds} s, bias {'unknown' if bias else 'known'}"
            for name, group in GROUPS.items():
                rms = np.sqrt(np.mean(np.array(errors)[:, group] ** 2))
                ideal = np.sqrt(np.mean([np.diag(b)[group] for b in bounds]))
                yield at_most(f"{label}: {name}, rms error over bound", rms / ideal, "", 1.3)
            mean = float(np.mean(nees))
            yield Row(
                f"{label}: NEES, mean", mean, "", 0.8, 0.8 <= mean <= 1.3, f"{seeds} seeds, to 1.3"
            )
            if seconds == 1:
                yield from _at_one_second(np.array(errors), bounds, bias)


def weigh(held: Held, *, bias: bool = True, delay: bool = True) -> Weighed:
    """Return what a load weighs, the noise being known."""
    settings = Weigh(
        noise=NOISE,
        turning_noise=wrist.GYRO,
        bias="constant" if bias else "none",
        delay=delay,
    )
    return settings.fit(held)


def _off(errors: Array) -> tuple[Array, Array]:
    """Return the relative errors of the mass and the distances of the centre of mass [m]."""
    values = errors + wrist.BODY
    mass = np.abs(values[:, 0] / wrist.MASS - 1.0)
    return mass, np.linalg.norm(values[:, 1:4] / values[:, :1] - wrist.COM, axis=1)


def _at_one_second(errors: Array, bounds: Sequence[Array], bias: bool) -> Iterator[Row]:
    mass, place = _off(errors)
    limits, share = ((0.01, 0.002), 0.9) if bias else ((0.003, 0.001), 1.0)
    inside = float(np.mean((mass <= limits[0]) & (place <= limits[1])))
    # What errors would be that are as small as the Cramér-Rao bound lets them be.
    rng = np.random.default_rng(0)
    ideal = [_off(rng.multivariate_normal(np.zeros(10), b, DRAWS)) for b in bounds]
    chances = np.array([np.mean((m <= limits[0]) & (p <= limits[1])) for m, p in ideal])
    yield at_least(
        f"1 s, bias {'unknown' if bias else 'known'}: within {100 * limits[0]:g} % of the mass and "
        f"{1e3 * limits[1]:g} mm, share",
        inside,
        "",
        share,
        f"worst {100 * mass.max():.2f} %, {1e3 * place.max():.2f} mm; by the bound "
        f"{np.mean(chances):.3f}, and all of them with a chance of {np.prod(chances):.2g}",
    )


def delays(seeds: int) -> Iterator[Row]:
    """A wrench told late: found, and the error honest again."""
    for delay in DELAYS:
        found, nees, without = [], [], []
        for seed in range(seeds):
            held = wrist.noisy(wrist.clean(seed, LONG), seed, delay=delay)
            for asked, into in ((True, nees), (False, without)):
                result = weigh(held, delay=asked)
                error = result.values[:10] - wrist.BODY
                into.append(error @ np.linalg.solve(result.covariance[:10, :10], error) / 10.0)
                if asked:
                    found.append(result.delay or 0.0)
        off = np.abs(np.array(found) - delay)
        label = f"wrench {1e3 * delay:g} ms late"
        yield at_most(f"{label}: delay, rms error", 1e3 * np.sqrt(np.mean(off**2)), "ms", 0.2)
        mean = float(np.mean(nees))
        yield Row(f"{label}: NEES, mean", mean, "", 0.8, 0.8 <= mean <= 1.3, "to 1.3")
        yield Row(f"{label}: NEES without looking for it", float(np.mean(without)), "")


def followed(held: Held, times: tuple[float, ...]) -> tuple[list[Event], dict[float, float], float]:
    """Return events, masses at some times, and the seconds of work a second of data took."""
    import time

    online = Online(NOISE, wrist.RATE, wrist.GYRO)
    state, events, masses = online.start(), [], {}
    begin = time.process_time()
    for k in range(0, len(held.time), CHUNK):
        state, more = online.step(state, held.part(slice(k, k + CHUNK)))
        events += more
        for at in times:
            if at not in masses and state.time >= at:
                masses[at] = float(state.ten[0])
    return events, masses, (time.process_time() - begin) / (held.time[-1] - held.time[0])


def changes(seeds: int) -> Iterator[Row]:
    """A load that changes by a share of itself."""
    at = AT
    for share, limit in SHARES:
        late, false, after = [], 0, []
        for seed in range(seeds):
            perfect = wrist.clean(seed, AT + LATER + 1.0)
            load = np.where(perfect.time >= at, 1.0 + share, 1.0)
            events, masses, _ = followed(wrist.noisy(perfect, seed, load=load), (at + LATER,))
            told = [e.time for e in events if e.name == "changed"]
            false += sum(t < at for t in told) + max(sum(t >= at for t in told) - 1, 0)
            late.append(min((t - at for t in told if t >= at), default=np.inf))
            after.append(abs(masses[at + LATER] / (wrist.MASS * (1.0 + share)) - 1.0))
        label = f"load changed by {100 * share:+g} %"
        worst = float(np.max(late))
        yield at_most(f"{label}: announced after, worst", worst, "s", limit, f"{seeds} seeds")
        yield at_most(f"{label}: announced before or twice", false, "", 0)
        yield at_most(
            f"{label}: mass {LATER:g} s later, worst error",
            100.0 * max(after),
            "%",
            0.5 if abs(share) == 0.4 else None,
        )


def unchanged(seeds: int, seconds: float) -> Iterator[Row]:
    """No change, for long."""
    count = round(seconds * wrist.RATE)
    ramp = np.linspace(0.0, 1.0, count)[:, None] * np.repeat([1.0, 0.05], 3)
    steps = np.repeat([0.005, 0.00025], 3) / np.sqrt(wrist.RATE)
    for name in ("nothing changes", "force bias drifts by 1 N", "bias walks 0.005 N/√s"):
        alarms, spent = 0, []
        for seed in range(seeds):
            perfect = wrist.clean(seed, seconds)
            walk = np.cumsum(np.random.default_rng(seed).normal(size=(count, 6)) * steps, axis=0)
            drift = ramp if "drifts" in name else walk if "walks" in name else None
            events, _, work = followed(wrist.noisy(perfect, seed, drift=drift), ())
            alarms += sum(e.name != "weighed" for e in events)
            spent.append(work)
        yield at_most(f"{name}: alarms in {seconds:g} s", alarms, "", 0, f"{seeds} runs")
    yield at_most("following at 1 kHz: work, share of one core", 100 * np.median(spent), "%", 20.0)


def real(splits: int) -> Iterator[Row]:
    """Static poses of a real sensor whose bias drifts: fitted on 70, scored on 30."""
    folder = os.environ.get("HEFT_DATA")
    if not folder:
        print("without HEFT_DATA the real wrist sensor is not weighed", file=sys.stderr)
        return
    held = static_poses(Path(folder) / "wrist_ft" / "static_poses_100.npz")
    for bias, limits in (("constant", (0.024, 0.0080)), ("auto", (0.008, 0.005))):
        scores = []
        for seed in range(splits):
            order = np.random.default_rng(seed).permutation(len(held.time))
            scores.append(scored(held, np.sort(order[:70]), np.sort(order[70:]), bias))
        force, torque = np.median(scores, axis=0)
        label = "constant bias" if bias == "constant" else "drift found"
        yield at_most(
            f"real wrist, {label}: force left over", force, "", limits[0], f"{splits} splits"
        )
        yield at_most(f"real wrist, {label}: torque left over", torque, "", limits[1])


def static_poses(path: Path) -> Held:
    """Return the poses, the wrench turned to the sensor's axes and onto the load."""
    with np.load(path) as data:
        R = matrix_of_quaternion(data["quat_xyzw"][:, [3, 0, 1, 2]])
        forces = (data["force_base"], data["torque_base"])
    wrench = np.concatenate([np.einsum("nji,nj->ni", R, f) for f in forces], axis=1)
    gravity = np.einsum("nji,j->ni", R, [0.0, 0.0, -9.81])
    return Held.at_rest(np.arange(len(R), dtype=float), -wrench, gravity)


def scored(held: Held, fitted: NDArray[np.intp], others: NDArray[np.intp], bias: str) -> Array:
    """Return ‖e‖/‖w‖ of force and of torque over poses that were not fitted."""

    def some(rows: NDArray[np.intp]) -> Held:
        return Held(*(array[rows] for array in vars(held).values()))

    found = Weigh(bias=bias).fit(some(fitted))  # type: ignore[arg-type]
    drift = sum(n.startswith("sensor.drift") for n in found.labels.names) // 6
    ends = held.time[fitted]
    unknowns = Unknowns(drift=drift, begin=float(ends[0]), end=float(ends[-1]))
    Y, wrench = at_rest(some(others), unknowns)
    left = wrench - Y @ np.nan_to_num(found.values)
    return np.array(
        [
            np.linalg.norm(left[:, g]) / np.linalg.norm(wrench[:, g])
            for g in (slice(0, 3), slice(3, 6))
        ]
    )


def robot_arm() -> Iterator[Row]:
    """A UR10e with 2.805 kg, currents only: gains from one half, the load from the other."""
    folder = os.environ.get("HEFT_DATA")
    if not folder:
        return
    place = Path(folder) / "ur10e"
    whole_urdf = (place / "ur10e.urdf").read_bytes()
    urdf, joints = few_joints.held(whole_urdf, MOVING), Robot.from_urdf_text(whole_urdf).joints

    def robot(gains: Sequence[float]) -> Robot:
        moving = zip(joints[-MOVING:], gains[-MOVING:], strict=True)
        options = {j: JointOptions(gain=g, friction=FRICTION) for j, g in moving}
        return Robot.from_urdf_text(urdf, Options(joint=options))

    def run(name: str, first: int, last: int) -> Recording:
        path = place / "identification_data" / f"ur-20_02_19_{name}.npz"
        with np.load(path) as data:
            time = data["t"]
        fields = {"q": "q", "current": "current"}
        whole = arms.arrays(path, fields, joints, time, slice(first - 1, last))
        return whole if ROWS is None else whole.window(0, ROWS)

    whole = [run("14harm50sec", 195, 4966), run("14harm50secLoad", 308, 5071)]
    halves = [arms.split(recording, 0.5) for recording in whole]
    known = 2.805  # [kg], by a scale
    for name, fit, weighed in HALVES:
        calibrated = WeighCarried(known_mass=known).fit(
            robot(arms.DE_LUCA), [halves[0][fit]], [halves[1][fit]]
        )
        gains = list(calibrated.gains.values())
        found = WeighCarried().fit(robot(gains), [halves[0][weighed]], [halves[1][weighed]])
        error, std = 100.0 * (found.mass / known - 1.0), 100.0 * found.mass_std / known
        shown = ", ".join(f"{g:.2f}" for g in gains)
        yield at_most(f"UR10e, {name}: mass, |error|", abs(error), "%", 3.0, f"gains {shown}")
        yield at_most(f"UR10e, {name}: standard error", std, "%", 2.5)
        yield at_most(f"UR10e, {name}: |error| in standard errors", abs(error) / std, "", 2.0)
        stated = Options.from_dict(tomllib.loads(gains_toml(of_joints(calibrated))))
        joint = {j: replace(o, friction=FRICTION) for j, o in (stated.joint or {}).items()}
        unsure = Robot.from_urdf_text(urdf, replace(stated, joint=joint))
        found = WeighCarried().fit(unsure, [halves[0][weighed]], [halves[1][weighed]])
        error, std = 100.0 * (found.mass / known - 1.0), 100.0 * found.mass_std / known
        title = f"UR10e, {name}: gains unsure together, of another day"
        yield at_most(f"{title}: standard error", std, "%", 1.5)
        yield at_most(f"{title}: |error| in standard errors", abs(error) / std, "", 2.0)
    found = WeighCarried().fit(robot(arms.DE_LUCA), whole[:1], whole[1:])
    yield Row("UR10e, published gains: mass, error", 100.0 * (found.mass / known - 1.0), "%")


@benchmark(
    {
        **{
            "seeds": 1,
            "SPLITS": 1,
            "DRAWS": 100,
            "QUIET": (1, 3.0),
            "LONG": 2,
            "DELAYS": DELAYS[1:],
            "ROWS": 800,
            "MOVING": 3,
            "FRICTION": "simple",
        },
        **{"HALVES": HALVES[:1], "SHARES": ((0.4, 0.1),), "AT": 2.0, "LATER": 1.0},
    },
    unstored=("seeds",),
)
def main(*, seeds: int = 50) -> Iterator[Row]:
    """Yield the rows.

    Args:
        seeds: Of most parts.
    """
    yield from real(SPLITS)
    yield from robot_arm()
    yield from efficiency(seeds)
    yield from delays(seeds)
    yield from changes(max(seeds // 2, 1))
    yield from unchanged(*QUIET)


if __name__ == "__main__":
    main()
