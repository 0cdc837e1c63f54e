"""Base parameters of public model files whose angles are printed to few digits.

For every URDF of `example-robot-data`, with the `rpy` of its joints as written and rounded to 5, 4,
3 and 2 decimals: the number of base parameters (without drives), the largest share left of a
column that counts as dependent, over the rounding error of the angles, and the least share of one
that counts. `SHARE_PER_RADIAN` in `plants/robot.py` must be above the former. The latter is the
robot's, not heft's: with exact angles the PR2 has a column of which others leave .0012, and that is
to count. So it has no bound but the rank, which must be that of the file as written.

    python -m benchmarks.rounding [--store]
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests import robots

from benchmarks.program import benchmark
from benchmarks.results_file import Row, at_most
from heft.models import Robot
from heft.models.options import JointOptions, Options
from heft.plants import RobotPlant, structural_base
from heft.plants.robot import SHARE_PER_RADIAN

DIGITS = (None, 5, 4, 3, 2)
MOST_JOINTS = 48
FILES = None  # how many are taken; all if None


def rounded(source: bytes, digits: int | None) -> bytes:
    """Return a URDF with the `rpy` of its joints rounded to some decimals."""
    if digits is None:
        return source

    def shorter(found: re.Match[str]) -> str:
        numbers = (f"{float(x):.{digits}f}" for x in found[2].split())
        return f"{found[1]}{' '.join(numbers)}{found[3]}"

    def joint(found: re.Match[str]) -> str:
        return re.sub(r"(rpy\s*=\s*[\"'])([^\"']*)([\"'])", shorter, found[0])

    return re.sub(r"<joint\b.*?</joint>", joint, source.decode(), flags=re.S).encode()


def rigid(source: bytes) -> Robot:
    """Return the robot of a URDF without drives."""
    still = JointOptions(friction="none", armature=False)
    joints = Robot.from_urdf_text(source).joints
    return Robot.from_urdf_text(source, Options(joint=dict.fromkeys(joints, still)))


def measured() -> Iterator[tuple[str, int | None, int, float, tuple[float, float]]]:
    """Yield file, decimals, rank, error of the angles [rad], and the shares at the gap."""
    for file in robots.loadable()[:FILES]:
        source = robots.path_of(file).read_bytes()
        if len(Robot.from_urdf_text(source).joints) > MOST_JOINTS:
            continue
        for digits in DIGITS:
            robot = rigid(rounded(source, digits))
            base = structural_base(RobotPlant(robot))
            yield file, digits, base.rank, robot.angle_error, base.gap


@benchmark({"FILES": 2})
def main() -> Iterator[Row]:
    """Yield the rows."""
    found = list(measured())
    exact = {file: rank for file, digits, rank, _, _ in found if digits is None}
    for digits in DIGITS:
        mine = [f for f in found if f[1] == digits]
        name = "as written" if digits is None else f"{digits} decimals"
        astray = sum(rank != exact[file] for file, _, rank, _, _ in mine)
        ratios = [gap[0] / error for *_, error, gap in mine if error > 1e-8]
        least, whose = min((gap[1], file) for file, *_, gap in mine)
        largest = max(ratios, default=0.0)
        yield at_most(f"{name}: files of another rank, of {len(mine)}", astray, "", 0)
        title = f"{name}: share left by the angles' error"
        yield at_most(title, largest, "1/rad", SHARE_PER_RADIAN)
        yield Row(f"{name}: least share of a column that counts", least, "", against=whose)


if __name__ == "__main__":
    main()
