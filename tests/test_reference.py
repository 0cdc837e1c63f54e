"""The reference says of a field what stands beside it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import griffe
import pytest

DOCS = Path(__file__).parents[1] / "docs"
MODULE = '''
class Link:
    """A body.

    {section}Raises:
        ValueError: If it has no mass.
    """

    mass: float  # of the link, without its rotor [kg]
    # p-values of the hypotheses that it has not changed, of those
    # that were tested
    changed: tuple[float, ...] = ()
    # begin, end: when it was there [s]
    begin: float = 0.0
    end: float = 1.0
    name: str = ""

    def __init__(self) -> None:
        # What is set here is no field.
        self.inside = 1
'''
SAID = {
    "mass": "Of the link, without its rotor [kg].",
    "changed": "p-values of the hypotheses that it has not changed, of those that were tested.",
    "begin": "When it was there [s].",
    "end": "When it was there [s].",
}


@pytest.mark.parametrize("section", ["", "Attributes:\n        other: What no field is.\n\n    "])
def test_comments_of_fields_are_attributes_of_their_class(section: str, tmp_path: Path) -> None:
    (tmp_path / "links.py").write_text(MODULE.format(section=section))
    spec = importlib.util.spec_from_file_location("fields", DOCS / "fields.py")
    assert spec is not None and spec.loader is not None
    fields = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fields)
    extensions = griffe.load_extensions(fields.Fields)
    loaded = griffe.GriffeLoader(search_paths=[tmp_path], extensions=extensions).load("links")
    docstring = loaded["Link"].docstring
    assert docstring is not None
    parts = {p.kind.value: p.value for p in docstring.parse("google", warnings=False)}
    found = {a.name: " ".join(a.description.split()) for a in parts["attributes"]}
    assert found == SAID | ({"other": "What no field is."} if section else {})
    assert [error.description for error in parts["raises"]] == ["If it has no mass."]
