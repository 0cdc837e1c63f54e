"""Demonstration: a simulated experiment with a six-joint arm and its true parameters.

Made by `examples/make_demo.py`: closed loop, friction, noise, quantisation, 3 ms of torque
delay, a dozen lost samples, and a model file whose numbers are wrong by about 30 %.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heft.applications.identification import Identification

# What is heavy is imported where it is used: most who come here want the folder.
FOLDER = Path(__file__).parent


def run(out: Path, progress: Callable[[str], None]) -> str:
    """Identify the simulated arm, write the results, and compare them with the true parameters.

    Raises:
        InvalidSetting: If the folder holds other files.
    """
    from heft.applications.identification import identify, refuse_foreign, report, write
    from heft.display import table

    refuse_foreign(out)
    result = identify(
        FOLDER / "arm.urdf", [FOLDER / "run1.parquet"], [FOLDER / "run2.parquet"], progress=progress
    )
    write(result, out, report.html)
    links = ("link", "model file [kg]", "found [kg]", "±", "true [kg]", "centre off by [mm]")
    joints = ("found / true", "viscous", "Coulomb", "offset", "rotor inertia")
    truth = json.loads((FOLDER / "truth.json").read_text(encoding="utf-8"))
    return "\n\n".join(
        [
            report.text(result),
            "Against the truth of the simulation:",
            table(links, _links(result, truth["links"])),
            table(joints, _joints(result, truth["joints"])),
            f"Results: {out / 'robot.urdf'}  {out / 'estimate.json'}  {out / 'report.html'}",
        ]
    )


def _links(result: Identification, truth: Mapping[str, Any]) -> list[list[str]]:
    from heft.estimators import stated_numbers

    rows = []
    for k, link in enumerate(result.problem.plant.robot.bodies_links):
        true, numbers = truth[link.name], stated_numbers(result.consistent, 10 * k)
        mass = numbers["mass"]
        shift = max(abs(numbers[f"com.{x}"].value - true["com"][i]) for i, x in enumerate("xyz"))
        masses = [
            f"{link.written[0]:.3f}",
            f"{mass.value:.3f}",
            f"±{mass.std:.2g}",
            f"{true['mass']:.3f}",
        ]
        rows.append([link.name, *masses, f"{1e3 * shift:.1f}"])
    return rows


def _joints(result: Identification, truth: Mapping[str, Any]) -> list[list[str]]:
    simple, terms = result.friction["simple"], ("viscous", "coulomb", "offset", "armature")
    return [
        [joint, *(f"{simple[f'{joint}.{t}']:.3f} / {truth[joint][t]:.3f}" for t in terms)]
        for joint in result.problem.plant.robot.joints
    ]
