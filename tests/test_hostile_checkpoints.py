"""Checkpoints made to harm, with a right hash: refused field by field, or harmless."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from heft.applications.payload import checkpoint
from heft.applications.payload.node import NodeState, load_estimate
from heft.errors import InvalidSetting
from tests.test_cli import ENVIRONMENT
from tests.test_live import NODE, as_piece, cut, fed
from tests.test_running import setup
from tests.wrists import sensed

PIECES = cut(as_piece(sensed(1700)))
Content = dict[str, Any]


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> Content:
    state, _ = fed(PIECES[:60])
    path = tmp_path_factory.mktemp("kept") / "kept"
    checkpoint.save(path, NODE, state)
    return json.loads(path.read_text().split("\n")[1])


def written(path: Path, content: object) -> Path:
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}\n")
    return path


def load(folder: Path, content: object) -> NodeState:
    return checkpoint.load(written(folder / "kept", content), NODE)


def rows(content: Content, change: Callable[[Any], Any]) -> None:
    content["filter"]["waiting"] = change(content["filter"]["waiting"])


def factor(content: Content, change: Callable[[Any], Any]) -> None:
    content["filter"]["factor"] = change(np.array(content["filter"]["factor"])).tolist()


CHANGES: dict[str, Callable[[Content], object]] = {
    "waiting of other columns": lambda c: rows(c, lambda w: [[r[:5] for r in b] for b in w]),
    "waiting of other rows": lambda c: rows(c, lambda w: [b[:2] for b in w]),
    "waiting that is flat": lambda c: rows(c, lambda w: [w[0][0]]),
    "waiting that is ragged": lambda c: w_ragged(c),
    "too many blocks": lambda c: rows(c, lambda w: w * 100),
    "blocks of huge numbers": lambda c: rows(c, lambda w: [[[1e300] * 17] * 6]),
    "a factor of NaN": lambda c: factor(c, lambda f: f * np.nan),
    "a factor of another size": lambda c: factor(c, lambda f: f[:-1, :-1]),
    "a factor that is singular": lambda c: factor(c, lambda f: np.zeros_like(f)),
    "a factor that is nearly singular": lambda c: factor(c, lambda f: f * 1e-200),
    "a factor of both triangles": lambda c: factor(c, lambda f: f + f.T),
    "an unknown field": lambda c: c.update(more=1),
    "an unknown field inside": lambda c: c["filter"].update(more=1),
    "no noise": lambda c: c.update(noise=[0.0, 0.0]),
    "noise of three": lambda c: c.update(noise=[1.0, 1.0, 1.0]),
    "a rate without end": lambda c: c.update(rate=1e300),
    "a rate that is none": lambda c: c.update(rate=0),
    "an epoch beyond all": lambda c: c.update(epoch=2**63),
    "an epoch in parts": lambda c: c.update(epoch=1.5),
    "a schema of today's truth": lambda c: c.update(schema=True),
    "more doubts than are had": lambda c: c["filter"].update(doubted=99),
    "skipping for ever": lambda c: c["filter"].update(skipping=2**60),
    "a table for a list": lambda c: c.update(filter=[1, 2]),
}


def w_ragged(content: Content) -> None:
    content["filter"]["waiting"][0][3].pop()


@pytest.mark.parametrize("kind", CHANGES)
def test_a_right_hash_opens_no_wrong_content(kind: str, content: Content, tmp_path: Path) -> None:
    changed = copy.deepcopy(content)
    CHANGES[kind](changed)
    assert changed != content or kind.startswith("a schema")
    with pytest.raises(InvalidSetting, match="nothing can be resumed"):
        load(tmp_path, changed)


TEXTS = {
    "no table": "[1]",
    "no JSON": "{",
    "nothing": "",
    "nested without end": "[" * 200_000,
    "digits without end": '{"schema": ' + "1" * 5000 + "}",
    "large": '{"schema": "' + "x" * checkpoint.LARGEST + '"}',
    "half a surrogate": '{"schema": "\\ud800"}',
}


@pytest.mark.parametrize("kind", TEXTS)
def test_a_right_hash_opens_no_other_text(kind: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="nothing can be resumed") as caught:
        load(tmp_path, TEXTS[kind])
    assert str(caught.value).replace("\n", "").isprintable()


def leaves(value: object, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the places of a content, of long lists the first and the last."""
    yield place
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, (*place, name))
    elif isinstance(value, list) and value:
        for k in {0, len(value) - 1}:
            yield from leaves(value[k], (*place, k))


ILL = (None, True, -1, 0, 1, 10**30, 0.5, -1e300, float("nan"), "1", [], [1.0], {}, {"a": 1})


def put(content: object, place: tuple[Any, ...], value: object) -> object:
    if not place:
        return value
    made = copy.copy(content)
    made[place[0]] = put(content[place[0]], place[1:], value)  # type: ignore[index]
    return made


def test_whatever_stands_in_a_field_is_refused_or_gone_on_from(
    content: Content, tmp_path: Path
) -> None:
    accepted = 0
    for place in leaves(content):
        for value in ILL:
            try:
                state = load(tmp_path, put(content, place, value))
            except InvalidSetting:
                continue
            accepted += 1
            load_estimate(state)
            after, _ = fed(PIECES[60:62], state=state)
            load_estimate(after)
    assert accepted < 100  # such as other counts, and another mass that was told


def test_nothing_is_written_that_cannot_be_read(content: Content, tmp_path: Path) -> None:
    state = load(tmp_path, content)
    assert state.load is not None
    state.load.filter.factor[0, 0] = np.nan
    before = (tmp_path / "kept").read_bytes()
    with pytest.raises(ValueError, match="JSON"):
        checkpoint.save(tmp_path / "kept", NODE, state)
    assert (tmp_path / "kept").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["kept"]


PLACES: dict[str, Callable[[Path], object]] = {
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a folder": Path.mkdir,
    "a circle of links": lambda path: path.symlink_to(path.name),
    "a pipe": os.mkfifo,
}
REFUSED = ("nothing can be resumed", "no place for results", "is not replaced")


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    """By one process, which would wait for ever for what a pipe holds."""
    setup(tmp_path, 100)
    for kind, make in PLACES.items():
        make(tmp_path / kind)
    live = ["heft", "payload", "--live", "--sensor", "wrist.toml", "--replay", "grasp.npz"]
    program = f"""
import sys
from heft.cli import main
for place in {list(PLACES)!r}:
    print(place, file=sys.stderr)
    sys.argv = [*{live!r}, "--checkpoint", place]
    try:
        main()
    except SystemExit as ended:
        print(ended.code)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=60.0,
        check=False,
    )
    assert done.stdout.split() == ["2"] * len(PLACES), done.stderr
    assert "Traceback" not in done.stderr
    told = re.split("^(?:" + "|".join(PLACES) + ")\n", done.stderr, flags=re.M)[1:]
    assert len(told) == len(PLACES)
    assert all(any(words in text for words in REFUSED) for text in told)
