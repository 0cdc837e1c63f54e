"""Readers of settings: what they take, and where they say that something is wrong."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heft.errors import InvalidSetting
from heft.files import (
    Number,
    Section,
    Text,
    check_fields,
    list_of,
    name_list,
    named,
    number,
    read_toml,
    rows_of,
    truth,
)


@dataclass(frozen=True)
class Drive:
    gain: float = 1.0
    law: str = "full"

    def __post_init__(self) -> None:
        if self.law == "none" and self.gain != 1.0:
            raise InvalidSetting("no law, no gain", argument="gain", cure="leave it out")


GAIN = Number("a gain is positive", above=0.0, unit="N·m/A", cure="turn it round")
DRIVE = Section(Drive, {"gain": GAIN, "law": Text("no such law", ("full", "none"))})
ROBOT = Section(
    dict,
    {
        "drive": named(DRIVE, "[drive.NAME] tables are expected"),
        "rows": list_of(list_of(number, 2), of="rows", entry=", row "),
        "links": name_list,
        "matrix": rows_of(number),
        "fixed": truth,
    },
)


def test_what_is_not_said_stays_as_the_dataclass_has_it(tmp_path: Path) -> None:
    path = tmp_path / "robot.toml"
    path.write_text("fixed = true\n[drive.elbow]\ngain = 2\n[drive.'a b']\nlaw = 'none'\n")
    read = ROBOT(read_toml(path), str(path))
    assert read == {
        "drive": {"elbow": Drive(2.0), "a b": Drive(law="none")},
        "fixed": True,
    }


BAD: dict[str, tuple[dict[str, Any], str, str, str | None]] = {
    "unknown": ({"drives": {}}, "'drives' is not known", "f", "did you mean 'drive'?"),
    "unknown below": ({"drive": {"a": {"gian": 1}}}, "'gian'", "f, [drive.a]", "'gain'"),
    "no table": ({"drive": 3}, "tables are expected", "f, [drive]", None),
    "no table below": ({"drive": {"a": 3}}, "a table is expected", "f, [drive.a]", None),
    "bound": ({"drive": {"a": {"gain": 0}}}, "above 0", "f, [drive.a], gain", "turn it round"),
    "nan": ({"drive": {"a": {"gain": math.nan}}}, "finite", "f, [drive.a], gain", "turn"),
    "text": ({"drive": {"a": {"law": "ful"}}}, "no such law", "f, [drive.a], law", "'full'"),
    "two keys": ({"drive": {"a": {"law": "none", "gain": 2}}}, "no law", "[drive.a], gain", "out"),
    "entry": ({"rows": [[1, 2], [3, "4"]]}, "finite number", "f, rows, row 2", None),
    "length": ({"rows": [[1, 2, 3]]}, "a list of 2 numbers", "f, rows, row 1", None),
    "ragged": ({"matrix": [[1, 2], [3]]}, "differ in length", "f, matrix", None),
    "twice": ({"links": ["a", "a"]}, "twice", "f, links", None),
    "not true": ({"fixed": 1}, "true or false", "f, fixed", None),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_said_with_its_place_and_its_cure(case: str) -> None:
    table, says, where, cure = BAD[case]
    with pytest.raises(InvalidSetting, match=says) as caught:
        ROBOT(table, "f")
    assert str(caught.value.argument).endswith(where)
    assert (cure or "") in (caught.value.cure or "") and (cure is None) == (
        caught.value.cure is None
    )


def test_a_required_key_that_is_missing_is_told_by_its_reader() -> None:
    part = Section(dict, {"file": Text("a file is expected"), "offset": number}, required=("file",))
    with pytest.raises(InvalidSetting, match="a file is expected") as caught:
        part({"offset": 1.0}, "run.toml, part 1")
    assert caught.value.argument == "run.toml, part 1, file"


@pytest.mark.parametrize(
    ("reader", "good", "bad"),
    [
        (Number("", least=0.0, most=1.0), (0, 1, 0.5, np.float64(1.0)), (-1e-9, 1.1, math.nan)),
        (Number("", above=0.0, below=1.0), (0.5,), (0.0, 1.0, math.inf)),
        (Number("", 1, 8, whole=True), (1, 8), (0, 9, 2.0, 2.5)),
        (Number("", holds=bool), (-1.0, 1e12), (0, 0.0, 1e13)),
        (number, (-1e12, 3), (True, False, "1", [1.0], None, 10**400, -math.inf)),
    ],
)
def test_numbers_are_within_their_bounds(
    reader: Number, good: tuple[object, ...], bad: tuple[object, ...]
) -> None:
    assert [reader(x, "x") for x in good] == list(good)
    for value in bad:
        with pytest.raises(InvalidSetting) as caught:
            reader(value, "x")
        assert caught.value.expected == reader.expected


def test_settings_made_in_python_are_checked_alike() -> None:
    @dataclass(frozen=True)
    class Filter:
        corner: float | None = None
        order: int = 4

        def __post_init__(self) -> None:
            checks = {"corner": Number("", above=0.0), "order": Number("", 1, 8, whole=True)}
            check_fields(self, checks)

    assert Filter().corner is None and Filter(10.0).corner == 10.0
    for wrong in ({"corner": 0.0}, {"order": None}, {"order": 9}):
        with pytest.raises(InvalidSetting) as caught:
            Filter(**wrong)  # type: ignore[arg-type]
        assert caught.value.argument in wrong
