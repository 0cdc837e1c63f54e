"""Options of commands that belong together, as dataclasses, and what they ask for; see `cli`."""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from cyclopts import Group, Parameter

from heft.errors import InvalidSetting
from heft.loading import extensions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from heft.applications.excite import ExciteSettings
    from heft.applications.payload import Payload
    from heft.applications.simulate import SimulationSettings
    from heft.fit import RowKind, Settings
    from heft.signals import Smoothing

Progress: TypeAlias = "Callable[[str], None]"
Map = Annotated[
    Path | None,
    Parameter(
        name="--map",
        help="TOML that says what the logs' columns mean, if they have other names or units.",
    ),
]
Quiet = Annotated[bool, Parameter(help="Say nothing while working.")]
IdentifiedWith = Annotated[
    Path | None,
    Parameter(
        name="--columns",
        help="The Python file of own columns that the robot was identified with, if it was.",
    ),
]
Own = Annotated[Path | None, Parameter(name="--columns")]
With = Annotated[Path | None, Parameter(name="--with")]
Logs = Annotated[list[Path] | None, Parameter(consume_multiple=True, negative="")]
Names = Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")]

PACKAGE = Path(__file__).parents[1]


def stated_as(name: str, path: Path) -> ast.expr:
    """Return what a module gives a name with a type, which is read, not imported.

    So help and completion come without numpy.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    (value,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name and node.value
    )
    return value


@cache
def registered() -> dict[str, bool]:
    """Return the names in the registry of estimators, and whether each is a robust one."""
    table = stated_as("ESTIMATORS", PACKAGE / "estimators" / "registry.py")
    assert isinstance(table, ast.Dict)
    entries = zip(table.keys, table.values, strict=True)
    own = {ast.literal_eval(k): "robust=True" in ast.unparse(v) for k, v in entries if k}
    robust = extensions("heft.robust")
    return own | {name: name in robust for name in extensions("heft.methods")}


def row_kinds() -> tuple[str, ...]:
    """Return which rows may be asked for."""
    literal = stated_as("RowKind", PACKAGE / "fit" / "settings.py")
    assert isinstance(literal, ast.Subscript)
    return tuple(ast.literal_eval(literal.slice))


if TYPE_CHECKING:  # what is registered is checked where it is used
    Method: TypeAlias = str
    Robust: TypeAlias = str
else:
    Method = Literal[tuple(registered())]
    Robust = Literal[("none", *(name for name, robust in registered().items() if robust))]
    RowKind = Literal[row_kinds()]


@dataclass(frozen=True)
class SmoothingOptions:
    """How positions and torques are smoothed.

    Parameters
    ----------
    corner
        Corner of the low-pass on positions [Hz]; chosen from the data if not given.
    torque
        Raw, or filtered together with the rows.
    smoother
        Of positions: a low-pass, a penalised spline, or a Fourier series if the motion repeats.
    delay
        By how much torque comes behind motion [s]; looked for if not given.
    trim
        Time cut off at each end of a log, and at gaps [s].
    """

    corner: float | None = None
    torque: Literal["raw", "filtered"] = "raw"
    smoother: Literal["butterworth", "spline", "fourier"] = "butterworth"
    delay: float | None = None
    trim: float = 0.5

    def smoothing(self) -> Smoothing:
        """Return the settings."""
        from heft.signals import Smoothing

        return Smoothing(
            corner=self.corner,
            trim=self.trim,
            torque=self.torque,
            delay=self.delay,
            method=self.smoother,
        )


@dataclass(frozen=True)
class EstimationOptions:
    """How rows are made, and how parameters are estimated from them.

    Parameters
    ----------
    rows
        Weak: integrals over short windows, which need no acceleration; or differentiated. By itself
        weak for a robot whose base is fixed, but with `--robust`, `--torque filtered`, `--only` and
        other methods than least squares.
    method
        Estimator of the base parameters. The default weighs rows by their channel's noise; what the
        others are for is in "How it works", and `heft bench` compares them.
    robust
        What finds pushes, collisions and spikes, whose rows are then left out.
    average
        Average logs over the periods of their motion first.
    strength
        Of the prior from the model file, in effective samples.
    prior
        Quadratic around the model file, or the log-determinant divergence from it.
    threads
        How many threads share the work; the result does not depend on it.
    """

    rows: RowKind = "auto"
    method: Method = "least-squares"
    robust: Robust = "none"
    average: bool = False
    strength: float = 10.0
    prior: Literal["quadratic", "logdet"] = "quadratic"
    threads: int = 2

    def settings(self, smoothing: SmoothingOptions) -> Settings:
        """Return the settings of an identification.

        Raises:
            InvalidSetting: If strength or threads are not positive.
        """
        from heft.estimators import PhysicallyConsistent
        from heft.fit import Settings

        if not (math.isfinite(self.strength) and self.strength > 0.0) or self.threads < 1:
            raise InvalidSetting(
                "strength and threads must be positive",
                got=f"strength {self.strength:g}, threads {self.threads}",
            )
        return Settings(
            smoothing.smoothing(),
            consistent=PhysicallyConsistent(strength=self.strength, prior=self.prior),
            rows=self.rows,
            method=self.method,
            robust=self.robust,
            average=self.average,
            threads=self.threads,
        )


@dataclass(frozen=True)
class LoadOptions:
    """What a load is weighed by.

    Parameters
    ----------
    sensor
        TOML that describes the wrench sensor, and the inertial sensor if there is one.
    robot
        The robot's model file.
    empty
        Logs without the load, where there are several.
    loaded
        Logs with it.
    frame
        The link that the load is fixed to; the last one if not given.
    known_mass
        Mass of the load [kg]: the drives' gains are found instead, and written to robot.toml; or
        with --sensor the sensor's, where its file says gain_std.
    mounting
        Whether the sensor may be mounted turned against the motion's frame.
    options
        TOML that says what the model file cannot, such as drive gains.
    own
        With --robot, Python file of own columns of its regressor, such as springs; it is run.
    out
        Folder for estimate.json, payload.txt, robot.toml and report.html, a page that opens
        offline; nothing is written if not given.
    threads
        How many threads share the work.
    """

    sensor: Path | None = None
    robot: Path | None = None
    empty: Logs = None
    loaded: Logs = None
    frame: str | None = None
    known_mass: float | None = None
    mounting: bool = False
    columns: Map = None
    options: With = None
    own: Own = None
    out: Path | None = None
    threads: int = 2
    quiet: Quiet = False

    def refuse_own(self, why: str) -> None:
        """Raise `InvalidSetting` if own columns are given where they mean nothing."""
        if self.own is not None:
            raise InvalidSetting(
                "own columns are of no use here",
                argument=f"--columns {self.own}",
                got=why,
                cure="leave --columns out",
            )

    def require_sound(self) -> None:
        """Raise `InvalidSetting` if a known mass is none."""
        mass = self.known_mass
        if mass is not None and not (math.isfinite(mass) and mass > 0.0):
            raise InvalidSetting("a mass is above 0", argument="--known-mass", got=mass)


@dataclass(frozen=True)
class LiveOptions:
    """Weighing as the samples come.

    Parameters
    ----------
    live
        Weigh what is held now, until stopped by Ctrl-C.
    on
        Where samples come from and estimates go: zenoh (this machine's router), or a TOML file.
    insecure
        Open to a network without certificates on both sides.
    replay
        A log to take in place of a network, in real time.
    speed
        By how much faster than it was recorded it is replayed; inf for as fast as can be.
    rate
        How often what is known is told [Hz].
    serve
        Show a page in this machine's browsers, at a port or any.
    checkpoint
        File in which what is known is kept, and from which it goes on.
    """

    live: bool = False
    on: str | None = None
    insecure: bool = False
    replay: Path | None = None
    speed: float = 1.0
    rate: float = 10.0
    serve: bool | int = False
    checkpoint: Path | None = None

    @property
    def port(self) -> int | None:
        """Port of the page, 0 for any; None for no page."""
        if self.serve is False:
            return None
        return 0 if self.serve is True else self.serve

    def refuse_unless_live(self) -> None:
        """Raise `InvalidSetting` if anything is said of live weighing, but not --live."""
        plain = LiveOptions()
        stated = [f"--{k}" for k, v in vars(self).items() if v != getattr(plain, k)]
        if stated and not self.live:
            raise InvalidSetting(
                "this is said of live weighing only", argument=", ".join(stated), cure="add --live"
            )


@dataclass(frozen=True)
class ExcitationOptions:
    """What motion is designed, and by what it is judged.

    Parameters
    ----------
    duration
        Of the motion [s].
    criterion
        D: the information's determinant; A: the sum of variances; E: the largest variance;
        condition: the condition number of the regressor, which depends on units.
    about
        Links, joints or parameters that are to be told; all if not given.
    task
        Log of a motion whose torque is to be predicted best: the criterion then.
    basis
        A Fourier series, which repeats, or a spline.
    harmonics
        Of the Fourier series.
    rest
        Where the motion is at rest.
    periods
        How often the motion is repeated.
    rate
        Rows of motion.parquet a second [Hz].
    starts
        Random motions that are improved.
    seed
        Of the random motions.
    collisions
        Keep links clear of one another, and of the room that [motion] of --with states.
    compared
        Design by the other criterion too, to tell what the choice costs.
    load
        Link that carries a load: the motion is to tell the load instead of the robot.
    heaviest
        Mass of that load, at most [kg].
    """

    duration: float = 20.0
    criterion: Literal["D", "A", "E", "condition"] = "D"
    about: Annotated[list[str] | None, Parameter(name="--for", consume_multiple=True)] = None
    task: Path | None = None
    basis: Literal["fourier", "spline"] = "fourier"
    harmonics: int = 5
    rest: Literal["both", "start", "none"] = "both"
    periods: int = 1
    rate: float = 100.0
    starts: int = 3
    seed: int = 0
    collisions: bool = True
    compared: bool = True
    load: str | None = None
    heaviest: float = 2.0

    def settings(self, columns: Path | None, own: Path | None) -> ExciteSettings:
        """Return the settings of a design.

        Raises:
            InvalidSetting: If one is out of range.
        """
        from heft.applications.excite import CarriedLoad, ExciteSettings
        from heft.excitation import DesignSettings

        return ExciteSettings(
            DesignSettings(
                duration=self.duration,
                basis=self.basis,
                harmonics=self.harmonics,
                rest=self.rest,
                criterion=self.criterion,
                starts=self.starts,
                seed=self.seed,
            ),
            tuple(self.about or ()),
            self.task,
            columns,
            self.rate,
            self.periods,
            self.collisions,
            self.compared,
            load=CarriedLoad(self.load, self.heaviest) if self.load is not None else None,
            own_columns=own,
        )


@dataclass(frozen=True)
class SimulationOptions:
    """What is simulated most often; everything else stands in [simulation] of --with.

    Parameters
    ----------
    controller
        Of the joints: PD, computed torque, or a cascade of position and velocity.
    friction
        Law of friction: none, smooth or hard Coulomb, with Stribeck's fall, LuGre or Dahl.
    rate
        Rows of the log a second [Hz].
    corner
        Corner of a low-pass of the motion [Hz], where it was recorded with noise.
    seed
        Of all random numbers.
    exact
        No friction, ripple, elasticity nor errors of sensors; rotors stay.
    """

    controller: Literal["pd", "computed-torque", "cascade"] | None = None
    friction: Literal["none", "smooth", "hard", "stribeck", "lugre", "dahl"] | None = None
    rate: float | None = None
    corner: float | None = None
    seed: int | None = None
    exact: bool = False

    def settings(self, options: Path | None) -> SimulationSettings:
        """Return the settings of a simulation.

        Raises:
            InvalidSetting: If the TOML is malformed, or an option out of range.
        """
        from dataclasses import replace

        from heft.applications.simulate import CORNER, RATE, SEED, SimulationSettings

        settings = SimulationSettings.from_toml(options)
        if self.controller is not None:
            settings = replace(
                settings, controller=replace(settings.controller, law=self.controller)
            )
        if self.friction is not None:
            settings = replace(settings, drives=replace(settings.drives, friction=self.friction))
        if self.rate is not None:
            rate = RATE(self.rate, "--rate")
            settings = replace(settings, sensors=replace(settings.sensors, rate=rate))
        if self.corner is not None:
            settings = replace(settings, corner=CORNER(self.corner, "--corner"))
        if self.seed is not None:
            settings = replace(settings, seed=int(SEED(self.seed, "--seed")))
        return settings.exact() if self.exact else settings


def weighed_by_sensor(
    logs: Sequence[Path], load: LoadOptions, sensor: Path, progress: Progress
) -> Payload:
    """Weigh what a wrench sensor holds, by its logs."""
    from heft.applications.inputs import Inputs
    from heft.applications.payload import Weigh, weigh_files

    load.refuse_own("a wrench sensor does not feel what the robot's springs do")
    if not logs or load.empty or load.loaded:
        raise InvalidSetting(
            "with --sensor, logs of one load are expected and nothing else",
            argument="LOGS",
            cure="heft payload grasp.csv --sensor wrist.toml",
        )
    inputs = Inputs.open(load.robot, load.options, load.columns, sensors=sensor)
    return weigh_files(inputs, logs, Weigh(mounting=load.mounting), progress, load.known_mass)


def weighed_by_robot(logs: Sequence[Path], load: LoadOptions, progress: Progress) -> Payload:
    """Weigh what a robot carries, by logs without the load and with it.

    Args:
        logs: Without the load and with it, in this order, where the options name none.
    """
    from heft.applications.inputs import Inputs
    from heft.applications.payload import WeighCarried, carry_files
    from heft.fit import Settings

    named = load.empty is not None or load.loaded is not None
    empty, loaded = (load.empty, load.loaded) if named else (logs[:1], logs[1:])
    astray = bool(logs) if named else len(logs) > 2
    if load.robot is None or not empty or not loaded or astray:
        raise InvalidSetting(
            "either a wrench sensor or a robot with logs without and with the load is needed",
            argument="LOGS",
            cure="heft payload grasp.csv --sensor wrist.toml, or "
            "heft payload empty.csv loaded.csv --robot arm.urdf",
        )
    files = (load.robot, load.options, load.columns)
    inputs = Inputs.open(*files, load.own).with_logs(empty=empty, loaded=loaded)
    weigh = WeighCarried(load.frame, load.known_mass, settings=Settings(threads=load.threads))
    return carry_files(inputs, weigh, progress)


def weighed_live(
    logs: Sequence[Path],
    load: LoadOptions,
    live: LiveOptions,
    message: Progress,
    progress: Progress,
) -> Payload:
    """Weigh what a wrench sensor holds now, until stopped."""
    from heft.applications.payload import LiveWeighing
    from heft.interrupts import stopped_by_signals

    load.refuse_own("a wrench sensor does not feel what the robot's springs do")
    of_logs = (load.empty, load.loaded, load.known_mass, load.frame, load.mounting)
    if load.sensor is None or logs or any(of_logs):
        raise InvalidSetting(
            "with --live, a wrench sensor is expected, and nothing about logs",
            argument="--live",
            cure="heft payload --live --sensor wrist.toml --on zenoh",
        )
    weighing = LiveWeighing(
        load.sensor,
        live.on,
        live.insecure,
        live.replay,
        live.speed,
        load.columns,
        load.robot,
        load.options,
        live.rate,
        live.port,
        live.checkpoint,
        load.out,
    )
    with stopped_by_signals() as stop:
        return weighing.run(stop, message, progress)


# As parameters of commands: each option stands for itself, in a group of its own in the help.
Smoothed = Annotated[SmoothingOptions, Parameter(name="*", group=Group("Smoothing", sort_key=1))]
Estimated = Annotated[EstimationOptions, Parameter(name="*", group=Group("Estimation", sort_key=2))]
Load = Annotated[LoadOptions, Parameter(name="*")]
Live = Annotated[LiveOptions, Parameter(name="*", group=Group("Live", sort_key=1))]
SimulationGroup = Group("Simulation", sort_key=1)
Simulation = Annotated[SimulationOptions, Parameter(name="*", group=SimulationGroup)]
ExcitationGroup = Group("Excitation", sort_key=1)
Excitation = Annotated[ExcitationOptions, Parameter(name="*", group=ExcitationGroup)]
SMOOTHING, ESTIMATION = SmoothingOptions(), EstimationOptions()  # as they are by default
LOAD, LIVE, SIMULATION = LoadOptions(), LiveOptions(), SimulationOptions()
VIEW_PORT = 8080  # of the viewer, on this machine
EXCITATION = ExcitationOptions()
