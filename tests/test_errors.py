"""What an error says."""

from __future__ import annotations

import pytest

from heft.errors import InvalidSetting


@pytest.mark.parametrize("count", [1, 24, 25, 400])
def test_names_that_are_valid_are_listed_up_to_24(count: int) -> None:
    names = tuple(f"joint{k}" for k in range(count))
    said = InvalidSetting("there is no such joint", argument="elbow", valid=names).explain()
    shown = [name for name in names if f"{name}," in f"{said},".replace("\n", ",")]
    assert len(shown) == min(count, 24)
    assert (f"({count} in all)" in said) == (count > 24)
