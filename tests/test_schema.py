"""The reader of JSON schemas accepts what `jsonschema` does, and finite numbers alone."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from heft.applications.identification.results import schema
from heft.files import require_schema

SMALL = Path(__file__).parents[1] / "fuzz/corpus/results/small.json"
ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 0.0, 1.0, -2.5, 10**400, "", "pass", "3.1", "x" * 99, [], [1],
    [None], [1.0, 2.0], ["a", "a"], {}, {"a": 1}, {"value": None},
)  # fmt: skip


def shortened(value: Any) -> Any:
    """Return a value whose lists have their first three entries, which are all that is changed."""
    if isinstance(value, dict):
        return {name: shortened(item) for name, item in value.items()}
    return [shortened(item) for item in value[:3]] if isinstance(value, list) else value


RESULT = shortened(json.loads(SMALL.read_text("utf-8")))


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths to all values in a value."""
    inner: list[Any] = []
    if isinstance(value, dict):
        inner = [(name, item) for name, item in value.items()]
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [path, *(p for name, item in inner for p in places(item, (*path, name)))]


def changed(rng: np.random.Generator) -> Any:
    """Return results with one value replaced, removed or added."""
    made = copy.deepcopy(RESULT)
    every = places(made)[1:]
    *path, last = every[int(rng.integers(len(every)))]
    holder = made
    for step in path:
        holder = holder[step]
    odd = ODD[int(rng.integers(len(ODD)))]
    kind = rng.integers(4)
    if kind == 0:
        del holder[last]
    elif kind == 1 and isinstance(holder, dict):
        holder["unheard of"] = odd
    else:
        holder[last] = odd
    return made


def accepted(value: Any, by: Any) -> bool:
    try:
        require_schema(value, by)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("seed", range(4))
def test_what_is_accepted_is_what_another_library_accepts(seed: int) -> None:
    rng, whole = np.random.default_rng(seed), schema()
    validator = jsonschema.Draft202012Validator(whole)
    assert accepted(RESULT, whole) and validator.is_valid(RESULT)
    found = []
    for _ in range(60):
        value = changed(rng)
        # An integer beyond all floating-point numbers is no finite one.
        own = accepted(value, whole)
        found.append(own)
        assert own == validator.is_valid(value) or str(10**400) in json.dumps(value)
    assert 0 < sum(found) < len(found)


KEYWORDS = {
    "type": ("number", ["integer", "null"], "object", "array", "boolean", "string"),
    "const": (1, "a", True, None),
    "enum": ([1, "a"], [None], [0, 1.5]),
    "pattern": ("^a", "b$"),
    "minimum": (0, 1.5),
    "maximum": (0, 1.5),
    "exclusiveMinimum": (0, 1),
    "minLength": (1, 2),
    "minItems": (1, 2),
    "maxItems": (0, 1),
    "minProperties": (1, 2),
    "required": (["a"], ["a", "b"]),
}
VALUES = (None, True, False, 0, 1, 1.5, -1, "a", "ab", "", [], [1], [1, 2], {}, {"a": 1})


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_each_keyword_says_what_the_standard_says(keyword: str) -> None:
    for wanted in KEYWORDS[keyword]:
        rule = {keyword: wanted}
        for inner in (rule, {"allOf": [rule]}, {"if": rule, "then": {}, "else": {"type": "null"}}):
            for value in VALUES:
                valid = jsonschema.Draft202012Validator(inner).is_valid(value)
                assert accepted(value, inner) == valid, (inner, value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400])
def test_a_number_is_finite(value: float) -> None:
    for kind in ("number", ["number", "null"]):
        with pytest.raises(ValueError, match="where type is"):
            require_schema(value, {"type": kind})


def test_an_unknown_keyword_is_no_rule_that_is_passed_over() -> None:
    with pytest.raises(KeyError):
        require_schema(1, {"multipleOf": 2})
