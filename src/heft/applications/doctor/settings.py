"""Thresholds of the log doctor as values, so that a sweep can vary and a report state them.

Shares and ratios are dimensionless, evidence is 2 ln of the odds; other units are in the names of
fields.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heft.certainty import BandwidthSearch

DEGREE = np.pi / 180.0  # [rad]
TURN = 2.0 * np.pi  # [rad]


@dataclass(frozen=True)
class ClockThresholds:
    """Thresholds of findings about a log's clock and rows."""

    slow_step_s: float = 0.1  # time between rows above which the time may be in another unit [s]
    fast_step_s: float = 1e-5  # time between rows below which it may be [s]
    jitter_steps: float = 0.2  # robust standard deviation of the time between rows [steps]
    missing_share: float = 0.01  # share of time steps that are multiples of the usual one
    run_rows: int = 100  # mean rows of a run, from which on a clock set back has restarted
    lost_share: float = 0.1  # share of lost rows above which an identification is spoilt
    repeated_share: float = 0.02  # share of rows that repeat the previous one while the robot moves
    repeated_share_spoils: float = 0.3  # the same share, above which an identification is spoilt
    shortest_motion_s: float = 5.0  # time in motion below which little can be identified [s]
    spoiling_motion_s: float = 1.0  # time in motion below which an identification is spoilt [s]


@dataclass(frozen=True)
class SignalThresholds:
    """Thresholds of findings about single signals."""

    still_range: float = 1e-3  # range of a position below which its joint never moves [rad or m]
    constant_range: float = 1e-9  # range of an effort below which it is constant [N·m, N or A]
    lost_share: float = 0.1  # share of rows without a finite number that spoils an identification
    saturated_share: float = 0.005  # share of rows on flat tops at the largest or smallest value
    saturated_share_spoils: float = 0.02  # the same, beyond which an identification is spoilt
    plateau_rows: int = 5  # rows that a flat top lasts at least
    frozen_s: float = 0.25  # time for which a signal must not change at all to be frozen [s]
    frozen_rows: int = 25  # rows for which it must not, too
    # range of a quantised position over its step, to be fine enough
    position_levels: float = 2000.0
    effort_levels: float = 100.0  # the same of an effort
    rows_per_level: float = 2.0  # rows a level that a log has, at least, where levels are counted
    wrap_share: float = 0.25  # by how much a jump may differ from a full turn, as a share of it
    jump_ratio: float = 30.0  # size of a jump over the usual change from row to row
    jump_least: float = 1e-3  # size of a jump, at least [rad or m]
    zeros_share: float = 0.01  # share of rows of 0 between other values of an effort
    zeros_falls: int = 5  # times that it falls to them, at least
    jump_to_zero: float = 10.0  # size of what falls to 0 over the median change between rows
    # distance of a row from the nearer neighbour over the usual second difference
    spike_ratio: float = 30.0
    # by how much a stated velocity's slope over the position's own may be off 1
    velocity_slope: float = 0.1
    velocity_correlation: float = 0.7  # correlation of the two that makes it a velocity

    def levels(self, kind: str) -> float:
        """Return the quantisation levels that a kind of signal needs; 0 if they are not counted."""
        efforts = {"tau": self.effort_levels, "current": self.effort_levels}
        return {"q": self.position_levels, **efforts}.get(kind, 0.0)


@dataclass(frozen=True)
class EvidenceSettings:
    """Amount of data, and the model by which hypotheses are compared."""

    rows: int = 60_000  # approximate maximum number of rows of the logs that are used
    windows: int = 4  # number of windows of a longer log that they are taken from
    instants: int = 400  # number of instants at which torque is compared
    longest_delay_s: float = 0.2  # largest delay of torque behind motion [s]
    body_deviation: float = 0.5  # relative standard deviation of the model file's parameters
    # factor by which that is larger for a body that carries what nobody knows
    unknown_body: float = 10.0
    # degrees of freedom ν of the Student prior: single bodies may be off by far more
    tail: float = 4.0
    # scales of the sigmoids of sliding friction [rad/s]
    sigmoid_speeds_rad_s: tuple[float, ...] = (0.02, 0.06, 0.15, 0.5)
    # widths of the stop operators of presliding friction [rad]
    stop_widths_rad: tuple[float, ...] = (6e-4, 0.002, 0.006, 0.03)
    # share of the largest standard deviation of a torque, below which a sensor is ignored
    dead_share: float = 1e-9
    # smallest share of a joint's torque that is assumed to be unexplained
    floor_share: float = 1e-3
    rounds: int = 3  # iterations of the weights from the residual
    # search for the bandwidth of the comparison, by the identification's rule
    bandwidth: BandwidthSearch = BandwidthSearch(above=0.0)


@dataclass(frozen=True)
class StepProposals:
    """Candidate steps of a correction."""

    # zero offsets of encoders at which a search begins [rad]
    offsets_rad: tuple[float, ...] = (np.pi / 2, -np.pi / 2, np.pi, np.pi / 4, -np.pi / 4)
    # share of a joint's torque beside friction that the file's bodies explain, from which on its
    # gain is begun with at what the file's masses need
    file_explains: float = 0.1
    # the same of most joints, from which on the unit of all torques is asked of it
    file_explains_most: float = 0.5
    # standard deviation of the logarithm of one joint's gain about that of the others, where the
    # motion does not tell it
    gain_deviation: float = 1.5
    most_log_gain: float = 1.0  # largest step of such a logarithm
    # turns of a motor per turn of its joint
    gear_ratios: tuple[float, ...] = tuple(float(r) for r in np.geomspace(10.0, 250.0, 19))
    # range of a joint's positions above which they may be a motor's [turns]
    largest_turns: float = 2.2
    # share of joints with a larger range, for degrees to be tried of all
    degrees_share: float = 0.4
    # range below which positions may have been converted to radians twice [turns]
    smallest_turns: float = 0.05
    least_turns: float = 0.02  # least range of a joint after division by a gear ratio [turns]
    derivative_step_rad: float = 1e-4  # step of numerical derivatives by offsets [rad]
    largest_shift_rad: float = 0.5  # largest offset estimated by a first-order expansion [rad]


@dataclass(frozen=True)
class TimingSearch:
    """Candidate delays, drifts and low-passes of the torque relative to the motion."""

    # delays of torque behind motion [s]
    delays_s: tuple[float, ...] = (-0.03, -0.015, -0.008, 0.008, 0.015, 0.03, 0.06)
    delay_step_s: float = 0.003  # first step by which the best is refined [s]
    drifts: tuple[float, ...] = (-1.2e-3, -0.4e-3, 0.4e-3, 1.2e-3)  # growths of the delay [s per s]
    drift_step: float = 2e-4  # first step by which the best is refined [s per s]
    shortest_lag_s: float = 0.005  # delay below which no low-pass is tried in its place [s]
    corner_step: float = 0.2  # first step of the logarithm of its cutoff frequency
    band: float = 3.0  # highest frequency at which a low-pass is looked for, over its cutoff
    narrowings: int = 3  # number of comparisons with one on each side
    # least evidence of a delay, drift or low-pass; half of it in half the logs
    evidence: float = 60.0
    least_fall: float = 0.95  # largest ratio of residual variances, mean over channels, with it
    gate: float = 0.97  # the same above which the identification's search for a delay is not asked
    drift: float = 2e-4  # least drift [s per s]
    distinct: float = 40.0  # evidence beyond which a low-pass is no delay


@dataclass(frozen=True)
class StepAcceptance:
    """Thresholds for the acceptance of a step."""

    evidence: float = 80.0  # least evidence, given all other steps; some 250 are tried
    # the same of an offset or a tilt, which is determined to first order
    small_evidence: float = 25.0
    # largest ratio of residual deviations with and without a step, in at least one channel
    residual_ratio: float = 0.9
    # ratio by which a step of a continuous kind may increase a channel's residual
    harm_ratio: float = 1.1
    # larger increases are permitted up to this share of the best channel's decrease, both in
    # logarithms
    harm_share: float = 0.1
    offset_rad: float = 1.5 * DEGREE  # smallest offset [rad]
    tilt_rad: float = 0.8 * DEGREE  # smallest tilt of the base [rad]
    log_factor: float = float(np.log(1.3))  # smallest logarithm of a factor
    log_ratio: float = float(np.log(1.04))  # the same of a position, such as a gear ratio
    log_gain: float = float(np.log(1.15))  # the same of one joint's torque against the others'
    # the same of all torques, which rests on the file's masses
    log_unit: float = float(np.log(2.0))
    # share of the rows in which a joint is slower than the speed at which its friction must push
    # for a drive to compensate more than there is
    slow_share: float = 0.1
    small_rad: float = 0.2  # zero or tilt up to which it is determined to first order [rad]
    # share by which a zero or tilt may be another one in each half of the logs
    half_differs: float = 0.6
    # difference of evidence below which two steps cannot be distinguished
    indistinguishable: float = 12.0


@dataclass(frozen=True)
class CorrectionSearch:
    """Settings of the search for corrections."""

    most_steps: int = 4  # largest number of steps of one correction
    # least evidence for a step to be followed up, before all are judged together
    look_evidence: float = 25.0
    hopeless_evidence: float = 100.0  # evidence against a step beyond which its fit is not settled
    refined_steps: int = 5  # number of leading steps whose parameter is refined
    # number of first steps that are followed up, until one leads to an explained log
    beginnings: int = 2
    looks_again: int = 2  # number of times that a corrected log is searched again
    step_log_gain: float = 0.02  # least mean reduction of the logarithm of the residual by a step
    # evidence of each step above which a correction is accepted as it is
    plain_evidence: float = 100.0
    explained_share: float = 0.08  # relative torque residual up to which a log counts as explained
    # step of an offset above which its refinement has not converged [rad]
    unsettled_rad: float = 0.1
    refinements: int = 5  # number of Gauss-Newton steps of an offset or tilt
    # factors of one of several gains from which its refinement starts anew
    gain_factors: tuple[float, ...] = (0.03, 0.1, 0.3, 3.0, 10.0)
    narrowings: int = 6  # number of comparisons of a factor or delay with one on each side
    # number of joints, those explained worst, of which single ones and pairs are tried
    suspects: int = 10
    longest_s: float = 300.0  # time after which no more corrections are tried [s]
    proposals: StepProposals = StepProposals()  # candidate steps
    timing: TimingSearch = TimingSearch()  # candidates of how torque lies to motion in time
    acceptance: StepAcceptance = StepAcceptance()  # thresholds of acceptance


@dataclass(frozen=True)
class PhysicsThresholds:
    """Thresholds of findings about the search for corrections."""

    # number of steps that a search tries, one of which may fit by chance
    tried_steps: float = 250.0
    # relative residual of all torque above which the robot is another one
    other_robot_share: float = 0.5
    # the same, above which the model file is questioned: measured arms have 9 %
    doubted_share: float = 0.15
    # share of what is left that score tests explain, from which on it is no question of the file
    mostly_explained: float = 0.5
    # relative residual of one joint's torque above which its column is questioned
    other_joint_share: float = 0.9
    # share of a joint's torque that a step explains, from which on what is wrong spoils numbers
    least_shown: float = 0.02
    # torque of one joint over the largest of all others, from which on its unit is doubted where
    # the file's masses need less
    outlier: float = 10.0
    # largest residual of all torque over that without corrections, up to which they explain most of
    # what is wrong where much is left
    most_remaining: float = 0.5
    # largest probability that is stated: there are faults that nobody thought of
    most_sure: float = 0.99


@dataclass(frozen=True)
class ScoreThresholds:
    """Candidates and thresholds of score tests of what the model does not hold."""

    ripple_z: float = 6.0  # least score of a ripple over its deviation: many are asked
    ripple_share: float = 0.08  # least share of the weighted residual's sum of squares of one
    spring_share: float = 0.04  # the same of a spring, which poses hardly tell from gravity
    load_z: float = 6.5  # least score of a load's four numbers: many times are asked
    visible: float = 3e-3  # least torque explained over all torque, both rms
    least_seen: float = 1e-3  # share of a torque that the columns must leave, rms
    block_s: float = 0.5  # duration of a block [s]
    least_blocks: int = 15  # blocks that a log must have
    most: int = 5  # findings
    trend: float = 0.08  # least change of friction through a log
    load: float = 0.1  # least change of a load [kg]
    load_share: float = 0.02  # least change of a load over the mass of all measured bodies
    windup_rad: float = 1e-3  # least torsion of a gear under 95 % of its torque [rad]
    begins: int = 39  # times at which a load may change
    slow_hz: float = 3.0  # cutoff of the torque that winds a gear up: noise is faster [Hz]
    bent_rad: float = 1e-4  # torsion of numerical derivatives [rad]
    # fewest and most cycles a radian of a torque that repeats with the angle
    cycles: tuple[float, float] = (4.0, 100.0)
    least_range_rad: float = 1.0  # range of an angle below which cycles lie no farther apart [rad]


@dataclass(frozen=True)
class LoadThresholds:
    """Thresholds of findings about a tool and about torque without friction."""

    least_bodies: int = 3  # number of measured bodies, at least, for one of them to be told apart
    evidence: float = 30.0  # least evidence that the last body is not the file's
    # largest chance that a last body, off as the others are, is as far from the file
    chance: float = 0.005
    share: float = 0.5  # least mass of a tool over that of the last body in the file
    moving_share: float = 0.02  # least mass of a tool over that of all measured bodies in the file
    # share of friction and rotors in a joint's torque above which there is some
    most_friction: float = 0.1
    usual_friction: float = 0.02  # the same of half the joints


@dataclass(frozen=True)
class WrenchThresholds:
    """Thresholds of findings about contact wrenches and wrench sensors."""

    samples: int = 4000  # about how many samples are looked at
    # share of the time without a closed contact from which something is missing
    unheld_share: float = 0.05
    # times by which a force is off what the model file's masses need, from which it is another's
    other_size: float = 3.0
    # share of the energy of the needed force from which a contact is judged
    bearing_share: float = 0.05
    # correlation of a sensor's forces with those that the model file's masses need, from which sign
    # and size are judged
    alike: float = 0.5


@dataclass(frozen=True)
class DoctorSettings:
    """All thresholds of the log doctor."""

    clock: ClockThresholds = ClockThresholds()  # of clock and rows
    signals: SignalThresholds = SignalThresholds()  # of single signals
    evidence: EvidenceSettings = EvidenceSettings()  # data and model that compare hypotheses
    search: CorrectionSearch = CorrectionSearch()  # of corrections
    physics: PhysicsThresholds = PhysicsThresholds()  # of findings about that search
    scores: ScoreThresholds = ScoreThresholds()  # of torques that the model does not hold
    loads: LoadThresholds = LoadThresholds()  # of a tool, and torque without friction
    wrenches: WrenchThresholds = WrenchThresholds()  # of contacts and wrench sensors inside


DEFAULTS = DoctorSettings()
