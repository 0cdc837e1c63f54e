"""What `estimate.json` says: its schema, and its tables as terminal, page and notebook show them.

All take its content as JSON has it, where None stands for what is infinite or no number.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from heft.display import Table, rounded
from heft.fit import NORMAL
from heft.information import PARAMETER_COUNT
from heft.plants import GEAR

Contract: TypeAlias = Mapping[str, Any]  # content of `estimate.json`
MODELS = ("robot.toml", "robot.xml", "robot.urdf")  # the first that is there is the model
JOINT = ("viscous", "coulomb", "offset", "armature")  # what is stated of each drive
LEAST_SEEN = 0.25  # share of a mass's doubt that data took away, from which its ± is stated
NOTHING = 1e-3  # share of a mass that is none


def packaged_schema() -> dict[str, Any]:
    """Return the JSON schema of `estimate.json` as it is shipped."""
    text = resources.files(__package__).joinpath("estimate.schema.json").read_text("utf-8")
    return dict(json.loads(text))


def percent(value: float | None) -> str:
    """Return a share as per cent, with two decimals below one; a dash if there is none."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:.2%}" if value < 0.00995 else f"{value:.1%}" if value < 1.0 else f"{value:.0%}"


def errors_before_and_after(entry: Mapping[str, Any]) -> str:
    """Return the torque errors of the model file before and after as a sentence."""
    kinds = ("model_file", "fitted_drives", "identified")
    before, drives, now = (percent(entry[kind]["total"]) for kind in kinds)
    where = "held out" if entry["held_out"] else "fitted"
    return (
        f"torque error on {Path(entry['path']).name} ({where}): {before} with the model file, "
        f"{drives} with its masses and fitted friction, {now} identified"
    )


def gone(share: float) -> float:
    """Return the share of a standard deviation that data removed, given that of the variance."""
    return 1.0 - math.sqrt(max(1.0 - share, 0.0))


def bodies(contract: Contract) -> Iterator[tuple[str, Sequence[Mapping[str, Any]]]]:
    """Yield each link's name and the entries of its mass, centre of mass and inertia."""
    entries = contract["parameters"]
    for k in range(0, len(entries), PARAMETER_COUNT):
        yield entries[k]["name"].removesuffix(".mass"), entries[k : k + PARAMETER_COUNT]


def links(contract: Contract) -> Table:
    """Return masses and centres of mass before and after."""
    rows = []
    for name, (mass, *others) in bodies(contract):
        given = "–" if mass["before"] is None else f"{mass['before']:.3g}"
        seen = gone(mass["share"])
        spread = f"±{mass['std']:.2g}" if seen >= LEAST_SEEN else "prior"
        low, high = mass["interval"]
        strict = _strictly(low, high, mass["value"])
        com = vector([(c["value"], c["std"]) for c in others[:3]])
        value = rounded(mass["value"], mass["std"])
        rows.append([name, given, value, spread, strict, com, f"{seen:.0%}"])
    units = ("before [kg]", "mass [kg]", "±", "strict 95 % [kg]", "centre of mass [m]")
    return Table("Links", ("link", *units, "from data"), rows)


def vector(numbers: Sequence[tuple[float, float]]) -> str:
    """Return a vector's components as text, rounded to the decimals of the largest one."""
    largest = max(numbers, key=lambda n: abs(n[0]))
    decimals = len(rounded(*largest).partition(".")[2])
    # Adding 0.0 leaves no minus before a zero.
    return ", ".join(f"{round(value, decimals) + 0.0:.{decimals}f}" for value, _ in numbers)


def _strictly(low: float, high: float | None, mass: float) -> str:
    """Return strict bounds of a mass as text; `open` where data and consistency say nothing."""
    if high is None:
        return f"{low:.3g} … open" if low > NOTHING * mass else "open"
    # As many decimals as the width has digits that count.
    decimals = max(0, 1 - math.floor(math.log10(max(high - low, NOTHING * mass))))
    return f"{max(low, 0.0):.{decimals}f} … {max(high, 0.0):.{decimals}f}"


def strict_masses(contract: Contract) -> str:
    """Return how wide the strict ranges of the masses are, as a sentence."""
    ends = [mass["interval"] for _, (mass, *_) in bodies(contract)]
    if not ends:
        return ""
    widths = [math.inf if high is None else high - low for low, high in ends]
    middle = float(np.median(widths))
    width = f"{middle:.2g} kg wide" if math.isfinite(middle) else "open"
    count = widths.count(math.inf)
    return f"Strict ranges of the masses: median {width}, {count} of {len(widths)} open."


def joints(contract: Contract) -> Table:
    """Return simple friction and rotor inertia of each drive, and its torque error."""
    scored = [s for s in contract["validation"] or contract["fit"] if counts(s)]
    rows = []
    for name, entry in {**contract["joints"], **contract["motors"]}.items():
        terms = {**entry["simple"], "armature": entry["armature"]}
        cells = [_term(terms.get(t), entry["std"].get(t)) for t in JOINT]
        errors = [s["per_joint"][name] for s in scored if name in s["per_joint"]]
        rows.append([name, *cells, f"{max(errors):.1%}" if errors else "–"])
    units = ("viscous [N·m·s/rad]", "Coulomb [N·m]", "offset [N·m]", "rotor [kg·m²]")
    return Table("Joints", ("joint", *units, "error"), rows)


def _term(value: float | None, std: float | None) -> str:
    if value is None:
        return "–"
    if std is None:
        return f"{rounded(value)} ±∞" if value else "–"
    return f"{rounded(value, std)} ±{std:.2g}" if value else "0*"


def counts(score: Mapping[str, Any]) -> bool:
    """Return whether checks look at a score: it is low-pass filtered, with full friction."""
    return score["filter_hz"] is not None and score["friction"] == "full"


def scores(contract: Contract) -> Table:
    """Return the torque errors of all logs."""
    rows = [
        [
            Path(s["path"]).name,
            role,
            s["friction"],
            "raw" if s["filter_hz"] is None else f"{s['filter_hz']:.3g} Hz",
            f"{s['total']:.2%}",
            f"{s['mean']:.2%}",
        ]
        for role, errors in (("fit", "fit"), ("held out", "validation"))
        for s in contract[errors]
    ]
    head = ("log", "role", "friction", "filter", "torque error", "mean of joints")
    return Table("Torque not explained", head, rows)


def missed(contract: Contract) -> Table:
    """Return each joint's torque errors before and after, and what is to be expected of it."""
    errors, expected = contract["torque_errors"], contract["predicted_error"]
    if errors is None:
        return Table("", (), [])
    kinds = [errors[kind] for kind in ("model_file", "fitted_drives", "identified")]
    rows = [["all", *(percent(s["total"]) for s in (*kinds, expected))]]
    rows += [
        [joint, *(percent(s["per_joint"][joint]) for s in (*kinds, expected))]
        for joint in errors["identified"]["per_joint"]
        if joint in expected["per_joint"]
    ]
    return Table(
        f"Torque error on {Path(errors['path']).name}, low-passed",
        ("joint", "model file", "its masses, fitted friction", "identified", "slow motion"),
        rows,
    )


def own(contract: Contract) -> Table:
    """Return the parameters of the user's own columns."""
    rows = [
        [
            e["name"],
            rounded(e["value"], e["std"]),
            f"±{e['std']:.2g}",
            e["unit"],
            f"{gone(e['share']):.0%}",
        ]
        for e in contract.get("own_columns", ())
    ]
    return Table("Own columns", ("own column", "value", "±", "unit", "seen"), rows)


def gears(contract: Contract) -> Table:
    """Return the numbers of elastic gears."""
    stated = {j: e["gear"] for j, e in contract["joints"].items() if "gear" in e}
    rows = [
        [joint, *(f"{rounded(gear[k], gear['std'][k])} ±{gear['std'][k]:.2g}" for k in GEAR)]
        for joint, gear in stated.items()
    ]
    return Table("Elastic gears", ("elastic gear", *GEAR), rows)


def alternatives(contract: Contract) -> Table:
    """Return the estimates by other methods, where one was asked for."""
    rows = [
        [
            a["name"],
            f"{a['parameters']} {a['what']}",
            "–" if a["error"] is None else f"{a['error']:.2%}",
            f"{a['existing']} of {a['bodies']}",
            "not known" if a["margin"] is None else f"{a['margin']:.2g}",
            f"{a['negative']}",
        ]
        for a in contract.get("alternatives", ())
    ]
    head = ("estimate", "parameters", "torque error", "links that can exist", "margin")
    return Table("Estimates of the same data", (*head, "friction < 0"), rows)


def all_numbers(contract: Contract) -> Table:
    """Return every number of the links with its interval."""
    rows = []
    for entry in contract["parameters"]:
        ends = ("open" if end is None else f"{end:.4g}" for end in entry["interval"])
        # Strict bounds know no prior; an inertia's interval follows from its deviation.
        assumed = ".inertia." in entry["name"] and entry["seen"] in ("prior", "not at all")
        rows.append(
            [
                entry["name"],
                "–" if entry["before"] is None else f"{entry['before']:.4g}",
                f"{entry['value']:.4g} {entry['unit']}",
                ("prior: " if assumed else "") + " … ".join(ends),
                f"{entry['seen']} ({gone(entry['share']):.0%})",
                f"{entry['pull']:+.2g}",
            ]
        )
    return Table("", ("number", "before", "now", "95 %", "seen", "moved by the prior"), rows)


def share_seen(contract: Contract) -> Table:
    """Return how much of each number the data saw; a dash where it has no effect."""
    rows = [
        [link, *("–" if e["seen"] == "not at all" else f"{gone(e['share']):.0%}" for e in entries)]
        for link, entries in bodies(contract)
    ]
    head = ("link", "mass", "cx", "cy", "cz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
    return Table("Share seen", head, rows, shaded=True)


def base(contract: Contract) -> Table:
    """Return the base parameters with their intervals."""
    rows = []
    for e in contract["base_parameters"]:
        value, std = e["value"], e["std"]
        if std is None:
            spread, ends = "∞", ["open"] * 2
        else:
            spread = "dropped" if std == 0.0 == value else f"±{std:.2g}"
            spread += ", anew" if e.get("anew") and spread != "dropped" else ""
            ends = [rounded(value + s * NORMAL * std, std) for s in (-1, 1)]
        closest = f"{e['correlation']:+.2f} {e['closest']}" if "closest" in e else "–"
        size, between = rounded(value, std), " … ".join(ends)
        rows.append([e["expression"], size, spread, between, e["unit"], closest])
    head = ("base parameter", "value", "±", "95 %", "unit", "most correlated with")
    return Table("", head, rows, sums=True)
