"""Joints that a log or a model has more than the other: named, and passed over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from heft.information import Finding
from heft.models import JointOptions, Robot, joint_lines
from heft.recordings import JOINT_KINDS, Recording


@dataclass(frozen=True)
class Matching:
    """Joints of a model and of logs, compared by name."""

    robot: Robot  # the robot whose joints the logs hold: others stand still, or are not measured
    beyond: tuple[str, ...]  # joints of the logs that the model does not have
    absent: tuple[str, ...]  # joints of the model whose position the logs lack
    # joints of the model that move in the logs, and whose torque the logs lack
    unmeasured: tuple[str, ...]

    @staticmethod
    def of(robot: Robot, recordings: Sequence[Recording]) -> Matching:
        """Match a model's joints with those that all logs have, by name.

        Where they share no joint that can be identified, nothing is passed over.
        """
        logged = [frozenset(r.sources) for r in recordings]
        every = frozenset.intersection(*logged)
        named = {
            signal.partition(".")[2]: None
            for r in recordings
            for signal in r.sources
            if signal.partition(".")[0] in JOINT_KINDS
        }
        beyond = tuple(j for j in named if j not in robot.joints)
        moving = [j for j in robot.joints if j not in robot.options.still]
        absent = tuple(j for j in moving if f"q.{j}" not in every)
        torques = robot.options.equations in ("all", "joints")
        unmeasured = tuple(
            j
            for j in moving
            if torques
            and j not in absent
            and robot.options.of(j).measured
            and not every & {f"tau.{j}", f"current.{j}"}
        )
        changed: dict[str, JointOptions] = {}
        for joint in absent:
            changed[joint] = replace(robot.options.of(joint), position=0.0)
        for joint in unmeasured:
            changed[joint] = replace(robot.options.of(joint), measured=False)
        matched = robot.with_joints(changed) if changed else robot
        if not len(matched.measured):
            return Matching(robot, beyond, (), ())
        return Matching(matched, beyond, absent, unmeasured)

    def concerns(self, finding: Finding) -> bool:
        """Return whether a finding is about no signal, or about one that the robot uses."""
        kind, _, joint = finding.about.partition(".")
        if kind not in JOINT_KINDS:
            return True
        option = self.robot.options.of(joint)
        if joint in self.beyond or option.position is not None:
            return False
        return option.measured or kind not in ("tau", "current")

    def findings(self) -> Iterator[Finding]:
        """Yield findings on ignored joints and torques, with options for heft identify."""
        if self.beyond:
            yield Finding(
                "joints not in the model",
                "the log has joints that the model lacks, or that follow others: passed over",
                about=", ".join(self.beyond),
                severity="tells",
            )
        if self.absent:
            yield Finding(
                "joints not in the log",
                "the model has joints whose position the log lacks: here they stand still at zero",
                about=", ".join(self.absent),
                severity="tells",
                cure="heft identify wants to be told so, and where (position = …), if not at zero",
                lines={"options": joint_lines(self.absent, "fixed = true")},
            )
        if self.unmeasured:
            yield Finding(
                "torques not in the log",
                "the model has joints whose torque the log lacks: passed over",
                about=", ".join(self.unmeasured),
                severity="tells",
                cure="heft identify wants to be told so",
                lines={"options": joint_lines(self.unmeasured, "measured = false")},
            )
