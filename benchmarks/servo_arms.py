"""Arms of hobby servos, simulated: what a dataset of positions and goals alone tells of them.

    python -m benchmarks.servo_arms [--arms 40] [--jobs 2] [--store]

Each arm has six joints like an SO-101, with masses, gains, back-EMF, rotors and friction of its
own, moved by MuJoCo. Its friction is LuGre's, which no law of heft's closed loop is; goals are held
between frames and come late by a time that nothing says; encoders have 4096 steps. The dataset has
the form of LeRobot's, four episodes of 15 s. The file that heft is given has other masses.

At 30 and 50 frames a second frames jitter by 2 ms, of which stamps say nothing. At 200 stamps are
true. Scored are intervals of what is stated, nothing else: ratios to the mass of one link, and all
numbers at the scale of that link's mass, weighed. How wide intervals are is their median half width
over the 95th percentile of errors. Then centres of mass are 5 mm off the file's. In the last rows
three arms each have what the simulated loop lacks: none may be told wrongly.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import mujoco
import numpy as np

from benchmarks.program import benchmark, spread
from benchmarks.results_file import Row, at_least, at_most
from heft.applications.servo import ArmBench, Episode, IdentifiedArm, identify_arm
from heft.arrays import Array
from heft.models import Robot

STEP = 0.001  # [s], of MuJoCo's
COUNTS = 4096  # of an encoder, a turn
# Of a link behind its joint: name, joint's place in the link before [m], its axis, mass [kg],
# centre of mass [m], radii of gyration [m], and where the joint moves [rad].
LINKS = (
    ("shoulder", (0.0, 0.0, 0.06), "0 0 1", 0.10, (0.01, 0.0, 0.03), 0.02, (-1.6, 1.6)),
    ("upper_arm", (0.03, 0.0, 0.055), "0 1 0", 0.11, (0.02, 0.0, 0.07), 0.035, (-1.0, 1.2)),
    ("lower_arm", (0.03, 0.0, 0.112), "0 1 0", 0.10, (0.075, 0.0, 0.01), 0.035, (-1.2, 1.2)),
    ("wrist", (0.135, 0.0, 0.005), "0 1 0", 0.08, (0.035, 0.0, 0.0), 0.02, (-1.4, 1.4)),
    ("gripper", (0.061, 0.0, 0.0), "1 0 0", 0.09, (0.03, 0.01, 0.005), 0.025, (-1.5, 1.5)),
    ("jaw", (0.03, 0.02, 0.0), "0 0 1", 0.05, (0.04, 0.005, 0.0), 0.02, (-0.2, 1.2)),
)
KINDS = ("stiffness", "viscous", "coulomb", "armature")
# frames a second, and whether centres of mass are off
CASES = ((30, False), (50, False), (200, False), (30, True))
STAMPED = 100  # from which on stamps are true
EPISODES, SECONDS = 4, 15.0
# What else an arm may have that the simulated loop lacks, or that its file states.
FAULTS: dict[str, dict[str, float]] = {
    "play of 1°": {"play": np.radians(1.0)},
    "goals limited to 1.5 rad/s": {"goal_speed": 1.5},
    "startup force of 50 mN·m": {"startup": 0.05},
    "dead zone of 0.35°": {"dead_zone": 0.0061},
    "supply that sags by 3 % a N·m": {"sag": 0.03},
    "windings that warm by 15 %": {"fade": 0.15},
}
FAULTY = 3  # arms of each
OFF = 0.005  # of centres of mass that are not the file's [m]
JOINTS = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")


@dataclass(frozen=True, eq=False)
class ServoArm:
    """What moves, numbers of joints and links each in the order of `LINKS`."""

    masses: Array  # [kg]
    stiffness: Array  # A·V·gain [N·m/rad]
    viscous: Array  # back-EMF and viscous friction [N·m·s/rad]
    armature: Array  # [kg·m²]
    coulomb: Array  # [N·m]
    static: Array  # friction at rest over that of sliding
    stribeck: Array  # [rad/s]
    delay: float  # of goals [s]
    jitter: float = 0.002  # of frames, whose stamps are number over rate [s]
    joints: int = 6
    # of centres of mass from the file's, shape (links, 3) [m]
    off: Array | float = 0.0
    play: float = 0.0  # between gears and link, before the encoder [rad]
    sag: float = 0.0  # of the supply, a N·m of all joints together
    fade: float = 0.0  # of the torque per volt as windings warm in 15 s
    goal_speed: float = np.inf  # at which the firmware's own goal follows, at most [rad/s]
    dead_zone: float = 0.0  # of the position's error, within which the drive is off [rad]
    startup: float = 0.0  # torque that it gives at least beyond [N·m]

    @staticmethod
    def drawn(rng: np.random.Generator, joints: int = 6) -> ServoArm:
        """Return an arm of servos of one kind, no two alike, of the first links of `LINKS`."""
        file = np.array([link[3] for link in LINKS])
        ones = np.ones(len(LINKS))

        def spread(middle: float, share: float) -> Array:
            return np.asarray(middle * np.exp(share * rng.standard_normal(len(ones)))[:joints])

        return ServoArm(
            (file * np.exp(0.3 * rng.standard_normal(len(ones))))[:joints],
            spread(17.0, 0.15),
            spread(0.6, 0.2),
            spread(0.028, 0.1),
            spread(0.05, 0.3),
            1.0 + 0.6 * rng.random(joints),
            spread(0.1, 0.3),
            float(rng.uniform(0.005, 0.025)),
            joints=joints,
        )

    def moved(self, goals: Array, rate: float, rng: np.random.Generator) -> Array:
        """Return positions when frames begin, of goals that each frame sends, (N, joints) [rad]."""
        model = mujoco.MjModel.from_xml_string(self._mjcf())
        data = mujoco.MjData(model)
        own, wanted = slice(None, None, 2 if self.play else 1), goals[0].copy()
        data.qpos[own] = goals[0]
        stiff = 1.0 / 0.002  # of bristles, which bend by 2 mrad
        damping = 0.5 * np.sqrt(self.coulomb * stiff * self.armature)
        bent, places = np.zeros(self.joints), np.empty_like(goals)
        jitter = np.clip(self.jitter * rng.standard_normal(len(goals)), -0.4 / rate, 0.4 / rate)
        frames = np.arange(len(goals)) / rate + jitter
        frames[0] = 0.0
        clock = np.arange(round(frames[-1] / STEP) + 1) * STEP
        held = np.searchsorted(frames, clock - self.delay, side="right") - 1
        seen = np.searchsorted(frames, clock + 0.5 * STEP, side="right")
        filled = 0
        for k, goal in enumerate(goals[np.maximum(held, 0)]):
            q = data.qpos.reshape(self.joints, -1).sum(axis=1)  # of the links, with their play
            if seen[k] > filled:
                places[filled : seen[k]], filled = q, seen[k]
            v = data.qvel[own]
            holds = 1.0 + (self.static - 1.0) * np.exp(-((v / self.stribeck) ** 2))
            after = (bent + STEP * v) / (1.0 + STEP * np.abs(v) * stiff / holds)  # implicit
            rubs = self.coulomb * stiff * after + damping * (after - bent) / STEP
            bent = after
            wanted += np.clip(goal - wanted, -self.goal_speed * STEP, self.goal_speed * STEP)
            error = wanted - q
            gives = self.stiffness * error * (1.0 - self.fade * clock[k] / 15.0)
            gives *= max(1.0 - self.sag * np.abs(gives).sum(), 0.5)
            gives = np.sign(error) * np.maximum(np.abs(gives), self.startup)
            gives[np.abs(error) < self.dead_zone] = 0.0
            data.qfrc_applied[own] = gives - rubs
            mujoco.mj_step(model, data)
        step = 2.0 * np.pi / COUNTS
        return np.asarray(step * np.round(places / step))

    def truth(self) -> dict[str, float]:
        """Return the numbers by heft's names."""
        made = {f"{link[0]}.mass": m for link, m in zip(LINKS, self.masses.tolist(), strict=False)}
        for kind in KINDS:
            values = getattr(self, kind).tolist()
            made |= {f"{j}.{kind}": x for j, x in zip(JOINTS, values, strict=False)}
        return made

    def _mjcf(self) -> str:
        text, off = "", np.broadcast_to(self.off, (self.joints, 3))
        for k, mass in enumerate(self.masses):
            name, place, axis, _, center, radius, _ = LINKS[k]
            moments = mass * radius**2
            text += (
                f'<body name="{name}" pos="{" ".join(map(str, place))}"><joint axis="{axis}" '
                f'armature="{self.armature[k]}" damping="{self.viscous[k]}"/>'
            )
            if self.play:
                text += (
                    f'<joint axis="{axis}" limited="true" range="{-self.play / 2} {self.play / 2}" '
                    'solreflimit="0.004 1" armature="1e-5" damping="1e-3"/>'
                )
            text += (
                f'<inertial pos="{" ".join(map(str, center + off[k]))}" mass="{mass}" '
                f'diaginertia="{moments} {moments} {moments}"/>'
            )
        ends = "</body>" * self.joints
        options = f'<compiler angle="radian"/><option timestep="{STEP}" integrator="implicitfast"/>'
        return f"<mujoco>{options}<worldbody>{text}{ends}</worldbody></mujoco>"


def urdf(joints: int = 6) -> str:
    """Return the model file, of the masses that a maker states."""
    text, before = '<link name="base"/>', "base"
    for name, place, axis, mass, center, radius, (low, high) in LINKS[:joints]:
        joint = JOINTS[[link[0] for link in LINKS].index(name)]
        moments = mass * radius**2
        text += (
            f'<link name="{name}"><inertial><origin xyz="{" ".join(map(str, center))}"/>'
            f'<mass value="{mass}"/><inertia ixx="{moments}" iyy="{moments}" izz="{moments}" '
            'ixy="0" ixz="0" iyz="0"/></inertial></link>'
            f'<joint name="{joint}" type="revolute"><parent link="{before}"/>'
            f'<child link="{name}"/><origin xyz="{" ".join(map(str, place))}"/>'
            f'<axis xyz="{axis}"/><limit lower="{low}" upper="{high}" effort="3" velocity="5"/>'
            "</joint>\n"
        )
        before = name
    return f'<robot name="servo_arm">{text}</robot>'


def teleoperated(rng: np.random.Generator, seconds: float, rate: float, joints: int) -> Array:
    """Return goals of smooth moves between random places, with rests, (N, joints) [rad]."""
    count = round(seconds * rate)
    t, goals = np.arange(count) / rate, np.empty((count, joints))
    for j in range(joints):
        low, high = LINKS[j][6]
        now, begin = rng.uniform(low, high), 0.0
        while begin < seconds:
            until, lasts = rng.uniform(low, high), rng.uniform(0.5, 1.6)
            share = np.clip((t - begin) / lasts, 0.0, 1.0)
            own = t >= begin
            smooth = share**3 * (10.0 - 15.0 * share + 6.0 * share**2)
            goals[own, j] = now + (until - now) * smooth[own]
            now, begin = until, begin + lasts + rng.choice([0.0, 0.5])
    return goals


def write_dataset(
    folder: Path, episodes: Sequence[tuple[Array, Array]], rate: float, names: Sequence[str]
) -> None:
    """Write positions and goals [degrees] of episodes as a LeRobot dataset of version 3."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (folder / "meta").mkdir(parents=True)
    (folder / "data" / "chunk-000").mkdir(parents=True)
    feature = {"dtype": "float32", "shape": [len(names)], "names": [f"{n}.pos" for n in names]}
    info = {
        "codebase_version": "v3.0",
        "robot_type": "so101_follower",
        "fps": rate,
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "features": {"action": feature, "observation.state": feature},
    }
    (folder / "meta" / "info.json").write_text(json.dumps(info))
    frames = [np.arange(len(q)) for q, _ in episodes]
    lists = pa.list_(pa.float32(), len(names))
    columns = {
        "observation.state": pa.array([r for q, _ in episodes for r in q.tolist()], lists),
        "action": pa.array([r for _, g in episodes for r in g.tolist()], lists),
        "timestamp": np.concatenate(frames).astype(np.float32) / np.float32(rate),
        "frame_index": np.concatenate(frames),
        "episode_index": np.repeat(np.arange(len(episodes)), list(map(len, frames))),
    }
    pq.write_table(pa.table(columns), folder / "data" / "chunk-000" / "file-000.parquet")


def identified(case: tuple[int, int, bool, str]) -> tuple[ServoArm, IdentifiedArm]:
    """Return the arm of a seed, and what heft tells of it.

    Args:
        case: Seed, frames a second, whether centres of mass are off, and one of `FAULTS` or none.
    """
    seed, rate, off, fault = case
    rng = np.random.default_rng(seed)
    arm = replace(ServoArm.drawn(rng), **FAULTS.get(fault, {}))
    if off:
        arm = replace(arm, off=OFF * rng.uniform(-1.0, 1.0, size=(arm.joints, 3)))
    if rate >= STAMPED:
        arm = replace(arm, jitter=0.0)
    episodes = []
    for k in range(EPISODES):
        goals = teleoperated(rng, SECONDS, rate, arm.joints)
        time = np.arange(len(goals)) / rate
        episodes.append(Episode(f"episode {k}", time, arm.moved(goals, rate, rng), goals))
    return arm, identify_arm(Robot.from_text(urdf().encode()), ArmBench(), episodes)


def scored(words: str, made: Sequence[tuple[ServoArm, IdentifiedArm]]) -> Iterator[Row]:
    """Yield how often intervals hold, and how wide they are, without and with a mass."""
    for known in (False, True):
        inside: dict[str, list[bool]] = {}
        widths, errors = list[float](), list[float]()
        for arm, found in made:
            truth, link = arm.truth(), found.reference
            scale = 1.0
            if known:
                bench = ArmBench(known={link: truth[f"{link}.mass"]})
                found = replace(found, bench=bench)
            else:
                scale = found.quantities[f"{link}.mass"].value / truth[f"{link}.mass"]
            for name, q in found.quantities.items():
                if name == f"{link}.mass":
                    continue
                true = scale * truth[name]
                low, high = q.interval
                inside.setdefault(name.rpartition(".")[2], []).append(low <= true <= high)
                widths.append((high - low) / 2.0 / true)
                errors.append(abs(q.value / true - 1.0))
        every = [x for own in inside.values() for x in own]
        if not every:
            yield Row(f"{words}: numbers stated", 0.0, "")
            continue
        kinds = ", ".join(f"{k} {np.mean(x):.2f} of {len(x)}" for k, x in inside.items())
        what = "one mass known" if known else "ratios"
        yield at_least(f"{words}, {what}: intervals that hold", np.mean(every), "", 0.9, kinds)
        if known and "mass" in inside:
            yield at_least(f"{words}, masses with one known", np.mean(inside["mass"]), "", 0.9)
        wide = float(np.median(widths) / np.quantile(errors, 0.95))
        half = f"median half width {100 * np.median(widths):.0f} %"
        yield at_most(f"{words}, {what}: width over error", wide, "", 3.0, half)


@benchmark({"EPISODES": 2, "SECONDS": 8.0, "CASES": CASES[-1:], "FAULTY": 0, "arms": 1})
def main(*, arms: int = 8, first: int = 200, jobs: int = 1) -> Iterator[Row]:
    """Yield the rows.

    Args:
        arms: How many at each rate.
        first: Seed of the first; those below 200 chose what heft allows for its own law.
        jobs: Processes.
    """
    for rate, off in CASES:
        cases = [(seed, rate, off, "") for seed in range(first, first + arms)]
        futures = dict(spread(identified, cases, jobs))
        refused = sum(f.exception() is not None for f in futures.values())
        made = [f.result() for f in futures.values() if f.exception() is None]
        words = f"{rate} Hz" + (", centres of mass off" if off else "")
        yield Row(f"{words}: arms not told", refused, "", against=f"of {arms}")
        named = sum(bool(found.misfit or found.lacks) for _, found in made)
        yield Row(f"{words}: arms said to be of another law", named, "", against=f"of {len(made)}")
        if made:
            yield from scored(words, made)
        if made and rate >= STAMPED:
            told = [
                abs(q.value / (scale * truth[name]) - 1.0) < 0.15
                for arm, found in made
                for truth in (arm.truth(),)
                for link in (f"{found.reference}.mass",)
                for scale in (found.quantities[link].value / truth[link],)
                for kind in ("stiffness", "viscous")
                for name in (f"{j}.{kind}" for j in JOINTS)
                for q in (found.all_quantities[name],)
            ]
            yield at_least(f"{words}: A and viscous friction to 15 %", np.mean(told), "", 0.8)
    for fault in FAULTS if FAULTY else ():
        cases = [(seed, 50, False, fault) for seed in range(first, first + FAULTY)]
        futures = dict(spread(identified, cases, jobs))
        made = [f.result() for f in futures.values() if f.exception() is None]
        words = f"50 Hz, {fault}"
        yield Row(f"{words}: arms not told", FAULTY - len(made), "", against=f"of {FAULTY}")
        named = sum(bool(found.misfit or found.lacks) for _, found in made)
        yield Row(f"{words}: arms told whose law is said", named, "", against=f"of {len(made)}")
        if made:
            yield next(scored(words, made))


if __name__ == "__main__":
    main()
