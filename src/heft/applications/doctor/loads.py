"""What a fit says of the model file: a tool that it does not name, torque without friction."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from heft.arrays import Array
from heft.information import PARAMETER_COUNT

from .hypotheses import Fit, Hypotheses
from .settings import LoadThresholds


@dataclass(frozen=True)
class ToolFound:
    """Mass beyond the model file's at the end of a chain."""

    body: int  # index of the last body
    mass: float  # mass beyond the model file's [kg]
    evidence: float  # 2 ln of the odds that the last body is another one than the file says
    strain: float  # distance of the last body from the file over the median of all others


def tool(hypotheses: Hypotheses, fit: Fit, thresholds: LoadThresholds) -> ToolFound | None:
    """Return the load of the last body beyond the model file; None if it is not significant.

    The other bodies say how far off such a file is. A tool shows in the last one alone, which is
    far heavier than that.

    Args:
        fit: Fit of the corrected log.
    """
    last = last_body(hypotheses, thresholds)
    if last is None:
        return None
    unknowns, measured = hypotheses.unknowns, _measured(hypotheses)
    plain = replace(fit.correction, carrying=None)
    fit = hypotheses.fit(plain, fit.sigma)
    freed = hypotheses.fit(replace(plain, carrying=last), fit.sigma)
    far = hypotheses.far(hypotheses.rows(plain), fit.values)
    others = float(np.median(np.delete(far, last)[np.delete(measured, last)]))
    file, found = (_mass(hypotheses, u, last) for u in (unknowns.start, freed.values))
    moving = sum(_mass(hypotheses, unknowns.start, int(b)) for b in np.flatnonzero(measured))
    made = ToolFound(
        last, found - file, fit.objective - freed.objective, far[last] / max(others, 1.0)
    )
    is_sure = (
        made.evidence > thresholds.evidence
        and made.strain > thresholds.strain
        and made.mass > thresholds.share * file
        and made.mass > thresholds.moving_share * moving
    )
    return made if is_sure else None


def last_body(hypotheses: Hypotheses, thresholds: LoadThresholds) -> int | None:
    """Return the index of the deepest body; None if it is not alone or too few are measured."""
    tree, measured = hypotheses.evidence.robot.tree, _measured(hypotheses)
    depth = np.where(measured, tree.ancestry().sum(axis=0), 0)
    alone = np.sum(depth == depth.max()) == 1 and np.sum(measured) >= thresholds.least_bodies
    return int(np.argmax(depth)) if alone else None


def _measured(hypotheses: Hypotheses) -> NDArray[np.bool_]:
    """Return which bodies act on a measured joint, shape (bodies,)."""
    evidence = hypotheses.evidence
    return np.asarray(evidence.robot.tree.ancestry()[list(evidence.channels)].any(axis=0))


def _mass(hypotheses: Hypotheses, values: Array, body: int) -> float:
    return float(hypotheses.unknowns.parameters(values)[PARAMETER_COUNT * body])


def friction_shares(hypotheses: Hypotheses, fit: Fit) -> Array:
    """Return rms friction and rotor torque over the torque's standard deviation, (channels,)."""
    evidence, unknowns = hypotheses.evidence, hypotheses.unknowns
    rows, shares = hypotheses.rows(fit.correction), []
    for k, channel in enumerate(evidence.channels):
        at = rows.columns[k]
        # Offsets are the last terms of drives; a torque sensor has one without any friction.
        term = (at - unknowns.bodies) % unknowns.terms
        own = (at >= unknowns.bodies) & (at < unknowns.own.start) & (term != unknowns.terms - 1)
        rubbing = fit.values[at[own]] @ rows.regressors[k][own]
        source = fit.correction.tau_source[channel]
        size = abs(fit.correction.tau_scale[channel]) * evidence.effort_size[source]
        shares.append(np.sqrt(np.mean(rubbing**2)) / max(size, 1e-12))
    return np.array(shares)
