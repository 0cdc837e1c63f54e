"""HTML from templates: files beside the modules that fill them; values put into one are escaped.

A page holds its own style and script and may load nothing: its policy names both by their hashes,
so that no other script runs in it, wherever its text came from.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from heft import __version__
from heft.errors import visible, visible_lines

from .text import split_sum

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')
JSON: dict[str, Any] = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":")}


class Drawings:
    """The numbers of a page's plots and scenes, as its script reads them; each array once."""

    def __init__(self) -> None:
        self._arrays: dict[bytes, int] = {}
        self._drawings: list[dict[str, Any]] = []

    def add(self, content: Mapping[str, Any]) -> int:
        """Add the content of a `Plot` or `Sticks`; return its index on the page.

        Args:
            content: Arrays of its series that were added before are not stored again.
        """
        own = dict(content)
        if "series" in own:
            own["series"] = [{k: self._place(v) for k, v in s.items()} for s in own["series"]]
        self._drawings.append(own)
        return len(self._drawings) - 1

    @property
    def content(self) -> dict[str, Any]:
        """All numbers: arrays of 32-bit floats as base64, and drawings that refer to them."""
        arrays = [base64.b64encode(data).decode("ascii") for data in self._arrays]
        return {"arrays": arrays, "drawings": self._drawings}

    def _place(self, value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        return self._arrays.setdefault(value.astype("<f4").tobytes(), len(self._arrays))


def render(template: str, **values: object) -> str:
    """Return the HTML of a template; see `parts`."""
    return "".join(parts(template, **values))


def parts(template: str, **values: object) -> Iterator[str]:
    """Return the HTML of a template, part after part; the same values give the same bytes.

    Args:
        template: Path of its file within the package, such as `display/page.html.jinja`; of one
            in another package after its name and a colon.
        values: What it shows by name, beside `drawings`, which gathers the numbers of its plots and
            scenes, and `version`; a name that it does not find raises `jinja2.UndefinedError`.
    """
    package, _, path = template.rpartition(":")
    return (
        _environment(package or "heft").get_template(path).generate(drawings=Drawings(), **values)
    )


@cache
def _environment(package: str = "heft") -> Environment:
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=ChoiceLoader([PackageLoader(p, "") for p in dict.fromkeys((package, "heft"))]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=_shown,
    )
    made.policies["json.dumps_kwargs"] = JSON
    made.policies["json.dumps_function"] = _dumped
    made.globals |= {
        "version": __version__,
        "asset": _asset,
        "policy": _policy,
        "split_sum": split_sum,
    }
    return made


def _shown(value: Any) -> Any:
    """Return a value as a page shows it, control and bidirectional characters escaped."""
    return visible_lines(value) if type(value) is str else value


def _dumped(value: object, **settings: Any) -> str:
    """Return JSON in whose texts control and bidirectional characters are escaped."""
    text = json.dumps(value, **settings)
    if text.isprintable():
        return text
    return "".join(c if visible(c) == c else f"\\{visible(c)}" for c in text)


def _asset(path: str) -> Markup:
    from markupsafe import Markup

    return Markup(resources.files("heft").joinpath(path).read_text(encoding="utf-8").strip())


def _policy(styles: Iterable[str], scripts: Iterable[str], connect: str) -> Markup:
    """Return the Content-Security-Policy of a page with these styles and scripts in it.

    Args:
        connect: From where its scripts may ask for more: `'none'` or `'self'`.
    """
    from markupsafe import Markup

    return Markup(
        f"default-src 'none'; style-src {_hashes(styles)}; script-src {_hashes(scripts)}; "
        f"img-src data:; connect-src {connect}; base-uri 'none'; form-action 'none'"
    )


def policy_of(page: str) -> str:
    """Return the Content-Security-Policy of a page, to be sent as a header too."""
    policy = POLICY.search(page)
    assert policy is not None  # base.html.jinja has one
    return policy[1]


def _hashes(texts: Iterable[str]) -> str:
    digests = (hashlib.sha256(text.encode()).digest() for text in texts)
    return " ".join(f"'sha256-{base64.b64encode(d).decode('ascii')}'" for d in digests)
