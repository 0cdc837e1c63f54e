"""What a roboticist types who has never seen heft, and what must come of it.

Habits are those of SciPy, statsmodels, pandas and scikit-learn. Calls run in a folder with
`arm.urdf`, `run1.csv`, `run2.csv`, `run1.parquet` and a saved result, `identified`, and see `heft`,
`np`, `Path`, `pydoc`, and what reading these gives: `robot`, `log`, `result`. `columns` is the
table as a dictionary of arrays, `frame` the same as a table of Arrow.

`holds` is an expression that is true of `it`, the call's value; `says` are words of the error.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Call:
    """A call as it is typed, and either what holds of its value or words of its error."""

    typed: str
    holds: str = ""
    says: tuple[str, ...] = ()


SAME = "abs(it.links['forearm'].mass - result.links['forearm'].mass) < 1e-9"

CALLS = (
    # identification: paths or objects, one or many
    Call('heft.identify("arm.urdf", "run1.csv")', SAME),
    Call('heft.identify("arm.urdf", ["run1.csv", "run2.csv"])', "'run2' in it.summary()"),
    Call('heft.identify(Path("arm.urdf"), Path("run1.csv"))', SAME),
    Call("heft.identify(robot, log)", SAME),
    Call('heft.identify(robot, "run1.csv")', SAME),
    Call('heft.identify(robot="arm.urdf", logs="run1.csv")', SAME),
    Call('heft.identify("arm.urdf", "run1.parquet")', SAME),
    Call('heft.identify("arm.urdf", frame)', SAME),
    Call('heft.identify("arm.urdf", columns)', SAME),
    Call('heft.identify("arm.urdf", [log, "run2.csv"])', "len(it.params) == len(result.params)"),
    Call(
        'heft.identify("arm.urdf", "run1.csv", held_out="run2.csv")', says=("held_out", "validate")
    ),
    # identification: mistakes
    Call('heft.identify("run1.csv", "arm.urdf")', says=("run1.csv", "model file first")),
    Call('heft.identify("nowhere.urdf", "run1.csv")', says=("nowhere.urdf", "does not exist")),
    Call('heft.identify("arm.urdf", "nowhere.csv")', says=("nowhere.csv", "does not exist")),
    Call('heft.identify("arm.urdf", [])', says=("logs", "at least one")),
    Call('heft.identify("arm.urdf", 3)', says=("logs", "int")),
    Call('heft.identify(42, "run1.csv")', says=("robot", "int")),
    Call('heft.identify("arm.urdf", np.zeros((10, 13)))', says=("logs", "ndarray", "columns")),
    Call('heft.identify("arm.urdf", "run*.csv")', says=("run*.csv", "glob")),
    # a result, looked at
    Call(
        "repr(result)", "len(it) <= 200 and '\\n' not in it and 'forearm' not in it and 'arm' in it"
    ),
    Call("result.summary()", "'forearm' in it and 'kg' in it and 'elbow' in it and '±' in it"),
    Call(
        "result._repr_html_()", "len(it.encode()) <= 60_000 and 'forearm' in it and '<table' in it"
    ),
    Call("print(result.verdict)", "it is None"),
    Call(
        "result.params", "all(isinstance(v, float) and isinstance(k, str) for k, v in it.items())"
    ),
    Call("result.bse", "list(it) == list(result.params) and all(v > 0 for v in it.values())"),
    Call(
        "result.cov()",
        "it.shape == (len(result.params),) * 2 and abs(it - it.T).max() <= 1e-11 * abs(it).max()"
        " and np.allclose(np.sqrt(np.diag(it)), list(result.bse.values()))",
    ),
    Call(
        "result.conf_int()",
        "list(it) == list(result.params)"
        " and all(low < result.params[name] < high for name, (low, high) in it.items())",
    ),
    Call(
        "result.conf_int(alpha=0.5)",
        "all(high - low < result.conf_int()[name][1] - result.conf_int()[name][0]"
        " for name, (low, high) in it.items())",
    ),
    Call(
        "result.to_frame()",
        "len(it) == len(result.params) and 'value' in getattr(it, 'column_names', it)",
    ),
    Call("result.plot()", "type(it).__name__ == 'Figure' and len(it.axes) >= 1"),
    # bodies and joints
    Call("list(result.links)", "'forearm' in it and 'tool0' not in it"),
    Call('result.links["forearm"].mass', "isinstance(it, float) and 0.5 < it < 20"),
    Call('result.links["forearm"].mass_std', "isinstance(it, float) and 0 < it"),
    Call('result.links["forearm"].com', "it.shape == (3,) and abs(it).max() < 1"),
    Call('result.links["forearm"].com_std', "it.shape == (3,) and it.min() > 0"),
    Call(
        'result.links["forearm"].inertia', "it.shape == (3, 3) and np.linalg.eigvalsh(it).min() > 0"
    ),
    Call('repr(result.links["forearm"])', "'forearm' in it and 'kg' in it and len(it) <= 200"),
    Call('result.links["fore_arm"]', says=("fore_arm", "forearm")),
    Call('result.joints["elbow"]', "'elbow' in repr(it) and len(repr(it)) <= 200"),
    Call('result.joints["elbow"].viscous', "isinstance(it, float)"),
    # prediction
    Call('result.predict("run2.csv")', "it.torque.shape[1] == 3 and np.isfinite(it.torque).all()"),
    Call("result.predict(log)", "it.torque.shape[1] == 3 and np.isfinite(it.torque).all()"),
    Call('result.score("run2.csv")', says=("score", "validate")),
    # files
    Call('result.save("out")', "heft.load('out').params == result.params"),
    Call('result.report("out.html")', "'<html' in Path('out.html').read_text()[:500]"),
    Call('result.to_urdf("new.urdf")', "'<mass' in Path('new.urdf').read_text()"),
    Call('heft.load("identified")', SAME),
    Call('heft.load(Path("identified")).predict("run2.csv").torque', "it.shape[1] == 3"),
    Call('heft.Identified.load("identified")', SAME),
    Call('heft.load("nowhere")', says=("nowhere", "no such")),
    Call('heft.load("arm.urdf")', says=("arm.urdf", "Robot.from_file")),
    Call('heft.Robot("arm.urdf")', says=("arm.urdf", "Robot.from_urdf")),
    Call('heft.Recording("run1.csv")', says=("run1.csv", "Recording.open")),
    # checks and loads
    Call(
        'heft.check("run1.csv", "arm.urdf")', "isinstance(repr(it), str) and len(repr(it)) <= 200"
    ),
    Call(
        "heft.check(log, robot).summary()",
        "'run1.csv: clean' in it and '15 of 15 base parameters' in it",
    ),
    Call('heft.check("run1.csv")', "it.motion is None and not it.spoilt"),
    Call('heft.payload("arm.urdf", "run1.csv", "run2.csv").mass', "isinstance(it, float)"),
    Call('heft.payload(result, "run2.csv").mass_std', "it > 0"),
    Call('heft.payload("identified", Path("run2.csv"))', says=("empty.csv", "loaded.csv")),
    # help
    Call("pydoc.render_doc(heft)", "it.count('\\n') <= 100 and '>>>' in it and 'run1' in it"),
)
