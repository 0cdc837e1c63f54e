"""Time FIGAROH's regressor and QR on given states, in microseconds a sample.

    python figaroh_speed.py IN.npz ROBOT.urdf

IN.npz holds `q`, `v`, `a`, `tau` of shape (N, n). Prints the time of the regressor with
friction and offset, and of `double_QR` on it, as two numbers.
"""

from __future__ import annotations

import sys
import time

import numpy as np


def main(states: str, urdf: str) -> None:
    """Print both times."""
    import pinocchio as pin
    from figaroh.tools.qrdecomposition import double_QR
    from figaroh.tools.regressor import RegressorBuilder, RegressorConfig

    with np.load(states) as data:
        q, v, a, tau = (data[k] for k in ("q", "v", "a", "tau"))
    robot = pin.RobotWrapper(pin.buildModelFromUrdf(urdf))
    builder = RegressorBuilder(robot, RegressorConfig(has_friction=True, has_joint_offset=True))
    joints = list(range(robot.model.nv))
    settings = {"act_idxq": joints, "act_idxv": joints, "is_joint_torques": True}
    begin = time.perf_counter()
    regressor = builder.build_basic_regressor(q, v, a, settings)
    middle = time.perf_counter()
    keep = np.linalg.norm(regressor, axis=0) > 1e-6 * np.sqrt(len(regressor))
    names = [f"p{k}" for k in np.flatnonzero(keep)]
    values = dict.fromkeys(names, 0.0)
    ready = time.perf_counter()
    double_QR(tau.T.reshape(-1), regressor[:, keep], names, values)
    end = time.perf_counter()
    print(1e6 * (middle - begin) / len(q), 1e6 * (end - ready) / len(q))


if __name__ == "__main__":
    main(*sys.argv[1:3])
