"""A simulated experiment with a six-joint arm, shipped with its truth.

Made by `examples/make_demo.py`: closed loop, friction, noise, quantisation, 3 ms of torque
delay, a dozen lost samples, and a model file whose numbers are wrong by about 30 %.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

FOLDER = Path(__file__).parent


def run(out: Path, progress: Callable[[str], None]) -> str:
    """Identify the arm, write the results, and return a comparison with the truth.

    Args:
        out: Folder for the results.
        progress: Told what is being done.
    """
    from heft.applications.identification import report
    from heft.display import table
    from heft.estimators import body_statistics
    from heft.applications.identification import identify_files
    from heft.applications.identification import write

    found = identify_files(
        FOLDER / "arm.urdf",
        [FOLDER / "run1.parquet"],
        [FOLDER / "run2.parquet"],
        progress=progress,
    )
    write(found, out, report.html)
    truth = json.loads((FOLDER / "truth.json").read_text())
    lines = [report.text(found), "", "Against the truth of the simulation:", ""]
    rows = []
    for k, link in enumerate(found.problem.plant.robot.bodies_links):
        true = truth["links"][link.name]
        numbers = body_statistics(found.consistent, 10 * k)
        mass, std, share = numbers["mass"]
        shift = max(abs(numbers[f"com.{x}"][0] - true["com"][i]) for i, x in enumerate("xyz"))
        rows.append(
            [
                link.name,
                f"{link.written[0]:.3f}",
                f"{mass:.3f}",
                f"±{std:.2g}",
                f"{true['mass']:.3f}",
                f"{1e3 * shift:.1f}",
                f"{share:.0%}",
            ]
        )
    lines.append(
        table(
            (
                "link",
                "model file [kg]",
                "found [kg]",
                "±",
                "true [kg]",
                "centre off by [mm]",
                "seen",
            ),
            rows,
        )
    )
    rows = []
    simple = found.friction["simple"]
    for joint in found.problem.plant.robot.joints:
        true = truth["joints"][joint]
        rows.append(
            [
                joint,
                *(
                    f"{simple[f'{joint}.{t}']:.3f} / {true[t]:.3f}"
                    for t in ("viscous", "coulomb", "offset", "armature")
                ),
            ]
        )
    lines += [
        "",
        table(("found / true", "viscous", "Coulomb", "offset", "rotor inertia"), rows),
    ]
    lines += ["", f"Results: {out / 'robot.urdf'}  {out / 'estimate.json'}  {out / 'report.html'}"]
    return "\n".join(lines)
