"""`heft coop simulate` and `heft coop identify`: files of a team, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from heft import __version__
from heft.arrays import Array
from heft.display import Body, Plot, Series, Sticks, ellipsoid, render, rounded, solids, table
from heft.display import Table as ShownTable
from heft.errors import InvalidRecording, InvalidSetting
from heft.files import json_text, new_folder, require_own
from heft.information import Finding, Severity, Verdict, inertia, rotation_vector_of_matrix
from heft.recordings import Table, write_table
from heft.simulation import SimulatedTeam

from .agreement import DOUBTFUL
from .clocks import ClockOffset, ClockSettings, lateness
from .load import LoadEstimate
from .method import CooperativeMethod, CooperativeResult, Known
from .node import MANY, CooperativeNode, NodeSettings
from .paper import PaperMethod, PaperResult
from .replication import ABSENT, ReplicaSettings, WindowMessage
from .robot_log import at_one_time, from_one_epoch, opened, together
from .signals import SENSORS, ContactSignals, usual_step
from .team_file import OFFSET_STD, TeamFile, TeamRobot
from .window_stream import WindowSettings, log_rows, noise_of, windows_of
from .windows import Pose, composed, inverse
from .wrenches import likeliest_axes

MethodName = Literal["heft", "paper"]
TEAM_FILE, TRUTH = "team.toml", "truth.json"
RESULTS = ("team.json", "report.html")
MOST_POINTS = 400  # of a curve
# What is left over, times the noise, that is more than noise; beyond which nothing is believed.
MUCH, TOO_MUCH = 1.2, 2.0


def simulate_team_files(
    team: Path, out: Path, seed: int, progress: Callable[[str], None] = lambda line: None
) -> SimulatedTeam:
    """Simulate a team, and write a log a robot, their `team.toml` and the truth.

    Raises:
        InvalidSetting: If the TOML is malformed, or MuJoCo is not installed.
    """
    stated = TeamFile.from_toml(team)
    logs = [f"{robot.name}.parquet" for robot in stated.robots]
    require_own(out, (*logs, TEAM_FILE, TRUTH))
    progress(f"{len(logs)} robots hold a body for {stated.simulation.duration:g} s")
    simulated = stated.simulation.team(len(logs), stated.planar).run(seed)
    with new_folder(out) as new:
        for k, (robot, log) in enumerate(zip(stated.robots, logs, strict=True)):
            columns = simulated.columns(k, robot.frame)
            write_table(Table.of_columns(columns, new / log), new / log)
        (new / TEAM_FILE).write_text(stated.to_toml(logs), encoding="utf-8")
        (new / TRUTH).write_text(json_text(_truth(simulated, stated)), encoding="utf-8")
    return simulated


def _truth(team: SimulatedTeam, stated: TeamFile) -> dict[str, Any]:
    names = [robot.name for robot in stated.robots]
    loads = []
    for k, name in enumerate(names):
        for body, since in zip(team.bodies, (0.0, *team.changes), strict=True):
            mass, com, about = body.seen_from(team.rotations[k], team.origins[k])
            entry = {"robot": name, "since_s": since, "mass_kg": mass}
            loads.append(entry | {"com_m": com, "inertia_kgm2": about})
    poses = [_pose_entry(names[b], names[a], team.pose(b, a)) for a, b in stated.graph.edges]
    return {"heft": __version__, "loads": loads, "poses": poses, "changes_s": team.changes}


def _pose_entry(to: str, of: str, pose: Pose) -> dict[str, Any]:
    return {"to": to, "of": of, "rotation": pose[0], "translation_m": pose[1]}


@dataclass(frozen=True, eq=False)
class TeamFound:
    """Results of a team's identification."""

    stated: TeamFile  # the team
    method: MethodName  # by which it was found
    result: CooperativeResult | PaperResult  # of the method
    end: float  # of the logs [s]
    # by robot, how much later its clock is than the first robot's, where it was set
    clocks: Mapping[int, ClockOffset] = field(default_factory=dict)
    untold: tuple[int, ...] = ()  # robots whose poses the motion does not tell
    # by robot and sensor, how long it repeated itself [s], where it did
    repeated: Mapping[tuple[int, str], float] = field(default_factory=dict)
    # by robot, how much its wrench is behind its motion, where it was set
    delays: Mapping[int, ClockOffset] = field(default_factory=dict)
    # by robot whose stamps are of reception, how late they are beyond their mean, root mean square
    # [s], and what that is of its force, and that sensor's noise [N]
    reception: Mapping[int, tuple[float, float, float]] = field(default_factory=dict)
    # by robot, what takes its wrench to axes in which a load of that mass [kg] explains the logs,
    # shape (3, 3); none where they are right, or no others help
    otherwise: tuple[Mapping[int, Array], float] | None = None

    @property
    def changes(self) -> tuple[float, ...]:
        """Times at which the load changed [s]; none by the paper's method.

        Nor where other axes of wrenches explain the logs, which no change of the load does.
        """
        if isinstance(self.result, PaperResult) or self.otherwise is not None:
            return ()
        return self.result.changes

    @property
    def names(self) -> list[str]:
        """Names of the robots."""
        return [robot.name for robot in self.stated.robots]

    @property
    def latest(self) -> Known | None:
        """Last estimate of heft's own method; None before the first, and of the published one."""
        made = self.result.known if isinstance(self.result, CooperativeResult) else ()
        return made[-1] if made else None

    def load(self, robot: int) -> LoadEstimate | None:
        """Return the load at the end in a robot's frame; None where it is not determined."""
        if isinstance(self.result, PaperResult):
            return self.result.at(self.end, robot)
        return None if self.latest is None else self.latest.load(robot)

    def stated_load(self, robot: int) -> LoadEstimate | None:
        """Return the load in a robot's frame; None, too, where it is not to be believed."""
        return None if self.verdict == "poor" else self.load(robot)

    def poses(self) -> dict[tuple[int, int], Pose]:
        """Return R and t that take coordinates of a to those of b, by (b, a), of each edge."""
        edges = self.stated.graph.edges
        if isinstance(self.result, PaperResult):
            return {(b, a): self.result.poses[b, a] for a, b in edges}
        if self.latest is None:
            return {}
        between = {(b, a): self.latest.between(b, a) for a, b in edges}
        return {edge: pose for edge, pose in between.items() if pose is not None}

    def remarks(self) -> list[str]:
        """Return remarks on clocks, frozen sensors, undetermined poses and the misfit."""
        return [f"{f.message}. {f.cure}".strip() for f in self.findings()]

    def findings(self) -> list[Finding]:
        """Return what is to be known of the logs, by the load's physics."""
        findings = [*self._of_sensors()]
        last = self.latest
        if last is not None:
            findings += [*self._offset(last), *self._no_body(last)]
        findings += self._undetermined()
        if last is not None:
            findings += [*self._doubts(last), *self._misfit(last)]
        if self.otherwise is None:
            return findings
        # What other axes explain is not told twice
        return [self._other_axes(*self.otherwise), *(f for f in findings if f.severity != "spoils")]

    def _other_axes(self, turns: Mapping[int, Array], mass: float) -> Finding:
        cures = {self.names[k]: self.stated.robots[k].turned(by) for k, by in turns.items()}
        opposite = all("reaction" in cure for cure in cures.values())
        return Finding(
            "opposite wrench" if opposite else "other axes",
            f"With {'the opposite wrench' if opposite else 'other axes of its wrench sensor'} one "
            f"rigid load explains the logs, of {mass:.4g} kg; as it stands none does",
            about=", ".join(cures),
            severity="spoils",
            cure="; ".join(f"in the [[robot]] of {name}: {cure}" for name, cure in cures.items()),
        )

    def _of_sensors(self) -> Iterator[Finding]:
        for name, what, than, key, found in (
            ("clock set", "clock", f"later than that of {self.names[0]}", "offset", self.clocks),
            ("late wrench", "wrench", "behind its motion", "delay", self.delays),
        ):
            for k, late_by in found.items():
                yield Finding(
                    name,
                    f"The {what} of {self.names[k]} is {1e3 * late_by.offset:.2f} ms {than} "
                    f"(± {1e3 * late_by.std:.2g} ms): set",
                    about=self.names[k],
                    severity="tells",
                    evidence={f"{key}_s": late_by.offset, "std_s": late_by.std},
                )
        for k, (late, error, noise) in self.reception.items():
            yield Finding(
                "stamps of reception",
                f"The stamps of {self.names[k]} are late now and then and never early, as those of "
                f"reception are: by {1e3 * late:.2g} ms (rms) beyond their mean, which is as much "
                f"as {error:.2g} N of noise in its force, beside {noise:.2g} N of its sensor",
                about=self.names[k],
                severity="warns" if error > noise else "tells",
                evidence={"late_s": late, "error_N": error, "noise_N": noise},
                cure="Stamp messages where they are measured.",
            )
        end = "" if isinstance(self.result, PaperResult) else ": left out"
        for (k, sensor), duration in self.repeated.items():
            yield Finding(
                "repeated samples",
                f"The {SENSORS[sensor]} of {self.names[k]} repeats itself for {duration:.3g} s of "
                f"{self.end:.3g} s{end}",
                about=self.names[k],
                evidence={"repeated_s": duration},
            )

    def _no_body(self, last: Known) -> Iterator[Finding]:
        """Yield why the estimate is no body, where it is none."""
        if last.poses is None or last.load(last.first) is not None:
            return
        if np.sqrt(np.nan_to_num(last.misfit)) > TOO_MUCH:
            return  # of which the finding on the misfit is
        if last.values is None or last.covariance is None:
            yield self._spoilt(
                "load not told",
                "Poses are told, but not the load: its motion is hardly more than noise",
            )
            return
        mass, std = float(last.values[0]), float(np.sqrt(last.covariance[0, 0]))
        if mass > -5.0 * std:  # which is surely negative
            yield self._spoilt(
                "no body", "The estimate is further from any body than its deviations allow"
            )
            return
        yield self._spoilt(
            "opposite wrenches",
            f"All wrenches seem to be of the wrong sign: they make a mass of {mass:.4g} kg "
            f"(± {std:.2g})",
            "Sensors that read what the load applies to their robots, and not what these apply to "
            "it, need reaction = true in their [[robot]].",
        )

    @staticmethod
    def _spoilt(name: str, message: str, cure: str = "") -> Finding:
        return Finding(name, message, about="all robots", severity="spoils", cure=cure)

    def _offset(self, last: Known) -> Iterator[Finding]:
        """Yield what there is to remark on the wrench sensors' offsets."""
        untared = [r.name for r in self.stated.robots if not r.tared]
        if self.verdict == "poor" or last.offset is None or not untared:
            return
        numbers, (values, covariance) = np.array(last.space.wrench), last.offset
        std = np.sqrt(np.diag(covariance))
        sizes = [
            f"{np.linalg.norm(values[own]):.3g} {unit} (± {std[own].max():.2g} an axis)"
            for own, unit in ((numbers >= 3, "N"), (numbers < 3, "N·m"))
        ]
        z = float(np.sqrt(values @ np.linalg.solve(covariance, values)))
        yield Finding(
            "offsets of wrenches",
            f"The offsets of the wrench sensors of {', '.join(untared)} are estimated with the "
            f"load: together {' and '.join(sizes)} in the frame of "
            f"{self.names[last.first]}, each given within {OFFSET_STD[-1]:g} N and "
            f"{OFFSET_STD[0]:g} N·m",
            about=", ".join(untared),
            severity="warns" if z > 6.0 else "tells",  # of six numbers, more than noise
            evidence={"deviations": z},
            cure="Where one was set to zero with nothing on it, tared = true in its [[robot]] "
            "makes the load surer.",
        )

    @property
    def verdict(self) -> Verdict | None:
        """Whether the numbers can be believed; None of the published method, which states none."""
        if isinstance(self.result, PaperResult):
            return None
        last = self.latest
        if last is None or last.poses is None:
            return "poor"
        misfit = float(np.sqrt(np.nan_to_num(last.misfit)))
        if misfit > TOO_MUCH or self._differ(last) or last.load(last.first) is None:
            return "poor"
        return "usable" if misfit > MUCH or self.untold or last.doubts else "good"

    def _undetermined(self) -> Iterator[Finding]:
        if not self.untold:
            return
        names = ", ".join(self.names[k] for k in self.untold)
        published = isinstance(self.result, PaperResult)
        trust = ". This method answers all the same: its numbers are not to be trusted"
        yield Finding(
            "motion shows too little",
            f"The motion does not tell how {names} and the others hold the load: beyond its noise "
            f"it turns about less than two axes{trust if published else ''}",
            about=names,
            severity="spoils",
            cure="Turn the load about two axes at least, faster or for longer.",
        )

    def _misfit(self, last: Known) -> Iterator[Finding]:
        if not np.isfinite(last.misfit):
            return
        size = float(np.sqrt(last.misfit))
        times = f"What the load leaves over is {size:.2f} times the sensors' noise"
        if size < MUCH:
            yield Finding("explained wrenches", times, about="all robots", severity="tells")
            return
        poor, wrench = self.verdict == "poor", last.wrench_doubt
        severity: Severity = "spoils" if poor else "warns"
        if wrench is not None:
            name = self.names[wrench.robot]
            yield Finding("doubtful wrench", wrench.words(name), about=name, severity=severity)
        so = (
            "no number of it is stated"
            if poor
            else "the numbers of the load are surer than they should be"
        )
        yield Finding(
            "unexplained wrenches",
            f"{times}: one rigid load, held by these robots alone, does not explain the logs, and "
            f"{so}",
            about="all robots",
            severity=severity,
            evidence={"misfit": size},
            cure="A contact that slips, a sensor that lies or a robot without a log do this.",
        )

    def _doubts(self, last: Known) -> Iterator[Finding]:
        for doubt in last.doubts:
            name = self.names[doubt.robot]
            named = doubt.sensor is not None
            yield Finding(
                "doubtful motion",
                doubt.words(name),
                about=name,
                severity="warns" if named else "spoils",
                cure="Look at scale, axes and mounting.",
            )
        if self._differ(last):
            yield self._spoilt(
                "motions differ",
                f"The robots' motions differ by {np.sqrt(max(last.disagreement)):.1f} times the "
                "noise, and who is wrong is not clear: no number of the load is stated",
                "A load that bends, clocks that drift, late stamps or sensors that lie do this.",
            )

    @staticmethod
    def _differ(last: Known) -> bool:
        """Return whether the motions differ, and no robot's sensors explain it."""
        if last.poses is None or last.doubts:
            return False
        return max(last.disagreement, default=1.0) > DOUBTFUL

    def write(self, out: Path) -> None:
        """Write the results, whole or not at all.

        Args:
            out: Folder that holds no other files than `RESULTS`; it need not exist.
        """
        with new_folder(out) as new:
            (new / RESULTS[0]).write_text(json_text(_content(self)), encoding="utf-8")
            (new / RESULTS[1]).write_text(_page(self), encoding="utf-8")

    def text(self) -> str:
        """Return the results as text for a terminal."""
        head = ["robot", "mass", "±", "centre of mass", "±", "inertia about it"]
        rows = []
        for k, name in enumerate(self.names):
            load = self.load(k)
            if load is None or self.verdict == "poor":
                why = "not told" if load is None else "withheld"
                rows.append([name, why, "", "", "", ""])
                continue
            mass, centre, com = _cells(load)
            moments = ", ".join(f"{v:.3g}" for v in np.diag(load.inertia) if np.isfinite(v))
            rows.append([name, f"{load.mass:.4g} kg", mass, f"{centre} mm", com, moments])
        lines = [f"verdict: {self.verdict}", ""] if self.verdict else []
        lines += [table(head, rows), ""]
        for (b, a), (R, t) in self.poses().items():
            turn = np.degrees(np.linalg.norm(rotation_vector_of_matrix(R)))
            far = np.linalg.norm(t)
            lines.append(
                f"{self.names[a]} is {far:.4g} m from {self.names[b]}, turned by {turn:.1f}°"
            )
        lines += self.remarks()
        lines += [f"The load is another from {t:.2f} s on." for t in self.changes]
        return "\n".join(lines)


def _cells(load: LoadEstimate) -> tuple[str, str, str]:
    """Return deviation of the mass, centre of mass and its deviation; empty if not known."""
    std, centre = load.std, ", ".join(f"{1e3 * c:.1f}" for c in load.com if np.isfinite(c))
    if std is None:
        return "", centre, ""
    return f"{std[0]:.2g}", centre, f"{1e3 * np.nanmax(std[1:4]):.2g}"


def identify_team_files(
    run: Path,
    out: Path | None = None,
    method: MethodName = "heft",
    columns: Path | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> TeamFound:
    """Identify the load that a team holds from its robots' logs, and write the results.

    Args:
        run: `team.toml` with a log of each robot, or the folder that holds it.
        out: Folder to write, with `RESULTS`; nothing is written if None.
        method: heft's own, or [Fan2017]'s.
        columns: TOML that says what the logs' columns mean.

    Raises:
        InvalidSetting: If the TOML is malformed or names no logs.
        InvalidRecording: If a log cannot be read, a sensor never changes, or the logs have no time
            in common.
        MissingSignal: If one lacks a signal.
    """
    path = run / TEAM_FILE if run.is_dir() else run
    if out is not None:
        require_own(out, RESULTS)
    stated = TeamFile.from_toml(path)
    logs = list(opened(stated, path, columns, progress))
    team = identify_team(stated, from_one_epoch(logs), method, progress)
    if out is not None:
        team.write(out)
    return team


def identify_team(
    stated: TeamFile,
    team: Sequence[ContactSignals],
    method: MethodName = "heft",
    progress: Callable[[str], None] = lambda line: None,
) -> TeamFound:
    """Identify the load that a team holds; see `identify_team_files`.

    Where no load explains the logs, other axes and signs of wrenches are tried.

    Args:
        team: Signals of each robot, in times since one stamp.
    """
    repeated: dict[tuple[int, str], float] = {}
    for k, (robot, own) in enumerate(zip(stated.robots, team, strict=True)):
        repeated |= {(k, sensor): time for sensor, time in _repeated(own, robot).items()}
    begin, end = together(team)
    progress(f"{len(team)} robots, {end - begin:.1f} s together")
    if len(team) == 2 and not stated.planar and not any(s.torque.any() for s in team):
        raise InvalidSetting(
            "forces at two points turn no load about the line between them",
            argument=", ".join(robot.name for robot in stated.robots),
            got="no torque of either",
            cure="measure the torque of one, or name a third robot; planar = true if the load "
            "moves in a plane",
        )
    if stated.planar and method == "paper":
        raise InvalidSetting(
            "the published method knows no plane",
            argument="--method paper",
            cure="--method heft",
        )
    found = results_of(_gathered(stated, team), progress)
    late = {k: _late_stamps(own, rms) for k, own in enumerate(team) if (rms := lateness(own.time))}
    found = replace(found, end=end, repeated=repeated, reception=late)
    if method == "heft":
        return found
    behind = (found.clocks[k].offset if k in found.clocks else 0.0 for k in range(len(team)))
    on_one_clock = [replace(s, time=s.time - t) for s, t in zip(team, behind, strict=True)]
    result = PaperMethod().identify(at_one_time(on_one_clock), stated.graph)
    return replace(found, method=method, result=result, delays={}, otherwise=None)


def _gathered(stated: TeamFile, team: Sequence[ContactSignals]) -> CooperativeNode:
    """Return a node that was told all windows of whole logs."""
    method, kept = CooperativeMethod(), ReplicaSettings(history=MANY, ahead=MANY)
    # All windows are there, and count whenever a clock is set
    settings = NodeSettings(method, kept, clocks=ClockSettings(again=MANY, recent=MANY))
    node = CooperativeNode(stated, 0, settings=settings)
    for k, signals in enumerate(team):
        sensors, rows = log_rows(signals, method.windows)
        if rows:
            rows = {n: np.append(row, sensors.numbers) for n, row in rows.items()}
            each = ((k, n, rows.get(n, ABSENT)) for n in range(min(rows), max(rows) + 1))
            start = {k: min(rows)}
            node.replica.receive(k, WindowMessage(start, tuple(each), first=start))
    return node


def results_of(
    node: CooperativeNode, progress: Callable[[str], None] = lambda line: None
) -> TeamFound:
    """Return the results of a node with all windows so far.

    Where no load explains them, other axes and signs of wrenches are tried.
    """
    found = _found(node)
    last, origins = found.latest, node.solver.origins
    poses = [p for p in last.poses if p is not None] if last is not None and last.poses else []
    if found.verdict != "poor" or last is None or len(poses) < len(found.names):
        return found
    progress("trying other axes of wrenches")
    for robots, by in likeliest_axes(node.solver.parts(node.replica), poses, last.space)[:3]:
        turns = dict.fromkeys(robots, by)
        other = _found(node.turned({origins[k]: by for k in robots}))
        load = other.load(0)
        if other.verdict != "poor" and load is not None:
            return replace(found, otherwise=(turns, load.mass))
    return found


def _found(node: CooperativeNode) -> TeamFound:
    """Return the results of a node as the axes of wrenches are stated."""
    node.solver.finish(node.replica)
    latest = node.known
    origins = tuple(range(node.count)) if latest is None else latest.origins
    history = [] if latest is None else [*node.solver.history()]
    if latest is not None:
        history = [k for k in history if len(k.poses or ()) == len(origins)]
        history = [*history[:-1], latest.known]
    result = CooperativeResult(tuple(history), tuple(node.solver.changes))
    end = 0.0 if latest is None else latest.known.time
    untold = origins if latest is None else latest.known.unplaced
    among = node.stated.among(origins)
    clocks, delays = (
        {origins.index(o): c for o, c in set_by.items() if o in origins}
        for set_by in (node.clocks(), node.solver.clocks.delays)
    )
    return TeamFound(among, "heft", result, end, clocks, untold, delays=delays)


def _late_stamps(signals: ContactSignals, late: float) -> tuple[float, float, float]:
    """Return what lateness of stamps is as noise of the force; see `TeamFound.reception`."""
    (windows,) = windows_of([signals])
    apart = round(WindowSettings().length / WindowSettings().stride)
    change = windows.wrench[apart:, 3:] - windows.wrench[:-apart, 3:]
    rate = float(np.sqrt(np.nanmean(change**2))) / WindowSettings().length
    return late, rate * late, noise_of(signals, WindowSettings().length).force


def _repeated(signals: ContactSignals, robot: TeamRobot) -> dict[str, float]:
    """Return how long each sensor repeats itself [s], or refuse one that does nothing else."""
    step = usual_step(signals.time)
    durations = {}
    for sensor, samples in signals.repeated().items():
        if samples.all():
            x, y, z = getattr(signals, sensor)[0]
            raise InvalidRecording(
                f"the {SENSORS[sensor]} never changes",
                argument=f"{robot.log}, {robot.name}",
                got=f"({x:g}, {y:g}, {z:g}) throughout",
                cure="it is stuck, or the load is held still: that tells nothing; leave this robot "
                "out of the team's file, or record again",
            )
        if samples.any():
            durations[sensor] = float(samples.sum()) * step
    return durations


def _content(team: TeamFound) -> dict[str, Any]:
    """Return the content of `team.json`."""
    names, last = team.names, None if team.verdict == "poor" else team.latest
    loads = [team.stated_load(k) for k in range(len(names))]
    return {
        "heft": __version__,
        "method": team.method,
        "verdict": team.verdict,
        "robots": [
            {
                "name": name,
                "load": load
                and {
                    "mass_kg": load.mass,
                    "com_m": load.com,
                    "inertia_kgm2": load.inertia,
                    "covariance": load.covariance,
                },
            }
            for name, load in zip(names, loads, strict=True)
        ],
        "poses": [_pose_entry(names[b], names[a], pose) for (b, a), pose in team.poses().items()],
        "wrench_offset": None if last is None or last.offset is None else last.offset[0],
        "changes_s": team.changes,
        "clocks_s": {names[k]: c.offset for k, c in team.clocks.items()},
        "clocks_std_s": {names[k]: c.std for k, c in team.clocks.items()},
        "wrench_delays_s": {names[k]: d.offset for k, d in team.delays.items()},
        "wrench_delays_std_s": {names[k]: d.std for k, d in team.delays.items()},
    }


def _page(team: TeamFound) -> str:
    rows = []
    for k, name in enumerate(team.names):
        load = team.stated_load(k)
        if load is None:
            continue
        mass, centre, com = _cells(load)
        inside = [[v for v in row if np.isfinite(v)] for row in load.inertia]
        about = "; ".join(", ".join(f"{v:.4g}" for v in row) for row in inside if row)
        rows.append([name, f"{load.mass:.5g}", mass, centre, com, about])
    head = ("robot", "mass [kg]", "±", "centre of mass [mm]", "±", "inertia about it [kg·m²]")
    poses = [
        [
            team.names[a],
            team.names[b],
            ", ".join(f"{1e3 * x:.1f}" for x in t),
            ", ".join(f"{x:.2f}" for x in np.degrees(rotation_vector_of_matrix(R))),
        ]
        for (b, a), (R, t) in team.poses().items()
    ]
    of_poses = ("of", "in the frame of", "origin [mm]", "rotation vector [°]")
    return render(
        "applications/cooperation/report.html.jinja",
        title="A load that several robots hold",
        loads=ShownTable("The load at the end, in each robot's own frame", head, rows),
        poses=ShownTable("Where neighbours hold it", of_poses, poses),
        weighed=_answer(team),
        picture=_picture(team),
        plots=[] if team.verdict == "poor" else list(_plots(team)),
        changes=[f"{t:.2f}" for t in team.changes],
        remarks=team.remarks(),
        method=team.method,
    )


def _answer(team: TeamFound) -> tuple[str, str] | None:
    """Return the load's mass and its deviation as text; None where none is stated."""
    load = team.stated_load(0)
    if load is None:
        return None
    return rounded(load.mass, None if load.std is None else load.std[0]), _cells(load)[0] or "–"


def _picture(team: TeamFound) -> Sticks | None:
    """Return the load with the points where robots hold it, in the first robot's frame."""
    load = team.stated_load(0)
    if load is None:
        return None
    places, between = {0: (np.eye(3), np.zeros(3))}, team.poses()
    between |= {(a, b): inverse(pose) for (b, a), pose in between.items()}
    for _ in team.stated.robots:  # as far as edges lead
        for (b, a), pose in between.items():
            if b in places and a not in places:
                places[a] = composed(places[b], pose)
    grasps = np.nan_to_num([place for _, place in places.values()])  # of what moves in a plane
    com, reach = np.nan_to_num(load.com), float(np.ptp(grasps, axis=0).max(initial=0.1))
    ten = inertia.from_body(load.mass, com, np.nan_to_num(load.inertia))
    shape = ellipsoid(ten)
    bodies = [
        Body(team.names[k], "before", place, 0.02 * reach * np.eye(3))
        for k, place in zip(places, grasps, strict=True)
    ]
    bodies += [Body("load", "after", *shape)] if shape is not None else []
    lines = np.array([[*place, *com] for place in grasps])
    return solids("The load, and where it is held", lines, bodies)


def _plots(team: TeamFound) -> Iterator[Plot]:
    """Yield mass and centre of mass over time, in the first robot's frame."""
    time, mass, com, spread = _history(team)
    if not len(time):
        return
    shown = [Series("mass", "measured", time, mass)]
    if np.isfinite(spread).any():
        shown.insert(0, Series("95 %", "measured", time, mass, "band", reach=1.96 * spread))
    yield Plot("Mass", "time [s]", tuple(shown), "time", "[kg]")
    roles = ("measured", "predicted", "residual")
    axes = tuple(
        Series(a, role, time, 1e3 * com[:, k])
        for k, (a, role) in enumerate(zip("xyz", roles, strict=True))
        if np.isfinite(com[:, k]).any()
    )
    yield Plot("Centre of mass", "time [s]", axes, "time", "[mm]")


def _history(team: TeamFound) -> tuple[Array, Array, Array, Array]:
    """Return times, masses, centres of mass and standard deviations of the mass, of robot 0."""
    if isinstance(team.result, PaperResult):
        every = max(len(team.result.time) // MOST_POINTS, 1)
        states = team.result.history[0, ::every]
        time = team.result.time[::every]
        return time, 1.0 / states[:, 9], states[:, :3], np.full(len(time), np.nan)
    history = [(k.time, load) for k in team.result.known if (load := k.load(0)) is not None]
    history = history[:: max(len(history) // MOST_POINTS, 1)]
    values = np.array(
        [
            [t, k.mass, *k.com, np.nan if k.covariance is None else np.sqrt(k.covariance[0, 0])]
            for t, k in history
        ]
    ).reshape(-1, 6)
    # Curves break where the load is another: it did not ramp from one to the other.
    breaks = np.searchsorted(values[:, 0], team.changes)
    values = np.insert(values, breaks, np.nan, axis=0)
    values[np.isnan(values[:, 0]), 0] = team.changes
    return values[:, 0], values[:, 1], values[:, 2:5], values[:, 5]
