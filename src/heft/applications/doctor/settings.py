"""Thresholds of the log doctor as values, so that a sweep can vary and a report state them.

Shares and ratios are dimensionless, evidence is 2 ln of the odds; other units are in the names of
fields.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from heft.estimators import BandwidthSearch

DEGREE = np.pi / 180.0  # [rad]
TURN = 2.0 * np.pi  # [rad]


@dataclass(frozen=True)
class ClockThresholds:
    """Thresholds of findings about a log's clock and rows.

    Attributes:
        slow_step_s: Time between rows above which the time may be in another unit [s].
        fast_step_s: Time between rows below which it may be [s].
        jitter_steps: Robust standard deviation of the time between rows [steps].
        missing_share: Share of time steps that are multiples of the usual one.
        lost_share: Share of lost rows above which an identification is spoilt.
        repeated_share: Share of rows that repeat the previous one while the robot moves.
        repeated_share_spoils: The same share, above which an identification is spoilt.
        shortest_motion_s: Time in motion below which little can be identified [s].
        spoiling_motion_s: Time in motion below which an identification is spoilt [s].
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
    """Amount of data, and the model by which hypotheses are compared.

    Attributes:
        rows: Approximate maximum number of rows of the logs that are used.
        windows: Number of windows of a longer log that they are taken from.
        instants: Number of instants at which torque is compared.
        longest_delay_s: Largest delay of torque behind motion [s].
        body_deviation: Relative standard deviation of the model file's parameters.
        unknown_body: Factor by which that is larger for a body that carries what nobody knows.
        tail: Degrees of freedom ν of the Student prior: single bodies may be off by far more.
        sigmoid_speeds_rad_s: Scales of the sigmoids of sliding friction [rad/s].
        stop_widths_rad: Widths of the stop operators of presliding friction [rad].
        dead_share: Share of the largest standard deviation of a torque, below which a sensor is
            ignored.
        floor_share: Smallest share of a joint's torque that is assumed to be unexplained.
        rounds: Iterations of the weights from the residual.
        bandwidth: Search for the bandwidth of the comparison, by the identification's rule.
    """

    rows: int = 60_000
    windows: int = 4
    instants: int = 400
    longest_delay_s: float = 0.2
    body_deviation: float = 0.5
    unknown_body: float = 10.0
    tail: float = 4.0
    sigmoid_speeds_rad_s: tuple[float, ...] = (0.02, 0.06, 0.15, 0.5)
    stop_widths_rad: tuple[float, ...] = (6e-4, 0.002, 0.006, 0.03)
    dead_share: float = 1e-9
    floor_share: float = 1e-3
    rounds: int = 3
    bandwidth: BandwidthSearch = BandwidthSearch(above=0.0)


@dataclass(frozen=True)
class StepProposals:
    """Candidate steps of a correction.

    Attributes:
        offsets_rad: Zero offsets of encoders at which a search begins [rad].
        torque_gains: Factors of one joint's torque.
        torque_units: Factors of all torques.
        unit_log_gain: Least reduction by a unit of the logarithm of the ratio between the torque's
            size and the model file's.
        gear_ratios: Turns of a motor per turn of its joint.
        largest_turns: Range of a joint's positions above which they may be a motor's [turns].
        degrees_share: Share of joints with a larger range, for degrees to be tried of all.
        smallest_turns: Range below which positions may have been converted to radians twice
            [turns].
        least_turns: Least range of a joint after division by a gear ratio [turns].
        derivative_step_rad: Step of numerical derivatives by offsets [rad].
        largest_shift_rad: Largest offset estimated by a first-order expansion [rad].
    """

    offsets_rad: tuple[float, ...] = (np.pi / 2, -np.pi / 2, np.pi, np.pi / 4, -np.pi / 4)
    torque_gains: tuple[float, ...] = (1e-3, 0.01, 0.05, 0.2, 0.5, 2.0, 5.0, 20.0, 100.0)
    torque_units: tuple[float, ...] = (1e-3, 1e3)
    unit_log_gain: float = float(np.log(20.0))
    gear_ratios: tuple[float, ...] = tuple(float(r) for r in np.geomspace(10.0, 250.0, 19))
    largest_turns: float = 2.2
    degrees_share: float = 0.4
    smallest_turns: float = 0.05
    least_turns: float = 0.02
    derivative_step_rad: float = 1e-4
    largest_shift_rad: float = 0.5


@dataclass(frozen=True)
class TimingSearch:
    """Candidates of how the torque lies to the motion in time.

    Attributes:
        delays_s: Delays of torque behind motion [s].
        delay_step_s: First step by which the best is refined [s].
        drifts: Growths of the delay [s per s].
        drift_step: First step by which the best is refined [s per s].
        shortest_lag_s: Delay below which no low-pass is tried in its place [s].
        corner_step: First step of the logarithm of its cutoff frequency.
        band: Highest frequency at which a low-pass is looked for, over its cutoff.
        narrowings: Number of comparisons with one on each side.
        evidence: Least evidence of a delay, drift or low-pass; half of it in half the logs.
        least_fall: Largest ratio of residual variances, mean over channels, with it.
        gate: The same above which the identification's search for a delay is not asked.
        drift: Least drift [s per s].
        apart: Evidence beyond which a low-pass and a delay can be told apart.
    """

    delays_s: tuple[float, ...] = (-0.03, -0.015, -0.008, 0.008, 0.015, 0.03, 0.06)
    delay_step_s: float = 0.003
    drifts: tuple[float, ...] = (-1.2e-3, -0.4e-3, 0.4e-3, 1.2e-3)
    drift_step: float = 2e-4
    shortest_lag_s: float = 0.005
    corner_step: float = 0.2
    band: float = 3.0
    narrowings: int = 3
    evidence: float = 60.0
    least_fall: float = 0.95
    gate: float = 0.97
    drift: float = 2e-4
    apart: float = 40.0


@dataclass(frozen=True)
class StepAcceptance:
    """Thresholds for the acceptance of a step.

    Attributes:
        evidence: Least evidence, given all other steps; some 250 are tried.
        small_evidence: The same of an offset or a tilt, which is determined to first order.
        residual_ratio: Largest ratio of residual deviations with and without a step, in at least
            one channel.
        harm_ratio: Ratio by which a step of a continuous kind may increase a channel's residual.
        harm_share: Larger increases are permitted up to this share of the best channel's
            decrease, both in logarithms.
        offset_rad: Smallest offset [rad].
        tilt_rad: Smallest tilt of the base [rad].
        log_factor: Smallest logarithm of a factor.
        slow_share: Share of the rows in which a joint is slower than the speed at which its
            friction must push for a drive to compensate more than there is.
        small_rad: Zero or tilt up to which it is determined to first order [rad].
        half_differs: Share by which a zero or tilt may be another one in each half of the logs.
        indistinguishable: Difference of evidence below which two steps cannot be distinguished.
    """

    evidence: float = 80.0
    small_evidence: float = 25.0
    residual_ratio: float = 0.9
    harm_ratio: float = 1.1
    harm_share: float = 0.1
    offset_rad: float = 1.5 * DEGREE
    tilt_rad: float = 0.8 * DEGREE
    log_factor: float = float(np.log(1.3))
    slow_share: float = 0.1
    small_rad: float = 0.2
    half_differs: float = 0.6
    indistinguishable: float = 12.0


@dataclass(frozen=True)
class CorrectionSearch:
    """Settings of the search for corrections.

    Attributes:
        most_steps: Largest number of steps of one correction.
        look_evidence: Least evidence for a step to be followed up, before all are judged together.
        hopeless_evidence: Evidence against a step beyond which its fit is not settled.
        refined_steps: Number of leading steps whose parameter is refined.
        beginnings: Number of first steps that are followed up, until one leads to an explained log.
        looks_again: Number of times that a corrected log is searched again.
        step_log_gain: Least mean reduction of the logarithm of the residual by a step.
        plain_evidence: Evidence of each step above which a correction is accepted as it is.
        explained_share: Relative torque residual up to which a log counts as explained.
        unsettled_rad: Step of an offset above which its refinement has not converged [rad].
        refinements: Number of Gauss-Newton steps of an offset or tilt.
        narrowings: Number of comparisons of a factor or delay with one on each side.
        suspects: Number of joints, those explained worst, of which single ones and pairs are tried.
        longest_s: Time after which no more corrections are tried [s].
        proposals: Candidate steps.
        timing: Candidates of how torque lies to motion in time.
        acceptance: Thresholds of acceptance.
    """

    most_steps: int = 4
    look_evidence: float = 25.0
    hopeless_evidence: float = 100.0
    refined_steps: int = 5
    beginnings: int = 2
    looks_again: int = 2
    step_log_gain: float = 0.02
    plain_evidence: float = 100.0
    explained_share: float = 0.08
    unsettled_rad: float = 0.1
    refinements: int = 5
    narrowings: int = 6
    suspects: int = 10
    longest_s: float = 300.0
    proposals: StepProposals = field(default_factory=StepProposals)
    timing: TimingSearch = field(default_factory=TimingSearch)
    acceptance: StepAcceptance = field(default_factory=StepAcceptance)


@dataclass(frozen=True)
class PhysicsThresholds:
    """Thresholds of findings about the search for corrections.

    Attributes:
        tried_steps: Number of steps that a search tries, one of which may fit by chance.
        other_robot_share: Relative residual of all torque above which the robot is another one.
        doubted_share: The same, above which the model file is questioned: measured arms have 9 %.
        other_joint_share: Relative residual of one joint's torque above which its column is
            questioned.
        most_left: Largest residual of all torque over that without corrections, up to which
            they explain most of what is wrong where much is left.
        most_sure: Largest probability that is stated: there are faults that nobody thought of.
    """

    tried_steps: float = 250.0
    other_robot_share: float = 0.5
    doubted_share: float = 0.15
    other_joint_share: float = 0.9
    most_left: float = 0.5
    most_sure: float = 0.99


@dataclass(frozen=True)
class LoadThresholds:
    """Thresholds of findings about a tool and about torque without friction.

    Attributes:
        least_bodies: Number of measured bodies, at least, for one of them to be told apart.
        evidence: Least evidence that the last body is not the file's.
        strain: Least distance of the last body from the file, over the median of the others.
        share: Least mass of a tool over that of the last body in the file.
        moving_share: Least mass of a tool over that of all measured bodies in the file.
        most_friction: Share of friction and rotors in a joint's torque above which there is some.
        usual_friction: The same of half the joints.
    """

    least_bodies: int = 3
    evidence: float = 30.0
    strain: float = 5.0
    share: float = 0.5
    moving_share: float = 0.075
    most_friction: float = 0.1
    usual_friction: float = 0.02


@dataclass(frozen=True)
class WrenchThresholds:
    """Thresholds of findings about wrenches that hold a robot, or that it is cut at.

    Attributes:
        samples: About how many samples are looked at.
        unheld_share: Share of the time without a closed contact from which something is missing.
        other_size: Times by which a force is off what the model file's masses need, from which it
            is another's.
        bearing_share: Share of the energy of the needed force from which a contact is judged.
        alike: Correlation of a sensor's forces with those that the model file's masses need, from
            which sign and size are judged.
    """

    samples: int = 4000
    unheld_share: float = 0.05
    other_size: float = 3.0
    bearing_share: float = 0.05
    alike: float = 0.5


@dataclass(frozen=True)
class DoctorSettings:
    """All thresholds of the log doctor.

    Attributes:
        clock: Thresholds of clock and rows.
        signals: Thresholds of single signals.
        evidence: Data and model by which hypotheses are compared.
        search: Settings of the search for corrections.
        physics: Thresholds of findings about that search.
        loads: Thresholds of findings about a tool and about torque without friction.
        wrenches: Thresholds of findings about contacts and wrench sensors inside.
    """

    clock: ClockThresholds = field(default_factory=ClockThresholds)
    signals: SignalThresholds = field(default_factory=SignalThresholds)
    evidence: EvidenceSettings = field(default_factory=EvidenceSettings)
    search: CorrectionSearch = field(default_factory=CorrectionSearch)
    physics: PhysicsThresholds = field(default_factory=PhysicsThresholds)
    loads: LoadThresholds = field(default_factory=LoadThresholds)
    wrenches: WrenchThresholds = field(default_factory=WrenchThresholds)
