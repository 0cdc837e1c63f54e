"""The spring at joint 5 of a da Vinci master arm, and the cable that bends at its joint 4."""

import numpy as np

from heft import RegressorColumn

ARM, POST, REST = 0.0075, 0.1035, 0.0613  # of the spring: its arm, its post, its length at rest [m]
ZERO = np.radians(23.0)


def columns(q, v, a):
    """Return the torque of the spring per stiffness, and the cable's as a cubic in joint 4."""
    angle = np.pi + ZERO - q["joint5"]
    length = np.sqrt(ARM**2 + POST**2 - 2.0 * ARM * POST * np.cos(angle))
    spring = -ARM * POST * np.sin(angle) / length * (length - REST)
    bends = [
        RegressorColumn(f"cable.{k}", f"N·m/rad^{k}", {"joint4": q["joint4"] ** k})
        for k in (1, 2, 3)
    ]
    return [RegressorColumn("spring", "N/m", {"joint5": spring}, nonnegative=True), *bends]
