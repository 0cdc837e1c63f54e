"""Fit a robot with FIGAROH and predict the joint torque of held-out rows.

    python figaroh_fit.py IN.npz ROBOT.urdf OUT.npz [physical]

The script stands alone: it needs numpy, pinocchio and ``figaroh``, and nothing of heft, so that it
can run with the interpreter of another environment. Written for figaroh 1.0.2.

IN.npz holds the smoothed fitting data ``q, v, a, tau`` (N, n), the joint ``names`` of the columns,
the run id ``segment`` (N,), the sample time ``step``, ``gravity`` (3,) and the held-out
``q_test, v_test, a_test`` (M, n). OUT.npz receives ``tau_test`` (M, n), ``seconds`` (time of the
fit, without imports, loading and prediction), ``note`` and, with ``physical``, ``link_names`` and
``inertials`` (L, 10) as m, m c, Ixx Ixy Iyy Ixz Iyz Izz about the link origin. After a failure it
holds ``note`` only.

The model is FIGAROH's own: inertial base parameters, viscous and Coulomb friction, armature and
offset for every joint, weighted least squares. ``physical`` asks for its direct fit of full link
parameters instead (``select_stage: physical_fit``). What differs from a plain run of the tool:

* its filters are passed over, as the data are smooth already;
* its decimation by ten stays on where enough rows are left, and samples near the seam of two runs
  are then masked, because its decimation filter would mix the runs;
* its held-out report is skipped: it computes the regressor once more, which is no part of the fit.
"""

from __future__ import annotations

import sys
import tempfile
import time
import traceback
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

DECIMATION = 10
ROWS_PER_COLUMN = 10
"""Rows that decimation must leave for each column of the regressor."""
COLUMNS = 14
"""Columns per joint: ten inertial, two of friction, armature and offset."""
SEAM = 2 * DECIMATION
"""Samples masked on each side of a seam when decimating."""


def plain_urdf(path: str, names: list[str]) -> tuple[str, dict[str, str]]:
    """Return the URDF without geometry, and the child link of every joint.

    Continuous joints become revolute (one position instead of a sine and a cosine) and moving
    joints that are not in ``names`` become fixed at zero.
    """
    root = ET.parse(path).getroot()
    for link in root.iter("link"):
        for tag in ("visual", "collision"):
            for element in link.findall(tag):
                link.remove(element)
    for tag in ("transmission", "gazebo"):
        for element in root.findall(tag):
            root.remove(element)
    child: dict[str, str] = {}
    for joint in root.findall("joint"):
        name = joint.get("name", "")
        below = joint.find("child")
        child[name] = "" if below is None else below.get("link", "")
        if name not in names:
            joint.set("type", "fixed")
        elif joint.get("type") == "continuous":
            joint.set("type", "revolute")
            limit = joint.find("limit")
            if limit is None:
                limit = ET.SubElement(joint, "limit", effort="1e6", velocity="1e6")
            limit.set("lower", "-1e6")
            limit.set("upper", "1e6")
    missing = set(names) - child.keys()
    if missing:
        raise ValueError(f"joints not in the URDF: {sorted(missing)}")
    return ET.tostring(root, encoding="unicode"), child


def write_config(folder: str, names: list[str], step: float, physical: bool) -> str:
    """Write the configuration file that FIGAROH insists on, and return its path."""
    import yaml

    task: dict[str, Any] = {
        "joints": {"active_joints": names},
        "problem": {
            "wls": True,
            "model_components": {
                "friction": True,
                "actuator_inertia": True,
                "joint_offset": True,
            },
        },
        # Never applied (see the subclass below), but checked against each other on loading.
        "signal_processing": {"sampling_frequency": 1.0 / step, "cutoff_frequency": 0.2 / step},
    }
    if physical:
        task["select_stage"] = "physical_fit"
    path = Path(folder) / "robot.yaml"
    path.write_text(yaml.safe_dump({"robot": {"name": "robot"}, "tasks": {"identification": task}}))
    return str(path)


def seam_mask(segment: NDArray[Any], margin: int) -> NDArray[np.bool_]:
    """Return False for the samples within ``margin`` of a change of run, True for the others."""
    mask = np.ones(len(segment), dtype=bool)
    for seam in np.flatnonzero(segment[1:] != segment[:-1]) + 1:
        mask[max(seam - margin, 0) : seam + margin] = False
    return mask


def make_identification(robot: Any, config: str, data: dict[str, Any], order: list[int]) -> Any:
    """Build the FIGAROH identification object around the fitting data."""
    from figaroh.data.trajectory import JOINT_FORCE, JOINT_TORQUE, TrajectoryData
    from figaroh.identification.base_identification import BaseIdentification

    joints = list(robot.model.names)[1:]
    linear = [joint.shortname().startswith("JointModelP") for joint in list(robot.model.joints)[1:]]
    trajectory = TrajectoryData(
        t=np.arange(len(data["q"])) * float(data["step"]),
        joint_names=tuple(joints),
        q=data["q"][:, order],
        dq=data["v"][:, order],
        ddq=data["a"][:, order],
        effort=data["tau"][:, order],
        effort_kind=tuple(JOINT_FORCE if p else JOINT_TORQUE for p in linear),
        effort_unit=tuple("N" if p else "N.m" for p in linear),
        mask=data["mask"],
    )

    class Identification(BaseIdentification):  # type: ignore[misc]
        """FIGAROH's base class asks for a subclass per robot; this one serves data from memory."""

        def load_trajectory_data(self, data_source: str | None = None) -> Any:
            return trajectory

        def process_kinematics_data(self, filter_config: Any = None) -> None:
            self.processed_data = dict(self.raw_data)

        def _compute_validation_metrics(self) -> None:
            return None

    identification = Identification(robot, config)
    index = list(range(len(joints)))
    identification.identif_config.update(act_idxq=index, act_idxv=index)
    return identification


def describe_physical(selected: Any, count: int) -> str:
    """Say how consistent an accepted full-parameter estimate is, armature and friction included."""
    values = selected.parameter_dict()
    negative = {
        label: sum(value < 0.0 for name, value in values.items() if name.startswith(prefix))
        for label, prefix in (("armature", "Ia_"), ("viscous", "fv_"), ("Coulomb", "fs_"))
    }
    smallest = min(link["min_eig"] for link in selected.feasibility.values())
    signs = ", ".join(f"{number} of {count} {label}" for label, number in negative.items())
    return (
        f"links consistent (smallest pseudo-inertia eigenvalue {smallest:.1e}), negative: {signs}"
    )


def fit(source: str, urdf: str, physical: bool) -> dict[str, Any]:
    """Run the identification and return the arrays of OUT.npz."""
    import pinocchio as pin
    from figaroh.tools.regressor import build_regressor_basic, build_regressor_reduced

    with np.load(source) as archive:
        data: dict[str, Any] = {key: archive[key] for key in archive.files}
    names = [str(name) for name in data["names"]]
    text, child = plain_urdf(urdf, names)
    model = pin.buildModelFromXML(text)
    model.gravity.linear = np.asarray(data["gravity"], dtype=float)
    robot = pin.RobotWrapper(model)
    joints = list(model.names)[1:]
    order = [names.index(joint) for joint in joints]

    samples, count = data["q"].shape
    decimate = samples // DECIMATION >= ROWS_PER_COLUMN * COLUMNS
    data["mask"] = seam_mask(data["segment"], SEAM if decimate else 0)

    with tempfile.TemporaryDirectory() as folder:
        config = write_config(folder, joints, float(data["step"]), physical)
        identification = make_identification(robot, config, data, order)
        start = time.perf_counter()
        identification.initialize()
        identification.solve(
            decimate=decimate, decimation_factor=DECIMATION, plotting=False, wls=True
        )
        seconds = time.perf_counter() - start

    note = (
        f"weighted least squares, {samples} samples, decimation "
        f"{DECIMATION if decimate else 'off'}, {len(identification.phi_base)} base parameters"
    )
    result: dict[str, Any] = {"seconds": seconds}
    kinematics = (data[key][:, order] for key in ("q_test", "v_test", "a_test"))
    regressor = build_regressor_basic(robot, *kinematics, identification.identif_config)
    if physical:
        selected = identification.selected
        if not selected.accepted:
            raise RuntimeError(f"{note}; physical fit rejected: {rejection(identification)}")
        stacked = selected.predict(regressor)
        inertials = selected.link_p10(joints)
        result["link_names"] = np.array([child[joint] for joint in joints])
        result["inertials"] = np.array([inertials[joint] for joint in joints])
        note = f"physical fit, {note}; {describe_physical(selected, count)}"
    else:
        reduced = build_regressor_reduced(regressor, identification._idx_eliminated)
        stacked = reduced[:, identification._base_indices] @ identification.phi_base
        note += "; consistency not defined for base parameters"

    tau: Array = np.empty((len(data["q_test"]), count))
    tau[:, order] = np.asarray(stacked).reshape(count, -1).T
    return {**result, "tau_test": tau, "note": note}


def rejection(identification: Any) -> str:
    """Return why the physical fit was refused, with the solver's own words where it raised."""
    record = identification._physical_fit["record"]
    error = None if record is None else record.exception
    reason = str(identification.selected.reason)
    return f"{reason} ({error})" if error else reason


def main(arguments: list[str]) -> int:
    """Run the script; the outcome, good or bad, is always written to OUT.npz."""
    if len(arguments) not in (3, 4) or arguments[3:] not in ([], ["physical"]):
        print("usage: figaroh_fit.py IN.npz ROBOT.urdf OUT.npz [physical]", file=sys.stderr)
        return 2
    source, urdf, target = arguments[:3]
    try:
        result = fit(source, urdf, physical=len(arguments) == 4)
    except Exception as error:
        traceback.print_exc()
        result = {"note": f"{type(error).__name__}: {error}"}
    np.savez(target, **result)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
