"""Fit a robot with mujoco.sysid and predict the joint torque of held-out rows.

    python mujoco_fit.py IN.npz ROBOT.urdf OUT.npz

The script stands alone: it needs numpy and ``mujoco[sysid]``, and nothing of heft, so that it can
run with the interpreter of another environment. Written for mujoco 4.0.0.

IN.npz holds the smoothed fitting data ``q, v, a, tau`` (N, n), the joint ``names`` of the columns,
the run id ``segment`` (N,), the sample time ``step``, ``gravity`` (3,) and the held-out
``q_test, v_test, a_test`` (M, n). OUT.npz receives ``tau_test`` (M, n), ``seconds`` (time of the
fit, without imports, loading and prediction), ``note``, ``link_names`` and ``inertials`` (L, 10) as
m, m c, Ixx Ixy Iyy Ixz Iyz Izz about the link origin (links fixed to each other count as one).
After a failure it holds ``note`` only.

The documented residual compares simulated with measured motion, which does not converge for a
torque-driven arm in reasonable time. Here the residual is the inverse dynamics (``mj_inverse`` in a
custom rollout) on evenly spaced samples, divided per joint by the tool's own normalisation. Each
body gets a pseudo-inertia within the tool's default box around the URDF, each joint damping,
frictionloss and armature >= 0 and an offset. The friction constraint is made stiff: with the
default softness it is no Coulomb friction for a light joint, and held-out error rises by several
per cent. The fit stops after ``TIME_LIMIT`` seconds at the latest; the best iterate so far then
counts, and the note says so.
"""

from __future__ import annotations

import sys
import time
import traceback
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SAMPLES = 500
"""About how many rows of the fitting data are used."""
TIME_LIMIT = 40.0
"""Seconds after which the optimiser is stopped."""
STIFFNESS = {"timestep": 1e-4, "time_constant": 2e-4, "impedance": 0.999}
"""Settings of the friction constraint; its time constant must be twice the time step or more."""
MAX_ITERATIONS = 200
DEFAULT_MASS = 2.0
"""Mass in kg of a moving body for which the URDF gives none."""
DEFAULT_GYRATION = 0.1
"""Its radius of gyration in m; also taken where the URDF gives a mass without an inertia."""
THINNEST = 0.005
"""Smallest standard deviation in m of a body's mass along any axis, so that no box is empty."""

MOMENTS = ("ixx", "iyy", "izz")


class OutOfTimeError(Exception):
    """Raised inside the residual to leave the optimiser."""


def plain_urdf(path: str, names: list[str]) -> tuple[str, dict[str, str]]:
    """Return the URDF with what mujoco can read, and the child link of every joint.

    Geometry, transmissions, all but the first ``origin`` of an element, limits and built-in
    friction are dropped, moving joints that are not in ``names`` become fixed at zero, and moving
    bodies without mass receive the default one.
    """
    root = ET.parse(path).getroot()
    for tag in ("transmission", "gazebo", "mujoco"):
        for element in root.findall(tag):
            root.remove(element)
    masses: dict[str, float] = {}
    links: dict[str, ET.Element] = {}
    for link in root.findall("link"):
        for tag in ("visual", "collision"):
            for element in link.findall(tag):
                link.remove(element)
        mass = link.find("inertial/mass")
        links[link.get("name", "")] = link
        masses[link.get("name", "")] = value = (
            0.0 if mass is None else float(mass.get("value", "0"))
        )
        inertia = link.find("inertial/inertia")
        if inertia is not None and all(float(inertia.get(key, "0")) == 0.0 for key in MOMENTS):
            for key in MOMENTS:
                inertia.set(key, str(value * DEFAULT_GYRATION**2))
    child: dict[str, str] = {}
    rigid: dict[str, list[str]] = {}
    for joint in root.findall("joint"):
        name = joint.get("name", "")
        if name not in names:
            joint.set("type", "fixed")
        elif joint.get("type") == "revolute":
            joint.set("type", "continuous")
        for extra in joint.findall("origin")[1:] + joint.findall("dynamics"):
            joint.remove(extra)
        ends = [joint.find(tag) for tag in ("parent", "child")]
        parent, below = ("" if end is None else end.get("link", "") for end in ends)
        child[name] = below
        if joint.get("type") == "fixed":
            rigid.setdefault(parent, []).append(below)
    missing = set(names) - child.keys()
    if missing:
        raise ValueError(f"joints not in the URDF: {sorted(missing)}")

    def mass_of(link: str) -> float:
        return masses[link] + sum(mass_of(other) for other in rigid.get(link, []))

    for name in names:
        if mass_of(child[name]) <= 0.0:
            add_default_inertial(links[child[name]])
    options = {"fusestatic": "true", "balanceinertia": "true", "strippath": "true"}
    ET.SubElement(ET.SubElement(root, "mujoco"), "compiler", options)
    return ET.tostring(root, encoding="unicode"), child


def add_default_inertial(link: ET.Element) -> None:
    """Give a link the default mass, as a sphere at the link origin."""
    for element in link.findall("inertial"):
        link.remove(element)
    inertial = ET.SubElement(link, "inertial")
    ET.SubElement(inertial, "mass", value=str(DEFAULT_MASS))
    axes = dict.fromkeys(MOMENTS, str(DEFAULT_MASS * DEFAULT_GYRATION**2))
    ET.SubElement(inertial, "inertia", axes, ixy="0", ixz="0", iyz="0")


def load_spec(text: str, names: list[str], gravity: Array) -> Any:
    """Return the model specification with unlimited joints, stiff friction and thick bodies."""
    import mujoco

    spec = mujoco.MjSpec.from_string(text)
    spec.option.gravity = np.asarray(gravity, dtype=float)
    spec.option.timestep = STIFFNESS["timestep"]
    for name in names:
        joint = spec.joint(name)
        joint.limited = mujoco.mjtLimited.mjLIMITED_FALSE
        joint.solref_friction = [STIFFNESS["time_constant"], 1.0]
        joint.solimp_friction[:2] = STIFFNESS["impedance"]
    model = spec.compile()
    for index in range(1, model.nbody):
        name = model.body(index).name
        mass = float(model.body_mass[index])
        rotation = np.empty(9)
        mujoco.mju_quat2Mat(rotation, model.body_iquat[index])
        principal = rotation.reshape(3, 3)
        moments = model.body_inertia[index]
        second = 0.5 * moments.sum() - moments
        second = np.maximum(second, mass * THINNEST**2)
        inertia = principal @ np.diag(second.sum() - second) @ principal.T
        set_inertia(spec.body(name), mass, model.body_ipos[index].copy(), inertia)
    return spec


def set_inertia(body: Any, mass: float, centre: Array, inertia: Array) -> None:
    """Write mass, centre of mass and inertia about it (link axes) into a body specification."""
    body.explicitinertial = True
    body.mass = mass
    body.ipos = centre
    body.iquat = [1.0, 0.0, 0.0, 0.0]
    body.inertia = np.zeros(3)
    body.fullinertia = inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]


def apply_pseudo_inertia(spec: Any, parameter: Any) -> None:
    """Write a pseudo-inertia parameter into its body.

    Takes the place of the tool's own modifier, which leaves a quaternion of NaN that the compiler
    refuses.
    """
    from mujoco.sysid import model_modifier

    flat = model_modifier.pi_from_theta(parameter.value)
    mass, first, about_origin = flat[0], flat[1:4], flat[4:].reshape(3, 3)
    centre = first / mass
    shift = mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))
    set_inertia(
        spec.body(parameter.name.removesuffix("_inertia")), mass, centre, about_origin - shift
    )


def joint_setter(attribute: str, joint: str) -> Callable[[Any, Any], None]:
    """Return a modifier that writes a scalar into ``attribute`` of a joint specification."""

    def modify(spec: Any, parameter: Any) -> None:
        target = spec.joint(joint)
        current = getattr(target, attribute)
        value = float(parameter.value[0])
        if np.ndim(current) == 0:
            setattr(target, attribute, value)
        else:  # Damping is a polynomial from mujoco 4.0 on; only its linear part is used.
            setattr(target, attribute, np.concatenate([[value], np.zeros(np.size(current) - 1)]))

    return modify


def make_parameters(spec: Any, bodies: list[str], names: list[str], data: dict[str, Any]) -> Any:
    """Return the parameters with their boxes; those of the joints scale with the data."""
    from mujoco import sysid

    parameters = sysid.ParameterDict()
    model = spec.compile()
    for body in bodies:
        parameters.add(
            sysid.body_inertia_param(
                spec,
                model,
                body,
                inertia_type=sysid.InertiaType.Pseudo,
                modifier=apply_pseudo_inertia,
            )
        )
    torque = np.abs(data["tau"]).max(axis=0)
    speed = np.sqrt(np.mean(data["v"] ** 2, axis=0))
    rate = np.sqrt(np.mean(data["a"] ** 2, axis=0))
    for i, joint in enumerate(names):
        ceilings = {
            "damping": torque[i] / max(speed[i], 1e-3),
            "frictionloss": torque[i],
            "armature": torque[i] / max(rate[i], 1e-3),
        }
        for attribute, ceiling in ceilings.items():
            parameters.add(
                sysid.Parameter(
                    f"{joint}_{attribute}",
                    0.01 * ceiling,
                    0.0,
                    ceiling,
                    modifier=joint_setter(attribute, joint),
                )
            )
        parameters.add(sysid.Parameter(f"{joint}_offset", 0.0, -torque[i], torque[i]))
    return parameters


def inverse_dynamics(model: Any, scratch: Any, motion: tuple[Array, Array, Array]) -> Array:
    """Return the joint torque that mujoco needs for each row of the motion."""
    import mujoco

    torque = np.empty_like(motion[0])
    for row, (position, speed, rate) in enumerate(zip(*motion, strict=True)):
        scratch.qpos[:] = position
        scratch.qvel[:] = speed
        scratch.qacc[:] = rate
        mujoco.mj_inverse(model, scratch)
        torque[row] = scratch.qfrc_inverse
    return torque


def offsets(parameters: Any, names: Sequence[str]) -> Array:
    """Return the torque offset of each joint."""
    return np.array([parameters[f"{name}_offset"].value[0] for name in names])


def make_residual(
    spec: Any, motion: tuple[Array, Array, Array], tau: Array, names: list[str]
) -> Callable[..., Any]:
    """Return the tool's residual function around an inverse-dynamics rollout."""
    from mujoco import sysid

    model = spec.compile()
    times = np.arange(len(tau), dtype=float)
    idle = sysid.TimeSeries(times, np.zeros((len(tau), 0)))
    state = sysid.create_initial_state(model, motion[0][0])
    clock = np.zeros((len(tau), state.size))
    clock[:, 0] = times  # The tool reads the time, and nothing else, from the rolled-out state.
    states = sysid.TimeSeries(times, clock)
    sequences = sysid.ModelSequences(
        "robot", spec, "log", state, idle, sysid.TimeSeries(times, tau), allow_missing_sensors=True
    )

    def rollout(models: Any, datas: Any, param_dicts: Any, **_: Any) -> list[Any]:
        return [
            sysid.SystemTrajectory(
                model=model,
                control=idle,
                sensordata=sysid.TimeSeries(
                    times, inverse_dynamics(model, datas[0], motion) + offsets(parameters, names)
                ),
                initial_state=state,
                state=states,
            )
            for model, parameters in zip(models, param_dicts, strict=True)
        ]

    def difference(
        _params: Any, predicted: Any, measured: Any, *_: Any, **__: Any
    ) -> tuple[Array, Any, Any]:
        error = predicted.data - measured.data
        return sysid.normalize_residual(error, measured.data), predicted, measured

    residual: Callable[..., Any] = sysid.build_residual_fn(
        models_sequences=[sequences],
        custom_rollout=rollout,
        modify_residual=difference,
        resample_true=False,
        n_threads=1,
    )
    return residual


class BestIterate:
    """A residual function that remembers its best argument and stops at a deadline."""

    def __init__(self, residual: Callable[..., Any], limit: float) -> None:
        """Start the clock; ``limit`` is in seconds."""
        self.residual = residual
        self.start = time.perf_counter()
        self.limit = limit
        self.history: list[tuple[float, float]] = []
        self.cost = np.inf
        self.value: Array | None = None
        self.jacobians = 0

    def __call__(self, x: Array, parameters: Any) -> Any:
        """Evaluate one argument, or a column for each step of a finite difference."""
        if time.perf_counter() - self.start > self.limit:
            raise OutOfTimeError
        result = self.residual(x, parameters)
        if x.ndim == 2 and x.shape[1] > 1:
            self.jacobians += 1
        else:
            cost = 0.5 * float(np.sum(result[0][0] ** 2))
            if cost < self.cost:
                self.cost, self.value = cost, np.array(x, dtype=float).ravel()
                self.history.append((time.perf_counter() - self.start, cost))
        return result

    def settled(self, tolerance: float) -> float:
        """Return the seconds after which the cost was within ``tolerance`` of its last value."""
        ceiling = (1.0 + tolerance) * self.cost
        return next(seconds for seconds, cost in self.history if cost <= ceiling)


def optimise(
    parameters: Any, residual: Callable[..., Any], limit: float
) -> tuple[BestIterate, bool]:
    """Run the tool's optimiser, and return its best iterate and whether it ended in time."""
    from mujoco import sysid

    best = BestIterate(residual, limit)
    ended = True
    try:
        sysid.optimize(
            parameters.copy(), best, optimizer="mujoco", verbose=False, max_iters=MAX_ITERATIONS
        )
    except OutOfTimeError:
        ended = False
    if best.value is None:
        raise RuntimeError("no evaluation of the residual finished in time")
    return best, ended


def fit(source: str, urdf: str) -> dict[str, Any]:
    """Run the identification and return the arrays of OUT.npz."""
    import mujoco
    from absl import logging
    from mujoco import sysid

    logging.set_verbosity(logging.ERROR)
    with np.load(source) as archive:
        data: dict[str, Any] = {key: archive[key] for key in archive.files}
    names = [str(name) for name in data["names"]]
    text, child = plain_urdf(urdf, names)
    spec = load_spec(text, names, data["gravity"])
    model = spec.compile()
    if model.nv != len(names):
        raise ValueError(f"{model.nv} degrees of freedom for {len(names)} joints")
    joints = [model.joint(i).name for i in range(model.njnt)]
    order = [names.index(joint) for joint in joints]
    bodies = [child[joint] for joint in joints]
    for key in ("q", "v", "a", "tau", "q_test", "v_test", "a_test"):
        data[key] = np.ascontiguousarray(data[key][:, order], dtype=float)

    total = len(data["q"])
    rows = np.unique(np.linspace(0, total - 1, min(SAMPLES, total)).round().astype(int))
    motion = (data["q"][rows], data["v"][rows], data["a"][rows])

    start = time.perf_counter()
    parameters = make_parameters(spec, bodies, joints, data)
    residual = make_residual(spec, motion, data["tau"][rows], joints)
    best, ended = optimise(parameters, residual, TIME_LIMIT)
    seconds = time.perf_counter() - start

    parameters.update_from_vector(best.value)
    lower, upper = parameters.get_bounds()
    margin = 1e-6 * (upper - lower)
    value = parameters.as_vector()
    clamped = int(np.sum((value <= lower + margin) | (value >= upper - margin)))
    fitted = sysid.apply_param_modifiers(parameters, spec)
    held_out = (data["q_test"], data["v_test"], data["a_test"])
    tau: Array = np.empty_like(held_out[0])
    tau[:, order] = inverse_dynamics(fitted, mujoco.MjData(fitted), held_out)
    tau[:, order] += offsets(parameters, joints)
    ending = "ended by itself" if ended else f"not converged, stopped at {TIME_LIMIT:.0f} s"
    note = (
        f"bounded least squares on inverse dynamics, {len(rows)} of {total} samples, "
        f"{best.jacobians} iterations, {ending}, cost {best.cost:.6g} "
        f"(within 1 % of it after {best.settled(0.01):.1f} s); "
        f"{clamped} of {lower.size} parameters on a bound; consistent by construction"
    )
    inertials = np.array([dynamic_parameters(parameters[f"{body}_inertia"]) for body in bodies])
    return {
        "tau_test": tau,
        "seconds": seconds,
        "note": note,
        "link_names": np.array(bodies),
        "inertials": inertials,
    }


def dynamic_parameters(parameter: Any) -> Array:
    """Return m, m c, Ixx Ixy Iyy Ixz Iyz Izz about the link origin of a pseudo-inertia."""
    from mujoco.sysid import model_modifier

    flat = model_modifier.pi_from_theta(parameter.value)
    inertia = flat[4:].reshape(3, 3)
    return np.concatenate([flat[:4], inertia[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]])


def main(arguments: list[str]) -> int:
    """Run the script; the outcome, good or bad, is always written to OUT.npz."""
    if len(arguments) != 3:
        print("usage: mujoco_fit.py IN.npz ROBOT.urdf OUT.npz", file=sys.stderr)
        return 2
    source, urdf, target = arguments
    try:
        result = fit(source, urdf)
    except Exception as error:
        traceback.print_exc()
        result = {"note": f"{type(error).__name__}: {error}"}
    np.savez(target, **result)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
