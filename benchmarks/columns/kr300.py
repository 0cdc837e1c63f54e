"""The hydraulic counterbalance of a KUKA KR300 R2500: gas that a piston on axis 2 compresses."""

import numpy as np

from heft import RegressorColumn

FIXED, MOVING = 0.8, 0.2  # of the cylinder's ends from the axis [m]
ZERO = np.radians(95.0)  # angle between them where joint 2 is at zero
AREA = np.pi * (0.055**2 - 0.03**2) / 4.0  # of the piston less its rod [m²]
VOLUME = 0.00096  # of the gas, the cylinder at its shortest [m³]
GAS = 1.01 * 296.8 * 328.0  # compressibility · gas constant · temperature [J/kg]


def columns(q, v, a):
    """Return the torque on axis 2 for each kilogram of gas."""
    angle = q["joint2"] + ZERO
    length = np.sqrt(FIXED**2 + MOVING**2 - 2.0 * FIXED * MOVING * np.cos(angle))
    lever = FIXED * MOVING * np.sin(angle) / length
    pressure = GAS / (VOLUME - AREA * (length - (FIXED - MOVING)))
    return [RegressorColumn("gas", "kg", {"joint2": lever * pressure * AREA}, nonnegative=True)]
