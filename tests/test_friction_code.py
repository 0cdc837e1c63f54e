"""Friction written as Python and as C: both say what the terms' definitions say.

The witness is numpy, term by term; the files run as a user would run them, without heft.
"""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from heft.dynamics import drive_columns
from heft.errors import InputError
from heft.models.friction_code import c_source, python_source
from heft.models.options import Coupling, JointOptions, Options
from heft.models.robot import Robot
from tests.robots import PLANAR_ARM, FloatArray

Entries = Mapping[str, Mapping[str, Any]]


def full(*terms: tuple[str, float | None, float]) -> dict[str, Any]:
    """Return a drive as `estimate.json` has it, as far as friction goes."""
    return {"full": [{"term": t, "scale": s, "value": v} for t, s, v in terms]}


RICH = full(
    ("viscous", None, 0.7),
    ("sigmoid", 0.013, 2.3),
    ("stop", 2e-4, 1.0 / 3.0),
    ("load", 0.02, 0.11),
    ("offset", None, -0.3),
    ("stribeck", 0.04, 0.9),
)
SIMPLE = full(("viscous", None, 0.1), ("coulomb", None, 1.7), ("offset", None, 0.05))
STACKED = full(
    *(("sigmoid", s, v) for s, v in ((1e-3, 0.3), (0.1, 0.7), (3.0, -0.2))),
    *(("stop", s, v) for s, v in ((1e-6, 0.1), (1e-4, 0.2), (1e-2, 0.4))),
)
NASTY = (
    "*/ int main(void) { return 1; } /*",
    "/*/",
    "**/",
    "/",
    "*",
    "??/",
    "one\ntwo\r\nthree",
    "back\\slash\\",
    "a \"quoted\" 'name'",
    "it's",
    '"""',
    "'''",
    "$joints ${drives} $$ $",
    "{0} %s",
    "größer 重",
    "\u2028\u202e\x00\x1b",
    "\ud800",
    "# noqa",
    "",
)
CASES: dict[str, tuple[str, Entries, Entries]] = {
    "every term": ("arm", {"shoulder": RICH, "elbow": SIMPLE}, {}),
    "terms more than once": ("arm", {"shoulder": STACKED, "elbow": RICH}, {}),
    "a coupled motor": (
        "arm",
        {"a": SIMPLE, "b": full(), "c": RICH},
        {
            "m1": {"speed": {"b": -0.4, "a": 1.0}} | STACKED,
            "m2": {"speed": {"a": 1.0, "b": 2.0 / 3.0, "c": -1.0}}
            | full(("stop", 1e-3, 0.9), ("coulomb", None, 0.4)),
            "m3": {"speed": {"a": 1.0, "b": 1.0}} | full(),
        },
    ),
    "a prismatic joint": (
        "gantry",  # metres and newtons: nothing but the numbers' size is another
        {"slide": full(("viscous", None, 80.0), ("stop", 3e-6, 35.0), ("sigmoid", 1e-3, 12.0))},
        {},
    ),
    "one term": ("arm", {"shoulder": full(("offset", None, 0.2)), "elbow": full()}, {}),
    "no friction": ("arm", {"shoulder": full(), "elbow": full()}, {}),
    "terms of no value": (
        "arm",
        {"shoulder": full(("viscous", None, 0.0), ("stop", 1e-3, -0.0)), "elbow": SIMPLE},
        {"m": {"speed": {"shoulder": 1.0, "elbow": 0.0}} | full(("sigmoid", 0.1, 0.0))},
    ),
    "numbers of all sizes": (
        "arm",
        {"j": full(("viscous", None, 1e-300), ("sigmoid", 1e-9, 1e5), ("stop", 1e3, 1e22))},
        {},
    ),
    "names that anyone may give": (
        NASTY[0],
        dict.fromkeys(NASTY, RICH),
        {name: {"speed": {NASTY[0]: 1.0, NASTY[-1]: 0.5}} | SIMPLE for name in NASTY},
    ),
}
SAMPLES = 3000
RESET = 2000  # the memory is made to forget before samples 0, RESET, 2 RESET, …


def motion(joints: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return positions, velocities and rigid efforts, shape (SAMPLES, joints) each.

    They hold strokes, reversals of any size, standstill, and a row that is not a number.
    """
    rng = np.random.default_rng(joints)
    size = 10.0 ** rng.uniform(-5.0, 0.5, (SAMPLES // 50, joints)).repeat(50, axis=0)
    v = size * np.sin(np.arange(SAMPLES)[:, None] * rng.uniform(0.05, 0.3, joints))
    v[rng.random(SAMPLES // 50).repeat(50) < 0.2] = 0.0
    v[:20] = 0.0
    q = rng.uniform(-3.0, 3.0, joints) + np.cumsum(1e-3 * v, axis=0)
    tau = 30.0 * rng.standard_normal((SAMPLES, joints))
    for x in (q, v, tau):
        x[-50] = np.nan
    return q, v, tau


def memory(x: FloatArray, width: float) -> FloatArray:
    z = np.zeros_like(x)
    for k in range(1, len(x)):
        z[k] = np.clip(z[k - 1] + (x[k] - x[k - 1]), -width, width)
    return z


def term(
    kind: str, scale: float | None, x: FloatArray, w: FloatArray, load: FloatArray
) -> FloatArray:
    match kind, scale:
        case "viscous", None:
            return w
        case "coulomb", None:
            return np.sign(w)
        case "offset", None:
            return np.ones_like(w)
        case "sigmoid", float(s):
            return np.tanh(w / s)
        case "load", float(s):
            return np.tanh(w / s) * load
        case "stop", float(s):
            return memory(x, s) / s
        case "stribeck", float(s):
            width = 0.015 * s
            return memory(x, width) / width * np.exp(-((w / s) ** 2))
    raise AssertionError(kind)


def reference(
    joints: Entries, motors: Entries, q: FloatArray, v: FloatArray, tau: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return friction and what another may differ by, by the definitions, of one motion.

    Positions and speeds are summed in model order, as the files do, so that rounding differs in
    the terms and their sum alone: numpy's tanh is good to 4 ulp, a libm's to 2, and each
    operation behind them to half an ulp on either side.
    """
    drives = [({name: 1.0}, entry["full"]) for name, entry in joints.items()]
    drives += [(dict(m["speed"]), m["full"]) for m in motors.values()]
    ulps = 6 + 4 + sum(len(terms) + 2 for _, terms in drives)
    total, size = np.zeros_like(q), np.zeros_like(q)
    for speed, terms in drives:
        x = w = np.zeros(len(q))
        for k, name in enumerate(joints):
            if name in speed:
                x, w = x + speed[name] * q[:, k], w + speed[name] * v[:, k]
        for entry in terms:
            if entry["value"] == 0.0:
                continue
            load = np.abs(tau[:, list(joints).index(next(iter(speed)))])
            effort = entry["value"] * term(entry["term"], entry["scale"], x, w, load)
            for k, name in enumerate(joints):
                if speed.get(name):
                    total[:, k] += speed[name] * effort
                    size[:, k] += np.abs(speed[name] * effort)
    return total, ulps * np.finfo(float).eps * size


def expected(joints: Entries, motors: Entries) -> tuple[FloatArray, FloatArray]:
    """Return `reference` over `motion`, the memory reset where it is."""
    samples = motion(len(joints))
    pieces = [
        reference(joints, motors, *(x[k : k + RESET] for x in samples))
        for k in range(0, SAMPLES, RESET)
    ]
    total, bound = (np.concatenate(p) for p in zip(*pieces, strict=True))
    return total, bound


def same(found: FloatArray, joints: Entries, motors: Entries) -> bool:
    total, bound = expected(joints, motors)
    strange = np.isnan(total)
    assert found.shape == total.shape and not strange[:-50].any()
    assert np.array_equal(np.isnan(found), strange)
    return bool((np.abs(found - total) <= bound)[~strange].all())


def loaded(source: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(source, "friction.py", "exec", dont_inherit=True), names)
    return names


# Python


@pytest.mark.parametrize("case", CASES)
def test_python_says_what_the_terms_say(case: str) -> None:
    robot, joints, motors = CASES[case]
    model = loaded(python_source(robot, joints, motors))["Friction"]()
    found = []
    for k, row in enumerate(zip(*motion(len(joints)), strict=True)):
        if k and k % RESET == 0:
            model.reset()
        found.append(model.torque(*row))
    assert {type(x) for row in found for x in row} == {float}
    assert same(np.array(found), joints, motors)


DRIVER = f"""
if __name__ == "__main__":
    import json
    import sys

    friction = Friction()
    for k, row in enumerate(json.load(sys.stdin)):
        if k % {RESET} == 0:
            friction.reset()
        print(json.dumps(friction.torque(*row)))
"""


@pytest.mark.parametrize("case", CASES)
def test_python_runs_alone_and_says_the_same(case: str, tmp_path: Path) -> None:
    robot, joints, motors = CASES[case]
    file = tmp_path / "friction.py"
    file.write_text(python_source(robot, joints, motors) + DRIVER, encoding="utf-8")
    answer = subprocess.run(
        [sys.executable, "-I", "-S", "-W", "error", str(file)],
        input=json.dumps(np.stack(motion(len(joints)), axis=1).tolist()),
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    found = np.array([json.loads(line) for line in answer.stdout.splitlines()])
    assert same(found, joints, motors)


@pytest.mark.parametrize("case", CASES)
def test_python_is_clean(case: str, tmp_path: Path) -> None:
    source = python_source(*CASES[case])
    imported = [
        n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Import | ast.ImportFrom)
    ]
    assert [ast.unparse(n) for n in imported] == ["import math"]
    assert loaded(source)["JOINTS"] == tuple(CASES[case][1])
    pytest.importorskip("ruff")
    file = tmp_path / "friction.py"
    file.write_text(source, encoding="utf-8")
    odd = case in ("names that anyone may give", "numbers of all sizes")  # quotes, 1e+22
    for verb in (["check"], *([] if odd else [["format", "--check"]])):
        call = [sys.executable, "-m", "ruff", *verb, "--isolated", "--no-cache", str(file)]
        answer = subprocess.run(call, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.parametrize("count", [0, 1, 3])
def test_python_refuses_arguments_of_another_length(count: int) -> None:
    model = loaded(python_source(*CASES["every term"]))["Friction"]()
    good, bad = [0.0] * 2, [0.0] * count
    for arguments in ((bad, good, good), (good, bad, good), (good, good, bad)):
        with pytest.raises(ValueError, match="shoulder"):
            model.torque(*arguments)


# C

MAIN = f"""
#include <stdio.h>
#include "friction.c"
#include "friction.c"

int main(void)
{{
    heft_friction_state state;
    double row[3][HEFT_FRICTION_JOINTS], torque[HEFT_FRICTION_JOINTS];
    long k = 0;

    heft_friction_reset(&state);
    while (fread(row, sizeof row, 1, stdin) == 1) {{
        if (k++ % {RESET} == 0) {{
            heft_friction_reset(&state);
        }}
        heft_friction_torque(&state, row[0], row[1], row[2], torque);
        if (fwrite(torque, sizeof torque, 1, stdout) != 1) {{
            return 1;
        }}
    }}
    return 0;
}}
"""
STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic", "-O2", "-ffp-contract=off")
LANGUAGES = {
    "C": (("cc", "gcc", "clang"), ("-x", "c", "-std=c99")),
    "C++": (("c++", "g++", "clang++"), ("-x", "c++", "-std=c++11")),
}


def compiled(language: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Compile `main.c` of a folder to `main`; skip where there is no compiler."""
    names, flags = LANGUAGES[language]
    compiler = next((c for c in map(shutil.which, names) if c), None)
    if compiler is None:
        pytest.skip(f"no {language} compiler: NOTHING IS TESTED OF THE {language} THAT IS WRITTEN")
    (folder / "main.c").write_text(MAIN)
    call = [compiler, *flags, *STRICT, "main.c", "-o", "main", "-lm"]
    return subprocess.run(call, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("case", CASES)
def test_c_says_what_the_terms_say(case: str, language: str, tmp_path: Path) -> None:
    robot, joints, motors = CASES[case]
    (tmp_path / "friction.c").write_text(c_source(robot, joints, motors), encoding="ascii")
    answer = compiled(language, tmp_path)
    assert answer.returncode == 0, answer.stderr
    rows = np.stack(motion(len(joints)), axis=1)
    output = subprocess.run(
        [str(tmp_path / "main")], input=rows.tobytes(), capture_output=True, check=True
    ).stdout
    assert same(np.frombuffer(output).reshape(SAMPLES, -1), joints, motors)


def test_c_of_two_robots_does_not_mix(tmp_path: Path) -> None:
    robot, joints, motors = CASES["every term"]
    second = c_source(robot, joints | {"elbow": full(("viscous", None, 0.1))}, motors)
    (tmp_path / "second.c").write_text(second)
    first = c_source(robot, joints, motors)
    (tmp_path / "friction.c").write_text(f'{first}#include "second.c"\n')
    answer = compiled("C", tmp_path)
    assert answer.returncode != 0
    assert "redefinition" in answer.stderr or "conflicting" in answer.stderr


# Both


@pytest.mark.parametrize("case", CASES)
def test_the_files_begin_with_whose_friction_it_is(case: str) -> None:
    robot = CASES[case][0]
    for source in (python_source(*CASES[case]), c_source(*CASES[case])):
        first = source.splitlines()[0]
        assert first[:2] in ("# ", "/*")
        assert "heft" in first
        assert robot in first or robot in NASTY


def test_names_change_nothing_but_comments_and_strings() -> None:
    _, joints, motors = CASES["names that anyone may give"]
    plain = {name: f"j{k}" for k, name in enumerate(NASTY)}
    tame = {plain[k]: v for k, v in joints.items()}
    moved = {
        plain[k]: {"speed": {plain[j]: r for j, r in m["speed"].items()}, "full": m["full"]}
        for k, m in motors.items()
    }
    wild, calm = (loaded(python_source("r", *x)) for x in ((joints, motors), (tame, moved)))
    assert wild["DRIVES"] == calm["DRIVES"]
    assert c_source("r", joints, motors).count("\n") == c_source("r", tame, moved).count("\n")


def test_terms_of_no_value_and_drives_that_move_nothing_are_left_out() -> None:
    robot, joints, motors = CASES["terms of no value"]
    for write in (python_source, c_source):
        lean = write(robot, {"shoulder": full(), "elbow": SIMPLE}, {})
        assert write(robot, joints, motors | {"idle": {"speed": {}} | SIMPLE}) == lean


@pytest.mark.parametrize("kind", ["full", "simple"])
def test_friction_is_what_heft_fits(kind: Literal["full", "simple"]) -> None:
    """What `heft.friction` makes columns of, memory, load, coupled motors and all."""
    coupling = Coupling((), ("m1", "m2"), ((1.0, -0.5), (0.3, 1.0)))
    joint = dict.fromkeys(("shoulder", "elbow"), JointOptions(friction=kind))
    robot = Robot.from_urdf_text(PLANAR_ARM, Options(coupling=coupling, joint=joint))
    rng = np.random.default_rng(3)
    values = {
        f"{robot.drives[d].name}.{t.name}": float(rng.uniform(0.1, 1.0))
        for d, t in robot.drive_columns
        if t.kind != "armature"
    }
    joints: dict[str, Any] = {}
    motors: dict[str, Any] = {}
    for drive in robot.drives:
        found = [
            (t.kind, t.scale, values[f"{drive.name}.{t.name}"])
            for t in drive.terms
            if t.kind != "armature"
        ]
        if drive.name in robot.joints:
            joints[drive.name] = full(*found)
        else:
            speed = dict(zip(robot.joints, drive.ratio.tolist(), strict=True))
            motors[drive.name] = full(*found) | {"speed": speed}
    assert len(motors) == 2
    q, v, rigid = (x[:-50].T for x in motion(2))
    model = loaded(python_source(robot.name, joints, motors))["Friction"]()
    written = np.array([model.torque(*row) for row in zip(q.T, v.T, rigid.T, strict=True)]).T
    memory = drive_columns.presliding(robot.drives, 1e-3 * np.arange(q.shape[1]), q)
    state = drive_columns.DriveState(q, v, np.zeros_like(v), memory.values, rigid)
    fitted = drive_columns.effort(robot.drives, values, state)
    # A position is summed before its change is taken: its rounding over the narrowest width.
    narrow = min((t.scale or 1.0 for d in robot.drives for t in d.terms), default=1.0)
    size = np.abs(v).max() + np.abs(rigid).max() + np.abs(q).max() / narrow
    assert np.allclose(written, fitted, rtol=0.0, atol=64 * np.finfo(float).eps * size)


BAD: dict[str, tuple[Entries, Entries]] = {
    "no joints": ({}, {}),
    "an unknown term": ({"j": full(("dahl", 0.1, 1.0))}, {}),
    "a stop without a width": ({"j": full(("stop", None, 1.0))}, {}),
    "a width of zero": ({"j": full(("stop", 0.0, 1.0))}, {}),
    "a negative scale": ({"j": full(("sigmoid", -0.1, 1.0))}, {}),
    "an infinite scale": ({"j": full(("load", np.inf, 1.0))}, {}),
    "a scale where none is": ({"j": full(("viscous", 0.1, 1.0))}, {}),
    "a value that is no number": ({"j": full(("viscous", None, np.nan))}, {}),
    "a value that is text": (
        {"j": {"full": [{"term": "offset", "scale": None, "value": "1"}]}},
        {},
    ),
    "no value": ({"j": {"full": [{"term": "offset", "scale": None, "value": None}]}}, {}),
    "the load of a motor": (
        {"j": full(), "k": full()},
        {"m": {"speed": {"j": 1.0, "k": 1.0}} | full(("load", 0.1, 1.0))},
    ),
    "a motor of another robot": ({"j": full()}, {"m": {"speed": {"k": 1.0}} | SIMPLE}),
    "a ratio that is no number": ({"j": full()}, {"m": {"speed": {"j": np.nan}} | SIMPLE}),
}


@pytest.mark.parametrize("write", [python_source, c_source])
@pytest.mark.parametrize("case", BAD)
def test_what_is_no_friction_is_not_written(case: str, write: Any) -> None:
    with pytest.raises(InputError):
        write("arm", *BAD[case])
