"""First `team.toml` from bags: their robots by namespace, and what is left to be filled in."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from heft.errors import InvalidSetting, spelt
from heft.files import require_writable, write_text
from heft.models import Robot
from heft.recordings import Channel, Topics, channels_of, quoted, read_table, toml_list

from .signals import usual_step

KINDS = ("JointState", "WrenchStamped", "Imu", "Odometry")  # of messages that teams read


BY_HAND = (
    'of logs of columns write the file yourself: for each robot [[robot]] with name = "left", '
    'log = "left.csv", and frame = "grasp" of force.grasp.x and so on; then heft coop check'
)


@dataclass(frozen=True)
class _Stream:
    """One topic of a bag, as it is recorded."""

    topic: str  # its name
    kind: str  # of its messages, without their package
    frame: str  # that they name; empty of joint states
    joints: int  # that they name
    begin: float  # first stamp [s], since 1970 where the bag says so
    end: float  # last one [s]
    step: float  # usual time between two [s]

    @staticmethod
    def of(bag: Path, channel: Channel) -> _Stream:
        """Read a topic."""
        table = read_table(bag, Topics((channel.topic,)))
        time = np.concatenate([np.zeros(0), *(rows[:, 0] for rows in table.read(["t"]))])
        time = time[np.isfinite(time)] + (table.epoch or 0) / 1e9
        places = [name.split(".", 1)[1] for name in table.columns if "." in name]
        joints = {p for p in places if not channel.kind.endswith(KINDS[1:])}
        frame = "" if joints else places[0].rpartition(".")[0]
        step = usual_step(time) if len(time) > 1 else np.nan
        ends = (float(time[0]), float(time[-1])) if len(time) else (np.nan, np.nan)
        return _Stream(channel.topic, _kind(channel), frame, len(joints), *ends, step)

    def line(self, origin: float) -> str:
        """Return what is to be known of it, as a comment; times count from an origin [s]."""
        of = f"frame {quoted(self.frame)}" if self.frame else f"{self.joints} joints"
        span = f"{self.begin - origin:.6g} to {self.end - origin:.6g} s"
        return f"# {self.topic}: {self.kind}, {of}, {1.0 / self.step:.4g} Hz, {span}"


@dataclass(frozen=True)
class _Draft:
    """One robot, as its bag tells."""

    name: str
    bag: Path
    streams: tuple[_Stream, ...]  # one of a kind, which are its own
    others: tuple[_Stream, ...]  # of its namespace, which are not used
    sole: bool  # whether the bag holds nothing else

    def first(self, kind: str) -> _Stream | None:
        """Return its stream of a kind; None if there is none."""
        return next((s for s in self.streams if s.kind.startswith(kind)), None)

    @property
    def span(self) -> tuple[float, float]:
        """Begin and end of the time that all of its streams have [s]."""
        return max(s.begin for s in self.streams), min(s.end for s in self.streams)


def draft_team(
    bags: Sequence[Path], out: Path, models: Sequence[Path] = (), names: Sequence[str] = ()
) -> str:
    """Write a first `team.toml` from bags: one of several robots, or one of each.

    Robots are told apart by the namespaces of their joint states, or of their wrenches in one bag.
    What bags do not tell stands there as CHECK.

    Args:
        out: The file, whose folder logs and models are named from.
        models: Model file of each robot, or one of all.
        names: Of the robots, in the order of the bags; by bags and namespaces if none.

    Returns:
        Its text.

    Raises:
        InvalidRecording: If a bag cannot be read, or is none.
        InvalidSetting: If the file exists, there are fewer or more models or names than robots, or
            less than two robots.
    """
    require_writable(out, "--out")
    if out.exists():
        raise InvalidSetting(
            "the file is there already, perhaps filled in",
            argument=f"--out {out}",
            cure="name another, or remove it",
        )
    drafts = [d for bag in bags for d in _robots_of(bag, alone=len(bags) == 1)]
    if len(drafts) < 2:
        raise InvalidSetting(
            "a team is of two robots at least",
            argument=", ".join(map(str, bags)),
            got=", ".join(d.name for d in drafts) or "none",
            cure="name the bags of all robots; in one bag robots have namespaces of their own, "
            "such as /left/joint_states",
        )
    for option, given, fits in (
        ("--model", models, (0, 1, len(drafts))),
        ("--name", names, (0, len(drafts))),
    ):
        if len(given) not in fits:
            raise InvalidSetting(
                "there are as many robots in the bags",
                argument=option,
                got=len(given),
                expected=f"{len(drafts)}: " + ", ".join(d.name for d in drafts),
            )
    own = [d.name for d in drafts]
    if len({*own}) < len(own):
        own = [f"{name}{k}" for k, name in enumerate(own)]
    own = list(names) or own
    origin = min((s.begin for d in drafts for s in d.streams), default=0.0)
    text = "\n".join(_lines(drafts, own, out, models, origin))
    write_text(out, text)
    return text


def _robots_of(bag: Path, alone: bool) -> Iterator[_Draft]:
    channels = [c for c in channels_of(bag, BY_HAND) if _kind(c).startswith(KINDS)]
    for name, own in _by_namespace(bag, channels, alone).items():
        streams: dict[str, _Stream] = {}
        others = []
        for channel in own:
            stream = _Stream.of(bag, channel)
            if streams.setdefault(stream.kind, stream) is not stream:
                others.append(stream)
        kept = tuple(streams.values())
        yield _Draft(name, bag, kept, tuple(others), len(kept) == len(channels))


def _by_namespace(
    bag: Path, channels: Sequence[Channel], alone: bool
) -> Mapping[str, Sequence[Channel]]:
    """Return a bag's channels by the names of its robots."""

    def spaces(kind: str) -> list[tuple[str, ...]]:
        named = (c.topic.strip("/").split("/")[:-1] for c in channels if kind in c.kind)
        return list(dict.fromkeys(map(tuple, named)))

    names = spaces(KINDS[0])
    if len(names) < 2:
        names = spaces(KINDS[1]) if alone else []
    parts = list(zip(*names, strict=False))
    common = next((k for k, own in enumerate(parts) if len({*own}) > 1), len(parts))
    by_name = {(*space, bag.stem)[common]: space[: common + 1] for space in names}
    if len(by_name) < 2:
        return {bag.stem: channels}
    every = [c for c in channels if not any(_inside(c, s) for s in by_name.values())]
    return {
        name: [c for c in channels if _inside(c, space) or c in every]
        for name, space in by_name.items()
    }


def _kind(channel: Channel) -> str:
    """Return the type of a channel's messages without their package."""
    return channel.kind.replace(".", "/").rpartition("/")[2]


def _inside(channel: Channel, space: tuple[str, ...]) -> bool:
    return tuple(channel.topic.strip("/").split("/"))[: len(space)] == space


def _lines(
    drafts: Sequence[_Draft], names: Sequence[str], out: Path, models: Sequence[Path], origin: float
) -> Iterator[str]:
    begin, end = max(d.span[0] for d in drafts), min(d.span[1] for d in drafts)
    yield "# A first draft, by heft coop init. Look through what says CHECK, then:"
    yield f"#     heft coop check {spelt(str(out))}"
    yield f"#     heft coop identify {spelt(str(out))} --out team-result"
    if end > begin:
        yield f"# All robots' logs have {end - begin:.4g} s together."
    else:
        yield "# CHECK: the logs have no time in common; times below are of the bags' own stamps."
    shared = len(models) == 1
    for k, (name, draft) in enumerate(zip(names, drafts, strict=True)):
        yield "\n[[robot]]"
        yield f"name = {quoted(name)}"
        yield f"log = {quoted(_beside(draft.bag, out))}"
        yield from (s.line(origin) for s in draft.streams)
        if not draft.sole:
            yield f"topics = {toml_list(s.topic for s in draft.streams)}"
        yield from (f"{s.line(origin)}: not used" for s in draft.others)
        model = models[0 if shared else k] if models else None
        yield from _contact(draft, model, out)
    yield ""


def _contact(draft: _Draft, model: Path | None, out: Path) -> Iterator[str]:
    """Yield what says where a robot holds the load, and what its wrench sensor reads."""
    wrench, joints = draft.first(KINDS[1]), draft.first(KINDS[0])
    frame = "grasp" if wrench is None else wrench.frame
    if wrench is not None:
        yield f"frame = {quoted(frame)}  # in which its wrench is"
    elif joints is not None:
        yield "# CHECK: no wrench topic: the joints' efforts count, which must be torques [N·m]"
    else:
        yield "# CHECK: neither a wrench topic nor joint states"
    if joints is not None and model is None:
        yield 'model = "FILL-IN.urdf"  # CHECK: the arm\'s URDF or MJCF'
        yield f"link = {quoted(frame)}  # CHECK: the link of the model whose frame that is"
    elif joints is not None and model is not None:
        links = [link.name for link in Robot.from_file(model).links]
        of = (
            ""
            if frame in links
            else f"  # CHECK: the link whose frame that is, such as {links[-1]}"
        )
        yield f"model = {quoted(_beside(model, out))}"
        yield f"link = {quoted(frame)}{of}"
    if wrench is not None:
        yield "# tared = true     # if its sensor was set to zero with nothing on it"
        yield "# reaction = true  # if it reads what the load applies to the robot"


def _beside(path: Path, out: Path) -> str:
    return Path(os.path.relpath(path, out.parent)).as_posix()
