"""How long `heft derive` takes, everything included: text, base parameters and NumPy code.

    python -m benchmarks.derive [--store]

Each robot is a bare table, its inertials ten symbols a link; lengths are symbols, or numbers for
six joints. The code that was written is then held against pinocchio.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pinocchio as pin

from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_most
from heft.applications.derive.from_table import TEN, derive
from heft.applications.derive.printing import FUNCTIONS, numpy_source, text
from heft.information.inertia import from_body
from heft.models import denavit_hartenberg

SHORT, LONG = 10.0, 120.0  # [s] asked for: up to three joints, and six
HEAD = '[link]\nconvention = "modified"\ntable = [\n'
ROWS = {  # of a PUMA 560 with numbers, and of the first joints of one with symbols
    "2 joints": '[0, 0, 0, 0, "revolute"], ["a2", "-pi/2", "d2", 0, "revolute"]]',
    "3 joints": '[0, 0, 0, 0, "revolute"], [0, "-pi/2", "d2", 0, "revolute"], '
    '["a3", 0, "d3", 0, "revolute"]]',
    "6 joints": '[0, 0, 0, 0, "revolute"], [0, -1.5707963267948966, 0, 0, "revolute"], '
    '[0.4318, 0, 0.1501, 0, "revolute"], [0.0203, -1.5707963267948966, 0.4318, 0, "revolute"], '
    '[0, 1.5707963267948966, 0, 0, "revolute"], [0, -1.5707963267948966, 0, 0, "revolute"]]',
}


def against_pinocchio(toml: bytes, source: str) -> float:
    """Return the largest relative error of the code's results, at random states and bodies."""
    code: dict[str, Any] = {}
    exec(compile(source, "robot.py", "exec"), code)
    robot = denavit_hartenberg.read(toml, "robot.toml").translate(False, "robot.toml")
    model = pin.buildModelFromXML(robot.text.decode())
    data = model.createData()
    rng, values = np.random.default_rng(1), {}
    for k in range(1, model.njoints):
        tensor = np.diag(rng.uniform(0.1, 0.2, 3))
        ten = from_body(float(rng.uniform(1.0, 3.0)), rng.normal(0.0, 0.2, 3), tensor)
        model.inertias[k] = pin.Inertia.FromDynamicParameters(ten)
        values |= {f"{name}{k}": x for name, x in zip(TEN, ten, strict=True)}
    p = [values[name] for name in code["PARAMETERS"]]
    worst = 0.0
    for q, v, a in rng.uniform(-2.0, 2.0, (100, 3, model.nv)):
        turned = np.concatenate([[np.cos(x), np.sin(x)] for x in q])  # continuous joints
        M = pin.crba(model, data, turned)
        held = pin.computeGeneralizedGravity(model, data, turned).copy()
        expected = {
            "torque": pin.rnea(model, data, turned, v, a).copy(),
            "inertia_matrix": np.triu(M) + np.triu(M, 1).T,
            "gravity_torque": held,
            "velocity_torque": pin.nonLinearEffects(model, data, turned, v) - held,
            "coriolis_matrix": pin.computeCoriolisMatrix(model, data, turned, v).copy(),
            "regressor": pin.computeJointTorqueRegressor(model, data, turned, v, a).copy(),
            "kinetic_energy": pin.computeKineticEnergy(model, data, turned, v),
            "potential_energy": pin.computePotentialEnergy(model, data, turned),
        }
        for name, right in expected.items():
            arguments, _ = FUNCTIONS[name]
            got = code[name](*({"q": q, "v": v, "a": a}[k] for k in arguments), p)
            worst = max(worst, float(np.linalg.norm(got - right) / np.linalg.norm(right)))
    return worst


FEW = {"6 joints": '[0, 0, 0, 0, "revolute"], [0, -1.5707963267948966, 0.1, 0, "revolute"]]'}


@benchmark({"ROWS": FEW})
def main() -> Iterator[Row]:
    """Yield how long derivations take, and the error of the largest against pinocchio."""
    for name, entries in ROWS.items():
        toml = f'name = "{name}"\n{HEAD}{entries}\n'.encode()
        begin = time.perf_counter()
        derivation = derive(toml)
        text(derivation)
        source = numpy_source(derivation)
        taken = time.perf_counter() - begin
        yield at_most(name, taken, "s", LONG if name.startswith("6") else SHORT)
    error = against_pinocchio(toml, source)
    yield at_most(f"{name}, largest relative error", error, "", 1e-12, "pinocchio")


if __name__ == "__main__":
    main()
