"""Derivations: pinocchio's numbers, the course's own formulas, exact identities."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pinocchio as pin
import pytest
import sympy
from sympy import cos, sign, sin, symbols

from heft import cli
from heft.applications.derive.chain import kept
from heft.applications.derive.from_table import derive, derive_file
from heft.applications.derive.lagrange import Derivation
from heft.applications.derive.polynomials import Expanded
from heft.applications.derive.printing import FUNCTIONS, latex, numpy_source, text
from heft.dynamics import kernels
from heft.errors import InputError, InvalidModel, InvalidSetting
from heft.information.identifiability import base_parameters, column_order
from heft.information.inertia import frame_change, from_body
from heft.information.parameters import Labels
from heft.models.denavit_hartenberg import GROWTH, expression
from heft.models.robot import Robot
from heft.plants import random_states
from tests.robots import FloatArray
from tests.test_denavit_hartenberg import GRAVITY, Arm, spong

EXAMPLES = Path(__file__).parents[1] / "examples"
TIGHT = 1e-12
R, P = "revolute", "prismatic"
HALF_PI = 1.5707963267948966


@dataclass(frozen=True)
class Case:
    """A table of symbols beside the same in numbers."""

    convention: str
    rows: tuple[tuple[float, float, float, float, str], ...]  # a and d stand for symbols

    @property
    def arm(self) -> Arm:
        rng, bodies = np.random.default_rng(len(self.rows)), {}
        for k in range(1, len(self.rows) + 1):
            points = rng.normal(size=(3, 4))
            moments = points @ points.T
            central = 0.1 * (np.trace(moments) * np.eye(3) - moments)
            bodies[f"link{k}"] = from_body(
                float(rng.uniform(1.0, 3.0)), rng.normal(0.0, 0.2, 3), central
            )
        return Arm(self.convention, self.rows, bodies)

    @property
    def toml(self) -> str:
        lines = [
            f'  ["{"" if a else "0*"}a{k}", {alpha!r}, "d{k}", {theta!r}, "{kind}"],'
            for k, (a, alpha, _, theta, kind) in enumerate(self.rows, 1)
        ]
        head = ['gravity = ["gx", "gy", "gz"]', "[link]", f'convention = "{self.convention}"']
        return "\n".join([*head, "table = [", *lines, "]"])

    @property
    def values(self) -> Mapping[str, float]:
        found = dict(zip(("gx", "gy", "gz"), GRAVITY, strict=True))
        ten = ("m", "hx", "hy", "hz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
        for k, (a, _, d, _, _) in enumerate(self.rows, 1):
            found |= {f"a{k}": a, f"d{k}": d}
            body = self.arm.bodies[f"link{k}"]
            found |= {f"{t}{k}": float(x) for t, x in zip(ten, body, strict=True)}
        return found


CASES: dict[str, Case] = {
    "one": Case("standard", ((0.3, HALF_PI, 0.1, 0.2, R),)),
    "slides": Case("modified", ((0.3, 0.7, 0.1, 0.2, P),)),
    "plane": Case("modified", ((0.0, 0.0, 0.1, 0.0, R), (0.4, 0.0, -0.2, 0.0, R))),
    "oblique": Case("standard", ((0.2, 0.6, 0.3, 0.1, R), (0.5, -0.6, 0.2, 0.0, P))),
    "elbow": Case(
        "modified",
        ((0.0, 0.0, 0.3, 0.0, R), (0.2, -HALF_PI, 0.1, 0.0, R), (0.4, 0.0, 0.1, 0.0, R)),
    ),
    "scara": Case(
        "standard",
        ((0.4, 0.0, 0.3, 0.0, R), (0.3, 2 * HALF_PI, 0.0, 0.0, R), (0.0, 0.0, 0.2, 0.0, P)),
    ),
    "named parts": Case(
        "standard",
        (
            (0.2, HALF_PI, 0.3, 0.0, R),
            (0.4, 0.3, 0.1, 0.5, R),
            (0.1, -HALF_PI, 0.1, 0.0, P),
            (0.1, 0.0, 0.2, 0.0, R),
        ),
    ),
}


@cache
def derived(name: str) -> Derivation:
    return derive(CASES[name].toml.encode())


@cache
def example(name: str, drives: bool = False) -> Derivation:
    return derive_file(EXAMPLES / f"{name}.toml", drives)


def states(joints: int, count: int = 5) -> FloatArray:
    return np.random.default_rng(3).uniform(-2.0, 2.0, (count, 3, joints))


@pytest.mark.parametrize("name", CASES)
def test_every_quantity_is_pinocchios(name: str) -> None:
    case, d = CASES[name], derived(name)
    arm, n = case.arm, len(case.rows)
    model = arm.model()
    data = model.createData()
    pi = np.concatenate([arm.bodies[link] for link in d.links])
    # pinocchio's bodies stand in their joints' frames, standard links behind them
    into = np.zeros((10 * n, 10 * n))
    for k, (a, alpha, _, _, _) in enumerate(case.rows):
        place = np.eye(4) if case.convention == "modified" else spong(a, alpha, 0.0, 0.0)
        block = slice(10 * k, 10 * k + 10)
        into[block, block] = frame_change(place[:3, :3], place[:3, 3])
    number = {
        key: d.evaluated(getattr(d, key), case.values) for key in FUNCTIONS if key != "friction"
    }
    for q, v, a in states(n):

        def is_near(key: str, expected: Any, q: Any = q, v: Any = v, a: Any = a) -> None:
            got = number[key](q, v, a)
            size = max(1.0, float(np.abs(expected).max()))
            assert np.abs(got - expected).max() <= TIGHT * size, key

        M = pin.crba(model, data, q)
        M = np.triu(M) + np.triu(M, 1).T
        held = pin.computeGeneralizedGravity(model, data, q).copy()
        C = pin.computeCoriolisMatrix(model, data, q, v).copy()
        Y = pin.computeJointTorqueRegressor(model, data, q, v, a) @ into
        is_near("inertia_matrix", M)
        is_near("velocity_torque", pin.nonLinearEffects(model, data, q, v) - held)
        is_near("coriolis_matrix", C)
        is_near("gravity_torque", held)
        is_near("torque", pin.rnea(model, data, q, v, a))
        is_near("momentum", M @ v)
        is_near("kinetic_energy", pin.computeKineticEnergy(model, data, q, v))
        is_near("potential_energy", pin.computePotentialEnergy(model, data, q))
        is_near("regressor", Y)
        still = np.zeros(n)
        rest = pin.computeJointTorqueRegressor(model, data, q, still, still) @ into
        thrown = pin.computeJointTorqueRegressor(model, data, q, still, v) @ into
        is_near("momentum_regressor", thrown - rest)
        assert np.allclose(number["force_regressor"](q, v) @ pi, C.T @ v - held, rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", CASES)
def test_links_stand_where_the_table_says(name: str) -> None:
    case, d = CASES[name], derived(name)
    place = [d.evaluated(T, case.values) for T in d.base_transforms]
    U = [d.evaluated(row[0], case.values) for row in d.derivatives]
    second = [d.evaluated(row[-1][0], case.values) for row in d.second_derivatives]
    step = 1e-6
    for q, _, _ in states(len(d.q), 2):
        ahead, back = (case.arm.frames(q + s * step * np.eye(len(q))[0]) for s in (1, -1))
        for i, expected in enumerate(case.arm.frames(q)):
            assert np.allclose(place[i](q), expected, rtol=0.0, atol=TIGHT)
            assert np.allclose(U[i](q), (ahead[i] - back[i]) / (2 * step), rtol=0.0, atol=1e-8)
            assert np.array_equal(U[i](q)[3], np.zeros(4))  # no 1 in the corner
            last = d.evaluated(d.derivatives[i][-1], case.values)
            nudged = [last(q + s * step * np.eye(len(q))[0]) for s in (1, -1)]
            slope = (nudged[0] - nudged[1]) / (2 * step)
            assert np.allclose(second[i](q), slope, rtol=0.0, atol=1e-8)


def exactly_zero(matrix: Any) -> bool:
    """Whether entries are zero, as polynomials in exp(i q)."""
    return all(sympy.expand(x.rewrite(sympy.exp)) == 0 for x in sympy.Matrix(matrix))


@pytest.mark.parametrize("name", ["plane", "oblique", "elbow"])
def test_the_inertia_matrix_changes_as_the_coriolis_matrix_says_exactly(name: str) -> None:
    d = derived(name)
    D, C = sympy.Matrix(d.inertia_matrix), d.coriolis_matrix
    change = sum((D.diff(x) * y for x, y in zip(d.q, d.v, strict=True)), 0 * D)
    assert exactly_zero(change - C - C.T)
    h = sympy.Matrix([(sympy.Matrix([d.v]) * H * sympy.Matrix(d.v))[0] for H in d.velocity_tensor])
    assert exactly_zero(h - d.velocity_torque)
    assert exactly_zero(C * sympy.Matrix(d.v) - d.velocity_torque)
    slope = sympy.Matrix([d.potential_energy.diff(x) for x in d.q])
    assert exactly_zero(slope - d.gravity_torque)


def test_momentum_changes_as_torque_and_w1_say_exactly() -> None:
    d = example("two_link_drives", drives=True)
    pi = sympy.Matrix(d.standard)
    p = sympy.Matrix(d.momentum_regressor) * pi
    change = sum((p.diff(x) * y for x, y in zip(d.q, d.v, strict=True)), 0 * p)
    change += sum((p.diff(x) * y for x, y in zip(d.v, d.a, strict=True)), 0 * p)
    assert exactly_zero((change - d.force_regressor * pi - d.torque).expand())
    assert exactly_zero((d.regressor * pi - d.torque).expand())


L, g, m1, m2 = symbols("L g m1 m2", real=True)
q1, q2, w1, w2 = symbols("q1 q2 dq1 dq2", real=True)


def test_the_two_links_of_the_course_are_its_matrices() -> None:
    d, l2 = example("two_link"), L**2
    coupled = m2 * l2 / 3 + m2 * l2 * cos(q2) / 2
    first = m1 * l2 / 3 + 4 * m2 * l2 / 3 + m2 * cos(q2) * l2
    D = sympy.Matrix([[first, coupled], [coupled, m2 * l2 / 3]])
    H = sympy.Matrix(
        [
            -m2 * sin(q2) * l2 * w2**2 / 2 - m2 * sin(q2) * l2 * w1 * w2,
            m2 * sin(q2) * l2 * w1**2 / 2,
        ]
    )
    C = sympy.Matrix(
        [
            m1 * g * L * cos(q1) / 2 + m2 * g * L * cos(q1 + q2) / 2 + m2 * g * L * cos(q1),
            m2 * g * L * cos(q1 + q2) / 2,
        ]
    )
    # the same expressions, not only the same values
    assert d.inertia_matrix == D
    assert d.velocity_torque == H
    assert d.gravity_torque == C
    said = text(d)
    for line in (
        "D11 = L**2*m1/3 + L**2*m2*cos(q2) + 4*L**2*m2/3",
        "D12 = L**2*m2*cos(q2)/2 + L**2*m2/3",
        "h1 = -L**2*dq1*dq2*m2*sin(q2) - L**2*dq2**2*m2*sin(q2)/2",
        "C1 = L*g*m1*cos(q1)/2 + L*g*m2*cos(q1) + L*g*m2*cos(q1 + q2)/2",
    ):
        assert f"  {line}\n" in said


def test_the_second_homework_has_its_ten_parameters_and_gravity_the_other_sign() -> None:
    d = example("two_link_drives", drives=True)
    l1, r1, r2, I1, I2, Im1, Im2 = symbols("l1 r1 r2 I1 I2 Im1 Im2", real=True)
    friction = symbols("Fs1 Fs2 Fv1 Fv2", real=True)
    theta = (I1 + m2 * l1**2 + Im1, I2, m2 * r2 * l1, m1 * r1 + m2 * l1, m2 * r2, Im2, *friction)
    t = theta
    coupled = t[1] + t[2] * cos(q2)
    M = sympy.Matrix([[t[0] + t[1] + 2 * t[2] * cos(q2), coupled], [coupled, t[1] + t[5]]])
    turning = t[2] * sin(q2)
    C = sympy.Matrix([[-turning * w2, -turning * (w1 + w2)], [turning * w1, 0]])
    printed = sympy.Matrix(
        [-t[3] * g * cos(q1) - t[4] * g * cos(q1 + q2), -t[4] * g * cos(q1 + q2)]
    )
    rubbing = sympy.Matrix([t[6] * sign(w1) + t[8] * w1, t[7] * sign(w2) + t[9] * w2])
    assert (d.inertia_matrix - M).expand().is_zero_matrix
    assert (d.coriolis_matrix - C).expand().is_zero_matrix
    assert (d.gravity_torque + printed).expand().is_zero_matrix
    assert (d.friction - rubbing).expand().is_zero_matrix
    w = sympy.Matrix([w1, w2])
    W1 = sympy.Matrix([0, -turning * (w1 + w2) * w1]) + printed - rubbing
    pi = sympy.Matrix(d.standard)
    assert (d.force_regressor * pi - W1).expand().is_zero_matrix
    assert (d.momentum_regressor * pi - M * w).expand().is_zero_matrix


@pytest.mark.parametrize("name", [k for k in CASES if k != "named parts"])
def test_base_parameters_are_those_that_numbers_show(name: str) -> None:
    case, d = CASES[name], derived(name)
    n, columns = len(d.q), len(d.columns)
    q, v, a = np.moveaxis(states(n, 60), 1, 0)
    rows = d.evaluated(d.regressor, case.values)(q, v, a).reshape(-1, columns)
    labels = Labels(tuple(c.name for c in d.columns), ("1",) * columns, "robot")
    found = base_parameters(rows, labels, column_order(n, columns))
    assert d.base.kept == found.kept
    K = d.evaluated(d.base.matrix, case.values)(np.zeros(n))
    assert np.allclose(K, found.matrix, rtol=0.0, atol=1e-9)
    assert np.allclose(rows[:, found.kept] @ K, rows, rtol=0.0, atol=1e-11)


def test_seven_joints_have_the_base_parameters_that_numbers_show() -> None:
    angles = (0.0, -HALF_PI, HALF_PI, HALF_PI, -HALF_PI, -HALF_PI, HALF_PI)
    lengths = (0.34, 0.0, 0.4, 0.0, 0.4, 0.0, 0.126)
    rows = (f'[0, {x!r}, {d}, 0, "revolute"]' for x, d in zip(angles, lengths, strict=True))
    toml = f'name = "r"\n[link]\nconvention = "modified"\ntable = [{", ".join(rows)}]\n'.encode()
    d, robot = derive(toml), Robot.from_text(toml, path="robot.toml")
    motion = random_states(robot, 100, np.random.default_rng(5))
    Y = kernels.regressor(robot.tree, kernels.motion_of(robot.tree, robot.gravity, *motion))
    columns = len(d.columns)
    labels = Labels(tuple(c.name for c in d.columns), ("1",) * columns, "robot")
    found = base_parameters(Y.reshape(-1, columns), labels, column_order(7, columns))
    assert d.base.kept == found.kept and len(found.kept) == 43
    K = np.array(d.base.matrix.tolist(), dtype=float)
    assert np.allclose(K, found.matrix, rtol=0.0, atol=1e-9)


def test_polynomials_by_motion_are_the_same_ones_sorted() -> None:
    q, m, a = sympy.symbols("q m a")
    algebra = Expanded([m, a], [], [q], [], [])
    whole = algebra.lift(3 * m * sympy.cos(q) + a * m * sympy.cos(q) + 2 * a * sympy.sin(q) + m)
    parts = algebra.by_motion(whole)
    cos, sin, none = ((*e, *(0,) * (len(algebra.atoms) - 2)) for e in ((1, 0), (0, 1), (0, 0)))
    found = {motion: sympy.expand(algebra.expression(part)) for motion, part in parts.items()}
    assert found == {cos: 3 * m + a * m, sin: 2 * a, none: m}


def test_entries_are_named_by_row_and_column_counted_from_one() -> None:
    algebra: Any = SimpleNamespace(keep=lambda name, x: f"{name} = {x}")
    matrix = [[f"{r}{c}" for c in "1234"] for r in "123"]
    assert kept(algebra, "T", matrix).tolist() == [[f"T_{x} = {x}" for x in row] for row in matrix]


def test_base_parameters_have_closed_forms() -> None:
    d = example("two_link_drives", drives=True)
    l1 = symbols("l1", real=True)
    pi = {c.name: c for c in d.columns}
    leading = dict(zip([d.columns[k].name for k in d.base.kept], d.base.expressions, strict=True))
    assert leading["link1.h.x"] == pi["link1.h.x"] + l1 * pi["link2.m"]
    assert leading["link1.I.zz"] == pi["link1.I.zz"] + l1**2 * pi["link2.m"] + pi["joint1.armature"]
    assert leading["joint2.armature"] == pi["joint2.armature"]
    friction = [f"joint{k}.{term}" for term in ("coulomb", "viscous") for k in (1, 2)]
    assert [d.columns[k].name for k in d.base.kept][-4:] == friction


def test_base_parameters_of_symbolic_angles_are_those_of_textbooks() -> None:
    rows = (
        '["L1", "b", 0, 0, "revolute"], ["L2", "b", 0, 0, "revolute"], ["L3", 0, 0, 0, "revolute"]'
    )
    d = derive(f'[link]\nconvention = "modified"\ntable = [{rows}]\n'.encode())
    L2, L3, b = symbols("L2 L3 b", real=True)
    pi = {c.name: c for c in d.columns}
    leading = dict(zip([d.columns[k].name for k in d.base.kept], d.base.expressions, strict=True))
    offset = (pi["link2.h.z"] + pi["link3.h.z"]) * sin(b)
    assert sympy.simplify(leading["link1.h.y"] - pi["link1.h.y"] + offset) == 0
    inner = pi["link1.I.zz"] + L2**2 * (pi["link2.m"] + pi["link3.m"])
    outer = pi["link2.I.yy"] + pi["link3.I.yy"] + L3**2 * pi["link3.m"]
    assert sympy.simplify(leading["link1.I.zz"] - inner - sin(b) ** 2 * outer) == 0


@pytest.mark.parametrize("name", ["elbow", "named parts"])
def test_the_code_does_what_the_derivation_says_and_needs_numpy_alone(name: str) -> None:
    case, d = CASES[name], derived(name)
    source = numpy_source(d)
    assert [line for line in source.splitlines() if "import" in line.split()] == ["import numpy"]
    code: dict[str, Any] = {}
    exec(compile(source, "robot.py", "exec"), code)
    p = [case.values[name] for name in code["PARAMETERS"]]
    q, v, a = np.moveaxis(states(len(d.q)), 1, 0)
    for function, (arguments, _) in FUNCTIONS.items():
        given = [{"q": q, "v": v, "a": a}[x] for x in arguments]
        expected = d.evaluated(getattr(d, function), case.values)(q, v, a)
        got = code[function](*given, p)
        assert got.shape == expected.shape
        assert np.allclose(got, expected, rtol=0.0, atol=1e-11), function
        single = code[function](*(x[0] for x in given), p)
        assert np.allclose(single, got[0], rtol=0.0, atol=1e-11)
    Y, pi, K = code["regressor"](q, v, a, p), code["parameters"](p), code["base_matrix"](p)
    assert np.allclose(Y @ pi, code["torque"](q, v, a, p), rtol=0.0, atol=1e-11)
    assert np.allclose(Y[..., code["KEPT"]] @ K, Y, rtol=0.0, atol=1e-11)


def test_symbols_may_be_called_as_the_codes_own() -> None:
    row = '["a", 0, "x0", 0, "revolute"], ["v", 0, "cos_q1", 0, "prismatic"]'
    d = derive(f'[link]\nconvention = "standard"\ntable = [{row}]\n'.encode(), drives=True)
    values = {s.name: 0.1 * k for k, s in enumerate(d.symbols, 1)}
    code: dict[str, Any] = {}
    exec(compile(numpy_source(d), "robot.py", "exec"), code)
    p = [values[name] for name in code["PARAMETERS"]]
    q, v, a = states(2, 1)[0]
    assert np.allclose(code["torque"](q, v, a, p), d.evaluated(d.torque, values)(q, v, a))
    assert np.allclose(code["friction"](v, p), d.evaluated(d.friction, values)(q, v))


def test_the_same_file_gives_the_same_bytes() -> None:
    path = EXAMPLES / "two_link.toml"
    script = (
        "import sys; from heft.applications.derive import *\n"
        f"d = derive_file({str(path)!r}); sys.stdout.write(text(d) + latex(d) + numpy_source(d))"
    )
    call = [sys.executable, "-c", script]
    found = {
        subprocess.run(
            call, capture_output=True, check=True, env={**sys_path(), "PYTHONHASHSEED": k}
        ).stdout
        for k in ("1", "2")
    }
    assert len(found) == 1


def sys_path() -> dict[str, str]:
    return {"PYTHONPATH": ":".join(sys.path)}


def test_latex_is_whole() -> None:
    said = latex(example("two_link"))
    assert said.count(r"\begin{") == said.count(r"\end{") > 20
    assert said.count("{") == said.count("}")
    assert r"{D}_{2,2} = \frac{L^{2} m_{2}}{3}" in said
    equations = [k for k in said.splitlines() if not k.startswith((r"\paragraph", "%"))]
    assert r"\dot{q}_{1}^{2}" in said
    assert not any("dq" in k or "link1.m" in k for k in equations)


REFUSED: dict[str, str] = {
    "__import__('os').system('x')": "not known",
    "m1.real": "not known",
    "[m1]": "not known",
    "tan(m1)": "not known",
    "m1 if m2 else 0": "not known",
    "lambda: 0": "not known",
    "2*": "neither a number nor an expression",
    "9**9**9": "not a small whole",
    "((0.99**9)**9)**9": "grows too large",
    "1/(m1 - m1)": "division by zero",
    "sqrt(-1)": "no finite number",
    "dq1": "means something else",
    "m__1": "no name of a symbol",
    "+".join("m" * 100): "grows too large",
    "m" * 300: "too long",
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_is_no_expression_is_refused_by_name(said: str) -> None:
    toml = (
        (EXAMPLES / "two_link.toml").read_text().replace('"m2"', repr(said).replace("'", '"""', 0))
    )
    quoted = said.replace('"', "'")
    toml = (EXAMPLES / "two_link.toml").read_text().replace('"m2"', f'"{quoted}"')
    with pytest.raises(InvalidModel, match=REFUSED[said]) as caught:
        derive(toml.encode())
    assert caught.value.argument == "robot.toml, [inertial.link2], mass"


@pytest.mark.parametrize("factor", ["1", "a", "sin(pi)", "(-a)", "(+a)", "sin(a)"])
def test_each_number_and_name_grows_an_expression_by_one(factor: str) -> None:
    most = f"{factor}**{GROWTH // 2} * {factor}**{GROWTH // 2}"
    expression(most, "d")
    with pytest.raises(InvalidSetting, match="too large"):
        expression(f"{most} * {factor}", "d")


def test_numbers_in_an_expression_are_exact() -> None:
    assert expression("0.1*3 - 3/10", "here") == 0
    assert expression("cos(pi/2)", "here") == expression("cos(1.5707963267948966)", "here") == 0
    assert expression("-2**2", "here") == -4
    assert (
        expression("m1*L1**2/3", "here")
        == symbols("m1", real=True) * symbols("L1", real=True) ** 2 / 3
    )


def test_a_table_that_can_be_none_is_refused() -> None:
    good = (EXAMPLES / "two_link.toml").read_text()
    for old, new, says in (
        ('["L",   0,', '["L", "30*pi",', "more than a turn"),
        ('"m1*L**2/12", 0]', '"m1*L**2/12", "L"]', "not a symmetric"),
        ("[inertial.link2]", "[inertial.lnk2]", "did you mean 'link2'"),
        ('mass = "m1"', "mass = -1", "mass is negative"),
        ("[inertial.link1]\nmass", "[inertial.link1]\nmas", "did you mean 'mass'"),
    ):
        assert old in good
        with pytest.raises(InvalidModel, match=says):
            derive(good.replace(old, new, 1).encode())
    with pytest.raises(InvalidModel, match="'m2' stands for a link"):
        derive(good.partition("[inertial.link2]")[0].replace("m1", "m2").encode())
    with pytest.raises(InvalidSetting, match="'g' has no value"):
        example("two_link").evaluated(example("two_link").torque, {"L": 1.0})
    with pytest.raises(InputError, match="starts from a table"):
        derive_file("arm.urdf")


def test_the_command_writes_the_file_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "two_link.py"

    def run(*arguments: str) -> None:
        monkeypatch.setattr(sys, "argv", ["heft", "derive", *arguments])
        cli.main()

    table = str(EXAMPLES / "two_link.toml")
    with pytest.raises(SystemExit):
        run(table, "--format", "numpy", "--out", str(out))
    assert out.read_text() == numpy_source(example("two_link")) + "\n"
    monkeypatch.setitem(sys.modules, "sympy", None)
    with pytest.raises(SystemExit) as ended:
        run(table, "--out", str(tmp_path / "other.txt"))
    assert ended.value.code == 2
    assert "pip install 'heft-robotics[symbolic]'" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["two_link.py"]
