"""What to run next: the command that designs a motion for what logs show least."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path

from .identification import Identification
from .results import parameter_entries

MOST_LINKS = 3


def next_motion(found: Identification, out: Path) -> str:
    """Return a line with the command that designs the next motion; empty if nothing is left.

    Links are named of which most numbers are the model file's, although motion could tell them.

    Args:
        out: Folder of its results.
    """
    robot = found.problem.plant.robot
    paths = {str(e["role"]): str(e["path"]) for e in found.inputs}
    if robot.tree.free_base or robot.options.sensor or "model" not in paths:
        return ""  # motions are designed for what joints' torques show
    left = Counter(
        str(entry["name"]).partition(f".{kind}")[0]
        for entry in parameter_entries(found)
        for kind in ("mass", "com.", "inertia.")
        if entry["seen"] == "prior" and f".{kind}" in entry["name"]
    )
    links = [name for name, _ in left.most_common(MOST_LINKS)]
    if not links:
        return ""
    words = ["heft", "excite", paths["model"]]
    words += ["--with", paths["options"]] if "options" in paths else []
    # Results with own columns are about another robot than the model file's.
    words += [] if robot.own_names else ["--given", str(out)]
    words += ["--for", *links]
    return f"Least is seen of {', '.join(links)}. A motion that tells more: {shlex.join(words)}"
