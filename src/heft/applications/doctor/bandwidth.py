"""Bandwidth at which hypotheses are compared: that at which the torque's residual is least.

A log at rest for much of its time has a bandwidth, by its own spectrum, at which the encoders'
noise is most of the acceleration. What that leaves of the torque is no fault of the log's, and it
hides those that there are. The rule is the identification's own (`BandwidthSearch`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .corrections import Correction
from .evidence import Evidence
from .hypotheses import Hypotheses
from .settings import TimingSearch
from .timings import Timings


def at_best_bandwidth(
    evidence: Evidence, correction: Correction, settings: TimingSearch
) -> Evidence:
    """Return evidence low-passed at the bandwidth of the least residual.

    A fault that makes up most of the residual hides what bandwidth is best, so ask again with it
    corrected. How the torque lies to the motion in time is taken along: a torque without upper
    frequencies would ask for a motion without them.

    Args:
        evidence: At the bandwidth of the motion.
        correction: Applied before bandwidths are compared.
    """
    timings = Timings(Hypotheses(evidence), settings)
    timing = timings.found(correction)
    if timings.hides(timing):
        correction = timing.best.correction
    initial = Hypotheses(evidence).settle(correction, common=False).sigma

    def look(octaves: float) -> float:
        """Return the residual variance with the motion alone low-passed, over that without."""
        motion = evidence.blurred(evidence.corner * 2.0**octaves)
        pairs = zip(motion.stretches, evidence.stretches, strict=True)
        mixed = replace(motion, stretches=tuple(replace(m, effort=s.effort) for m, s in pairs))
        left = Hypotheses(mixed).settle(correction, common=False).sigma
        return float(np.exp(2.0 * np.mean(np.log(left / initial))))

    factor = evidence.settings.bandwidth.searched(look)
    return evidence.blurred(factor * evidence.corner) if factor < 1.0 else evidence
