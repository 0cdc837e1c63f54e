"""The doctor's thresholds as values, so that a sweep can vary them and a report state them.

Shares and ratios are pure numbers, evidence is 2 ln of the odds; other units are in fields' names.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

DEGREE = np.pi / 180.0  # [rad]
TURN = 2.0 * np.pi  # [rad]


@dataclass(frozen=True)
class ClockThresholds:
    """From when on a log's clock and rows are worth a finding.

    Attributes:
        slow_step_s: Time between rows beyond which the time may be in another unit [s].
        fast_step_s: The same, below which [s].
        jitter_steps: Robust deviation of the time between rows [steps].
        missing_share: Share of steps that are multiples of the usual one.
        lost_share: Share of rows lost that spoils an identification.
        repeated_share: Share of rows that repeat the one before while the robot moves.
        repeated_share_spoils: The same, beyond which an identification is spoilt.
        shortest_motion_s: Time of motion below which little can be learnt [s].
        spoiling_motion_s: The same, below which an identification is spoilt [s].
    """

    slow_step_s: float = 0.1
    fast_step_s: float = 1e-5
    jitter_steps: float = 0.2
    missing_share: float = 0.01
    lost_share: float = 0.01
    repeated_share: float = 0.02
    repeated_share_spoils: float = 0.3
    shortest_motion_s: float = 5.0
    spoiling_motion_s: float = 1.0


@dataclass(frozen=True)
class SignalThresholds:
    """From when on what a signal does is worth a finding.

    Attributes:
        still_range: Range of a position below which its joint never moves [rad or m].
        constant_range: Range of an effort below which it is constant [N·m, N or A].
        lost_share: Share of rows without a finite number that spoils an identification.
        saturated_share: Share of rows on flat tops at the largest or smallest value.
        saturated_share_spoils: The same, beyond which an identification is spoilt.
        plateau_rows: Rows that a flat top lasts at least.
        frozen_s: Time for which a signal must not change at all to be frozen [s].
        frozen_rows: Rows for which it must not, too.
        position_levels: Range of a quantised position over its step, to be fine enough.
        effort_levels: The same of an effort.
        rows_per_level: Rows a level that a log has, at least, where levels are counted.
        wrap_share: By how much a jump may differ from a full turn, as a share of it.
        jump_ratio: Size of a jump over the usual change from row to row.
        jump_least: Size of a jump, at least [rad or m].
        spike_ratio: Distance of a row from the nearer neighbour over the usual second difference.
        velocity_slope: By how much a stated velocity's slope over the position's own may be off 1.
        velocity_correlation: Correlation of the two that makes it a velocity.
    """

    still_range: float = 1e-3
    constant_range: float = 1e-9
    lost_share: float = 0.01
    saturated_share: float = 0.005
    saturated_share_spoils: float = 0.02
    plateau_rows: int = 5
    frozen_s: float = 0.25
    frozen_rows: int = 25
    position_levels: float = 2000.0
    effort_levels: float = 100.0
    rows_per_level: float = 2.0
    wrap_share: float = 0.25
    jump_ratio: float = 30.0
    jump_least: float = 1e-3
    spike_ratio: float = 30.0
    velocity_slope: float = 0.1
    velocity_correlation: float = 0.7

    def levels(self, kind: str) -> float:
        """Return the levels that a signal of a kind must have; 0 if they are not counted."""
        efforts = {"tau": self.effort_levels, "current": self.effort_levels}
        return {"q": self.position_levels, **efforts}.get(kind, 0.0)


@dataclass(frozen=True)
class EvidenceSettings:
    """What of the logs is looked at, and by which model hypotheses are compared.

    Attributes:
        rows: Rows of the logs that physics looks at, at most about.
        windows: Windows of a longer log that they are taken from.
        instants: Instants at which torque is compared.
        longest_delay_s: Largest delay of torque behind motion [s].
        body_deviation: By how much a model file may be off, one standard deviation.
        tail: Degrees of freedom ν of the Student prior: single bodies may be off by far more.
        sigmoid_speeds_rad_s: Scales of the sigmoids of sliding friction [rad/s].
        stop_widths_rad: Widths of the stops of presliding [rad].
        dead_share: Of the largest deviation of a torque, below which a sensor says nothing.
        floor_share: Share of a joint's torque that no model explains, at least.
        rounds: Rounds of weights by what is left over.
    """

    rows: int = 60_000
    windows: int = 4
    instants: int = 400
    longest_delay_s: float = 0.2
    body_deviation: float = 0.5
    tail: float = 4.0
    sigmoid_speeds_rad_s: tuple[float, ...] = (0.02, 0.15)
    stop_widths_rad: tuple[float, ...] = (0.006, 0.03)
    dead_share: float = 1e-9
    floor_share: float = 1e-3
    rounds: int = 3


@dataclass(frozen=True)
class StepProposals:
    """Which steps are tried.

    Attributes:
        offsets_rad: Zeros of encoders where a search begins [rad].
        torque_gains: Factors of one joint's torque.
        torque_units: Factors of all torques.
        unit_log_gain: By how much nearer to the model file a unit must bring the logarithm of the
            torque's size.
        gear_ratios: Turns of a motor a turn of its joint.
        delays_s: Of torque behind motion [s].
        largest_turns: Turns that a joint's positions span, beyond which they are a motor's.
        degrees_share: Share of joints that span more, for degrees to be tried of all.
        smallest_turns: Turns below which positions may have been turned to radians twice.
        least_turns: Turns that a joint of a motor moves.
        derivative_step_rad: Step of numerical derivatives by offsets [rad].
        largest_shift_rad: Largest offset that is read off a first-order expansion [rad].
    """

    offsets_rad: tuple[float, ...] = (np.pi / 2, -np.pi / 2, np.pi, np.pi / 4, -np.pi / 4)
    torque_gains: tuple[float, ...] = (1e-3, 0.01, 0.05, 0.2, 0.5, 2.0, 5.0, 20.0, 100.0)
    torque_units: tuple[float, ...] = (1e-3, 1e3)
    unit_log_gain: float = float(np.log(20.0))
    gear_ratios: tuple[float, ...] = tuple(float(r) for r in np.geomspace(10.0, 250.0, 19))
    delays_s: tuple[float, ...] = tuple(
        s * d for d in (0.004, 0.008, 0.016, 0.032, 0.064, 0.128) for s in (1.0, -1.0)
    )
    largest_turns: float = 2.2
    degrees_share: float = 0.4
    smallest_turns: float = 0.05
    least_turns: float = 0.02
    derivative_step_rad: float = 1e-4
    largest_shift_rad: float = 0.5


@dataclass(frozen=True)
class StepAcceptance:
    """When a step is claimed.

    Attributes:
        evidence: That it must have with all others given; some 250 are tried.
        residual_ratio: Of some channel's residual deviation at most left by a step.
        harm_ratio: By which no channel's residual may grow under a step of a continuous kind.
        harm_share: Of the logarithm that another channel gains, which that may cost.
        offset_rad: Smallest offset [rad].
        tilt_rad: Smallest tilt of the base [rad].
        log_factor: Smallest logarithm of a factor.
        delay_s: Smallest delay [s].
        delay_variance_ratio: Mean over channels of the variance left, below which a delay is one:
            presliding and flexibility look like delays, though hardly.
        delay_step_s: By which channels are asked for delays of their own [s].
        delay_agreement: Standard errors from zero that their delays must show together.
        delay_error_s: Standard error of that mean, at least [s].
        indistinguishable: Evidence below which two steps cannot be told apart.
    """

    evidence: float = 80.0
    residual_ratio: float = 0.9
    harm_ratio: float = 1.1
    harm_share: float = 0.1
    offset_rad: float = 2.0 * DEGREE
    tilt_rad: float = 2.0 * DEGREE
    log_factor: float = float(np.log(1.3))
    delay_s: float = 0.003
    delay_variance_ratio: float = 0.85
    delay_step_s: float = 0.004
    delay_agreement: float = 5.0
    delay_error_s: float = 1e-4
    indistinguishable: float = 12.0


@dataclass(frozen=True)
class CorrectionSearch:
    """How corrections are searched for.

    Attributes:
        most_steps: Steps of one correction.
        look_evidence: Evidence at least for a step to be followed up, until all are judged.
        refined_steps: Leading steps whose number is refined.
        beginnings: First steps that are followed up, until one leads to a log that is explained.
        looks_again: Times that a mended log is looked at again.
        step_log_gain: Mean logarithm of what is left over, that a step is worth at least.
        plain_evidence: Of each of its steps, from which on a correction is not doubted.
        explained_share: Share of the torque left over, up to which a log is explained.
        unsettled_rad: Step of an offset beyond which its refinement has not come to an end [rad].
        refinements: Gauss-Newton steps of an offset or tilt.
        narrowings: Comparisons of a factor or delay with one on each side.
        proposals: Which steps are tried.
        acceptance: When one is claimed.
    """

    most_steps: int = 4
    look_evidence: float = 30.0
    refined_steps: int = 5
    beginnings: int = 2
    looks_again: int = 2
    step_log_gain: float = 0.02
    plain_evidence: float = 100.0
    explained_share: float = 0.08
    unsettled_rad: float = 0.1
    refinements: int = 5
    narrowings: int = 6
    proposals: StepProposals = field(default_factory=StepProposals)
    acceptance: StepAcceptance = field(default_factory=StepAcceptance)


@dataclass(frozen=True)
class PhysicsThresholds:
    """What is said of what physics found.

    Attributes:
        tried_steps: Steps that a search looks at, one of which may fit by chance.
        other_robot_share: Share of all torque left over, beyond which the robot is another one.
        doubted_share: The same, beyond which the model file is doubted: measured arms leave 9 %.
        other_joint_share: Share of one joint's torque, beyond which its column is doubted.
    """

    tried_steps: float = 250.0
    other_robot_share: float = 0.5
    doubted_share: float = 0.15
    other_joint_share: float = 0.9


@dataclass(frozen=True)
class DoctorSettings:
    """All thresholds of the log doctor.

    Attributes:
        clock: Of clock and rows.
        signals: Of single signals.
        evidence: Of the comparison of hypotheses.
        search: Of the search over corrections.
        physics: Of what is said of it.
    """

    clock: ClockThresholds = field(default_factory=ClockThresholds)
    signals: SignalThresholds = field(default_factory=SignalThresholds)
    evidence: EvidenceSettings = field(default_factory=EvidenceSettings)
    search: CorrectionSearch = field(default_factory=CorrectionSearch)
    physics: PhysicsThresholds = field(default_factory=PhysicsThresholds)
